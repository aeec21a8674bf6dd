package lint_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
)

func TestEntriesAndStatesBesideTheirSectionAreWarnings(t *testing.T) {
	const (
		empty = "nothing is below it, so it removes the %s of the files before: indent what belongs to it, or write null if it is meant"
		entry = "it looks like a schedule entry and is a plain setting, which runs nothing: indent it below schedule:"
	)
	for _, c := range []struct {
		file string
		want []string
	}{
		{"schedule:\nx: {module: test.ping, interval: 5m}\n", []string{
			"settings/a.yaml:1:1: schedule: " + strings.Replace(empty, "%s", "schedule", 1),
			"settings/a.yaml:2:1: x: " + entry,
		}},
		{"x: {command: cmd.run, every: 5m}\n", []string{"settings/a.yaml:1:1: x: " + entry}},
		{"schedule: null\n", nil},
		{"schedule: {}\n", nil},
		{"schedule:\n  x: {module: test.ping, interval: 5m}\n", nil},
		{"states:\nnginx: {pkg.installed: {}}\n", []string{
			"settings/a.yaml:1:1: states: " + strings.Replace(empty, "%s", "states", 1),
			"settings/a.yaml:2:1: nginx: it looks like a state, because it has pkg.installed, and is a plain setting, which changes nothing: indent it below states:",
		}},
		{"app: {interval: 5m, port: 80}\nempty:\n", nil},
		{"states:\n  nginx: {pkg.installed: {}}\n", nil},
	} {
		p, err := plan.NewCompiler().Check(fstest.MapFS{
			"top.yaml":        {Data: []byte("base: {'*': [a]}")},
			"settings/a.yaml": {Data: []byte(c.file)},
		})
		if err != nil {
			t.Fatal(c.file, err)
		}

		var lines []string
		for _, e := range lint.New(lint.Options{From: from}).All(p) {
			lines = append(lines, e.Error())
		}
		if got, want := strings.Join(lines, "\n"), strings.Join(c.want, "\n"); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", c.file, got, want)
		}
	}
}
