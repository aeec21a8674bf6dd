package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// stateRows are what three peels return of a run of states.
func stateRows() []job.Row {
	origin := map[string]any{"file": "settings/web/nginx.yaml", "line": 4, "commit": string(newCommit), "author": "Ada <ada@example.com>"}
	row := func(id target.PeelID, failure string, counts map[string]any, states ...any) job.Row {
		state := job.RowOK
		if failure != "" {
			state = job.RowFailed
		}
		return job.Row{Peel: id, State: state, Return: &wire.Return{Result: wire.Result{Success: failure == "", Error: failure, Data: map[string]any{
			"test": id == "web-02", "commit": string(newCommit), "counts": counts, "duration_ns": int64(3e9), "states": states,
		}}}}
	}
	failed := row("db-01", "1 of 3 states failed: web", map[string]any{"failed": 1, "changed": 1, "skipped": 1},
		map[string]any{
			"state": "/etc/nginx/nginx.conf", "function": "file.managed", "result": "changed", "cause": "drift", "origin": origin,
			"changes": []any{map[string]any{
				"do": "write", "what": "/etc/nginx/nginx.conf", "before": "15 bytes, 0644", "after": "16 bytes, 0644",
				"diff": "--- /etc/nginx/nginx.conf\n+++ /etc/nginx/nginx.conf\n@@ -1 +1 @@\n-worker 1;\x1b[2J\n+worker 16;\n",
			}},
		},
		map[string]any{
			"state": "web", "function": "service.running", "result": "failed", "cause": "intended", "comment": "Job for nginx.service failed.\nbind: address in use", "origin": origin,
			"changes": []any{map[string]any{"do": "restart", "what": "nginx"}},
		},
		map[string]any{"state": "smoke", "function": "cmd.run", "result": "skipped", "reason": "require_failed", "origin": origin})
	failed.Return.Data.(map[string]any)["owed"] = []any{"web"}
	test := row("web-02", "", map[string]any{"would_change": 1, "unknown": 1, "unchanged": 12},
		map[string]any{"state": "nginx", "function": "pkg.installed", "result": "would_change", "cause": "intended", "changes": []any{map[string]any{"do": "install", "what": "nginx", "after": "1.22.1-9"}}},
		map[string]any{"state": "smoke", "function": "cmd.run", "result": "unknown", "comment": "its guard may depend on a predicted change"})
	return []job.Row{row("web-01", "", map[string]any{"unchanged": 14}), test, failed}
}

func TestRunsOfStatesOnTerminalsOfThreeWidths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, columns := range []int{80, 120, 200} {
			var got bytes.Buffer
			a := &app{out: &got, errOut: &got, output: formTable, columns: columns, colour: "never"}
			for _, row := range stateRows() {
				(&report{a: a, function: "state.apply"}).printText(row)
			}
			if strings.Contains(got.String(), "\x1b") {
				t.Error("a control character of a peel reaches the terminal")
			}
			for line := range strings.Lines(got.String()) {
				if n := len([]rune(line)) - 1; n > columns {
					t.Errorf("on %d columns a line takes %d: %s", columns, n, line)
				}
			}
			compareGolden(t, fmt.Sprintf("testdata/screens/states%d.txt", columns), got.Bytes())
		}
		var got bytes.Buffer
		a := &app{out: &got, errOut: &got, output: formTable, columns: 120, colour: "always"}
		(&report{a: a, function: "file.managed"}).printText(stateRows()[2])
		compareGolden(t, "testdata/screens/states_colours.txt", []byte(strings.ReplaceAll(got.String(), "\x1b", `\e`)))
	})
}

func TestWhatIsNoRunOfStatesIsPrintedAsItIs(t *testing.T) {
	for function, r := range map[string]wire.Result{
		"state.apply":   {Error: "no settings file \"web\" has states for this peel"},
		"state.last":    {Error: "no run of states is stored on this peel"},
		"pkg.installed": {Success: true, Data: map[string]any{"output_truncated": true}},
		"state.show":    {Error: "x"},
	} {
		if got := viewed(function, &r, screen{width: 80}); got != section(&r) {
			t.Errorf("%s: %q, want %q", function, got, section(&r))
		}
	}
}

func TestStatesOfAPeelArePrintedInTheirOrder(t *testing.T) {
	r := wire.Result{Success: true, Data: map[string]any{"commit": string(newCommit), "states": []any{
		map[string]any{"state": "nginx", "function": "pkg.installed", "written": map[string]any{"pkg.installed": nil}, "origin": map[string]any{"file": "settings/web.yaml", "line": 3}},
		map[string]any{"state": "motd", "function": "file.managed", "written": map[string]any{"file.managed": map[string]any{"path": "/etc/motd", "mode": "0644"}, "require": []any{"nginx"}}},
	}}}
	want := `    nginx:  (settings/web.yaml:3)
        pkg.installed: null
    motd:
        file.managed:
          mode: "0644"
          path: /etc/motd
        require:
          - nginx
    2 states, commit 9b1c8f0e
`
	if got := viewed("state.show", &r, screen{width: 80}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestTheStatesOfSeveralPeelsAreCounted(t *testing.T) {
	var got bytes.Buffer
	r := report{a: &app{out: &got, errOut: &got, output: formTable}, function: "state.highstate", targets: 2, progress: &progress{}, heard: map[target.PeelID]bool{}}
	for _, id := range []target.PeelID{"a", "b"} {
		ret := &wire.Return{Result: wire.Result{Success: true, Data: map[string]any{"counts": map[string]any{"unchanged": int64(2), "changed": int64(1)}, "states": []any{}}}}
		if err := r.take(api.Event{Peel: id, Return: ret}); err != nil {
			t.Fatal(err)
		}
	}
	got.Reset()
	r.printStates()
	if want := "states of 2 peels: 2 changed, 4 unchanged\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}
