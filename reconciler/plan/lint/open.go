package lint

import (
	"fmt"
	"strconv"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

const readableByOthers = 0o004 // the bit of a mode

// opened warns of states that write a secret into a file and give it a mode with which every user of the host can read
// it. What another settings file adds to a state of this name is not looked at.
func opened(files []*plan.File) (found strictyaml.Errors) {
	for _, f := range files {
		section := f.Node.Get(state.Key)
		if section == nil {
			continue
		}
		for _, p := range section.Map {
			for _, call := range p.Value.Map {
				mode := call.Value.Get("mode")
				if mode == nil || !writesSecret(call.Value) {
					continue
				}
				text, _ := mode.Value.(string)
				if bits, err := strconv.ParseUint(text, 8, 32); err == nil && bits&readableByOthers != 0 {
					found = append(found, strictyaml.Error{
						Pos: mode.Pos, Path: state.Key + "." + p.Key + "." + call.Key + ".mode",
						Msg: fmt.Sprintf(
							"the content has a secret, and every user of the host can read it with the mode %s; "+
								"without mode others cannot",
							text,
						),
					})
				}
			}
		}
	}
	return found
}

// writesSecret reports whether the arguments of a function hold a secret that becomes the content of a file.
func writesSecret(args *strictyaml.Node) bool {
	for _, name := range []string{"content", "vars"} {
		if n := args.Get(name); n != nil && n.FirstSecret() != nil {
			return true
		}
	}
	return false
}
