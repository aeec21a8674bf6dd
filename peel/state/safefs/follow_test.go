//go:build linux

package safefs

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A tree is made of directories and links with owners and modes. Its root belongs to root.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) tree {
	t.Helper()
	root := temp(t)
	home(t, root, 0) // skips without root
	must(t, os.Chmod(root, 0o755))
	return tree{t, root}
}

// dir makes a directory of a user and of the group of the same number.
func (x tree) dir(name string, uid int, mode uint32) {
	x.t.Helper()
	at := filepath.Join(x.root, name)
	must(x.t, os.MkdirAll(at, 0o755))
	must(x.t, os.Chown(at, uid, uid))
	must(x.t, unix.Chmod(at, mode))
}

// shared makes a directory of root that a group may write.
func (x tree) shared(name string, gid int) {
	x.t.Helper()
	x.dir(name, 0, 0o755)
	at := filepath.Join(x.root, name)
	must(x.t, os.Chown(at, 0, gid))
	must(x.t, unix.Chmod(at, 0o2775))
}

// link makes a link of a user. A target that begins with ~ is below the root of the tree.
func (x tree) link(name, target string, uid int) {
	x.t.Helper()
	at := filepath.Join(x.root, name)
	if below, ok := strings.CutPrefix(target, "~"); ok {
		target = x.root + below
	}
	must(x.t, os.Symlink(target, at))
	must(x.t, os.Lchown(at, uid, uid))
}

const (
	deploy = 1234
	other  = 4321
)

func TestLinksThatAUserMayHaveMadeLeadOnlyToWhatTheUserMayWrite(t *testing.T) {
	x := newTree(t)
	x.dir("system", 0, 0o755)
	x.dir("system/deep", 0, 0o755)
	x.dir("app", deploy, 0o755)
	x.dir("app/releases", deploy, 0o755)
	x.dir("app/releases/1", deploy, 0o755)
	x.dir("app/roots", 0, 0o755)
	x.dir("elsewhere", deploy, 0o755)
	x.dir("others", other, 0o755)
	x.shared("site", deploy)
	x.shared("site/releases", deploy)
	x.dir("site/releases/2", 0, 0o755)
	x.dir("site/releases/3", deploy, 0o755)
	x.shared("site/releases/4", deploy)
	x.shared("data", deploy)
	x.shared("team", other)

	for _, c := range []struct {
		link, target string
		uid          int
		leads        string // where the walk gets; empty: it is refused
	}{
		{"app/current", "releases/1", deploy, "app/releases/1"},
		{"app/absolute", "~/app/releases/1", deploy, "app/releases/1"},
		{"app/out", "~/elsewhere", deploy, "elsewhere"},
		{"app/chain", "current", deploy, "app/releases/1"},
		{"app/to-root", "~/system", deploy, ""},
		{"app/to-roots-below", "roots", deploy, ""},
		{"app/to-system-below", "~/system/deep", deploy, ""},
		{"app/to-other", "~/others", deploy, ""},
		{"app/of-root", "~/system", 0, ""}, // deploy may have moved it there
		{"app/of-root-below", "roots", 0, "app/roots"},
		{"app/of-other", "~/others", other, ""},
		{"site/current", "releases/2", 0, "site/releases/2"},
		{"site/of-deploy", "releases/3", deploy, "site/releases/3"},
		{"site/roots-by-deploy", "releases/2", deploy, ""},
		{"site/shared", "~/data", 0, "data"},
		{"site/team", "~/team", 0, ""},
		{"site/system", "~/system", 0, ""},
		{"site/way-out", "of-chain", 0, ""},
		{"site/of-chain", "~/system", 0, ""},
	} {
		x.link(c.link, c.target, c.uid)
		at := filepath.Join(x.root, c.link)
		if _, err := Open(at); !isUnsafe(err) && !os.IsNotExist(err) {
			t.Errorf("%s: a walk that follows trusted links alone: %v", c.link, err)
		}
		d, err := UserLinks.Open(at)
		switch {
		case err == nil && d.Path() != filepath.Join(x.root, c.leads):
			t.Errorf("%s leads to %s, want %q", c.link, d.Path(), c.leads)
		case err == nil && !d.Exposed():
			t.Errorf("%s: the directory is not exposed", c.link)
		case err != nil && c.leads != "":
			t.Errorf("%s: %v", c.link, err)
		case err != nil && !isUnsafe(err) && !os.IsNotExist(err):
			t.Errorf("%s: %v is no refusal", c.link, err)
		}
		if err == nil {
			d.Close()
		}
	}
}

