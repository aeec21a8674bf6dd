package peel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// entry asks for one entry of schedule.list.
func (b *bench) entry(name string) map[string]any {
	b.t.Helper()
	entries, _ := b.call("schedule.list", nil).Data.(map[string]any)
	entry, _ := entries[name].(map[string]any)
	return entry
}

func TestOnlyFailuresAreReportedIfReturnJobSaysFailures(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, `schedule:
  good: {module: test.ping, interval: 1m, return_job: failures}
  bad: {module: test.fail, interval: 1m, return_job: failures, max_runs: 3}
`)
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		reports := 0
		for len(b.heard) > 0 {
			msg := <-b.heard
			if !matches(wire.AllScheduled, msg.Subject) {
				continue
			}
			r, err := wire.DecodeScheduled(msg)
			if err != nil || r.Entry != "bad" || r.Success {
				t.Errorf("%+v, %v", r, err)
			}
			reports++
		}
		if reports != 3 {
			t.Errorf("%d reports", reports)
		}
	})
}

func TestReportOfARunThatIsTriedAgainIsThatOfItsLastAttempt(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, `schedule:
  slow: {module: test.sleep, args: {duration: 1h}, interval: 1m, timeout: 10s, max_runs: 1, return_job: true, late_after: 1ms,
    retry: {attempts: 2, backoff: 1m}}
`)
		r := b.reported()
		if took := r.Finished.Sub(r.Started); took != 150*time.Second || r.Success || !strings.Contains(r.Error, "timed out after 10s") || r.Late {
			t.Errorf("after %v: %+v", took, r)
		}
		synctest.Wait()
		if e := b.entry("slow"); e["state"] != "exhausted" || e["failures"] != int64(1) {
			t.Errorf("%v", e)
		}
	})
}

func TestAnEntryWithAnUnknownFunctionIsPausedAndTheOthersRun(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		digest := b.give(1, `schedule:
  ask: {prompt: look at the disks, model: small, interval: 1m}
  slip: {module: test.pong, interval: 1m}
  off: {module: test.nothing, interval: 1m, enabled: false}
  beat: {module: test.ping, interval: 1m}
`)
		report := b.applied()
		for report.Digest != string(digest) {
			report = b.applied()
		}
		if want := []string{
			`settings: schedule.ask.module: this peel cannot run prompt.run: it needs prompt in peel.yaml`,
			`settings: schedule.slip.module: this peel has no function "test.pong"; did you mean "test.ping"?`,
		}; !slices.Equal(report.Errors, want) {
			t.Errorf("the report says %q", report.Errors)
		}
		time.Sleep(61 * time.Second)
		synctest.Wait()
		for name, why := range map[string]string{
			"ask": `this peel cannot run prompt.run: it needs prompt in peel.yaml`, "slip": `this peel has no function "test.pong"; did you mean "test.ping"?`,
		} {
			if e := b.entry(name); e["state"] != "paused_invalid" || e["why"] != why || e["failures"] != int64(0) {
				t.Errorf("%v", e)
			}
		}
		if e := b.entry("beat"); e["state"] != "active" || e["runs"] != int64(1) {
			t.Errorf("%v", e)
		}
	})
}

func TestARunWhoseReportCannotBeStoredFreesItsSlot(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1m, return_job: true}\n")
		synctest.Wait()
		outbox := filepath.Join(b.dir, "outbox")
		if err := os.Rename(outbox, outbox+".away"); err != nil {
			t.Fatal(err)
		}
		b.bus.Stop(t)
		time.Sleep(3*time.Minute + time.Second)
		synctest.Wait()
		if err := os.Rename(outbox+".away", outbox); err != nil {
			t.Fatal(err)
		}
		b.bus.Start(t)
		time.Sleep(time.Minute / 2)
		if e := b.entry("beat"); e["runs"] != int64(3) || e["running"] != int64(0) || e["skips"] != nil || e["job"] == nil {
			t.Errorf("%v", e)
		}
		for range 3 {
			b.reported() // from memory
		}
	})
}

func TestARunInterruptedByAKillIsReportedAsInterrupted(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, `schedule:
  beat: {module: test.sleep, args: {duration: 1h}, interval: 1m, splay: {min: 5s, max: 6s}, return_job: true}
`)
		begin := time.Now()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		killed := t.TempDir()
		err := os.CopyFS(killed, os.DirFS(b.dir))
		if err == nil {
			err = os.Chmod(filepath.Join(killed, "key"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.bus.Stop(t)
		b.stop()
		b.dir = killed
		b.bus.Start(t)
		time.Sleep(time.Second) // until the master is connected
		b.start()
		r := b.reported()
		if r.Outcome != wire.Interrupted || r.Success || !strings.HasPrefix(r.Error, "interrupted: ") || r.Function != "test.sleep" || r.Args["duration"] != "1h" ||
			!r.Nominal.Equal(begin.Add(time.Minute)) || r.Fired.Sub(r.Nominal) < 5*time.Second || r.Started.Before(r.Fired) || r.Commit == "" {
			t.Errorf("%+v", r)
		}
		history, _ := b.call("schedule.history", map[string]any{"entry": "beat"}).Data.(map[string]any)
		last, _ := history["last"].([]any)
		if past, _ := last[0].(map[string]any); past["interrupted"] != true || past["job"] != string(r.JID) || past["ended"] != nil || history["interrupted"] != int64(1) {
			t.Errorf("%v", history)
		}
	})
}

