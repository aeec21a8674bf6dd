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
		if d, content, err := Read(at, nil); err != nil || d.Kind+" "+string(content) != want {
			t.Errorf("%q: %+v, %q, %v", name, d, content, err)
		}
	}
	if _, content, err := Read(dir+"/large", nil); err == nil || content != nil || !strings.Contains(err.Error(), "more than 262144 bytes") {
		t.Errorf("%d bytes, %v", len(content), err)
	}
	if _, _, err := Read("f", nil); err == nil {
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
	if d, content, err := Read(dir+"/home/app/key", nil); err == nil || content != nil {
		t.Errorf("%+v, %q", d, content)
	}
}

func TestFilesOfThePeelAndOfAMasterAreNotRead(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"peel/outbox", "master/auth"} {
		if err := os.MkdirAll(dir+"/"+name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"peel/key", "peel/outbox/1", "master/run.id", "master/auth/op", "creds", "peel-2"} {
		if err := os.WriteFile(dir+"/"+name, []byte("key"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("peel", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(dir+"/creds", dir+"/creds-2"); err != nil {
		t.Fatal(err)
	}
	own := []string{dir + "/peel", dir + "/creds", dir + "/none"}
	for name, why := range map[string]string{
		"peel/key": "belongs to the peel", "peel/outbox/1": "belongs to the peel", "link/key": "belongs to the peel", "creds": "belongs to the peel",
		"creds-2": "belongs to the peel", "master/auth/op": "is the data directory of a master", "master/run.id": "is the data directory of a master",
	} {
		if _, content, err := Read(dir+"/"+name, own); content != nil || err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %q, %v", name, content, err)
		}
	}
	if _, content, err := Read(dir+"/peel-2", own); string(content) != "key" || err != nil {
		t.Errorf("%q, %v", content, err)
	}
}

// /proc/kmsg has no end: it waits for the next message of the kernel, and takes messages away from the log.
func TestFilesOfTheKernelAreNotRead(t *testing.T) {
	for _, name := range []string{"/proc/kmsg", "/proc/self/environ", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		if _, err := os.Lstat(name); err != nil {
			continue
		}
		_, content, err := Read(name, nil)
		if content != nil || err == nil {
			t.Errorf("%s: %d bytes, %v", name, len(content), err)
		}
	}
}
