package scheduler_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
)

func TestQueueHoldsOneFireAndCoalescesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = 6*time.Minute + 30*time.Second
		h.apply(one(t, `cron: "* * * * *", if_running: queue`))
		time.Sleep(8 * time.Minute)
		h.expectRuns("e", time.Minute, 7*time.Minute+30*time.Second)
		h.expectSkips("e", ledger.QueueFull, 5)
		if f := h.fire(1); f.Nominal.Sub(h.begin) != 7*time.Minute { // the newest
			t.Errorf("the second run is that of %v", f.Nominal)
		}
	})
}

func TestFireThatWaitedBeyondTheStartDeadlineIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = 2 * time.Hour
		h.apply(one(t, `cron: "0,30 0 * * *", run_on_start: true, if_running: queue, start_deadline: 1h`))
		time.Sleep(3 * time.Hour)
		h.expectSkips("e", ledger.DeadlineExceeded, 1) // it waited since 00:30
		h.expectRuns("e", 0)
	})
}

// How long a fire has waited does not depend on what the wall clock is set to.
func TestAFireThatWaitsCountsItsDeadlineInElapsedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = 30 * time.Minute
		h.apply(one(t, `cron: "0,10 1 * * *", if_running: queue, start_deadline: 1h`))
		time.Sleep(75 * time.Minute)
		c.set(3 * time.Hour)
		time.Sleep(16 * time.Minute)
		h.expectNominal("e", "01 01:00", "01 01:10")
	})
}

func TestFireThatWaitsSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		const set = `
        e: {module: test.ping, cron: "1,30 0 * * *", if_running: queue, start_deadline: 1h}
        newer: {module: test.ping, cron: "20 0 * * *", if_running: queue, group: g}
        older: {module: test.ping, cron: "10,40 0 * * *", if_running: queue, group: g}
        long: {module: test.ping, interval: 5m, max_runs: 1, if_running: queue, group: g}
        retimed: {module: test.ping, cron: "1,2 0 * * *", if_running: queue}
        off: {module: test.ping, cron: "1,2 0 * * *", if_running: queue}`
		h := start(t, o)
		for _, name := range []string{"e", "long", "retimed", "off"} {
			h.takes[name] = 10 * time.Hour
		}
		h.apply(parse(t, set))
		time.Sleep(35 * time.Minute)
		if w := h.entry("e").Waiting; w == nil || w.Nominal.Minute() != 30 {
			t.Fatalf("waits: %+v", w)
		}
		h.shut() // at 00:35
		h = start(t, o)
		h.takes["older"] = time.Minute
		h.apply(parse(t, strings.NewReplacer(`retimed: {module: test.ping, cron: "1,2`, `retimed: {module: test.ping, cron: "1,3`,
			"off: {", "off: {enabled: false, ").Replace(set)))
		time.Sleep(2 * time.Minute)
		h.expectRuns("e", 0)
		h.expectRuns("older", 0)
		h.expectRuns("newer", time.Minute)
		h.expectNominal("e", "01 00:30")
		h.expectNominal("older", "01 00:10")
		h.expectRuns("retimed")
		h.expectRuns("off")
		if w := h.entry("e").Waiting; w != nil {
			t.Errorf("still waits: %+v", w)
		}
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(parse(t, set))
		time.Sleep(time.Second)
		if len(h.all()) != 0 {
			t.Errorf("ran again: %v", h.all())
		}
	})
}

// The start deadline is about the wait for a run, and not about the splay before it.
func TestFireWaitsOverARestartFromWhenItWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := parse(t, `
        long: {module: test.ping, interval: 5m, max_runs: 1, if_running: queue, group: g}
        e: {module: test.ping, cron: "10 0 * * *", splay: {min: 50m, max: 51m}, if_running: queue, group: g, start_deadline: 30m}`)
		h := start(t, o)
		h.takes["long"] = 10 * time.Hour
		h.apply(set)
		time.Sleep(75 * time.Minute)
		if w := h.entry("e").Waiting; w == nil {
			t.Fatal("it does not wait")
		}
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		h.expectRuns("e", 0)
	})
}

func TestFireThatWaitedTooLongOverARestartIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		h.takes["e"] = 10 * time.Hour
		set := one(t, `cron: "0,30 1 * * *", if_running: queue, start_deadline: 1h`)
		h.apply(set)
		time.Sleep(100 * time.Minute)
		h.shut()
		time.Sleep(time.Hour)
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		h.expectSkips("e", ledger.DeadlineExceeded, 1)
		h.expectRuns("e")
	})
}

