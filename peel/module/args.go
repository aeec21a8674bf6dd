package module

import (
	"fmt"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// check checks a call against the catalogue. It returns the arguments as plain values without nulls, including the
// positional one under its name.
func check(name string, call Call) (map[string]any, error) {
	f, _ := catalogue.Lookup(name)
	given, err := f.Arguments(call.ID, call.Args)
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

// decode decodes checked arguments into a struct whose yaml tags are the names of the parameters.
func decode(args map[string]any, into any) {
	if err := strictyaml.Decode(strictyaml.FromValue("arguments", args), into); err != nil {
		panic(fmt.Sprintf("module: the catalogue and the code disagree: %v", err))
	}
}
