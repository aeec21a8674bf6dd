//go:build linux

package safefs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// home makes a directory of a user that is not trusted, which needs root.
func home(t *testing.T, root string, uid int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	dir := filepath.Join(root, "home")
	must(t, os.Mkdir(dir, 0o755))
	must(t, os.Chown(dir, uid, uid))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// temp returns a directory whose path holds no link.
func temp(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return dir
}

func write(t *testing.T, name, content string) {
	t.Helper()
	d, base, err := Parent(name)
	must(t, err)
	defer d.Close()
	s, err := d.Stage(base, []byte(content), Attributes{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mode: 0o640})
	must(t, err)
	must(t, s.Commit())
}

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	dir := temp(t)
	name := filepath.Join(dir, "f")
	must(t, os.WriteFile(name, []byte("old"), 0o600))
	xattr := unix.Setxattr(name, "user.note", []byte("kept"), 0)
	capability := unix.Setxattr(name, "security.capability", append([]byte{1, 0, 0, 2, 0, 4}, make([]byte, 14)...), 0)
	old, err := os.Open(name)
	must(t, err)
	defer old.Close()
	write(t, name, "new")
	got, err := os.ReadFile(name)
	if err != nil || string(got) != "new" {
		t.Errorf("the file holds %q, %v", got, err)
	}
	if info, _ := os.Stat(name); info.Mode().Perm() != 0o640 {
		t.Errorf("its mode is %v", info.Mode())
	}
	if b := make([]byte, 8); true { // whoever has the old file open reads the old content
		if n, _ := old.ReadAt(b, 0); string(b[:n]) != "old" {
			t.Errorf("the old file holds %q", b[:n])
		}
	}
	if xattr == nil {
		b := make([]byte, 16)
		if n, err := unix.Getxattr(name, "user.note", b); err != nil || string(b[:n]) != "kept" {
			t.Errorf("the attribute is %q, %v", b[:max(n, 0)], err)
		}
	}
	if capability == nil { // it was given to the old program
		if _, err := unix.Getxattr(name, "security.capability", nil); err != unix.ENODATA {
			t.Errorf("the new file has the rights of the old program: %v", err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("files are left: %v", left)
	}
}

func TestAStagedFileThatIsDiscardedLeavesNothing(t *testing.T) {
	dir := temp(t)
	d, err := Open(dir)
	must(t, err)
	defer d.Close()
	s, err := d.Stage("f", []byte("x"), Attributes{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mode: 0o644})
	must(t, err)
	if _, err := os.Stat(s.Path()); err != nil {
		t.Error(err)
	}
	s.Discard()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestSetuidSurvivesTheChangeOfTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := temp(t)
	d, err := Open(dir)
	must(t, err)
	defer d.Close()
	s, err := d.Stage("f", nil, Attributes{UID: 65534, GID: 65534, Mode: 0o4755})
	must(t, err)
	must(t, s.Commit())
	if info, err := d.Stat("f"); err != nil || info.Mode != 0o4755 || info.UID != 65534 {
		t.Errorf("the file is %+v, %v", info, err)
	}
}

func TestLinksOfRootAreFollowedAndOthersAreNot(t *testing.T) {
	dir := temp(t)
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	must(t, os.Symlink("real", filepath.Join(dir, "link")))
	must(t, os.Symlink("loop", filepath.Join(dir, "loop")))
	d, err := Open(filepath.Join(dir, "link"))
	must(t, err)
	if d.Path() != filepath.Join(dir, "real") {
		t.Errorf("the path is %s", d.Path())
	}
	d.Close()
	if _, err := Open(filepath.Join(dir, "loop")); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
	// The last component is never followed.
	must(t, os.Symlink("real", filepath.Join(dir, "last")))
	write(t, filepath.Join(dir, "last"), "a file now")
	if info, _ := os.Lstat(filepath.Join(dir, "last")); !info.Mode().IsRegular() {
		t.Errorf("the link is %v", info.Mode())
	}

	h := home(t, dir, 1234)
	must(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(h, "to")))
	must(t, os.Lchown(filepath.Join(h, "to"), 1234, 1234))
	if _, err := Open(filepath.Join(h, "to")); !isUnsafe(err) {
		t.Errorf("a link of a user: %v", err)
	}
}

func isUnsafe(err error) bool {
	_, ok := errors.AsType[*UnsafeError](err)
	return ok
}

func TestAUserDirectsRootToFilesOfTheUserAlone(t *testing.T) {
	dir := temp(t)
	h := home(t, dir, 1234)
	must(t, os.Mkdir(filepath.Join(h, "own"), 0o755))
	must(t, os.Chown(filepath.Join(h, "own"), 1234, 1234))
	must(t, os.MkdirAll(filepath.Join(h, "roots", "x"), 0o755)) // as if a member of its group had moved it there
	must(t, os.Chmod(filepath.Join(h, "roots"), 0o775))
	must(t, os.Mkdir(filepath.Join(h, "thirds"), 0o755))
	must(t, os.Chown(filepath.Join(h, "thirds"), 4321, 4321))
	d, err := Open(filepath.Join(h, "own"))
	must(t, err)
	d.Close()
	for _, name := range []string{"roots", "thirds"} {
		if _, err := Open(filepath.Join(h, name)); !isUnsafe(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "shadow"), []byte("secret"), 0o600))
	must(t, os.Link(filepath.Join(dir, "shadow"), filepath.Join(h, "shadow")))
	d, err = Open(h)
	must(t, err)
	defer d.Close()
	if _, err := d.Read("shadow", 100); !isUnsafe(err) {
		t.Errorf("a file of root in the directory of a user is read: %v", err)
	}
	if err := d.Own("shadow", Attributes{UID: 1234, GID: 1234, Mode: 0o666}); !isUnsafe(err) {
		t.Errorf("its owner is changed: %v", err)
	}
}

