package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

func zoneOf(t *testing.T, name string) *time.Location {
	t.Helper()
	zone, err := window.Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// startAt sleeps until the given wall time of a zone and starts a host that lives there.
func startAt(t *testing.T, zone, wall string) *host {
	t.Helper()
	location := zoneOf(t, zone)
	at, err := time.ParseInLocation(time.DateTime, wall, location)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(at))
	return start(t, scheduler.Options{Zone: location})
}

func TestCronAroundClockChanges(t *testing.T) {
	for _, c := range []struct {
		zone, from, cron string
		hours            int
		want             []string // local wall time and offset
	}{
		{"America/New_York", "2026-03-08 00:00:00", "30 2 * * *", 25, []string{"08 03:00 -0400"}},
		{"America/New_York", "2026-03-08 00:00:00", "0 2 * * *", 24, []string{"08 03:00 -0400"}},
		{"America/New_York", "2026-03-08 00:00:00", "15,45 2 * * *", 25, []string{"08 03:00 -0400"}},
		{"America/New_York", "2026-03-08 00:30:00", "0 */2 * * *", 5, []string{"08 04:00 -0400", "08 06:00 -0400"}},
		{"America/New_York", "2026-11-01 00:00:00", "30 1 * * *", 26, []string{"01 01:30 -0400"}},
		{"America/New_York", "2026-11-01 00:59:00", "*/30 * * * *", 2, []string{
			"01 01:00 -0400", "01 01:30 -0400", "01 01:00 -0500", "01 01:30 -0500",
		}},
		{"Australia/Lord_Howe", "2026-10-04 00:00:00", "15 2 * * *", 24, []string{"04 02:30 +1100"}},
		{"Australia/Lord_Howe", "2026-04-05 00:00:00", "45 1 * * *", 24, []string{"05 01:45 +1100"}},
		{"America/Havana", "2026-03-07 12:00:00", "30 0 * * *", 24, []string{"08 01:00 -0400"}},
		{"America/Havana", "2026-10-31 12:00:00", "30 0 * * *", 24, []string{"01 00:30 -0400"}},
	} {
		t.Run(c.zone+" "+c.cron, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startAt(t, c.zone, c.from)
				defer h.shut()
				h.apply(one(t, fmt.Sprintf("cron: %q", c.cron)))
				time.Sleep(time.Duration(c.hours) * time.Hour)
				var got []string
				for _, f := range h.all() {
					got = append(got, f.Started.Format("02 15:04 -0700"))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("ran at %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestHourlyCronRunsTwentyFiveTimesOnTheLongDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startAt(t, "America/New_York", "2026-10-31 23:59:59")
		defer h.shut()
		h.apply(one(t, `cron: "0 * * * *"`))
		time.Sleep(25*time.Hour + 1)
		if n := len(h.runs("e")); n != 25 {
			t.Errorf("%d runs", n)
		}
	})
}

func TestEntryWithItsOwnZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startAt(t, "Asia/Tokyo", "2026-07-01 00:00:00")
		defer h.shut()
		h.apply(parse(t, `
        tokyo: {module: test.ping, cron: "0 1 * * *"}
        utc: {module: test.ping, cron: "0 18 * * *", timezone: UTC}`))
		time.Sleep(24 * time.Hour)
		h.expectRuns("tokyo", time.Hour)
		h.expectRuns("utc", 3*time.Hour)
		if e := h.entry("utc"); e.Timing != "cron 0 18 * * * in UTC" {
			t.Errorf("timing %q", e.Timing)
		}
	})
}

// A tamper changes what the host's clocks show.
type tamper struct{ wall, up atomic.Int64 }

func (c *tamper) host(t *testing.T, o scheduler.Options) *host {
	return startWith(t, o, func(s *scheduler.Scheduler) {
		s.AlterClock(func(wall time.Time, up time.Duration) (time.Time, time.Duration) {
			return wall.Add(time.Duration(c.wall.Load())), up + time.Duration(c.up.Load())
		})
	})
}

// set sets the wall clock forward or back.
func (c *tamper) set(by time.Duration) { c.wall.Add(int64(by)) }

