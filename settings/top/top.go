// Package top parses the top files, which assign settings files to peels, zester.yaml, which is the policy of the repo,
// and files that describe a fleet.
//
// Call [policy.ParsePolicy] for zester.yaml, then [Parse] for the top files with the policy's node groups;
// [File.Select] and [File.Assign] return the settings files of one peel and of all peels. [policy.ParseFleet] parses a
// fleet. The part of zester.yaml that limits rollouts is a [policy.Safety]: limits, waves and freezes. A change from
// the revision in force to a new one is subject to [policy.Safety.Stricter] of both.
//
//	base:                     # an environment, a label only
//	  'web-*': [web.nginx]    # target expression: references, in merge order
//
// All environments are evaluated. References apply in the order of the documents: top.yaml first, then top.d/*.yaml by
// name. A reference that a peel gets from several rules counts once, at its first position. Expressions cannot use
// settings, as they decide what the settings are.
//
// Known gap: an environment is only a label.
package top

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// File is the content of top.yaml and top.d.
type File struct {
	Rules []Rule // in the order of the documents
}

// Rule assigns references to the peels that Expr selects.
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

// Signature is an ordered list of references and the peels that have it.
type Signature struct {
	Refs  []string        // none for peels that no rule selects
	Peels []target.PeelID // sorted, at least one
}

// refName matches references within settings/: without empty parts there is no "..".
var refName = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

const maxRef = 255

// Parse parses the documents: top.yaml first, then top.d/*.yaml by name. An empty document adds no rule. The error is a
// [strictyaml.Errors] with all mistakes.
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
		r.fail(list.Pos, path, list.Mismatch("a list of references")+asItem(list))
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

// asItem says how to write a reference that stands alone.
func asItem(n *strictyaml.Node) string {
	if s, ok := n.Value.(string); ok && refName.MatchString(s) {
		return "; write - " + s + " on a line below"
	}
	return ""
}

func refusal(name string) string {
	msg := fmt.Sprintf("%.64q is not a reference; write the path under settings/ with dots: common.base", name)
	if strings.Contains(name, " - ") { // YAML joins a line that is indented more
		msg = fmt.Sprintf("%.64q is not a reference; write all - of the list in one column", name)
	}
	if trimmed := strings.TrimSuffix(strings.TrimPrefix(name, "settings/"), ".yaml"); trimmed != name ||
		strings.Contains(name, "/") {
		if dotted := strings.ReplaceAll(trimmed, "/", "."); len(dotted) <= 64 && refName.MatchString(dotted) {
			msg = fmt.Sprintf("%q is not a reference; did you mean %q?", name, dotted)
		}
	}
	return msg
}

// Select returns the references of one peel in merge order, without duplicates.
func (f *File) Select(p target.Peel) []Ref {
	var matches []int
	for i := range f.Rules {
		if f.Rules[i].Expr.Match(p) {
			matches = append(matches, i)
		}
	}
	return f.refs(matches)
}

// refs returns the references of some rules, without duplicates.
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

// Assign returns the references of every peel of the index, grouping peels with equal lists, and for each rule whether
// it selects a peel. It evaluates each rule once. Signatures are sorted by their references.
func (f *File) Assign(ix *peelindex.Index) (signatures []Signature, selects []bool) {
	exprs := make([]*target.Expr, len(f.Rules))
	for i := range f.Rules {
		exprs[i] = f.Rules[i].Expr
	}
	var all []Signature
	selects = make([]bool, len(exprs))
	for _, part := range ix.Partition(exprs) {
		for _, rule := range part.Matches {
			selects[rule] = true
		}
		var names []string
		for _, r := range f.refs(part.Matches) {
			names = append(names, r.Name)
		}
		all = append(all, Signature{Refs: names, Peels: part.Peels})
	}
	return join(all), selects
}

// join merges signatures with equal references; different rules can result in the same list.
func join(all []Signature) []Signature {
	sorting.Func(all, func(a, b Signature) int {
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
