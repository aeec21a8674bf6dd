package movein

import (
	"embed"
	"errors"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// PeelsFile is the file of the repo with the hosts and their facts, which lint reads.
const PeelsFile = "peels.yaml"

const peelsHead = `# The hosts and their facts, for zester lint --facts peels.yaml. When they have joined:
# zester peel facts > peels.yaml
`

// addPeels adds peels.yaml, the file with the facts of the hosts, to the repo.
func (r *SaltResult) addPeels(hosts []minion) error {
	peels := map[string]any{}
	for _, h := range hosts {
		peels[h.ID] = map[string]any{"facts": h.facts()}
	}
	text, err := encode("peels", valueNode(peels))
	r.Files[PeelsFile] = append([]byte(peelsHead), text...)
	return err
}

// check compiles the repo for the hosts, as lint does with their facts: it finds what no file shows by itself, and the
// order in which the states of each host run.
func (r *SaltResult) check(hosts []minion) error {
	peels, err := strictyaml.Parse(PeelsFile, r.Files[PeelsFile])
	if err != nil {
		return err
	}
	known, err := policy.ParseFleet(peels)
	if err != nil {
		return err
	}
	fleet := peelindex.New()
	for _, p := range known.Peels {
		fleet.Put(p.ID, p.Facts)
	}
	tree := maps.Clone(r.Files)
	maps.Copy(tree, r.Secrets)
	p, err := plan.NewCompiler().Compile(edit.Over(embed.FS{}, tree), fleet)
	if refused, isRefused := errors.AsType[*plan.Error](err); isRefused {
		r.Mistakes = refused.Errors
		return nil
	}
	if err != nil {
		return err
	}
	for _, h := range hosts {
		var here, there []string
		late := map[string]bool{}
		for _, m := range slices.Concat(h.states...) {
			if late[m.name] = m.isLate; !m.isLate {
				there = append(there, m.name)
			}
		}
		for _, s := range p.Peels[target.PeelID(h.ID)].States {
			if !late[s.Name] {
				here = append(here, s.Name)
			}
		}
		if !slices.Equal(here, there) {
			r.Reordered = append(r.Reordered, h.ID)
		}
	}
	return nil
}
