package scheduler_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/scheduler/simulate"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// listed returns what the list of an entry says of each hour.
func listed(e *scheduler.EntryState) map[int64]wire.ScheduleHour {
	hours := map[int64]wire.ScheduleHour{}
	for _, r := range e.List.Runs() {
		for i := range r.Count {
			at, n := r.Nominal.Add(time.Duration(i)*r.Step), uint64(1)
			if r.Hour {
				if i > 0 {
					break
				}
				at, n = r.Nominal, uint64(r.Count)
			}
			h := hours[at.Unix()/3600]
			h.Hour = at.Unix() / 3600
			count(&h, r.Fire, n)
			hours[h.Hour] = h
		}
	}
	return hours
}

func count(h *wire.ScheduleHour, f ledger.Fire, n uint64) {
	ran := f.Outcome == ledger.Ran || f.Outcome == ledger.Failed || f.Outcome == ledger.Interrupted
	switch {
	case f.Class == ledger.Hand && ran:
		h.Manual += n
	case f.Class == ledger.Hand:
	case f.Outcome == ledger.Pending:
		h.Pending += n
	case f.Outcome == ledger.Skipped:
		h.Skipped += n
		skips := maps.Clone(h.Skips)
		if skips == nil {
			skips = map[string]uint64{}
		}
		skips[string(f.Why)] += n
		h.Skips = skips
	case f.Outcome == ledger.Missed:
		h.Missed += n
	case ran:
		h.Ran += n
		if f.Outcome != ledger.Ran {
			h.Failed += n
		}
		if f.Late {
			h.Late += n
		}
		if f.Overran {
			h.Overran += n
		}
	}
}

// An interrupted run is no end: what the end before it was decided to be stays.
func TestARunThatAKillInterruptsFiresNothingThatNeedsIt(t *testing.T) {
	h := simulate.NewHost(simulate.HostOptions{
		Peel: "web-01", Zone: time.UTC,
		Exec:    func(scheduler.Fire) (time.Duration, bool) { return 2 * time.Minute, true },
		Ended:   func(scheduler.Fire, wire.Result, time.Time) {},
		Skipped: func(string, ledger.Reason, time.Time, int) {},
	})
	set := parse(t, `
        a: {module: test.ping, cron: "*/5 * * * *"}
        b: {module: test.ping, needs: {entry: a, on: failure}}`)
	at := time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	h.Start(at, set)
	h.Run(at.Add(11 * time.Minute))
	h.Kill(at.Add(11 * time.Minute)) // in the run of 12:10
	h.Start(at.Add(11*time.Minute+10*time.Second), set)
	h.Run(at.Add(12 * time.Minute))
	b := scheduler.EntryState{History: scheduler.History{List: h.List("b")}}
	if got, want := counted(&b).FireCounts, (wire.FireCounts{Skipped: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The times of an interval from start to start are those of its last fire, also after two restarts.
func TestMissedTimesOfAnIntervalKeepToItsLastFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := one(t, "interval: 10m, interval_from: start")
		h := start(t, o)
		h.apply(set)
		time.Sleep(11 * time.Minute)
		h.shut()
		for range 2 {
			time.Sleep(17 * time.Minute) // 00:28 and 00:46
			h = start(t, o)
			h.apply(set)
			time.Sleep(time.Minute)
			if next := h.entry("e").NextNominal; next.Minute()%10 != 0 {
				t.Errorf("the next fire is at %v", next)
			}
			h.shut()
		}
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		for f := range new(h.entry("e").List).All() {
			if f.Nominal.Minute()%10 != 0 {
				t.Errorf("%v is %s", f.Nominal, f.Outcome)
			}
		}
	})
}

