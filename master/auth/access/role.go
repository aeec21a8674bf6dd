package access

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Role is a set of rules with a name, as people write it.
type Role struct {
	Name string `json:"name"`
	// Groups are groups of a provider of logins, or of people; whoever is in one has the role.
	Groups []string `json:"groups,omitempty"`
	// People have the role by their names, also those of a provider of logins before their first login.
	People []string  `json:"people,omitempty"`
	Allow  []Actions `json:"allow,omitempty"`
	Deny   []Actions `json:"deny,omitempty"`
	// TwoPersons are requests that nobody's word alone is enough for.
	TwoPersons []Second `json:"two_persons,omitempty"`
}

// Reserved are the verbs that no role of people allows. With them somebody could give away more than the own roles
// allow.
var Reserved = []Verb{"role.set", "role.remove", "user.add", "token.create", "token.rotate"}

// Bounds of a role. All roles together have at most [MaxRules] rules.
const (
	MaxRole     = 32 << 10 // bytes of its text
	MaxRules    = 500
	maxElements = 64 // of a list
	maxText     = 256
	maxTarget   = 4 << 10 // bytes
	maxName     = 64
)

// Rules returns the rules of a role.
func (r *Role) Rules() (rules []Rule) {
	who := Who{Names: r.People, Groups: r.Groups, Roles: []string{r.Name}}
	for i, a := range r.Allow {
		from := fmt.Sprintf("the role %s, allow[%d],", r.Name, i)
		rules = append(rules, Rule{From: from, Who: who, Actions: a, Except: Reserved})
	}
	for i, a := range r.Deny {
		from := fmt.Sprintf("the role %s, deny[%d],", r.Name, i)
		rules = append(rules, Rule{From: from, Who: who, Deny: true, Actions: a})
	}
	return rules
}

// Seconds returns the rules of the role about two persons.
func (r *Role) Seconds() []Second {
	all := slices.Clone(r.TwoPersons)
	for i := range all {
		all[i].From = fmt.Sprintf("the role %s, two_persons[%d],", r.Name, i)
	}
	return all
}

// reservedNames are names of kinds of credentials and of people, which no role has, beside those of [Builtin].
var reservedNames = []string{"admin", "local", "observer", "peel", "site"}

// CheckName returns an error if a role of people cannot have a name.
func CheckName(name string) error {
	isOther := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
	}
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, isOther) {
		return fmt.Errorf("a role's name has 1 to %d letters, digits, '_' and '-': %.70q", maxName, name)
	}
	low := strings.ToLower(name)
	isBuiltin := slices.ContainsFunc(builtins, func(b builtin) bool { return b.name == low })
	if isBuiltin || slices.Contains(reservedNames, low) {
		return fmt.Errorf("the name %s is of a built-in role or kind of credential: choose another name", name)
	}
	return nil
}

// Known are the names that rules may use.
type Known struct {
	Verbs     []string
	Functions []string
	Groups    target.Groups // of nodes, for target expressions
}

// ParseRole reads a role from YAML. The errors have positions in file.
func ParseRole(name, file string, text []byte, known Known) (*Role, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	doc, err := strictyaml.ParseWithin(file, text, strictyaml.Limits{Size: MaxRole, Nodes: strictyaml.MaxNodes})
	if err != nil {
		return nil, err
	}
	p := roleParser{known: known}
	if doc.Kind != strictyaml.Map {
		p.refuse(doc, "", "%s", doc.Mismatch("a map with allow, and perhaps deny, two_persons, groups and people"))
		return nil, p.errs
	}
	var keys struct {
		Groups     *strictyaml.Node `yaml:"groups"`
		People     *strictyaml.Node `yaml:"people"`
		Allow      *strictyaml.Node `yaml:"allow"`
		Deny       *strictyaml.Node `yaml:"deny"`
		TwoPersons *strictyaml.Node `yaml:"two_persons"`
	}
	if err := strictyaml.Decode(doc, &keys); err != nil {
		return nil, err
	}
	r := &Role{Name: name}
	r.Groups = p.texts(keys.Groups, "groups")
	r.People = p.texts(keys.People, "people")
	r.Allow = p.rules(keys.Allow, "allow", false)
	r.Deny = p.rules(keys.Deny, "deny", true)
	r.TwoPersons = p.seconds(keys.TwoPersons)
	if keys.Allow == nil && keys.Deny == nil && keys.TwoPersons == nil {
		p.refuse(doc, "", "has no rule; write a list under allow, under deny, or under two_persons")
	}
	if err := p.errs.Err(); err != nil {
		return nil, err
	}
	return r, nil
}

