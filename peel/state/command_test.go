//go:build linux

package state

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestACommandSaysWhetherItChangedSomething(t *testing.T) {
	h := newHost(t)
	const log = "\nlog: {cmd.run: {command: 'echo x >> DIR/log'}, onchanges: [c]}\n"
	for _, c := range []struct{ args, want string }{
		{"command: 'echo updated', changed_if: {output: '^updated'}", "changed"},
		{"command: 'echo nothing to do', changed_if: {output: '^updated'}", "unchanged"},
		{"command: 'exit 2', changed_if: {exit: [2, 4]}", "changed"},
		{"command: 'exit 0', changed_if: {exit: [2, 4]}", "unchanged"},
		{"command: 'exit 3', changed_if: {exit: [2, 4]}", "failed"},
		{"command: 'echo updated', changed_if: {exit: [2], output: updated}", "changed"},
		{"command: 'echo updated; exit 1', changed_if: {output: updated}", "failed"},
	} {
		text := "c: {cmd.run: {" + c.args + "}}" + log
		if o := h.run(text, true).States[0]; o.Result != Unknown || !strings.Contains(o.Comment, "would run") {
			t.Errorf("%s: a test says %s: %s", c.args, o.Result, o.Comment)
		}
		_ = os.Remove(h.dir + "/log")
		r := h.run(text, false)
		o := r.States[0]
		if string(o.Result) != c.want {
			t.Errorf("%s: %s: %s", c.args, o.Result, o.Comment)
		}
		if hasChange := len(o.Changes) > 0; hasChange != (c.want == "changed") {
			t.Errorf("%s: the changes are %v", c.args, o.Changes)
		}
		if reacted := h.read("log") == "x\n"; reacted != (c.want == "changed") {
			t.Errorf("%s: a reaction: %v", c.args, reacted)
		}
		if c.want == "unchanged" && len(r.Owed) > 0 {
			t.Errorf("%s: owed is %v", c.args, r.Owed)
		}
		must(t, os.RemoveAll(h.dir+"/.state"))
	}
}

// A reaction that an earlier change owes stays owed when a later run of the command changes nothing.
func TestACommandWithoutAChangeForgetsNoReaction(t *testing.T) {
	h := newHost(t)
	const text = `
c: {cmd.run: {command: 'cat DIR/says', changed_if: {output: changed}}}
log: {cmd.run: {command: 'test ! -e DIR/broken'}, onchanges: [c]}
`
	must(t, os.WriteFile(h.dir+"/says", []byte("changed"), 0o600))
	must(t, os.WriteFile(h.dir+"/broken", nil, 0o600))
	h.wants(h.run(text, false), "c: changed intended", "log: failed intended")
	must(t, os.WriteFile(h.dir+"/says", nil, 0o600))
	r := h.run(text, false)
	h.wants(r, "c: unchanged", "log: failed intended")
	if !slices.Equal(r.Owed, []string{"log"}) {
		t.Errorf("owed is %v", r.Owed)
	}
	must(t, os.Remove(h.dir+"/broken"))
	h.wants(h.run(text, false), "c: unchanged", "log: changed intended")
	h.wants(h.run(text, false), "c: unchanged", "log: skipped onchanges_unmet")
}

func TestACommandThatWatchesRunsAgain(t *testing.T) {
	h := newHost(t)
	text := func(content string) string {
		return "conf: {file.managed: {path: DIR/conf, content: " + content + "}}\n" +
			"build: {cmd.run: {command: 'test ! -e DIR/broken && cat DIR/conf >> DIR/out', creates: DIR/out}, watch: [conf]}"
	}
	h.wants(h.run(text("one"), false), "conf: changed intended", "build: changed intended")
	h.wants(h.run(text("one"), false), "conf: unchanged", "build: unchanged")
	h.wants(h.run(text("two"), true), "conf: would_change intended", "build: would_change intended")
	must(t, os.WriteFile(h.dir+"/broken", nil, 0o600))
	h.wants(h.run(text("two"), false), "conf: changed intended", "build: failed intended")
	must(t, os.Remove(h.dir+"/broken"))
	h.wants(h.run(text("two"), true), "conf: unchanged", "build: would_change intended")
	h.wants(h.run(text("two"), false), "conf: unchanged", "build: changed intended")
	if got := h.read("out"); got != "onetwo" {
		t.Errorf("the command wrote %q", got)
	}
	h.wants(h.run(text("two"), false), "conf: unchanged", "build: unchanged")
}

// The example of changed_if in the guide: the application is restarted only if a migration was needed.
func TestTheExampleOfChangedIfInTheGuide(t *testing.T) {
	guide, err := os.ReadFile("../../cmd/zester/guide/states.md")
	must(t, err)
	_, block, _ := strings.Cut(string(guide), "```yaml\nstates:\n  tables:\n")
	block, _, isThere := strings.Cut("  tables:\n"+block, "```")
	if !isThere || !strings.Contains(block, "changed_if") {
		t.Fatalf("the guide has the example %q", block)
	}
	h := newHost(t)
	must(t, os.MkdirAll(h.dir+"/app/bin", 0o755))
	migrate := func(script string) {
		must(t, os.WriteFile(h.dir+"/app/bin/migrate", []byte("#!/bin/sh\n"+script+"\n"), 0o755))
	}
	text := strings.ReplaceAll(block, "/srv/app", h.dir+"/app")
	for _, c := range []struct{ script, tables, restart string }{
		{"echo migrated 3 tables", "tables: changed intended", "restart: changed intended"},
		{"echo nothing to do", "tables: unchanged", "restart: skipped onchanges_unmet"},
		{"exit 2", "tables: changed drift", "restart: changed drift"},
		{"exit 1", "tables: failed drift", "restart: skipped require_failed"},
	} {
		migrate(c.script)
		h.wants(h.run(text, false), c.tables, c.restart)
	}
}
