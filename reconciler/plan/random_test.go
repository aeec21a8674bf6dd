package plan_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// randomRevision returns a revision with states in four files, of which the peels of a fleet combine several.
func randomRevision(r *rand.Rand) fstest.MapFS {
	var b strings.Builder
	b.WriteString("-- top.yaml --\nbase: {'*': [a, b], 'web-*': [c], 'db-*': [d, c]}\n")
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	name := func() string { return fmt.Sprintf("s%d", r.IntN(12)) }
	for _, file := range []string{"a", "b", "c", "d"} {
		fmt.Fprintf(&b, "-- settings/%s.yaml --\nstates:\n", file)
		used := map[string]bool{}
		for range 1 + r.IntN(4) {
			n := name()
			if used[n] {
				continue
			}
			used[n] = true
			function := one("pkg.installed: {}", "pkg.latest: ", "cmd.run: {command: x}", fmt.Sprintf("file.managed: {path: /etc/%s, source: files/%d}", n, r.IntN(3)),
				fmt.Sprintf("file.managed: {path: /etc/%s, source: files/tree/%d, template: true}", n, r.IntN(2)), fmt.Sprintf("file.recurse: {path: /srv/%s, source: files/tree}", n))
			switch r.IntN(8) {
			case 0:
				fmt.Fprintf(&b, "  %s: null\n", n)
			case 1:
				fmt.Fprintf(&b, "  %s: {failhard: true}\n", n)
			case 2:
				fmt.Fprintf(&b, "  %s: {%s, %s: [%s]}\n", n, function, one("require", "onchanges", "onfail", "require_in"), one(name(), "'file:"+one("a", "b", "c")+"'"))
			default:
				fmt.Fprintf(&b, "  %s: {%s}\n", n, function)
			}
		}
		b.WriteString("  last-" + file + ": {pkg.installed: {}}\n")
	}
	m := tree(b.String())
	for _, path := range []string{"files/0", "files/1", "files/2", "files/tree/0", "files/tree/1"} {
		m[path] = &fstest.MapFile{Data: []byte(one("one", "two {{a}}", "three")), Mode: 0o644}
		if r.IntN(5) == 0 {
			m[path].Mode = 0o755
		}
	}
	return m
}

// Whatever a compiler has in its cache, a revision gives the bytes that a new compiler gives; a peel reads from them the states
// in the same order; and what compiles for all peels passes the check without a fleet.
func TestTheSameRevisionGivesTheSameStatesWhateverWasCompiledBefore(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	peels := fleet("web-01", "db-01", "other")
	used, valid := plan.NewCompiler(), 0
	var previous []fstest.MapFS
	for range 400 {
		m := randomRevision(r)
		if len(previous) > 0 && r.IntN(2) == 0 { // a revision that shares much with an earlier one
			base := previous[r.IntN(len(previous))]
			for _, path := range []string{"settings/a.yaml", "settings/b.yaml", "settings/c.yaml", "settings/d.yaml", "files/0", "files/tree/0", "files/tree/1"} {
				if base[path] != nil && r.IntN(4) > 0 {
					m[path] = base[path]
				}
			}
		}
		if r.IntN(10) == 0 {
			delete(m, "files/tree/0")
		}
		previous = append(previous[max(0, len(previous)-2):], m)
		fresh, err := plan.NewCompiler().Compile(withHashes(m), peels)
		again, againErr := used.Compile(withHashes(m), peels)
		if err != nil || againErr != nil {
			if fmt.Sprint(err) != fmt.Sprint(againErr) {
				t.Fatalf("%v\nwith a cache: %v", err, againErr)
			}
			if _, ok := errors.AsType[*plan.Error](err); !ok {
				t.Fatal(err)
			}
			continue
		}
		valid++
		for id, e := range fresh.Peels {
			if !bytes.Equal(e.Settings, again.Peels[id].Settings) {
				t.Fatalf("%s gets other settings with a cache: %q, not %q", id, again.Peels[id].Settings, e.Settings)
			}
			values, err := e.Values()
			if err != nil {
				t.Fatal(err)
			}
			if found, err := state.FromSettings(values); err != nil || len(found.Broken) > 0 || !slices.Equal(stateNames(found.Set), stateNames(e.States)) {
				t.Fatalf("%s reads the states %q, not %q: %v", id, stateNames(found.Set), stateNames(e.States), err)
			}
			for path := range e.Compiled.Files {
				if data, _, err := again.Peels[id].Content(path); err != nil || !bytes.Equal(data, m[path].Data) {
					t.Fatalf("the content of %s is %q: %v", path, data, err)
				}
			}
		}
		if _, err := plan.NewCompiler().Check(m); err != nil {
			t.Fatalf("the check refuses what compiles for all peels: %v", err)
		}
	}
	if valid < 50 {
		t.Errorf("%d of the revisions are valid", valid)
	}
}
