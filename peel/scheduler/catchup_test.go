package scheduler_test

import (
	"maps"
	"path/filepath"
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

// down runs a schedule for a while, keeps the process down for a while, and starts it again with another.
func down(t *testing.T, before schedule.Set, up, off time.Duration, after schedule.Set) *host {
	o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
	h := start(t, o)
	h.apply(before)
	time.Sleep(up)
	h.shut()
	time.Sleep(off)
	h = start(t, o)
	h.apply(after)
	return h
}

// A host gets another zone while its peel is down. An entry that names no zone begins anew, as its times are others; one that names its
// zone goes on, and so does one on a host whose zone has another name and the same offsets.
func TestAnEntryBeginsAnewWhenTheHostHasAnotherZone(t *testing.T) {
	for name, want := range map[string]map[string]int{
		"Asia/Tokyo":    {"here": 2, "there": 1},
		"Europe/Paris":  {"here": 1, "there": 1},
		"Europe/Berlin": {"here": 1, "there": 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: zoneOf(t, "Europe/Berlin")}
			set := parse(t, "here: {module: test.ping, cron: \"0 9 * * *\"}\nthere: {module: test.ping, cron: \"0 9 * * *\", timezone: Europe/London}\n")
			h := start(t, o)
			h.apply(set)
			time.Sleep(time.Hour)
			h.shut()
			time.Sleep(time.Minute)
			o.Zone = zoneOf(t, name)
			h = start(t, o)
			h.apply(set)
			synctest.Wait()
			for entry, n := range want {
				if marks := h.entry(entry).List.Marks; len(marks) != n || marks[n-1].Kind != ledger.Begins {
					t.Errorf("%s: %s has the marks %+v", name, entry, marks)
				}
			}
			h.shut()
			h = start(t, o)
			h.apply(set)
			synctest.Wait()
			if marks := h.entry("here").List.Marks; len(marks) != want["here"] {
				t.Errorf("%s: after one more start it has the marks %+v", name, marks)
			}
			h.shut()
		})
	}
}

func TestFiresMissedWhileThePeelWasDown(t *testing.T) {
	const hourly = `cron: "30 * * * *", `
	for name, c := range map[string]struct {
		before, after string
		want          []time.Duration // of the runs in the half hour after three and a half hours down
	}{
		"skip drops them":                    {hourly + "catch_up: skip", "", nil},
		"run_once runs the newest":           {hourly + "catch_up: run_once", "", []time.Duration{0}},
		"run_all runs each, 5 s apart":       {hourly + "catch_up: run_all", "", []time.Duration{0, 5 * time.Second, 10 * time.Second}},
		"run_all is bounded":                 {hourly + "catch_up: run_all, catch_up_max: 2", "", []time.Duration{0, 5 * time.Second}},
		"an interval too":                    {"interval: 1h, catch_up: run_all", "", []time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second}},
		"an interval from start too":         {"interval: 1h, interval_from: start, catch_up: run_once", "", []time.Duration{0}},
		"a lattice too":                      {"interval: 1h, interval_from: epoch, catch_up: run_all", "", []time.Duration{0, 5 * time.Second, 10 * time.Second, 15 * time.Second}},
		"an instant runs late":               {`at: "2000-01-01T02:45:00Z", catch_up: run_once`, "", []time.Duration{0}},
		"an instant that is skipped":         {`at: "2000-01-01T02:45:00Z"`, "", nil},
		"a delay runs late":                  {`after: 2h, catch_up: run_all`, "", []time.Duration{0}},
		"not those of another timing":        {hourly + "catch_up: run_once", `cron: "20 * * * *", catch_up: run_once`, nil},
		"other fields may change":            {hourly + "catch_up: skip", hourly + "catch_up: run_once, args: {a: 1}", []time.Duration{0}},
		"not those of a disabled entry":      {hourly + "enabled: false, catch_up: run_once", hourly + "catch_up: run_once", nil},
		"not while it is disabled":           {hourly + "catch_up: run_once", hourly + "enabled: false, catch_up: run_once", nil},
		"not those in a blackout":            {hourly + `catch_up: run_all, blackout: "2000-01-01T01:00:00Z/2000-01-01T03:00:00Z"`, "", []time.Duration{0}},
		"not those outside the windows":      {hourly + `catch_up: run_all, only_between: "01:00-02:00", outside: defer`, "", nil},
		"not those before the entry's life":  {hourly + `catch_up: run_all, not_before: "2000-01-01T02:00:00Z"`, "", []time.Duration{0, 5 * time.Second}},
		"a breaker that is closed lets them": {hourly + "catch_up: run_once, breaker: {threshold: 1, reset_after: 1h}", "", []time.Duration{0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if c.after == "" {
					c.after = c.before
				}
				h := down(t, one(t, c.before), 40*time.Minute, 210*time.Minute, one(t, c.after))
				defer h.shut()
				time.Sleep(9 * time.Minute)
				h.expectRuns("e", c.want...)
				for _, f := range h.all() {
					if f.Trigger != wire.TriggerCatchUp || !f.Nominal.Before(h.begin) || f.Entry == nil {
						t.Errorf("%+v", f)
					}
				}
			})
		})
	}
}

