package state

import (
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A Value is a state as decoded settings hold it. Secrets may be masked in it, so it need not pass the checks of
// [Parse].
type Value struct {
	Function string         // empty if the settings name none
	Args     map[string]any // of the function
	Fields   map[string]any // beside the function, such as require
}

// ValueOf returns the parts of one state of decoded settings, which is a map.
func ValueOf(v any) Value {
	all, _ := v.(map[string]any)
	value := Value{Fields: make(map[string]any, len(all))}
	for key, inner := range all {
		if strings.Contains(key, ".") {
			value.Function = key
			value.Args, _ = inner.(map[string]any)
		} else {
			value.Fields[key] = inner
		}
	}
	return value
}

// Source returns the file or directory of the config repo that the state names, empty if it names none.
func (v Value) Source() string {
	arg := "source"
	if v.Function == "pkgrepo.managed" {
		arg = "key"
	}
	source, _ := v.Args[arg].(string)
	if IsRemote(source) {
		return ""
	}
	return source
}

// Main returns the main argument of the state, which defaults to its name.
func (v Value) Main(name string) string {
	if given, ok := v.Args[catalogue[v.Function].Main].(string); ok && given != "" {
		return given
	}
	return name
}

// IsWithin reports whether a file of the config repo is a source or in the directory that is one.
func IsWithin(file, source string) bool {
	return source != "" && (file == source || strings.HasPrefix(file, path.Clean(source)+"/"))
}

// requisites are the fields of a state that name other states.
var requisites = []string{"require", "watch", "onchanges", "onfail", "require_in", "watch_in", "onchanges_in"}

// WithoutRequisites returns a state of a settings file without the names in its requisites for which drop returns true.
func WithoutRequisites(n *strictyaml.Node, drop func(name string) bool) *strictyaml.Node {
	return replaced(n, func(field strictyaml.Pair) *strictyaml.Node {
		if !slices.Contains(requisites, field.Key) || field.Value.Kind != strictyaml.List {
			return field.Value
		}
		list := *field.Value
		list.List = slices.DeleteFunc(slices.Clone(list.List), func(e *strictyaml.Node) bool {
			name, isText := e.Value.(string)
			return isText && drop(name)
		})
		return &list
	})
}
