//go:build linux

// Package pkg has the functions of states for packages on Debian and its relatives. Begin a run with [New] and plan with
// [Manager.Installed], [Manager.Latest] and [Manager.Removed].
//
// Guarantees:
//   - A plan is made by a simulation of apt-get, so that it names what the transaction would bring and remove.
//   - A package that no state names is never removed, unless the state allows it.
//   - apt-get and dpkg are never killed: the end of a run or of the peel sends SIGTERM to apt-get alone, and under systemd
//     the transaction has a scope of its own.
//   - A plan changes nothing. It does not refresh the lists of packages.
//
// Known gap: rpm and dnf.
package pkg

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

const (
	listsAge    = 24 * time.Hour   // of package lists that are refreshed before a transaction
	listsLock   = 10 * time.Minute // how long a refresh waits for another one
	lockPause   = 2 * time.Second
	maxOutput   = 4000 // bytes of the end of a failed command's output
	listsFolder = "/var/lib/apt/lists"
)

// A Manager knows the packages of a host during one run. It is not safe for concurrent use.
type Manager struct {
	world     *host.World
	installed map[string]string // version by name, and by name:architecture; nil: not read yet
	provided  map[string]bool   // names that installed packages provide
	leftover  map[string]bool   // packages that are removed and have configuration files
	refreshed bool
}

// New returns a manager for a run over a world.
func New(w *host.World) *Manager { return &Manager{world: w} }

// errNoApt says what is missing.
var errNoApt = errors.New("this host has no apt-get and dpkg-query; packages need Debian or a relative of it")

// read asks dpkg once for all packages.
func (m *Manager) read(ctx context.Context) error {
	if m.installed != nil {
		return nil
	}
	for _, program := range []string{"apt-get", "dpkg-query"} {
		if _, err := exec.LookPath(program); err != nil {
			return errNoApt
		}
	}
	out, err := output(ctx, "dpkg-query", "-W", "-f", "${db:Status-Status}\t${Package}\t${Architecture}\t${Version}\t${Provides}\n")
	if err != nil {
		return fmt.Errorf("cannot list the packages: %w", err)
	}
	m.installed, m.provided, m.leftover = map[string]string{}, map[string]bool{}, map[string]bool{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Split(lines.Text(), "\t")
		if len(f) == 5 && f[0] == "config-files" {
			m.leftover[f[1]] = true
		}
		if len(f) != 5 || f[0] != "installed" {
			continue
		}
		m.installed[f[1]], m.installed[f[1]+":"+f[2]] = f[3], f[3]
		for p := range strings.SplitSeq(f[4], ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(p), " ")
			m.provided[name] = true
		}
	}
	return lines.Err()
}

// Forget has the packages read again, after a transaction.
func (m *Manager) Forget() { m.installed, m.provided = nil, nil }

// version returns the version of a package as the world has it, empty if it is not installed.
func (m *Manager) version(name string) string {
	if v, planned := m.world.Package(name); planned {
		return v
	}
	return m.installed[name]
}

// output runs a program that changes nothing.
func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = environment()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", name, err, tail(stderr.Bytes()))
	}
	return out, nil
}

func environment() []string {
	path := os.Getenv("PATH")
	if path == "" {
		path = "/usr/sbin:/usr/bin:/sbin:/bin"
	}
	return []string{"PATH=" + path, "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "DEBCONF_NONINTERACTIVE_SEEN=true", "APT_LISTCHANGES_FRONTEND=none", "NEEDRESTART_MODE=l"}
}

func tail(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) > maxOutput {
		b = b[len(b)-maxOutput:]
	}
	return strings.ToValidUTF8(string(b), "?")
}

// A transaction is what apt-get is asked for.
type transaction struct {
	verb     string   // install, remove or purge
	words    []string // packages, as name or name=version
	names    []string // the packages that the state names
	removals bool     // others may be removed
}