func TestRunOnStartFiresOnlyForTheFirstSettingsOfAProcess(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		const one = "schedule:\n  beat: {module: test.ping, interval: 10h, run_on_start: true, splay: 1h, return_job: true}\n"
		const two = one + "  more: {module: test.ping, interval: 10h, run_on_start: true, return_job: true}\n"
		b.give(1, one)
		if r := b.reported(); r.Entry != "beat" || r.Trigger != wire.TriggerStart || !r.Fired.Equal(r.Nominal) {
			t.Errorf("%+v", r)
		}
		b.give(2, two)
		time.Sleep(time.Hour)
		if e := b.entry("more"); e["runs"] != int64(0) {
			t.Errorf("a commit made it run: %v", e)
		}
		b.stop()
		b.start() // from its snapshot
		ran := []string{b.reported().Entry, b.reported().Entry}
		if slices.Sort(ran); !slices.Equal(ran, []string{"beat", "more"}) {
			t.Errorf("at its start it runs %v", ran)
		}
	})
}

func TestEntriesPausedByFailuresAreReported(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  beat: {module: test.fail, interval: 1m, pause_after_errors: 2}\n  other: {module: test.fail, interval: 1m}\n")
		reported := func(want ...string) {
			b.t.Helper()
			synctest.Wait()
			if a := b.lastApplied(); !slices.Equal(a.PausedErrors, want) {
				b.t.Errorf("reported as paused: %q, want %q", a.PausedErrors, want)
			}
		}
		time.Sleep(90 * time.Second)
		reported()
		time.Sleep(time.Minute)
		reported("beat")
		b.stop()
		b.start()
		time.Sleep(time.Second)
		reported("beat") // from the state file
		b.call("schedule.resume", map[string]any{"entry": "beat"})
		reported()
		time.Sleep(2 * time.Minute)
		reported("beat")
		b.give(2, "schedule:\n  beat: {module: test.fail, interval: 1m, pause_after_errors: 3}\n")
		reported()
		time.Sleep(3 * time.Minute)
		reported("beat")
		b.give(3, "schedule: {}\n")
		reported()
	})
}

func TestEntriesArePausedResumedSkippedAndRunByHand(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1h, return_job: true}\n")
		synctest.Wait()
		for _, c := range []struct {
			function string
			args     map[string]any
			state    string
			want     string
		}{
			{"schedule.resume", map[string]any{"entry": "beat"}, "active", "it was not paused; the next fire is at 2026-01-01T01:00:00Z"},
			{"schedule.pause", map[string]any{"entry": "beat"}, "paused_manual", "paused until it is resumed"},
			{"schedule.pause", map[string]any{"entry": "beat", "reason": "disk", "for": "2h"}, "paused_manual", "paused until 2026-01-01T02:00:00Z"},
			{"schedule.resume", map[string]any{"entry": "beat"}, "active", "resumed; the next fire is at 2026-01-01T01:00:00Z"},
			{"schedule.skip", map[string]any{"entry": "beat"}, "active", "map[skipped:2026-01-01 01:00:00 +0000 UTC]"},
			{"schedule.resume", map[string]any{"entry": "beat"}, "active", "resumed; the next fire is at 2026-01-01T01:00:00Z"},
		} {
			if r := b.call(c.function, c.args); !r.Success || fmt.Sprint(r.Data) != c.want {
				t.Errorf("%s: %+v", c.function, r)
			}
			if e := b.entry("beat"); e["state"] != c.state {
				t.Errorf("after %s: %v", c.function, e)
			}
		}
		if r := b.call("schedule.run", map[string]any{"entry": "beat"}); r.Data != "started" {
			t.Errorf("%+v", r)
		}
		// A run may be reported before its order is answered.
		b.ask(wire.Request{Function: "schedule.run", Args: map[string]any{"entry": "beat"}})
		if r := b.reported(); r.Trigger != wire.TriggerManual || !r.Success {
			t.Errorf("%+v", r)
		}
	})
}