// Twenty fires are made up in 100 s, in which the entry is due twice. A run of a missed fire is not the entry's newest.
func TestACatchUpRunLeavesTheNewestNominalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := one(t, `cron: "* * * * *", catch_up: run_all`)
		h := down(t, set, 90*time.Second, 20*time.Minute, set)
		defer h.shut()
		time.Sleep(119 * time.Second)
		synctest.Wait()
		newest, want := h.Stored(t.Context())["e"].Nominal, h.begin.Add(90*time.Second)
		if last := h.all()[len(h.all())-1]; !newest.Equal(want) || last.Trigger != wire.TriggerCatchUp {
			t.Errorf("the newest nominal time is %v, want %v; the last run is %+v", newest, want, last)
		}
	})
}

func TestFirstStartCatchesNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour)
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, `
        a: {module: test.ping, cron: "0 * * * *", catch_up: run_all}
        b: {module: test.ping, at: "2000-01-01T12:00:00Z", catch_up: run_once}
        c: {module: test.ping, interval: 1h, catch_up: run_all}`))
		time.Sleep(time.Minute)
		if len(h.all()) != 0 {
			t.Errorf("%+v", h.all())
		}
		h.expectExhausted("b", "its time has passed")
	})
}

func TestOfTwoHundredAndFiftyMissedFiresTheNewestHundredRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := one(t, `cron: "0 * * * *", catch_up: run_all`)
		h := down(t, set, 90*time.Minute, 250*time.Hour, set)
		defer h.shut()
		time.Sleep(15 * time.Minute)
		if n := len(h.all()); n != 100 {
			t.Fatalf("%d runs", n)
		}
		for i, f := range h.all() {
			if want := h.begin.Truncate(time.Hour).Add(time.Duration(i-99) * time.Hour); !f.Nominal.Equal(want) {
				t.Fatalf("run %d is that of %v, want %v", i, f.Nominal, want)
			}
			if f.Started.Sub(h.begin) != time.Duration(i)*5*time.Second {
				t.Fatalf("run %d started after %v", i, f.Started.Sub(h.begin))
			}
		}
	})
}

func TestFiveEntriesCatchUpAtStartAndTheOthersFollowOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			text.WriteString(name + ": {module: test.ping, cron: \"0 * * * *\", catch_up: run_once}\n")
		}
		set := parse(t, text.String())
		h := down(t, set, time.Minute, 2*time.Hour, set)
		defer h.shut()
		time.Sleep(time.Minute)
		var got []time.Duration
		for _, f := range h.all() {
			got = append(got, f.Started.Sub(h.begin))
		}
		slices.Sort(got)
		if want := []time.Duration{0, 0, 0, 0, 0, 5 * time.Second, 10 * time.Second}; !slices.Equal(got, want) {
			t.Errorf("%v", got)
		}
	})
}

// The time that a peel is up adds no runs to the five that start at once.
func TestFiveEntriesCatchUpAtOnceAlsoAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		var text strings.Builder
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			text.WriteString(name + ": {module: test.ping, cron: \"0 0 * * *\", start_deadline: 1h, catch_up: run_once}\n")
		}
		h.apply(parse(t, text.String()))
		time.Sleep(12 * time.Hour)
		c.suspend(18 * time.Hour)
		time.Sleep(2 * time.Minute)
		var first time.Time
		at := map[time.Duration]int{}
		for _, f := range h.all() {
			if first.IsZero() {
				first = f.Started
			}
			at[f.Started.Sub(first)]++
		}
		if want := map[time.Duration]int{0: 5, 5 * time.Second: 1, 10 * time.Second: 1}; !maps.Equal(at, want) {
			t.Errorf("%v, want %v", at, want)
		}
	})
}

func TestMissedFiresWaitForTheEntrysOwnRunsAndLeaveItsTimerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := one(t, `cron: "0 * * * *", catch_up: run_all`)
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		h.apply(set)
		time.Sleep(90 * time.Minute)
		h.shut()
		time.Sleep(2*time.Hour + 15*time.Minute) // it is 03:45
		h = start(t, o)
		defer h.shut()
		h.takes["e"] = 10 * time.Minute
		h.apply(set)
		time.Sleep(time.Hour)
		h.expectRuns("e", 0, 10*time.Minute)
		h.expectSkips("e", ledger.AlreadyRunning, 1) // that of 04:00
	})
}

func TestMissedFiresAreSplayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := one(t, `cron: "0 0 * * *", splay: 10h, catch_up: run_once`)
		h := down(t, set, 25*time.Hour, 47*time.Hour, set)
		defer h.shut()
		time.Sleep(12 * time.Hour)
		if runs := h.runs("e"); len(runs) == 0 || runs[0] == 0 {
			t.Errorf("runs %v", runs)
		}
	})
}

func TestFireThatIsTooLateIsLeftToCatchUp(t *testing.T) {
	for policy, want := range map[string][]string{
		"skip": nil, "run_once": {"03 00:00"}, "run_all": {"02 00:00", "03 00:00"},
	} {
		t.Run(policy, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c tamper
				h := c.host(t, scheduler.Options{Zone: time.UTC})
				defer h.shut()
				h.apply(one(t, `cron: "0 0 * * *", start_deadline: 1h, catch_up: `+policy))
				time.Sleep(time.Hour)
				c.suspend(55 * time.Hour)
				time.Sleep(2 * time.Minute)
				h.expectNominal("e", want...)
			})
		})
	}
}

func TestSuspendOverACronTimeWithinTheDeadlineRunsItAndBeyondSkipsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(parse(t, `
        short: {module: test.ping, cron: "0 1 * * *", start_deadline: 1h}
        long: {module: test.ping, cron: "0 1 * * *", start_deadline: 10h}`))
		time.Sleep(10 * time.Minute)
		c.suspend(8 * time.Hour)
		time.Sleep(time.Minute)
		h.expectNominal("short")
		h.expectSkips("short", ledger.DeadlineExceeded, 1)
		h.expectNominal("long", "01 01:00")
	})
}

// A crash is a process whose state file is older than its last run.
func TestCrashBetweenAFireAndItsRecordDoublesItOnceWithTheSameNominalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := one(t, `cron: "0 * * * *", catch_up: run_all`)
		h := down(t, set, 90*time.Minute, 30*time.Minute+time.Second, set) // 02:00 was not recorded
		defer h.shut()
		time.Sleep(time.Minute)
		h.expectNominal("e", "01 02:00")
	})
}

func TestClockOf1970AtBootMakesNoStormOfMissedFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := parse(t, `
        cron: {module: test.ping, cron: "* * * * *", catch_up: run_all, catch_up_max: 3}
        interval: {module: test.ping, interval: 1m, catch_up: run_once}`)
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		h.apply(set)
		time.Sleep(90 * time.Second)
		h.shut()
		var c tamper
		c.set(-time.Since(time.Unix(0, 0)))
		h = c.host(t, o)
		defer h.shut()
		h.apply(set)
		time.Sleep(10 * time.Second)
		c.set(30 * 365 * 24 * time.Hour)
		time.Sleep(110 * time.Second)
		if n := len(h.runs("cron")); n > 3+2 {
			t.Errorf("%d runs of cron", n)
		}
		if n := len(h.runs("interval")); n > 3 {
			t.Errorf("%d runs of interval", n)
		}
	})
}

func TestYearOfMissedMinutesIsSearchedFromItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := parse(t, `
        a: {module: test.ping, interval: 1s, catch_up: run_once}
        b: {module: test.ping, cron: "* * * * *", catch_up: run_once}
        c: {module: test.ping, cron: "* * * * *", catch_up: run_once, blackout: "2000-01-01T00:00:00Z/2003-01-01T00:00:00Z"}`)
		h := down(t, set, time.Minute, 365*24*time.Hour, set)
		defer h.shut()
		synctest.Wait()
		h.expectRuns("a", 0)
		h.expectRuns("b", 0)
		h.expectRuns("c")
	})
}

func TestRestartBeforeAllMissedFiresAreMadeUpOwesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := one(t, `cron: "0 * * * *", catch_up: run_all`)
		h := start(t, o)
		h.apply(set)
		time.Sleep(90 * time.Minute)
		h.shut()
		time.Sleep(9 * time.Hour)
		ran := 0
		for range 3 {
			h = start(t, o)
			h.apply(set)
			time.Sleep(12 * time.Second) // three of nine
			ran += len(h.all())
			h.shut()
		}
		if ran != 9 {
			t.Errorf("%d runs", ran)
		}
	})
}

