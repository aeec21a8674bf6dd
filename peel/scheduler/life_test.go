package scheduler_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// expectExhausted checks that an entry never runs again, and the words for why.
func (h *host) expectExhausted(name, why string) {
	h.t.Helper()
	if e := h.entry(name); e.State != scheduler.StateExhausted || !strings.Contains(e.Why, why) || !e.NextFire.IsZero() {
		h.t.Errorf("%s is %s (%s), next fire %v; want it exhausted, as %s", name, e.State, e.Why, e.NextFire, why)
	}
}

func TestInstantsRunOnceEachAndThenTheEntryIsExhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `at: ["2000-01-01T01:00:00Z", "2000-01-01T03:30:00+01:00", "1999-12-31T23:00:00Z"]`))
		time.Sleep(48 * time.Hour)
		h.expectRuns("e", time.Hour, 150*time.Minute)
		h.expectExhausted("e", "its time has passed")
	})
}

func TestDelayCountsFromWhenTheEntryWasFirstSeenOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		h.apply(one(t, "after: 1h"))
		time.Sleep(40 * time.Minute)
		h.shut()
		h = start(t, o)
		h.apply(one(t, "after: 1h"))
		time.Sleep(time.Hour)
		h.expectRuns("e", 20*time.Minute)
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, "after: 1h"))
		time.Sleep(24 * time.Hour)
		h.expectRuns("e")
		h.expectExhausted("e", "its time has passed")
	})
}

func TestDelayIsNotRestartedByDisablingAndIsByAnotherTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "after: 1h"))
		time.Sleep(10 * time.Minute)
		h.apply(one(t, "after: 1h, enabled: false"))
		time.Sleep(10 * time.Minute)
		h.apply(one(t, "after: 1h, args: {a: 1}"))
		if e := h.entry("e"); !e.NextFire.Equal(h.begin.Add(time.Hour)) {
			t.Errorf("enabled again it fires at %v", e.NextFire.Sub(h.begin))
		}
		h.apply(one(t, "after: 30m"))
		time.Sleep(24 * time.Hour)
		h.expectRuns("e", 50*time.Minute)
	})
}

func TestEntryLivesFromNotBeforeToUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		const life = `not_before: "2000-01-01T02:00:00Z", until: "2000-01-01T05:00:00Z", run_on_start: true`
		h.apply(parse(t, `
        hourly: {module: test.ping, cron: "0 * * * *", `+life+`}
        interval: {module: test.ping, interval: 45m, `+life+`}`))
		if e := h.entry("interval"); !e.NextNominal.Equal(h.begin.Add(2 * time.Hour)) {
			t.Errorf("next %v", e.NextNominal)
		}
		time.Sleep(24 * time.Hour)
		h.expectRuns("hourly", 2*time.Hour, 3*time.Hour, 4*time.Hour) // the end is not part of it
		h.expectRuns("interval", 120*time.Minute, 165*time.Minute, 210*time.Minute, 255*time.Minute)
		h.expectExhausted("hourly", "its life ended at 2000-01-01T05:00:00Z")
		h.expectExhausted("interval", "its life ended")
	})
}

