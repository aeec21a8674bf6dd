package state

import (
	"fmt"
	"slices"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// NamesArg is an argument of every function: a list, instead of the main argument. [Expand] makes one state for each
// element. Functions that take several names at once, such as pkg.installed, have an argument of this name themselves.
const NamesArg = "names"

// takesNames reports whether the function itself takes several names.
func (f Function) takesNames() bool {
	return slices.ContainsFunc(f.Params(), func(p Param) bool { return p.Name == NamesArg })
}

// namesOf returns the function of a state and its argument names. The list is nil unless [Expand] replaces it.
func namesOf(state *strictyaml.Node) (f Function, list *strictyaml.Node) {
	f, known := catalogue[functionIn(state)]
	if !known || f.takesNames() {
		return f, nil
	}
	return f, state.Get(f.Name).Get(NamesArg)
}

// isMany reports whether [Expand] replaces a state.
func isMany(p strictyaml.Pair) bool {
	_, names := namesOf(p.Value)
	return names != nil || hasEach(p)
}

// checkNamesArg says what is wrong with the argument names of a function, and with which node.
func checkNamesArg(f Function, args, list *strictyaml.Node) (at *strictyaml.Node, problem string) {
	if given := args.Get(f.Main); given != nil {
		return given, fmt.Sprintf("give %s or names, not both", f.Main)
	}
	if list.Kind != strictyaml.List {
		return list, list.Mismatch("a list")
	}
	if len(list.List) > MaxEach {
		return list, fmt.Sprintf("%d names; one state has at most %d", len(list.List), MaxEach)
	}
	seen := map[string]bool{}
	for _, e := range list.List {
		text, isScalar := e.TextOrInt()
		switch {
		case !isScalar || text == "":
			return e, "must be a text"
		case seen[text]:
			return e, fmt.Sprintf("%q is given twice", text)
		}
		seen[text] = true
	}
	return nil, ""
}

// withoutNames returns the arguments of a function without its argument names.
func withoutNames(args *strictyaml.Node) *strictyaml.Node {
	out := *args
	isNames := func(p strictyaml.Pair) bool { return p.Key == NamesArg }
	out.Map = slices.DeleteFunc(slices.Clone(args.Map), isNames)
	return &out
}

// named returns a state for each element of its argument names, or the state itself if it has none. An element that
// cannot be part of the name of a state gives its number.
func (x *expander) named(p strictyaml.Pair) (made []strictyaml.Pair) {
	f, list := namesOf(p.Value)
	if list == nil {
		return []strictyaml.Pair{p}
	}
	args := p.Value.Get(f.Name)
	if at, problem := checkNamesArg(f, args, list); problem != "" {
		x.refuse(at.Pos, p.Key+"."+f.Name+"."+NamesArg, "%s", problem)
		return nil
	}
	rest := withoutNames(args)
	for i, e := range list.List {
		if x.isTooLarge(sizeOf(p.Value)-sizeOf(list)+sizeOf(e), p.KeyPos, p.Key) {
			return nil
		}
		text, _ := e.TextOrInt()
		name := p.Key + "." + text
		if !validName.MatchString(name) {
			name = fmt.Sprintf("%s.%d", p.Key, i+1)
		}
		one := *rest
		main := &strictyaml.Node{Kind: strictyaml.String, Pos: e.Pos, Value: text, Secret: e.Secret}
		one.Map = append(slices.Clone(rest.Map), strictyaml.Pair{Key: f.Main, KeyPos: e.Pos, Value: main})
		value := replaced(p.Value, func(field strictyaml.Pair) *strictyaml.Node {
			if field.Key == f.Name {
				return &one
			}
			return field.Value
		})
		made = append(made, strictyaml.Pair{Key: name, KeyPos: p.KeyPos, Value: value})
	}
	return made
}