func TestRootMayWorkInTheDirectoryOfAUser(t *testing.T) {
	h := home(t, temp(t), 1234)
	d, err := Open(h)
	must(t, err)
	defer d.Close()
	must(t, d.Mkdir("html", Attributes{UID: 1234, GID: 1234, Mode: 0o750}))
	sub, err := Open(filepath.Join(h, "html"))
	must(t, err)
	sub.Close()
	write(t, filepath.Join(h, "roots"), "a file of root")
	if data, err := d.Read("roots", 100); err != nil || string(data) != "a file of root" {
		t.Errorf("%q, %v", data, err)
	}
	must(t, d.Own("roots", Attributes{UID: 0, GID: 0, Mode: 0o600}))
	must(t, os.Mkdir(filepath.Join(h, "new"), 0o700)) // a run was killed before it changed the owner
	must(t, d.Own("new", Attributes{UID: 1234, GID: 1234, Mode: 0o755}))
	must(t, os.Mkdir(filepath.Join(h, "other"), 0o700))
	write(t, filepath.Join(h, "other", "secret"), "of root")
	write(t, filepath.Join(h, "other", "secret"), "of root, again")
	if err := d.Own("other", Attributes{UID: 1234, GID: 1234, Mode: 0o755}); !isUnsafe(err) {
		t.Errorf("a directory with a file of root got another owner: %v", err)
	}
}

// A member of the group of a directory has moved a directory of root to the path that a state is about.
func TestADirectoryOfRootThatAGroupMayMoveIsNotGivenAway(t *testing.T) {
	srv := home(t, temp(t), 0)
	must(t, os.Chmod(srv, 0o775|os.ModeSetgid))
	app := filepath.Join(srv, "app")
	must(t, os.Mkdir(app, 0o750))
	write(t, filepath.Join(app, "key"), "of root")
	d, err := Open(srv)
	must(t, err)
	defer d.Close()
	for _, a := range []Attributes{{UID: 1234, Mode: 0o750}, {GID: 1234, Mode: 0o750}, {Mode: 0o755}} {
		if err := d.Own("app", a); !isUnsafe(err) {
			t.Errorf("%+v: %v", a, err)
		}
	}
	must(t, d.Own("app", Attributes{Mode: 0o700}))
	must(t, d.Own(".", Attributes{GID: 1234, Mode: 0o2775}))
	must(t, os.Remove(filepath.Join(app, "key")))
	must(t, d.Own("app", Attributes{UID: 1234, Mode: 0o755}))
}

func TestADirectoryThatEverybodyWritesLeadsToNobodyElse(t *testing.T) {
	dir := temp(t)
	h := home(t, dir, 0)
	must(t, os.Chmod(h, 0o777)) // without the sticky bit
	must(t, os.Mkdir(filepath.Join(h, "evil"), 0o755))
	must(t, os.Chown(filepath.Join(h, "evil"), 1234, 1234))
	if _, err := Open(filepath.Join(h, "evil")); !isUnsafe(err) {
		t.Errorf("it leads to another's directory: %v", err)
	}
	must(t, os.Chmod(h, 0o777|os.ModeSticky))
	d, err := Open(filepath.Join(h, "evil")) // as /tmp/x
	must(t, err)
	d.Close()
	must(t, os.Symlink("/etc", filepath.Join(h, "link")))
	if _, err := Open(filepath.Join(h, "link")); !isUnsafe(err) {
		t.Errorf("a link in a directory that others write: %v", err)
	}
}

