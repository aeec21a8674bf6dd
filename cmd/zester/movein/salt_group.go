package movein

import (
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// A slsFile is a settings file with states, and the hosts that get it.
type slsFile struct {
	ref    string
	sls    string
	expr   string // target expression of the hosts
	hosts  map[int]bool
	states []made

	entries *yaml.Node // of the schedule, instead of states
}

// groupStates puts the states of hosts into files. What hosts have in common of an .sls file, up to the first
// difference, is one file; the rest of it is a file for each group of hosts with equal states.
func groupStates(hosts []minion, all string, hidden secrets) ([]*slsFile, error) {
	var files []*slsFile
	t := minionTargets(hosts, all)
	refs := map[string]bool{}
	for _, sls := range slsOf(hosts) {
		texts, states, members := map[int][]string{}, map[int][]made{}, map[int]bool{}
		for i, h := range hosts {
			for at, d := range h.Low {
				if d.SLS != sls {
					continue
				}
				members[i] = true
				for _, m := range h.states[at] {
					text, err := m.text()
					if err != nil {
						return nil, err
					}
					texts[i], states[i] = append(texts[i], text), append(states[i], m)
				}
			}
		}
		common := commonStart(texts)
		base := strings.Trim(notInNames.ReplaceAllString(hidden.cover(sls), "-"), ".-")
		var of []*slsFile
		if common > 0 {
			first := slices.Min(slices.Collect(maps.Keys(members)))
			of = append(of, &slsFile{hosts: members, states: states[first][:common]})
		}
		rest := map[string]*slsFile{}
		for _, i := range slices.Sorted(maps.Keys(members)) {
			key := strings.Join(texts[i][common:], "\x00")
			if rest[key] == nil {
				rest[key] = &slsFile{hosts: map[int]bool{}, states: states[i][common:]}
				if key != "" {
					of = append(of, rest[key])
				}
			}
			rest[key].hosts[i] = true
		}
		for _, f := range of {
			var hint string
			f.expr, hint = t.Of(f.hosts)
			f.ref = base
			if len(of) > 1 && len(f.hosts) < len(members) {
				f.ref += "-" + hint
			}
			f.ref, f.sls = freeRef(f.ref, refs), sls
		}
		files = append(files, of...)
	}
	return ordered(files, hosts), nil
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

// commonStart returns how many of the first texts all have.
func commonStart(texts map[int][]string) int {
	var first []string
	for _, list := range texts {
		first = list
		break
	}
	n := len(first)
	for _, list := range texts {
		for i := range n {
			if i == len(list) || list[i] != first[i] {
				n = i
				break
			}
		}
	}
	return n
}

// ordered sorts files as the hosts run them.
func ordered(files []*slsFile, hosts []minion) []*slsFile {
	after := map[*slsFile]map[*slsFile]bool{} // what comes before each file
	for i, h := range hosts {
		first := map[string]int{}
		for at := range h.Low {
			for _, m := range h.states[at] {
				first[m.name] = len(first)
			}
		}
		mine := slices.DeleteFunc(slices.Clone(files), func(f *slsFile) bool { return !f.hosts[i] })
		slices.SortStableFunc(mine, func(a, b *slsFile) int {
			return first[a.states[0].name] - first[b.states[0].name]
		})
		for at, f := range mine[:max(len(mine)-1, 0)] {
			if after[mine[at+1]] == nil {
				after[mine[at+1]] = map[*slsFile]bool{}
			}
			after[mine[at+1]][f] = true
		}
	}
	var out []*slsFile
	for left := slices.Clone(files); len(left) > 0; {
		next := slices.IndexFunc(left, func(f *slsFile) bool {
			return !slices.ContainsFunc(left, func(g *slsFile) bool { return after[f][g] })
		})
		next = max(next, 0) // hosts contradict each other: the first
		out = append(out, left[next])
		left = slices.Delete(left, next, next+1)
	}
	return out
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
