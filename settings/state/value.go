package state

import (
	"path"
	"strings"
)

// A Value is a state as decoded settings hold it. Secrets may be masked in it, so it need not pass the checks of [Parse].
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
