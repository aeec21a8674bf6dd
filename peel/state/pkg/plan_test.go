//go:build linux

package pkg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// A scripted is apt on a host with these packages. It does what the tests say, and notes what it is asked for.
type scripted struct {
	apt
	now     *inventory
	effects map[string][]effect // by the names of a transaction
	fails   error               // of execute
	old     bool                // the lists of packages
	lacks   bool                // the lists do not have a package, until they are refreshed
	noLists error               // of refresh
	calls   *[]string
}

func (s scripted) note(format string, args ...any) {
	*s.calls = append(*s.calls, fmt.Sprintf(format, args...))
}

func (s scripted) inventory(context.Context) (*inventory, error) { return s.now, nil }
func (s scripted) isStale() bool                                 { return s.old }

func (s scripted) simulate(_ context.Context, t transaction) ([]effect, error) {
	s.note("simulate %s %s", t.verb, strings.Join(t.names(), " "))
	if s.lacks && !slices.Contains(*s.calls, "refresh") {
		return nil, errNotInLists
	}
	return slices.Clone(s.effects[strings.Join(t.names(), " ")]), nil
}

func (s scripted) execute(_ context.Context, t transaction) error {
	s.note("%s %s", t.verb, strings.Join(t.names(), " "))
	if s.fails != nil {
		return s.fails
	}
	for _, e := range s.effects[strings.Join(t.names(), " ")] {
		s.now.versions[e.name] = e.to
	}
	return nil
}

func (s scripted) refresh(context.Context) error {
	s.note("refresh")
	return s.noLists
}

func (s scripted) files(context.Context, effect) (host.PackageFiles, error) {
	return host.PackageFiles{}, nil
}

// managerOf returns a manager of a host that has the packages old, a in version 1 and, of a removed one, gone's files.
func managerOf(test bool, change func(*scripted)) (*Manager, scripted) {
	s := scripted{now: newInventory(), calls: new([]string), effects: map[string][]effect{}}
	s.now.versions["a"], s.now.versions["old"], s.now.leftover["gone"], s.now.provided["virtual"] = "1", "1", true, true
	if change != nil {
		change(&s)
	}
	m := New(host.New(), test)
	m.tool, m.etc = s, "/nowhere"
	return m, s
}

