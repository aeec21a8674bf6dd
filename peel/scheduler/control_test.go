package scheduler_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func (h *host) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Error(err)
	}
}

func TestPauseHoldsOverReloadsAndRestartsUntilResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		h.apply(one(t, `cron: "30 * * * *", catch_up: run_all`))
		h.must(h.Pause(t.Context(), "e", scheduler.Override{By: "ada", Reason: "disk is full"}))
		time.Sleep(2 * time.Hour)
		h.apply(one(t, `cron: "20 * * * *", catch_up: run_all`))
		time.Sleep(2 * time.Hour)
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, `cron: "20 * * * *", catch_up: run_all`))
		e := h.entry("e")
		if e.State != scheduler.StatePaused || e.Why != "paused by ada: disk is full" || !e.NextFire.IsZero() || e.Paused.By != "ada" {
			t.Errorf("%+v", e)
		}
		time.Sleep(2 * time.Hour)
		h.expectRuns("e")
		h.must(h.Resume(t.Context(), "e", "bob"))
		time.Sleep(25 * time.Minute)
		h.expectRuns("e", 2*time.Hour+20*time.Minute) // and nothing of what was missed
	})
}

func TestPauseEndsAtItsTimeAlsoAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		h.apply(one(t, "interval: 10m"))
		h.must(h.Pause(t.Context(), "e", scheduler.Override{By: "ada", Until: h.begin.Add(time.Hour)}))
		time.Sleep(30 * time.Minute)
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, "interval: 10m"))
		if e := h.entry("e"); e.State != scheduler.StatePaused {
			t.Errorf("%+v", e)
		}
		time.Sleep(41 * time.Minute)
		h.expectRuns("e", 40*time.Minute)
		if e := h.entry("e"); e.State != scheduler.StateActive || e.Paused != nil {
			t.Errorf("%+v", e)
		}
	})
}

func TestPauseWhoseEndPassedWhileThePeelWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		h.apply(one(t, "interval: 10m, catch_up: run_all"))
		h.must(h.Pause(t.Context(), "e", scheduler.Override{Until: h.begin.Add(time.Hour)}))
		h.shut()
		time.Sleep(3 * time.Hour)
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, "interval: 10m, catch_up: run_all"))
		time.Sleep(15 * time.Minute)
		h.expectRuns("e", 10*time.Minute)
	})
}

func TestPauseDuringTheSplayCountsTheFireAndLeavesARunInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 10 * time.Minute
		h.apply(one(t, "interval: 1m, if_running: queue"))
		time.Sleep(3 * time.Minute)
		h.must(h.Pause(t.Context(), "e", scheduler.Override{}))
		h.expectSkips("e", ledger.Paused, 1) // that which waited
		time.Sleep(time.Hour)
		if e := h.entry("e"); e.Runs != 1 || e.Failures != 0 || e.State != scheduler.StatePaused {
			t.Errorf("%+v", e)
		}
	})
}

func TestResumeForgivesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.answer("e", failure)
		h.apply(one(t, "interval: 1m, pause_after_errors: 2"))
		time.Sleep(10 * time.Minute)
		h.expectRuns("e", time.Minute, 2*time.Minute)
		h.must(h.Resume(t.Context(), "e", "ada"))
		time.Sleep(10 * time.Minute)
		if n := len(h.runs("e")); n != 4 {
			t.Errorf("%d runs", n)
		}
	})
}

func TestNextFireCanBeSkippedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := start(t, scheduler.Options{Zone: time.UTC, Log: j.logger()})
		defer h.shut()
		h.apply(one(t, `cron: "0 * * * *"`))
		nominal, err := h.Skip(t.Context(), "e", scheduler.Override{By: "ada", Reason: "deploy"})
		if err != nil || !nominal.Equal(h.begin.Add(time.Hour)) {
			t.Errorf("%v, %v", nominal, err)
		}
		if e := h.entry("e"); e.Skip == nil || e.Skip.By != "ada" {
			t.Errorf("%+v", e)
		}
		time.Sleep(150 * time.Minute)
		h.expectRuns("e", 2*time.Hour)
		h.expectSkips("e", ledger.SkippedOnce, 1)
		if e := h.entry("e"); e.Skip != nil {
			t.Errorf("%+v", e)
		}
		if _, err := h.Skip(t.Context(), "e", scheduler.Override{Until: h.begin.Add(170 * time.Minute)}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		h.expectRuns("e", 2*time.Hour, 3*time.Hour) // the order had ended
	})
}

