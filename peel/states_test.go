//go:build linux

package peel_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// results returns the states of a run in order, each as "name: result", with the reason or cause if there is one.
func results(t *testing.T, r wire.Result) []string {
	t.Helper()
	data, _ := r.Data.(map[string]any)
	list, ok := data["states"].([]any)
	if !ok {
		t.Fatalf("the result is %+v", r)
	}
	out := []string{}
	for _, s := range list {
		s := s.(map[string]any)
		words := []string{s["state"].(string) + ":", s["result"].(string)}
		for _, field := range []string{"reason", "cause"} {
			if text, ok := s[field].(string); ok {
				words = append(words, text)
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// wants checks the success and the states of a run.
func wants(t *testing.T, r wire.Result, success bool, states ...string) {
	t.Helper()
	if got := results(t, r); r.Success != success || !slices.Equal(got, states) {
		t.Errorf("success %v, error %q, states %q; want %v, %q", r.Success, r.Error, got, success, states)
	}
}

// runStates is run with a lock of its own, so that runs of other tests do not wait for it.
func runStates(t *testing.T, f func(*bench)) {
	peel.SetRunDirectory(t.TempDir())
	run(t, f)
}

// replaceDir puts a directory in the place of DIR.
func replaceDir(text, dir string) string { return strings.ReplaceAll(text, "DIR", dir) }

// inForce waits until the peel has applied a document.
func (b *bench) inForce(generation uint64) {
	b.t.Helper()
	for b.applied().Generation != generation {
	}
}

func TestStatesAreAppliedFromTheSettings(t *testing.T) {
	runStates(t, func(b *bench) {
		path := filepath.Join(t.TempDir(), "motd")
		b.start()
		b.give(1, "states: {motd: {file.managed: {path: "+path+", content: 'hello {{peel}} {{facts.role}}', template: true}}}\n_states: {order: [motd], refs: {web: [motd]}, files: {}}")
		b.inForce(1)
		wants(t, b.call("state.apply", map[string]any{"test": true}), true, "motd: would_change intended")
		if _, err := os.Stat(path); err == nil {
			t.Error("test mode made the file")
		}
		wants(t, b.call("state.apply", nil), true, "motd: changed intended")
		if data, _ := os.ReadFile(path); string(data) != "hello web.01 web" {
			t.Errorf("the file has %q", data)
		}
		wants(t, b.call("state.highstate", nil), true)
		wants(t, b.call("state.highstate", map[string]any{"full": true}), true, "motd: unchanged")
		if err := os.WriteFile(path, []byte("by hand"), 0o644); err != nil {
			t.Fatal(err)
		}
		wants(t, b.call("state.apply", map[string]any{"test": true}), true, "motd: would_change drift")
		wants(t, b.call("state.apply", nil), true, "motd: changed drift")
		r := b.call("state.last", nil)
		wants(t, r, true, "motd: changed drift")
		data := r.Data.(map[string]any)
		if data["commit"] != "c0ffee" || data["test"] != false || fmt.Sprint(data["counts"]) != "map[changed:1 failed:0 skipped:0 unchanged:0 unknown:0 would_change:0]" || data["digest"] == nil || data["duration_ns"] == nil {
			t.Errorf("%+v", data)
		}
	})
}

const threeFiles = `
states:
  one: {file.managed: {path: DIR/one, content: "1"}, watch_in: []}
  two: {file.managed: {path: DIR/two, content: "2"}, require: ["file:a"]}
  three: {cmd.run: {command: "echo reacted >> DIR/three"}, onchanges: [one]}
  dir: {file.directory: {path: DIR/kept, clean: true}}
  kept: {file.managed: {path: DIR/kept/file, content: k}}
_states: {order: [one, two, three, dir, kept], refs: {a: [one], b.sub: [two, kept], c: [three], d: [dir]}, files: {}}
`

func TestApplyOfSomeSettingsFiles(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		b.start()
		b.give(1, replaceDir(threeFiles, dir))
		b.inForce(1)
		r := b.call("state.apply", map[string]any{"refs": []any{"b.sbu"}})
		if r.Success || !strings.Contains(r.Error, `did you mean "b.sub"`) {
			t.Errorf("%+v", r)
		}
		if r := b.call("state.apply", map[string]any{"refs": []any{}}); r.Success {
			t.Errorf("no refs are %+v", r)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("refused runs made %v, %v", names, err)
		}
		if err := os.Mkdir(filepath.Join(dir, "kept"), 0o755); err != nil {
			t.Fatal(err)
		}
		// A request has the references as one text. What is required runs, in the order of all states.
		b.ask(wire.Request{Function: "state.apply", ID: "b.sub", Epoch: 1})
		wants(t, b.returned().Result, true, "one: changed intended", "two: changed intended", "kept: changed intended")
		// The directory is cleaned of what no state of the peel owns.
		if err := os.WriteFile(filepath.Join(dir, "kept", "foreign"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		wants(t, b.call("state.apply", map[string]any{"refs": []any{"d"}}), true, "dir: changed intended")
		if _, err := os.Stat(filepath.Join(dir, "kept", "file")); err != nil {
			t.Error(err)
		}
		// The reaction that a run of some states did not have is made by the next.
		wants(t, b.call("state.highstate", nil), true, "three: changed intended")
		wants(t, b.call("state.highstate", nil), true)
		if data, _ := os.ReadFile(filepath.Join(dir, "three")); string(data) != "reacted\n" {
			t.Errorf("the reactions are %q", data)
		}
	})
}

func TestAFailedStateFailsTheRun(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		b.start()
		b.give(1, replaceDir(`
states:
  bad: {file.managed: {path: DIR/no/file, content: x}}
  next: {file.managed: {path: DIR/next, content: x}, require: [bad]}
  other: {file.managed: {path: DIR/other, content: x}}
_states: {order: [bad, next, other], refs: {a: [bad, next, other]}, files: {}}
schedule:
  converge: {module: state.highstate, interval: 10m, return_job: failures}
  check: {module: state.highstate, interval: 50m, args: {test: true}, return_job: true}
`, dir))
		b.inForce(1)
		r := b.call("state.apply", map[string]any{"full": true})
		wants(t, r, false, "bad: failed", "next: skipped require_failed", "other: changed intended")
		if r.Error != "1 of 3 states failed: bad" {
			t.Errorf("the error is %q", r.Error)
		}
		s := b.reported()
		wants(t, s.Result, false, "bad: failed")
		if s.Entry != "converge" || s.Function != "state.highstate" {
			t.Errorf("%+v", s)
		}
		if err := os.Mkdir(filepath.Join(dir, "no"), 0o755); err != nil {
			t.Fatal(err)
		}
		// From now on nothing fails, so the next report is of the entry that reports each run. It finds that somebody removed a file.
		for s = b.reported(); s.Entry == "converge"; s = b.reported() {
			t.Errorf("a run without failures is reported: %+v", s)
		}
		wants(t, s.Result, true)
		b.drain()
		if err := os.Remove(filepath.Join(dir, "other")); err != nil {
			t.Fatal(err)
		}
		wants(t, b.call("state.apply", map[string]any{"test": true}), true, "other: would_change drift")
	})
}

func TestWrongArgumentsRunNothing(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		b.start()
		b.give(1, "states: {f: {file.managed: {path: "+dir+"/f, content: x}}}\n_states: {order: [f], refs: {a: [f]}, files: {}}")
		b.inForce(1)
		for _, args := range []map[string]any{{"test": "yes"}, {"tets": true}, {"test": int64(1)}, {"refs": "a"}, {"full": "no"}, {"refs": []any{int64(1)}}} {
			if r := b.call("state.apply", args); r.Success || r.Data != nil {
				t.Errorf("%v: %+v", args, r)
			}
			args["path"], args["content"] = dir+"/g", "x"
			if r := b.call("file.managed", args); r.Success || r.Data != nil {
				t.Errorf("%v: %+v", args, r)
			}
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("there are %v, %v", names, err)
		}
	})
}

