package scheduler_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// counted sums up what the list of an entry has.
func counted(e *scheduler.EntryState) (sum wire.ScheduleHour) {
	sum.Skips = map[string]uint64{}
	for _, h := range listed(e) {
		sum.Ran, sum.Failed, sum.Late, sum.Overran = sum.Ran+h.Ran, sum.Failed+h.Failed, sum.Late+h.Late, sum.Overran+h.Overran
		sum.Skipped, sum.Missed, sum.Manual = sum.Skipped+h.Skipped, sum.Missed+h.Missed, sum.Manual+h.Manual
		sum.Pending += h.Pending
		for why, n := range h.Skips {
			sum.Skips[why] += n
		}
	}
	return sum
}

// expectTally compares what the list of an entry has.
func (h *host) expectTally(name string, want wire.FireCounts, skips map[string]uint64) {
	h.t.Helper()
	e := h.entry(name)
	if got := counted(&e); got.FireCounts != want || !maps.Equal(got.Skips, skips) {
		h.t.Errorf("%s has %+v and skips %v, want %+v and %v", name, got.FireCounts, got.Skips, want, skips)
	}
}

func failing() wire.Result { return wire.Result{Error: "no"} }

// Each case runs for four hours from midnight. The entry is called e.
func TestEachFireCountsOnceByWhatHappenedToIt(t *testing.T) {
	type counts = wire.FireCounts
	type skips = map[string]uint64
	for name, c := range map[string]struct {
		fields string
		takes  time.Duration
		result func() wire.Result
		act    func(*host) // after 90 minutes
		want   counts
		skips  skips
	}{
		"runs":       {fields: `cron: "0 * * * *"`, want: counts{Ran: 4}},
		"failures":   {fields: `cron: "0 * * * *"`, result: failing, want: counts{Ran: 4, Failed: 4}},
		"a timeout":  {fields: `cron: "0 2 * * *", timeout: 1m`, takes: time.Hour, want: counts{Ran: 1, Failed: 1, Overran: 1}},
		"an overrun": {fields: `cron: "0 1-2 * * *"`, takes: 61 * time.Minute, want: counts{Ran: 1, Overran: 1, Skipped: 1}, skips: skips{"already_running": 1}},
		"in flight":  {fields: `cron: "0 4 * * *"`, takes: time.Hour},
		"a late run": {fields: `cron: "0 2 * * *", splay: {min: 10m, max: 20m}, late_after: 5m`, want: counts{Ran: 1, Late: 1}},
		"a long run by hand": {
			fields: `cron: "0 2 * * *"`, takes: 61 * time.Minute, act: func(h *host) { h.must(h.Start(h.t.Context(), "e", "ada")) },
			want: counts{Manual: 1, Skipped: 1}, skips: skips{"already_running": 1},
		},
		"a run into closed windows": {
			fields: `cron: "0 * * * *", only_between: "00:30-01:30"`, takes: 61 * time.Minute,
			want: counts{Ran: 1, Skipped: 3}, skips: skips{"outside_window": 3},
		},
		"a replaced run":    {fields: `cron: "0 1-2 * * *", if_running: cancel`, takes: 61 * time.Minute, want: counts{Ran: 2, Failed: 1, Overran: 1}},
		"windows":           {fields: `cron: "0 * * * *", only_between: "02:00-03:00"`, want: counts{Ran: 1, Skipped: 3}, skips: skips{"outside_window": 3}},
		"held fires":        {fields: `cron: "30 * * * *", only_between: "03:00-04:00", outside: defer`, want: counts{Ran: 2, Skipped: 2}, skips: skips{"outside_window": 2}},
		"a blackout":        {fields: `cron: "0 * * * *", blackout: "2000-01-01T01:30:00Z/2000-01-01T02:30:00Z"`, want: counts{Ran: 3, Skipped: 1}, skips: skips{"blackout": 1}},
		"a breaker":         {fields: `cron: "0 * * * *", breaker: {threshold: 2, reset_after: 90m}`, result: failing, want: counts{Ran: 3, Failed: 3, Skipped: 1}, skips: skips{"circuit_open": 1}},
		"failures in a row": {fields: `cron: "0 * * * *", pause_after_errors: 2`, result: failing, want: counts{Ran: 2, Failed: 2}},
		"a skip":            {fields: `cron: "0 * * * *"`, act: func(h *host) { h.mustSkip("e") }, want: counts{Ran: 3, Skipped: 1}, skips: skips{"skipped_once": 1}},
		"a manual run":      {fields: `cron: "0 2 * * *"`, act: func(h *host) { h.must(h.Start(h.t.Context(), "e", "ada")) }, want: counts{Ran: 1, Manual: 1}},
		"a full queue":      {fields: `cron: "*/30 3 * * *", if_running: queue, start_deadline: 5h`, takes: 50 * time.Minute, want: counts{Ran: 1, Overran: 1}},
		"a slot too late":   {fields: `cron: "0 1-2 * * *", if_running: queue, start_deadline: 10m`, takes: 170 * time.Minute, want: counts{Ran: 1, Overran: 1, Missed: 1}},
		"max_runs":          {fields: `cron: "0 * * * *", max_runs: 2`, want: counts{Ran: 2}},
		"a start":           {fields: `cron: "0 2 * * *", run_on_start: true`, want: counts{Ran: 2}},
		"an interval":       {fields: `interval: 50m`, takes: 10 * time.Minute, want: counts{Ran: 4}},
		"a pause in a splay": {
			fields: `cron: "25 1 * * *", splay: {min: 20m, max: 21m}`, act: func(h *host) { h.must(h.Pause(h.t.Context(), "e", scheduler.Override{})) },
			want: counts{Skipped: 1}, skips: skips{"paused": 1},
		},
		"a removal in a splay": {
			fields: `cron: "25 1 * * *", splay: {min: 20m, max: 21m}`, act: func(h *host) { h.apply(nil); h.apply(one(h.t, `cron: "25 1 * * *"`)) },
			want: counts{Skipped: 1}, skips: skips{"removed": 1},
		},
		"a disabled entry in a splay": {
			fields: `cron: "25 1 * * *", splay: {min: 20m, max: 21m}`, act: func(h *host) { h.apply(one(h.t, `cron: "25 1 * * *", enabled: false`)) },
			want: counts{Skipped: 1}, skips: skips{"disabled": 1},
		},
		"a new timing in a splay": {
			fields: `cron: "25 1 * * *", splay: {min: 20m, max: 21m}`, act: func(h *host) { h.apply(one(h.t, `cron: "0 2 * * *"`)) },
			want: counts{Ran: 1, Skipped: 1}, skips: skips{"superseded": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, scheduler.Options{Zone: time.UTC})
				defer h.shut()
				h.takes["e"], h.results["e"] = c.takes, c.result
				h.apply(one(t, c.fields))
				time.Sleep(90 * time.Minute)
				if c.act != nil {
					c.act(h)
				}
				time.Sleep(151 * time.Minute)
				h.expectTally("e", c.want, c.skips)
			})
		})
	}
}