var options = []string{
	"-q", "-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "-o", "DPkg::Lock::Timeout=600", "-o", "APT::Get::Assume-Yes=true",
	"-o", "APT::Get::allow-downgrades=true", "-o", "Dpkg::Use-Pty=0",
}

// An effect is a line of a simulation.
type effect struct {
	remove   bool
	name     string
	from, to string // versions
}

// simulate asks apt-get what it would do.
func (m *Manager) simulate(ctx context.Context, t transaction) ([]effect, error) {
	out, err := output(ctx, "apt-get", slices.Concat([]string{"-s"}, options, []string{t.verb, "--"}, t.words)...)
	if err != nil {
		return nil, err
	}
	var effects []effect
	for line := range strings.Lines(string(out)) {
		if e, ok := parseEffect(line); ok {
			effects = append(effects, e)
		}
	}
	return effects, nil
}

// parseEffect reads a line such as "Inst nginx [1.1] (1.2 Debian:12 [amd64])" or "Remv nginx [1.1]".
func parseEffect(line string) (effect, bool) {
	f := strings.Fields(line)
	if len(f) < 2 || f[0] != "Inst" && f[0] != "Remv" && f[0] != "Purg" {
		return effect{}, false
	}
	e := effect{remove: f[0] != "Inst", name: f[1]}
	for _, word := range f[2:] {
		switch {
		case e.to == "" && strings.HasPrefix(word, "("):
			e.to = strings.Trim(word, "()")
		case e.from == "" && e.to == "" && strings.HasPrefix(word, "["):
			e.from = strings.Trim(word, "[]")
		}
	}
	return e, true
}

// plan simulates a transaction and returns its steps.
func (m *Manager) plan(ctx context.Context, t transaction) ([]host.Step, error) {
	effects, err := m.simulate(ctx, t)
	if err != nil {
		return nil, err
	}
	effects = slices.DeleteFunc(effects, func(e effect) bool { // what planned steps do already
		v, planned := m.world.Package(e.name)
		return planned && v == e.to
	})
	var others []string
	for _, e := range effects {
		if e.remove && !slices.Contains(t.names, e.name) {
			others = append(others, e.name)
		}
	}
	if len(others) > 0 && !t.removals {
		how := "allow_removals: true allows it"
		if t.verb != "install" {
			how = "name them in this state to allow it"
		}
		return nil, fmt.Errorf("apt-get would remove %s, which the state does not name; %s", strings.Join(others, ", "), how)
	}
	steps := make([]host.Step, 0, len(effects))
	for _, e := range effects {
		steps = append(steps, e.step())
	}
	if len(steps) > 0 {
		steps[0].Apply = func(ctx context.Context) error { return m.execute(ctx, t) }
	}
	return steps, nil
}

// step returns what people see of an effect. The first step of a transaction applies all of it.
func (e effect) step() host.Step {
	change := host.Change{Do: "install", What: e.name, Before: e.from, After: e.to}
	switch {
	case e.remove:
		change.Do, change.Deletes = "remove", true
	case e.from != "":
		change.Do = "upgrade"
	}
	return host.Step{Change: change, Predict: func(w *host.World) { w.SetPackage(e.name, e.to) }}
}

// execute runs a transaction.
func (m *Manager) execute(ctx context.Context, t transaction) error {
	defer m.Forget()
	args := slices.Concat([]string{"apt-get"}, options, []string{t.verb})
	if !t.removals && t.verb == "install" {
		args = append(args, "--no-remove")
	}
	return run(ctx, slices.Concat(args, []string{"--"}, t.words))
}

// run runs a program that changes packages. The end of ctx sends it SIGTERM and waits for it.
func run(ctx context.Context, argv []string) error {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		if _, err := exec.LookPath("systemd-run"); err == nil {
			argv = slices.Concat([]string{"systemd-run", "--scope", "--quiet", "--collect", "--"}, argv)
		}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, tail(out.Bytes()))
	}
	return nil
}

