package scheduler_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func failure() wire.Result { return wire.Result{Error: "no"} }

// answer is how runs of an entry end from now on.
func (h *host) answer(name string, f func() wire.Result) {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.results[name] = f
}

// changes are the states that an entry's breaker has gone to, and when.
func (h *host) changes(name string) (states []scheduler.BreakerState, at []time.Duration) {
	for _, c := range h.entry(name).Breaker.Transitions {
		states, at = append(states, c.To), append(at, c.Time.Sub(h.begin))
	}
	return states, at
}

func TestBreakerOpensAtItsThresholdAndProbesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := start(t, scheduler.Options{Log: j.logger()})
		defer h.shut()
		h.answer("e", failure)
		h.apply(one(t, "interval: 1m, breaker: {threshold: 3, reset_after: 10m}"))
		time.Sleep(2*time.Minute + time.Second)
		if e := h.entry("e"); e.BreakerState != scheduler.BreakerClosed {
			t.Errorf("%s after two failures", e.BreakerState)
		}
		time.Sleep(10 * time.Minute)
		h.expectRuns("e", time.Minute, 2*time.Minute, 3*time.Minute)
		h.expectSkips("e", ledger.CircuitOpen, 9)
		if e := h.entry("e"); e.BreakerState != scheduler.BreakerOpen || e.State != scheduler.StateActive {
			t.Errorf("%s, %s", e.BreakerState, e.State)
		}
		time.Sleep(time.Minute) // the probe at 13m fails
		h.answer("e", nil)
		time.Sleep(10 * time.Minute) // the one at 23m does not
		h.expectRuns("e", time.Minute, 2*time.Minute, 3*time.Minute, 13*time.Minute, 23*time.Minute)
		states, at := h.changes("e")
		want := []scheduler.BreakerState{"open", "half_open", "open", "half_open", "closed"}
		wantAt := []time.Duration{3 * time.Minute, 13 * time.Minute, 13 * time.Minute, 23 * time.Minute, 23 * time.Minute}
		for i := range want {
			if len(states) != len(want) || states[i] != want[i] || at[i] != wantAt[i] {
				t.Fatalf("%v at %v", states, at)
			}
		}
		if j.count("fire skipped", "reason=circuit_open") != 18 || j.count("breaker is open") != 2 {
			t.Error("not in the log")
		}
	})
}

func TestOpenBreakerSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		set := one(t, "interval: 10m, run_on_start: true, breaker: {threshold: 1, reset_after: 1h}")
		h := start(t, o)
		h.answer("e", failure)
		h.apply(set)
		time.Sleep(15 * time.Minute)
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		time.Sleep(44 * time.Minute)
		h.expectRuns("e")
		time.Sleep(10 * time.Minute)
		if runs := h.runs("e"); len(runs) != 1 {
			t.Errorf("runs %v", runs)
		}
		if states, _ := h.changes("e"); len(states) != 3 {
			t.Errorf("%v", states)
		}
	})
}

func TestHundredChangesOfABreakerAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.answer("e", failure)
		h.apply(one(t, "interval: 1m, breaker: {threshold: 1, reset_after: 1m}"))
		time.Sleep(5 * time.Hour)
		if states, at := h.changes("e"); len(states) != 100 || at[99] < 298*time.Minute {
			t.Errorf("%d changes, the last at %v", len(states), at[len(at)-1])
		}
	})
}

func TestTenFailuresInARowPauseTheEntryUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Log: j.logger()}
		h := start(t, o)
		h.answer("e", failure)
		h.apply(one(t, "interval: 1m, pause_after_errors: 10"))
		time.Sleep(time.Hour)
		if e := h.entry("e"); len(h.runs("e")) != 10 || e.State != scheduler.StateFailing || e.Why != "10 runs in a row failed" || !e.NextFire.IsZero() {
			t.Errorf("%d runs, %+v", len(h.runs("e")), e)
		}
		if j.count("entry is paused", "entry=e", "failures=10") != 1 {
			t.Error("not in the log")
		}
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(one(t, "interval: 1m, pause_after_errors: 10"))
		time.Sleep(time.Hour)
		h.expectRuns("e")
		h.apply(one(t, "interval: 1m, pause_after_errors: 10, args: {a: 1}"))
		if e := h.entry("e"); e.State != scheduler.StateActive || e.FailuresInRow != 0 {
			t.Errorf("%+v", e)
		}
		time.Sleep(time.Minute)
		h.expectRuns("e", 61*time.Minute)
	})
}

