//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestAccountsAreReadAgainIfTheirFileIsAnotherOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "passwd")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	w := New()
	read := func(want string) *[]string {
		t.Helper()
		lines, err := w.entries(".." + file)
		if err != nil || len(lines) != 1 || lines[0][0] != want {
			t.Fatalf("%v, %v, want the account %s", lines, err, want)
		}
		return &lines[0]
	}
	put("ada:x:1000:1000::/home/ada:/bin/sh\n")
	if first := read("ada"); read("ada") != first {
		t.Error("the file is read again, though it is the same")
	}
	put("bob:x:1000:1000::/home/bob:/bin/sh\n")
	read("bob")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if lines, err := w.entries(".." + file); err == nil {
		t.Errorf("a file that is gone has the lines %v", lines)
	}
}
