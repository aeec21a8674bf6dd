// Package top reads who gets what: the top file, the repo's policy, and fleets
// written down in a file.
//
// [ParsePolicy] reads zester.yaml, [Parse] the top files, [ParseFleet] a fleet. What zester.yaml says of how changes go out
// is a [Safety]: limits, waves and freezes. For a change from the revision in force to a new one, [Safety.Stricter] of both
// counts; [StricterWaves] has the rule.
//
//	base:                     # an environment, a label only
//	  'web-*': [web.nginx]    # target expression: references, in merge order
//
// All environments are evaluated. The order of the document is the order in
// which references apply; top.yaml comes first, then top.d/*.yaml by name. A
// reference that several rules give to a peel counts once, at its first place.
// Expressions may not look into settings, which they decide on.
package top

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// File is what top.yaml and top.d say together.
type File struct {
	Rules []Rule // in the order of the documents
}

// Rule gives references to the peels that Expr selects.
type Rule struct {
	Env  string
	Expr *target.Expr
	Refs []Ref
	Pos  strictyaml.Pos // of the expression
}

// Ref names a settings file: common.base is settings/common/base.yaml.
type Ref struct {
	Name string
	Pos  strictyaml.Pos
}

// Signature is an ordered list of references with the peels that have it.
type Signature struct {
	Refs  []string        // none for peels that nothing matches
	Peels []target.PeelID // sorted, at least one
}

// refName keeps a reference within settings/: no empty part, hence no "..".
var refName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

const maxRef = 255

// Parse reads the documents, top.yaml first and top.d/*.yaml in name order.
// An empty document adds no rule. All mistakes are reported, as a
// strictyaml.Errors.
func Parse(docs []*strictyaml.Node, groups target.Groups) (*File, error) {
	r := reader{options: target.Options{Groups: groups, NoSettings: true}}
	for _, doc := range docs {
		r.document(doc)
	}
	if err := r.errs.Err(); err != nil {
		return nil, err
	}
	return &r.file, nil
}

type reader struct {
	options target.Options
	file    File
	errs    strictyaml.Errors
}

func (r *reader) fail(pos strictyaml.Pos, path, msg string) {
	r.errs = append(r.errs, strictyaml.Error{Pos: pos, Path: path, Msg: msg})
}

func (r *reader) document(doc *strictyaml.Node) {
	switch doc.Kind {
	case strictyaml.Null:
		return
	case strictyaml.Map:
	default:
		r.fail(doc.Pos, "", doc.Mismatch("a map of environments"))
		return
	}
	for _, env := range doc.Map {
		switch {
		case env.Key == "":
			r.fail(env.KeyPos, "", "the environment has no name")
		case env.Value.Kind == strictyaml.Map:
			r.environment(env)
		case env.Value.Kind == strictyaml.List:
			r.fail(env.Value.Pos, env.Key, env.Value.Mismatch("a map of targets")+
				fmt.Sprintf("; if %q is a target, write base: on a line above all targets and indent them", env.Key))
		case env.Value.Kind != strictyaml.Null:
			r.fail(env.Value.Pos, env.Key, env.Value.Mismatch("a map of targets"))
		}
	}
}

func (r *reader) environment(env strictyaml.Pair) {
	for _, p := range env.Value.Map {
		expr, err := target.Parse(p.Key, r.options)
		if err != nil {
			r.fail(p.KeyPos, env.Key, err.Error())
		}
		refs := r.refs(p.Value, env.Key+"."+p.Key)
		r.file.Rules = append(r.file.Rules, Rule{Env: env.Key, Expr: expr, Refs: refs, Pos: p.KeyPos})
	}
}

func (r *reader) refs(list *strictyaml.Node, path string) []Ref {
	if list.Kind != strictyaml.List {
		r.fail(list.Pos, path, list.Mismatch("a list of references"))
		return nil
	}
	refs := make([]Ref, 0, len(list.List))
	for i, n := range list.List {
		path := fmt.Sprintf("%s[%d]", path, i)
		name, isString := n.Value.(string)
		switch {
		case !isString:
			r.fail(n.Pos, path, n.Mismatch("a reference such as common.base"))
		case len(name) > maxRef || !refName.MatchString(name):
			r.fail(n.Pos, path, refusal(name))
		default:
			refs = append(refs, Ref{Name: name, Pos: n.Pos})
		}
	}
	return refs
}

func refusal(name string) string {
	msg := fmt.Sprintf("%.64q is no reference, write the path under settings/ with dots: common.base", name)
	if trimmed := strings.TrimSuffix(strings.TrimPrefix(name, "settings/"), ".yaml"); trimmed != name || strings.Contains(name, "/") {
		if dotted := strings.ReplaceAll(trimmed, "/", "."); len(dotted) <= 64 && refName.MatchString(dotted) {
			msg = fmt.Sprintf("%q is no reference; did you mean %q?", name, dotted)
		}
	}
	return msg
}

// Select returns the references of one peel in merge order, each with its
// first place.
func (f *File) Select(p target.Peel) []Ref {
	var matches []int
	for i := range f.Rules {
		if f.Rules[i].Expr.Match(p) {
			matches = append(matches, i)
		}
	}
	return f.refs(matches)
}

// refs puts the references of some rules together.
func (f *File) refs(rules []int) []Ref {
	var refs []Ref
	seen := map[string]bool{}
	for _, i := range rules {
		for _, r := range f.Rules[i].Refs {
			if !seen[r.Name] {
				seen[r.Name] = true
				refs = append(refs, r)
			}
		}
	}
	return refs
}

// Assign gives every peel of the index its references, as Select does, with
// peels of equal lists together. Each rule is evaluated once. Signatures are
// sorted by their references.
func (f *File) Assign(ix *peelindex.Index) []Signature {
	exprs := make([]*target.Expr, len(f.Rules))
	for i := range f.Rules {
		exprs[i] = f.Rules[i].Expr
	}
	var all []Signature
	for _, part := range ix.Partition(exprs) {
		var names []string
		for _, r := range f.refs(part.Matches) {
			names = append(names, r.Name)
		}
		all = append(all, Signature{Refs: names, Peels: part.Peels})
	}
	return join(all)
}

// join puts signatures with equal references together, which different rules
// may have given.
func join(all []Signature) []Signature {
	slices.SortFunc(all, func(a, b Signature) int {
		return cmp.Or(slices.Compare(a.Refs, b.Refs), cmp.Compare(a.Peels[0], b.Peels[0]))
	})
	var joined []Signature
	for _, s := range all {
		if n := len(joined) - 1; n >= 0 && slices.Equal(joined[n].Refs, s.Refs) {
			joined[n].Peels = append(joined[n].Peels, s.Peels...)
			continue
		}
		joined = append(joined, s)
	}
	for _, s := range joined {
		slices.Sort(s.Peels)
	}
	return joined
}
