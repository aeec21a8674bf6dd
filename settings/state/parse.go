package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A reader reads one state.
type reader struct {
	path     string // states.NAME
	unfilled bool   // arguments have tags in the place of values, which only [Expand] knows
	errs     strictyaml.Errors
}

func (r *reader) refuse(at strictyaml.Pos, below, format string, args ...any) {
	r.errs = append(r.errs, strictyaml.Error{Pos: at, Path: r.path + below, Msg: fmt.Sprintf(format, args...)})
}

// decode fills into from n and gives errors the path of the state.
func (r *reader) decode(n *strictyaml.Node, into any, below string) bool {
	err := strictyaml.Decode(n, into)
	list, _ := errors.AsType[strictyaml.Errors](err)
	for _, e := range list {
		if hint := saltHint(n, e); hint != "" {
			mistake, _, _ := strings.Cut(e.Msg, ";") // without the nearest keys
			e.Msg = mistake + hint
		}
		if e.Path != "" {
			e.Path = "." + e.Path
		}
		e.Path = r.path + below + e.Path
		r.errs = append(r.errs, e)
	}
	return err == nil
}

// parseState reads one state. If complete is false, the function and arguments that are required may be missing.
func parseState(p strictyaml.Pair, complete bool) (*State, strictyaml.Errors) {
	r := &reader{path: Key + "." + p.Key}
	if p.Value.Kind != strictyaml.Map {
		r.refuse(p.Value.Pos, "", "%s", p.Value.Mismatch("a map with a function such as pkg.installed"))
		return nil, r.errs
	}
	s := &State{Name: p.Key, Pos: p.KeyPos}
	var functions, fields []strictyaml.Pair
	for _, field := range p.Value.Map {
		if strings.Contains(field.Key, ".") {
			functions = append(functions, field)
		} else {
			fields = append(fields, field)
		}
	}
	r.unfilled = !complete && hasTags(p.Value)
	r.fields(s, fields, p.Value.Pos)
	if complete && s.Each != "" {
		r.refuse(s.fields.Get(eachField).Pos, ".each",
			"each is possible only in a settings file, which top.yaml gives to peels")
	}
	switch {
	case len(functions) > 1:
		r.refuse(functions[1].KeyPos, "", "a state has one function; this one has %s and %s", functions[0].Key,
			functions[1].Key)
	case len(functions) == 1:
		r.function(s, functions[0], complete)
	case complete && len(r.errs) == 0:
		r.refuse(p.KeyPos, "", "no function; a state needs one, such as pkg.installed")
	}
	return s, r.errs
}

// fields reads what a state of any function may have.
func (r *reader) fields(s *State, fields []strictyaml.Pair, at strictyaml.Pos) {
	n := &strictyaml.Node{Kind: strictyaml.Map, Pos: at, Map: fields}
	for i, f := range fields {
		if (f.Key == "onlyif" || f.Key == "unless") && f.Value.Kind == strictyaml.String {
			fields[i].Value = &strictyaml.Node{
				Kind: strictyaml.List,
				Pos:  f.Value.Pos,
				List: []*strictyaml.Node{f.Value},
			}
		}
		if secret := f.Value.FirstSecret(); secret != nil {
			r.refuse(secret.Pos, "."+f.Key, "a secret is not allowed here, because people see it")
		}
		if isModule(f.Key) {
			r.refuse(f.KeyPos, "", "%s is a module; write a function of it such as %s", f.Key, functionsOf(f.Key)[0])
			return
		}
	}
	for _, f := range fields {
		if !r.unfilled && (f.Key == "onlyif" || f.Key == "unless") {
			if why := braces(f, nil); why != "" {
				r.refuse(f.Value.Pos, "."+f.Key, "%s", why)
			}
		}
	}
	s.fields = n
	if !r.decode(n, &s.Fields, "") {
		return
	}
	for _, list := range []struct {
		field string
		names []string
	}{
		{"require", s.Require},
		{"watch", s.Watch},
		{"onchanges", s.OnChanges},
		{"onfail", s.OnFail},
		{"require_in", s.RequireIn},
		{"watch_in", s.WatchIn},
		{"onchanges_in", s.OnChangesIn},
	} {
		for i, name := range list.names {
			if name == s.Name {
				r.refuse(n.Get(list.field).List[i].Pos, "."+list.field, "a state cannot name itself")
			}
		}
	}
	if s.Retry != nil {
		r.retry(s.Retry, n.Get("retry").Pos)
	}
	if s.Timeout < 0 {
		r.refuse(n.Get("timeout").Pos, ".timeout", "must not be negative")
	}
	if _, ok := strings.CutPrefix(s.Each, settingsPrefix); s.Each != "" && !ok {
		r.refuse(n.Get(eachField).Pos, ".each", notSettings, s.Each)
	}
}

