package lint_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
)

func TestACommandWithoutAGuardIsAWarning(t *testing.T) {
	const warning = "settings/a.yaml:2:3: states.c: the command runs each time; onlyif, unless, creates or onchanges says when it is needed"
	for _, c := range []struct {
		state, other, want string
	}{
		{"{cmd.run: {command: x}}", "", warning},
		{"{cmd.run: }", "", warning},
		{"{cmd.run: {command: x}, require: [p]}", "", warning},
		{"{cmd.run: {command: x}, enabled: false}", "", ""},
		{"{cmd.run: {command: x}, onlyif: test -e /x}", "", ""},
		{"{cmd.run: {command: x}, unless: [test -e /x]}", "", ""},
		{"{cmd.run: {command: x}, onchanges: [p]}", "", ""},
		{"{cmd.run: {command: x}, onfail: [p]}", "", ""},
		{"{cmd.run: {command: x, creates: /etc/x}}", "", ""},
		{"{cmd.run: {command: x}}", "states: {c: {unless: test -e /x}}", ""},
		{"{cmd.run: {command: x}}", "states: {d: {cmd.run: {command: x}, unless: test -e /x}}", warning},
		{"{cmd.run: {command: x}}", "states: {q: {pkg.latest: {}, onchanges_in: [c]}}", ""},
		{"{pkg.installed: {}}", "", ""},
	} {
		p, err := plan.NewCompiler().Check(fstest.MapFS{
			"top.yaml":        {Data: []byte("base: {'*': [a], 'web-*': [b]}")},
			"settings/a.yaml": {Data: []byte("states:\n  c: " + c.state + "\n  p: {pkg.installed: {}}\n")},
			"settings/b.yaml": {Data: []byte(c.other)},
		})
		if err != nil {
			t.Fatal(c.state, err)
		}
		var lines []string
		for _, e := range lint.New(lint.Options{From: from}).All(p) {
			lines = append(lines, e.Error())
		}
		if got := strings.Join(lines, "\n"); got != c.want {
			t.Errorf("%s and %s: %s", c.state, c.other, got)
		}
	}
}
