package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// The untouched entries must run as they would if nobody ever reloaded, whatever happens to the others.
func TestRandomReloadsNeitherLoseNorDoubleARunOfAnUntouchedEntry(t *testing.T) {
	const untouched = `
        u1: {module: test.ping, interval: 7m, args: {a: [1, 2]}}
        u2: {module: test.ping, interval: 3m, maxrunning: 2}
        u3: {module: test.ping, cron: "*/4 * * * *"}
        u4: {module: test.ping, cron: "17 3,9 * * *", timezone: America/New_York}
        u5: {module: test.ping, interval: 10m, run_on_start: true}
`
	names := []string{"u1", "u2", "u3", "u4", "u5"}
	const span = 12 * time.Hour
	begin := func(t *testing.T) *host {
		h := start(t, scheduler.Options{})
		h.takes = map[string]time.Duration{"u1": time.Minute, "u2": 8 * time.Minute, "u5": 30 * time.Second, "r0": time.Hour, "r1": time.Minute}
		return h
	}
	want := map[string][]time.Duration{}
	synctest.Test(t, func(t *testing.T) {
		h := begin(t)
		h.apply(parse(t, untouched))
		time.Sleep(span)
		for _, name := range names {
			want[name] = h.runs(name)
		}
		h.shut()
	})
	for seed := range 3 * *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				h := begin(t)
				defer h.shut()
				h.apply(parse(t, untouched))
				for time.Since(h.begin) < span {
					h.apply(parse(t, untouched+others(r)))
					time.Sleep(min(time.Duration(r.Int64N(int64(10*time.Minute))), time.Until(h.begin.Add(span))))
				}
				for _, name := range names {
					h.expectRuns(name, want[name]...)
				}
			})
		})
	}
}

// others are entries that come, go and change.
func others(r *rand.Rand) string {
	var text strings.Builder
	for i := range 5 {
		if r.IntN(3) == 0 {
			continue
		}
		timing := []string{"interval: 2m", "interval: 11m", `cron: "*/3 * * * *"`, `cron: "5 * * * *"`}[r.IntN(4)]
		fmt.Fprintf(&text, "        r%d: {module: test.ping, %s, splay: %ds, maxrunning: %d, enabled: %t, run_on_start: %t, args: {n: %d}}\n",
			i, timing, r.IntN(200), 1+r.IntN(2), r.IntN(4) > 0, r.IntN(2) > 0, r.IntN(3))
	}
	return text.String()
}

// Whatever happens to an entry, it never has more runs in flight than its limit, nor two runs of one nominal time.
func TestRandomReloadsOfAnEntryKeepItsLimits(t *testing.T) {
	for seed := range 3 * *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				h := start(t, scheduler.Options{})
				defer h.shut()
				h.takes["e"] = 5 * time.Minute
				for range 200 {
					timing := []string{"interval: 2m", "interval: 1h", `cron: "* * * * *"`, `cron: "*/3 * * * *"`}[r.IntN(4)]
					set := one(t, fmt.Sprintf("%s, splay: %ds, enabled: %t, run_on_start: true", timing, r.IntN(200), r.IntN(4) > 0))
					if r.IntN(5) == 0 {
						set = nil
					}
					h.apply(set)
					if h.inFlight("e") > 1 {
						t.Fatalf("%d runs in flight", h.inFlight("e"))
					}
					time.Sleep(time.Duration(r.Int64N(int64(10 * time.Minute))))
				}
				nominal, starts := map[time.Time]bool{}, 0
				for _, f := range h.all() {
					if nominal[f.Nominal] {
						t.Errorf("two runs of %v", f.Nominal)
					}
					nominal[f.Nominal] = true
					if f.Trigger == wire.TriggerStart {
						starts++
					}
				}
				if starts > 1 || len(h.all()) < 50 {
					t.Errorf("%d runs at start, %d in all", starts, len(h.all()))
				}
			})
		})
	}
}

