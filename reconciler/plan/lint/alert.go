package lint

import (
	"fmt"
	"slices"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// alerts warns of alert rules that match no entry, and, if the fleet is known, of those whose target selects no peel.
func alerts(p *plan.Plan) (found strictyaml.Errors) {
	declared := p.DeclaredEntries()
	for _, rule := range p.Alerts {
		warn := func(key, format string, args ...any) {
			found = append(found, strictyaml.Error{
				Pos:  rule.Pos,
				Path: "alerts." + rule.Name + "." + key,
				Msg:  fmt.Sprintf(format, args...),
			})
		}
		covered := func(d *plan.DeclaredEntry) bool { return rule.Covers(rule.On[0], d.Entry.Name) }
		if rule.Entries != "" && !slices.ContainsFunc(declared, covered) {
			warn("entries", "no entry of this repo matches %q", rule.Entries)
		}
		if rule.Target == "" || p.Peels == nil {
			continue
		}
		if expr, err := target.Parse(rule.Target, target.Options{NoSettings: true}); err == nil &&
			len(p.Select(expr)) == 0 {
			warn("target", "%s selects no peel", rule.Target)
		}
	}
	return found
}
