package lint

import (
	"fmt"
	"slices"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// runFields say what an entry runs. With one of the timings they make a schedule entry.
var runFields = []string{"module", "command"}

// misplaced warns of entries and states that are beside the section schedule or states instead of below it. They are
// plain settings then. A section that is empty because of that removes the entries of the files before.
func misplaced(files []*plan.File) (found strictyaml.Errors) {
	for _, f := range files {
		for _, p := range f.Node.Map {
			if msg := misplacedPair(p); msg != "" {
				found = append(found, strictyaml.Error{Pos: p.KeyPos, Path: p.Key, Msg: msg})
			}
		}
	}
	return found
}

func misplacedPair(p strictyaml.Pair) string {
	if p.Key == "schedule" || p.Key == state.Key {
		if p.Value.Empty {
			return fmt.Sprintf(
				"nothing is below it, so it removes the %s of the files before: indent what belongs to it, "+
					"or write null if it is meant",
				p.Key,
			)
		}
		return ""
	}

	has := func(field string) bool { return p.Value.Get(field) != nil }
	if slices.ContainsFunc(runFields, has) && slices.ContainsFunc(timings, has) {
		return "it looks like a schedule entry and is a plain setting, which runs nothing: indent it below schedule:"
	}
	for _, f := range state.Functions() {
		if has(f.Name) {
			return fmt.Sprintf(
				"it looks like a state, because it has %s, and is a plain setting, which changes nothing: "+
					"indent it below states:",
				f.Name,
			)
		}
	}
	return ""
}
