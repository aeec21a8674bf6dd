package movein

import (
	"fmt"
	"maps"
	"slices"
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
	parts  map[*Minion]map[int]int // how many states declarations become
	source *sources
}

func newNaming(hosts []Minion, src *sources) *naming {
	n := &naming{
		taken: map[string]bool{}, names: map[place]string{}, places: map[*Minion][]place{},
		parts: map[*Minion]map[int]int{}, source: src,
	}
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
			name := strings.Trim(notInIDs.ReplaceAllString(src.hidden.mask(p.id), "-"), "- ")
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
	for i := range n.partsOf(h, at) - 1 {
		names = append(names, partName(name, i+2))
	}
	return names
}

// partName returns the name of the second state of a declaration, or of a later one.
func partName(name string, nth int) string { return fmt.Sprintf("%s.%d", name, nth) }

// mayBeSeveral are the functions of Salt whose declarations can become several states.
var mayBeSeveral = strings.Fields("pkg.installed pkg.latest pkg.removed pkg.purged ini.options_present file.append " +
	"file.prepend file.replace file.blockreplace user.present cron.absent file.symlink host.present host.absent " +
	"file.keyvalue locale.present mount.swap mount.unmounted pkgrepo.managed virtualenv.managed " +
	"git.latest")

// partsOf returns of how many states a declaration becomes.
func (n *naming) partsOf(h *Minion, at int) int {
	d := h.Low[at]
	if !slices.Contains(mayBeSeveral, d.Function()) {
		return 1
	}
	if n.parts[h] == nil {
		n.parts[h] = map[int]int{}
	}
	if n.parts[h][at] == 0 {
		c := &conversion{
			Declaration: d, host: h, source: n.source, function: rules[d.Function()].function,
			left: maps.Clone(d.args), args: map[string]any{}, fields: map[string]any{}, files: map[string][]byte{},
		}
		n.parts[h][at] = 1
		if rules[d.Function()].before(c) == nil && c.err == nil {
			n.parts[h][at] = len(c.first) + 1 + len(c.more) + len(c.then)
		}
	}
	return n.parts[h][at]
}