func (r *reader) retry(retry *Retry, at strictyaml.Pos) {
	if retry.Attempts < 1 || retry.Attempts > MaxRetry {
		r.refuse(at, ".retry.attempts", "must be from 1 to %d, not %d", MaxRetry, retry.Attempts)
	}
	if retry.Interval == 0 {
		retry.Interval = 5 * time.Second
	}
	if retry.Interval < 0 || retry.Interval > time.Hour {
		r.refuse(at, ".retry.interval", "must be at most 1h")
	}
}

// arguments checks the names of arguments.
func (r *reader) arguments(n *strictyaml.Node, f Function, below string) {
	var known []string
	for _, param := range f.Params() {
		known = append(known, param.Name)
	}
	known = append(known, NamesArg)
	for _, p := range n.Map {
		if !slices.Contains(known, p.Key) {
			r.refuse(p.KeyPos, below, "unknown key %q%s", p.Key, strictyaml.SuggestKey(p.Key, known))
		}
	}
}

// function reads the arguments of a function.
func (r *reader) function(s *State, p strictyaml.Pair, complete bool) {
	f, ok := catalogue[p.Key]
	if !ok {
		r.refuse(p.KeyPos, "", "there is no function %s%s", p.Key, nearFunction(p.Key))
		return
	}
	s.Function, s.Args = p.Key, f.make()
	below, n := "."+p.Key, p.Value
	if n.Kind == strictyaml.Null {
		n = &strictyaml.Node{Kind: strictyaml.Map, Pos: n.Pos}
	}
	s.written = n
	if r.unfilled {
		r.arguments(n, f, below)
		return
	}
	if list := n.Get(NamesArg); list != nil && !complete && !f.takesNames() {
		if at, problem := checkNamesArg(f, n, list); problem != "" {
			r.refuse(at.Pos, below+"."+NamesArg, "%s", problem)
			return
		}
		n = withoutNames(n)
	}
	if !r.decode(n, s.Args, below) {
		return
	}
	for _, arg := range n.Map {
		if secret := arg.Value.FirstSecret(); secret != nil && !slices.Contains(maySecret, arg.Key) {
			r.refuse(secret.Pos, below+"."+arg.Key, "a secret is allowed only in %s", strings.Join(maySecret, ", "))
		}
		if why := braces(arg, n); why != "" {
			r.refuse(arg.Value.Pos, below+"."+arg.Key, "%s", why)
		}
	}
	if complete { // else another file may give the main argument
		s.Args.setMain(s.Name)
	}
	for _, problem := range s.Args.check(complete) {
		at := n.Pos
		if arg := n.Get(problem.arg); arg != nil {
			if arg.FirstSecret() != nil {
				continue // opened checks it
			}
			at = arg.Pos
		}
		if problem.arg != "" {
			problem.arg = "." + problem.arg
		}
		r.refuse(at, below+problem.arg, "%s", problem.msg)
	}
	r.opened(f, n, below, complete)
	if len(s.Watch) > 0 && !f.reacts {
		r.refuse(s.at(s.fields, "watch", 0), ".watch",
			"%s does not react to changes; use require, or onchanges with cmd.run", p.Key)
	}
}
