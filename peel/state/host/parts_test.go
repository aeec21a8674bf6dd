//go:build linux

package host

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/safefs"
)

func TestWhatThePeelNeedsIsKept(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir+"/real", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"/real", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	w := New()
	w.Own = []string{dir + "/real/peel"}
	for name, kept := range map[string]bool{
		"/real/peel": true, "/real/peel/outbox": true, "/real": true, "/link/peel": true, "/link/peel/outbox": false,
		"/real/peel2": false, "/real/pee": false, "/other": false,
	} {
		if err := w.MustKeep(dir + name); (err != nil) != kept {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOldContentIsKept(t *testing.T) {
	w := New()
	if err := w.KeepOld("/a"); err != nil {
		t.Error(err)
	}
	full := errors.New("the disk is full")
	w.Keep = func(_ safefs.Links, name string) error {
		if name != "/a" {
			t.Errorf("%s is kept", name)
		}
		return full
	}
	if err := w.KeepOld("/a"); err != full {
		t.Errorf("%v", err)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	w := New()
	if !w.MayShow([]byte("secret")) {
		t.Error("a text is hidden, and nothing is secret")
	}
	w.HasSecret = func(text []byte) bool { return bytes.Contains(text, []byte("secret")) }
	if w.MayShow([]byte("old"), []byte("a secret")) || !w.MayShow([]byte("old"), []byte("new")) {
		t.Error("which texts may be shown")
	}
}

func TestWhatIsPlanned(t *testing.T) {
	for name, plan := range map[string]func(*World){
		"a file":    func(w *World) { w.SetFile("/zt/a", safefs.Info{Kind: safefs.File}, []byte("a")) },
		"a user":    func(w *World) { w.SetUser(User{Name: "zt-u"}) },
		"a group":   func(w *World) { w.SetGroup(Group{Name: "zt-g"}) },
		"a unit":    func(w *World) { w.SetUnit(Unit{Name: "zt.service"}) },
		"a package": func(w *World) { w.SetPackage("zt", "1") },
		"a doubt":   func(w *World) { w.Doubt("/zt", "why") },
		"an answer": func(w *World) { w.SetAnswer("zt/q", "yes") },
		"a command": func(w *World) { w.Unknowable() },
		"a mount":   func(w *World) { w.SetMounted("/zt") },
	} {
		w := New()
		if w.Planned() {
			t.Fatal("a new world has plans")
		}
		if plan(w); !w.Planned() {
			t.Errorf("%s is no plan", name)
		}
	}
}

func TestWarningsAreTakenOnce(t *testing.T) {
	w := New()
	w.Warn("a %d", 1)
	w.Warn("b")
	w.Warn("a %d", 1)
	if got := w.TakeWarnings(); got != "a 1; b" {
		t.Errorf("%q", got)
	}
	if got := w.TakeWarnings(); got != "" {
		t.Errorf("%q", got)
	}
}

func TestPlannedMountsAndAnswers(t *testing.T) {
	w := New()
	if w.IsMounted("/zt/m") {
		t.Error("it is mounted before")
	}
	w.SetMounted("/zt/m")
	if !w.IsMounted("/zt/m") || w.IsMounted("/zt") {
		t.Error("it is not mounted after, or its parent is")
	}
	if _, err := w.Stat("/zt/m/file"); err == nil || !strings.Contains(err.Error(), "a file system would be mounted there") {
		t.Errorf("what is in it: %v", err)
	}
	if _, ok := w.Answer("zt/q"); ok {
		t.Error("a question has an answer before")
	}
	w.SetAnswer("zt/q", "")
	if value, ok := w.Answer("zt/q"); !ok || value != "" {
		t.Errorf("%q, %v", value, ok)
	}
}

func TestTheEnvironmentOfPrograms(t *testing.T) {
	t.Setenv("PATH", "/zt/bin")
	t.Setenv("HOME", "")
	t.Setenv("ZT_SECRET", "x")
	want := []string{"LC_ALL=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "PATH=/zt/bin"}
	if got := Environment(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// A planned unit file makes the unit, which can be enabled if it says how.
func TestAUnitOfAPlannedFile(t *testing.T) {
	absent := func(name string) Unit { return Unit{Name: name, Load: "not-found", Active: "inactive"} }
	for _, c := range []struct {
		unit, file, content string
		load, enabled       string
	}{
		{"zt.service", "/etc/systemd/system/zt.service", "[Service]\n", "loaded", "static"},
		{"zt.service", "/usr/lib/systemd/system/zt.service", "[Service]\n[Install]\nWantedBy=x\n", "loaded", "disabled"},
		{"zt@a.service", "/etc/systemd/system/zt@.service", "[Install]\n", "loaded", "disabled"},
		{"zt.service", "/etc/systemd/system/other.service", "[Install]\n", "not-found", ""},
		{"zt.service", "/etc/systemd/system/zt.service", "# [Install]\n", "loaded", "static"},
	} {
		w := New()
		w.SetFile(c.file, safefs.Info{Kind: safefs.File, Mode: 0o644}, []byte(c.content))
		u := w.Unit(absent(c.unit))
		if u.Load != c.load || u.Enabled != c.enabled || u.IsRunning() {
			t.Errorf("%s with %s: %+v", c.unit, c.file, u)
		}
		if c.load == "loaded" && (u.Fragment != c.file || u.Active != "inactive" || u.Sub != "dead" || !u.Exists()) {
			t.Errorf("%s with %s: %+v", c.unit, c.file, u)
		}
	}
	w := New()
	w.SetFile("/etc/systemd/system/zt.service", safefs.Info{Kind: safefs.File}, []byte("[Install]\n"))
	is := Unit{Name: "zt.service", Load: "loaded", Active: "active", Enabled: "static"}
	if u := w.Unit(is); u.Enabled != "static" || !u.IsRunning() {
		t.Errorf("a unit that is there: %+v", u)
	}
	w.SetUnit(Unit{Name: "zt.service", Load: "masked"})
	if u := w.Unit(is); u.Load != "masked" {
		t.Errorf("a unit that a step changes: %+v", u)
	}
	if (Unit{Active: "activating"}).IsRunning() || !(Unit{Active: "reloading"}).IsRunning() {
		t.Error("which units are up")
	}
}

func TestUnitsOfARemovedPackage(t *testing.T) {
	w := New()
	w.RemovePackage("zt", PackageFiles{Paths: []string{"/lib/systemd/system/zt.service"}}, false)
	for fragment, want := range map[string]string{
		"/lib/systemd/system/zt.service": "zt", "/usr/lib/systemd/system/zt.service": "zt", "/etc/systemd/system/zt.service": "", "": "",
	} {
		if got := w.RemovedWith(Unit{Fragment: fragment}); got != want {
			t.Errorf("%q: %q, want %q", fragment, got, want)
		}
	}
	w.SetPackage("zt", "2") // it comes back
	if got := w.RemovedWith(Unit{Fragment: "/lib/systemd/system/zt.service"}); got != "" {
		t.Errorf("%q", got)
	}
}

func TestVersionsOfPlannedPackages(t *testing.T) {
	w := New()
	if _, planned := w.Package("zt"); planned {
		t.Error("a package is planned before")
	}
	w.SetPackage("zt", "1")
	if version, planned := w.Package("zt"); !planned || version != "1" {
		t.Errorf("%q, %v", version, planned)
	}
	w.RemovePackage("zt", PackageFiles{}, false)
	if version, planned := w.Package("zt"); !planned || version != "" {
		t.Errorf("%q, %v", version, planned)
	}
}

// Nobody knows the files of a package after an upgrade; directories stay, and so does what is not there.
func TestFilesOfAnUpgradedPackage(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/file", []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := New()
	w.ReplacePackage("zt", PackageFiles{Paths: []string{dir, dir + "/file", dir + "/none"}})
	if _, err := w.Read(dir+"/file", 10); err == nil || !strings.Contains(err.Error(), "the package zt would be upgraded") {
		t.Errorf("a file: %v", err)
	}
	w.Doubt(dir+"/unknown", "why")
	if names, err := w.List(dir + "/unknown"); err == nil || names != nil {
		t.Errorf("what is in a directory that nobody knows: %q, %v", names, err)
	}
	if info, err := w.Stat(dir); err != nil || info.Kind != safefs.Directory {
		t.Errorf("a directory: %v, %v", info.Kind, err)
	}
	if info, err := w.Stat(dir + "/none"); err != nil || info.Kind != safefs.Absent {
		t.Errorf("a file that is not there: %v, %v", info.Kind, err)
	}
}

// What is below a path that is lacking may come with a command, or with a package unless packages put nothing there.
func TestWhatAPlannedStepMayBring(t *testing.T) {
	command, pkg := New(), New()
	command.Unknowable()
	pkg.SetPackage("zt-gone", "")
	pkg.SetPackage("zt-new", "1")
	for _, c := range []struct {
		world   *World
		path    string
		unknown bool
	}{
		{New(), "/etc/zt-none", false},
		{command, "/etc/zt-none", true},
		{command, "/home/zt-none", true},
		{pkg, "/etc/zt-none", true},
		{pkg, "/home/zt-none", false},
		{pkg, "/homes", true},
	} {
		_, err := c.world.Stat(c.path)
		_, isUnknown := errors.AsType[*UnknownError](err)
		if isUnknown != c.unknown {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	if err := New().Lacks("no %s", "git"); err.Error() != "no git" {
		t.Errorf("%v", err)
	}
	if err := pkg.Lacks("no %s", "git"); err.Error() != "no git; a package such as zt-new, which would be installed, may bring it" {
		t.Errorf("%v", err)
	}
	if _, err := pkg.Stat("/etc/passwd"); err != nil {
		t.Errorf("a file that is there: %v", err)
	}
}

// A planned file is found by each of its paths, and what is planned hides what the host has.
func TestPlannedFilesAndLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/real", "/real/sub"} {
		if err := os.Mkdir(dir+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"/link": dir + "/real", "/relative": "real"} {
		if err := os.Symlink(to, dir+link); err != nil {
			t.Fatal(err)
		}
	}
	w := New()
	w.SetFile(dir+"/link/a", safefs.Info{Kind: safefs.File, Mode: 0o600}, []byte("new"))
	for _, name := range []string{"/real/a", "/link/a", "/relative/a"} {
		if data, err := w.Read(dir+name, 10); err != nil || string(data) != "new" {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	for name, want := range map[string]bool{"/real": true, "/link": true, "/relative": true, "/real/a": false, "/none": false, "/real/sub": true} {
		if is, err := w.IsDirectory(dir + name); err != nil || is != want {
			t.Errorf("%s is a directory: %v, %v", name, is, err)
		}
	}
	if names, err := w.List(dir + "/link"); err != nil || !slices.Equal(names, []string{"a", "sub"}) {
		t.Errorf("%q, %v", names, err)
	}

	w.SetFile(dir+"/real/sub", safefs.Info{}, nil)
	if names, err := w.List(dir + "/real"); err != nil || !slices.Equal(names, []string{"a"}) {
		t.Errorf("%q, %v", names, err)
	}
	w.SetFile(dir+"/real/b", safefs.Info{Kind: safefs.File}, nil)
	if _, err := w.Read(dir+"/real/b", 10); err == nil || !strings.Contains(err.Error(), "is not known before it is written") {
		t.Errorf("%v", err)
	}
	w.SetFile(dir+"/real", safefs.Info{}, nil)
	if _, err := w.Read(dir+"/real/a", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file below a removed directory: %v", err)
	}
	w.NewDirectory(dir+"/real", safefs.Info{Kind: safefs.Directory})
	if names, err := w.List(dir + "/real"); err != nil || len(names) > 0 {
		t.Errorf("a new directory has %q, %v", names, err)
	}

	loop := New()
	loop.SetFile(dir+"/x", safefs.Info{Kind: safefs.Symlink, Target: "y"}, nil)
	loop.SetFile(dir+"/y", safefs.Info{Kind: safefs.Symlink, Target: "x"}, nil)
	if _, err := loop.Stat(dir + "/x/a"); err == nil || !strings.Contains(err.Error(), "too many symbolic links") {
		t.Errorf("a loop: %v", err)
	}
}

func TestAccountsOfTheHost(t *testing.T) {
	w := New()
	w.SetUser(User{Exists: true, Name: "zt-u", UID: 64321})
	w.SetUser(User{Name: "zt-v", UID: 64322})
	w.SetGroup(Group{Exists: true, Name: "zt-g", GID: 64323})
	w.SetGroup(Group{Name: "zt-h", GID: 64324})
	users, groups, err := w.IDs()
	if err != nil || !users[0] || !groups[0] || !users[64321] || users[64322] || !groups[64323] || groups[64324] {
		t.Errorf("%v, %v, %v", users, groups, err)
	}
	if u, err := w.User(t.Context(), "root"); err != nil || u.UID != 0 || u.GID != 0 || u.Home != "/root" || u.Shell == "" {
		t.Errorf("%+v, %v", u, err)
	}
	if u, err := w.User(t.Context(), "0"); err != nil || u.Name != "root" {
		t.Errorf("by number: %+v, %v", u, err)
	}
	if g, err := w.Group(t.Context(), "root"); err != nil || g.GID != 0 || !g.Exists {
		t.Errorf("%+v, %v", g, err)
	}
	if g, err := w.Group(t.Context(), "zt-none"); err != nil || g.Exists || g.Name != "zt-none" {
		t.Errorf("%+v, %v", g, err)
	}
	if hash, err := PasswordHash("zt-none"); err != nil && !errors.Is(err, fs.ErrPermission) || hash != "" {
		t.Errorf("%q, %v", hash, err)
	}
}
