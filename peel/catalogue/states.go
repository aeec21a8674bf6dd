package catalogue

import (
	"fmt"
	"reflect"

	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// Parameters of functions that run states.
var (
	stateTest = Param{Name: "test", Type: Bool, Doc: "true: change nothing and say what would change"}
	stateFull = Param{Name: "full", Type: Bool, Doc: "true: show unchanged and skipped states too"}
)

// stateRuns are the functions that run states.
var stateRuns = append(singleStates(), []Function{
	{
		Name: "state.apply",
		Doc:  "Bring the host to its states: those of some settings files and what they require, or all.",
		Params: []Param{
			{Name: "refs", Type: Strings, Positional: true, Doc: "settings files, such as web.nginx; default: all"},
			stateTest, stateFull,
		},
	},
	{Name: "state.highstate", Doc: "Bring the host to all its states.", Params: []Param{stateTest, stateFull}},
}...)

// stateReads are the functions that show states and their results, or change what is stored about them, and run none.
var stateReads = []Function{
	{
		Name:     "state.kept",
		ReadOnly: true,
		Doc:      "What the host keeps of files that states replaced or removed, newest first.",
	},
	{Name: "state.last", ReadOnly: true, Doc: "The result of the newest run of states of the settings, in full."},
	{
		Name: "state.restore",
		Doc:  "Put back a file or directory that states replaced or removed; state.kept lists what can be.",
		Params: []Param{
			{Name: "path", Type: String, Required: true, Positional: true, Doc: "path of the file or directory"},
			{Name: "run", Type: Integer, Doc: "number of the run before which it was so; default: the newest"},
		},
	},
	{
		Name:   "state.settle",
		Doc:    "Count the reaction that a state owes as made, and its command that was cut off twice as ended.",
		Params: []Param{{Name: "state", Type: String, Required: true, Positional: true, Doc: "name of the state"}},
	},
	{
		Name:     "state.show",
		ReadOnly: true,
		Doc:      "The states of the host in the order in which they run, and where they come from.",
	},
}

var unitName = Param{Name: "name", Type: String, Required: true, Positional: true, Doc: "name of the unit"}

// hostFunctions are those for packages, services and files that need no settings.
var hostFunctions = []Function{
	{
		Name: "file.read", ReadOnly: true,
		Doc: "What file.stat says of a file, and its content of up to 262144 bytes, which is only in what is sealed.",
		Params: []Param{
			{Name: "path", Type: String, Required: true, Positional: true, Doc: "path of the file"},
			{Name: "secret", Type: Bool, Doc: "true: also a file that looks as if it had a secret"},
			secretsTo,
		},
	},
	{
		Name: "file.stat", ReadOnly: true, Doc: "Kind, owner, mode, size and time of a file; a link is not followed.",
		Params: []Param{{Name: "path", Type: String, Required: true, Positional: true, Doc: "path of the file"}},
	},
	{Name: "pkg.list", ReadOnly: true, Doc: "The installed packages with their versions."},
	{
		Name:     "pkg.upgrades",
		ReadOnly: true,
		Doc:      "What an upgrade of all packages would do, by the lists of packages that the host has.",
	},
	{
		Name:     "pkg.version",
		ReadOnly: true,
		Doc:      "The installed version of a package, empty if it is not installed; of several by name.",
		Params:   []Param{{Name: "names", Type: Strings, Required: true, Positional: true, Doc: "names of packages"}},
	},
	{Name: "service.reload", Doc: "Have a service read its configuration again.", Params: []Param{unitName}},
	{Name: "service.restart", Doc: "Stop and start a service.", Params: []Param{unitName}},
	{Name: "service.start", Doc: "Start a service.", Params: []Param{unitName}},
	{
		Name:     "service.status",
		ReadOnly: true,
		Doc:      "Whether a service runs and starts at boot.",
		Params:   []Param{unitName},
	},
	{Name: "service.stop", Doc: "Stop a service.", Params: []Param{unitName}},
}

// singleStates returns a function for each function of states, with its arguments. cmd.run is a function of its own.
func singleStates() (functions []Function) {
	for _, f := range state.Functions() {
		if f.Name == "cmd.run" {
			continue
		}
		function := Function{Name: f.Name, Doc: f.Doc}
		for _, p := range f.Params() {
			function.Params = append(function.Params, Param{
				Name:       p.Name,
				Type:       typeOf(p.Type),
				Positional: p.Name == f.Main,
				Doc:        p.Doc,
			})
		}
		function.Params = append(function.Params, stateTest)
		functions = append(functions, function)
	}
	return functions
}

// typeOf returns the type of arguments that are decoded into a Go type.
func typeOf(t reflect.Type) Type {
	if t == reflect.TypeFor[*strictyaml.Node]() {
		return Map
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return String
	case reflect.Bool:
		return Bool
	case reflect.Uint32:
		return Integer
	case reflect.Slice:
		return Strings
	case reflect.Map:
		return StringMap
	}
	panic(fmt.Sprintf("catalogue: no type for arguments that are a %s", t))
}