func TestRemoveAllFollowsNoLinkAndLeavesMounts(t *testing.T) {
	dir := temp(t)
	must(t, os.MkdirAll(filepath.Join(dir, "tree/a/b"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "keep"), []byte("x"), 0o600))
	must(t, os.Symlink(filepath.Join(dir, "keep"), filepath.Join(dir, "tree/a/link")))
	must(t, os.Symlink(dir, filepath.Join(dir, "tree/up")))
	must(t, unix.Mkfifo(filepath.Join(dir, "tree/fifo"), 0o600))
	d, err := Open(dir)
	must(t, err)
	defer d.Close()
	must(t, d.RemoveAll("tree"))
	must(t, d.RemoveAll("tree")) // a missing one is no error
	if left, _ := os.ReadDir(dir); len(left) != 1 || left[0].Name() != "keep" {
		t.Errorf("left: %v", left)
	}

	must(t, os.MkdirAll(filepath.Join(dir, "tree/mnt"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "keep"), []byte("x"), 0o600))
	if err := unix.Mount(dir, filepath.Join(dir, "tree/mnt"), "", unix.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer func() { must(t, unix.Unmount(filepath.Join(dir, "tree/mnt"), unix.MNT_DETACH)) }()
	if err := d.RemoveAll("tree"); err == nil || !strings.Contains(err.Error(), "something is mounted there") {
		t.Errorf("a bind mount: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "keep")); err != nil {
		t.Errorf("the mounted file system is emptied: %v", err)
	}
}

func TestAMountPointStaysWhole(t *testing.T) {
	dir := temp(t)
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("below"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "b"), []byte("mounted"), 0o600))
	if err := unix.Mount(filepath.Join(dir, "b"), filepath.Join(dir, "a"), "", unix.MS_BIND, ""); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	defer func() { must(t, unix.Unmount(filepath.Join(dir, "a"), unix.MNT_DETACH)) }()
	d, err := Open(dir)
	must(t, err)
	defer d.Close()
	s, err := d.Stage("a", []byte("new"), Attributes{Mode: 0o600})
	must(t, err)
	if err := s.Commit(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("a file that is a mount point: %v", err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "a")); string(got) != "mounted" {
		t.Errorf("it holds %q", got)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}

func TestDevicesAndPipesAreNotOpened(t *testing.T) {
	dir := temp(t)
	must(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	d, err := Open(dir)
	must(t, err)
	defer d.Close()
	if _, err := d.Read("fifo", 10); err == nil || !strings.Contains(err.Error(), "it is a device, socket or pipe") {
		t.Errorf("a pipe is read: %v", err)
	}
	if err := d.Symlink("fifo", "x", Absent); err == nil {
		t.Error("a link replaces a pipe")
	}
	if _, err := d.Read("none", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(dir, "large"), make([]byte, 11), 0o600))
	if _, err := d.Read("large", 10); err == nil || !strings.Contains(err.Error(), "more than 10 bytes") {
		t.Errorf("a large file: %v", err)
	}
	must(t, d.Symlink("link", "one", Absent))
	must(t, d.Symlink("link", "two", Absent))
	if info, err := d.Stat("link"); err != nil || info.Kind != Symlink || info.Target != "two" {
		t.Errorf("the link is %+v, %v", info, err)
	}
	names, err := d.List()
	if err != nil || !slices.Equal(names, []string{"fifo", "large", "link"}) {
		t.Errorf("%v, %v", names, err)
	}
}

func TestWhatACrashLeavesIsRemovedByTheNextWrite(t *testing.T) {
	dir := temp(t)
	d, err := Open(dir)
	must(t, err)
	defer d.Close()
	for range 3 { // neither is put at its place
		_, err := d.Stage("f", []byte("new"), Attributes{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mode: 0o600})
		must(t, err)
	}
	if names, _ := d.List(); len(names) != 1 {
		t.Errorf("the directory holds %v", names)
	}
	write(t, filepath.Join(dir, "f"), "new")
	if names, _ := d.List(); !slices.Equal(names, []string{"f"}) {
		t.Errorf("the directory holds %v", names)
	}
	// A directory with the name of the temporary file stops nothing.
	s, err := d.Stage("f", nil, Attributes{})
	must(t, err)
	s.Discard()
	must(t, os.Mkdir(s.Path(), 0o700))
	write(t, filepath.Join(dir, "f"), "newer")
}

func TestADirectoryIsExposedIfAnotherUserCanSwapWhatIsInItOrIt(t *testing.T) {
	dir := temp(t)
	h := home(t, dir, 1234)
	must(t, os.MkdirAll(filepath.Join(h, "roots"), 0o755)) // the user can put another directory in its place
	for name, mode := range map[string]os.FileMode{"safe": 0o755, "group": 0o775, "open": 0o777, "sticky": 0o777 | os.ModeSticky} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must(t, os.Chmod(filepath.Join(dir, name), mode))
		must(t, os.Mkdir(filepath.Join(dir, name, "sub"), 0o755))
	}
	must(t, os.Mkdir(filepath.Join(dir, "sticky", "users"), 0o755))
	must(t, os.Chown(filepath.Join(dir, "sticky", "users"), 1234, 1234))
	for name, want := range map[string]bool{
		"safe": false, "safe/sub": false, "group": true, "group/sub": true, "open": true, "open/sub": true,
		"sticky": true, "sticky/sub": false, "sticky/users": true, "home": true, "home/roots": true,
	} {
		d, err := Open(filepath.Join(dir, name))
		must(t, err)
		if d.Exposed() != want {
			t.Errorf("%s: %v, want %v", name, d.Exposed(), want)
		}
		d.Close()
	}
}