// now is what the wall clock shows.
func (c *tamper) now() time.Time { return time.Now().Add(time.Duration(c.wall.Load())) }

// suspend has both clocks go on, but not the one that timers live by.
func (c *tamper) suspend(d time.Duration) {
	c.wall.Add(int64(d))
	c.up.Add(int64(d))
}

const bothKinds = `
        interval: {module: test.ping, interval: 1h}
        hourly: {module: test.ping, cron: "30 * * * *"}
        daily: {module: test.ping, cron: "0 2 * * *"}`

// nominal are the nominal times of an entry's runs.
func (h *host) nominal(name string) []string {
	synctest.Wait()
	var out []string
	for _, f := range h.all() {
		if f.Name == name {
			out = append(out, f.Nominal.UTC().Format("02 15:04"))
		}
	}
	return out
}

func (h *host) expectNominal(name string, want ...string) {
	h.t.Helper()
	if got := h.nominal(name); !slices.Equal(got, want) {
		h.t.Errorf("%s ran for %v, want %v", name, got, want)
	}
}

func TestWallClockSetForwardByTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC, Log: j.logger()})
		defer h.shut()
		h.apply(parse(t, bothKinds))
		time.Sleep(25 * time.Minute)
		c.set(10 * time.Minute) // over 00:30
		time.Sleep(time.Minute)
		h.expectNominal("hourly", "01 00:30")
		if e := h.entry("interval"); !e.NextFire.Equal(h.begin.Add(70 * time.Minute)) {
			t.Errorf("the interval ends at %v on the new clock", e.NextFire)
		}
		time.Sleep(34 * time.Minute)
		h.expectNominal("interval", "01 01:10") // one hour later, on the new clock
		if j.count("the wall clock was set", "by=10m0s") != 1 {
			t.Error("the step is not in the log")
		}
	})
}

// Two lives with the same source of random times have the same splays after a step of the clock.
func TestEntriesDrawTheirSplaysInOneOrderAfterAStepOfTheClock(t *testing.T) {
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "e%02d: {module: test.ping, cron: \"30 * * * *\", splay: 20m}\n", i)
	}
	var lives [2][]time.Time
	for i := range lives {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 0))
			draw := func(n time.Duration) time.Duration { return time.Duration(random.Int64N(int64(n))) }
			var c tamper
			h := c.host(t, scheduler.Options{Zone: time.UTC, Random: draw})
			defer h.shut()
			h.apply(parse(t, text.String()))
			time.Sleep(10 * time.Minute)
			c.set(-4 * time.Hour)
			time.Sleep(time.Minute)
			states, err := h.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range states {
				lives[i] = append(lives[i], s.NextFire)
			}
		})
	}
	if len(lives[0]) != 20 || !slices.EqualFunc(lives[0], lives[1], time.Time.Equal) {
		t.Errorf("one life fires at\n%v, the other at\n%v", lives[0], lives[1])
	}
}

func TestWallClockSetForwardByFourHoursRunsEachCronEntryOnceOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, bothKinds+`
        early: {module: test.ping, cron: "20 0 * * *"}`))
		time.Sleep(10 * time.Minute)
		c.set(4 * time.Hour)
		time.Sleep(time.Minute)
		h.expectNominal("hourly", "01 03:30")
		h.expectNominal("daily", "01 02:00")
		h.expectNominal("early")
		h.expectNominal("interval")
		time.Sleep(49 * time.Minute)
		h.expectRuns("interval", 5*time.Hour) // of which four never were
	})
}

func TestWallClockSetBackByHalfAnHourRunsNoFixedTimeTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		const set = bothKinds + `
        fixed: {module: test.ping, cron: "30 0,1 * * *"}
        either: {module: test.ping, cron: ["30 0 * * *", "5 * * * *"]}`
		h.apply(parse(t, set))
		time.Sleep(40 * time.Minute)
		c.set(-30 * time.Minute)
		h.apply(parse(t, set+`
        new: {module: test.ping, cron: "30 0 * * *"}`))
		time.Sleep(25 * time.Minute) // over 00:30 again
		h.expectNominal("fixed", "01 00:30")
		h.expectNominal("either", "01 00:05", "01 00:30")
		h.expectNominal("new", "01 00:30")
		h.expectNominal("interval", "01 00:30") // one hour after the start, on the new clock
		h.apply(parse(t, set+"\n        # a reload in between"))
		time.Sleep(time.Hour)
		h.expectNominal("fixed", "01 00:30", "01 01:30")
		h.expectNominal("either", "01 00:05", "01 00:30", "01 01:05")
	})
}

func TestWildcardsGoOnWhenTheWallClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		file := filepath.Join(t.TempDir(), "state")
		h := c.host(t, scheduler.Options{Zone: time.UTC, StateFile: file})
		set := parse(t, `
        quarters: {module: test.ping, cron: "*/15 * * * *"}
        hourly: {module: test.ping, cron: "30 * * * *"}
        held: {module: test.ping, cron: "20 * * * *", only_between: "01:00-02:00", outside: defer}`)
		h.apply(set)
		time.Sleep(50 * time.Minute)
		c.set(-2*time.Hour - 30*time.Minute) // to 22:20 of the day before
		time.Sleep(30 * time.Minute)         // 22:50
		h.expectNominal("quarters", "01 00:15", "01 00:30", "01 00:45", "31 22:30", "31 22:45")
		h.expectNominal("hourly", "01 00:30", "31 22:30")
		c.set(-30 * time.Second) // 22:49:30, and 22:49:59 again
		time.Sleep(25 * time.Second)
		c.set(-5*time.Minute - 30*time.Second)
		time.Sleep(time.Minute) // 22:45:25
		h.expectNominal("quarters", "01 00:15", "01 00:30", "01 00:45", "31 22:30", "31 22:45")
		h.shut()

		h = c.host(t, scheduler.Options{Zone: time.UTC, StateFile: file}) // it remembers the fire of 22:45
		defer h.shut()
		c.set(-10 * time.Minute)
		h.apply(set)
		time.Sleep(11 * time.Minute) // 22:46:25
		h.expectNominal("quarters", "31 22:45")
		h.expectNominal("held")
		time.Sleep(2*time.Hour + 15*time.Minute) // 01:01:25
		h.expectNominal("held", "01 00:20")
	})
}

func TestWildcardThatWaitsLessThanAMinuteRunsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "* * * * *"`))
		time.Sleep(3*time.Minute + 5*time.Second)
		c.set(-20 * time.Second) // to 00:02:45
		h.apply(one(t, `cron: "* * * * *", args: {a: 1}`))
		h.apply(one(t, `cron: "* * * * *", enabled: false`))
		h.apply(one(t, `cron: "* * * * *"`))
		time.Sleep(80 * time.Second) // to 00:04:05
		h.expectNominal("e", "01 00:01", "01 00:02", "01 00:03", "01 00:04")
	})
}

func TestDisablingAndEnablingWithTheClockSetBackRunsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "30 0-23 * * *"`))
		time.Sleep(40 * time.Minute)
		c.set(-30 * time.Minute)
		h.apply(one(t, `cron: "30 0-23 * * *", enabled: false`))
		h.apply(one(t, `cron: "30 0-23 * * *"`))
		h.apply(one(t, `cron: "0,30 0-23 * * *"`))
		time.Sleep(25 * time.Minute)
		h.expectNominal("e", "01 00:30")
	})
}

func TestWallClockSetBackByADayCountsFromTheNewTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		time.Sleep(24 * time.Hour)
		h.apply(parse(t, bothKinds))
		time.Sleep(40 * time.Minute)
		c.set(-24 * time.Hour)
		time.Sleep(2 * time.Hour)
		h.expectNominal("hourly", "02 00:30", "01 01:30", "01 02:30")
		h.expectNominal("daily", "01 02:00")
		h.expectNominal("interval", "01 01:00", "01 02:00")
	})
}

