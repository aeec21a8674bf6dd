package scheduler_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestWithoutSplayAFireComesAtItsNominalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute)
		if f := h.fire(0); !f.Nominal.Equal(f.Fired) || !f.Fired.Equal(f.Started) || f.Trigger != wire.TriggerTimer {
			t.Errorf("%+v", f)
		}
	})
}

func TestSplayIsInItsRangeAndNeverItsUpperBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1m, splay: 3ns")) // of three values each comes up soon, and a fourth would
		time.Sleep(500 * time.Minute)
		seen := map[time.Duration]int{}
		for _, f := range h.all() {
			seen[f.Fired.Sub(f.Nominal)]++
		}
		if len(seen) != 3 || seen[0] == 0 || seen[1] == 0 || seen[2] == 0 {
			t.Errorf("delays %v", seen)
		}
	})
}

func TestSplayEqualToTheIntervalDelaysEachFireOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 20 * time.Second
		h.apply(one(t, "interval: 1m, splay: 1m"))
		const n = 2000
		time.Sleep(n * (60 + 20 + 30) * time.Second) // interval, run and the splay's mean
		runs := h.runs("e")
		for i := 1; i < len(runs); i++ {
			if gap := runs[i] - runs[i-1]; gap < 80*time.Second || gap >= 140*time.Second {
				t.Fatalf("%v between runs %d and %d", gap, i-1, i)
			}
		}
		if len(runs) < n*97/100 || len(runs) > n*103/100 {
			t.Errorf("%d runs, want about %d", len(runs), n)
		}
		if skips := h.entry("e").Skips; len(skips) > 0 {
			t.Errorf("skips %v", skips)
		}
	})
}

func TestMeanPeriodIsTheIntervalTheRunAndHalfTheSplay(t *testing.T) {
	for _, c := range []struct {
		from string
		want time.Duration
	}{{"end", 10*time.Minute + 2*time.Minute + 3*time.Minute}, {"start", 10 * time.Minute}, {"epoch", 10 * time.Minute}} {
		t.Run(c.from, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, scheduler.Options{Zone: time.UTC})
				defer h.shut()
				h.takes["e"] = 2 * time.Minute
				h.apply(one(t, "interval: 10m, splay: 6m, interval_from: "+c.from))
				time.Sleep(2000 * c.want)
				runs := h.runs("e")
				mean := (runs[len(runs)-1] - runs[0]) / time.Duration(len(runs)-1)
				// The mean of 2,000 splays is within 15 s of three minutes, but for one time in ten million.
				if off := (mean - c.want).Abs(); off > 15*time.Second || c.from != "end" && off > time.Second {
					t.Errorf("%d runs, one in %v", len(runs), mean)
				}
			})
		})
	}
}

func TestSplayAboveTheCronGapIsClampedAndOrderKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, `cron: "*/10 * * * *", splay: 3h`))
		time.Sleep(24 * time.Hour)
		if len(h.all()) < 143 {
			t.Fatalf("%d fires in a day", len(h.all()))
		}
		for i, f := range h.all() {
			if want := h.begin.Add(time.Duration(i+1) * 10 * time.Minute); !f.Nominal.Equal(want) {
				t.Fatalf("fire %d is that of %v, want %v", i, f.Nominal, want)
			}
			if delay := f.Started.Sub(f.Nominal); delay < 0 || delay >= 10*time.Minute {
				t.Errorf("delay %v", delay)
			}
		}
	})
}

func TestRunOnStartFiresOnceWithoutSplay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(parse(t, `
        e: {module: test.ping, interval: 1h, run_on_start: true, splay: {min: 10m, max: 11m}}
        f: {module: test.ping, cron: "0 * * * *", run_on_start: true}
        g: {module: test.ping, interval: 1h, run_on_start: true, enabled: false}`))
		h.expectRuns("e", 0)
		h.expectRuns("f", 0)
		if f := h.fire(0); f.Trigger != wire.TriggerStart || !f.Fired.Equal(f.Nominal) {
			t.Errorf("%+v", f)
		}
		if next := h.entry("e").NextNominal; !next.Equal(h.begin.Add(time.Hour)) {
			t.Errorf("the interval after the first run ends at %v", next)
		}
		time.Sleep(69 * time.Minute)
		h.expectRuns("e", 0)
		h.expectRuns("f", 0, time.Hour)
		h.expectRuns("g")
	})
}

func TestRemovalDuringTheSplayRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1m, splay: 24h"))
		h.sleepInto("e")
		h.apply(nil)
		time.Sleep(48 * time.Hour)
		h.expectRuns("e")
	})
}

func TestReloadOfAnEqualEntryDuringTheSplayKeepsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1m, splay: 24h"))
		at := h.sleepInto("e")
		if c := h.apply(one(t, "splay: 1d, interval: 60s")); len(c.Kept) != 1 {
			t.Fatalf("%+v", c)
		}
		time.Sleep(time.Until(at) - 1)
		h.expectRuns("e")
		time.Sleep(time.Nanosecond)
		h.expectRuns("e", at.Sub(h.begin))
	})
}

func TestChangedSplayHoldsFromTheNextFireOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(one(t, "interval: 1h, splay: 5h"))
		h.apply(one(t, "interval: 1h, splay: 1m"))
		e := h.entry("e")
		if delay := e.NextFire.Sub(e.NextNominal); !e.NextNominal.Equal(h.begin.Add(time.Hour)) || delay >= time.Minute {
			t.Errorf("before the nominal time: %v after %v", delay, e.NextNominal)
		}
		h.apply(one(t, "interval: 1h, splay: 24h"))
		at := h.sleepInto("e")
		h.apply(one(t, "interval: 1h, splay: 1s"))
		if e := h.entry("e"); !e.NextFire.Equal(at) {
			t.Errorf("a wait that has begun was changed from %v to %v", at, e.NextFire)
		}
	})
}

