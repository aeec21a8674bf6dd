package private

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mode(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

// tree makes base/a/b, both of mode 0700.
func tree(t *testing.T) (base, a, b string) {
	t.Helper()
	base = t.TempDir()
	a = filepath.Join(base, "a")
	b = filepath.Join(a, "b")
	if err := os.MkdirAll(b, 0o700); err != nil {
		t.Fatal(err)
	}
	return base, a, b
}

func wantRefused(t *testing.T, dir string, want ...string) {
	t.Helper()
	for name, f := range map[string]func(string) error{"Check": Check, "Make": Make} {
		err := f(dir)
		if err == nil {
			t.Errorf("%s takes %s", name, dir)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", name, err, part)
			}
		}
	}
}

func TestADirectoryThatOthersMayWriteToHoldsNoKeysBelowIt(t *testing.T) {
	_, a, b := tree(t)
	for _, open := range []os.FileMode{0o770, 0o707, 0o777, 0o720} {
		mode(t, a, open)
		wantRefused(t, filepath.Join(b, "new", "keys"), "chmod go-w "+a)
		wantRefused(t, a, "chmod go-w "+a)
	}
	mode(t, a, 0o777|os.ModeSticky) // as /tmp
	if err := Make(filepath.Join(b, "new", "keys")); err != nil {
		t.Error(err)
	}
	mode(t, a, 0o755)
	if err := Make(b); err != nil {
		t.Error(err)
	}
}

func TestADirectoryOfAnotherUserHoldsNoKeysBelowIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives directories to another user")
	}
	base, a, b := tree(t)
	const nobody = 65534
	if err := os.Chown(a, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, filepath.Join(b, "keys"), a+" belongs to user 65534", "runuser -u USER")
	if _, err := os.Stat(filepath.Join(b, "keys")); !os.IsNotExist(err) {
		t.Error("the directory was made")
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(b, link); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, link, a+" belongs to user 65534")
	if err := os.Chown(a, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := Make(link); err != nil {
		t.Error(err)
	}
	if err := os.Lchown(link, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, link, link+" belongs to user 65534")
}

func TestRootReadsWhatOneOtherUserOwns(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives directories to other users")
	}
	const service, stranger = 65534, 65533

	own := func(t *testing.T, uid int, paths ...string) {
		t.Helper()
		for _, path := range paths {
			if err := os.Lchown(path, uid, uid); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name    string
		change  func(t *testing.T, base, a, b string)
		refused string
	}{
		{"all of it is the service's", func(*testing.T, string, string, string) {}, ""},
		{"root has put a file there", func(t *testing.T, _, _, b string) { own(t, 0, b) }, ""},
		{"a second user owns a part", func(t *testing.T, _, _, b string) { own(t, stranger, b) }, "belongs to user 65533"},
		{"others may write to a part", func(t *testing.T, _, _, b string) { mode(t, b, 0o777) }, "others may write to"},
		{"others may make the directory", func(t *testing.T, base, _, _ string) { mode(t, base, 0o777|os.ModeSticky) }, "belongs to user 65534"},
		{"a link below it", func(t *testing.T, _, _, b string) {
			if err := os.Remove(b); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("/root", b); err != nil {
				t.Fatal(err)
			}
			own(t, service, b)
		}, "is a symbolic link in a directory of user 65534"},
	} {
		t.Run(c.name, func(t *testing.T) {
			base, a, b := tree(t)
			own(t, service, a, b)
			c.change(t, base, a, b)

			err := CheckRead(b)
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("CheckRead: %v, want %q", err, c.refused)
			}
			if err := Check(b); err == nil {
				t.Error("Check takes it too, so keys would be written there")
			}
		})
	}
}

func TestLinksOfAPathAreFollowedAndBounded(t *testing.T) {
	base, a, b := tree(t)
	mode(t, a, 0o777)
	link := filepath.Join(base, "link")
	if err := os.Symlink(filepath.Join("a", "b"), link); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, filepath.Join(link, "keys"), "chmod go-w "+a)
	loop := filepath.Join(base, "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, loop, "too many symbolic links")
	mode(t, a, 0o755)
	open := filepath.Join(a, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	mode(t, open, 0o777)
	if err := os.Symlink("../open", filepath.Join(b, "up")); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, filepath.Join(link, "up"), "chmod go-w "+open)
}

func TestAnEmptyDirectoryIsTakenOverAndNoOther(t *testing.T) {
	_, a, b := tree(t)
	mode(t, a, 0o755)
	mode(t, b, 0o755)
	for dir, want := range map[string]os.FileMode{b: 0o700, a: 0o755} { // a holds b
		if err := Make(dir); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
}

func TestSecretsAreReadFromAPrivateFileOfBoundedSizeOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(path string, limit int64) (string, error) {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		data, err := Read(f, limit)
		return string(data), err
	}
	if text, err := read(path, 6); text != "secret" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := read(path, 5); err == nil || err.Error() != "it has more than 5 bytes" {
		t.Errorf("a larger file: %v", err)
	}
	if _, err := read(filepath.Dir(path), 6); err == nil || !strings.Contains(err.Error(), "must be a file of mode 0600") {
		t.Errorf("a directory: %v", err)
	}
	for _, open := range []os.FileMode{0o640, 0o604, 0o620, 0o610} {
		mode(t, path, open)
		if _, err := read(path, 6); err == nil || !strings.Contains(err.Error(), "must be a file of mode 0600") {
			t.Errorf("mode %04o: %v", open, err)
		}
	}
}