func TestTheScheduleShowsNextTimesAndHistory(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, `schedule:
  daily: {module: test.fail, cron: "0 9 * * *", not_on: sat, breaker: {threshold: 1, reset_after: 1h}, return_job: true}
  once: {module: test.ping, at: "2100-01-01T00:00:00Z"}
`)
		synctest.Wait()
		fires, _ := b.call("schedule.next", nil).Data.(map[string]any)
		if daily, _ := fires["daily"].([]any); len(daily) != 5 || len(fires) != 2 {
			t.Errorf("%v", fires)
		}
		next, _ := b.call("schedule.next", map[string]any{"entry": "daily", "count": int64(2)}).Data.(map[string]any)
		if daily, _ := next["daily"].([]any); len(daily) != 2 {
			t.Errorf("%v", next)
		}
		time.Sleep(9*time.Hour + time.Minute)
		r := b.reported()
		history, _ := b.call("schedule.history", map[string]any{"entry": "daily"}).Data.(map[string]any)
		last, _ := history["last"].([]any)
		if past, _ := last[0].(map[string]any); past["job"] != string(r.JID) || past["success"] != false || history["failures"] != int64(1) {
			t.Errorf("%v", history)
		}
		breaker, _ := b.call("schedule.breaker", map[string]any{"entry": "daily"}).Data.(map[string]any)
		if changes, _ := breaker["transitions"].([]any); breaker["state"] != "open" || len(changes) != 1 {
			t.Errorf("%v", breaker)
		}
		if e := b.entry("daily"); e["last"] != nil || e["breaker_state"] != "open" {
			t.Errorf("%v", e)
		}
		once := b.entry("once")
		for _, absent := range []string{"started", "ended", "left", "breaker", "skips", "waiting"} {
			if v, there := once[absent]; there {
				t.Errorf("%s of what has not run: %v", absent, v)
			}
		}
		if at, _ := once["next_fire"].(time.Time); at.Year() != 2100 {
			t.Errorf("%v", once)
		}
	})
}

func TestBadArgumentsForEntriesAreRefused(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  e: {module: test.sleep, args: {duration: 1h}, interval: 24h}\n  off: {module: test.ping, interval: 1h, enabled: false}\n  off2: {module: test.ping, interval: 1h}\n")
		synctest.Wait()
		b.call("schedule.run", map[string]any{"entry": "e"})
		b.call("schedule.pause", map[string]any{"entry": "off2", "reason": "disk"})
		for _, c := range []struct {
			function string
			args     map[string]any
			want     string
		}{
			{"schedule.run", map[string]any{"entry": "e"}, `cannot run "e": the entry runs already`},
			{"schedule.pause", map[string]any{"entry": "x"}, `cannot pause "x": there is no such entry in the schedule`},
			{"schedule.run", map[string]any{"entry": "of"}, `cannot run "of": there is no such entry in the schedule; did you mean "off"?`},
			{"schedule.history", map[string]any{"entry": "off3"}, `there is no such entry in the schedule: "off3"; did you mean "off"?`},
			{"schedule.run", map[string]any{"entry": "off"}, `cannot run "off": the entry is not active: its field enabled is false`},
			{"schedule.skip", map[string]any{"entry": "off"}, `cannot skip a run of "off": the entry is not active: its field enabled is false`},
			{"schedule.run", map[string]any{"entry": "off2"}, `cannot run "off2": the entry is not active: paused: disk`},
			{"schedule.history", map[string]any{"entry": "x"}, `there is no such entry in the schedule: "x"`},
			{"schedule.pause", map[string]any{"entry": "e", "for": "0s"}, "for must be more than 0, not 0s"},
			{"schedule.skip", map[string]any{"entry": "e", "reason": strings.Repeat("x", 257)}, "reason may have 256 bytes"},
		} {
			if r := b.call(c.function, c.args); r.Success || r.Error != c.want {
				t.Errorf("%s: %q", c.function, r.Error)
			}
		}
	})
}

func TestABadEntryOfTheConfigurationIsPausedAndTheOthersRun(t *testing.T) {
	run(t, func(b *bench) {
		node, err := strictyaml.Parse("peel.yaml", []byte("good: {module: test.ping, interval: 1m, return_job: true}\nbad: {module: test.ping, intervall: 1m}\n"))
		if err != nil {
			t.Fatal(err)
		}
		set, err := schedule.ParseSet(node)
		if err == nil {
			t.Fatal("it is not bad")
		}
		schedule.KeepInvalid(set, node, err)
		b.static = set
		b.start()
		if r := b.reported(); r.Entry != "good" {
			t.Errorf("%+v", r)
		}
		if e := b.entry("bad"); e["state"] != "paused_invalid" || !strings.Contains(fmt.Sprint(e["why"]), "peel.yaml:2:26") {
			t.Errorf("%v", e)
		}
	})
}
