//go:build linux

package host

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestAPlannedOwnerReadsNoContent: a test that only changes the owner or mode of files takes no memory by their sizes.
func TestAPlannedOwnerReadsNoContent(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := dir + "/large"
	if err := os.WriteFile(name, []byte("begin"), 0o644); err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	w := New()
	info, err := w.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	info.Mode = 0o600
	w.SetInfo(name, info)
	runtime.ReadMemStats(&after)
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
		t.Errorf("%d bytes were taken", taken)
	}
	if got, err := w.Stat(name); err != nil || got.Mode != 0o600 || got.Size != size {
		t.Errorf("%+v, %v", got, err)
	}
	// The content is still that of the host, until a step plans another.
	if err := os.Truncate(name, 5); err != nil {
		t.Fatal(err)
	}
	if data, err := w.Read(name, 100); err != nil || string(data) != "begin" {
		t.Errorf("%q, %v", data, err)
	}
	w.SetFile(name, info, []byte("other"))
	w.SetInfo(name, info)
	if data, err := w.Read(name, 100); err != nil || string(data) != "other" {
		t.Errorf("%q, %v", data, err)
	}
}

// The scripts of a package make accounts, of which its lists say nothing.
func TestAnAccountThatAPlannedPackageMayMakeIsUnknown(t *testing.T) {
	ctx := t.Context()
	w := New()
	w.RemovePackage("zt-old", PackageFiles{}, true)
	if u, err := w.User(ctx, "zt-nobody"); err != nil || u.Exists {
		t.Errorf("no package comes: %+v, %v", u, err)
	}
	w.SetPackage("zt-new", "1.0")
	_, errUser := w.User(ctx, "zt-nobody")
	_, errGroup := w.Group(ctx, "zt-nobody")
	for kind, err := range map[string]error{"user": errUser, "group": errGroup} {
		want := "there is no " + kind + ` "zt-nobody" on this host; ` +
			"a package such as zt-new, which would be installed, may bring it"
		if _, ok := errors.AsType[*UnknownError](err); !ok || err.Error() != want {
			t.Errorf("%s: %v, want %s", kind, err, want)
		}
	}
	if u, err := w.User(ctx, "root"); err != nil || !u.Exists {
		t.Errorf("an account that is there: %+v, %v", u, err)
	}
	w.SetUser(User{Name: "zt-nobody", Exists: true})
	if u, err := w.User(ctx, "zt-nobody"); err != nil || !u.Exists {
		t.Errorf("an account that a step makes: %+v, %v", u, err)
	}
}

func TestAUserWhomAPlannedStepRemovesHasNoMainGroup(t *testing.T) {
	w := New()
	w.SetUser(User{Name: "root"})
	w.SetUser(User{Name: "zt-new", Exists: true, GID: 1234})
	of, err := w.MainGroups()
	if err != nil {
		t.Fatal(err)
	}
	if gid, ok := of["root"]; ok {
		t.Errorf("the removed user has the group %d", gid)
	}
	if of["zt-new"] != 1234 {
		t.Errorf("the new user has the group %d", of["zt-new"])
	}
}