// Whatever people order and settings say, no limit is exceeded, every fire has one fate, and the peel stops.
func TestRandomOrdersAndSettingsKeepTheLimitOfAGroup(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 2))
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				h := start(t, o)
				ran := 0
				for range 50 {
					for _, name := range []string{"a", "b", "c"} {
						h.answer(name, func() wire.Result { return wire.Result{Success: seed%3 > 0} })
						h.mu.Lock()
						h.takes[name] = time.Duration(r.Int64N(int64(20 * time.Minute)))
						h.mu.Unlock()
					}
					h.apply(parse(t, group(r)))
					name := string(rune('a' + r.IntN(3)))
					switch r.IntN(8) {
					case 0:
						_ = h.Pause(t.Context(), name, scheduler.Override{Until: time.Now().Add(time.Duration(r.Int64N(int64(time.Hour))))})
					case 1:
						_ = h.Resume(t.Context(), name, "ada")
					case 2:
						_ = h.Start(t.Context(), name, "ada")
					case 3:
						_, _ = h.Skip(t.Context(), name, scheduler.Override{})
					case 4:
						ran += len(h.all())
						h.shut()
						time.Sleep(time.Duration(r.Int64N(int64(2 * time.Hour))))
						h = start(t, o)
						h.apply(parse(t, group(r)))
					}
					for range 10 {
						time.Sleep(time.Duration(r.Int64N(int64(5 * time.Minute))))
						if n := h.inFlight("a") + h.inFlight("b") + h.inFlight("c"); n > 2 {
							t.Fatalf("%d runs in flight", n)
						}
					}
				}
				if ran += len(h.all()); ran < 50 {
					t.Errorf("%d runs", ran)
				}
				h.shut()
			})
		})
	}
}

// group is entries that share a limit of two.
func group(r *rand.Rand) string {
	var text strings.Builder
	mode := []string{"skip", "queue", "cancel"}[r.IntN(3)]
	for i, name := range []string{"a", "b", "c"} {
		if i > 0 && r.IntN(6) == 0 {
			continue
		}
		timing := []string{"interval: 2m", "interval: 5m, interval_from: start", `cron: "*/3 * * * *"`, "interval: 10m, interval_from: epoch"}[r.IntN(4)]
		if name == "b" && r.IntN(2) == 0 {
			timing = "needs: {entry: a, on: done}"
		}
		more := []string{
			"", `only_between: "08:00-18:00", outside: defer`, "catch_up: run_all, catch_up_max: 20", "catch_up: run_once",
			"breaker: {threshold: 2, reset_after: 7m}", "retry: {attempts: 2, backoff: 1m}", "max_runs: 30", "pause_after_errors: 3",
			"timeout: 4m", "start_deadline: 1m",
		}[r.IntN(10)]
		fmt.Fprintf(&text, "%s: {module: test.ping, %s, group: g, maxrunning: 2, if_running: %s, splay: %ds, enabled: %t, run_on_start: %t, %s}\n",
			name, timing, mode, r.IntN(100), r.IntN(6) > 0, r.IntN(2) > 0, more)
	}
	return text.String()
}

// With run_all each nominal time runs once, over restarts and loads of the same set; and not twice, whatever the wall
// clock does within three hours, also while the host boots. No fire is owed or splayed for a time ahead of the clock,
// and none is pending that nothing waits for.
func TestRandomRestartsAndClockStepsNeitherLoseNorDoubleAFire(t *testing.T) {
	const entries = `
        cron: {module: test.ping, cron: "30 0-23 * * *", catch_up: run_all, maxrunning: 50, splay: 5m}
        epoch: {module: test.ping, interval: 1h, interval_from: epoch, catch_up: run_all, maxrunning: 50}
        long: {module: test.ping, cron: "15 0-23 * * *", catch_up: run_all, if_running: queue}`
	for seed := range 6 * *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, steps := rand.New(rand.NewPCG(seed, 3)), seed%2 > 0
				upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
				var c tamper
				o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
				boot, begin := 0, time.Now()
				o.Boot = func() (string, time.Duration) { return strconv.Itoa(boot), time.Since(begin) }
				ran := map[string]int{}
				const lives = 15
				const most = 90 * time.Minute // from the right time, so that all clocks are within three hours
				for life := range lives {
					h := c.host(t, o)
					h.takes["long"] = 20 * time.Minute
					h.apply(parse(t, entries))
					for range r.IntN(4) {
						time.Sleep(upTo(2 * time.Hour))
						if back := min(upTo(150*time.Minute), time.Duration(c.wall.Load())+most); steps && r.IntN(4) == 0 {
							c.set(-back)
							time.Sleep(back + 6*time.Minute)
						} else if steps && r.IntN(4) == 0 {
							c.set(min(upTo(2*time.Hour), most-time.Duration(c.wall.Load())))
							time.Sleep(2 * time.Minute)
						}
						h.apply(parse(t, entries))
					}
					if life == lives-1 {
						time.Sleep(10 * time.Minute) // for the splay of what is owed
					}
					for _, f := range h.all() {
						ran[f.Name+f.Nominal.UTC().Format(" 02 15:04:05.999999999")]++
					}
					h.checkWaits(c.now())
					h.shut()
					time.Sleep(upTo(3 * time.Hour))
					if steps && r.IntN(2) == 0 { // the host boots, and its clock shows more or less
						boot++
						by := upTo(2*most) - most
						c.set(max(min(by, most-time.Duration(c.wall.Load())), -most-time.Duration(c.wall.Load())))
					}
				}
				for fire, n := range ran {
					if n > 1 {
						t.Errorf("%s ran %d times", fire, n)
					}
				}
				for at := time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC); !steps && at.Before(time.Now().Add(-4*time.Hour)); at = at.Add(time.Hour) {
					for _, fire := range []string{"epoch " + at.Format("02 15:04:05"), "cron " + at.Add(30*time.Minute).Format("02 15:04:05")} {
						if ran[fire] == 0 {
							t.Errorf("%s did not run", fire)
						}
					}
				}
			})
		})
	}
}

