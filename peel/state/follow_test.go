//go:build linux

package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Layouts as deployments make them, with the users 1234 (deploy) and nobody. Without follow each is refused with what to
// do; with it the second run changes nothing.
func TestLayoutsOfOtherUsersAreUsedWithFollow(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	h := newHost(t)
	must(t, os.Chmod(h.dir, 0o755))
	dir := func(name string, uid, gid int, mode uint32) {
		t.Helper()
		must(t, os.MkdirAll(filepath.Join(h.dir, name), 0o755))
		must(t, os.Chown(filepath.Join(h.dir, name), uid, gid))
		must(t, unix.Chmod(filepath.Join(h.dir, name), mode))
	}
	link := func(name, target string, uid int) {
		t.Helper()
		must(t, os.Symlink(target, filepath.Join(h.dir, name)))
		must(t, os.Lchown(filepath.Join(h.dir, name), uid, uid))
	}
	dir("app", 1234, 1234, 0o755)
	dir("app/releases", 1234, 1234, 0o755)
	dir("app/releases/1", 1234, 1234, 0o755)
	link("app/current", "releases/1", 1234)
	dir("site", 0, 1234, 0o2775)
	dir("site/releases", 0, 1234, 0o2775)
	link("site/current", "releases", 0)
	dir("data/www", 1234, 1234, 0o755)
	link("www", "data/www", 0)
	link("app/shared", filepath.Join(h.dir, "data/www"), 1234)

	for name, layout := range map[string]struct{ call, made string }{
		"a link of deploy":           {"file.managed: {path: DIR/app/current/a.conf, content: x", "app/releases/1/a.conf"},
		"a line behind the link":     {"file.line: {path: DIR/app/current/lines, line: x", "app/releases/1/lines"},
		"a block behind the link":    {"file.block: {path: DIR/app/current/block, content: x, marker: m", "app/releases/1/block"},
		"a link behind the link":     {"file.symlink: {path: DIR/app/current/to, target: x", "app/releases/1/to"},
		"a directory behind it":      {"file.directory: {path: DIR/app/current/log/old, makedirs: true", "app/releases/1/log/old"},
		"a file of a third user":     {"file.managed: {path: DIR/app/upload, content: x, user: nobody", "app/upload"},
		"a link of root in 2775":     {"file.managed: {path: DIR/site/current/b.conf, content: x", "site/releases/b.conf"},
		"a link to a directory":      {"file.directory: {path: DIR/www, mode: '0750'", "data/www"},
		"a link of deploy to one":    {"file.directory: {path: DIR/app/shared, mode: '0700'", "data/www"},
		"a tree at a link":           {"file.recurse: {path: DIR/www, source: files/tree", "data/www/leaf"},
		"a tree at a link of deploy": {"file.recurse: {path: DIR/app/shared, source: files/tree2", "data/www/leaf2"},
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			h.r.o.Files.Tree = func(name string) ([]string, error) {
				return []string{map[string]string{"files/tree": "leaf", "files/tree2": "leaf2"}[name]}, nil
			}
			dir("files/tree", 0, 0, 0o755)
			dir("files/tree2", 0, 0, 0o755)
			must(t, os.WriteFile(h.dir+"/files/tree/leaf", []byte("x"), 0o644))
			must(t, os.WriteFile(h.dir+"/files/tree2/leaf2", []byte("x"), 0o644))
			strict, follow := "s: {"+layout.call+"}}", "s: {"+layout.call+", follow: true}}"
			refused := h.run(strict, false)
			if o := refused.States[0]; o.Result != Failed || !strings.Contains(o.Comment, "follow: true") {
				t.Errorf("without follow: %s: %s", o.Result, o.Comment)
			}
			h.wants(h.run(follow, true), "s: would_change intended")
			h.wants(h.run(follow, false), "s: changed intended")
			if _, err := os.Lstat(filepath.Join(h.dir, layout.made)); err != nil {
				t.Error(err)
			}
			h.wants(h.run(follow, false), "s: unchanged")
			h.wants(h.run(follow, true), "s: unchanged")
		})
	}
	// What is kept of a file behind a link of a user can be restored.
	h.t = t
	two := "s: {file.managed: {path: DIR/app/current/a.conf, content: two, follow: true}}"
	h.wants(h.run(two, false), "s: changed intended")
	_, err := h.r.Restore(t.Context(), h.dir+"/app/current/a.conf", 0)
	must(t, err)
	if got := h.read("app/releases/1/a.conf"); got != "x" {
		t.Errorf("the restored file has %q", got)
	}
	upload := "s: {file.managed: {path: DIR/app/upload, content: x, user: nobody, mode: '0600', follow: true}}"
	h.wants(h.run(upload, true), "s: would_change intended")
	h.wants(h.run(upload, false), "s: changed intended")
	h.wants(h.run(upload, false), "s: unchanged")
	// The user points the link elsewhere.
	dir("system", 0, 0, 0o755)
	must(t, os.Remove(h.dir+"/app/current"))
	link("app/current", filepath.Join(h.dir, "system"), 1234)
	o := h.run(two, false).States[0]
	if o.Result != Failed || !strings.Contains(o.Comment, "link of user 1234 to "+h.dir+"/system") {
		t.Errorf("%s: %s", o.Result, o.Comment)
	}
	if names, err := os.ReadDir(h.dir + "/system"); err != nil || len(names) > 0 {
		t.Errorf("the directory of root has %v, %v", names, err)
	}
}

func TestADirectoryOfRootInAHomeIsUsed(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make files of other users")
	}
	h := newHost(t)
	must(t, os.Mkdir(h.dir+"/home", 0o755))
	must(t, os.Chown(h.dir+"/home", 1234, 1234))
	const states = `
dir: {file.directory: {path: DIR/home/conf}}
file: {file.managed: {path: DIR/home/conf/f, content: x}}
`
	h.wants(h.run(states, false), "dir: changed intended", "file: changed intended")
	h.wants(h.run(states, false), "dir: unchanged", "file: unchanged")
}
