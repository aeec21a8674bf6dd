//go:build linux

package file

import (
	"os"
	"strings"
	"testing"
)

func TestAFileIsReadAndNoLink(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"f": "12345", "large": strings.Repeat("x", maxRead+1)} {
		if err := os.WriteFile(dir+"/"+name, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("f", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"f": "file 12345", "link": "symbolic link ", "": "directory ", "none": "absent "} {
		at := strings.TrimSuffix(dir+"/"+name, "/")
		if d, content, err := Read(at); err != nil || d.Kind+" "+string(content) != want {
			t.Errorf("%q: %+v, %q, %v", name, d, content, err)
		}
	}
	if _, content, err := Read(dir + "/large"); err == nil || content != nil || !strings.Contains(err.Error(), "more than 262144 bytes") {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	if _, _, err := Read("f"); err == nil {
		t.Error("a relative path is read")
	}
}

// A user who puts a link in the place of a directory makes root read nothing that this user could not give.
func TestALinkOfAnotherUserLeadsNowhere(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of another user")
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/key", []byte("of root"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/home", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, dir+"/home/app"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{dir + "/home", dir + "/home/app"} {
		if err := os.Lchown(name, 4711, 4711); err != nil {
			t.Fatal(err)
		}
	}
	if d, content, err := Read(dir + "/home/app/key"); err == nil || content != nil {
		t.Errorf("%+v, %q", d, content)
	}
}
