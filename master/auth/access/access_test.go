package access

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-c01c3da5/zester/settings/target"
)

var cases = flag.Int("access.cases", 10_000, "random decisions of TestDecisionsAreThoseOfTheOracle")

// plainWord is what a * in the pattern of an argument stands for, as an expression.
const plainWord = `[A-Za-z0-9_./:@+=,-]+`

// A world has the peels and requests from which tests draw.
type world struct {
	*rand.Rand
	peels []target.PeelID
}

func (w *world) pick(of ...string) string { return of[w.IntN(len(of))] }

// some returns up to n of some texts, each once.
func (w *world) some(n int, of ...string) []string {
	rest := slices.Clone(of)
	w.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	return rest[:w.IntN(n+1)]
}

func (w *world) who() Who {
	return Who{
		Name:   w.pick("ann", "bob", "cas", ""),
		Groups: w.some(2, "ops", "web", "dba"),
		Roles:  w.some(2, "web-team", "db-team", "operator", "auditor", "limited"),
	}
}

func (w *world) rule(i int) Rule {
	r := Rule{From: fmt.Sprintf("rule %d", i), Who: w.who(), Deny: w.IntN(4) == 0}
	r.Verbs = append(w.some(2, "job.*", "*.list", "sync.pause", "read", "run", "user.add"),
		w.pick("*", "job.dispatch", "job.dispatch", "read"))
	if w.IntN(3) == 0 {
		r.Target = w.pick("web-*", "db-*", "*-1", "*")
	}
	if w.IntN(3) == 0 {
		r.Functions = append(w.some(1, "test.ping"), w.pick("test.*", "cmd.run", "*"))
	}
	if w.IntN(4) == 0 {
		r.Arguments = map[string]string{"command": w.pick("systemctl restart *", "*", "id")}
	}
	if w.IntN(3) == 0 {
		r.Except = Reserved
	}
	return r
}

func (w *world) on() On {
	on := On{Function: w.pick("test.ping", "cmd.run", "pkg.remove"), Selected: map[string][]target.PeelID{}}
	if w.IntN(2) == 0 {
		on.Args = map[string]any{"command": w.pick("systemctl restart nginx", "systemctl restart nginx; id", "id", "a b")}
	}
	if w.IntN(8) == 0 {
		on.Args = map[string]any{"command": "id", "user": "root"}
	}
	for _, id := range w.peels {
		if w.IntN(2) == 0 {
			on.Peels = append(on.Peels, id)
		}
	}
	for _, expr := range []string{"web-*", "db-*", "*-1", "*"} {
		for _, id := range w.peels {
			if globs(expr, string(id)) {
				on.Selected[expr] = append(on.Selected[expr], id)
			}
		}
	}
	return on
}

func globs(glob, text string) bool {
	ok, err := path.Match(glob, text)
	return err == nil && ok
}

// oracleAllows decides about one peel by the words of the rules, in the slowest way. Without a peel it decides about a
// job that has none.
func oracleAllows(rules []Rule, who Who, verb Verb, on On, id target.PeelID) bool {
	allowed := false
	for _, r := range rules {
		if !oracleConcerns(r, who, verb, on, id) {
			continue
		}
		if r.Deny {
			return false
		}
		allowed = true
	}
	return allowed
}

func oracleConcerns(r Rule, who Who, verb Verb, on On, id target.PeelID) bool {
	names := map[string]bool{"name " + r.Who.Name: r.Who.Name != ""}
	for _, g := range r.Who.Groups {
		names["group "+g] = true
	}
	for _, role := range r.Who.Roles {
		names["role "+role] = true
	}
	concerned := names["name "+who.Name]
	for _, g := range who.Groups {
		concerned = concerned || names["group "+g]
	}
	for _, role := range who.Roles {
		concerned = concerned || names["role "+role]
	}
	if !concerned || !oracleCovers(r, verb) {
		return false
	}
	if r.Target == "" && r.Functions == nil && r.Arguments == nil {
		return true
	}
	if verb != "job.dispatch" {
		return verb == "job.list" && oracleShowsSome(r) && !r.Deny
	}
	if r.Functions != nil && !slices.ContainsFunc(r.Functions, func(g string) bool { return globs(g, on.Function) }) {
		return false
	}
	if r.Arguments != nil && !oracleFits(r.Arguments, on.Args) {
		return false
	}
	if r.Target == "" {
		return true
	}
	return globs(r.Target, string(id)) && id != "" || id == "" && !r.Deny
}