// A host that restarts more often than the interval of an entry that never ran fires it one interval after it was
// activated, and lists each interval that it missed.
func TestTheFirstIntervalGoesOnOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := parse(t, `
        end: {module: test.ping, interval: 1h}
        start: {module: test.ping, interval: 1h, interval_from: start}`)
		began := time.Now()
		h := start(t, o)
		h.apply(set)
		for _, down := range []time.Duration{5 * time.Minute, 70 * time.Minute, 5 * time.Minute} { // 00:45, 01:25 and 03:15
			time.Sleep(40 * time.Minute)
			h.shut()
			time.Sleep(down)
			h = start(t, o)
			h.apply(set)
		}
		defer h.shut()
		for _, name := range []string{"end", "start"} {
			var got []string
			for f := range new(h.entry(name).List).All() {
				got = append(got, fmt.Sprint(f.Nominal.Sub(began), " ", f.Outcome))
			}
			want := []string{"1h0m0s ran", "2h0m0s missed", "3h0m0s ran"}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// A mark of a start says when the last record was written, and whether the clock was set since, if the host has not booted.
func TestTheMarkOfAStartSaysWhatTheClocksShowedBefore(t *testing.T) {
	for name, c := range map[string]struct {
		boot  string // of the second process
		set   time.Duration
		step  time.Duration
		known bool
	}{
		"a restart":                            {boot: "a", known: true},
		"a restart and a clock that was set":   {boot: "a", set: -time.Hour, step: -time.Hour, known: true},
		"a boot":                               {boot: "b", set: -time.Hour},
		"a boot that has no name, and no step": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				boot := "a"
				var clock tamper
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC, Boot: func() (string, time.Duration) {
					return boot, time.Since(begin)
				}}
				set := one(t, `cron: "30 * * * *"`)
				h := clock.host(t, o)
				h.apply(set)
				time.Sleep(time.Hour)
				h.shut()
				ended := time.Now()
				clock.set(c.set)
				time.Sleep(10 * time.Minute)
				boot = c.boot
				h = clock.host(t, o)
				defer h.shut()
				h.apply(set)
				marks := h.Marks(t.Context())
				m := marks[len(marks)-1]
				if m.Kind != ledger.Starts || !m.Old.Equal(ended) || m.Step != c.step || m.Known != c.known || m.Boot != c.boot {
					t.Errorf("%+v, stopped at %v", m, ended)
				}
			})
		})
	}
}

// A fire that is held, or that follows a run, waits by the clock as it is set back, and not until it shows that time again.
func TestFiresThatWaitAreArmedAnewWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock tamper
		h := clock.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		clock.set(24 * time.Hour)
		h.apply(parse(t, `
        held: {module: test.ping, cron: "*/30 * * * *", only_between: "08:00-18:00", outside: defer}
        target: {module: test.ping, cron: "40 0 * * *"}
        splayed: {module: test.ping, cron: "35 0 * * *", splay: {min: 20m, max: 21m}}
        needs: {module: test.ping, cron: "0 12 * * *", needs: {entry: target, on: done}, splay: {min: 10m, max: 11m}}`))
		time.Sleep(41 * time.Minute) // 00:41 of the next day
		clock.set(-24 * time.Hour)
		time.Sleep(12 * time.Minute)
		if n := len(h.runs("needs")); n != 1 {
			t.Errorf("the entry that follows a run has run %d times", n)
		}
		time.Sleep(17 * time.Hour) // 17:53
		if n := len(h.runs("splayed")); n != 1 {
			t.Errorf("the entry that waited for its splay has run %d times", n)
		}
		if n := len(h.runs("held")); n != 20 {
			t.Errorf("the entry that is held at night has run %d times by day", n)
		}
	})
}

// An entry runs after another one. The clock is set while the first one runs. Both fires are listed with the time of the
// old clock.
func TestAFireThatFollowsARunIsOfItsEra(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock tamper
		h := clock.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["target"] = 10 * time.Minute
		h.apply(parse(t, `
        target: {module: test.ping, cron: "30 0 * * *"}
        needs: {module: test.ping, needs: {entry: target, on: done}}
        unmet: {module: test.ping, needs: {entry: target, on: failure}}`))
		time.Sleep(35 * time.Minute)
		clock.set(-5 * time.Hour)
		time.Sleep(10 * time.Minute)
		fires := func(name string) []ledger.Fire {
			e := h.entry(name)
			return slices.Collect(e.List.All())
		}
		target := fires("target")
		for _, name := range []string{"needs", "unmet"} {
			list := fires(name)
			if len(list) != 1 || list[0].Era != target[0].Era || !list[0].Nominal.Equal(target[0].Nominal) {
				t.Errorf("%s has %+v, and the entry that it follows %+v", name, list, target)
			}
		}
	})
}