// checkWaits holds the fires that wait against the lists, by the clock of the host.
func (h *host) checkWaits(now time.Time) {
	h.t.Helper()
	list, err := h.State(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	for i := range list {
		e := &list[i]
		for _, at := range e.Owed {
			if at.After(now) {
				h.t.Errorf("at %s %s owes the fire of %s", now.UTC(), e.Name, at.UTC())
			}
		}
		for f := range e.List.All() {
			isOwed := slices.ContainsFunc(e.Owed, func(at time.Time) bool { return ledger.At(at).Equal(f.Nominal) })
			if f.Outcome == ledger.Pending && f.Why == ledger.Owed && !isOwed {
				h.t.Errorf("at %s %s has the fire of %s as owed, and owes it not", now.UTC(), e.Name, f.Nominal)
			}
		}
	}
}

// Intervals, breakers and waits count elapsed time: two lives with the same stops and kills run the same at the same
// times, whether or not the clock is set in them.
func TestRandomClockStepsChangeNothingThatCountsElapsedTime(t *testing.T) {
	const entries = `
        end: {module: test.ping, interval: 20m}
        start: {module: test.ping, interval: 35m, interval_from: start}
        once: {module: test.ping, interval: 25m, catch_up: run_once}
        breaker: {module: test.ping, interval: 10m, breaker: {threshold: 1, reset_after: 45m}}
        waits: {module: test.ping, interval: 29m7s, group: g, if_running: queue, start_deadline: 50m}
        long: {module: test.ping, interval: 43m13s, group: g, if_running: queue, start_deadline: 50m}
        delay: {module: test.ping, after: 7h}`
	for seed := range 6 * *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			var lives [2][]string
			for i := range lives {
				synctest.Test(t, func(t *testing.T) { lives[i] = lifeOfIntervals(t, entries, seed, i > 0) })
			}
			if len(lives[0]) < 50 {
				t.Errorf("only %d runs", len(lives[0]))
			}
			for i := range min(len(lives[0]), len(lives[1])) {
				if a, b := lives[0][i], lives[1][i]; a != b {
					t.Fatalf("run %d is %s, with steps of the clock %s", i, a, b)
				}
			}
			if a, b := len(lives[0]), len(lives[1]); a != b {
				t.Errorf("%d runs, with steps of the clock %d", a, b)
			}
		})
	}
}

// lifeOfIntervals returns the runs of entries, with the times by a clock that nobody sets. steps sets the clock of the
// host in stops and while it is up.
func lifeOfIntervals(t *testing.T, entries string, seed uint64, steps bool) (ran []string) {
	r, begin := rand.New(rand.NewPCG(seed, 5)), time.Now()
	upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }
	var c tamper
	step := func() {
		if by := upTo(10*time.Hour) - 5*time.Hour; r.IntN(3) == 0 && steps {
			c.set(by)
		}
	}
	o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
	o.Boot = func() (string, time.Duration) { return "a", time.Since(begin) }
	for range 15 {
		h := c.host(t, o)
		h.takes["long"] = 36*time.Minute + 31*time.Second
		for _, name := range []string{"end", "start", "once", "breaker", "waits", "long", "delay"} {
			h.answer(name, func() wire.Result {
				h.mu.Lock()
				defer h.mu.Unlock()
				ran = append(ran, name+" "+time.Since(begin).Round(time.Second).String())
				return wire.Result{Success: name != "breaker"}
			})
		}
		h.apply(parse(t, entries))
		for range 1 + r.IntN(3) {
			time.Sleep(upTo(time.Hour))
			step()
			time.Sleep(2*time.Minute + upTo(time.Hour))
		}
		if killed := r.IntN(3) == 0; killed {
			o = crash(t, o)
			h.stop()
		}
		h.shut()
		step()
		time.Sleep(upTo(90 * time.Minute))
	}
	slices.Sort(ran)
	return ran
}
