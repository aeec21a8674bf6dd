package movein

import (
	"fmt"
	"maps"
	"strings"
)

// A place says which declaration of a host is meant: the IDs of a host have one or more modules, and with names several
// declarations of each.
type place struct {
	id, module string
	nth        int
}

// A naming gives declarations their names. A declaration has the same names on all hosts. An ID is often a command, so
// that names have no secrets only because the IDs are masked.
type naming struct {
	taken  map[string]bool
	names  map[place]string
	places map[*Minion][]place
}

func newNaming(hosts []Minion, hidden secrets) *naming {
	n := &naming{taken: map[string]bool{}, names: map[place]string{}, places: map[*Minion][]place{}}
	modules := map[string]map[string]bool{} // of each ID
	for i := range hosts {
		h := &hosts[i]
		counts := map[place]int{}
		for _, d := range h.Low {
			p := place{id: d.ID, module: d.State}
			counts[p]++
			p.nth = counts[p]
			n.places[h] = append(n.places[h], p)
			if modules[d.ID] == nil {
				modules[d.ID] = map[string]bool{}
			}
			modules[d.ID][d.State] = true
		}
	}
	for i := range hosts {
		for _, p := range n.places[&hosts[i]] {
			if n.names[p] != "" {
				continue
			}
			name := strings.Trim(notInIDs.ReplaceAllString(hidden.mask(p.id), "-"), "- ")
			if len(modules[p.id]) > 1 {
				name += "-" + p.module
			}
			n.names[p] = claim(strings.TrimRight(name[:min(len(name), 200)], " "), n.taken)
		}
	}
	return n
}

// claim returns a name that nothing has, and takes it.
func claim(base string, taken map[string]bool) string {
	if base == "" {
		base = "state"
	}
	name := free(base, taken)
	taken[name] = true
	return name
}

// of returns the names of the states of a declaration.
func (n *naming) of(h *Minion, at int) []string {
	name := n.names[n.places[h][at]]
	names := []string{name}
	for i := range partsOf(h.Low[at]) - 1 {
		names = append(names, fmt.Sprintf("%s.%d", name, i+2))
	}
	return names
}

// mayBeSeveral reports whether a declaration can become several states.
func mayBeSeveral(d Declaration) bool {
	return d.State == "pkg" || d.State == "ini" || d.Function() == "file.append" || d.Function() == "file.prepend"
}

// partsOf returns of how many states a declaration becomes.
func partsOf(d Declaration) int {
	r, ok := rules[d.Function()]
	if !ok || r.before == nil || !mayBeSeveral(d) {
		return 1
	}
	c := &conversion{Declaration: d, left: map[string]any{}, args: map[string]any{}, fields: map[string]any{}}
	maps.Copy(c.left, d.args)
	if r.before(c) != nil || c.err != nil {
		return 1
	}
	return len(c.more) + 1
}