func TestFilesOfAThirdUserAreUsedByAWalkThatFollows(t *testing.T) {
	x := newTree(t)
	x.dir("app", deploy, 0o755)
	x.dir("app/cache", other, 0o755)
	x.dir("app/open", other, 0o775) // a group can write it, too
	for _, name := range []string{"app/upload", "secret", "app/cache/f", "app/open/f"} {
		must(t, os.WriteFile(filepath.Join(x.root, name), []byte("x"), 0o600))
		must(t, os.Chown(filepath.Join(x.root, name), other, other))
	}
	must(t, os.Link(filepath.Join(x.root, "secret"), filepath.Join(x.root, "app/linked")))

	for _, c := range []struct {
		dir, name string
		isRead    bool
	}{
		{"app", "upload", true},
		{"app/cache", "f", true},
		{"app", "linked", false},
		{"app/open", "f", false},
	} {
		for _, links := range []Links{TrustedLinks, UserLinks} {
			d, err := links.Open(filepath.Join(x.root, c.dir))
			if err == nil {
				_, err = d.Read(c.name, 10)
				d.Close()
			}
			if want := c.isRead && links == UserLinks; err == nil != want || err != nil && !isUnsafe(err) {
				t.Errorf("%s/%s with the links %d: %v", c.dir, c.name, links, err)
			}
		}
	}
}

func TestTheOwnerOfAFileThatAUserMayHaveMovedStays(t *testing.T) {
	x := newTree(t)
	x.dir("app", deploy, 0o755)
	x.shared("site", deploy)
	for _, name := range []string{"app/moved", "site/moved", "app/own"} {
		must(t, os.WriteFile(filepath.Join(x.root, name), []byte("x"), 0o600))
		must(t, os.Chown(filepath.Join(x.root, name), other, other))
	}
	must(t, os.Chown(filepath.Join(x.root, "app/own"), deploy, deploy))
	for _, dir := range []string{"app", "site"} {
		d, err := UserLinks.Open(filepath.Join(x.root, dir))
		must(t, err)
		for _, a := range []Attributes{{UID: deploy, Mode: 0o600}, {UID: other, GID: other, Mode: 0o644}} {
			if err := d.Own("moved", a); !isUnsafe(err) {
				t.Errorf("%s gets %+v: %v", dir, a, err)
			}
		}
		d.Close()
	}
	d, err := UserLinks.Open(filepath.Join(x.root, "app"))
	must(t, err)
	defer d.Close()
	must(t, d.Own("own", Attributes{UID: deploy, GID: deploy, Mode: 0o644}))
}

// A user points a link in his directory at a directory of root, and back, while root writes through it.
func TestAUserWhoSwapsAFollowedLinkGetsNothingWrittenElsewhere(t *testing.T) {
	x := newTree(t)
	x.dir("system", 0, 0o755)
	must(t, os.WriteFile(filepath.Join(x.root, "system/f"), []byte("of root"), 0o600))
	x.dir("app", deploy, 0o755)
	x.dir("app/1", deploy, 0o755)
	x.link("app/current", "1", deploy)
	x.link("app/aside", "~/system", deploy)
	at, aside := filepath.Join(x.root, "app/current"), filepath.Join(x.root, "app/aside")
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, aside, unix.RENAME_EXCHANGE)
			}
		}
	})
	written, refused := 0, 0
	for range 3000 {
		d, base, err := UserLinks.Parent(filepath.Join(at, "f"))
		if err == nil {
			var s *Staged
			a := Attributes{UID: deploy, GID: deploy, Mode: 0o666}
			if s, err = d.Stage(base, []byte("of the state"), a); err == nil {
				err = s.Commit()
			}
			d.Close()
		}
		switch {
		case err == nil:
			written++
		case isUnsafe(err):
			refused++
		default:
			t.Fatal(err)
		}
	}
	close(stop)
	swapping.Wait()
	data, err := os.ReadFile(filepath.Join(x.root, "system/f"))
	must(t, err)
	names, err := os.ReadDir(filepath.Join(x.root, "system"))
	must(t, err)
	if string(data) != "of root" || len(names) != 1 {
		t.Errorf("the directory of root has %d files: %q", len(names), data)
	}
	if written == 0 || refused == 0 {
		t.Errorf("%d written and %d refused: the swaps were not in between", written, refused)
	}
}
