package lint

import (
	"slices"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// prompts warns of entries with a prompt on peels whose facts name no model, or not the model of the entry. Without a
// fleet it is not known which peels have them.
func prompts(p *plan.Plan, entries []*plan.DeclaredEntry) (found strictyaml.Errors) {
	var asked []*plan.DeclaredEntry
	for _, w := range entries {
		if w.Peels > 0 && w.Entry.Enabled && w.Entry.Module == catalogue.Prompt {
			asked = append(asked, w)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	models := modelsOf(p)
	for _, w := range asked {
		model, _ := w.Entry.Args["model"].(string)
		able, known := 0, []string{}
		for id, names := range models {
			e := p.Peels[id]
			if e == nil || e.Schedule[w.Entry.Name] == nil || e.Entries[w.Entry.Name] != w.Pos ||
				e.Schedule[w.Entry.Name].Hash() != w.Entry.Hash() {
				continue
			}
			if known = append(known, names...); model == "" || slices.Contains(names, model) {
				able++
			}
		}
		l := entryCheck{DeclaredEntry: w}
		fields := []string{"model", "module", "command", "prompt"}
		switch {
		case able == w.Peels:
		case len(known) == 0:
			l.warn(
				fields[1:],
				"it can run on none of its peels (%d) for lack of a prompt in peel.yaml; "+
					"G@%s:* selects peels that have one",
				w.Peels, catalogue.PromptModels,
			)
		case able == 0:
			l.warn(fields, "it can run on none of its peels (%d) for lack of the model %.100q%s", w.Peels, model,
				strictyaml.Suggest(model, known))
		case model == "":
			l.warn(
				fields[1:],
				"it cannot run on %d of its %d peels for lack of a prompt in peel.yaml; "+
					"G@%s:* selects peels that have one",
				w.Peels-able, w.Peels, catalogue.PromptModels,
			)
		default:
			l.warn(
				fields,
				"it cannot run on %d of its %d peels for lack of the model %.100q; "+
					"G@%s:%[3]s selects peels that have it",
				w.Peels-able, w.Peels, model, catalogue.PromptModels,
			)
		}
		found = append(found, l.found...)
	}
	return found
}

// modelsOf returns the models of the peels that run prompts, by their facts.
func modelsOf(p *plan.Plan) map[target.PeelID][]string {
	expr, err := target.Parse("G@"+catalogue.PromptModels+":*", target.Options{})
	if err != nil {
		panic(err) // the text is a constant
	}
	all := map[target.PeelID][]string{}
	for _, id := range p.Select(expr) {
		var names []string
		list, _ := p.Facts(id)[catalogue.PromptModels].([]any)
		for _, name := range list {
			if name, ok := name.(string); ok {
				names = append(names, name)
			}
		}
		all[id] = names
	}
	return all
}