func TestWhatIsMissing(t *testing.T) {
	for name, c := range map[string]struct {
		args state.Arguments
		plan func(*host.World)
		want string
	}{
		"is installed":              {args: &state.PkgInstalled{Name: "a"}, want: "install"},
		"is not":                    {args: &state.PkgInstalled{Name: "b", AllowRemovals: true}, want: "install b, removals"},
		"of several":                {args: &state.PkgInstalled{Names: []string{"a", "b", "c"}}, want: "install b c"},
		"is provided":               {args: &state.PkgInstalled{Name: "virtual"}, want: "install"},
		"the version":               {args: &state.PkgInstalled{Name: "a", Version: "1"}, want: "install"},
		"another version":           {args: &state.PkgInstalled{Name: "a", Version: "2"}, want: "install a=2"},
		"a version of a provided":   {args: &state.PkgInstalled{Name: "virtual", Version: "2"}, want: "install virtual=2"},
		"is planned":                {args: &state.PkgInstalled{Name: "b"}, plan: func(w *host.World) { w.SetPackage("b", "1") }, want: "install"},
		"is planned to go":          {args: &state.PkgInstalled{Name: "a"}, plan: func(w *host.World) { w.SetPackage("a", "") }, want: "install a"},
		"the newest":                {args: &state.PkgLatest{Names: []string{"a", "b"}}, want: "latest a b"},
		"the newest, planned":       {args: &state.PkgLatest{Names: []string{"a", "b"}}, plan: func(w *host.World) { w.SetPackage("a", "2") }, want: "latest b"},
		"to go":                     {args: &state.PkgRemoved{Names: []string{"a", "b"}}, want: "remove a"},
		"to go, files of settings":  {args: &state.PkgRemoved{Name: "gone"}, want: "remove"},
		"to go with them":           {args: &state.PkgRemoved{Name: "gone", Purge: true}, want: "purge gone"},
		"to go with them, planned":  {args: &state.PkgRemoved{Name: "gone", Purge: true}, plan: func(w *host.World) { w.SetPackage("gone", "") }, want: "purge"},
		"to go, is planned":         {args: &state.PkgRemoved{Name: "b"}, plan: func(w *host.World) { w.SetPackage("b", "1") }, want: "remove b"},
		"to go, is planned to go":   {args: &state.PkgRemoved{Name: "a"}, plan: func(w *host.World) { w.SetPackage("a", "") }, want: "remove"},
		"to go with all, installed": {args: &state.PkgRemoved{Name: "a", Purge: true}, want: "purge a"},
	} {
		m, _ := managerOf(true, nil)
		if c.plan != nil {
			c.plan(m.world)
		}
		if err := m.read(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := m.missing(c.args)
		var text strings.Builder
		text.WriteString(got.verb)
		for _, p := range got.packages {
			text.WriteString(" " + strings.TrimSuffix(p.name+"="+p.version, "="))
		}
		if got.removals {
			text.WriteString(", removals")
		}
		if text.String() != c.want {
			t.Errorf("%s: %s, want %s", name, text.String(), c.want)
		}
	}
}

// The lists are refreshed for a state that wants the newest package, and for others if they are old or lack a package.
func TestWhenListsOfPackagesAreRefreshed(t *testing.T) {
	yes, no := true, false
	old := func(s *scripted) { s.old = true }
	lacks := func(s *scripted) { s.lacks = true }
	for name, c := range map[string]struct {
		args   state.Arguments
		host   func(*scripted)
		stale  bool // a repository changed
		run    string
		inTest string // the error
	}{
		"new lists":                     {args: &state.PkgInstalled{Name: "b"}, run: "simulate install b"},
		"old lists":                     {args: &state.PkgInstalled{Name: "b"}, host: old, run: "refresh, simulate install b", inTest: "older than a day"},
		"old lists, refused":            {args: &state.PkgInstalled{Name: "b", Refresh: &no}, host: old, run: "simulate install b"},
		"new lists, asked for":          {args: &state.PkgInstalled{Name: "b", Refresh: &yes}, run: "refresh, simulate install b", inTest: "older than a day"},
		"a changed repository":          {args: &state.PkgInstalled{Name: "b"}, stale: true, run: "refresh, simulate install b", inTest: "a repository would change"},
		"the newest":                    {args: &state.PkgLatest{Name: "b"}, run: "refresh, simulate latest b"},
		"the newest, old lists":         {args: &state.PkgLatest{Name: "b"}, host: old, run: "refresh, simulate latest b", inTest: "older than a day"},
		"removed, old lists":            {args: &state.PkgRemoved{Name: "a"}, host: old, stale: true, run: "simulate remove a"},
		"not in the lists":              {args: &state.PkgInstalled{Name: "b"}, host: lacks, run: "simulate install b, refresh, simulate install b", inTest: "do not have all of b"},
		"not in the lists, after a try": {args: &state.PkgLatest{Name: "b"}, host: lacks, run: "refresh, simulate latest b", inTest: "do not have all of b"},
	} {
		for _, test := range []bool{false, true} {
			m, s := managerOf(test, func(s *scripted) {
				s.effects["b"], s.effects["a"] = []effect{{name: "b", to: "1"}}, []effect{{name: "a", remove: true}}
				if c.host != nil {
					c.host(s)
				}
			})
			m.stale = c.stale
			_, err := m.Plan(t.Context(), c.args)
			if !test {
				if got := strings.Join(*s.calls, ", "); got != c.run || err != nil {
					t.Errorf("%s: %s, want %s: %v", name, got, c.run, err)
				}
				continue
			}
			_, unknown := errors.AsType[*host.UnknownError](err)
			if unknown != (c.inTest != "") || unknown && !strings.Contains(err.Error(), c.inTest) || slices.Contains(*s.calls, "refresh") {
				t.Errorf("%s, in a test: %v, want %q; %q", name, err, c.inTest, *s.calls)
			}
		}
	}
}

// A refresh that failed is not tried for each state of a run, and a refresh that succeeded once is enough.
func TestListsAreRefreshedOnce(t *testing.T) {
	m, s := managerOf(false, func(s *scripted) { s.old, s.noLists = true, errors.New("no route") })
	for range 2 {
		if _, err := m.Plan(t.Context(), &state.PkgInstalled{Name: "b"}); err == nil || !strings.Contains(err.Error(), "cannot refresh the lists of packages: no route") {
			t.Errorf("%v", err)
		}
	}
	if want := "refresh, simulate install b, simulate install b"; strings.Join(*s.calls, ", ") != want {
		t.Errorf("%q", *s.calls)
	}
	if m.Retry(); m.refresh(t.Context()) == nil || len(*s.calls) != 4 {
		t.Errorf("%q", *s.calls)
	}
	m, s = managerOf(false, func(s *scripted) { s.old, s.effects["b"] = true, []effect{{name: "b", to: "1"}} })
	for _, isStale := range []bool{false, true} { // the first time they are old, the second a repository changed
		m.stale, *s.calls = isStale, nil
		for range 2 {
			if _, err := m.Plan(t.Context(), &state.PkgInstalled{Name: "b"}); err != nil {
				t.Error(err)
			}
		}
		if want := "refresh, simulate install b, simulate install b"; strings.Join(*s.calls, ", ") != want {
			t.Errorf("a repository changed: %v: %q, want %q", isStale, *s.calls, want)
		}
	}
}

func TestStepsOfPackages(t *testing.T) {
	for name, c := range map[string]struct {
		args    state.Arguments
		effects []effect
		planned string // in version 2
		want    string
		err     string
	}{
		"new":                       {&state.PkgInstalled{Name: "b"}, []effect{{name: "b", to: "2"}, {name: "lib", to: "1"}}, "", "install b:  to 2; install lib:  to 1", ""},
		"a newer version":           {&state.PkgLatest{Name: "a"}, []effect{{name: "a", from: "1", to: "2"}}, "", "upgrade a: 1 to 2", ""},
		"the newest already":        {&state.PkgLatest{Name: "a"}, nil, "", "", ""},
		"unpacked":                  {&state.PkgInstalled{Name: "b"}, []effect{{name: "b", to: "2", setUp: true}}, "", "configure b:  to 2", ""},
		"another one is unpacked":   {&state.PkgInstalled{Name: "b"}, []effect{{name: "b", to: "2"}, {name: "c", to: "2", setUp: true}}, "", "install b:  to 2", ""},
		"a planned one":             {&state.PkgInstalled{Name: "b"}, []effect{{name: "b", to: "2"}, {name: "c", to: "2"}}, "c", "install b:  to 2", ""},
		"a planned one, other":      {&state.PkgInstalled{Name: "b"}, []effect{{name: "b", to: "2"}, {name: "c", to: "3"}}, "c", "install b:  to 2; install c:  to 3", ""},
		"goes":                      {&state.PkgRemoved{Name: "a"}, []effect{{name: "a", from: "1", remove: true}}, "", "remove a: 1 to , deletes", ""},
		"takes others along":        {&state.PkgRemoved{Name: "a"}, []effect{{name: "a", remove: true}, {name: "old", remove: true}}, "", "", "old would be removed, which the state does not name; name them in this state"},
		"a new one takes others":    {&state.PkgInstalled{Name: "b"}, []effect{{name: "b", to: "2"}, {name: "old", remove: true}}, "", "", "allow_removals: true allows it"},
		"a new one may take others": {&state.PkgInstalled{Name: "b", AllowRemovals: true}, []effect{{name: "b", to: "2"}, {name: "old", remove: true}}, "", "install b:  to 2; remove old:  to , deletes", ""},
		"nothing":                   {&state.PkgInstalled{Name: "b"}, nil, "", "", "would do nothing to install b, and gives no reason"},
	} {
		m, _ := managerOf(true, func(s *scripted) { s.effects["a"], s.effects["b"] = c.effects, c.effects })
		if c.planned != "" {
			m.world.SetPackage(c.planned, "2")
		}
		steps, err := m.Plan(t.Context(), c.args)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: the error is %v, want %q", name, err, c.err)
		}
		if got := words(steps); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		for i, s := range steps {
			if s.Predict(m.world); (s.Apply != nil) != (i == 0) {
				t.Errorf("%s: step %d runs the transaction: %v", name, i, s.Apply != nil)
			}
		}
		if again, err := m.Plan(t.Context(), c.args); c.err == "" && name != "the newest already" && (err != nil || len(again) > 0) {
			t.Errorf("%s: after the predicted steps: %q, %v", name, words(again), err)
		}
	}
}