// Refresh downloads the lists of packages, once a run. Another apt-get update is waited for.
func (m *Manager) Refresh(ctx context.Context) error {
	if m.refreshed {
		return nil
	}
	deadline := time.Now().Add(listsLock)
	for {
		err := run(ctx, []string{"apt-get", "-q", "update"})
		if err == nil {
			m.refreshed = true
			return nil
		}
		if !strings.Contains(err.Error(), listsFolder+"/lock") || time.Now().After(deadline) {
			return fmt.Errorf("cannot refresh the lists of packages: %w", err)
		}
		timer := time.NewTimer(lockPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// isStale reports whether the lists of packages are missing or old.
func isStale() bool {
	info, err := os.Stat("/var/cache/apt/pkgcache.bin")
	if errors.Is(err, fs.ErrNotExist) {
		if info, err = os.Stat(listsFolder); err != nil {
			return true
		}
	}
	return err != nil || time.Since(info.ModTime()) > listsAge
}

// Installed plans pkg.installed. In test mode (refresh false) lists stay as they are, and a package that they do not have
// is unknown if they may be old.
func (m *Manager) Installed(ctx context.Context, a *state.PkgInstalled, refresh bool) ([]host.Step, error) {
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	t := transaction{verb: "install", removals: a.AllowRemovals}
	for _, name := range (state.Packages{Name: a.Name, Names: a.Names}).All() {
		now := m.version(name)
		if a.Version == "" && (now != "" || m.provided[name]) || a.Version != "" && now == a.Version {
			continue
		}
		word := name
		if a.Version != "" {
			word += "=" + a.Version
		}
		t.words, t.names = append(t.words, word), append(t.names, name)
	}
	if len(t.words) == 0 {
		return nil, nil
	}
	if refresh && (isStale() || a.Refresh != nil && *a.Refresh) && (a.Refresh == nil || *a.Refresh) {
		if err := m.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	return m.planFresh(ctx, t, refresh)
}

// planFresh plans a transaction, and once more after a refresh if apt-get does not know a package or version.
func (m *Manager) planFresh(ctx context.Context, t transaction, refresh bool) ([]host.Step, error) {
	steps, err := m.plan(ctx, t)
	if err == nil || !isUnknown(err) || m.refreshed {
		return steps, err
	}
	if !refresh {
		return nil, &host.UnknownError{Why: fmt.Sprintf("the lists of packages do not have %s, and test mode does not refresh them", strings.Join(t.words, ", "))}
	}
	if err := m.Refresh(ctx); err != nil {
		return nil, err
	}
	return m.plan(ctx, t)
}

// isUnknown reports whether apt-get does not know a package or version.
func isUnknown(err error) bool {
	for _, text := range []string{"Unable to locate package", "has no installation candidate", "was not found"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

// Latest plans pkg.latest.
func (m *Manager) Latest(ctx context.Context, a *state.PkgLatest, refresh bool) ([]host.Step, error) {
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	names := state.Packages{Name: a.Name, Names: a.Names}.All()
	t := transaction{verb: "install", words: names, names: names}
	if slices.ContainsFunc(names, func(n string) bool { _, planned := m.world.Package(n); return planned }) {
		return nil, nil // a planned installation brings the newest version
	}
	if refresh {
		if err := m.Refresh(ctx); err != nil {
			return nil, err
		}
	}
	return m.planFresh(ctx, t, refresh)
}

// Removed plans pkg.removed.
func (m *Manager) Removed(ctx context.Context, a *state.PkgRemoved) ([]host.Step, error) {
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	t := transaction{verb: "remove"}
	if a.Purge {
		t.verb = "purge"
	}
	for _, name := range (state.Packages{Name: a.Name, Names: a.Names}).All() {
		_, planned := m.world.Package(name)
		if m.version(name) != "" || a.Purge && m.leftover[name] && !planned {
			t.words, t.names = append(t.words, name), append(t.names, name)
		}
	}
	if len(t.words) == 0 {
		return nil, nil
	}
	return m.plan(ctx, t)
}
