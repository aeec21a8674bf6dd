package movein

import (
	"maps"
	"slices"
	"strings"
)

// inOrder sorts declarations as Salt runs them: each in its place, and before it what it needs.
func inOrder(low []Declaration) []Declaration {
	h := &Minion{Low: low}
	sorted := make([]Declaration, 0, len(low))
	seen := make([]bool, len(low))
	var run func(at int)
	run = func(at int) {
		if seen[at] {
			return
		}
		seen[at] = true
		for _, r := range requisites {
			if r.salt == "listen" {
				continue
			}
			for _, element := range listOf(low[at].args[r.salt]) {
				for _, before := range named(h, []any{element}, at) {
					run(before)
				}
			}
		}
		sorted = append(sorted, low[at])
	}
	for at := range low {
		run(at)
	}
	return sorted
}

// relay returns the state of a declaration that changes nothing on a host. With requisites it is a command that does
// nothing, so that what needs the declaration still waits for them, is skipped if one fails, and reacts if Salt does.
func (c *conversion) relay(name string, isObserved bool) made {
	m := disabled(name, c.Declaration, nil, c.source.hidden)
	needs := map[string]any{}
	for _, r := range requisites {
		if value, ok := c.fields[r.here]; ok {
			needs[r.here] = value
		}
	}
	changes := needs["onchanges"] != nil && (c.State == "test" || c.State == "module")
	if !changes {
		joined, _ := needs["require"].([]string)
		causes, _ := needs["onchanges"].([]string)
		if joined = union(joined, causes); len(joined) > 0 {
			needs["require"] = joined
		}
		delete(needs, "onchanges")
	}
	changes = changes || isObserved && c.Function() == "module.run" // in each run, as in Salt
	if len(needs) == 0 && !changes {
		return m
	}
	m.fields = needs
	if !changes {
		m.args["creates"] = "/" // which is there: the command is never run
	}
	return m
}

// isObserved reports whether a change of a declaration makes others run or react.
func (n *naming) isObserved(h *Minion, at int) bool {
	return slices.ContainsFunc(h.Low, func(d Declaration) bool {
		for _, r := range requisites {
			if r.here != "watch" && r.here != "onchanges" {
				continue
			}
			if slices.ContainsFunc(listOf(d.args[r.salt]), func(e any) bool { return matches(h.Low[at], e) }) {
				return true
			}
		}
		return false
	})
}

// A bridge mends the states of a host that have to do with declarations that are not converted.
type bridge struct {
	naming *naming
	host   *Minion
	all    []attempt
	exist  map[string]bool // names of states
	lost   map[string]int  // declarations that are not converted, by the name of their state
}

// bridge gives each state that needs a declaration that is not converted what that one needs, and a note about what it
// does without it.
func (n *naming) bridge(h *Minion, all []attempt) {
	b := &bridge{n, h, all, map[string]bool{}, map[string]int{}}
	for at, a := range all {
		if a.err != nil {
			b.lost[n.of(h, at)[0]] = at
			b.exist[n.of(h, at)[0]] = true
		}
		for _, m := range a.states {
			b.exist[m.name] = true
		}
	}
	for at := range all {
		for i := range all[at].states {
			b.mend(&all[at], &all[at].states[i])
			b.keep(&all[at], &all[at].states[i])
		}
	}
}

// mend changes the requisites of a state.
func (b *bridge) mend(a *attempt, m *made) {
	fields := maps.Clone(m.fields)
	var needs []string
	for _, field := range []string{"require", "watch", "onchanges", "onfail"} {
		names, ok := fields[field].([]string)
		if !ok {
			continue
		}
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !b.exist[name] })
		fields[field] = names
		var lost []string
		for _, name := range names {
			at, isLost := b.lost[name]
			if !isLost {
				continue
			}
			lost = append(lost, name)
			if field != "onfail" {
				needs = union(needs, b.before(at, map[int]bool{}))
			}
		}
		if len(lost) > 0 {
			a.note(without(field, lost, len(lost) == len(names)))
		}
	}
	needs = slices.DeleteFunc(needs, func(name string) bool { return name == m.name })
	if required, _ := fields["require"].([]string); len(needs) > 0 {
		fields["require"] = union(required, needs)
	}
	m.fields = fields
}

// keep takes clean from a directory where it would delete what a declaration that is not converted puts there.
func (b *bridge) keep(a *attempt, m *made) {
	if m.args["clean"] != true {
		return
	}
	dir, _ := m.args["path"].(string)
	var lost []string
	for at, d := range b.host.Low {
		if b.all[at].err != nil && strings.HasPrefix(d.Name, strings.TrimSuffix(dir, "/")+"/") {
			lost = append(lost, d.Name)
		}
	}
	if len(lost) > 0 {
		delete(m.args, "clean")
		a.note("argument clean is left out: it would delete " + some(lost) + ", not converted")
	}
}

// before returns the names of the states that run before a declaration, because it needs them. In place of one that is
// not converted it returns the states that this one needs.
func (b *bridge) before(at int, seen map[int]bool) (names []string) {
	seen[at] = true
	for _, r := range requisites {
		if r.salt == "listen" || r.here == "onfail" {
			continue
		}
		for _, i := range named(b.host, listOf(b.host.Low[at].args[r.salt]), at) {
			switch {
			case b.all[i].err == nil:
				names = union(names, b.naming.of(b.host, i))
			case !seen[i]:
				names = union(names, b.before(i, seen))
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !b.exist[name] })
}

// without says what a state does without others that are not converted. isAll reports that the field has no more.
func without(field string, lost []string, isAll bool) string {
	which := some(lost) + ", not converted"
	switch {
	case field == "require":
		return "it runs without what it requires: " + which
	case field == "watch":
		return "it does not react to a change of " + which
	case field == "onchanges" && isAll:
		return "it never runs: it waits for a change of " + which
	case field == "onchanges":
		return "it does not run after a change of " + which
	case isAll:
		return "it never runs: it waits for a failure of " + which
	}
	return "it does not run after a failure of " + which
}

func (a *attempt) note(text string) {
	if !slices.Contains(a.notes, text) {
		a.notes = append(a.notes, text)
	}
}

// union returns a list with the elements of another that it does not have.
func union(list, more []string) []string {
	list = slices.Clone(list)
	for _, element := range more {
		if !slices.Contains(list, element) {
			list = append(list, element)
		}
	}
	return list
}