func TestSuspendOfEightHoursRunsEachEntryOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, bothKinds))
		time.Sleep(10*time.Minute + 30*time.Second)
		c.suspend(8 * time.Hour)
		time.Sleep(time.Minute)
		h.expectRuns("interval", 8*time.Hour+11*time.Minute)
		h.expectNominal("hourly", "01 07:30")
		h.expectNominal("daily") // six hours late, the start deadline is three
		h.expectSkips("daily", ledger.DeadlineExceeded, 1)
		time.Sleep(time.Hour)
		h.expectRuns("interval", 8*time.Hour+11*time.Minute, 9*time.Hour+11*time.Minute)
	})
}

func TestRunThroughASuspendEndsItsIntervalFromItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = 10 * time.Minute
		h.apply(one(t, "interval: 1h"))
		time.Sleep(time.Hour + time.Minute)
		c.suspend(8 * time.Hour)
		time.Sleep(9 * time.Minute)
		if e := h.entry("e"); e.Runs != 1 || !e.NextFire.Equal(h.begin.Add(10*time.Hour+10*time.Minute)) {
			t.Errorf("%+v", e)
		}
		h.expectSkips("e", ledger.AlreadyRunning, 1)
	})
}

func TestRunDuringWhichTheClockIsSetBackEndsNoEarlierThanItStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = time.Minute
		h.apply(one(t, "interval: 1h"))
		time.Sleep(time.Hour + time.Second)
		c.set(-10 * time.Minute)
		time.Sleep(time.Minute)
		if e := h.entry("e"); !e.Ended.Equal(e.Started) || e.Runs != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestRunThatEndedBeforeAFireFreesItsSlotAlsoWhenTheSchedulerWasBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy atomic.Bool
		h := startWith(t, scheduler.Options{}, func(s *scheduler.Scheduler) {
			s.AlterClock(func(wall time.Time, up time.Duration) (time.Time, time.Duration) {
				if busy.Swap(false) {
					time.Sleep(50 * time.Millisecond)
				}
				return wall, up
			})
		})
		defer h.shut()
		h.takes["e"] = 59*time.Second + 990*time.Millisecond
		set := one(t, `cron: "* * * * *"`)
		h.apply(set)
		time.Sleep(time.Minute + 59*time.Second + 980*time.Millisecond)
		busy.Store(true)
		h.apply(set) // over the end of the run and the next minute
		h.expectSkips("e", ledger.AlreadyRunning, 0)
		if runs := h.runs("e"); len(runs) != 2 {
			t.Errorf("runs %v", runs)
		}
	})
}

func TestClockAt1970AtBootMakesNoStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("thirty years in fake time")
	}
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		c.set(-time.Since(time.Unix(0, 0)))
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, bothKinds+`
        minutely: {module: test.ping, cron: "* * * * *", splay: 30s}`))
		time.Sleep(10 * time.Second)
		c.set(56 * 365 * 24 * time.Hour)
		time.Sleep(50*time.Second + time.Minute)
		for _, name := range []string{"interval", "hourly", "daily"} {
			if n := len(h.runs(name)); n > 1 {
				t.Errorf("%s ran %d times", name, n)
			}
		}
		if n := len(h.runs("minutely")); n > 3 {
			t.Errorf("minutely ran %d times in two minutes", n)
		}
	})
}

func TestIdleSchedulerWakesOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int64
		h := startWith(t, scheduler.Options{}, func(s *scheduler.Scheduler) {
			s.AlterClock(func(wall time.Time, up time.Duration) (time.Time, time.Duration) {
				readings.Add(1)
				return wall, up
			})
		})
		defer h.shut()
		h.apply(parse(t, "a: {module: test.ping, interval: 10d}\nb: {module: test.ping, cron: \"0 0 1 6 *\"}"))
		time.Sleep(time.Second) // the write of the state
		before := readings.Load()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := readings.Load() - before; n > 24*60+1 {
			t.Errorf("%d wakes in a day", n)
		}
	})
}