// A roleParser collects what is wrong with a role.
type roleParser struct {
	known Known
	errs  strictyaml.Errors
}

func (p *roleParser) refuse(n *strictyaml.Node, at, format string, args ...any) {
	p.errs = append(p.errs, strictyaml.Error{Pos: n.Pos, Path: at, Msg: fmt.Sprintf(format, args...)})
}

// list returns the elements of a list that is not empty; n may be nil.
func (p *roleParser) list(n *strictyaml.Node, at, want string) []*strictyaml.Node {
	switch {
	case n == nil:
	case n.Kind != strictyaml.List:
		p.refuse(n, at, "%s", n.Mismatch(want))
	case len(n.List) == 0:
		p.refuse(n, at, "is empty; leave it out, or name what it is about")
	case len(n.List) > maxElements:
		p.refuse(n, at, "has %d elements, and at most %d are possible", len(n.List), maxElements)
	default:
		return n.List
	}
	return nil
}

// texts reads a list of texts.
func (p *roleParser) texts(n *strictyaml.Node, at string) (texts []string) {
	for i, e := range p.list(n, at, "a list of texts") {
		if s := p.text(e, fmt.Sprintf("%s[%d]", at, i), maxText); s != "" {
			texts = append(texts, s)
		}
	}
	return texts
}

// text reads a text that is not empty. It returns "" for another value.
func (p *roleParser) text(n *strictyaml.Node, at string, most int) string {
	s, ok := n.Value.(string)
	switch {
	case !ok || n.Secret != nil:
		p.refuse(n, at, "%s", n.Mismatch("a text"))
		return ""
	case s == "" || len(s) > most:
		p.refuse(n, at, "has %d bytes, and 1 to %d are possible", len(s), most)
		return ""
	}
	return s
}

// rules reads the list under allow or deny.
func (p *roleParser) rules(n *strictyaml.Node, at string, deny bool) (rules []Actions) {
	for i, e := range p.list(n, at, "a list of rules") {
		rules = append(rules, p.actions(e, fmt.Sprintf("%s[%d]", at, i), deny))
	}
	return rules
}

// actions reads one rule.
func (p *roleParser) actions(n *strictyaml.Node, at string, deny bool) (a Actions) {
	if n.Kind != strictyaml.Map {
		p.refuse(n, at, "%s", n.Mismatch("a map with verbs, and perhaps target, functions, arguments and paths"))
		return a
	}
	var keys struct {
		Verbs     *strictyaml.Node `yaml:"verbs"`
		Target    *strictyaml.Node `yaml:"target"`
		Functions *strictyaml.Node `yaml:"functions"`
		Arguments *strictyaml.Node `yaml:"arguments"`
		Paths     *strictyaml.Node `yaml:"paths"`
	}
	if bad, ok := strictyaml.Decode(n, &keys).(strictyaml.Errors); ok {
		for _, e := range bad {
			e.Path = at + "." + e.Path
			p.errs = append(p.errs, e)
		}
		return a
	}
	if keys.Verbs == nil {
		p.refuse(n, at, "has no verbs; name some, such as [read] or [job.dispatch]")
	}
	a.Functions = p.functions(keys.Functions, at+".functions")
	if keys.Target != nil {
		a.Target = p.target(keys.Target, at+".target")
	}
	if keys.Arguments != nil {
		a.Arguments = p.arguments(keys.Arguments, at+".arguments", deny)
	}
	a.Paths = p.paths(keys.Paths, at+".paths")
	a.Verbs = p.verbs(keys.Verbs, at+".verbs", deny)
	for i, v := range a.Verbs {
		where := fmt.Sprintf("%s.verbs[%d]", at, i)
		switch isDispatch := Verb(v) == Dispatch; {
		case !isDispatch && (keys.Functions != nil || keys.Arguments != nil):
			p.refuse(keys.Verbs.List[i], where, "functions and arguments are for the verb %s alone; "+
				"put %s into another rule", Dispatch, v)
		case !isDispatch && v != Read && keys.Target != nil:
			p.refuse(keys.Verbs.List[i], where, "target is for the verbs %s and %s alone; put %s into another rule",
				Dispatch, Read, v)
		case !OfFile(Verb(v)) && keys.Paths != nil:
			p.refuse(keys.Verbs.List[i], where, "paths are for the verbs %s alone; put %s into another rule", ofFile, v)
		}
	}
	return a
}