// A run by hand is nobody's timing: it does not overrun when the next fire is due.
func TestARunByHandDoesNotOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = 2 * time.Hour
		h.apply(one(t, `cron: "0 1 * * *"`))
		time.Sleep(30 * time.Minute)
		h.must(h.Start(t.Context(), "e", "ada"))
		time.Sleep(3 * time.Hour)

		if last := h.entry("e").Last; len(last) != 1 || last[0].By != "ada" || last[0].Overran {
			t.Errorf("%+v, want one run of ada that did not overrun", last)
		}
	})
}

func (h *host) mustSkip(name string) {
	h.t.Helper()
	if _, err := h.Skip(h.t.Context(), name, scheduler.Override{}); err != nil {
		h.t.Fatal(err)
	}
}

// The process is down from 00:40 to 04:10. What the new process counts is what it missed.
func TestFiresMissedWhileThePeelWasDownCountWhenItStarts(t *testing.T) {
	const hourly = `cron: "30 * * * *", `
	type skips = map[string]uint64
	for name, c := range map[string]struct {
		before, after string
		ran, missed   uint64
		skips         skips
	}{
		"skip":                       {before: hourly, ran: 1, missed: 3},
		"run_once":                   {before: hourly + "catch_up: run_once", ran: 2, missed: 2},
		"run_all":                    {before: hourly + "catch_up: run_all", ran: 4},
		"run_all of two":             {before: hourly + "catch_up: run_all, catch_up_max: 2", ran: 3, missed: 1},
		"an interval":                {before: "interval: 30m", ran: 1, missed: 7},
		"an interval from start":     {before: "interval: 30m, interval_from: start, catch_up: run_once", ran: 2, missed: 6},
		"a lattice":                  {before: "interval: 1h, interval_from: epoch", missed: 4},
		"an instant":                 {before: `at: "2000-01-01T02:45:00Z"`, missed: 1},
		"a delay":                    {before: `after: 2h`, missed: 1},
		"a new timing":               {before: hourly, after: `cron: "20 * * * *"`, ran: 1},
		"another argument":           {before: hourly, after: hourly + "args: {a: 1}", ran: 1, missed: 3},
		"disabled before":            {before: hourly + "enabled: false", after: hourly},
		"disabled since":             {before: hourly, after: hourly + "enabled: false", ran: 1},
		"a blackout":                 {before: hourly + `blackout: "2000-01-01T01:00:00Z/2000-01-01T03:00:00Z"`, ran: 1, missed: 1, skips: skips{"blackout": 2}},
		"windows":                    {before: hourly + `only_between: "00:00-02:00"`, ran: 1, missed: 1, skips: skips{"outside_window": 2}},
		"a life that begins":         {before: hourly + `not_before: "2000-01-01T03:00:00Z"`, missed: 1},
		"a life that ends":           {before: hourly + `until: "2000-01-01T02:00:00Z"`, ran: 1, missed: 1},
		"one run is left":            {before: hourly + `max_runs: 2`, ran: 1, missed: 3},
		"no run is left":             {before: hourly + `max_runs: 1`, ran: 1},
		"a fire in its splay":        {before: `cron: "35 0 * * *", splay: {min: 10m, max: 11m}`, missed: 1},
		"one that was run just then": {before: `cron: "35 0 * * *"`, ran: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.after == "" {
					c.after = c.before
				}
				h := down(t, one(t, c.before), 40*time.Minute, 210*time.Minute, one(t, c.after))
				defer h.shut()
				time.Sleep(time.Minute)
				want := wire.FireCounts{Ran: c.ran, Missed: c.missed}
				for _, n := range c.skips {
					want.Skipped += n
				}
				h.expectTally("e", want, c.skips)
			})
		})
	}
}

