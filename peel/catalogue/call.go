package catalogue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/seed-c01c3da5/zester/settings/salt"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// CheckCall returns an error if there is no such function or its arguments are wrong; a peel of this version refuses
// such a call. id is the positional argument, empty if there is none.
func CheckCall(function, id string, args map[string]any) error {
	f, ok := Lookup(function)
	if !ok {
		names := make([]string, len(functions))
		for i, f := range functions {
			names[i] = f.Name
		}
		near := salt.Hint(salt.Command, function)
		if near == "" {
			near = salt.Hint(salt.Function, function)
		}
		if near == "" {
			near = strictyaml.Suggest(function, names)
		}
		return fmt.Errorf("no such function %.100q%s", function, near)
	}
	args, err := f.Arguments(id, args)
	if err != nil {
		return err
	}
	return f.Check(args)
}

// Arguments returns args together with the positional argument under the name of its parameter. args is not changed.
func (f Function) Arguments(id string, args map[string]any) (map[string]any, error) {
	if id == "" {
		return args, nil
	}
	i := slices.IndexFunc(f.Params, func(p Param) bool { return p.Positional })
	if i < 0 {
		return nil, fmt.Errorf("%s: takes no argument without a name, but was given %q", f.Name, id)
	}
	if _, ok := args[f.Params[i].Name]; ok {
		return nil, fmt.Errorf("%s: argument %s is given twice", f.Name, f.Params[i].Name)
	}
	all := map[string]any{f.Params[i].Name: id}
	if f.Params[i].Type == Strings {
		var list []any
		for _, word := range strings.FieldsFunc(id, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
			list = append(list, word)
		}
		if list == nil {
			return nil, fmt.Errorf("%s: %q has no word for the argument %s", f.Name, id, f.Params[i].Name)
		}
		all[f.Params[i].Name] = list
	}
	maps.Copy(all, args)
	return all, nil
}

// Check compares arguments by name with the parameters. A null counts as absent. The error is a [strictyaml.Errors],
// which names the function and each wrong argument.
func (f Function) Check(args map[string]any) error {
	var errs strictyaml.Errors
	for _, key := range slices.Sorted(maps.Keys(args)) {
		at := fmt.Sprintf("%s: argument %s", f.Name, key)
		i := slices.IndexFunc(f.Params, func(p Param) bool { return p.Name == key })
		if i < 0 {
			errs = append(errs, strictyaml.Error{Pos: strictyaml.Pos{File: at}, Msg: "unknown" + f.known(key)})
			continue
		}
		node := strictyaml.FromValue(at, args[key])
		if f.Params[i].Type == StringMap || state.MaySecret(key) {
			hide(node)
		}
		if err := f.Params[i].Type.check(node); err != nil {
			errs = append(errs, err...)
		}
	}
	for _, p := range f.Params {
		if p.Required && args[p.Name] == nil {
			errs = append(errs, strictyaml.Error{
				Pos: strictyaml.Pos{File: f.Name},
				Msg: fmt.Sprintf("argument %s is missing: %s", p.Name, p.Doc),
			})
		}
	}
	has := func(name string) bool { return args[name] != nil }
	if len(errs) == 0 && len(f.oneOf) > 0 && !slices.ContainsFunc(f.oneOf, has) {
		errs = append(errs, strictyaml.Error{
			Pos: strictyaml.Pos{File: f.Name},
			Msg: "give " + strings.Join(f.oneOf, " or "),
		})
	}
	return errs.Err()
}

// hide replaces the values below n, so that errors show none: masters store the reason of a refusal in the audit log.
func hide(n *strictyaml.Node) {
	if n.Kind != strictyaml.Null {
		n.Value = "•••"
	}
	for _, e := range n.List {
		hide(e)
	}
	for _, p := range n.Map {
		hide(p.Value)
	}
}

// known names the argument that was probably meant, or all that the function takes.
func (f Function) known(key string) string {
	if len(f.Params) == 0 {
		return "; the function takes none"
	}
	names := make([]string, len(f.Params))
	for i, p := range f.Params {
		names[i] = p.Name
	}
	for _, kind := range []salt.Kind{salt.Option, salt.Argument} {
		if hint := salt.Hint(kind, key); hint != "" {
			return hint
		}
	}
	if s := strictyaml.Suggest(key, names); s != "" {
		return s
	}
	return fmt.Sprintf("; known are %s", strings.Join(names, ", "))
}

// check returns the errors of decoding node as a value of the type.
func (t Type) check(node *strictyaml.Node) strictyaml.Errors {
	var into any
	switch t {
	case String:
		into = new(string)
	case Integer:
		into = new(int64)
	case Bool:
		into = new(bool)
	case Duration:
		into = new(time.Duration)
	case Strings:
		into = new([]string)
	case StringMap:
		into = new(map[string]string)
	case Map:
		into = new(map[string]any)
	case Regexp:
		return checkRegexp(node)
	case Calls:
		return checkCalls(node)
	case Answering:
		return checkOptions(node)
	default:
		panic(fmt.Sprintf("catalogue: no check for arguments that must be %s", t))
	}
	errs, _ := strictyaml.Decode(node, into).(strictyaml.Errors)
	return errs
}
