package scheduler_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/scheduler/simulate"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A life is a time in which the process of a peel is up.
type life struct{ from, until time.Time }

// account is what a peel has done: a line for each attempt of a run, and the skips of each entry.
type account struct {
	mu    sync.Mutex
	lines []string
	skips map[string]uint64
	lists map[string][]ledger.Run // of entries at the end
}

func (a *account) attempt(f scheduler.Fire) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, fmt.Sprint(f.Started.UTC(), f.Name, f.Trigger, f.Nominal.UTC(), f.Fired.UTC(), f.Late, f.Attempt))
}

// fate returns how long an attempt takes, and whether it succeeds. No two attempts end at the same time as something else
// begins, because the order of the two would be open.
func fate(seed uint64, f scheduler.Fire) (time.Duration, bool) {
	h := fnv.New64a()
	fmt.Fprint(h, seed, f.Name, f.Nominal.UnixNano(), f.Attempt)
	r := rand.New(rand.NewPCG(h.Sum64(), 0))
	return time.Duration(1 + r.Int64N(int64([]time.Duration{time.Second, time.Minute, 20 * time.Minute}[r.IntN(3)]))), r.IntN(4) > 0
}

// wild is a random schedule: every kind of timing, and every rule that keeps an entry from running.
func wild(r *rand.Rand) string {
	var text strings.Builder
	for i := range 12 {
		timing := []string{
			"interval: 7m", "interval: 20m, interval_from: start", "interval: 15m, interval_from: epoch, phase: 4m", "interval: 2h",
			`cron: "*/10 * * * *"`, `cron: "30 1-3 * * *", timezone: America/New_York`, `cron: "15 2 * * *", timezone: America/New_York`,
			`cron: "5 * * * *", timezone: America/New_York`, "when: every day at 02:30, timezone: America/New_York", "interval: monthly", "after: 90m",
		}[r.IntN(11)]
		if i > 0 && r.IntN(5) == 0 {
			timing = fmt.Sprintf("needs: {entry: e%d, on: %s}", r.IntN(i), []string{"done", "success", "failure"}[r.IntN(3)])
		}
		fmt.Fprintf(&text, "e%d: {module: test.ping, %s, run_on_start: %t", i, timing, r.IntN(4) == 0)
		if r.IntN(3) == 0 {
			text.WriteString(", group: g, maxrunning: 2, if_running: queue")
		} else {
			fmt.Fprintf(&text, ", if_running: %s", []string{"skip", "queue", "cancel", "allow"}[r.IntN(4)])
		}
		text.WriteString([]string{"", ", splay: 3m", ", splay: {min: 1m, max: 4m}", ", splay: 3m, splay_mode: host"}[r.IntN(4)])
		text.WriteString([]string{"", ", catch_up: run_all, catch_up_max: 9", ", catch_up: run_once", ", start_deadline: 2m"}[r.IntN(4)])
		text.WriteString([]string{"", `, only_between: "08:00-18:00", outside: defer`, `, only_between: "22:00-03:00"`, ", not_on: [sat]"}[r.IntN(4)])
		text.WriteString([]string{"", ", breaker: {threshold: 2, reset_after: 30m}", ", pause_after_errors: 7", ", retry: {attempts: 2, backoff: 90s}"}[r.IntN(4)])
		text.WriteString([]string{"", ", timeout: 4m", ", late_after: 30s", ", max_runs: 30"}[r.IntN(4)])
		text.WriteString("}\n")
	}
	return text.String()
}

// quiet is how long nothing has happened before the process is killed: the state file is up to a second old.
const quiet = 1100 * time.Millisecond

// simulated returns what a simulation does, and when its process is up in random lives.
func simulated(seed uint64, from time.Time, set schedule.Set, r *rand.Rand) (*account, []life) {
	a := &account{skips: map[string]uint64{}, lists: map[string][]ledger.Run{}}
	var last time.Time
	var h *simulate.Host
	h = simulate.NewHost(simulate.HostOptions{
		Peel: "web-01", Zone: time.UTC, Seed: seed,
		Exec: func(f scheduler.Fire) (time.Duration, bool) {
			if f.Attempt == 1 {
				last = f.Started
			}
			a.attempt(f)
			return fate(seed, f)
		},
		Ended: func(_ scheduler.Fire, _ wire.Result, ended time.Time) { last = ended },
		Skipped: func(entry string, why ledger.Reason, _ time.Time, n int) {
			a.skips[entry+" "+string(why)] += uint64(n)
			last = h.Now()
		},
	})
	var lives []life
	for at := from; len(lives) < 5; {
		l := life{at, at.Add(time.Hour + time.Duration(r.Int64N(int64(30*time.Hour))))}
		h.Start(l.from, set)
		for h.Run(l.until); l.until.Sub(last).Abs() <= quiet; h.Run(l.until) {
			l.until = l.until.Add(quiet)
		}
		if len(lives) == 4 {
			for name := range set {
				list := h.List(name)
				a.lists[name] = list.Runs()
			}
		}
		h.Kill(l.until)
		lives = append(lives, l)
		at = l.until.Add(time.Minute + time.Duration(r.Int64N(int64(4*time.Hour)))).Truncate(time.Minute)
	}
	return a, lives
}