func TestOpenBreakerExplainsFiresWhileThePeelWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := one(t, `cron: "30 * * * *", breaker: {threshold: 1, reset_after: 2h}`)
		h := start(t, o)
		h.results["e"] = failing
		h.apply(set)
		time.Sleep(40 * time.Minute)
		h.shut()
		time.Sleep(210 * time.Minute)
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		h.expectTally("e", wire.FireCounts{Ran: 1, Failed: 1, Skipped: 1, Missed: 2}, map[string]uint64{"circuit_open": 1})
	})
}

func TestPauseThatEndedWhileThePeelWasDownExplainsOnlyFiresBeforeItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := one(t, `cron: "30 * * * *"`)
		h := start(t, o)
		h.apply(set)
		h.must(h.Pause(t.Context(), "e", scheduler.Override{Until: h.begin.Add(2 * time.Hour)}))
		h.shut()
		time.Sleep(4 * time.Hour)
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		time.Sleep(time.Minute)
		h.expectTally("e", wire.FireCounts{Missed: 2}, nil)
		if e := h.entry("e"); !e.Since.Equal(h.begin.Add(-2 * time.Hour)) {
			t.Errorf("active since %v", e.Since)
		}
	})
}

func TestSkippedFireThatPassedWhileThePeelWasDownIsNotMissed(t *testing.T) {
	for timing, until := range map[string]time.Duration{`cron: "30 * * * *"`: 0, "interval: 30m": 0, `cron: "0 1-23 * * *"`: 50 * time.Minute} {
		t.Run(timing, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				set := one(t, timing+", catch_up: run_all")
				h := start(t, o)
				h.apply(set)
				skip, want := scheduler.Override{}, wire.FireCounts{Skipped: 1, Ran: 1}
				if until > 0 {
					skip.Until, want = h.begin.Add(until), wire.FireCounts{Ran: 1}
				}
				time.Sleep(time.Second)
				if _, err := h.Skip(t.Context(), "e", skip); err != nil {
					t.Fatal(err)
				}
				h.shut()
				time.Sleep(100 * time.Minute)
				if timing == "interval: 30m" {
					want.Ran = 2
				}
				h = start(t, o)
				defer h.shut()
				h.apply(set)
				time.Sleep(10 * time.Second)
				e := h.entry("e")
				if got := counted(&e).FireCounts; got != want || e.Skip != nil {
					t.Errorf("%+v, %v", got, e.Skip)
				}
			})
		})
	}
}