func TestReloadLimitsTheMissedFiresThatWait(t *testing.T) {
	const minutely = `cron: "* * * * *", catch_up: `
	for name, c := range map[string]struct {
		reload string
		more   int // runs that the reload leaves
	}{
		"skip":         {minutely + "skip", 0},
		"run_once":     {minutely + "run_once", 1},
		"catch_up_max": {minutely + "run_all, catch_up_max: 3", 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				before := one(t, minutely+"run_all")
				h := down(t, before, time.Minute, 3*time.Hour, before)
				defer h.shut()
				time.Sleep(31 * time.Second) // at 0, 5, … 30 s
				h.expectRuns("e", 0, 5*time.Second, 10*time.Second, 15*time.Second, 20*time.Second, 25*time.Second, 30*time.Second)
				h.apply(one(t, c.reload))
				time.Sleep(28 * time.Second)
				if n := len(h.runs("e")) - 7; n != c.more {
					t.Errorf("%d runs after the reload, want %d", n, c.more)
				}
			})
		})
	}
}

func TestOfFiresMissedInTwoOutagesTheNewestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := one(t, `cron: "0 * * * *", splay: {min: 10m, max: 20m}, catch_up: run_all, catch_up_max: 3`)
		var h *host
		for _, off := range []time.Duration{9 * time.Hour, 2 * time.Hour, 0} {
			h = start(t, o)
			h.apply(set)
			time.Sleep(15 * time.Second) // too short for a run
			h.entry("e")
			if off > 0 {
				h.shut()
				time.Sleep(off + 30*time.Minute)
			}
		}
		defer h.shut()
		time.Sleep(25 * time.Minute)
		h.expectNominal("e", "01 10:00", "01 11:00", "01 12:00") // of those from 01:00 on
	})
}

