package state

import (
	"strings"

	"github.com/seed-c01c3da5/zester/settings/salt"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// nearFunction returns what to write in the place of a function that does not exist, or an empty text.
func nearFunction(name string) string {
	if hint := salt.Hint(salt.Function, name); hint != "" {
		return hint
	}
	return strictyaml.Suggest(name, FunctionNames())
}

// saltHint returns what to write in the place of a word or form of Salt, or an empty text. n is the map in which the
// mistake is.
func saltHint(n *strictyaml.Node, e strictyaml.Error) string {
	if e.Path == "" {
		return salt.AsMap(n)
	}
	key, _, inList := strings.Cut(e.Path, "[")
	for _, p := range n.Map {
		switch {
		case p.Key != key:
		case p.KeyPos == e.Pos:
			if hint := salt.Hint(salt.Argument, key); hint != "" {
				return hint
			}
		case inList:
			for _, element := range p.Value.List {
				if element.Pos == e.Pos {
					return salt.AsName(element)
				}
			}
		}
	}
	return ""
}