func TestFireThatNeedsARunAndIsDueAsThePeelStopsIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := parse(t, `
        first: {module: test.ping, cron: "0 1 * * *"}
        now: {module: test.ping, needs: {entry: first, on: success}}
        later: {module: test.ping, needs: {entry: first, on: success}, splay: {min: 10m, max: 11m}}
        never: {module: test.ping, needs: {entry: first, on: failure}}`)
		h := start(t, o)
		h.apply(set)
		time.Sleep(65 * time.Minute)
		h.shut()
		for range 2 {
			h = start(t, o)
			h.apply(set)
			h.expectTally("now", wire.FireCounts{Ran: 1}, nil)
			h.expectTally("later", wire.FireCounts{Missed: 1}, nil)
			h.expectTally("never", wire.FireCounts{Skipped: 1}, map[string]uint64{"needs_unmet": 1})
			time.Sleep(time.Minute)
			h.shut()
		}
	})
}

func TestFiresOfTheTimerThatPassBeforeAFireByNeedAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, `
        first: {module: test.ping, cron: "50 0 * * *"}
        late: {module: test.ping, cron: "0 * * * *", needs: {entry: first, on: done}, splay: {min: 8m, max: 9m}}
        held: {module: test.ping, cron: "0 * * * *", needs: {entry: first, on: done}, only_between: "04:00-05:00", outside: defer}`))
		time.Sleep(51 * time.Minute)
		c.suspend(3*time.Hour + 30*time.Minute)
		time.Sleep(9 * time.Minute) // 04:30
		h.expectTally("late", wire.FireCounts{Ran: 1, Missed: 4}, nil)
		h.expectTally("held", wire.FireCounts{Ran: 1, Skipped: 4}, map[string]uint64{"outside_window": 3, "superseded": 1}) // that of 04:00
	})
}

func TestFiresMissedThroughASuspendAndTheNextThatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, bothKinds+`
        start: {module: test.ping, interval: 1h, interval_from: start}
        windows: {module: test.ping, cron: "30 * * * *", only_between: "04:00-06:00"}
        made-up: {module: test.ping, cron: "30 * * * *", start_deadline: 10m, catch_up: run_once}`))
		time.Sleep(10*time.Minute + 30*time.Second)
		c.suspend(8 * time.Hour)
		time.Sleep(time.Minute) // 08:11:30
		h.expectTally("hourly", wire.FireCounts{Ran: 1, Missed: 7}, nil)
		h.expectTally("daily", wire.FireCounts{Missed: 1}, nil)
		h.expectTally("interval", wire.FireCounts{Ran: 1, Missed: 7}, nil)
		h.expectTally("start", wire.FireCounts{Ran: 1, Missed: 7}, nil)
		h.expectTally("windows", wire.FireCounts{Missed: 2, Skipped: 6}, map[string]uint64{"outside_window": 6})
		h.expectTally("made-up", wire.FireCounts{Ran: 1, Missed: 7}, nil)
	})
}

