package plan

import (
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// checkFiles checks the states of files when it is not known which files a peel combines. Only a state that one file
// alone declares can be checked, and a requisite may name a state of any file. err is about reading the tree.
func (p *pass) checkFiles(files []*File) error {
	c := stateCheck{declared: map[string]int{}, refs: map[string][]string{}}
	for _, f := range files {
		for name, state := range f.States {
			if state.Value.Kind == strictyaml.Null {
				continue // it only removes the state of another file, or has its place
			}
			c.declared[name]++
			ref := ReferenceTo(f.Path)
			c.refs[ref] = append(c.refs[ref], name)
		}
	}
	for _, f := range files {
		section := c.own(f.Node.Get(state.Key))
		set, err := state.Parse(section, state.Options{Files: func(ref string) []string { return c.refs[ref] }})
		if err != nil {
			p.problems.add(Invalid, AsErrors(f.Path, err)...)
		}
		_, bad, err := p.addContents(&Effective{States: set})
		if err != nil {
			return err
		}
		p.problems.add(bad.reason, bad.errs...)
	}
	return nil
}

// A stateCheck holds the states of all files.
type stateCheck struct {
	declared map[string]int      // number of the files that declare a state
	refs     map[string][]string // names of the states of each file, by its reference
}

// own returns the states that no other file declares and that stand for one state, without requisites that name others.
func (c stateCheck) own(section *strictyaml.Node) *strictyaml.Node {
	out := &strictyaml.Node{Kind: strictyaml.Map}
	if section == nil {
		return out
	}
	own := func(name string) bool {
		n := section.Get(name)
		return c.declared[name] == 1 && n != nil && !state.IsMany(n)
	}
	for _, p := range section.Map {
		if !own(p.Key) || p.Value.Kind != strictyaml.Map {
			continue
		}
		p.Value = state.WithoutRequisites(p.Value, func(name string) bool { return c.declared[name] > 0 && !own(name) })
		out.Map = append(out.Map, p)
	}
	return out
}
