package movein

import (
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	zstate "github.com/seed-c01c3da5/zester/settings/state"
)

// A slsFile is a settings file with states, and the hosts that get it.
type slsFile struct {
	ref    string
	sls    string
	expr   string // target expression of the hosts
	hosts  map[int]bool
	states []made

	entries *yaml.Node // of the schedule, instead of states
	order   []string   // names of states alone, which have their place by them
}

// text returns the settings file.
func (f *slsFile) text() ([]byte, error) {
	switch {
	case f.entries != nil:
		return encode(scheduleKey, f.entries)
	case f.order != nil:
		return encode(zstate.Key, orderNode(f.order))
	}
	return encode(zstate.Key, nodeOf(f.states))
}

// groupStates puts the states of hosts into files. Each state of an .sls file is in one file: the one of all hosts that
// have it with the same arguments.
func groupStates(hosts []minion, all string, hidden secrets) ([]*slsFile, error) {
	var files []*slsFile
	t := minionTargets(hosts, all)
	refs := map[string]bool{}
	order, place := orderOf(hosts), map[string]int{}
	for at, name := range order {
		place[name] = at
	}
	for _, sls := range slsOf(hosts) {
		of, members, err := filesOf(sls, hosts)
		if err != nil {
			return nil, err
		}
		base := strings.Trim(notInNames.ReplaceAllString(hidden.cover(sls), "-"), ".-")
		for _, f := range of {
			var hint string
			f.expr, hint = t.Of(f.hosts)
			f.ref = base
			if len(of) > 1 && len(f.hosts) < members {
				f.ref += "-" + hint
			}
			f.ref, f.sls = freeRef(f.ref, refs), sls
		}
		files = append(files, of...)
	}
	slices.SortStableFunc(files, func(a, b *slsFile) int { return place[a.states[0].name] - place[b.states[0].name] })
	if areInOrder(files, hosts) {
		return files, nil
	}
	f := &slsFile{hosts: map[int]bool{}, order: order, ref: freeRef("salt-order", refs)}
	for i := range hosts {
		f.hosts[i] = true
	}
	f.expr, _ = t.Of(f.hosts)
	return append([]*slsFile{f}, files...), nil
}

// filesOf returns the files of an .sls file, without names, and how many hosts have it.
func filesOf(sls string, hosts []minion) (files []*slsFile, members int, err error) {
	with := map[string]map[int]bool{} // the hosts that have a state, by all of its text
	states := map[string]made{}
	var texts []string
	for i, h := range hosts {
		isMember := false
		for at, d := range h.Low {
			if d.SLS != sls {
				continue
			}
			isMember = true
			for _, m := range h.states[at] {
				text, err := m.text()
				if err != nil {
					return nil, 0, err
				}
				if with[text] == nil {
					with[text] = map[int]bool{}
					texts, states[text] = append(texts, text), m
				}
				with[text][i] = true
			}
		}
		if isMember {
			members++
		}
	}
	for _, text := range texts {
		at := slices.IndexFunc(files, func(f *slsFile) bool { return maps.Equal(f.hosts, with[text]) })
		if at < 0 {
			at = len(files)
			files = append(files, &slsFile{hosts: with[text]})
		}
		files[at].states = append(files[at].states, states[text])
	}
	slices.SortStableFunc(files, func(a, b *slsFile) int { return len(b.hosts) - len(a.hosts) })
	return files, members, nil
}

// areInOrder reports whether the files give each host its states in the order of Salt.
func areInOrder(files []*slsFile, hosts []minion) bool {
	rules := assign(files)
	for i, h := range hosts {
		var here []string
		for _, rule := range rules {
			for _, f := range rule.files {
				if f.hosts[i] {
					here = append(here, namesOf(f.states)...)
				}
			}
		}
		if !slices.Equal(here, namesOf(slices.Concat(h.states...))) {
			return false
		}
	}
	return true
}

func namesOf(states []made) []string {
	out := make([]string, len(states))
	for i, m := range states {
		out[i] = m.name
	}
	return out
}

// orderOf returns the names of all states in an order that each host has in Salt, unless hosts contradict each other.
func orderOf(hosts []minion) []string {
	var names []string
	missing := map[string]int{} // how many states come directly before a state
	after := map[string][]string{}
	for _, h := range hosts {
		before := ""
		for _, name := range namesOf(slices.Concat(h.states...)) {
			if _, known := missing[name]; !known {
				missing[name] = 0
				names = append(names, name)
			}
			if before != "" && !slices.Contains(after[before], name) {
				after[before] = append(after[before], name)
				missing[name]++
			}
			before = name
		}
	}
	sorted := make([]string, 0, len(names))
	for len(names) > 0 {
		at := max(0, slices.IndexFunc(names, func(name string) bool { return missing[name] <= 0 }))
		name := names[at] // the first, if hosts contradict each other
		names = slices.Delete(names, at, at+1)
		sorted = append(sorted, name)
		for _, next := range after[name] {
			missing[next]--
		}
	}
	return sorted
}

// freeRef is like free, for the name of a settings file. The name of the file with its secrets is taken too.
func freeRef(base string, taken map[string]bool) string {
	ref := claim(base, taken)
	for taken[secretRef+"."+ref] {
		ref = claim(base, taken)
	}
	taken[secretRef+"."+ref] = true
	return ref
}

// slsOf returns the .sls files in the order in which hosts run them.
func slsOf(hosts []minion) (all []string) {
	seen := map[string]bool{}
	for _, h := range hosts {
		for _, d := range h.Low {
			if !seen[d.SLS] {
				seen[d.SLS] = true
				all = append(all, d.SLS)
			}
		}
	}
	return all
}

// grains are Salt's names of facts, by the names here.
var grains = map[string]string{
	"os_family": "os_family", "os": "os", "os_version": "osrelease", "arch": "cpuarch", "domain": "domain",
}

// machines are Go's names of processors.
var machines = map[string]string{"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm"}

// facts returns the facts of a host that its grains say, in lower case.
func (h *Minion) facts() map[string]string {
	facts := map[string]string{}
	for _, fact := range FactNames {
		value, _ := h.Grains[grains[fact]].(string)
		if fact == "arch" {
			value = machines[value]
		}
		if value != "" {
			facts[fact] = strings.ToLower(value)
		}
	}
	return facts
}

func minionTargets(hosts []minion, all string) *targets {
	known := make([]HostFacts, len(hosts))
	for i, h := range hosts {
		known[i] = HostFacts{ID: h.ID, Facts: h.facts()}
	}
	return newTargets(known, all)
}
