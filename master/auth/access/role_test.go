package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var known = Known{
	Verbs:     []string{"job.cancel", "job.dispatch", "job.list", "role.set", "sync.pause", "token.create", "user.add"},
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