func TestLifeThatIsMadeLongerRevivesTheEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "0 * * * *", until: "2000-01-01T02:00:00Z"`))
		time.Sleep(150 * time.Minute)
		h.expectExhausted("e", "its life ended")
		h.apply(one(t, `cron: "0 * * * *", until: "2000-01-01T04:00:00Z"`))
		time.Sleep(24 * time.Hour)
		h.expectRuns("e", time.Hour, 3*time.Hour)
	})
}

func TestMaxRunsCountsRunsOfTheTimingOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		h.apply(one(t, "interval: 1h, max_runs: 3"))
		time.Sleep(150 * time.Minute)
		h.expectRuns("e", time.Hour, 2*time.Hour)
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, "interval: 1h, max_runs: 3"))
		time.Sleep(24 * time.Hour)
		h.expectRuns("e", 30*time.Minute)
		h.expectExhausted("e", "it has had all its runs")
		h.apply(one(t, "interval: 2h, max_runs: 3"))
		time.Sleep(24 * time.Hour)
		if n := len(h.runs("e")); n != 4 {
			t.Errorf("%d runs, want three more of the new timing", n)
		}
	})
}

func TestMaxRunsCountsWhatIsInFlightAndNoSkippedFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 150 * time.Second
		h.apply(one(t, "interval: 1m, max_runs: 2"))
		time.Sleep(time.Hour)
		h.expectRuns("e", time.Minute, 270*time.Second)
		h.expectSkips("e", ledger.AlreadyRunning, 2)
		h.expectExhausted("e", "it has had all its runs")
	})
}

func TestDeleteAfterRunEndsTheEntryAndItsRunIsTriedAgainFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		tries := 0
		h.results["e"] = func() wire.Result { tries++; return wire.Result{Success: tries == 3, Error: "no"} }
		h.apply(one(t, "interval: 1m, delete_after_run: true, retry: {attempts: 5, backoff: 10m}"))
		time.Sleep(15 * time.Minute) // a retry is pending
		if e := h.entry("e"); e.State != scheduler.StateExhausted || e.Running != 1 {
			t.Errorf("%s with %d runs", e.State, e.Running)
		}
		time.Sleep(24 * time.Hour)
		h.expectRuns("e", time.Minute, time.Minute, time.Minute) // three attempts of one run
		h.expectExhausted("e", "it has run")
		if e := h.entry("e"); e.Runs != 1 || e.Failures != 0 {
			t.Errorf("%d runs, %d failures", e.Runs, e.Failures)
		}
	})
}

func TestPhrasesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `when: "every sunday at 9am"`))
		time.Sleep(14 * 24 * time.Hour)
		h.expectRuns("e", 33*time.Hour, 33*time.Hour+7*24*time.Hour)
	})
}

func TestIntervalFromStartKeepsItsRateWhateverRunsAndSplayTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		h.takes["e"] = 20 * time.Minute
		h.apply(one(t, "interval: 1h, interval_from: start, splay: 35m"))
		time.Sleep(5*time.Hour + 55*time.Minute)
		synctest.Wait()
		if len(h.all()) != 5 {
			t.Errorf("%d runs", len(h.all()))
		}
		for i, f := range h.all() {
			if f.Nominal.Sub(h.begin) != time.Duration(i+1)*time.Hour {
				t.Errorf("run %d is that of %v", i, f.Nominal.Sub(h.begin))
			}
		}
		h.shut()
		time.Sleep(3 * time.Hour)
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, "interval: 1h, interval_from: start, splay: 35m"))
		if e := h.entry("e"); e.NextNominal.Minute() != 0 || e.NextNominal.Sub(h.begin) > time.Hour {
			t.Errorf("after a restart %v", e.NextNominal)
		}
	})
}

func TestIntervalFromStartThatIsShorterThanARunSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 150 * time.Second
		h.apply(one(t, "interval: 1m, interval_from: start"))
		time.Sleep(7*time.Minute + 1)
		h.expectRuns("e", time.Minute, 4*time.Minute, 7*time.Minute)
		h.expectSkips("e", ledger.AlreadyRunning, 4)
	})
}

func TestIntervalFromTheEpochStaysOnItsLatticeOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		for range 3 {
			h := start(t, o)
			h.takes["e"] = 7 * time.Minute
			h.apply(one(t, "interval: 90m, interval_from: epoch, phase: 5m"))
			time.Sleep(200 * time.Minute)
			for _, f := range h.all() {
				if (f.Started.Unix()-300)%5400 != 0 {
					t.Errorf("ran at %v", f.Started)
				}
			}
			if n := len(h.all()); n < 2 || n > 3 {
				t.Errorf("%d runs", n)
			}
			h.shut()
			time.Sleep(13 * time.Minute)
		}
	})
}

func TestHostSplayIsTheSameAfterARestartAndDiffersPerPeelAndEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		delays := func() map[string]time.Duration {
			h := start(t, scheduler.Options{})
			defer h.shut()
			h.apply(parse(t, `
            a: {module: test.ping, interval: 1h, splay: 1h, splay_mode: host}
            bc: {module: test.ping, interval: 1h, splay: {min: 10m, max: 20m}, splay_mode: host}`))
			time.Sleep(50 * time.Hour)
			seen := map[string]time.Duration{}
			for _, f := range h.all() {
				d := f.Fired.Sub(f.Nominal)
				if was, ok := seen[f.Name]; ok && was != d {
					t.Errorf("%s is delayed by %v and by %v", f.Name, was, d)
				}
				seen[f.Name] = d
			}
			return seen
		}
		first, second := delays(), delays()
		if first["a"] != second["a"] || first["bc"] != second["bc"] || first["a"] == first["bc"] {
			t.Errorf("%v and %v", first, second)
		}
		if first["bc"] < 10*time.Minute || first["bc"] >= 20*time.Minute {
			t.Errorf("%v is not in [10m, 20m)", first["bc"])
		}
	})
}

func TestSplayHasALowerBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1m, splay: {min: 2ns, max: 4ns}"))
		time.Sleep(200 * time.Minute)
		seen := map[time.Duration]int{}
		for _, f := range h.all() {
			seen[f.Fired.Sub(f.Nominal)]++
		}
		if len(seen) != 2 || seen[2] == 0 || seen[3] == 0 {
			t.Errorf("delays %v", seen)
		}
	})
}

func TestRunThatStartsLateIsCountedAndMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var c tamper
		h := c.host(t, scheduler.Options{Log: j.logger(), Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "30 * * * *", late_after: 10m`))
		time.Sleep(40 * time.Minute)
		c.suspend(70 * time.Minute) // it is 01:50
		time.Sleep(time.Minute)
		if e := h.entry("e"); e.Late != 1 || len(h.all()) != 2 || h.fire(0).Late || !h.fire(1).Late {
			t.Errorf("%d late: %+v", e.Late, h.all())
		}
		if j.count("run starts late", "entry=e") != 1 {
			t.Error("not in the log")
		}
	})
}

func TestDelayGoesOnWhenTheWallClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-20 * 365 * 24 * time.Hour, -time.Hour, time.Hour, 365 * 24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c tamper
				h := c.host(t, scheduler.Options{})
				defer h.shut()
				h.apply(one(t, "after: 10m"))
				time.Sleep(5 * time.Minute)
				c.set(by)
				time.Sleep(24 * time.Hour)
				h.expectRuns("e", by+10*time.Minute)
			})
		})
	}
}

func TestDelayOfAProcessBeforeIsDueAtTheTimeThatWasStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		h := start(t, o)
		h.apply(one(t, "after: 1h"))
		time.Sleep(10 * time.Minute)
		h.shut()
		var c tamper
		c.set(-time.Since(time.Unix(0, 0))) // a host whose clock is not set at boot
		h = c.host(t, o)
		defer h.shut()
		h.apply(one(t, "after: 1h"))
		time.Sleep(time.Minute)
		c.wall.Store(0)
		time.Sleep(time.Hour)
		h.expectRuns("e", 50*time.Minute)
	})
}

func TestLifeFollowsTheWallClockAsItIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, `
        ends: {module: test.ping, interval: 1h, until: "2000-01-01T02:30:00Z"}
        begins: {module: test.ping, interval: 1h, not_before: "2000-01-01T05:30:00Z"}`))
		time.Sleep(5 * time.Minute)
		c.set(5 * time.Hour)
		time.Sleep(time.Hour)
		h.expectNominal("ends")
		h.expectNominal("begins", "01 06:00")
	})
}

func TestLifeThatWasOverByAWrongClockGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		c.set(365 * 24 * time.Hour)
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, `
        at: {module: test.ping, at: "2000-01-01T02:00:00Z"}
        cron: {module: test.ping, cron: "0 * * * *", until: "2000-01-01T02:30:00Z"}
        interval: {module: test.ping, interval: 1h, until: "2000-01-01T02:30:00Z"}`))
		time.Sleep(5 * time.Minute)
		h.expectExhausted("at", "its time has passed")
		c.set(-365 * 24 * time.Hour)
		time.Sleep(5 * time.Hour)
		h.expectNominal("at", "01 02:00")
		h.expectNominal("cron", "01 01:00", "01 02:00")
		h.expectNominal("interval", "01 01:00", "01 02:00")
	})
}

func TestDelayOfAnEntryThatIsNewWhenTheWallClockWasSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var c tamper
			h := c.host(t, scheduler.Options{})
			defer h.shut()
			h.apply(nil)
			c.set(by) // which is seen within the minute
			h.apply(one(t, "after: 10m"))
			time.Sleep(24 * time.Hour)
			h.expectRuns("e", by+10*time.Minute)
		})
	}
}
