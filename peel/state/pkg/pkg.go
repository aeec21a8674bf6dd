//go:build linux

// Package pkg has the functions of states for packages, with apt and dnf. Begin a run with [New] and plan with
// [Manager.Installed], [Manager.Latest], [Manager.Removed] and [Manager.Repository]. [Manager.Join] makes one
// transaction of those of several states. [Versions], [List] and [Upgrades] answer questions about a host.
//
// Guarantees:
//   - A plan is made by a simulation of apt-get or dnf, so that it names what the transaction would bring and remove.
//   - A package that no state names is never removed, unless the state allows it.
//   - The package manager is never killed: its timeout sends SIGTERM to apt-get or dnf alone, and not while dpkg is at
//     work, the end of the peel nothing, and under systemd the transaction has a scope of its own. Its output goes to a
//     file, which outlives the peel.
//   - A plan changes nothing in test mode. Lists of packages are refreshed before a transaction that is for real, if
//     they are a day old, do not have a wanted version, or a repository changed; test mode then says that the result is
//     unknown.
//     If a refresh fails, a state fails only if the older lists do not have its packages, or if it has refresh: true.
//
// Known gaps: test mode takes the newest version of pkg.latest from the lists as they are. Packages that come along
// with those of several states are shown with the first of these states.
package pkg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// A Manager knows the packages of a host during one run. It is not safe for concurrent use.
type Manager struct {
	world     *host.World
	test      bool
	tool      tool       // nil: not looked for yet
	now       *inventory // nil: not read yet
	refreshed bool
	stale     bool  // a repository changed since the lists were refreshed
	failed    error // of the last refresh
	joint     *joint
	etc       string          // where packages have files that people edit
	aside     map[string]bool // files that transactions put aside, until [Manager.Aside] returns them
}

// New returns a manager for a run over a world. With test it changes nothing.
func New(w *host.World, test bool) *Manager {
	return &Manager{world: w, test: test, etc: configuration, aside: map[string]bool{}}
}

// An inventory is what a host has installed.
type inventory struct {
	versions  map[string]string // by name, and by name with architecture
	qualified map[string]bool   // names with architecture
	provided  map[string]bool   // names that installed packages provide
	leftover  map[string]bool   // packages that are removed and have configuration files
	native    string            // the architecture that apt-get leaves out of names
}

func newInventory() *inventory {
	return &inventory{
		versions: map[string]string{}, qualified: map[string]bool{},
		provided: map[string]bool{}, leftover: map[string]bool{},
	}
}

// add adds a package by its name, and by its name with architecture.
func (i *inventory) add(name, qualified, version string) {
	i.versions[name], i.versions[qualified] = version, version
	i.qualified[qualified] = true
}

// architectures returns the names that remove a package with all its architectures. They name the architectures if the
// package has another one than the host.
func (i *inventory) architectures(name string) (all []string) {
	isForeign := false
	for qualified := range i.qualified {
		if arch, ok := strings.CutPrefix(qualified, name+":"); ok {
			all = append(all, qualified)
			isForeign = isForeign || arch != i.native && arch != "all"
		}
	}
	if !isForeign {
		return []string{name}
	}
	slices.Sort(all)
	return all
}

// A transaction is what the package manager is asked for.
type transaction struct {
	verb     string // install, latest, remove or purge
	packages []wanted
	removals bool   // packages that are not named may be removed
	native   string // as of the inventory
}

// A wanted package has a version if one is named.
type wanted struct{ name, version string }

func (t transaction) names() []string {
	names := make([]string, len(t.packages))
	for i, p := range t.packages {
		names[i] = p.name
	}
	return names
}

// has reports whether the transaction names the package of an effect. The effect names an architecture only if the host
// has another one; the transaction may name any.
func (t transaction) has(name string) bool {
	return slices.ContainsFunc(t.packages, func(p wanted) bool {
		plain, arch, _ := strings.Cut(p.name, ":")
		return p.name == name || plain == name && (arch == t.native || arch == "all")
	})
}

// An effect is what a transaction would do to one package.
type effect struct {
	remove   bool
	purge    bool // its configuration files too
	setUp    bool // it is unpacked already
	name     string
	arch     string // as dnf gives it
	from, to string // versions, empty if there is none or it is not given

	files host.PackageFiles // in test mode, of a package that goes or gets another version
}

// errNotInLists is wrapped by the error about a package or version that the lists do not have.
var errNotInLists = errors.New("the lists of packages do not have it")

// errNothingToDo is wrapped by the error about a transaction without effects.
var errNothingToDo = errors.New("the package manager would do nothing")

// A tool is the package manager of a host. It does not read or change lists, except in refresh.
type tool interface {
	inventory(ctx context.Context) (*inventory, error)
	simulate(ctx context.Context, t transaction) ([]effect, error)
	execute(ctx context.Context, t transaction) error
	refresh(ctx context.Context) error
	isStale() bool
	upgrades(ctx context.Context) ([]effect, error)
	// files returns the files of an installed package, and if the effect removes it all of host.PackageFiles.
	files(ctx context.Context, e effect) (host.PackageFiles, error)
	repository(a *state.PkgRepoManaged, key []byte) (repository, error)
	// has reports whether an installed version is the wanted one.
	has(installed, version string) bool
}