func TestRunThatEndsDuringTheSplayOfAnotherStartsTheIntervalAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 90 * time.Second
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute)
		h.apply(one(t, "interval: 1m, splay: 1000h")) // the fire at 2m waits
		time.Sleep(90 * time.Second)
		h.expectSkips("e", ledger.Superseded, 1)
		if e := h.entry("e"); !e.NextNominal.Equal(h.begin.Add(150*time.Second + time.Minute)) {
			t.Errorf("next nominal time %v", e.NextNominal)
		}
	})
}

// sleepInto sleeps until the nominal time of an entry's next fire has passed, and returns when the fire comes. With
// a splay of hours it practically never comes before this returns.
func (h *host) sleepInto(name string) time.Time {
	e := h.entry(name)
	time.Sleep(time.Until(e.NextNominal) + time.Millisecond)
	return e.NextFire
}

// A restart within the wait of a nightly fire keeps it, and one that is down when it is due misses it, once.
func TestARestartKeepsAFireThatWaitsForItsSplay(t *testing.T) {
	for name, c := range map[string]struct {
		restarts     []time.Duration // each takes a second
		down         time.Duration   // after them
		runs, missed uint64
	}{
		"once":               {[]time.Duration{70 * time.Minute}, 0, 1, 0},
		"three times":        {[]time.Duration{50 * time.Minute, 61 * time.Minute, 75 * time.Minute}, 0, 1, 0},
		"and it is down":     {[]time.Duration{70 * time.Minute}, time.Hour, 0, 1},
		"before the fire":    {[]time.Duration{30 * time.Minute}, 0, 1, 0},
		"after the fire":     {[]time.Duration{2 * time.Hour}, 0, 1, 0},
		"down the whole day": {[]time.Duration{10 * time.Minute}, 24 * time.Hour, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				set := one(t, `cron: "0 1 * * *", splay: {min: 40m, max: 50m}`)
				begin := time.Now()
				h := start(t, o)
				h.apply(set)
				var runs []scheduler.Fire
				for i, at := range append(c.restarts, 3*time.Hour) {
					time.Sleep(time.Until(begin.Add(at)))
					runs = append(runs, h.all()...)
					if i == len(c.restarts) {
						break
					}
					h.shut()
					if time.Sleep(time.Second); i == len(c.restarts)-1 {
						time.Sleep(c.down)
					}
					h = start(t, o)
					h.apply(set)
				}
				defer h.shut()
				if uint64(len(runs)) != c.runs {
					t.Errorf("%d runs", len(runs))
				}
				for _, f := range runs {
					if wait := f.Started.Sub(begin); wait < 100*time.Minute || wait >= 110*time.Minute || !f.Nominal.Equal(begin.Add(time.Hour)) {
						t.Errorf("%+v", f)
					}
				}
				e := h.entry("e")
				if total := counted(&e); total.Ran != c.runs || total.Missed != c.missed || total.Skipped != 0 {
					t.Errorf("%+v", total)
				}
			})
		})
	}
}

// A commit shortens or removes the splay while a fire waits, with the peel up or down, and the peel restarts: the fire
// keeps its time, as without the restart.
func TestARestartAfterAShorterSplayKeepsAFireThatWaits(t *testing.T) {
	for _, shorter := range []string{"1m", "0s"} {
		for _, down := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				h := start(t, o)
				h.apply(one(t, `cron: "0 1 * * *", splay: {min: 40m, max: 50m}`))
				at := h.sleepInto("e")
				after := one(t, `cron: "0 1 * * *", splay: `+shorter)
				if !down {
					h.apply(after)
				}
				h.shut()
				time.Sleep(10 * time.Minute)
				h = start(t, o)
				h.apply(after)
				defer h.shut()
				if e := h.entry("e"); !e.NextFire.Equal(at) {
					t.Errorf("splay %s, down %t: the fire moves from %v to %v", shorter, down, at, e.NextFire)
				}
				time.Sleep(time.Until(at) + time.Second)
				if runs := h.all(); len(runs) != 1 || !runs[0].Nominal.Equal(at.Truncate(time.Hour)) {
					t.Errorf("splay %s, down %t: runs %+v", shorter, down, runs)
				}
			})
		}
	}
}

// Hosts that wake together do not run together: each waits for the splay of the newest fire, also over a restart.
func TestAfterASuspendTheNewestFireWaitsForItsSplay(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var c tamper
			o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
			set := one(t, `cron: "*/10 * * * *", splay: {min: 5m, max: 6m}`)
			h := c.host(t, o)
			h.apply(set)
			time.Sleep(12 * time.Minute) // the fire of 00:10 waits
			c.suspend(19 * time.Minute)
			time.Sleep(time.Minute)
			h.expectNominal("e") // it is 00:32
			if restart {
				h.shut()
				h = c.host(t, o)
				h.apply(set)
			}
			defer h.shut()
			time.Sleep(2*time.Minute + 59*time.Second)
			h.expectNominal("e")
			time.Sleep(61 * time.Second)
			h.expectNominal("e", "01 00:30")
			e := h.entry("e")
			if total := counted(&e); total.Ran != 1 || total.Missed+total.Skipped != 2 {
				t.Errorf("%+v", total)
			}
		})
	}
}