// oracleShowsSome says whether a rule names the peels about which its people may read.
func oracleShowsSome(r Rule) bool {
	return slices.Contains(r.Verbs, "read") && r.Target != "" && r.Functions == nil && r.Arguments == nil
}

// oracleReads decides whether a person may read about one peel.
func oracleReads(rules []Rule, who Who, on On, id target.PeelID) bool {
	shown := false
	for _, r := range rules {
		ofJobs := r
		ofJobs.Functions, ofJobs.Arguments = nil, nil // a rule about some functions is about the peel, too
		switch {
		case oracleShowsSome(r) && oracleConcerns(withVerbs(r, "job.dispatch"), who, "job.dispatch", on, id):
			if r.Deny {
				return false
			}
			shown = true
		case !r.Deny && oracleConcerns(ofJobs, who, "job.dispatch", on, id):
			shown = true
		}
	}
	return shown
}

func withVerbs(r Rule, verbs ...string) Rule {
	r.Verbs, r.Except = verbs, nil
	return r
}

func TestReachIsThatOfTheOracle(t *testing.T) {
	w := &world{rand.New(rand.NewPCG(3, 4)), []target.PeelID{"db-1", "db-2", "web-1", "web-2"}}
	found := map[bool]int{}
	for range *cases {
		var rules []Rule
		for i := range w.IntN(8) {
			rules = append(rules, w.rule(i))
		}
		who, on := w.who(), w.on()
		selected := map[string][]target.PeelID{}
		for _, expr := range Targets(rules, who) {
			selected[expr] = on.Selected[expr]
		}
		got := Reach(rules, who, selected)
		if ReachesAll(rules, who) != got.All {
			t.Fatalf("%+v\nall for %+v: %t, and its reach is %+v", rules, who, !got.All, got)
		}
		var want []target.PeelID
		for _, id := range w.peels {
			may := oracleReads(rules, who, on, id)
			found[may]++
			if may {
				want = append(want, id)
			}
			if got.Has(id) != may {
				t.Fatalf("%+v\n%+v reads about %s: %t", rules, who, id, !may)
			}
		}
		if only := got.Only(w.peels); !slices.Equal(only, want) {
			t.Fatalf("%+v\n%+v reads about %v, want %v", rules, who, only, want)
		}
	}
	if found[true] < *cases/4 || found[false] < *cases/4 {
		t.Errorf("of %d cases %v: the cases are of one kind", *cases, found)
	}
}

func TestWhatBuiltinRolesReach(t *testing.T) {
	web := Actions{Verbs: []string{"job.dispatch"}, Target: "web-*", Functions: []string{"test.*"}}
	read := Actions{Verbs: []string{Read}, Target: "web-*"}
	selected := map[string][]target.PeelID{"web-*": {"web-1"}, "*": {"db-1", "web-1"}}
	for name, c := range map[string]struct {
		role  string
		rules []Rule
		want  Peels
	}{
		"an operator":                      {"operator", nil, Peels{All: true}},
		"an auditor":                       {"auditor", nil, Peels{All: true}},
		"an auditor who runs something":    {"auditor", []Rule{{Actions: web}}, Peels{All: true}},
		"an auditor who is denied to read": {"auditor", []Rule{{Deny: true, Actions: read}}, Peels{IDs: []target.PeelID{"db-1"}}},
		"limits":                           {"limited", []Rule{{Actions: web}}, Peels{IDs: []target.PeelID{"web-1"}}},
		"limits of functions":              {"limited", []Rule{{Actions: Actions{Verbs: web.Verbs, Functions: web.Functions}}}, Peels{All: true}},
		"a member without a rule":          {"member", nil, Peels{}},
		"a member who reads":               {"member", []Rule{{Actions: Actions{Verbs: []string{Read, "*.list"}}}}, Peels{}},
		"a member who reads about some":    {"member", []Rule{{Actions: read}}, Peels{IDs: []target.PeelID{"web-1"}}},
		"a member who reads about all":     {"member", []Rule{{Actions: Actions{Verbs: []string{Read}, Target: "*"}}}, Peels{All: true}},
		"a member who runs something":      {"member", []Rule{{Actions: web}}, Peels{IDs: []target.PeelID{"web-1"}}},
	} {
		for i := range c.rules {
			c.rules[i].Who = Who{Name: "ann"}
		}
		got := Reach(append(Builtin(), c.rules...), Who{Name: "ann", Roles: []string{c.role}}, selected)
		if got.All != c.want.All || !got.All && !slices.Equal(got.IDs, c.want.IDs) {
			t.Errorf("%s reads about %+v", name, got)
		}
	}
}