func TestAStateByItselfLeavesWhatIsKnownOfTheOthers(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		b.start()
		b.give(1, replaceDir(threeFiles, dir))
		b.inForce(1)
		wants(t, b.call("file.managed", map[string]any{"path": dir + "/one", "content": "mine", "test": true}), true, dir+"/one: would_change intended")
		if _, err := os.Stat(dir + "/one"); err == nil {
			t.Error("test mode made the file")
		}
		if err := os.Mkdir(dir+"/kept", 0o755); err != nil {
			t.Fatal(err)
		}
		wants(t, b.call("state.apply", nil), true,
			"one: changed intended", "two: changed intended", "three: changed intended", "kept: changed intended")
		wants(t, b.call("file.managed", map[string]any{"path": dir + "/one", "content": "mine"}), true, dir+"/one: changed intended")
		wants(t, b.call("state.last", nil), true, "one: changed intended", "two: changed intended",
			"three: changed intended", "dir: unchanged", "kept: changed intended")
		wants(t, b.call("file.directory", map[string]any{"path": dir + "/kept", "clean": true}), true, dir+"/kept: unchanged")
		wants(t, b.call("state.apply", nil), true, "one: changed drift", "three: changed drift")
	})
}

func TestSecretsOfStatesAreShownNowhere(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // no file of a closed directory is shown
			t.Fatal(err)
		}
		b.start()
		secret := "hunter2-hunter2"
		b.giveSecret(1, replaceDir(`
password: SECRET
states:
  inline: {file.managed: {path: DIR/inline, content: "key: SECRET"}}
  template: {file.managed: {path: DIR/template, content: "key: {{settings.password}}", template: true}}
  fails: {cmd.run: {command: "echo $KEY; echo $KEY >&2; exit 1", env: {KEY: SECRET}}}
_states: {order: [inline, template, fails], refs: {a: [inline, template, fails]}, files: {}}
`, dir), secret, b.key())
		b.inForce(1)
		for _, r := range []wire.Result{b.call("state.apply", map[string]any{"test": true}), b.call("state.apply", nil), b.call("state.last", nil), b.call("state.show", nil)} {
			if text := fmt.Sprint(r); strings.Contains(text, "hunter2") {
				t.Errorf("a result has the secret: %s", text)
			}
		}
		if r := b.call("state.last", nil); !strings.Contains(fmt.Sprint(r.Data), shown) {
			t.Errorf("the result has no placeholder: %+v", r.Data)
		}
		for _, name := range []string{"inline", "template"} {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "key: "+secret {
				t.Errorf("%s has %q, %v", name, data, err)
			}
		}
		if name := holds(t, b.dir, "hunter2"); name != "" {
			t.Errorf("%s has the secret", name)
		}
	})
}