// Times over which the clock was set forward count once, although it was set back over them before.
func TestTimesThatTheClockShowsTwiceCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &tamper{}
		var changes atomic.Int64
		h := c.host(t, scheduler.Options{Zone: time.UTC, Changed: func() { changes.Add(1) }})
		defer h.shut()
		h.apply(parse(t, `e: {module: test.ping, cron: "*/5 * * * *"}`))
		time.Sleep(10*time.Hour + 2*time.Minute)
		before := changes.Load()
		c.set(-5 * time.Hour)
		h.Settle(t.Context())
		time.Sleep(time.Second)
		if n := changes.Load() - before; n != 1 {
			t.Errorf("Changed was called %d times when the clock was set", n)
		}
		time.Sleep(30*time.Minute - time.Second)
		c.set(5 * time.Hour)
		h.Settle(t.Context())
		time.Sleep(time.Minute)
		// 120 until 10:00, 6 again by the clock that was behind, and one for the times until 10:32 that it was set over.
		e := h.entry("e")
		if got := counted(&e); got.Ran != 127 || got.Missed+got.Skipped != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// The clock goes back by six hours over a single time that has run.
func TestASingleTimeThatHasRunDoesNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		at := h.begin.Add(10 * time.Minute).UTC().Format(time.RFC3339)
		h.apply(one(t, `at: "`+at+`"`))
		time.Sleep(20 * time.Minute)
		c.set(-6 * time.Hour)
		time.Sleep(10 * time.Hour)
		h.expectRuns("e", 10*time.Minute)
		if e := h.entry("e"); e.State != scheduler.StateExhausted {
			t.Errorf("%s: %s", e.State, e.Why)
		}
		h.apply(one(t, `at: "`+time.Now().Add(-6*time.Hour+10*time.Minute).UTC().Format(time.RFC3339)+`"`))
		time.Sleep(time.Hour)
		if n := len(h.runs("e")); n != 2 {
			t.Errorf("%d runs, want one more of the new time", n)
		}
	})
}

// A clock that runs 500 ppm too fast is never set.
func TestSlowDriftIsNoStepOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		var j journal
		h := c.host(t, scheduler.Options{Zone: time.UTC, Log: j.logger()})
		defer h.shut()
		h.apply(one(t, "interval: 1m"))
		for range 200 {
			time.Sleep(time.Minute)
			c.set(30 * time.Millisecond)
		}
		if n := j.count("the wall clock was set"); n != 0 {
			t.Errorf("the clock was found to be set %d times", n)
		}
	})
}

// The host sleeps for two and a half intervals: the entry is overdue by more than one, and fires once.
func TestAnIntervalFiresOnceAfterAShortSuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = time.Second
		h.apply(one(t, "interval: 1h, maxrunning: 3"))
		time.Sleep(time.Second)
		c.suspend(150 * time.Minute)
		time.Sleep(2 * time.Minute)
		if e := h.entry("e"); len(h.runs("e")) != 1 || len(e.Skips) > 0 {
			t.Errorf("%d runs, skips %v", len(h.runs("e")), e.Skips)
		}
	})
}

// Reports say since when an entry accounts for its fires: that cannot lie ahead.
func TestSinceDoesNotLieAheadOfAClockThatWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "30 * * * *"`))
		time.Sleep(time.Minute)
		c.set(-2 * time.Hour)
		time.Sleep(2 * time.Minute)
		if since := h.entry("e").Since; since.After(time.Now().Add(-2 * time.Hour)) {
			t.Errorf("since %s, the clock shows %s", since, time.Now().Add(-2*time.Hour))
		}
	})
}

// A fire that waits for its splay goes on waiting where the clock is set back by more than three hours, as long as it had to. Else the
// entry would not run until the clock shows that time again.
func TestASplayGoesOnWhenTheWallClockIsSetBackByADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "*/20 * * * *", splay: {min: 8m, max: 481s}`))
		time.Sleep(10 * time.Minute)
		c.set(24 * time.Hour)
		time.Sleep(12 * time.Minute) // the fire of 00:20 waits
		c.set(-24 * time.Hour)
		time.Sleep(58 * time.Minute)
		if runs := h.runs("e"); len(runs) != 4 || runs[1].Truncate(time.Minute) != 28*time.Minute || runs[3].Truncate(time.Minute) != 68*time.Minute {
			t.Errorf("it ran at %v", runs)
		}
	})
}