// A simulation does what real schedulers do, fire by fire, also where they are killed and where daylight saving begins.
func TestASimulationDoesWhatSchedulersDo(t *testing.T) {
	if testing.Short() {
		t.Skip("days of schedulers, one after the other")
	}
	runs, missed := 0, uint64(0)
	for seed := range 4 * *seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(time.Date(2000, 4, 1, 12, 0, 0, 0, time.UTC))) // clocks change in New York in the night
				r := rand.New(rand.NewPCG(seed, 7))
				set := parse(t, wild(r))
				want, lives := simulated(seed, time.Now(), set, r)
				got := &account{skips: map[string]uint64{}, lists: map[string][]ledger.Run{}}
				random := rand.New(rand.NewPCG(seed, 0))
				o := scheduler.Options{Peel: "web-01", Zone: time.UTC, StateFile: filepath.Join(t.TempDir(), "state")}
				for i, l := range lives {
					time.Sleep(time.Until(l.from))
					o = got.live(t, o, seed, random, set, l.until, i == len(lives)-1)
				}
				slices.Sort(got.lines)
				slices.Sort(want.lines)
				runs += len(want.lines)
				for i := range max(len(got.lines), len(want.lines)) {
					if i >= len(got.lines) || i >= len(want.lines) || got.lines[i] != want.lines[i] {
						t.Fatalf("attempt %d: schedulers have %q, the simulation has %q\n%s", i, got.lines[i:min(i+2, len(got.lines))], want.lines[i:min(i+2, len(want.lines))], wild(rand.New(rand.NewPCG(seed, 7))))
					}
				}
				if fmt.Sprint(got.skips) != fmt.Sprint(want.skips) {
					t.Errorf("schedulers skip %v\nthe simulation skips %v", got.skips, want.skips)
				}
				for name, list := range want.lists {
					real, list := afterKills(got.lists[name], lives), afterKills(list, lives)
					if here, there := onlyIn(real, list), onlyIn(list, real); len(here)+len(there) > 0 {
						t.Errorf("%s: schedulers alone list %+v\nthe simulation alone lists %+v", name, here, there)
					}
					for _, r := range list {
						if r.Outcome == ledger.Missed {
							missed += uint64(r.Count)
						}
					}
				}
			})
		})
	}
	if runs < 2_500*int(*seeds) || missed < 25**seeds {
		t.Errorf("only %d attempts and %d missed fires were compared", runs, missed)
	}
}

// onlyIn returns the runs of a list that another one lacks.
func onlyIn(list, other []ledger.Run) []ledger.Run {
	return slices.DeleteFunc(slices.Clone(list), func(r ledger.Run) bool { return slices.Contains(other, r) })
}

// afterKills returns the runs without the fires that were due in the two minutes before a kill and stand at the beginning of
// what was skipped while the process was down. Where a fire is held until the windows open, those after it are no events,
// and the last record of a process is up to two minutes old: a scheduler and a simulation may have recorded at other times.
func afterKills(list []ledger.Run, lives []life) []ledger.Run {
	list = slices.Clone(list)
	for i := range list {
		r := &list[i]
		for _, l := range lives {
			lead := l.until.Sub(r.Fire.Nominal)
			if r.Fire.Outcome == ledger.Skipped && r.Count > 1 && r.Step > 0 && lead > 0 && lead < 2*time.Minute {
				r.Fire.Nominal = r.Fire.Nominal.Add(r.Step)
				r.Count--
			}
		}
	}
	return list
}

// live runs a scheduler until it is killed. It returns the options of the next process.
func (a *account) live(t *testing.T, o scheduler.Options, seed uint64, random *rand.Rand, set schedule.Set, until time.Time, last bool) scheduler.Options {
	dead := false
	o.Exec = func(ctx context.Context, f scheduler.Fire) wire.Result {
		a.mu.Lock()
		ignored := dead
		a.mu.Unlock()
		if !ignored {
			a.attempt(f)
		}
		takes, success := fate(seed, f)
		select {
		case <-time.After(takes):
			return wire.Result{Success: success}
		case <-ctx.Done():
			return wire.Result{Error: "signal: killed"}
		}
	}
	o.Random = func(n time.Duration) time.Duration {
		if dead {
			return 0
		}
		return time.Duration(random.Int64N(int64(n)))
	}
	s, err := scheduler.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	if _, err := s.Begin(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(until))
	synctest.Wait()
	if last {
		list, err := s.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			a.lists[e.Name] = e.List.Runs()
			for why, n := range e.Skips {
				a.skips[e.Name+" "+string(why)] = n
			}
		}
	}
	next := crash(t, o)
	a.mu.Lock()
	dead = true
	a.mu.Unlock()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return next
}