func TestRunsAreKeptForTheirOwnerAlone(t *testing.T) {
	runStates(t, func(b *bench) {
		b.start()
		b.give(1, "states: {f: {file.managed: {path: "+t.TempDir()+"/f, content: x}}}\n_states: {order: [f], refs: {a: [f]}, files: {}}")
		b.inForce(1)
		if r := b.call("state.last", nil); r.Success || r.Error != "no run of states is stored on this peel" {
			t.Errorf("%+v", r)
		}
		for range 25 {
			if r := b.call("state.apply", nil); !r.Success {
				t.Errorf("%+v", r)
			}
		}
		runs := filepath.Join(b.dir, "states", "runs")
		names, err := os.ReadDir(runs)
		if err != nil || len(names) != 20 {
			t.Errorf("%d runs, %v", len(names), err)
		}
		for _, e := range names {
			if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
			}
		}
		if info, err := os.Stat(runs); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
	})
}

func TestAnUnchangedRunIsSmall(t *testing.T) {
	runStates(t, func(b *bench) {
		var text, order strings.Builder
		dir := t.TempDir()
		for i := range 300 {
			fmt.Fprintf(&text, "  state-with-a-rather-long-name-%d: {file.absent: {path: %s/%d}}\n", i, dir, i)
			fmt.Fprintf(&order, "state-with-a-rather-long-name-%d, ", i)
		}
		b.start()
		b.give(1, "states:\n"+text.String()+"_states: {order: ["+order.String()+"], refs: {}, files: {}}")
		b.inForce(1)
		r := b.call("state.apply", nil)
		data, err := canon.Marshal(r.Data)
		if err != nil || !r.Success || len(data) > 1<<10 {
			t.Errorf("%d bytes, %v: %+v", len(data), err, r)
		}
	})
}