// The operator skips the next fire 30 s after one that ran. The process starts again in the same minute, and looks at the last minute for
// fires that its list may lack.
func TestASkipDoesNotHoldForAFireBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := one(t, `cron: "0 * * * *"`)
		h := start(t, o)
		h.apply(set)
		time.Sleep(time.Hour + 30*time.Second)
		h.expectRuns("e", time.Hour)
		h.mustSkip("e")
		h.shut()

		h = start(t, o)
		defer h.shut()
		h.apply(set)
		if e := h.entry("e"); e.Skip == nil {
			t.Error("the skip is gone before the fire of 02:00")
		}
		time.Sleep(time.Hour)
		h.expectRuns("e")
		h.expectSkips("e", ledger.SkippedOnce, 1)
	})
}

func TestResumeTakesASkipBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, "interval: 1h"))
		if _, err := h.Skip(t.Context(), "e", scheduler.Override{By: "ada"}); err != nil {
			t.Fatal(err)
		}
		if err := h.Resume(t.Context(), "e", "bob"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Minute)
		h.expectRuns("e", time.Hour)
	})
}

func TestManualRunHeedsNeitherWindowsNorTheBreakerAndKeepsTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.answer("e", failure)
		h.apply(one(t, `cron: "0 9 * * *", splay: 1h, only_between: "08:00-10:00", max_runs: 5, breaker: {threshold: 1, reset_after: 100h}`))
		next := h.entry("e").NextFire
		for range 2 {
			h.must(h.Start(t.Context(), "e", "ada"))
			time.Sleep(time.Second)
		}
		h.expectRuns("e", 0, time.Second)
		if f := h.fire(0); f.Trigger != wire.TriggerManual || !f.Nominal.Equal(f.Started) {
			t.Errorf("%+v", f)
		}
		if e := h.entry("e"); !e.NextFire.Equal(next) || e.TimingRuns != 0 {
			t.Errorf("%+v", e)
		}
		h.answer("e", nil)
		h.must(h.Start(t.Context(), "e", "ada"))
		if e := h.entry("e"); e.BreakerState != scheduler.BreakerClosed {
			t.Errorf("a success left the breaker %s", e.BreakerState)
		}
	})
}

func TestManualRunAtTheLimit(t *testing.T) {
	for mode, want := range map[string]struct {
		err  error
		runs int // in the hour after
	}{
		"skip": {scheduler.ErrBusy, 1}, "queue": {nil, 2}, "cancel": {nil, 2}, "allow": {nil, 2},
	} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, scheduler.Options{})
				defer h.shut()
				h.takes["e"] = 10 * time.Minute
				h.apply(one(t, "interval: 10h, if_running: "+mode))
				h.must(h.Start(t.Context(), "e", "ada"))
				time.Sleep(time.Minute)
				if err := h.Start(t.Context(), "e", "ada"); !errors.Is(err, want.err) {
					t.Errorf("%v", err)
				}
				time.Sleep(time.Hour)
				if n := len(h.runs("e")); n != want.runs {
					t.Errorf("%d runs", n)
				}
			})
		})
	}
}

func TestOrdersThatCannotBeCarriedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(parse(t, `
        paused: {module: test.ping, interval: 1h}
        disabled: {module: test.ping, interval: 1h, enabled: false}`))
		h.must(h.Pause(t.Context(), "paused", scheduler.Override{}))
		for _, name := range []string{"paused", "disabled"} {
			if err := h.Start(t.Context(), name, "ada"); !errors.Is(err, scheduler.ErrNotActive) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := h.Skip(t.Context(), name, scheduler.Override{}); !errors.Is(err, scheduler.ErrNotActive) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for what, err := range map[string]error{
			"pause": h.Pause(t.Context(), "x", scheduler.Override{}), "resume": h.Resume(t.Context(), "x", ""), "run": h.Start(t.Context(), "x", ""),
		} {
			if !errors.Is(err, scheduler.ErrNoEntry) || err.Error() != "cannot "+what+` "x": there is no such entry in the schedule` {
				t.Errorf("%s: %v", what, err)
			}
		}
		h.must(h.Resume(t.Context(), "disabled", "ada"))
		if e := h.entry("disabled"); e.State != scheduler.StateDisabled {
			t.Errorf("%+v", e)
		}
	})
}

func TestLastTenRunsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = time.Second
		n := 0
		h.answer("e", func() wire.Result {
			n++
			return wire.Result{Success: n%2 == 0, Error: "odd"}
		})
		h.apply(one(t, "interval: 59s, return_job: true"))
		time.Sleep(20 * time.Minute)
		e := h.entry("e")
		if len(e.Last) != 10 || e.Job == "" || e.Job != e.Last[9].Job {
			t.Fatalf("%+v", e)
		}
		for i, p := range e.Last {
			if want := h.begin.Add(time.Duration(i+11) * time.Minute); !p.Ended.Equal(want) || p.Ended.Sub(p.Started) != time.Second ||
				p.Success != (i%2 == 1) || (p.Error == "odd") == p.Success || p.Job != string(h.fire(i+10).JID) || p.Trigger != wire.TriggerTimer {
				t.Errorf("%d: %+v", i, p)
			}
		}
	})
}

// A peel that is killed right after a pause was answered has the pause.
func TestAPauseIsOnTheDiskWhenItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		defer h.shut()
		h.apply(one(t, "interval: 1m"))
		time.Sleep(90*time.Second + 10*time.Millisecond)
		for i, c := range []struct {
			do              func() error
			paused, skipped bool
		}{
			{do: func() error { return h.Pause(t.Context(), "e", scheduler.Override{By: "ann"}) }, paused: true},
			{do: func() error { return h.Resume(t.Context(), "e", "ann") }},
			{do: func() error { _, err := h.Skip(t.Context(), "e", scheduler.Override{By: "ann"}); return err }, skipped: true},
		} {
			if err := c.do(); err != nil {
				t.Fatal(err)
			}
			e := read(t, crash(t, o).StateFile).Entries["e"]
			if (e.Paused != nil) != c.paused || (e.Skip != nil) != c.skipped {
				t.Errorf("order %d: the file has the pause %v and the skip %v", i, e.Paused, e.Skip)
			}
		}
	})
}

func TestAPauseThatTheDiskRefusesIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{StateFile: filepath.Join(t.TempDir(), "gone", "state")})
		h.apply(one(t, "interval: 1m"))
		time.Sleep(90 * time.Second) // the next try is due in up to a minute
		began := time.Now()
		err := h.Pause(t.Context(), "e", scheduler.Override{By: "ann"})
		if err == nil || !strings.HasPrefix(err.Error(), `cannot pause "e" for good, a restart of the peel takes it back: cannot store the scheduler's state: `) {
			t.Error(err)
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("answered after %s", waited)
		}
		h.stop()
		<-h.ended
	})
}

// The list of an entry says that it is paused, not that it is disabled, after a reload and after a restart as well.
func TestThePauseIsTheReasonOfARest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		rests := func(what string, want ledger.Reason) {
			t.Helper()
			marks := h.entry("e").List.Marks
			if last := marks[len(marks)-1]; last.Why != want {
				t.Errorf("%s: the last of %d marks says %q, want %q", what, len(marks), last.Why, want)
			}
		}
		h.apply(one(t, "interval: 10m"))
		rests("it is active", "")
		h.must(h.Pause(t.Context(), "e", scheduler.Override{By: "ada"}))
		rests("it is paused", ledger.Paused)
		time.Sleep(time.Minute)
		h.apply(one(t, "interval: 20m"))
		rests("it has another timing", ledger.Paused)
		h.apply(one(t, "interval: 20m, return_job: true"))
		rests("it has another definition", ledger.Paused)
		h.shut()
		time.Sleep(time.Minute)
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, "interval: 20m, return_job: true"))
		rests("the peel was started again", ledger.Paused)
		h.must(h.Resume(t.Context(), "e", "ada"))
		rests("it is resumed", "")
		h.apply(one(t, "interval: 20m, enabled: false"))
		rests("it is disabled", ledger.Disabled)
	})
}