// A process stops at 00:04:59.999, and waits for a run until 00:05:10: it was down at 00:05.
func TestATimeWhileAProcessWaitsForItsRunsToStopIsInTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		set := parse(t, `
        long: {module: test.ping, cron: "4 * * * *"}
        e: {module: test.ping, cron: "*/5 * * * *"}`)
		h := start(t, o)
		h.takes["long"] = time.Hour
		h.apply(set)
		time.Sleep(5*time.Minute - time.Millisecond)
		stopped := time.Now()
		h.shut()
		if time.Since(stopped) < 10*time.Second {
			t.Fatal("it did not wait")
		}
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		a, err := h.Account(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if old := a.Marks[len(a.Marks)-1].Old; !old.Equal(stopped) {
			t.Errorf("the last record is of %s, want %s", old, stopped)
		}
		e := h.entry("e")
		if list := slices.Collect(e.List.All()); len(list) != 1 || list[0].Outcome != ledger.Missed || list[0].Why != ledger.Down {
			t.Errorf("%+v", list)
		}
	})
}

// Of two entries the list of the busier one begins later where they have too many fires.
func TestTheLongestListIsShortened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC, StateFile: filepath.Join(t.TempDir(), "state")})
		defer h.shut()
		h.apply(parse(t, `
        busy: {module: test.ping, cron: "* * * * *"}
        calm: {module: test.ping, cron: "0 * * * *"}`))
		time.Sleep(24*time.Hour + time.Second)
		h.Shorten(t.Context(), 600)
		busy, calm := h.entry("busy"), h.entry("calm")
		if n := counted(&busy).Ran; n != 361 || !busy.List.From.Equal(h.begin.Add(18*time.Hour)) {
			t.Errorf("the busy one has %d fires since %v", n, busy.List.From)
		}
		if n := counted(&calm).Ran; n != 24 || !calm.List.From.Equal(h.begin) {
			t.Errorf("the calm one has %d fires since %v", n, calm.List.From)
		}
	})
}

// A report that is made in the moment in which the host wakes has the fires of the suspend. Else masters take their
// times for missed, and the report after it does not take back what it accounts for.
func TestAnAccountAfterASuspendHasTheFiresThatWereDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["interval"], h.takes["hourly"] = time.Minute, time.Minute
		h.apply(parse(t, bothKinds))
		time.Sleep(10*time.Minute + 30*time.Second)
		c.suspend(150 * time.Minute)

		a, err := h.Account(t.Context())
		if err != nil {
			t.Fatal(err)
		}

		want := map[string]string{
			"interval": "01:00 pending, 02:00 missed",
			"hourly":   "00:30 missed, 01:30 missed, 02:30 pending",
			"daily":    "02:00 pending",
		}
		for _, e := range a.Entries {
			var got []string
			for f := range e.List.All() {
				got = append(got, f.Nominal.Format("15:04 ")+f.Outcome.String())
			}
			slices.Sort(got)
			if text := strings.Join(got, ", "); text != want[e.Name] {
				t.Errorf("%s: %s, want %s", e.Name, text, want[e.Name])
			}
		}
	})
}