func TestACanceledRunEndsAfterTheStateUnderWay(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		b.start()
		b.give(1, replaceDir(`
states:
  slow: {cmd.run: {command: "echo > DIR/begun; until test -e DIR/go; do sleep 0.01; done; echo > DIR/ended"}}
  next: {file.managed: {path: DIR/next, content: x}}
_states: {order: [slow, next], refs: {a: [slow, next]}, files: {}}
`, dir))
		b.inForce(1)
		r := b.ask(wire.Request{Function: "state.apply", Args: map[string]any{"full": true}, Epoch: 1})
		for _, err := os.Stat(dir + "/begun"); err != nil; _, err = os.Stat(dir + "/begun") { // fake time stands still while the command runs
			b.acked(r.JID)
		}
		b.cancel(r.JID)
		b.acked(r.JID) // after the cancel
		if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
			t.Fatal(err)
		}
		wants(t, b.canceled(r.JID).Result, false, "slow: changed intended", "next: skipped canceled")
		if run := b.stateRun(); run.Canceled != 1 || run.Counts["skipped"] != 1 {
			t.Errorf("the report does not say what was not reached: %+v", run)
		}
		if _, err := os.Stat(dir + "/ended"); err != nil {
			t.Error(err)
		}
	})
}

func TestThePeelStopsAfterTheStateUnderWay(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		b.start()
		b.give(1, replaceDir(`
states:
  slow: {cmd.run: {command: "echo > DIR/begun; until test -e DIR/go; do sleep 0.01; done; echo > DIR/ended"}}
  next: {file.managed: {path: DIR/next, content: x}}
_states: {order: [slow, next], refs: {a: [slow, next]}, files: {}}
`, dir))
		b.inForce(1)
		r := b.ask(wire.Request{Function: "state.apply", Args: map[string]any{"full": true}, Epoch: 1})
		for _, err := os.Stat(dir + "/begun"); err != nil; _, err = os.Stat(dir + "/begun") {
			b.acked(r.JID)
		}
		release := exec.Command("sh", "-c", "sleep 0.3; echo > "+dir+"/go") // after the peel was told to stop
		if err := release.Start(); err != nil {
			t.Fatal(err)
		}
		b.stop()
		if err := release.Wait(); err != nil {
			t.Fatal(err)
		}
		b.start() // sends the return
		ret := b.returned()
		wants(t, ret.Result, false, "slow: changed intended", "next: skipped canceled")
		if ret.Outcome != wire.Interrupted {
			t.Errorf("%+v", ret)
		}
	})
}

func TestAScheduledRunEndsAfterTheStateUnderWayWhenThePeelStops(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		b.start()
		b.give(1, replaceDir(`
states:
  slow: {cmd.run: {command: "echo > DIR/begun; until test -e DIR/go; do sleep 0.01; done; echo > DIR/ended"}}
  next: {file.managed: {path: DIR/next, content: x}}
_states: {order: [slow, next], refs: {a: [slow, next]}, files: {}}
schedule: {converge: {module: state.highstate, interval: 1h, run_on_start: true, return_job: true}}
`, dir))
		b.inForce(1)
		if err := exec.Command("sh", "-c", "until test -e "+dir+"/begun; do sleep 0.01; done").Run(); err != nil {
			t.Fatal(err)
		}
		release := exec.Command("sh", "-c", "sleep 1; echo > "+dir+"/go") // after the peel was told to stop
		if err := release.Start(); err != nil {
			t.Fatal(err)
		}
		b.stop()
		if err := release.Wait(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir + "/ended"); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(dir + "/next"); err == nil {
			t.Error("a state has begun after the peel was told to stop")
		}
		b.start() // sends the report
		r := b.reported()
		wants(t, r.Result, false, "slow: changed intended")
		if r.Outcome != wire.Interrupted {
			t.Errorf("%+v", r)
		}
	})
}

func TestWhatTheCompilerAddsIsNotShown(t *testing.T) {
	runStates(t, func(b *bench) {
		b.start()
		b.give(1, "a: 1\n_states: {order: [], refs: {}, files: {}}")
		b.inForce(1)
		if r := b.call("settings.items", nil); !r.Success || strings.Contains(fmt.Sprint(r.Data), "_states") {
			t.Errorf("%+v", r)
		}
		for _, key := range []string{"_states", "_states:files"} {
			if r := b.call("settings.get", map[string]any{"key": key}); r.Success {
				t.Errorf("%+v", r)
			}
		}
	})
}

