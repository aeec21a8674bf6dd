package keystore_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
)

func entry(role grants.Role, id string) keystore.Entry {
	return keystore.Entry{Role: role, ID: id, Keys: []credential.Key{{Public: "U" + id, Issued: time.Now()}}}
}

func TestOnePartyGetsOneCredential(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []struct {
		role  grants.Role
		id    string
		again bool
		name  string
		want  error
	}{
		{grants.RolePeel, "web.01", false, "web_01", nil},
		{grants.RolePeel, "web.01", false, "", keystore.ErrIssued},
		{grants.RolePeel, "web.01", true, "web_01", nil},
		{grants.RolePeel, "web_01", false, "", keystore.ErrTaken},
		{grants.RolePeel, "web_01", true, "", keystore.ErrTaken},
		{grants.RolePeel, "web-01", false, "web-01", nil},
		{grants.RolePeel, "new", true, "new", nil}, // again does not need a first
		{grants.RolePeel, "new", false, "", keystore.ErrIssued},
		{grants.RoleOperator, "ada", false, "ada", nil},
		{grants.RoleOperator, "ada", false, "", keystore.ErrIssued},
		{grants.RoleAuditor, "ada", false, "", keystore.ErrIssued}, // to masters a name is who asks, whatever the role
		{grants.RoleLimited, "ada", true, "", keystore.ErrIssued},
		{grants.RoleMaster, "ada", false, "ada", nil},
	} {
		name, err := keystore.Register(dir, entry(step.role, step.id), step.again)
		if name != step.name || !errors.Is(err, step.want) || step.want == nil && err != nil {
			t.Errorf("%s %s, again %v: %q, %v; want %q, %v", step.role, step.id, step.again, name, err, step.name, step.want)
		}
	}
	for _, bad := range []string{"", "*", "a b", "../x", "a/b", strings.Repeat("a", 129)} {
		if _, err := keystore.Register(dir, entry(grants.RolePeel, bad), false); err == nil {
			t.Errorf("%q is registered", bad)
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 || strings.HasPrefix(d.Name(), ".") {
			t.Errorf("%s: mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOfManyAtOnceOneIsRegistered(t *testing.T) {
	dir := t.TempDir()
	var first atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			id := []string{"web.01", "web_01"}[i%2]
			switch _, err := keystore.Register(dir, entry(grants.RolePeel, id), false); {
			case err == nil:
				first.Add(1)
			case !errors.Is(err, keystore.ErrIssued) && !errors.Is(err, keystore.ErrTaken):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := first.Load(); n != 1 {
		t.Errorf("%d were registered", n)
	}
}

// A key that is not in the register could not be revoked.
func TestOfManyThatIssueAgainNoKeyIsForgotten(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	keys := map[string]bool{}
	for i := range 20 {
		public := fmt.Sprintf("key-%d", i)
		keys[public] = true
		all.Go(func() {
			more := keystore.Entry{Role: grants.RoleOperator, ID: "ada", Keys: []credential.Key{{Public: public, Issued: time.Now()}}}
			if _, err := keystore.Register(dir, more, true); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := keystore.Close(dir, keystore.Entry{Role: grants.RoleOperator, ID: "ada", Revoked: time.Now()}); err != nil { // who knew of none of them
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "issued", "user.ada.json"))
	if err != nil {
		t.Fatal(err)
	}
	var known keystore.Entry
	if err := json.Unmarshal(data, &known); err != nil {
		t.Fatal(err)
	}
	for _, k := range known.Keys {
		delete(keys, k.Public)
	}
	if len(keys) > 0 {
		t.Errorf("not in the register: %v", keys)
	}
}

func TestKeysOpenBesideTheRegister(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	first := issuer(t, open(t, dir))
	if _, err := keystore.Register(dir, entry(grants.RolePeel, "web-01"), false); err != nil {
		t.Fatal(err)
	}
	if issuer(t, open(t, dir)) != first {
		t.Error("the keys are others")
	}
}

// TestTwoCopiesOfAnEntryJoin: what a folder of keys knows of a revocation, a restore of an older copy keeps.
func TestTwoCopiesOfAnEntryJoin(t *testing.T) {
	revoked := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
	older := encoded(t, keystore.Entry{Role: grants.RoleOperator, ID: "ada"})
	newer := encoded(t, keystore.Entry{Role: grants.RoleOperator, ID: "ada", Revoked: revoked, EndsMade: true})
	for _, pair := range [][2][]byte{{older, newer}, {newer, older}} {
		joined, err := keystore.Join("issued/ada.json", pair[0], pair[1])
		var entry keystore.Entry
		if err := errors.Join(err, json.Unmarshal(joined, &entry)); err != nil {
			t.Fatal(err)
		}
		if !entry.Revoked.Equal(revoked) || !entry.EndsMade {
			t.Errorf("%s and %s join to %s", pair[0], pair[1], joined)
		}
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