func TestStepsOfTheWallClockMissNothing(t *testing.T) {
	for name, c := range map[string]struct {
		steps []time.Duration
		stop  bool // and start again after the last step
	}{
		"ten minutes forward":        {steps: []time.Duration{10 * time.Minute}},
		"four hours forward":         {steps: []time.Duration{4 * time.Hour}},
		"a year forward":             {steps: []time.Duration{365 * 24 * time.Hour}},
		"ten minutes back":           {steps: []time.Duration{-10 * time.Minute}},
		"two hours back":             {steps: []time.Duration{-2 * time.Hour}},
		"a day back":                 {steps: []time.Duration{-24 * time.Hour}},
		"forward and back":           {steps: []time.Duration{5 * time.Hour, -5 * time.Hour, 3 * time.Minute}},
		"four hours, then a restart": {steps: []time.Duration{4 * time.Hour}, stop: true},
		"two back, then a restart":   {steps: []time.Duration{-2 * time.Hour}, stop: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(10 * 24 * time.Hour)
				var clock tamper
				o := scheduler.Options{Zone: time.UTC, StateFile: filepath.Join(t.TempDir(), "state")}
				h := clock.host(t, o)
				set := parse(t, bothKinds+`
        start: {module: test.ping, interval: 1h, interval_from: start}
        splayed: {module: test.ping, cron: "30 0-23 * * *", splay: 20m}
        wild: {module: test.ping, cron: "*/7 * * * *", late_after: 2m}
        lattice: {module: test.ping, interval: 17m, interval_from: epoch}`)
				h.apply(set)
				time.Sleep(85*time.Minute + 13*time.Second)
				for _, step := range c.steps {
					clock.set(step)
					time.Sleep(37*time.Minute + 7*time.Second)
				}
				if c.stop {
					h.shut()
					h = clock.host(t, o)
					h.apply(set)
				}
				time.Sleep(3 * time.Hour)
				defer h.shut()
				ran := uint64(0)
				for name := range set {
					e := h.entry(name)
					got := counted(&e)
					ran += got.Ran
					if got.Missed+got.Late+got.Skipped > 0 {
						t.Errorf("%s: %+v", name, got)
					}
				}
				if ran < 30 {
					t.Errorf("%d runs", ran)
				}
			})
		})
	}
}

func TestIntervalThatIsRestartedAfterAStepOfTheWallClockMissesNothing(t *testing.T) {
	for _, catchUp := range []string{"skip", "run_all"} {
		t.Run(catchUp, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c tamper
				o := scheduler.Options{Zone: time.UTC, StateFile: filepath.Join(t.TempDir(), "state")}
				h := c.host(t, o)
				set := one(t, "interval: 1h, catch_up: "+catchUp)
				h.apply(set)
				time.Sleep(70 * time.Minute)
				c.set(4 * time.Hour)
				time.Sleep(5 * time.Minute)
				h.shut()
				h = c.host(t, o)
				defer h.shut()
				h.apply(set)
				time.Sleep(10 * time.Second)
				h.expectTally("e", wire.FireCounts{Ran: 1}, nil)
			})
		})
	}
}