func TestFailuresDoNotPauseAnEntryUnlessItAsksForThat(t *testing.T) {
	for name, c := range map[string]struct {
		fields string
		runs   int // in three hours
	}{
		"by default":   {"interval: 1m", 180},
		"with 0":       {"interval: 1m, pause_after_errors: 0", 180},
		"by a breaker": {"interval: 1m, breaker: {threshold: 3, reset_after: 10m}", 3 + 17},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, scheduler.Options{})
				defer h.shut()
				h.answer("e", failure)
				h.apply(one(t, c.fields))
				time.Sleep(3 * time.Hour)
				if e := h.entry("e"); len(h.runs("e")) != c.runs || e.State != scheduler.StateActive {
					t.Errorf("%d runs, %s", len(h.runs("e")), e.State)
				}
			})
		})
	}
}

func TestSuccessBetweenFailuresStartsTheirCountAnew(t *testing.T) {
	for _, limit := range []string{"pause_after_errors: 3", "breaker: {threshold: 3, reset_after: 1h}"} {
		synctest.Test(t, func(t *testing.T) {
			h := start(t, scheduler.Options{})
			defer h.shut()
			n := 0
			h.answer("e", func() wire.Result { n++; return wire.Result{Success: n%3 == 0} })
			h.apply(one(t, "interval: 1m, "+limit))
			time.Sleep(time.Hour)
			if e := h.entry("e"); len(h.runs("e")) != 60 || e.BreakerState != scheduler.BreakerClosed {
				t.Errorf("%s: %d runs, %s", limit, len(h.runs("e")), e.BreakerState)
			}
		})
	}
}

func TestRunThatFailsIsTriedAgainAfterTheBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 10 * time.Second
		h.answer("e", failure)
		h.apply(one(t, "interval: 10m, return_job: true, timeout: 30s, retry: {attempts: 2, backoff: 20s}"))
		time.Sleep(11*time.Minute + 10*time.Second)
		e := h.entry("e")
		reports := h.reported()
		if e.Runs != 1 || e.FailuresInRow != 1 || len(reports) != 1 || e.Job != "" || len(e.Last) != 1 || e.Last[0].Job != string(reports[0].JID) {
			t.Errorf("%v reported, %+v", reports, e)
		}
		for i, f := range h.all() {
			if f.Attempt != i+1 || len(h.all()) != 3 {
				t.Errorf("%+v", f)
			}
		}
		// 10 s each and 20 s between them; then the interval counts from the end of the third.
		if want := h.begin.Add(10*time.Minute + 70*time.Second); !e.Ended.Equal(want) || !e.NextFire.Equal(want.Add(10*time.Minute)) {
			t.Errorf("ended %v, next %v", e.Ended.Sub(h.begin), e.NextFire.Sub(h.begin))
		}
	})
}

func TestRunIsNotTriedAgainOnceItsEntryIsGoneOrThePeelStops(t *testing.T) {
	for name, end := range map[string]func(*host){
		"removed":  func(h *host) { h.apply(nil) },
		"disabled": func(h *host) { h.apply(one(h.t, "interval: 1m, enabled: false")) },
		"changed": func(h *host) {
			h.apply(one(h.t, "interval: 1m, return_job: true, retry: {attempts: 3, backoff: 1h}, args: {a: 1}"))
		},
		"retimed": func(h *host) { h.apply(one(h.t, "interval: 5m, return_job: true, retry: {attempts: 3, backoff: 1h}")) },
		"stop":    func(h *host) { h.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, scheduler.Options{})
				h.answer("e", failure)
				h.apply(one(t, "interval: 1m, return_job: true, retry: {attempts: 3, backoff: 1h}"))
				time.Sleep(2 * time.Minute)
				end(h)
				synctest.Wait()
				if n := len(h.reported()); n != 1 {
					t.Errorf("%d reports", n)
				}
				h.shut()
				if took := time.Since(h.begin); took != 2*time.Minute {
					t.Errorf("ended after %v", took)
				}
			})
		})
	}
}

