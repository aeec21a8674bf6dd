package lint

import (
	"slices"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// guards are the fields of a state that say when its command is needed.
var guards = []string{"onlyif", "unless", "onchanges", "onfail"}

// commands warns of states that run a command each time: no settings file gives a state of this name a guard.
func commands(files []*plan.File) strictyaml.Errors {
	guarded := map[string]bool{}
	var runs []strictyaml.Pair
	for _, f := range files {
		section := f.Node.Get(state.Key)
		if section == nil {
			continue
		}
		for _, p := range section.Map {
			command := p.Value.Get("cmd.run")
			if command != nil {
				runs = append(runs, p)
			}
			enabled := p.Value.Get("enabled")
			if command.Get("creates") != nil || enabled != nil && enabled.Value == false ||
				slices.ContainsFunc(guards, func(g string) bool { return p.Value.Get(g) != nil }) {
				guarded[p.Key] = true
			}
			if list := p.Value.Get("onchanges_in"); list != nil {
				for _, n := range list.List {
					name, _ := n.Value.(string)
					guarded[name] = true
				}
			}
		}
	}
	var found strictyaml.Errors
	for _, p := range runs {
		if !guarded[p.Key] {
			found = append(found, strictyaml.Error{
				Pos:  p.KeyPos,
				Path: state.Key + "." + p.Key,
				Msg:  "the command runs each time; onlyif, unless, creates or onchanges says when it is needed",
			})
		}
	}
	return found
}
