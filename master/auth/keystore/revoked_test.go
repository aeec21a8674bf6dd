package keystore_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func newKey(t *testing.T) credential.NewKey {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// revocations returns the keys that the JWT of an account revokes.
func revocations(t *testing.T, account string) jwt.RevocationList {
	t.Helper()
	c, err := jwt.DecodeAccountClaims(account)
	if err != nil {
		t.Fatal(err)
	}
	return c.Revocations
}

// A revocation holds after a restart, until the credential would have ended.
func TestRevokedKeysStayRevoked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	k := open(t, dir)
	lasting, short, old := newKey(t).Public(), newKey(t).Public(), newKey(t).Public()
	now := time.Now()
	account, changed, err := k.Revoke(grants.RolePeel, map[string]credential.End{
		lasting:  {At: now},
		short:    {At: now, Expires: now.Add(time.Hour)},
		old:      {At: now, Expires: now.Add(-time.Second)},
		"no key": {At: now},
	})
	if got := revocations(t, account); err != nil || !changed || len(got) != 2 || got[lasting] == 0 || got[short] == 0 {
		t.Errorf("%v, %v, %v", got, changed, err)
	}
	again, changed, err := k.Revoke(grants.RolePeel, map[string]credential.End{lasting: {At: now}})
	if err != nil || changed || again != account {
		t.Errorf("revoked twice: %v, %v", changed, err)
	}
	k = open(t, dir)
	third := newKey(t).Public()
	account, changed, err = k.Revoke(grants.RolePeel, map[string]credential.End{third: {At: now}})
	if got := revocations(t, account); err != nil || !changed || len(got) != 3 || got[lasting] == 0 {
		t.Errorf("after a restart: %v, %v, %v", got, changed, err)
	}
	account, changed, err = k.Revoke(grants.RoleOperator, nil)
	if got := revocations(t, account); err != nil || changed || len(got) != 0 {
		t.Errorf("in another role: %v, %v, %v", got, changed, err)
	}
	if _, _, err := k.Revoke("root", nil); err == nil || !strings.Contains(err.Error(), `unknown role "root"`) {
		t.Errorf("%v", err)
	}
}

func TestJWTsAreCheckedByRoleSignerAndEnd(t *testing.T) {
	k, other := open(t, filepath.Join(t.TempDir(), "keys")), open(t, filepath.Join(t.TempDir(), "keys"))
	key := newKey(t).Public()
	issue := func(k *keystore.Keys, role grants.Role, ttl time.Duration) string {
		t.Helper()
		token, err := k.Issue(role, "m1", key, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	s, err := k.Check(grants.RoleMaster, issue(k, grants.RoleMaster, time.Hour))
	if err != nil || s.Name != "m1" || s.Public != key || time.Until(s.Expires) < 59*time.Minute || time.Since(s.Issued) > time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := k.Check(grants.RoleMaster, issue(k, grants.RoleMaster, 0)); err != nil || !s.Expires.IsZero() {
		t.Errorf("one that does not end: %+v, %v", s, err)
	}
	former := issue(k, grants.RoleMaster, time.Hour)
	for name, c := range map[string]struct {
		role  grants.Role
		token string
		err   string
	}{
		"another role":     {grants.RoleMaster, issue(k, grants.RolePeel, time.Hour), "no credential of a master"},
		"of other keys":    {grants.RoleMaster, issue(other, grants.RoleMaster, time.Hour), "no credential of a master"},
		"an unknown role":  {"root", former, `unknown role "root"`},
		"no JWT":           {grants.RoleMaster, "x", "cannot read the credential"},
		"a changed one":    {grants.RoleMaster, former[:len(former)-4] + "AAAA", "cannot read the credential"},
		"one that is over": {grants.RoleMaster, issue(k, grants.RoleMaster, time.Nanosecond), "the credential has ended"},
	} {
		if _, err := k.Check(c.role, c.token); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.err)
		}
	}
	// Servers accept the keys of before a rotation until they are dropped.
	if err := k.Rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Check(grants.RoleMaster, former); err != nil {
		t.Errorf("after a rotation: %v", err)
	}
}

func TestCredentialsOfSites(t *testing.T) {
	k, key := open(t, filepath.Join(t.TempDir(), "keys")), newKey(t).Public()
	many := func(n int, id string) []target.PeelID {
		all := make([]target.PeelID, n)
		for i := range all {
			all[i] = target.PeelID(id)
		}
		return all
	}
	token, err := k.IssueSite("berlin", key, []target.PeelID{"web-1.example", "web-2"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := k.Check(grants.RoleSite, token); err != nil || s.Name != "berlin" {
		t.Errorf("%+v, %v", s, err)
	}
	for name, c := range map[string]struct {
		peels []target.PeelID
		err   string
	}{
		"no peel":      {nil, "it has 0 peels"},
		"too many":     {many(grants.MaxSitePeels+1, "a"), "are possible"},
		"no ID":        {[]target.PeelID{"web-1", "*"}, "cannot sign a credential for the site"},
		"too long all": {many(grants.MaxSitePeels, strings.Repeat("a", 128)), "name fewer peels"},
	} {
		if _, err := k.IssueSite("berlin", key, c.peels, time.Hour); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.err)
		}
	}
}

func TestPartiesOfTheRegister(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	open(t, dir)
	if e, err := keystore.Registered(dir, grants.RoleMaster, "m1"); err != nil || e.ID != "" {
		t.Errorf("nobody is registered: %+v, %v", e, err)
	}
	for _, e := range []keystore.Entry{entry(grants.RoleMaster, "m1"), entry(grants.RoleMaster, "m2"), entry(grants.RoleOperator, "ada")} {
		if _, err := keystore.Register(dir, e, false); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := keystore.Registered(dir, grants.RoleMaster, "m1"); err != nil || e.ID != "m1" || len(e.Keys) != 1 {
		t.Errorf("%+v, %v", e, err)
	}
	for role, want := range map[grants.Role]int{grants.RoleMaster: 2, grants.RoleOperator: 1, grants.RoleAuditor: 1, grants.RolePeel: 0} {
		if all, err := keystore.Entries(dir, role); err != nil || len(all) != want {
			t.Errorf("%s: %+v, %v", role, all, err)
		}
	}
}
