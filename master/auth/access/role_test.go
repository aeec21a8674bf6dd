package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
)

var known = Known{
	Verbs:     []string{"job.cancel", "job.dispatch", "job.list", "role.set", "schedule.add", "schedule.list", "schedule.remove", "schedule.replace", "sync.pause", "token.create", "user.add"},
	Functions: []string{"cmd.run", "pkg.installed", "test.ping"},
}

// TestRolesThatAreWrong reads roles in testdata; each has a file beside it with what is wrong.
func TestRolesThatAreWrong(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(strings.TrimSuffix(file, ".yaml") + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		_, err = ParseRole("web-team", filepath.Base(file), text, known)
		if err == nil || err.Error() != strings.TrimSpace(string(want)) {
			t.Errorf("%s:\n%v\nwant\n%s", file, err, want)
		}
	}
}

func TestARoleIsReadAsWritten(t *testing.T) {
	text := `groups: [web, ops]
allow:
  - verbs: [read, job.cancel]
  - verbs: [job.dispatch]
    target: web-*
    functions: [cmd.run]
    arguments: {command: "systemctl restart *"}
deny:
  - verbs: [job.dispatch]
    target: web-9
`
	r, err := ParseRole("web-team", "role.yaml", []byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	rules := r.Rules()
	if len(rules) != 3 || !rules[2].Deny || rules[1].Arguments["command"] != "systemctl restart *" || rules[1].Target != "web-*" {
		t.Errorf("%+v", rules)
	}
	if rules[2].From != "the role web-team, deny[0]," {
		t.Errorf("a rule is called %q", rules[2].From)
	}
	for name, who := range map[string]Who{"by its name": {Roles: []string{"web-team"}}, "by a group": {Groups: []string{"ops"}}} {
		if !Decide(rules, who, "job.list", On{}).Allowed || Decide(rules, who, "sync.pause", On{}).Allowed {
			t.Errorf("%s: the rules are not those of the role", name)
		}
	}
}

func TestNoRoleAllowsWhatCouldGiveMoreThanTheRole(t *testing.T) {
	r, err := ParseRole("all", "role.yaml", []byte("allow: [{verbs: ['*', 'role.*', 'user.*', 'token.*']}]"), known)
	if err != nil {
		t.Fatal(err)
	}
	who := Who{Roles: []string{"all"}}
	for _, verb := range Reserved {
		if Decide(r.Rules(), who, verb, On{}).Allowed {
			t.Errorf("a role allows %s", verb)
		}
	}
	operator := Who{Roles: []string{"all", "operator"}}
	if !Decide(append(Builtin(), r.Rules()...), operator, "role.set", On{}).Allowed {
		t.Error("an operator with a role may not set roles")
	}
}

func TestNamesOfRoles(t *testing.T) {
	for name, want := range map[string]bool{
		"web-team": true, "a": true, strings.Repeat("a", 64): true, strings.Repeat("a", 65): false, "": false, "a b": false, "a.b": false,
		"*": false, "operator": false, "Operator": false, "direct": false, "limited": false, "auditor": false, "member": false,
		"master": false, "peel": false, "site": false, "observer": false, "admin": false, "local": false, "ä": false,
	} {
		if err := CheckName(name); (err == nil) != want {
			t.Errorf("the name %q: %v", name, err)
		}
	}
}

// FuzzParseRole checks that a role that was read has rules that name people, and that a text never stops the reader.
func FuzzParseRole(f *testing.F) {
	f.Add([]byte("allow:\n  - verbs: [read]\n"))
	f.Add([]byte("groups: [a]\nallow: [{verbs: [job.dispatch], target: 'web-*', functions: [test.*], arguments: {a: '*'}}]\n"))
	f.Add([]byte("deny: [{verbs: ['*']}]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRole("web-team", "role.yaml", text, known)
		if err != nil {
			return
		}
		rules := r.Rules()
		if len(rules) == 0 {
			t.Fatalf("%q has no rules, and was read", text)
		}
		for _, rule := range rules {
			if len(rule.Verbs) == 0 {
				t.Fatalf("%q: a rule has no verbs", text)
			}
			if Decide([]Rule{rule}, Who{Name: "ann"}, Dispatch, On{}).Allowed {
				t.Fatalf("%q: somebody without the role is allowed something", text)
			}
		}
	})
}

func TestWhatNeedsTwoPersons(t *testing.T) {
	const text = "two_persons:\n  - {verbs: [job.dispatch], target: web-*, functions: [cmd.*], peels: '> 50 %'}\n  - {verbs: [token.create]}\n"
	r, err := ParseRole("four-eyes", "role.yaml", []byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(nil, r.Seconds()...)
	for verb, want := range map[Verb]int{
		"token.create": 1, "job.dispatch": 1, "role.set": 1, "role.remove": 1, "user.add": 1,
		"user.revoke": 0, "job.cancel": 0, "job.list": 0, "sync.approve": 0, "hold.approve": 0,
	} {
		if got := table.Seconds(verb); len(got) != want {
			t.Errorf("%s: %+v", verb, got)
		}
	}
	if got := NewTable(nil).Seconds("role.set"); got != nil {
		t.Errorf("without a rule: %+v", got)
	}
	rule := table.Seconds(Dispatch)[0]
	if rule.From != "the role four-eyes, two_persons[0]," || rule.Expr() != "web-*" {
		t.Errorf("%+v", rule)
	}
	web := []target.PeelID{"web-1", "web-2", "web-3", "web-4"}
	for what, c := range map[string]struct {
		rule     Second
		function string
		peels    []target.PeelID
		want     bool
	}{
		"half of them":       {rule, "cmd.run", web[:2], false},
		"more":               {rule, "cmd.run", web[:3], true},
		"others count not":   {rule, "cmd.run", []target.PeelID{"db-1", "db-2", "web-1", "web-2"}, false},
		"another function":   {rule, "test.ping", web, false},
		"all jobs":           {Second{}, "test.ping", web[:1], true},
		"on one peel of it":  {Second{Target: "web-*"}, "test.ping", []target.PeelID{"db-1", "web-1"}, true},
		"on none of it":      {Second{Target: "web-*"}, "test.ping", []target.PeelID{"db-1"}, false},
		"as many as allowed": {Second{Peels: "> 2"}, "test.ping", []target.PeelID{"new-1", "new-2"}, false},
		"also unknown peels": {Second{Peels: "> 2"}, "test.ping", []target.PeelID{"new-1", "new-2", "new-3"}, true},
	} {
		if got := c.rule.Covers(c.function, c.peels, web); got != c.want {
			t.Errorf("%s: %t", what, got)
		}
	}
}

func TestARoleIsOfPeopleByTheirNames(t *testing.T) {
	r, err := ParseRole("web-team", "role.yaml", []byte("people: [ann]\nallow: [{verbs: [job.cancel]}]"), known)
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(r.Rules())
	for name, want := range map[string]bool{"ann": true, "bob": false, "": false} {
		who := Who{Name: name}
		if v := Decide(table.Of(who), who, "job.cancel", On{}); v.Allowed != want {
			t.Errorf("%q: %+v", name, v)
		}
	}
}
