package module

import (
	"fmt"
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// check compares a call with the catalogue. It returns the arguments without nulls and as plain values, the positional
// one under its name.
func check(name string, call Call) (map[string]any, error) {
	f, _ := wire.LookupFunction(name)
	given, err := place(f, call)
	if err != nil {
		return nil, err
	}
	if err := f.Check(given); err != nil {
		return nil, err
	}
	args := make(map[string]any, len(given))
	for key, value := range given {
		if value != nil {
			args[key] = strictyaml.FromValue(key, value).Any()
		}
	}
	return args, nil
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

// decode reads checked arguments into a struct with yaml tags that are the parameters' names.
func decode(args map[string]any, into any) {
	if err := strictyaml.Decode(strictyaml.FromValue("arguments", args), into); err != nil {
		panic(fmt.Sprintf("module: the catalogue and the code disagree: %v", err))
	}
}
