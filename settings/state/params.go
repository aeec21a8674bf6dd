package state

import (
	"reflect"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A Param is an argument of a function.
type Param struct {
	Name string
	Type reflect.Type // of its value in Go: a string, bool, uint32, list or map, or a pointer to one
	Doc  string
}

// Params returns the arguments of the function in the order in which they are declared.
func (f Function) Params() []Param {
	t := reflect.TypeOf(f.make()).Elem()
	params := make([]Param, t.NumField())
	for i := range params {
		field := t.Field(i)
		params[i] = Param{field.Tag.Get("yaml"), field.Type, field.Tag.Get("doc")}
	}
	return params
}

// MaySecret reports whether an argument may hold a secret.
func MaySecret(arg string) bool { return slices.Contains(maySecret, arg) }

// Single returns a set with one state that is in no settings, to be run by itself. Its name is its main argument. args
// are plain values, such as those of [strictyaml.Node.Any]. The error is a [strictyaml.Errors].
func Single(function string, args map[string]any) (Set, error) {
	at := strictyaml.Pos{File: function}
	f, ok := catalogue[function]
	if !ok {
		return nil, strictyaml.Errors{
			{Pos: at, Msg: "there is no such function" + strictyaml.Suggest(function, FunctionNames())},
		}
	}
	n := strictyaml.FromValue(function, args)
	s := &State{Function: function, Args: f.make(), written: n}
	if err := strictyaml.Decode(n, s.Args); err != nil {
		return nil, err
	}
	s.Name, _ = args[f.Main].(string)
	if names, _ := args["names"].([]any); s.Name == "" && len(names) > 0 {
		s.Name, _ = names[0].(string)
	}
	var errs strictyaml.Errors
	if s.Name == "" {
		errs = append(errs, strictyaml.Error{Pos: at, Msg: "argument " + f.Main + " is missing"})
	}
	for _, p := range s.Args.check(true) {
		errs = append(errs, strictyaml.Error{Pos: at, Path: p.arg, Msg: p.msg})
	}
	return Set{s}, errs.Err()
}