func words(steps []host.Step) string {
	var all []string
	for _, s := range steps {
		text := s.Do + " " + s.What + ": " + s.Before + " to " + s.After
		if s.Deletes {
			text += ", deletes"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// A transaction that fails is no failure of a state whose packages are as it wants them.
func TestAFailedTransaction(t *testing.T) {
	broken := errors.New("the script of another package failed")
	for name, done := range map[string]bool{"the package is there": true, "it is not": false} {
		m, s := managerOf(false, func(s *scripted) { s.effects["b"], s.fails = []effect{{name: "b", to: "1"}}, broken })
		steps, err := m.Plan(t.Context(), &state.PkgInstalled{Name: "b"})
		if err != nil {
			t.Fatal(err)
		}
		if done {
			s.now.versions["b"] = "1"
		}
		if err := steps[0].Apply(t.Context()); (err == nil) != done {
			t.Errorf("%s: %v", name, err)
		}
	}
	m, s := managerOf(false, func(s *scripted) {
		s.effects["b"], s.fails = []effect{{name: "lib", to: "2"}, {name: "b", to: "1"}}, broken
	})
	steps, err := m.Plan(t.Context(), &state.PkgInstalled{Name: "b"})
	if err != nil {
		t.Fatal(err)
	}
	s.now.versions["b"], s.now.versions["lib"] = "1", "1"
	if err := steps[0].Apply(t.Context()); err != nil {
		t.Errorf("b is there, and lib, which the state does not name, has its old version: %v", err)
	}
	m, s = managerOf(false, func(s *scripted) {
		s.effects["mta"], s.fails = []effect{{name: "postfix", to: "1"}}, broken
	})
	steps, err = m.Plan(t.Context(), &state.PkgInstalled{Name: "mta"})
	if err != nil {
		t.Fatal(err)
	}
	if err := steps[0].Apply(t.Context()); err == nil {
		t.Error("nothing provides mta, and it counts as installed")
	}
	s.now.provided["mta"] = true
	if err := steps[0].Apply(t.Context()); err != nil {
		t.Errorf("postfix provides mta: %v", err)
	}
	m, s = managerOf(false, func(s *scripted) {
		s.effects["gone"], s.fails = []effect{{name: "gone", remove: true, purge: true}}, broken
	})
	steps, err = m.Plan(t.Context(), &state.PkgRemoved{Name: "gone", Purge: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := steps[0].Apply(t.Context()); err == nil {
		t.Error("its configuration files are there, and it counts as purged")
	}
	s.now.leftover["gone"] = false
	if err := steps[0].Apply(t.Context()); err != nil {
		t.Errorf("it is purged: %v", err)
	}
}

func TestWhichStatesOfPackagesAreOneTransaction(t *testing.T) {
	for _, c := range []struct {
		a, b state.Arguments
		want bool
	}{
		{&state.PkgInstalled{Name: "a"}, &state.PkgInstalled{Name: "b"}, true},
		{&state.PkgInstalled{Name: "a", AllowRemovals: true}, &state.PkgInstalled{Name: "b"}, false},
		{&state.PkgInstalled{Name: "a"}, &state.PkgLatest{Name: "b"}, false},
		{&state.PkgLatest{Name: "a"}, &state.PkgLatest{Name: "b"}, true},
		{&state.PkgLatest{Name: "a"}, &state.PkgInstalled{Name: "b"}, false},
		{&state.PkgRemoved{Name: "a"}, &state.PkgRemoved{Name: "b"}, true},
		{&state.PkgRemoved{Name: "a", Purge: true}, &state.PkgRemoved{Name: "b"}, false},
		{&state.PkgRemoved{Name: "a"}, &state.PkgInstalled{Name: "b"}, false},
		{&state.FileManaged{}, &state.FileManaged{}, false},
	} {
		if got := CanJoin(c.a, c.b); got != c.want {
			t.Errorf("%T and %T: %v", c.a, c.b, got)
		}
	}
}

// Joined states run one transaction, and the first of them has what no state names.
func TestJoinedStates(t *testing.T) {
	b, c, a := &state.PkgInstalled{Name: "b"}, &state.PkgInstalled{Name: "c"}, &state.PkgInstalled{Name: "a"}
	all := []effect{{name: "lib", to: "1"}, {name: "b", to: "2"}, {name: "c", to: "3"}}
	for name, fails := range map[string]error{"it works": nil, "it fails": errors.New("the script of c failed")} {
		m, s := managerOf(false, func(s *scripted) {
			s.effects["b c"], s.effects["b"], s.effects["c"], s.fails = all, all[:2], all[2:], fails
		})
		if pending := m.Join(t.Context(), []state.Arguments{a, b, c}); !slices.Equal(pending, []state.Arguments{b, c}) {
			t.Fatalf("%s: %v", name, pending)
		}
		if m.Began(b) {
			t.Errorf("%s: it has begun before", name)
		}
		ofB, err := m.Plan(t.Context(), b)
		if got := words(ofB); err != nil || got != "install lib:  to 1; install b:  to 2" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		*s.calls = nil
		errB := ofB[0].Apply(t.Context())
		if !m.Began(c) || m.Began(a) {
			t.Errorf("%s: which states have a result: %v, %v", name, m.Began(c), m.Began(a))
		}
		ofC, err := m.Plan(t.Context(), c)
		if got := words(ofC); err != nil || got != "install c:  to 3" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		errC := ofC[0].Apply(t.Context())
		calls := strings.Join(*s.calls, ", ")
		if fails == nil && (errB != nil || errC != nil || calls != "install b c") {
			t.Errorf("%s: %v, %v, %s", name, errB, errC, calls)
		}
		if want := "install b c, simulate install b, install b, simulate install c, install c"; fails != nil && (errB != fails || errC != fails || calls != want) {
			t.Errorf("%s: %v, %v, %s", name, errB, errC, calls)
		}
	}

	m, _ := managerOf(false, func(s *scripted) { s.effects["b"] = all[:2] })
	if pending := m.Join(t.Context(), []state.Arguments{a, b}); pending != nil || m.joint != nil {
		t.Errorf("one state has something to do, and is joined: %v", pending)
	}
	m, _ = managerOf(false, nil)
	if pending := m.Join(t.Context(), []state.Arguments{b, c}); pending != nil {
		t.Errorf("there is no plan for all, and they are joined: %v", pending)
	}
}

// A package that two joined states name is installed once, by the first.
func TestJoinedStatesOfOnePackage(t *testing.T) {
	first, second := &state.PkgInstalled{Name: "b"}, &state.PkgInstalled{Names: []string{"b", "c"}}
	third := &state.PkgInstalled{Name: "b"}
	m, s := managerOf(false, func(s *scripted) {
		s.effects["b c"] = []effect{{name: "b", to: "2"}, {name: "c", to: "3"}}
	})
	pending := m.Join(t.Context(), []state.Arguments{first, second, third})
	if !slices.Equal(pending, []state.Arguments{first, second}) {
		t.Fatalf("these states have something to do: %v", pending)
	}
	for i, want := range []string{"install b:  to 2", "install c:  to 3", ""} {
		args := []state.Arguments{first, second, third}[i]
		steps, err := m.Plan(t.Context(), args)
		if got := words(steps); err != nil || got != want {
			t.Errorf("state %d: %q, %v", i, got, err)
		}
		for _, step := range steps {
			if err := step.Apply(t.Context()); err != nil {
				t.Error(err)
			}
		}
		m.Doubt(t.Context(), []string{"b", "c"})
	}
	if calls := strings.Join(*s.calls, ", "); calls != "simulate install b c, install b c" {
		t.Errorf("the calls are %s", calls)
	}
}
