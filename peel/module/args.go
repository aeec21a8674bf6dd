package module

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// check compares a call with the catalogue. It returns the arguments without nulls, the positional one under its
// name; all errors at once, each naming function and argument.
func check(name string, call Call) (map[string]any, error) {
	f, _ := wire.LookupFunction(name)
	given, err := place(f, call)
	if err != nil {
		return nil, err
	}
	var errs strictyaml.Errors
	args := make(map[string]any, len(given))
	for _, key := range slices.Sorted(maps.Keys(given)) {
		at := fmt.Sprintf("%s: argument %s", name, key)
		i := slices.IndexFunc(f.Params, func(p wire.Param) bool { return p.Name == key })
		if i < 0 {
			errs = append(errs, strictyaml.Error{Pos: strictyaml.Pos{File: at}, Msg: "unknown" + hint(key, f.Params)})
			continue
		}
		node := strictyaml.FromValue(at, given[key])
		if err := conforms(node, f.Params[i].Type); err != nil {
			errs = append(errs, err...)
		}
		if node.Kind != strictyaml.Null {
			args[key] = node.Any()
		}
	}
	for _, p := range f.Params {
		if _, ok := args[p.Name]; p.Required && !ok {
			errs = append(errs, strictyaml.Error{Pos: strictyaml.Pos{File: name}, Msg: fmt.Sprintf("argument %s is missing: %s", p.Name, p.Doc)})
		}
	}
	return args, errs.Err()
}

// place gives the positional argument its name.
func place(f wire.Function, call Call) (map[string]any, error) {
	if call.ID == "" {
		return call.Args, nil
	}
	i := slices.IndexFunc(f.Params, func(p wire.Param) bool { return p.Positional })
	if i < 0 {
		return nil, fmt.Errorf("%s: takes no argument without a name, but was given %q", f.Name, call.ID)
	}
	if _, ok := call.Args[f.Params[i].Name]; ok {
		return nil, fmt.Errorf("%s: argument %s is given twice", f.Name, f.Params[i].Name)
	}
	args := map[string]any{f.Params[i].Name: call.ID}
	maps.Copy(args, call.Args)
	return args, nil
}

func hint(key string, params []wire.Param) string {
	if len(params) == 0 {
		return "; the function takes none"
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	if s := strictyaml.Suggest(key, names); s != "" {
		return s
	}
	return fmt.Sprintf("; known are %s", strings.Join(names, ", "))
}

// conforms decodes node as a value of the type, for the errors.
func conforms(node *strictyaml.Node, t wire.Type) strictyaml.Errors {
	var into any
	switch t {
	case wire.String:
		into = new(string)
	case wire.Integer:
		into = new(int64)
	case wire.Duration:
		into = new(time.Duration)
	case wire.Strings:
		into = new([]string)
	case wire.StringMap:
		into = new(map[string]string)
	default:
		panic(fmt.Sprintf("module: no check for arguments that must be %s", t))
	}
	errs, _ := strictyaml.Decode(node, into).(strictyaml.Errors)
	return errs
}

// decode reads checked arguments into a struct with yaml tags that are the parameters' names.
func decode(args map[string]any, into any) {
	if err := strictyaml.Decode(strictyaml.FromValue("arguments", args), into); err != nil {
		panic(fmt.Sprintf("module: the catalogue and the code disagree: %v", err))
	}
}
