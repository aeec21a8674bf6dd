package keystore_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
)

// movedInto returns the names that files get in a directory while f runs, in this order.
func movedInto(t *testing.T, dir string, f func()) (names []string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	f()
	events := make([]byte, 64<<10)
	n, err := unix.Read(fd, events)
	if err != nil {
		t.Fatal(err)
	}
	for events = events[:n]; len(events) > 0; {
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(events[12:]))
		// A name that begins with a dot is of a file that is not done.
		if name := string(bytes.TrimRight(events[unix.SizeofInotifyEvent:size], "\x00")); name[0] != '.' {
			names = append(names, name)
		}
		events = events[size:]
	}
	return names
}

// stateAfter is a directory of keys as a crash leaves it: as it was before, with the files of after that have their names
// already, and with one half written.
func stateAfter(t *testing.T, before, after string, done []string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	if err := os.CopyFS(dir, os.DirFS(before)); err != nil {
		t.Fatal(err)
	}
	for _, name := range done {
		data, err := os.ReadFile(filepath.Join(after, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".rotation.json123"), []byte(`{"gen`), 0o600); err != nil {
		t.Fatal(err)
	}
	private(t, dir)
	return dir
}

// credentials are one for each role.
func credentials(t *testing.T, k *keystore.Keys) map[grants.Role][]byte {
	t.Helper()
	all := map[grants.Role][]byte{}
	for _, role := range append(grants.Roles(), grants.RoleSite) {
		creds, err := k.Creds(role, "ann", 0)
		if err != nil {
			t.Fatal(err)
		}
		all[role] = creds
	}
	return all
}

// TestARotationThatIsCutShortLocksNobodyOut ends it after each file that it writes, in the order in which it does.
func TestARotationThatIsCutShortLocksNobodyOut(t *testing.T) {
	before, after := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "keys")
	old := credentials(t, open(t, before))
	if err := os.CopyFS(after, os.DirFS(before)); err != nil {
		t.Fatal(err)
	}
	private(t, after)
	rotated := open(t, after)
	written := movedInto(t, after, func() {
		if err := rotated.Rotate(); err != nil {
			t.Fatal(err)
		}
	})
	signers, err := filepath.Glob(filepath.Join(after, "signer-*.nk"))
	if err != nil || len(signers) < len(old) || len(written) != 1+len(signers) {
		t.Fatalf("a rotation of %v writes %v", signers, written)
	}
	for cut := range len(written) + 1 {
		dir := stateAfter(t, before, after, written[:cut])
		check := func(when string, good bool, creds map[grants.Role][]byte) {
			t.Helper()
			k := open(t, dir) // as a server and a master that start have them
			for role, c := range creds {
				if trusts(t, k, c) != good {
					t.Errorf("cut short after %d files, %s: the credential of the %s is trusted: %v", cut, when, role, !good)
				}
			}
		}
		k := open(t, dir)
		between := credentials(t, k)
		check("a former", true, old)
		check("one of then", true, between)
		if cut > 0 && !k.Dirty() {
			t.Errorf("cut short after %d files: who starts does not know that servers have to be told", cut)
		}
		whole := cut == len(written)
		if cut > 0 && !whole {
			if err := k.Retire(); !errors.Is(err, keystore.ErrCutShort) {
				t.Errorf("cut short after %d files, it is retired: %v", cut, err)
			}
		}
		if err := k.Rotate(); whole != errors.Is(err, keystore.ErrFormer) || !whole && err != nil {
			t.Fatalf("cut short after %d files, it is completed: %v", cut, err)
		}
		if r := open(t, dir).Rotation(); r.Generation != 1 {
			t.Errorf("cut short after %d files: it is rotation %d", cut, r.Generation)
		}
		check("a former, once completed", true, old)
		check("one of then, once completed", true, between)
		newest := credentials(t, open(t, dir))
		if err := k.Retire(); err != nil {
			t.Fatal(err)
		}
		check("a former, once retired", false, old)
		check("a new one, once retired", true, newest)
	}
}