func TestFireThatIsSeenALittleLateRunsWithoutAnyDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "* * * * *", start_deadline: 0s`))
		time.Sleep(50 * time.Second)
		c.set(20 * time.Second)
		time.Sleep(20 * time.Second)
		h.expectNominal("e", "01 00:01")
	})
}

func TestRestartBehindRunsOfTheTimerOwesTheOthersAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := one(t, `cron: "0 * * * *", catch_up: run_all`)
		h := start(t, o)
		h.apply(set)
		time.Sleep(90 * time.Minute)
		h.shut()
		time.Sleep(4 * time.Hour)
		h = start(t, o)
		h.takes["e"] = 25 * time.Minute
		h.apply(set)
		time.Sleep(40 * time.Minute) // over 06:00, which finds the second run
		h.expectNominal("e", "01 02:00", "01 03:00")
		h.expectSkips("e", ledger.AlreadyRunning, 1)
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		time.Sleep(10 * time.Second)
		h.expectNominal("e", "01 04:00", "01 05:00")
	})
}

func TestEntriesOfAGroupMakeUpOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := parse(t, `
        a: {module: test.ping, cron: "0 * * * *", catch_up: run_once, group: g}
        b: {module: test.ping, cron: "0 * * * *", catch_up: run_once, group: g}`)
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		h.apply(set)
		time.Sleep(90 * time.Minute)
		h.shut()
		time.Sleep(time.Hour)
		h = start(t, o)
		defer h.shut()
		h.takes["a"], h.takes["b"] = time.Minute, time.Minute
		h.apply(set)
		time.Sleep(5 * time.Minute)
		h.expectRuns("a", 0)
		h.expectRuns("b", time.Minute)
	})
}

// What a process owes when it ends may lie ahead of the next one.
func TestWhatIsOwedWhenTheClockIsSetBackRunsOnceAlsoOverARestart(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var c tamper
			o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
			set := one(t, `cron: "30 0-23 * * *", catch_up: run_all, maxrunning: 9, splay: {min: 4m, max: 5m}`)
			h := c.host(t, o)
			h.apply(set)
			time.Sleep(time.Hour)
			h.shut()
			time.Sleep(3 * time.Hour) // 01:30, 02:30 and 03:30
			h = c.host(t, o)
			h.apply(set)
			time.Sleep(time.Minute)
			c.set(-time.Hour)
			runs := 0
			if restart {
				time.Sleep(time.Minute)
				runs = len(h.all())
				h.shut()
				h = c.host(t, o)
				h.apply(set)
			}
			time.Sleep(80 * time.Minute)
			for _, f := range h.all() {
				if runs++; f.Fired.Before(f.Nominal) || f.Started.Before(f.Fired) {
					t.Errorf("its times are %v, %v, %v", f.Nominal, f.Fired, f.Started)
				}
			}
			if runs != 3 {
				t.Errorf("%d runs of three, %v", runs, h.nominal("e"))
			}
			h.shut()
		})
	}
}

// TestWhatIsOwedAheadOfTheClockIsDropped sets the clock back by two hours, in a process and in a boot: the fires of the
// hours that the clock shows again are the timer's, once, and the lists say that they were not made up.
func TestWhatIsOwedAheadOfTheClockIsDropped(t *testing.T) {
	for _, boots := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var c tamper
			boot, begin := "a", time.Now()
			o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
			o.Boot = func() (string, time.Duration) { return boot, time.Since(begin) }
			set := one(t, `cron: "30 0-23 * * *", catch_up: run_all, splay: {min: 20m, max: 21m}`)
			h := c.host(t, o)
			h.apply(set)
			time.Sleep(time.Hour)
			h.shut()
			time.Sleep(5*time.Hour + 35*time.Minute) // 01:30 to 06:30; it is 06:35
			h = c.host(t, o)
			h.apply(set)
			time.Sleep(time.Minute)
			if e := h.entry("e"); len(e.Owed) != 5 && len(e.Owed) != 6 {
				t.Fatalf("%v are owed", e.Owed)
			}
			if boots {
				h.shut()
				boot = "b"
			}
			c.set(-2 * time.Hour) // 04:36
			if boots {
				h = c.host(t, o)
				h.apply(set)
			}
			time.Sleep(time.Minute)
			h.checkWaits(c.now())
			e := h.entry("e")
			if n := len(e.Owed); n == 0 || e.Owed[n-1].After(c.now()) {
				t.Errorf("%v are owed at %s", e.Owed, c.now())
			}
			missed := 0
			for f := range e.List.All() {
				if f.Nominal.After(c.now()) {
					if missed++; f.Outcome != ledger.Missed && f.Outcome != ledger.Ran {
						t.Errorf("%+v is ahead of the clock", f)
					}
				}
			}
			if missed == 0 {
				t.Error("no fire ahead of the clock is in the list")
			}
			time.Sleep(4 * time.Hour)
			times := map[string]int{}
			for _, f := range h.all() {
				times[f.Nominal.UTC().Format("15:04")]++
			}
			for _, at := range []string{"01:30", "02:30", "03:30", "04:30", "05:30", "06:30", "07:30"} {
				if times[at] != 1 {
					t.Errorf("boots %v: %s ran %d times: %v", boots, at, times[at], times)
				}
			}
			h.shut()
		})
	}
}

// TestADelayedFireIsNotWaitedForByAClockThatShowsLess boots the host with a clock that is hours, a day or years behind,
// while a fire waits for its splay.
func TestADelayedFireIsNotWaitedForByAClockThatShowsLess(t *testing.T) {
	for _, back := range []time.Duration{5 * time.Hour, 24 * time.Hour, 29 * 365 * 24 * time.Hour} {
		t.Run(back.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c tamper
				boot, begin := "a", time.Now()
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				o.Boot = func() (string, time.Duration) { return boot, time.Since(begin) }
				set := one(t, `cron: "0 * * * *", splay: {min: 30m, max: 31m}`)
				h := c.host(t, o)
				h.apply(set)
				time.Sleep(10*time.Hour + 10*time.Minute)
				h.shut()
				before := len(h.all())
				boot = "b"
				c.set(-back) // 05:10 for the first
				h = c.host(t, o)
				defer h.shut()
				h.apply(set)
				time.Sleep(time.Minute)
				e := h.entry("e")
				for f := range e.List.All() {
					if f.Nominal.After(c.now()) && f.Outcome == ledger.Pending {
						t.Errorf("%+v is ahead of the clock", f)
					}
				}
				if next := e.NextNominal; next.Before(c.now()) || next.Sub(c.now()) > time.Hour {
					t.Errorf("it fires next for %s, and it is %s", next, c.now())
				}
				time.Sleep(3 * time.Hour)
				if n := len(h.all()); before == 0 || n < 2 || n > 3 {
					t.Errorf("%d runs in 3 h, %d before", n, before)
				}
			})
		})
	}
}

// An entry that may run twice has a verdict on each fire while the peel is down: neither one that is missed nor one that
// its windows close is a run.
func TestFiresThatDidNotRunDoNotCountTowardsMaxRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := one(t, `cron: "0 * * * *", only_between: "08:00-11:00", max_runs: 2`)
		h := start(t, o)
		h.apply(set)
		time.Sleep(30 * time.Minute)
		h.shut()
		time.Sleep(12 * time.Hour)
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		e := h.entry("e")
		if total := counted(&e); total.Missed != 3 || total.Skipped != 9 {
			t.Errorf("%+v", total)
		}
	})
}