func TestFireInItsSplayRunsAlthoughTheWallClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "*/30 * * * *", splay: {min: 20m, max: 21m}`))
		time.Sleep(40 * time.Minute)
		c.set(-5 * time.Minute) // to 00:35
		time.Sleep(20 * time.Minute)
		h.expectNominal("e", "01 00:30")
		h.expectTally("e", wire.FireCounts{Ran: 1}, nil)
	})
}

func TestFiresThatTheWallClockIsSetOverAreNotInTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, bothKinds))
		time.Sleep(10 * time.Minute)
		c.set(4 * time.Hour) // over 00:30, 01:30, 02:30 and 03:30
		time.Sleep(time.Minute)
		h.expectTally("hourly", wire.FireCounts{Ran: 1}, nil)
		c.suspend(2 * time.Hour) // over 04:30, and 05:30 runs
		time.Sleep(time.Minute)
		h.expectTally("hourly", wire.FireCounts{Ran: 2, Missed: 1}, nil)
	})
}

func TestFireThatWaitsForASlotIsMissedAtItsDeadlineAlthoughTheSlotIsNotFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes atomic.Int64
		h := start(t, scheduler.Options{Zone: time.UTC, Changed: func() { changes.Add(1) }})
		defer h.shut()
		h.takes["e"] = 10 * time.Hour
		h.apply(one(t, `cron: "0 * * * *", if_running: queue, start_deadline: 20m`))
		time.Sleep(2*time.Hour + 19*time.Minute)
		h.expectTally("e", wire.FireCounts{}, nil)
		if e := h.entry("e"); counted(&e).Pending != 2 {
			t.Errorf("%+v", counted(&e))
		}
		before := changes.Load()
		time.Sleep(2 * time.Minute)
		h.expectTally("e", wire.FireCounts{Missed: 1}, nil)
		if n := changes.Load() - before; n != 1 {
			t.Errorf("%d changes of the class, want 1", n)
		}
	})
}

func TestBeginAndEndOfARunAreReportedIfARequestMadeTheEntry(t *testing.T) {
	for text, want := range map[string]int64{"": 0, ", api: {id: 1}": 2} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var changes atomic.Int64
				h := start(t, scheduler.Options{Zone: time.UTC, Changed: func() { changes.Add(1) }})
				defer h.shut()
				h.takes["e"] = time.Minute
				h.apply(one(t, `cron: "0 * * * *"`+text))
				time.Sleep(30 * time.Minute)
				first := changes.Load()
				time.Sleep(time.Hour)
				before := changes.Load()
				if first == before {
					t.Error("the first run is not reported")
				}
				time.Sleep(2 * time.Hour)
				if n := changes.Load() - before; n != 2*want {
					t.Errorf("%d changes in two further runs, want %d", n, 2*want)
				}
			})
		})
	}
}

// A removed entry, or one with a new timing, does not make up what it owed.
func TestFiresThatAreOwedAndNotMadeUpAreMissed(t *testing.T) {
	const minutely = `cron: "* * * * *", catch_up: run_all, `
	for name, after := range map[string]string{
		"run_once": `cron: "* * * * *", catch_up: run_once`, "disabled": minutely + "enabled: false", "another timing": `cron: "0 0 1 1 *"`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := one(t, minutely+"catch_up_max: 50")
				h := down(t, before, 30*time.Second, time.Hour, before)
				defer h.shut()
				time.Sleep(12 * time.Second) // three of 50
				h.expectTally("e", wire.FireCounts{Ran: 3, Missed: 10}, nil)
				h.apply(one(t, after))
				time.Sleep(10 * time.Second)
				e := h.entry("e")
				if got := counted(&e); got.Missed+got.Ran != 60 || got.Ran > 4 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// A year of seconds is not counted one by one, but what is counted is the newest.
func TestLongOutageIsCountedWithBoundedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := parse(t, `
        seconds: {module: test.ping, interval: 1s}
        daily: {module: test.ping, cron: "0 0 * * *"}`)
		h := down(t, set, 90*time.Second, 365*24*time.Hour, set)
		defer h.shut()
		synctest.Wait()
		seconds, daily := h.entry("seconds"), h.entry("daily")
		if n := counted(&seconds).Missed; n < 50_000 || n > 100_000 {
			t.Errorf("%d missed seconds", n)
		}
		if last := listed(&seconds)[time.Now().Unix()/3600-1]; last.Missed != 3600 {
			t.Errorf("the last whole hour has %+v", last)
		}
		if n := counted(&daily).Missed; n != 3 { // the list has two days and the midnight before
			t.Errorf("%d missed days", n)
		}
	})
}

// Whatever stops, starts and suspends the peel, each time that the timing gave in the last two days is in the list once, and each run is
// one that was carried out.
func TestRandomStopsAndSuspendsLoseNoFireFromTheLists(t *testing.T) {
	const entries = `
        cron: {module: test.ping, cron: "7,37 * * * *", splay: 20m}
        quick: {module: test.ping, cron: "*/3 * * * *", if_running: queue, start_deadline: 4m}
        long: {module: test.ping, cron: "15 * * * *", catch_up: run_all, catch_up_max: 3, if_running: queue}
        once: {module: test.ping, interval: 50m, interval_from: epoch, catch_up: run_once, start_deadline: 10m}
        defer: {module: test.ping, cron: "20 * * * *", only_between: "06:00-18:00", outside: defer, splay: 10m}
        hours: {module: test.ping, cron: "*/20 * * * *", only_between: "06:00-18:00", catch_up: run_once, if_running: cancel}
        failing: {module: test.ping, cron: "5 * * * *", breaker: {threshold: 2, reset_after: 3h}}
        newyork: {module: test.ping, cron: "30 */2 * * *", timezone: America/New_York, start_deadline: 30m}`
	for seed := range 2 * *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 14))
				upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				set := parse(t, entries)
				begin, ran := time.Now(), map[string][]time.Time{}
				var c tamper
				now := func() time.Time { return time.Now().Add(time.Duration(c.wall.Load())) }
				const lives = 12
				for life := range lives {
					h := c.host(t, o)
					h.takes["long"], h.takes["quick"], h.takes["hours"] = 40*time.Minute, 5*time.Minute, 25*time.Minute
					h.results["failing"] = failing
					h.apply(set)
					for range r.IntN(5) {
						time.Sleep(upTo(5 * time.Hour))
						if r.IntN(3) == 0 {
							c.suspend(upTo(7 * time.Hour))
							time.Sleep(2 * time.Minute)
						}
					}
					if life == lives-1 {
						expectAllFiresListed(t, h, set, begin, now(), ran)
					}
					h.shut()
					for _, f := range h.all() {
						ran[f.Name] = append(ran[f.Name], f.Nominal)
					}
					time.Sleep(upTo(9 * time.Hour))
				}
			})
		})
	}
}

// expectAllFiresListed compares lists with timings. ran are the runs of earlier processes by nominal time.
func expectAllFiresListed(t *testing.T, h *host, set schedule.Set, begin, now time.Time, ran map[string][]time.Time) {
	missed := uint64(0)
	for name, spec := range set {
		e := h.entry(name)
		timing, err := spec.Timing(time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		byHour := map[int64]uint64{}
		first := max(begin.Unix()/3600, e.List.From.Unix()/3600+1)
		for at := range timing.Between(begin.Add(-1), now) {
			byHour[at.Unix()/3600]++
		}
		hours, carried := listed(&e), map[int64]uint64{}
		for _, f := range h.all() {
			if f.Name == name {
				ran[name] = append(ran[name], f.Nominal)
			}
		}
		for _, at := range ran[name] {
			carried[at.Unix()/3600]++
		}
		for hour := first; hour <= now.Unix()/3600; hour++ {
			got := hours[hour]
			if n := got.Ran + got.Skipped + got.Missed + got.Pending; n != byHour[hour] {
				t.Errorf("%s: %+v, the timing gives %d", name, got, byHour[hour])
			}
			if n := carried[hour]; got.Ran > n || got.Ran+got.Pending < n {
				t.Errorf("%s: %+v, %d runs were carried out", name, got, n)
			}
			missed += got.Missed
		}
	}
	if missed == 0 {
		t.Error("nothing was missed")
	}
}
