package scheduler_test

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

func TestEntryRunsWhenTheOneThatItNeedsHasEndedSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["dump"] = 10 * time.Minute
		n := 0
		h.answer("dump", func() wire.Result { n++; return wire.Result{Success: n == 1} })
		h.apply(parse(t, `
        dump: {module: test.ping, cron: "0 */2 * * *"}
        upload: {module: test.ping, needs: {entry: dump}}
        verify: {module: test.ping, needs: {entry: upload}}
        alarm: {module: test.ping, needs: {entry: dump, on: failure}}
        clean: {module: test.ping, needs: {entry: dump, on: done}, interval: 90m}
        off: {module: test.ping, needs: {entry: dump}, enabled: false}`))
		if e := h.entry("upload"); e.State != scheduler.StateActive || e.Why != "waits for the end of dump" {
			t.Errorf("%s, %s", e.State, e.Why)
		}
		time.Sleep(5 * time.Hour)
		h.expectRuns("upload", 130*time.Minute)
		h.expectRuns("verify", 130*time.Minute)
		h.expectRuns("alarm", 250*time.Minute)
		h.expectRuns("clean", 90*time.Minute, 130*time.Minute, 220*time.Minute, 250*time.Minute)
		h.expectRuns("off")
		for name, want := range map[string]uint64{"upload": 1, "verify": 0, "alarm": 1, "clean": 0, "off": 0} {
			h.expectSkips(name, ledger.NeedsUnmet, want)
		}
		for _, f := range h.all() {
			if f.Name == "upload" && (f.Trigger != wire.TriggerNeeds || f.Nominal.Sub(h.begin) != 130*time.Minute) {
				t.Errorf("%+v", f)
			}
		}
	})
}

func TestNeedingEntryHasItsOwnSplayWindowsAndLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, `
        a: {module: test.ping, interval: 1h}
        window: {module: test.ping, needs: {entry: a}, only_between: "04:00-05:30"}
        once: {module: test.ping, needs: {entry: a}, max_runs: 1}
        ends: {module: test.ping, needs: {entry: a}, not_before: 2000-01-01T02:30:00Z, until: 2000-01-01T04:30:00Z}
        splay: {module: test.ping, needs: {entry: a}, splay: {min: 10m, max: 11m}, max_runs: 1}`))
		time.Sleep(10*time.Hour + time.Minute)
		h.expectRuns("window", 4*time.Hour, 5*time.Hour)
		h.expectSkips("window", ledger.OutsideWindow, 8)
		h.expectRuns("ends", 3*time.Hour, 4*time.Hour)
		h.expectRuns("once", time.Hour)
		h.expectExhausted("once", "all its runs")
		if runs := h.runs("splay"); len(runs) != 1 || runs[0] < 70*time.Minute || runs[0] >= 71*time.Minute {
			t.Errorf("%v", runs)
		}
	})
}

func TestFireOfTheTimerWhoseWaitIsTakenByANeedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, `
        a: {module: test.ping, interval: 70m}
        splayed: {module: test.ping, cron: "0 * * * *", splay: {min: 30m, max: 31m}, needs: {entry: a}}
        held: {module: test.ping, cron: "5 1 * * *", only_between: "03:00-04:00", outside: defer, needs: {entry: a}}`))
		time.Sleep(119 * time.Minute)
		h.expectNominal("splayed", "01 01:10")
		h.expectSkips("splayed", ledger.Superseded, 1)
		h.expectSkips("held", ledger.Superseded, 1)
	})
}

// A new timing drops a fire that waits for its splay, and counts it.
func TestAFireByNeedsThatANewTimingDropsIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		set := func(cron string) schedule.Set {
			return parse(t, `
        dump: {module: test.ping, cron: "0 */2 * * *"}
        upload: {module: test.ping, cron: "`+cron+`", needs: {entry: dump}, splay: {min: 30m, max: 31m}}`)
		}
		h.apply(set("30 5 * * *"))
		time.Sleep(2*time.Hour + time.Minute)
		h.apply(set("40 5 * * *"))
		h.expectSkips("upload", ledger.Superseded, 1)
		upload := h.entry("upload")
		if n := counted(&upload).Skipped; n != 1 {
			t.Errorf("%d fires are counted as skipped", n)
		}
	})
}

// A run that follows another one begins 100 ms before a kill. The state file has neither the end of the other one nor this run; the
// records of both runs are there. If the disk refused the mark of the start as well, the next process has the same era.
func TestARunByNeedThatAKillCutsOffIsInterrupted(t *testing.T) {
	for name, marks := range map[string]int{"the mark is there": 1, "the mark is lost": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				set := parse(t, `
        dump: {module: test.ping, cron: "*/5 * * * *"}
        upload: {module: test.ping, needs: {entry: dump}}`)
				h := start(t, o)
				h.takes = map[string]time.Duration{"dump": 500 * time.Millisecond, "upload": time.Hour}
				h.apply(set)
				time.Sleep(5*time.Minute + 600*time.Millisecond)
				h.expectRuns("upload", 5*time.Minute+500*time.Millisecond)
				crashed := crash(t, o)
				h.stop()
				h.shut()
				state := read(t, crashed.StateFile)
				state.Marks = state.Marks[:marks]
				write(t, crashed.StateFile, state)

				h = start(t, crashed)
				defer h.shut()
				h.apply(set)
				e := h.entry("upload")
				list := slices.Collect(e.List.All())
				if len(list) != 1 || list[0].Class != ledger.Needs || list[0].Outcome != ledger.Interrupted || e.Interrupted != 1 || len(e.Skips) != 0 {
					t.Errorf("%+v, skips %v", list, e.Skips)
				}
			})
		})
	}
}

// A kill comes before the end of a run is in the history, and before the fire that follows the run is in the list. Then the clock is
// set. The fire was missed.
func TestAFireByNeedIsMissedAlsoIfTheClockWasSetInTheStop(t *testing.T) {
	for _, step := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var clock tamper
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC, Boot: func() (string, time.Duration) {
					return "a", time.Since(begin)
				}}
				set := parse(t, `
        dump: {module: test.ping, cron: "*/5 * * * *"}
        upload: {module: test.ping, needs: {entry: dump}, splay: {min: 30m, max: 31m}}`)
				h := clock.host(t, o)
				h.takes["dump"] = 500 * time.Millisecond
				h.apply(set)
				time.Sleep(5*time.Minute + 600*time.Millisecond)
				crashed := crash(t, o)
				h.stop()
				h.shut()

				clock.set(step)
				h = clock.host(t, crashed)
				defer h.shut()
				h.apply(set)
				e := h.entry("upload")
				list := slices.Collect(e.List.All())
				if len(list) != 1 || list[0].Class != ledger.Needs || list[0].Outcome != ledger.Missed || list[0].Why != ledger.Down {
					t.Errorf("%+v", list)
				}
			})
		})
	}
}
