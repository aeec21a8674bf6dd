package state

import (
	"slices"
	"strings"
)

// Required returns the names of states together with all that they require, watch, or wait for by onchanges and onfail.
// files returns the names of the states of a settings file.
func (s Set) Required(names []string, files func(ref string) []string) map[string]bool {
	expand := func(names []string) (out []string) {
		for _, name := range names {
			if ref, isFile := strings.CutPrefix(name, filePrefix); isFile {
				out = append(out, files(ref)...)
			} else {
				out = append(out, name)
			}
		}
		return out
	}
	needs := map[string][]string{}
	for _, x := range s {
		needs[x.Name] = append(needs[x.Name], expand(slices.Concat(x.Require, x.Watch, x.OnChanges, x.OnFail))...)
		for _, name := range expand(slices.Concat(x.RequireIn, x.WatchIn, x.OnChangesIn)) {
			needs[name] = append(needs[name], x.Name)
		}
	}
	required := map[string]bool{}
	for next := names; len(next) > 0; {
		name := next[0]
		next = next[1:]
		if !required[name] {
			required[name] = true
			next = slices.Concat(next, needs[name])
		}
	}
	return required
}