// paths reads patterns for files of the config repo.
func (p *roleParser) paths(n *strictyaml.Node, at string) []string {
	patterns := p.texts(n, at)
	if len(patterns) == 0 || len(patterns) != len(n.List) {
		return patterns
	}
	for i, pattern := range patterns {
		if err := checkPaths(pattern); err != nil {
			p.refuse(n.List[i], fmt.Sprintf("%s[%d]", at, i), "%v", err)
		}
	}
	return patterns
}

// verbs reads the verbs of a rule. Each has to cover a verb of masters.
func (p *roleParser) verbs(n *strictyaml.Node, at string, deny bool) []string {
	verbs := p.texts(n, at)
	if len(verbs) == 0 || len(verbs) != len(n.List) {
		return nil
	}
	for i, v := range verbs {
		e, at := n.List[i], fmt.Sprintf("%s[%d]", at, i)
		isMatch := func(known string) bool { return matches(v, Verb(known)) }
		switch {
		case !slices.ContainsFunc(p.known.Verbs, isMatch):
			all := slices.Concat(slices.Sorted(maps.Keys(Groups)), p.known.Verbs)
			p.refuse(e, at, "there is no verb %q%s", v, strictyaml.SuggestKey(v, all))
		case !deny && slices.Contains(Reserved, Verb(v)):
			p.refuse(e, at, "no role can allow %s, only operators may: "+
				"who has it could give away more than the role allows", v)
		}
	}
	return verbs
}

// functions reads globs. Each has to match a function.
func (p *roleParser) functions(n *strictyaml.Node, at string) []string {
	globs := p.texts(n, at)
	if len(globs) == 0 || len(globs) != len(n.List) {
		return globs
	}
	for i, glob := range globs {
		at := fmt.Sprintf("%s[%d]", at, i)
		_, err := path.Match(glob, "")
		isMatch := func(name string) bool { ok, _ := path.Match(glob, name); return ok }
		switch {
		case err != nil:
			p.refuse(n.List[i], at, "%q is no glob; write one such as test.* or cmd.run", glob)
		case !slices.ContainsFunc(p.known.Functions, isMatch):
			p.refuse(n.List[i], at, "there is no function %q%s", glob, strictyaml.SuggestKey(glob, p.known.Functions))
		}
	}
	return globs
}

// target reads an expression.
func (p *roleParser) target(n *strictyaml.Node, at string) string {
	expr := p.text(n, at, maxTarget)
	if expr == "" {
		return ""
	}
	if _, err := target.Parse(expr, target.Options{Groups: p.known.Groups}); err != nil {
		p.refuse(n, at, "%v", err)
	}
	return expr
}

// arguments reads patterns by the names of arguments.
func (p *roleParser) arguments(n *strictyaml.Node, at string, deny bool) map[string]string {
	switch {
	case deny:
		p.refuse(n, at, "a rule that denies takes no arguments: the same can be written in many ways; "+
			"allow the wanted arguments in place of that")
		return nil
	case n.Kind != strictyaml.Map:
		p.refuse(n, at, "%s", n.Mismatch("a map from arguments to patterns"))
		return nil
	case len(n.Map) == 0 || len(n.Map) > maxElements:
		p.refuse(n, at, "has %d arguments, and 1 to %d are possible", len(n.Map), maxElements)
		return nil
	}
	patterns := map[string]string{}
	for _, pair := range n.Map {
		patterns[pair.Key] = p.text(pair.Value, at+"."+pair.Key, maxTarget)
	}
	return patterns
}