func TestRunWithoutBackoffIsNotTriedAgainOnceItsEntryIsGone(t *testing.T) {
	for range 50 { // of two events that wait a select takes either
		synctest.Test(t, func(t *testing.T) {
			h := start(t, scheduler.Options{})
			defer h.shut()
			gone, n := make(chan struct{}), 0
			h.answer("e", func() wire.Result {
				if n++; n == 3 {
					<-gone
				}
				return failure()
			})
			h.apply(one(t, "interval: 1m, retry: {attempts: 100, backoff: 0}"))
			time.Sleep(time.Minute)
			synctest.Wait()
			h.apply(nil)
			close(gone)
			if n := len(h.all()); n != 3 {
				t.Fatalf("%d attempts, the entry was removed during the third", n)
			}
		})
	}
}

func TestBreakerProbesAlsoAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c tamper
		h := c.host(t, scheduler.Options{})
		defer h.shut()
		h.answer("e", failure)
		h.apply(one(t, "interval: 10m, breaker: {threshold: 1, reset_after: 1h}"))
		time.Sleep(15 * time.Minute)
		c.set(-24 * time.Hour)
		time.Sleep(70 * time.Minute)
		if n := len(h.runs("e")); n != 2 {
			t.Errorf("%d runs, want a probe within the hour", n)
		}
	})
}

func TestProbeOfAnEntryThatWasRemovedDoesNotKeepTheBreakerHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		set := one(t, "interval: 10m, breaker: {threshold: 1, reset_after: 1h}")
		h.answer("e", failure)
		h.takes["e"] = 10 * time.Minute
		h.apply(set)
		time.Sleep(85 * time.Minute)
		if states, _ := h.changes("e"); len(states) != 2 || states[1] != scheduler.BreakerHalfOpen {
			t.Fatalf("%v", states)
		}
		h.apply(nil)
		time.Sleep(time.Hour)
		h.apply(set)
		h.answer("e", nil)
		time.Sleep(time.Hour)
		if states, at := h.changes("e"); len(states) != 5 || states[2] != scheduler.BreakerOpen || states[4] != scheduler.BreakerClosed {
			t.Errorf("%v at %v", states, at)
		}
	})
}

func TestBreakerProbesAlsoAfterTheClockWasSetBackWhileThePeelWasDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state")}
		set := one(t, "interval: 10m, breaker: {threshold: 1, reset_after: 1h}")
		var c tamper
		c.set(365 * 24 * time.Hour)
		h := c.host(t, o)
		h.answer("e", failure)
		h.apply(set)
		time.Sleep(15 * time.Minute)
		h.shut()
		h = start(t, o)
		defer h.shut()
		h.apply(set)
		time.Sleep(65 * time.Minute)
		h.expectRuns("e", time.Hour)
	})
}

// A kill during the probe of an open breaker must not leave it half open, as then nothing would ever run again.
func TestABreakerProbesAgainAfterAKillDuringItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		entry := one(t, "interval: 1m, breaker: {threshold: 1, reset_after: 5m}")
		h := start(t, scheduler.Options{StateFile: filepath.Join(dir, "state")})
		h.answer("e", func() wire.Result { return wire.Result{Error: "no"} })
		h.apply(entry)
		time.Sleep(90 * time.Second)
		h.mu.Lock()
		h.takes["e"] = time.Hour
		h.mu.Unlock()
		time.Sleep(7 * time.Minute)
		if e := h.entry("e"); e.BreakerState != scheduler.BreakerHalfOpen {
			t.Fatalf("the breaker is %s", e.BreakerState)
		}
		killed := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		h.shut()
		h = start(t, scheduler.Options{StateFile: filepath.Join(killed, "state")})
		defer h.shut()
		h.apply(entry)
		time.Sleep(10 * time.Minute)
		if e := h.entry("e"); e.BreakerState != scheduler.BreakerClosed || len(h.runs("e")) == 0 {
			t.Errorf("the breaker is %s after %d runs", e.BreakerState, len(h.runs("e")))
		}
	})
}
