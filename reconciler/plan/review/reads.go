package review

import (
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/state/mustache"
)

// templateReads returns the settings that the templates of each state read, by their names in the template. A template
// that cannot be read here, because it is encrypted, is left out.
func templateReads(e *plan.Effective, values map[string]any) map[string]map[string]any {
	all := map[string]map[string]any{}
	for _, s := range e.States {
		for _, text := range templates(e, s) {
			t, err := mustache.Parse(s.Name, text)
			if err != nil {
				continue // the compiler says so
			}
			for _, name := range t.Names() {
				if name[0] != "settings" {
					continue
				}
				if all[s.Name] == nil {
					all[s.Name] = map[string]any{}
				}
				all[s.Name][strings.Join(name, ".")] = valueOf(values, name[1:])
			}
		}
	}
	return all
}

// templates returns the texts of the templates of a state.
func templates(e *plan.Effective, s *state.State) (texts []string) {
	switch a := s.Args.(type) {
	case *state.FileManaged:
		if a.Template && a.Content != nil {
			return []string{*a.Content}
		}
	}
	for _, source := range s.Sources() {
		if !source.Template {
			continue
		}
		for path := range e.Compiled.Files {
			if !state.IsWithin(path, source.Path) {
				continue
			}
			if data, _, err := e.Content(path); err == nil {
				texts = append(texts, string(data))
			}
		}
	}
	slices.Sort(texts)
	return texts
}

// valueOf returns the value of a name in settings, nil if there is none.
func valueOf(values map[string]any, name []string) any {
	var value any = values
	for _, key := range name {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	return value
}
