package movein

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	zstate "github.com/seed-c01c3da5/zester/settings/state"
)

// secretRef is the folder of the settings files with secrets.
const secretRef = "secrets"

// write adds the settings files and the top file to the result.
func (r *SaltResult) write(files []*slsFile) error {
	rules := assign(files)
	for _, f := range files {
		text, err := f.text()
		if err != nil {
			return err
		}
		r.Files[pathOf(f.ref)] = text
		if secrets := secretsIn(f.states); len(secrets) > 0 {
			if text, err = encode(zstate.Key, nodeOf(secrets)); err != nil {
				return err
			}
			r.Secrets[pathOf(secretRef+"."+f.ref)] = text
		}
	}
	top := &yaml.Node{Kind: yaml.MappingNode}
	for _, rule := range rules {
		var refs []string
		for _, f := range rule.files {
			refs = append(refs, f.ref)
			if len(secretsIn(f.states)) > 0 {
				refs = append(refs, secretRef+"."+f.ref)
			}
		}
		set(top, rule.expr, refs)
	}
	text, err := encode("base", top)
	r.Files["top.yaml"] = text
	return err
}

// A topRule is a rule of the top file.
type topRule struct {
	expr  string
	files []*slsFile
}

// assign returns the rules of the top file. An expression has one rule, at its first place.
func assign(files []*slsFile) (rules []topRule) {
	for _, f := range files {
		at := slices.IndexFunc(rules, func(r topRule) bool { return r.expr == f.expr })
		if at < 0 {
			at = len(rules)
			rules = append(rules, topRule{expr: f.expr})
		}
		rules[at].files = append(rules[at].files, f)
	}
	return rules
}

func pathOf(ref string) string { return "settings/" + strings.ReplaceAll(ref, ".", "/") + ".yaml" }

// secretsIn returns the states with their secret arguments alone.
func secretsIn(states []made) (out []made) {
	for _, m := range states {
		if len(m.secrets) > 0 {
			out = append(out, made{name: m.name, function: m.function, args: m.secrets})
		}
	}
	return out
}

// text returns all of a state, to compare it with others.
func (m made) text() (string, error) {
	all := &yaml.Node{Kind: yaml.MappingNode}
	set(all, "state", nodeOf([]made{m}))
	set(all, "secrets", nodeOf(secretsIn([]made{m})))
	text, err := encodeNode(all)
	return string(text), err
}

// nodeOf returns the map of states.
func nodeOf(states []made) *yaml.Node {
	all := &yaml.Node{Kind: yaml.MappingNode}
	said := map[string]bool{}
	for _, m := range states {
		fields := &yaml.Node{Kind: yaml.MappingNode}
		args := &yaml.Node{Kind: yaml.MappingNode}
		function, ok := zstate.FunctionOf(m.function)
		if !ok {
			panic("a rule names " + m.function) // TestEachFunction has a line for each rule
		}
		var known []string
		for _, p := range function.Params() {
			known = append(known, p.Name)
			if v, ok := m.args[p.Name]; ok && !(v == m.name && p.Name == function.Main) {
				set(args, p.Name, v)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(m.args)) { // check refuses what the function does not have
			if !slices.Contains(known, name) {
				set(args, name, m.args[name])
			}
		}
		set(fields, m.function, args)
		for _, name := range slices.Sorted(maps.Keys(m.fields)) {
			set(fields, name, m.fields[name])
		}
		key := valueNode(m.name)
		key.HeadComment = commentOn(slices.DeleteFunc(slices.Clone(m.comment), func(line string) bool {
			isAgain := said[line]
			said[line] = strings.HasPrefix(line, noteMark+forAll)
			return isAgain
		}))
		all.Content = append(all.Content, key, fields)
	}
	return all
}

// orderHead says what the file with the order is for.
var orderHead = []string{
	"The order in which Salt runs the states, for hosts that have states between those that all have.",
	"A state that is not here runs after these. Without this file, states run in the order of their files.",
}

// orderNode returns the map of states that have their place alone.
func orderNode(names []string) *yaml.Node {
	all := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range names {
		set(all, name, nil)
	}
	all.Content[0].HeadComment = commentOn(orderHead)
	return all
}

// commentOn returns lines as a comment, without characters that would end it.
func commentOn(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "# " + strings.Join(printable(lines), "\n# ")
}

func valueNode(v any) *yaml.Node {
	node := new(yaml.Node)
	if err := node.Encode(v); err != nil {
		panic(fmt.Sprintf("cannot encode %T", v)) // texts, numbers, lists and maps have an encoding
	}
	return node
}
