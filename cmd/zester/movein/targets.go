package movein

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// FactNames are the facts that expressions have, the most general first.
var FactNames = []string{"os_family", "os", "os_version", "arch", "domain"}

// HostFacts is a host with the values of [FactNames] that it has.
type HostFacts struct {
	ID    string
	Facts map[string]string
}

// targets finds target expressions that tell hosts apart. Facts are preferred to lists of hosts, so that a new host
// gets what hosts like it have.
type targets struct {
	all   string // a target that selects all hosts; empty if no target does
	ids   []string
	facts []fact
}

// A fact is a value of a fact with the hosts that have it.
type fact struct {
	expr, hint string
	hosts      map[int]bool
}

// newTargets returns the targets of hosts. all is an expression that selects these hosts and no others, or empty: then
// each target is a list, because a fact may select others too.
func newTargets(hosts []HostFacts, all string) *targets {
	t := &targets{all: all}
	at := map[string]int{}
	for i, h := range hosts {
		t.ids = append(t.ids, h.ID)
		if all == "" {
			continue
		}
		for _, name := range FactNames {
			value := strings.ToLower(h.Facts[name])
			if value == "" || hint(value) != value {
				continue
			}
			expr := "G@" + name + ":" + value
			if _, ok := at[expr]; !ok {
				at[expr] = len(t.facts)
				t.facts = append(t.facts, fact{expr, strings.ReplaceAll(value, ".", "-"), map[int]bool{}})
			}
			t.facts[at[expr]].hosts[i] = true
		}
	}
	return t
}

// hint returns a text with - in place of what the name of a settings file cannot have.
func hint(text string) string {
	return strings.Map(nameRune, text)
}

// refWord returns the word for one host.
func refWord(id string) string { return hint(strings.ReplaceAll(id, ".", "-")) }

// Of returns an expression for hosts, and a word for it: all, a fact, two facts, or their list.
func (t *targets) Of(hosts map[int]bool) (expr, word string) {
	if len(hosts) == len(t.ids) && t.all != "" {
		return t.all, "all"
	}
	for _, f := range t.facts {
		if maps.Equal(f.hosts, hosts) {
			return t.within(f.expr), f.hint
		}
	}
	for i, f := range t.facts {
		for _, g := range t.facts[i+1:] {
			both := maps.Clone(f.hosts)
			maps.DeleteFunc(both, func(h int, _ bool) bool { return !g.hosts[h] })
			if maps.Equal(both, hosts) {
				return t.within(f.expr + " and " + g.expr), f.hint + "-" + g.hint
			}
		}
	}
	var ids []string
	for _, i := range slices.Sorted(maps.Keys(hosts)) {
		ids = append(ids, t.ids[i])
	}
	if len(ids) == 1 {
		return ids[0], refWord(ids[0])
	}
	return "L@" + strings.Join(ids, ","), strconv.Itoa(len(ids)) + "-hosts"
}

// within returns the hosts of an expression that are among all hosts.
func (t *targets) within(expr string) string {
	switch {
	case t.all == "*":
		return expr
	case strings.ContainsAny(t.all, " ("):
		return "(" + t.all + ") and " + expr
	}
	return t.all + " and " + expr
}
