package scheduler_test

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
)

// started are the wall times of an entry's runs.
func (h *host) started(name string) []string {
	var out []string
	for _, f := range h.all() {
		if f.Name == name {
			out = append(out, f.Started.Format("Mon 15:04"))
		}
	}
	return out
}

func (h *host) expectStarted(name string, want ...string) {
	h.t.Helper()
	if got := h.started(name); !slices.Equal(got, want) {
		h.t.Errorf("%s ran at %v, want %v", name, got, want)
	}
}

func TestWindowOverMidnightIsOpenAtItsLastMinuteAndShutAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := start(t, scheduler.Options{Zone: time.UTC, Log: j.logger()}) // a Saturday
		defer h.shut()
		h.apply(one(t, `cron: ["59 5 * * *", "0 6 * * *", "0 22 * * *", "59 21 * * *"], only_between: "22:00-06:00"`))
		time.Sleep(24 * time.Hour)
		h.expectStarted("e", "Sat 05:59", "Sat 22:00")
		h.expectSkips("e", ledger.OutsideWindow, 2)
		if j.count("fire skipped", "entry=e", "reason=outside_window") != 2 {
			t.Error("not in the log")
		}
	})
}

func TestDayThatIsShutLeavesTheNightThatStartedTheDayBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		time.Sleep(6 * 24 * time.Hour) // Friday
		h.apply(one(t, `cron: "0 */2 * * *", only_between: "22:00-06:00", not_on: saturday`))
		time.Sleep(72 * time.Hour)
		h.expectStarted("e", "Fri 02:00", "Fri 04:00", "Fri 22:00", "Sat 00:00", "Sat 02:00", "Sat 04:00",
			"Sun 22:00", "Mon 00:00")
	})
}

func TestWindowInsideTheHourThatTheClockJumpsOverDoesNotOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startAt(t, "America/New_York", "2026-03-07 00:00:00")
		defer h.shut()
		h.apply(one(t, `interval: 10m, only_between: "02:00-03:00"`))
		time.Sleep(71 * time.Hour)
		days := map[string]int{}
		for _, f := range h.all() {
			days[f.Started.Format("02")]++
		}
		if days["07"] == 0 || days["08"] != 0 || days["09"] == 0 {
			t.Errorf("runs by day: %v", days)
		}
	})
}

func TestNothingRunsInABlackout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "0 */6 * * *", run_on_start: true, blackout: ["2000-01-01T05:00:00Z/2000-01-02T00:00:00Z", 2000-01-03]`))
		time.Sleep(83 * time.Hour)
		h.expectStarted("e", "Sat 00:00", "Sun 00:00", "Sun 06:00", "Sun 12:00", "Sun 18:00", "Tue 00:00", "Tue 06:00")
		h.expectSkips("e", ledger.InBlackout, 3+4)
	})
}

func TestFiresOutsideTheWindowThatAreDeferredRunOnceWhenItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		const window = `only_between: "08:00-10:00", outside: defer`
		h.apply(parse(t, `
        cron: {module: test.ping, cron: "30 * * * *", `+window+`}
        interval: {module: test.ping, interval: 3h, `+window+`}
        start: {module: test.ping, cron: "0 0 1 1 *", run_on_start: true, `+window+`}`))
		time.Sleep(time.Hour)
		if e := h.entry("cron"); !e.NextFire.Equal(h.begin.Add(8*time.Hour)) || e.State != scheduler.StateActive {
			t.Errorf("held until %v", e.NextFire)
		}
		time.Sleep(30 * time.Hour)
		h.expectStarted("cron", "Sat 08:00", "Sat 08:30", "Sat 09:30")
		h.expectStarted("interval", "Sat 08:00")
		h.expectStarted("start", "Sat 08:00")
		h.expectSkips("cron", ledger.Superseded, 7)
		time.Sleep(2 * time.Hour)
		h.expectStarted("cron", "Sat 08:00", "Sat 08:30", "Sat 09:30", "Sun 08:00", "Sun 08:30")
		h.expectStarted("interval", "Sat 08:00", "Sun 08:00")
	})
}

func TestSplayIsAddedToTheOpeningOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "0 3 * * *", only_between: "08:00-10:00", outside: defer, splay: 1h`))
		time.Sleep(100 * 24 * time.Hour)
		seen := map[int]bool{}
		for _, f := range h.all() {
			if f.Started.Hour() != 8 || f.Nominal.Hour() != 3 {
				t.Errorf("%+v", f)
			}
			seen[f.Started.Minute()] = true
		}
		if len(h.all()) != 100 || len(seen) < 20 {
			t.Errorf("%d runs in %d different minutes", len(h.all()), len(seen))
		}
	})
}

func TestSplayDoesNotCrossTheEndOfTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "0 9 * * *", only_between: "08:00-10:00", splay: 2h`))
		time.Sleep(200 * 24 * time.Hour)
		runs := uint64(len(h.all()))
		for _, f := range h.all() {
			if f.Started.Hour() != 9 {
				t.Errorf("ran at %v", f.Started)
			}
		}
		if e := h.entry("e"); e.Skips[ledger.OutsideWindow]+runs != 200 || runs < 50 || runs > 150 {
			t.Errorf("%d runs, skips %v", runs, e.Skips)
		}
	})
}

func TestBlackoutThatIsEditedWhileAFireIsHeldMovesTheFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		const entry = `cron: "0 3 * * *", outside: defer, blackout: `
		h.apply(one(t, entry+`["2000-01-01T00:00:00Z/2000-01-01T06:00:00Z"]`))
		time.Sleep(4 * time.Hour)
		h.apply(one(t, entry+`["2000-01-01T00:00:00Z/2000-01-01T08:00:00Z"]`))
		time.Sleep(3 * time.Hour)
		h.expectRuns("e")
		if e := h.entry("e"); !e.NextFire.Equal(h.begin.Add(8 * time.Hour)) {
			t.Errorf("held until %v", e.NextFire)
		}
		h.apply(one(t, entry+`["2000-02-01T00:00:00Z/2000-02-01T08:00:00Z"]`))
		time.Sleep(time.Second)
		h.expectRuns("e", 7*time.Hour)
		time.Sleep(24 * time.Hour)
		h.expectRuns("e", 7*time.Hour, 27*time.Hour)
	})
}

func TestFireThatIsHeldSurvivesARestartAndOtherChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		const entry = `cron: "0 3 * * *", only_between: "08:00-10:00", outside: defer, splay: 1h, args: `
		h := start(t, o)
		h.apply(one(t, entry+"{a: 1}"))
		time.Sleep(4 * time.Hour)
		at := h.entry("e").NextFire
		h.apply(one(t, entry+"{a: 2}"))
		if e := h.entry("e"); !e.NextFire.Equal(at) {
			t.Errorf("other arguments moved it from %v to %v", at, e.NextFire)
		}
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, entry+"{a: 2}"))
		time.Sleep(24 * time.Hour)
		if len(h.all()) != 1 || h.fire(0).Nominal.Hour() != 3 || h.fire(0).Started.Hour() != 8 {
			t.Errorf("%+v", h.all())
		}
	})
}

func TestHeldFireIsDroppedWhenWindowsNoLongerDefer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		const entry = `cron: "0 3 * * *", only_between: "08:00-10:00", outside: `
		h.apply(one(t, entry+"defer"))
		time.Sleep(4 * time.Hour)
		h.apply(one(t, entry+"skip"))
		h.expectSkips("e", ledger.OutsideWindow, 1)
		time.Sleep(10 * time.Hour)
		h.expectRuns("e")
	})
}

func TestStateAndNextShowWhenAnEntryMayRun(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		want   []string // hours and minutes of the next runs; none: never
	}{
		"cron outside its hours":     {`cron: "0 8,21,23 * * *", only_between: "20:00-22:00"`, []string{"01 21:00", "02 21:00"}},
		"seconds until next year":    {`interval: 1s, not_on: "2000-01-01/2000-12-31"`, nil},
		"an interval in its rhythm":  {`interval: 7h, only_between: "20:00-22:00"`, []string{"01 21:00", "06 20:00"}},
		"deferred to the opening":    {`cron: "0 8,9 * * *", only_between: "20:00-22:00", outside: defer`, []string{"01 20:00", "02 20:00"}},
		"open at its time":           {`cron: "0 8,21 * * *", not_on: "2000-01-02"`, []string{"01 08:00", "01 21:00"}},
		"windows that do not open":   {`cron: "0 8 * * *", until: "2000-01-05T00:00:00Z", only_on: "2000-01-05"`, nil},
		"a minute in another season": {`cron: "* * * * *", only_on: "2000-07-01/2000-07-02"`, []string{"01 00:00", "01 00:01"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, scheduler.Options{Zone: time.UTC})
				defer h.shut()
				h.apply(one(t, c.fields))
				fires, err := h.Next(t.Context(), "e", 2)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, at := range fires {
					got = append(got, at.Format("02 15:04"))
				}
				if name == "seconds until next year" {
					if len(fires) != 2 || !fires[0].Equal(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)) {
						t.Errorf("next %v", fires)
					}
				} else if !slices.Equal(got, c.want) {
					t.Errorf("next %v, want %v", got, c.want)
				}
				e := h.entry("e")
				if len(fires) == 0 && !e.NextFire.IsZero() || len(fires) > 0 && (!e.NextFire.Equal(fires[0]) || !e.NextNominal.Equal(fires[0])) {
					t.Errorf("the state shows %v, %v", e.NextNominal, e.NextFire)
				}
			})
		})
	}
}