// read asks once for all packages.
func (m *Manager) read(ctx context.Context) (err error) {
	if m.tool == nil {
		if m.tool, err = find(m.test); err != nil {
			return err
		}
	}
	if m.now == nil {
		m.now, err = m.tool.inventory(ctx)
	}
	return err
}

// reread asks for all packages again.
func (m *Manager) reread(ctx context.Context) error {
	m.Forget()
	return m.read(ctx)
}

// find returns the package manager of the host.
func find(test bool) (tool, error) {
	switch {
	case hasPrograms("apt-get", "dpkg-query"):
		return apt{test}, nil
	case hasPrograms("dnf", "rpm"):
		return dnf{}, nil
	}
	return nil, errors.New(
		"this host has no package manager that zester knows: neither apt-get with dpkg-query nor dnf with rpm",
	)
}

// Forget has the packages read again, because something on the host changed.
func (m *Manager) Forget() { m.now = nil }

// version returns the version of a package as the world has it, empty if it is not installed.
func (m *Manager) version(name string) string {
	if v, planned := m.world.Package(name); planned {
		return v
	}
	return m.now.versions[name]
}

// missing returns the transaction that a state needs; one without packages if the state holds.
func (m *Manager) missing(args state.Arguments) transaction {
	t := transaction{native: m.now.native}
	add := func(name, version string) { t.packages = append(t.packages, wanted{name, version}) }
	switch a := args.(type) {
	case *state.PkgInstalled:
		t.verb, t.removals = "install", a.AllowRemovals
		for _, name := range (state.Packages{Name: a.Name, Names: a.Names}).All() {
			now := m.version(name)
			if a.Version == "" && now == "" && !m.now.provided[name] || a.Version != "" && !m.tool.has(now, a.Version) {
				add(name, a.Version)
			}
		}
	case *state.PkgLatest:
		t.verb = "latest"
		for _, name := range (state.Packages{Name: a.Name, Names: a.Names}).All() {
			if _, planned := m.world.Package(name); !planned { // a planned installation brings the newest version
				add(name, "")
			}
		}
	case *state.PkgRemoved:
		t.verb = "remove"
		if a.Purge {
			t.verb = "purge"
		}
		for _, name := range (state.Packages{Name: a.Name, Names: a.Names}).All() {
			_, planned := m.world.Package(name)
			if m.version(name) != "" || a.Purge && m.now.leftover[name] && !planned {
				for _, each := range m.now.architectures(name) {
					add(each, "")
				}
			}
		}
	}
	return t
}

// Plan plans pkg.installed, pkg.latest and pkg.removed.
func (m *Manager) Plan(ctx context.Context, args state.Arguments) ([]host.Step, error) {
	if steps := m.joint.take(args); steps != nil {
		return steps, nil
	}
	if err := m.read(ctx); err != nil {
		return nil, err
	}
	t := m.missing(args)
	if len(t.packages) == 0 {
		return nil, nil
	}
	if err := m.freshen(ctx, args); err != nil {
		return nil, err
	}
	effects, err := m.effects(ctx, t)
	if errors.Is(err, errNothingToDo) && m.reread(ctx) == nil && len(m.missing(args).packages) == 0 {
		return nil, nil // another package manager has done it in the meantime
	}
	if err != nil && m.failed != nil && !errors.Is(err, m.failed) {
		return nil, fmt.Errorf("%w; %w", err, m.failed)
	}
	if err != nil {
		return nil, err
	}
	return stepsOf(effects, func(ctx context.Context) error {
		err := m.execute(ctx, t)
		if err != nil && m.holds(ctx, t, effects) {
			return nil // what failed is another package
		}
		return err
	}), nil
}

// holds reports whether the effects on the packages that a transaction names are there. A name that another package
// provides has no effect of its own.
func (m *Manager) holds(ctx context.Context, t transaction, effects []effect) bool {
	if m.reread(ctx) != nil {
		return false
	}
	isAbsent := func(p wanted) bool { return m.now.versions[p.name] == "" && !m.now.provided[p.name] }
	if t.verb == "install" && slices.ContainsFunc(t.packages, isAbsent) {
		return false
	}
	for _, e := range effects {
		if t.has(e.name) && (m.now.versions[e.name] != e.to || t.verb == "purge" && m.now.leftover[e.name]) {
			return false
		}
	}
	return true
}

// Made reports whether a package is as a change of it says.
func (m *Manager) Made(ctx context.Context, c host.Change) bool {
	return m.read(ctx) == nil && m.now.versions[c.What] == c.After
}