// The clock is set while the peel is down, and the host does not boot: the peel misses what was due since it stopped, and nothing that
// was due before.
func TestWhatWasMissedWhileTheClockWasSetFollowsTheClockOfTheHost(t *testing.T) {
	for name, step := range map[string]time.Duration{"back": -5 * time.Hour, "ahead": 5 * time.Hour, "not": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var clock tamper
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC, Boot: func() (string, time.Duration) {
					return "a", time.Since(begin)
				}}
				clock.set(-step)
				set := one(t, `cron: "*/10 * * * *"`)
				h := clock.host(t, o)
				h.apply(set)
				time.Sleep(5*time.Hour + 5*time.Minute)
				h.shut()
				clock.set(step)
				time.Sleep(20 * time.Minute)
				h = clock.host(t, o)
				defer h.shut()
				h.apply(set)
				var missed []string
				list := h.entry("e").List
				for f := range list.All() {
					if f.Outcome == ledger.Missed {
						missed = append(missed, f.Nominal.UTC().Format("15:04"))
					}
				}
				if want := []string{"05:10", "05:20"}; !slices.Equal(missed, want) {
					t.Errorf("missed at %v, want %v", missed, want)
				}
			})
		})
	}
}

// Each entry has been active for less than the step by which the clock is set while the peel is down, from 00:30:20 to 01:10:20.
func TestAStepInAStopMovesSinceWhenEntriesHaveBeenActive(t *testing.T) {
	const first = `
        cron: {module: test.ping, cron: "*/20 * * * *"}
        made_up: {module: test.ping, cron: "*/20 * * * *", catch_up: run_once}
        interval: {module: test.ping, interval: 90m, catch_up: run_once}`
	const late = `
        late: {module: test.ping, cron: "30 * * * *", catch_up: run_once}`
	for _, step := range []time.Duration{-5 * time.Hour, -2 * time.Hour, 0, 2 * time.Hour, 5 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var clock tamper
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC, Boot: func() (string, time.Duration) {
					return "a", time.Since(begin)
				}}
				clock.set(-step)
				h := clock.host(t, o)
				h.apply(parse(t, first))
				time.Sleep(30*time.Minute + 10*time.Second)
				h.apply(parse(t, first+late))
				time.Sleep(10 * time.Second)
				h.shut()

				clock.set(step)
				time.Sleep(40 * time.Minute)
				h = clock.host(t, o)
				defer h.shut()
				h.apply(parse(t, first+late))
				time.Sleep(20 * time.Minute)
				for name, want := range map[string]struct{ missed, ran []string }{
					"cron":     {missed: []string{"00:40", "01:00"}, ran: []string{"01:20"}},
					"made_up":  {missed: []string{"00:40"}, ran: []string{"01:00", "01:20"}},
					"interval": {ran: []string{"01:30"}},
					"late":     {ran: []string{"01:30"}},
				} {
					var missed, ran []string
					list := h.entry(name).List
					for f := range list.All() {
						if f.Outcome == ledger.Missed {
							missed = append(missed, f.Nominal.UTC().Format("15:04"))
						}
					}
					for _, f := range h.all() {
						if f.Name == name {
							ran = append(ran, f.Nominal.UTC().Format("15:04"))
						}
					}
					if !slices.Equal(missed, want.missed) || !slices.Equal(ran, want.ran) {
						t.Errorf("%s: missed %v, ran %v; want %+v", name, missed, ran, want)
					}
				}
			})
		})
	}
}

// The clock is set back by 5 h in a stop. The next process ends before it has a schedule, and the one after it misses a fire.
func TestAStepInAStopIsKnownToTheProcessAfterTheNext(t *testing.T) {
	for name, boot := range map[string]string{"restart": "a", "boot": "b"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var clock tamper
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				o.Boot = func() (string, time.Duration) { return "a", time.Since(begin) }
				set := one(t, `cron: "0 * * * *"`)
				clock.set(5 * time.Hour)
				h := clock.host(t, o)
				h.apply(set)
				time.Sleep(30 * time.Minute)
				h.shut()

				clock.set(-5 * time.Hour)
				o.Boot = func() (string, time.Duration) { return boot, time.Since(begin) }
				h = clock.host(t, o)
				time.Sleep(10 * time.Minute)
				h.shut()

				time.Sleep(30 * time.Minute)
				h = clock.host(t, o)
				defer h.shut()
				h.apply(set)
				e := h.entry("e")
				list := slices.Collect(e.List.All())
				if len(list) != 1 || list[0].Outcome != ledger.Missed || list[0].Nominal.Sub(begin) != time.Hour {
					t.Errorf("%+v", list)
				}
			})
		})
	}
}
