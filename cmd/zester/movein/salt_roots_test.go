package movein

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// linked returns a root with files and links: one of each to a file and to a directory, inside and outside.
func linked(t *testing.T) fs.FS {
	t.Helper()
	dir, outside := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "shadow"), []byte("root:$6$abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, below := range []string{"real", "whole", "into", "out"} {
		if err := os.Mkdir(filepath.Join(dir, below), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "real", "f"), []byte("served\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"inside":   "real/f",
		"absolute": filepath.Join(dir, "real", "f"),
		"dir":      "real",
		"escape":   filepath.Join(outside, "shadow"),
		"dots":     "../" + filepath.Base(outside) + "/shadow",
		"far":      outside,
		"loop":     "loop",
		"gone":     "nothing",
		"whole/a":  "../real/f",
		"into/d":   "../real",
		"out/a":    filepath.Join(outside, "shadow"),
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(outside, "roots") // the directory may be a link itself
	if err := os.Symlink(dir, name); err != nil {
		t.Fatal(err)
	}
	root, err := OpenRoot(name)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// A link is followed if it leads to what Salt serves. What another one leads to is not in the repo, and the reason says
// what to do.
func TestLinksLeadOutOfNoRoot(t *testing.T) {
	t.Parallel()
	root := linked(t)
	for _, c := range []struct{ args, file, reason string }{
		{`"fun": "managed", "source": "salt://inside"`, "files/inside", ""},
		{`"fun": "managed", "source": "salt://absolute"`, "files/absolute", ""},
		{`"fun": "managed", "source": "salt://dir/f"`, "files/dir/f", ""},
		{`"fun": "recurse", "source": "salt://dir"`, "files/dir/f", ""},
		{`"fun": "recurse", "source": "salt://whole"`, "files/whole/a", ""},
		{`"fun": "managed", "source": "salt://escape"`, "", "argument source: " + leadsOut},
		{`"fun": "managed", "source": "salt://dots"`, "", "argument source: " + leadsOut},
		{`"fun": "managed", "source": "salt://far/shadow"`, "", "argument source: " + leadsOut},
		{`"fun": "managed", "source": "salt://loop"`, "", "argument source: " + leadsOut},
		{`"fun": "managed", "source": ["salt://escape", "salt://inside"]`, "files/inside", ""},
		{`"fun": "managed", "source": "salt://gone"`, "", "argument source: a file that is not below --roots"},
		{`"fun": "managed", "source": "salt://real"`, "", "argument source: a directory, where one file is wanted"},
		{`"fun": "recurse", "source": "salt://far"`, "", "argument source: " + leadsOut},
		{`"fun": "recurse", "source": "salt://out"`, "", "argument source: " + leadsOut},
		{`"fun": "recurse", "source": "salt://into"`, "", "argument source: a directory with a link to another one: copy it in the place of the link"},
		{`"fun": "recurse", "source": "salt://whole", "keep_symlinks": true`, "", "argument keep_symlinks: a directory with links: give each as file.symlink"},
	} {
		h := low(t, `[{"__sls__": "s", "__id__": "x", "name": "/srv/a/b", "state": "file", `+c.args+`}]`)
		r, err := Salt(SaltInput{Hosts: []Minion{h}, Roots: []fs.FS{root}})
		if err != nil {
			t.Fatal(c.args, err)
		}
		for name, text := range r.Files {
			if strings.Contains(string(text), "root:") {
				t.Errorf("%s: %s has a file of the host", c.args, name)
			}
		}
		if c.reason == "" && string(r.Files[c.file]) != "served\n" {
			t.Errorf("%s: %v, files %v", c.args, r.Refused, r.Files)
		}
		if c.reason != "" && (len(r.Refused) != 1 || r.Refused[0].Reason != c.reason) {
			t.Errorf("%s: %v, want %s", c.args, r.Refused, c.reason)
		}
	}
}

// forbidden is a directory whose files the person may not read.
type forbidden struct{}

func (forbidden) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestAFileThatMayNotBeReadLeavesItsDeclarationAlone(t *testing.T) {
	t.Parallel()
	h := low(t, `[{"__sls__": "s", "__id__": "x", "name": "/srv/a", "state": "file", "fun": "managed", `+
		`"source": "salt://a"}, {"__sls__": "s", "__id__": "y", "name": "/srv/b", "state": "file", "fun": "directory"}]`)
	r, err := Salt(SaltInput{Hosts: []Minion{h}, Roots: []fs.FS{forbidden{}}})
	if err != nil || len(r.Refused) != 1 || r.Refused[0].Reason != "argument source: a file of --roots that you may not read" {
		t.Errorf("%v, %v", r.Refused, err)
	}
}

// A link that leads out says so, and is neither absent nor read.
func TestTheErrorOfALinkThatLeadsOut(t *testing.T) {
	t.Parallel()
	_, err := linked(t).Open("escape")
	if err == nil || err.Error() != "open escape: it leads out of the directory by a symbolic link" {
		t.Error(err)
	}
}

// Nothing is opened that could wait for a writer, or do something when it is read.
func TestNeitherFilesNorDirectoriesOfARoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	root, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := root.Open("pipe"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a pipe gives %v, %v", f, err)
	}
}

// A file that one minion sent to the master is used for no other minion, also if a link leads there.
func TestPushedFilesLeadOutOfNoRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "web-01", "files"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "web-01", "files", "f")); err != nil {
		t.Fatal(err)
	}
	root, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := (&sources{pushed: root}).rendered("web-01", "/f"); ok {
		t.Errorf("a link out of the cache gives %q", text)
	}
}