func TestCancelEndsTheRunWaitsForItsEndAndStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = time.Hour
		h.linger = 3 * time.Second
		h.apply(one(t, `cron: "*/5 * * * *", if_running: cancel, retry: {attempts: 3, backoff: 1s}, pause_after_errors: 2`))
		time.Sleep(16 * time.Minute)
		h.expectRuns("e", 5*time.Minute, 10*time.Minute+3*time.Second, 15*time.Minute+3*time.Second)
		e := h.entry("e")
		if e.Error != "the next run takes its place: signal: killed" || e.FailuresInRow != 0 || e.Failures != 2 {
			t.Errorf("%q, %d failures, %d in a row", e.Error, e.Failures, e.FailuresInRow)
		}
		if h.inFlight("e") != 1 {
			t.Errorf("%d runs in flight", h.inFlight("e"))
		}
	})
}

// After the limit was lowered, so many runs are canceled that the next has a place.
func TestCancelEndsAllRunsBeyondALowerLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = time.Hour
		h.apply(one(t, `cron: "* * * * *", if_running: cancel, maxrunning: 3`))
		time.Sleep(3*time.Minute + time.Second)
		if n := h.inFlight("e"); n != 3 {
			t.Fatalf("%d runs in flight", n)
		}
		h.apply(one(t, `cron: "* * * * *", if_running: cancel, maxrunning: 1`))
		time.Sleep(time.Minute)
		h.expectRuns("e", time.Minute, 2*time.Minute, 3*time.Minute, 4*time.Minute)
		if n := h.inFlight("e"); n != 1 {
			t.Errorf("%d runs in flight", n)
		}
	})
}

func TestAllowStartsWhateverRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = 10 * time.Minute
		h.apply(one(t, `cron: "* * * * *", if_running: allow`))
		time.Sleep(5*time.Minute + time.Second)
		if n := h.inFlight("e"); n != 5 {
			t.Errorf("%d runs in flight", n)
		}
	})
}

func TestEntriesOfAGroupShareTheirLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["a"], h.takes["b"] = 9*time.Minute, time.Minute
		h.apply(parse(t, `
        a: {module: test.ping, cron: "0 * * * *", group: disk}
        b: {module: test.ping, cron: "*/5 * * * *", group: disk}
        c: {module: test.ping, cron: "*/5 * * * *"}`))
		time.Sleep(50 * time.Minute)
		h.apply(parse(t, `
        a: {module: test.ping, cron: "0 * * * *", group: disk}
        b: {module: test.ping, cron: "*/5 * * * *", group: disk}`))
		time.Sleep(26 * time.Minute)
		h.expectSkips("b", ledger.AlreadyRunning, 2) // 01:00, by its name after a, and 01:05
		if n := len(h.runs("b")); n != 11+2 {
			t.Errorf("%d runs of b", n)
		}
	})
}

func TestFiresOfAGroupWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes = map[string]time.Duration{"a": 10 * time.Minute, "b": 10 * time.Minute, "c": 10 * time.Minute}
		h.apply(parse(t, `
        a: {module: test.ping, cron: "0 * * * *", group: disk, if_running: queue}
        b: {module: test.ping, cron: "1 * * * *", group: disk, if_running: queue}
        c: {module: test.ping, cron: "1 * * * *", group: disk, if_running: queue}`))
		time.Sleep(2 * time.Hour)
		h.expectRuns("b", time.Minute, 70*time.Minute)
		h.expectRuns("c", 11*time.Minute, 80*time.Minute)
		h.expectRuns("a", time.Hour, 2*time.Hour)
	})
}

// The second fire of b replaces its first, which waits. It runs before the fire of c, which came between the two.
func TestFireThatReplacesOneThatWaitsKeepsItsPlaceInTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes = map[string]time.Duration{"a": 10 * time.Minute, "b": 10 * time.Minute, "c": 10 * time.Minute}
		h.apply(parse(t, `
        a: {module: test.ping, cron: "0 1 * * *", group: disk, if_running: queue}
        b: {module: test.ping, cron: "1,3 1 * * *", group: disk, if_running: queue}
        c: {module: test.ping, cron: "2 1 * * *", group: disk, if_running: queue}`))
		time.Sleep(2 * time.Hour)
		h.expectRuns("a", 60*time.Minute)
		h.expectRuns("b", 70*time.Minute)
		h.expectRuns("c", 80*time.Minute)
		h.expectSkips("b", ledger.QueueFull, 1)
	})
}