func oracleCovers(r Rule, verb Verb) bool {
	if slices.Contains(r.Except, verb) {
		return false
	}
	for _, pattern := range Expand(r.Verbs) {
		text := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[a-z.]*`)
		if regexp.MustCompile("^" + text + "$").MatchString(string(verb)) {
			return true
		}
	}
	return false
}

func oracleFits(patterns map[string]string, args map[string]any) bool {
	names := slices.Sorted(maps.Keys(patterns))
	if !slices.Equal(names, slices.Sorted(maps.Keys(args))) {
		return false
	}
	for _, name := range names {
		if !regexpOf(patterns[name]).MatchString(fmt.Sprint(args[name])) {
			return false
		}
	}
	return true
}

// regexpOf returns a pattern of an argument as an expression.
func regexpOf(pattern string) *regexp.Regexp {
	text := regexp.QuoteMeta(pattern)
	text = strings.ReplaceAll(text, `\*`, plainWord)
	return regexp.MustCompile(`(?s)^` + text + `$`)
}

func TestDecisionsAreThoseOfTheOracle(t *testing.T) {
	w := &world{rand.New(rand.NewPCG(1, 2)), []target.PeelID{"db-1", "db-2", "web-1", "web-2"}}
	verdicts := map[string]int{}
	for range *cases {
		var rules []Rule
		for i := range w.IntN(8) {
			rules = append(rules, w.rule(i))
		}
		who, on := w.who(), w.on()
		verb := Verb(w.pick("job.dispatch", "job.dispatch", "job.dispatch", "job.list", "sync.pause", "user.add", "job.cancel"))
		if verb != Dispatch {
			on = On{}
		}
		got := Decide(NewTable(rules).Of(who), who, verb, on)

		var refused []target.PeelID
		for _, id := range on.Peels {
			if !oracleAllows(rules, who, verb, on, id) {
				refused = append(refused, id)
			}
		}
		want := len(refused) == 0
		if len(on.Peels) == 0 {
			want = oracleAllows(rules, who, verb, on, "")
		}
		if got.Allowed != want {
			t.Fatalf("%+v\nmay %s %+v: %+v, want %t", rules, verb, on, got, want)
		}
		if got.Allowed != (got.Reason == "") || got.Allowed && (got.Rule == nil || got.Rule.Deny) {
			t.Fatalf("%+v\nmay %s %+v: %+v says two things", rules, verb, on, got)
		}
		if got.Outside != nil && !slices.Equal(got.Outside, refused) {
			t.Fatalf("%+v\nmay %s %+v: outside are %v, want %v", rules, verb, on, got.Outside, refused)
		}
		verdicts[cmp.Or(string(got.Reason), "allowed")]++
	}
	for _, reason := range []Reason{"allowed", NoRule, Denied, NoFunction, NoArgument, OutOfReach} {
		if verdicts[string(reason)] < *cases/200 {
			t.Errorf("of %d cases %v: the cases are of one kind", *cases, verdicts)
		}
	}
}

func TestAnyJobMayBeAllowedIfSomeJobIs(t *testing.T) {
	ann := Who{Name: "ann"}
	web := Actions{Verbs: []string{"job.dispatch"}, Target: "web-*", Functions: []string{"test.*"}}
	all := Actions{Verbs: []string{"job.*"}}
	for name, c := range map[string]struct {
		rules []Rule
		want  bool
	}{
		"nothing":                     {nil, false},
		"some peels":                  {[]Rule{{Who: ann, Actions: web}}, true},
		"all but some peels":          {[]Rule{{Who: ann, Actions: all}, {Who: ann, Deny: true, Actions: web}}, true},
		"none":                        {[]Rule{{Who: ann, Actions: all}, {Who: ann, Deny: true, Actions: all}}, false},
		"of somebody else":            {[]Rule{{Who: Who{Name: "bob"}, Actions: all}}, false},
		"a nameless rule, and person": {[]Rule{{Actions: all}}, false},
	} {
		if got := Decide(c.rules, ann, Dispatch, On{}); got.Allowed != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if Decide([]Rule{{Actions: all}}, Who{}, Dispatch, On{}).Allowed {
		t.Error("a rule about nobody is about a person without a name")
	}
}

func TestPatternsOfArguments(t *testing.T) {
	const restart = "systemctl restart *"
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{restart, "systemctl restart nginx", true},
		{restart, "systemctl restart nginx.service", true},
		{restart, "systemctl restart ", false},
		{restart, "systemctl restart nginx; rm -rf /", false},
		{restart, "systemctl restart nginx\nid", false},
		{restart, "systemctl restart $(id)", false},
		{restart, "systemctl restart `id`", false},
		{restart, "systemctl restart nginx|id", false},
		{restart, "systemctl restart nginx&id", false},
		{restart, "systemctl restart nginx >/etc/passwd", false},
		{restart, "systemctl restart --host=other", false},
		{restart, "systemctl restart a-b", true},
		{restart, "systemctl stop nginx", false},
		{"cat /var/log/*", "cat /var/log/a/b.log", true},
		{"cat /var/log/*", "cat /var/log/../../etc/shadow", false},
		{"cat /var/log/.*", "cat /var/log/../x", false},
		{"a*b*c", "a1b2bc", true},
		{"a*b*c", "abc", false},
		{"*", "x", true},
		{"*", "", false},
		{"", "", true},
		{"id", "id ", false},
	} {
		if got := fitsText(c.pattern, c.text); got != c.want {
			t.Errorf("%q fits %q: %t", c.text, c.pattern, got)
		}
	}
	patterns := map[string]string{"command": "id", "timeout": "1*"}
	for name, c := range map[string]struct {
		args map[string]any
		want bool
	}{
		"as wanted":   {map[string]any{"command": "id", "timeout": 10.0}, true},
		"one more":    {map[string]any{"command": "id", "timeout": 10.0, "user": "root"}, false},
		"one less":    {map[string]any{"command": "id"}, false},
		"another":     {map[string]any{"command": "id", "user": "root"}, false},
		"a list":      {map[string]any{"command": []any{"id"}, "timeout": 10.0}, false},
		"no argument": {nil, false},
	} {
		if got := fits(patterns, c.args); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// FuzzPatternsOfArguments compares patterns with regular expressions that say the same.
func FuzzPatternsOfArguments(f *testing.F) {
	f.Add("systemctl restart *", "systemctl restart nginx")
	f.Add("a*b*c", "a b;bc")
	f.Add("*-*", "a--b")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if !utf8.ValidString(pattern) {
			return // no expression can say it
		}
		got := fitsText(pattern, text)
		want := regexpOf(pattern).MatchString(text)
		if got && !want {
			t.Fatalf("%q fits %q", text, pattern)
		}
		// A word that begins with '-', and "..", are refused beside that.
		if want && !got && !strings.Contains(text, "-") && !strings.Contains(text, "..") {
			t.Fatalf("%q does not fit %q", text, pattern)
		}
	})
}

// BenchmarkDecide decides about people of a fleet with 500 rules.
func BenchmarkDecide(b *testing.B) {
	rules, people := largeTable()
	table := NewTable(rules)
	on := On{Function: "cmd.run", Selected: map[string][]target.PeelID{"web-*": {"web-1", "web-2"}}, Peels: []target.PeelID{"web-1"}}
	i := 0
	for b.Loop() {
		p := people[i%len(people)]
		Decide(table.Of(p), p, Dispatch, on)
		i++
	}
}

// largeTable returns 500 rules, and 10,000 people who are in 20 groups each.
func largeTable() (rules []Rule, people []Who) {
	rules = Builtin()
	for i := len(rules); i < MaxRules; i++ {
		r := Role{Name: fmt.Sprintf("role-%d", i), Groups: []string{fmt.Sprintf("group-%d", i), "everybody"}}
		r.Allow = []Actions{{Verbs: []string{"job.dispatch"}, Target: "web-*", Functions: []string{"test.*", "cmd.run"}}}
		rules = append(rules, r.Rules()...)
	}
	for i := range 10_000 {
		p := Who{Name: fmt.Sprintf("person-%d", i), Roles: []string{"member"}}
		for g := range 20 {
			p.Groups = append(p.Groups, fmt.Sprintf("group-%d", (i+g*31)%700))
		}
		people = append(people, p)
	}
	return rules, people
}