// stateRun waits until the stream holds the report on a run of all states, and returns it. The report may come before or after the
// return of the job.
func (b *bench) stateRun() wire.StateRun {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), wire.StreamStates)
	if err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait() // until the newest run is reported
	for range 100 {
		msg, err := stream.GetLastMsgForSubject(b.t.Context(), wire.StateRunOf(id.Wire()))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			time.Sleep(time.Second)
			continue
		}
		if err != nil {
			b.t.Fatal(err)
		}
		var run wire.StateRun
		if err := canon.Unmarshal(msg.Data, &run); err != nil {
			b.t.Fatal(err)
		}
		return run
	}
	b.t.Fatal("no run of states is reported")
	return wire.StateRun{}
}

func TestARunOfAllStatesIsReported(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		b.start()
		digest := b.give(1, fmt.Sprintf("states: {good: {file.managed: {path: %[1]s/a, content: x}}, bad: {file.managed: {path: %[1]s/none/b, content: x}}}\n"+
			"_states: {order: [good, bad], refs: {web: [good], db: [bad]}, files: {}}", dir))
		b.inForce(1)
		b.call("state.apply", map[string]any{"refs": []any{"web"}})
		b.call("state.highstate", map[string]any{"test": true})
		r := b.stateRun()
		if !r.Test || r.Digest != string(digest) || r.Commit != "c0ffee" || r.Counts["failed"] != 1 || r.Counts["unchanged"] != 1 {
			t.Errorf("the first report is of another run: %+v", r)
		}
		b.call("state.apply", map[string]any{"refs": []any{"web"}}) // of some: the report on the host stays
		if next := b.stateRun(); !next.Test || next.Counts["failed"] != 1 {
			t.Errorf("the report is of a run of some states: %+v", next)
		}
		if len(r.States) != 1 || r.States[0].State != "bad" || r.States[0].Result != "failed" || r.States[0].Error == "" {
			t.Errorf("states %+v", r.States)
		}
	})
}

func TestAReportOnStatesSurvivesAnOutageAndARestart(t *testing.T) {
	runStates(t, func(b *bench) {
		path := filepath.Join(t.TempDir(), "motd")
		b.start()
		b.give(1, "states: {motd: {file.managed: {path: "+path+", content: x}}}\n_states: {order: [motd], refs: {web: [motd]}, files: {}}\n"+
			"schedule: {converge: {module: state.highstate, interval: 1m}}")
		b.inForce(1)
		b.bus.Stop(t)
		time.Sleep(90 * time.Second)
		b.stop()
		b.bus.Start(t)
		time.Sleep(time.Second)
		b.drain()
		b.start()
		if r := b.stateRun(); r.Test || r.Counts["changed"] != 1 || len(r.States) != 1 || r.States[0].Cause != "intended" {
			t.Errorf("%+v", r)
		}
	})
}

// TestAFailedStateIsMarkedIfItFailedWithOtherSettings: by that masters know which failures a revision has caused.
func TestAFailedStateIsMarkedIfItFailedWithOtherSettings(t *testing.T) {
	runStates(t, func(b *bench) {
		dir := t.TempDir()
		give := func(generation uint64, broken ...string) {
			var states []string
			for _, name := range broken {
				states = append(states, fmt.Sprintf("%s: {file.managed: {path: %s/none/%[1]s, content: x}}", name, dir))
			}
			list := strings.Join(broken, ", ")
			b.give(generation, fmt.Sprintf("states: {%s}\n_states: {order: [%s], refs: {web: [%s]}, files: {}}", strings.Join(states, ", "), list, list))
			b.inForce(generation)
		}
		wants := func(want ...string) {
			t.Helper()
			b.call("state.highstate", nil)
			var got []string
			for _, s := range b.stateRun().States {
				got = append(got, fmt.Sprintf("%s %v", s.State, s.Before))
			}
			if !slices.Equal(got, want) {
				t.Errorf("failed states: %q, want %q", got, want)
			}
		}
		b.start()
		give(1, "a")
		wants("a false")
		wants("a false")
		give(2, "a", "b")
		wants("a true", "b false")
		b.stop()
		b.start()
		wants("a true", "b false")
		give(3, "b")
		wants("b true")
		give(4, "a", "b")
		wants("a false", "b true")
	})
}
