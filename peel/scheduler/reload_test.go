package scheduler_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

func TestEqualEntryKeepsItsNextFireToTheNanosecondOverAHundredReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		texts := []string{
			"e: {module: test.ping, interval: 90m, splay: 30m, args: {a: 1, b: x}}",
			"# a comment\ne:\n  args:\n    b: 'x'\n    a: 1\n  splay: 1800s\n  interval: 1h30m\n  module: test.ping\n",
			"e: {every: 90m, jitter: 30m, command: test.ping, payload: {a: 1, b: x}, enabled: true, maxrunning: 1}",
		}
		h.apply(parse(t, texts[0]))
		want := h.entry("e").NextFire
		for i := range 100 {
			time.Sleep(12345678 * time.Nanosecond)
			if c := h.apply(parse(t, texts[i%3])); !slices.Equal(c.Kept, []string{"e"}) {
				t.Fatalf("reload %d: %+v", i, c)
			}
			if got := h.entry("e").NextFire; !got.Equal(want) {
				t.Fatalf("reload %d moved the next fire from %v to %v", i, want, got)
			}
		}
	})
}

func TestChangedArgsHoldFromTheNextFireAndKeepTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := start(t, scheduler.Options{Log: j.logger()})
		defer h.shut()
		h.takes["e"] = 2 * time.Minute
		h.apply(one(t, "interval: 1h, args: {a: 1}"))
		time.Sleep(time.Hour + time.Minute) // in the middle of a run
		before := h.entry("e")
		if c := h.apply(one(t, "interval: 1h, args: {a: 2}")); !slices.Equal(c.Swapped, []string{"e"}) {
			t.Fatalf("%+v", c)
		}
		if after := h.entry("e"); !after.NextFire.Equal(before.NextFire) {
			t.Errorf("next fire moved from %v to %v", before.NextFire, after.NextFire)
		}
		if j.count("entry changed", "entry=e") != 1 {
			t.Error("the change is not in the log")
		}
		time.Sleep(2 * time.Hour)
		h.expectRuns("e", time.Hour, 2*time.Hour+2*time.Minute)
		if a, b := h.fire(0).Entry.Args["a"], h.fire(1).Entry.Args["a"]; a != int64(1) || b != int64(2) {
			t.Errorf("ran with %v, then %v", a, b)
		}
	})
}

func TestShorterIntervalIsDueNowOnceWithSplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1h, splay: 1m"))
		time.Sleep(61 * time.Minute)
		ended := h.runs("e")[0]
		time.Sleep(30 * time.Minute)
		now := time.Since(h.begin)
		if c := h.apply(one(t, "interval: 5m, splay: 2m")); !slices.Equal(c.Retimed, []string{"e"}) {
			t.Fatalf("%+v", c)
		}
		time.Sleep(2 * time.Minute)
		runs := h.runs("e")
		if len(runs) != 2 || runs[1] < now || runs[1] >= now+2*time.Minute {
			t.Fatalf("ended %v, reload %v, runs %v", ended, now, runs)
		}
		if f := h.fire(1); f.Nominal.Sub(h.begin) != now {
			t.Errorf("nominal time %v, due at %v", f.Nominal.Sub(h.begin), now)
		}
		if next := h.entry("e").NextNominal.Sub(h.begin); next != runs[1]+5*time.Minute {
			t.Errorf("then at %v", next)
		}
	})
}

func TestLongerIntervalCountsFromTheLastEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1h"))
		time.Sleep(90 * time.Minute)
		h.apply(one(t, "interval: 2h"))
		time.Sleep(3 * time.Hour)
		h.expectRuns("e", time.Hour, 3*time.Hour)
	})
}

func TestNewTimingResetsThatEntryAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		const other = "\nother: {module: test.ping, interval: 7m}"
		h.apply(parse(t, "e: {module: test.ping, interval: 1h}"+other))
		time.Sleep(time.Minute)
		c := h.apply(parse(t, `e: {module: test.ping, cron: "30 * * * *"}`+other))
		if !slices.Equal(c.Retimed, []string{"e"}) || !slices.Equal(c.Kept, []string{"other"}) {
			t.Fatalf("%+v", c)
		}
		time.Sleep(29 * time.Minute)
		h.expectRuns("e", 30*time.Minute)
		h.expectRuns("other", 7*time.Minute, 14*time.Minute, 21*time.Minute, 28*time.Minute)
		h.apply(parse(t, "e: {module: test.ping, interval: 10m}"+other))
		time.Sleep(10 * time.Minute)
		h.expectRuns("e", 30*time.Minute, 40*time.Minute)
	})
}

func TestNewTimingDropsTheWaitAndCountsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1m, splay: 1000h"))
		h.sleepInto("e")
		h.apply(one(t, "interval: 2m"))
		h.expectSkips("e", ledger.Superseded, 1)
		time.Sleep(time.Minute)
		h.expectRuns("e", 2*time.Minute)
	})
}

func TestNewTimingKeepsTheRunOnStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		const window = `run_on_start: true, only_between: "01:00-02:00", outside: defer`
		h.apply(one(t, "interval: 1000h, timezone: UTC, "+window))
		time.Sleep(time.Minute)
		h.apply(one(t, `cron: "0 0 1 1 *", timezone: UTC, `+window))
		time.Sleep(time.Hour)
		h.expectRuns("e", time.Hour)
	})
}

func TestReloadIsDoneWhileARunHangsAndTheRunCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 10 * time.Minute
		h.apply(one(t, "interval: 1m"))
		time.Sleep(90 * time.Second)
		before := time.Now()
		h.apply(one(t, "interval: 2m"))
		if !time.Now().Equal(before) {
			t.Error("the reload waited")
		}
		time.Sleep(2 * time.Minute) // a fire at 3m, two minutes after the last one
		h.expectRuns("e", time.Minute)
		h.expectSkips("e", ledger.AlreadyRunning, 1)
		time.Sleep(20 * time.Minute)
		if runs := h.runs("e"); len(runs) != 2 || runs[1] != 13*time.Minute {
			t.Errorf("runs %v, want the second one 2m after the end at 11m", runs)
		}
	})
}

func TestRemovedEntryEndsItsRunAndFiresNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 5 * time.Minute
		done := make(chan struct{})
		h.results["e"] = func() wire.Result { close(done); return wire.Result{Success: true} }
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute)
		h.apply(schedule.Set{})
		<-done
		time.Sleep(time.Hour)
		h.expectRuns("e", time.Minute)
		if list, err := h.State(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%v, %v", list, err)
		}
	})
}

func TestReaddedEntryRemembersItsLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1h, run_on_start: true"))
		time.Sleep(10 * time.Minute)
		h.apply(nil)
		time.Sleep(10 * time.Minute)
		h.apply(one(t, "interval: 1h, run_on_start: true"))
		if e := h.entry("e"); e.Runs != 1 || !e.NextFire.Equal(h.begin.Add(time.Hour)) {
			t.Errorf("%+v", e)
		}
		h.apply(nil)
		time.Sleep(5 * time.Hour) // no run was due while the entry was away
		h.apply(one(t, "interval: 1h, run_on_start: true"))
		h.expectRuns("e", 0)
		if e := h.entry("e"); !e.NextFire.Equal(h.begin.Add(6 * time.Hour)) {
			t.Errorf("%+v", e)
		}
	})
}

func TestRunInFlightCountsAfterItsEntryWasRemovedAndAddedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 150 * time.Second
		h.apply(one(t, "interval: 1m"))
		time.Sleep(70 * time.Second)
		h.apply(nil)
		h.apply(one(t, "interval: 1m, args: {a: 1}"))
		time.Sleep(110 * time.Second)
		h.expectRuns("e", time.Minute)
		h.expectSkips("e", ledger.AlreadyRunning, 2)
		time.Sleep(90 * time.Second)
		h.expectRuns("e", time.Minute, 270*time.Second)
	})
}

func TestSettingsEntryThatGoesBringsTheStaticOneBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		static := one(t, "interval: 10m, args: {from: peel.yaml}")
		h.apply(static)
		h.apply(schedule.Merge(static, one(t, "interval: 4m, args: {from: settings}")))
		time.Sleep(5 * time.Minute)
		if c := h.apply(schedule.Merge(static, nil)); !slices.Equal(c.Retimed, []string{"e"}) {
			t.Fatalf("%+v", c)
		}
		time.Sleep(10 * time.Minute)
		h.expectRuns("e", 4*time.Minute, 14*time.Minute)
		if a, b := h.fire(0).Entry.Args["from"], h.fire(1).Entry.Args["from"]; a != "settings" || b != "peel.yaml" {
			t.Errorf("ran %v, then %v", a, b)
		}
		h.apply(schedule.Merge(static, parse(t, "e: {enabled: false}")))
		if e := h.entry("e"); e.State != scheduler.StateDisabled || !e.NextFire.IsZero() {
			t.Errorf("masked: %+v", e)
		}
	})
}

func TestRunOnStartIsNotRepeatedByReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1h, run_on_start: true"))
		for i := range 10 {
			h.apply(one(t, fmt.Sprintf("interval: %dh, args: {a: %d}, run_on_start: true", 1+i/5, i)))
			h.apply(one(t, fmt.Sprintf("interval: %dh, run_on_start: false", 1+i/5)))
			h.apply(one(t, fmt.Sprintf("interval: %dh, run_on_start: true, enabled: false", 1+i/5)))
		}
		time.Sleep(time.Minute)
		h.expectRuns("e", 0)
	})
}

func TestRunOnStartDoesNotFireByAReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(parse(t, `
        off: {module: test.ping, interval: 1h, run_on_start: true, enabled: false}
        later: {module: test.ping, interval: 1h}`))
		h.apply(parse(t, `
        off: {module: test.ping, interval: 1h, run_on_start: true}
        later: {module: test.ping, interval: 1h, run_on_start: true}
        added: {module: test.ping, interval: 1h, run_on_start: true, outside: defer}`))
		time.Sleep(time.Hour - 1)
		if n := len(h.all()); n != 0 {
			t.Errorf("%d runs", n)
		}
		if err := h.Pause(t.Context(), "added", scheduler.Override{}); err != nil {
			t.Error(err)
		}
		if err := h.Resume(t.Context(), "added", ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := len(h.all()); n != 0 {
			t.Errorf("%d runs after a pause", n)
		}
	})
}

func TestRenamedEntryCatchesNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(parse(t, "old: {module: test.ping, interval: 1h}"))
		time.Sleep(90 * time.Minute)
		c := h.apply(parse(t, "new: {module: test.ping, interval: 1h}"))
		if !slices.Equal(c.Added, []string{"new"}) || !slices.Equal(c.Removed, []string{"old"}) {
			t.Fatalf("%+v", c)
		}
		time.Sleep(2 * time.Hour)
		h.expectRuns("old", time.Hour)
		h.expectRuns("new", 150*time.Minute, 210*time.Minute)
	})
}

func TestDisabledEntryEndsItsRunAndWaitsToBeEnabled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 10 * time.Second
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute)
		h.apply(one(t, "interval: 1m, enabled: false"))
		time.Sleep(10 * time.Minute)
		h.expectRuns("e", time.Minute)
		if e := h.entry("e"); e.State != scheduler.StateDisabled || e.Runs != 1 || e.Running != 0 {
			t.Errorf("%+v", e)
		}
		h.apply(one(t, "interval: 1m"))
		if e := h.entry("e"); e.State != scheduler.StateActive || !e.NextFire.Equal(h.begin.Add(670*time.Second)) {
			t.Errorf("the rhythm of the last end is %v", e.NextFire.Sub(h.begin))
		}
	})
}

func TestDisablingDuringTheSplayCountsTheFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1m, splay: 1000h"))
		h.sleepInto("e")
		h.apply(one(t, "interval: 1m, splay: 1000h, enabled: false"))
		h.expectSkips("e", ledger.Disabled, 1)
	})
}

func TestAHundredReloadsInASecondLeaveOneSetAndNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1m"))
		before := runtime.NumGoroutine()
		for i := range 100 {
			var text strings.Builder
			fmt.Fprintf(&text, "last: {module: test.ping, interval: 1m, args: {n: %d}}\n", i)
			for j := range 20 {
				fmt.Fprintf(&text, "e%d: {module: test.ping, interval: %dm, splay: 10s}\n", (i+j)%50, 1+i%3)
			}
			h.apply(parse(t, text.String()))
			time.Sleep(10 * time.Millisecond)
		}
		list, err := h.State(t.Context())
		if err != nil || len(list) != 21 {
			t.Fatalf("%d entries, %v", len(list), err)
		}
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines, before %d", after, before)
		}
		time.Sleep(time.Minute)
		for _, f := range h.all() {
			if f.Name == "last" && f.Entry.Args["n"] != int64(99) {
				t.Errorf("ran with %v", f.Entry.Args)
			}
		}
		h.expectRuns("last", time.Minute)
	})
}

func TestAppliedSetBelongsToItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		set := one(t, "interval: 1m")
		h.apply(set)
		clear(set)
		h.entry("e")
		if c := h.apply(set); !slices.Equal(c.Removed, []string{"e"}) {
			t.Errorf("%+v", c)
		}
	})
}