// freshen refreshes the lists of packages if the state needs that. In test mode it then is unknown. If a repository
// does not answer, the older lists are used, unless the state asks for a refresh.
func (m *Manager) freshen(ctx context.Context, args state.Arguments) error {
	isOld := m.tool.isStale() || m.stale
	always := false // for real
	mustRefresh := false
	switch a := args.(type) {
	case *state.PkgInstalled:
		if a.Refresh != nil {
			isOld, always = *a.Refresh, *a.Refresh
			mustRefresh = *a.Refresh
		}
	case *state.PkgLatest:
		always = true
	case *state.PkgRemoved:
		return nil
	}
	switch {
	case m.refreshed && !m.stale:
		return nil
	case m.test && m.stale:
		return &host.UnknownError{Why: "a repository would change, and test mode does not read it"}
	case m.test && isOld:
		return &host.UnknownError{
			Why: "the lists of packages are older than a day, and test mode does not refresh them",
		}
	case m.test || !isOld && !always:
		return nil
	}
	err := m.refresh(ctx)
	if err != nil && !mustRefresh {
		m.world.Warn("%v; the lists of before are used", err)
		return nil
	}
	return err
}

// Retry allows another refresh after one that failed.
func (m *Manager) Retry() { m.failed = nil }

func (m *Manager) refresh(ctx context.Context) error {
	if m.failed != nil {
		return m.failed
	}
	if err := m.tool.refresh(ctx); err != nil {
		m.failed = fmt.Errorf("cannot refresh the lists of packages: %w", err)
		return m.failed
	}
	m.refreshed, m.stale = true, false
	return nil
}

// effects simulates a transaction, and once more after a refresh if the lists do not have a package or version.
func (m *Manager) effects(ctx context.Context, t transaction) ([]effect, error) {
	effects, err := m.tool.simulate(ctx, t)
	if errors.Is(err, errNotInLists) && !m.refreshed {
		if m.test {
			return nil, &host.UnknownError{
				Why: fmt.Sprintf("the lists of packages do not have all of %s, and test mode does not refresh them",
					strings.Join(t.names(), ", ")),
			}
		}
		if err := m.refresh(ctx); err != nil {
			return nil, err
		}
		effects, err = m.tool.simulate(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	if len(effects) == 0 && t.verb != "latest" {
		return nil, fmt.Errorf("%w to %s %s, and gives no reason", errNothingToDo, t.verb,
			strings.Join(t.names(), ", "))
	}
	if effects, err = m.own(t, effects); err != nil {
		return nil, err
	}
	if err := t.refuse(effects); err != nil {
		return nil, err
	}
	if m.test {
		err = m.addFiles(ctx, effects)
	}
	return effects, err
}

// own returns the effects without those that planned steps have already, and without packages that are set up beside.
func (m *Manager) own(t transaction, all []effect) (effects []effect, err error) {
	beside := ""
	for _, e := range all {
		switch v, planned := m.world.Package(e.name); {
		case planned && v == e.to:
		case e.setUp && !t.has(e.name):
			beside = e.name
			continue
		default:
			effects = append(effects, e)
		}
		t.verb = "" // something is done
	}
	if beside != "" && (t.verb == "install" || t.verb == "remove" || t.verb == "purge") {
		return nil, fmt.Errorf("%w but set up %s, which the state does not name", errNothingToDo, beside)
	}
	return effects, nil
}

// refuse returns an error if packages would be removed that the transaction does not name.
func (t transaction) refuse(effects []effect) error {
	var others []string
	for _, e := range effects {
		if e.remove && !t.has(e.name) {
			others = append(others, e.name)
		}
	}
	if len(others) == 0 || t.removals {
		return nil
	}
	how := "allow_removals: true allows it"
	if t.verb == "remove" || t.verb == "purge" {
		how = "name them in this state to allow it"
	}
	return fmt.Errorf("%s would be removed, which the state does not name; %s", strings.Join(others, ", "), how)
}

// stepsOf returns what people see of effects. The first step applies all of them.
func stepsOf(effects []effect, apply func(ctx context.Context) error) []host.Step {
	steps := make([]host.Step, 0, len(effects))
	for _, e := range effects {
		change := host.Change{Do: "install", What: e.name, Before: e.from, After: e.to}
		switch {
		case e.remove:
			change.Do, change.Deletes = "remove", true
		case e.setUp:
			change.Do = "configure"
		case e.from != "":
			change.Do = "upgrade"
		}
		steps = append(steps, host.Step{Change: change, Predict: e.predict})
	}
	if len(steps) > 0 {
		steps[0].Apply = apply
	}
	return steps
}

// predict plans the effect.
func (e effect) predict(w *host.World) {
	if e.remove {
		w.RemovePackage(e.name, e.files, e.purge)
		return
	}
	if e.from != "" {
		w.ReplacePackage(e.name, e.files)
	}
	w.SetPackage(e.name, e.to)
}

// execute runs a transaction.
func (m *Manager) execute(ctx context.Context, t transaction) error {
	m.Forget()
	defer m.addAside(putAside(m.etc))
	return m.tool.execute(ctx, t)
}