func TestRunOfAnEntryThatLeftItsGroupCountsForBoth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["a"] = time.Hour
		h.apply(parse(t, `a: {module: test.ping, cron: "* * * * *", group: disk}`))
		time.Sleep(90 * time.Second)
		h.apply(parse(t, `b: {module: test.ping, cron: "* * * * *", group: disk}`)) // a is renamed
		time.Sleep(time.Minute)
		h.expectSkips("b", ledger.AlreadyRunning, 1)
		h.expectRuns("b")
	})
}

func TestFireThatWaitsRunsWhatItsEntryIsThen(t *testing.T) {
	for name, c := range map[string]string{
		"other arguments": `cron: "* * * * *", if_running: queue, args: {n: 2}`,
		"another timing":  `cron: "*/2 * * * *", if_running: queue, args: {n: 2}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, scheduler.Options{Zone: time.UTC})
				defer h.shut()
				h.takes["e"] = 10 * time.Minute
				h.apply(one(t, `cron: "* * * * *", if_running: queue, args: {n: 1}`))
				time.Sleep(2*time.Minute + time.Second) // the fire of minute 2 waits
				h.apply(one(t, c))
				time.Sleep(9 * time.Minute)
				h.expectRuns("e", time.Minute, 11*time.Minute)
				if first, second := h.fire(0).Entry.Args["n"], h.fire(1).Entry.Args["n"]; first != int64(1) || second != int64(2) {
					t.Errorf("it ran with %v and, after the reload, with %v", first, second)
				}
			})
		})
	}
}

func TestFireThatWaitsGoesWithItsEntry(t *testing.T) {
	for name, c := range map[string]struct {
		reload string
		reason ledger.Reason
	}{
		"disabled": {`cron: "* * * * *", if_running: queue, enabled: false`, ledger.Disabled},
		"removed":  {"", ledger.Removed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var j journal
				h := start(t, scheduler.Options{Zone: time.UTC, Log: j.logger()})
				defer h.shut()
				h.takes["e"] = 10 * time.Minute
				h.apply(one(t, `cron: "* * * * *", if_running: queue`))
				time.Sleep(2*time.Minute + time.Second)
				if c.reload == "" {
					h.apply(nil)
				} else {
					h.apply(one(t, c.reload))
				}
				time.Sleep(time.Hour)
				h.expectRuns("e", time.Minute)
				if j.count("fire skipped", "reason="+string(c.reason)) != 1 {
					t.Error("not in the log")
				}
			})
		})
	}
}

func TestOneProbeRunsEvenWhereFiresQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 150 * time.Second
		h.answer("e", failure)
		h.apply(one(t, `cron: "* * * * *", if_running: queue, maxrunning: 3, breaker: {threshold: 1, reset_after: 5m}`))
		time.Sleep(9*time.Minute + time.Second)
		// Runs at 1, 2 and 3 min; the breaker opens at 3:30, the probe at 9 min is alone.
		h.expectRuns("e", time.Minute, 2*time.Minute, 3*time.Minute, 9*time.Minute)
		time.Sleep(2 * time.Minute)
		if n := h.inFlight("e"); n != 1 {
			t.Errorf("%d runs in flight", n)
		}
		time.Sleep(30 * time.Second) // the probe fails at 11:30
		if states, at := h.changes("e"); len(at) != 3 || at[2] != 11*time.Minute+30*time.Second || states[2] != scheduler.BreakerOpen {
			t.Errorf("%v at %v", states, at)
		}
		time.Sleep(5*time.Minute + 20*time.Second)
		h.expectRuns("e", time.Minute, 2*time.Minute, 3*time.Minute, 9*time.Minute)
		time.Sleep(10 * time.Second) // five minutes from the end of the probe have passed
		h.expectRuns("e", time.Minute, 2*time.Minute, 3*time.Minute, 9*time.Minute, 17*time.Minute)
	})
}

func TestFireThatWaitedIsRefusedByABreakerThatOpenedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 90 * time.Second
		h.answer("e", failure)
		h.apply(one(t, `cron: "* * * * *", if_running: queue, breaker: {threshold: 1, reset_after: 1h}`))
		time.Sleep(10 * time.Minute)
		h.expectRuns("e", time.Minute)
		h.expectSkips("e", ledger.CircuitOpen, 9)
	})
}
