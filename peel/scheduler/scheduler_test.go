package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// TestMain keeps the state files in memory where the system has a folder for that: they are synced at every change, which
// on a disk that others use takes several times as long as all the rest.
func TestMain(m *testing.M) {
	if file := os.Getenv(childEnv); file != "" {
		runChild(file)
	}
	dir, err := os.MkdirTemp("/dev/shm", "zester-test-")
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	code := m.Run()
	if err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func TestIntervalCountsFromTheEndOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 10 * time.Second
		h.apply(one(t, "interval: 1m"))
		time.Sleep(4 * time.Minute)
		h.expectRuns("e", 60*time.Second, 130*time.Second, 200*time.Second)
	})
}

func TestRunOfTwoAndAHalfIntervalsSkipsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := start(t, scheduler.Options{Log: j.logger()})
		defer h.shut()
		h.takes["e"] = 150 * time.Second
		h.apply(one(t, "interval: 1m"))
		time.Sleep(5 * time.Minute)
		h.expectRuns("e", 60*time.Second, (60+150+60)*time.Second)
		h.expectSkips("e", ledger.AlreadyRunning, 2)
		if n := j.count("fire skipped", "entry=e", "reason=already_running"); n != 2 {
			t.Errorf("%d log lines for two skips", n)
		}
	})
}

func TestTwoRunsOverlapAndTheThirdIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 150 * time.Second
		h.apply(one(t, "interval: 1m, maxrunning: 2"))
		time.Sleep(4*time.Minute + 30*time.Second)
		const first = time.Minute
		h.expectRuns("e", first, first+time.Minute, first+3*time.Minute) // 0, I, 3I
		h.expectSkips("e", ledger.AlreadyRunning, 1)                     // 2I
		if e := h.entry("e"); e.Running != 1 {
			t.Errorf("%d runs in flight, want the third alone", e.Running)
		}
	})
}

func TestSlotThatFreesBringsNoBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = time.Hour
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute + time.Hour + 59*time.Second)
		h.expectRuns("e", time.Minute)
		time.Sleep(time.Second)
		h.expectRuns("e", time.Minute, time.Hour+2*time.Minute)
	})
}

func TestFailingRunKeepsTheRhythm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.results["e"] = func() wire.Result { return wire.Result{Error: "exit status 1"} }
		h.apply(one(t, "interval: 1m"))
		time.Sleep(2 * time.Minute)
		h.expectRuns("e", time.Minute, 2*time.Minute)
		e := h.entry("e")
		if e.Failures != 2 || e.FailuresInRow != 2 || e.Error != "exit status 1" || !e.Succeeded.IsZero() {
			t.Errorf("%+v", e)
		}
		h.mu.Lock()
		h.results["e"] = nil
		h.mu.Unlock()
		time.Sleep(time.Minute)
		if e := h.entry("e"); e.FailuresInRow != 0 || e.Error != "" || !e.Succeeded.Equal(e.Ended) || e.Runs != 3 {
			t.Errorf("after a success: %+v", e)
		}
	})
}

func TestPanicIsAFailureAndFreesTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := start(t, scheduler.Options{Log: j.logger()})
		defer h.shut()
		h.results["e"] = func() wire.Result { panic("boom") }
		h.apply(one(t, "interval: 1m"))
		time.Sleep(2 * time.Minute)
		h.expectRuns("e", time.Minute, 2*time.Minute)
		if e := h.entry("e"); e.Running != 0 || e.FailuresInRow != 2 || e.Error != "panic: boom" {
			t.Errorf("%+v", e)
		}
		if j.count("run panicked", "entry=e", "stack=") != 2 {
			t.Error("the stack is not in the log")
		}
	})
}

func TestExecThatEndsItsGoroutineFreesTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.results["e"] = func() wire.Result {
			runtime.Goexit()
			return wire.Result{Success: true}
		}
		h.apply(one(t, "interval: 1m"))
		time.Sleep(2 * time.Minute)
		if e := h.entry("e"); e.Running != 0 || e.Failures != 2 || e.Error != "the run ended without a result" {
			t.Errorf("%+v", e)
		}
	})
}

func TestTimeoutEndsAHungRunAndFreesTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.takes["e"] = 1000 * time.Hour
		h.apply(one(t, "interval: 1m, timeout: 90s"))
		time.Sleep(4 * time.Minute)
		h.expectRuns("e", time.Minute, time.Minute+90*time.Second+time.Minute)
		if e := h.entry("e"); e.Error != "timed out after 1m30s: signal: killed" || e.Failures != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestARunThatSucceedsAsItsTimeoutPassesHasSucceeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		work := scheduler.Work{Log: slog.New(slog.DiscardHandler), Exec: func(ctx context.Context, _ int) wire.Result {
			runs++
			<-ctx.Done()
			return wire.Result{Success: true}
		}}
		work.Entry = one(t, "interval: 1h, timeout: 90s, retry: {attempts: 2, backoff: 1s}")["e"]
		out, timedOut := work.Do(t.Context())
		if !out.Success || out.Error != "" || timedOut || runs != 1 {
			t.Errorf("%+v after %d runs, timed out: %t", out, runs, timedOut)
		}
	})
}

func TestMonthlyIntervalFollowsTheCalendar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, "interval: monthly"))
		const day = 24 * time.Hour
		time.Sleep(100 * day) // from 2000-01-01
		h.expectRuns("e", 31*day, 60*day, 91*day)
	})
}

func TestLogNamesTheEntriesAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := start(t, scheduler.Options{Log: j.logger()})
		defer h.shut()
		h.apply(parse(t, "backup: {module: test.ping, interval: 1m}\ncheck: {module: test.ping, interval: 1m}"))
		h.apply(nil)
		if j.count("schedule begins", "entries=2", `names="backup check"`) != 1 || j.count("schedule begins") != 1 {
			t.Errorf("%s", j.lines)
		}
	})
}

func TestFireTimesAreInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.apply(parse(t, `
        a: {module: test.ping, interval: 1m, splay: 30s, run_on_start: true}
        b: {module: test.ping, cron: "*/5 * * * *", splay: 10m, run_on_start: true}`))
		time.Sleep(time.Hour)
		if len(h.all()) < 40 {
			t.Fatalf("%d fires", len(h.all()))
		}
		for _, f := range h.all() {
			if f.Fired.Before(f.Nominal) || f.Started.Before(f.Fired) || f.Entry.Name != f.Name {
				t.Errorf("%+v", f)
			}
		}
	})
}

func TestAtMostFiveStartInOneWakeByNominalTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var forward, readings atomic.Int64
		h := startWith(t, scheduler.Options{}, func(s *scheduler.Scheduler) {
			s.AlterClock(func(wall time.Time, up time.Duration) (time.Time, time.Duration) {
				// Each reading differs, so that the runs of one wake can be told from those of the next.
				return wall.Add(time.Duration(forward.Load() + readings.Add(1))), up
			})
		})
		defer h.shut()
		h.apply(parse(t, `
        e7: {module: test.ping, cron: "7 * * * *"}
        e6: {module: test.ping, cron: "6 * * * *"}
        e5: {module: test.ping, cron: "5 * * * *"}
        e4: {module: test.ping, cron: "4 * * * *"}
        e3: {module: test.ping, cron: "3 * * * *"}
        e2: {module: test.ping, cron: "2 * * * *"}`))
		forward.Store(int64(10 * time.Minute))
		time.Sleep(time.Minute)
		wakes := map[time.Time][]string{}
		for _, f := range h.all() {
			wakes[f.Started] = append(wakes[f.Started], f.Name)
		}
		var got []string
		for _, wake := range slices.SortedFunc(maps.Keys(wakes), time.Time.Compare) {
			slices.Sort(wakes[wake])
			got = append(got, strings.Join(wakes[wake], " "))
		}
		if want := []string{"e2 e3 e4 e5 e6", "e7"}; !slices.Equal(got, want) {
			t.Errorf("wakes started %q, want %q", got, want)
		}
	})
}

func TestRunTwiceIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		synctest.Wait()
		if err := h.Run(t.Context()); err == nil {
			t.Error("the second Run was accepted")
		}
		h.shut()
	})
}

func TestApplyWaitsForRunAndIsRefusedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := scheduler.New(scheduler.Options{
			Exec: func(context.Context, scheduler.Fire) wire.Result { return wire.Result{Success: true} },
		})
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Apply(short, one(t, "interval: 1m")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Apply before Run: %v", err)
		}
		applied := make(chan schedule.Changes)
		go func() {
			c, err := s.Apply(t.Context(), one(t, "interval: 1m"))
			if err != nil {
				t.Error(err)
			}
			applied <- c
		}()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		if c := <-applied; !slices.Equal(c.Added, []string{"e"}) {
			t.Errorf("%+v", c)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, err := s.Apply(t.Context(), one(t, "interval: 1m")); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("Apply after Run: %v", err)
		}
		if _, err := s.State(t.Context()); !errors.Is(err, scheduler.ErrStopped) {
			t.Errorf("State after Run: %v", err)
		}
	})
}

func TestStopWaitsForARunThatEndsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		h.takes["e"] = 9 * time.Second
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute)
		synctest.Wait()
		h.shut()
		if took := time.Since(h.begin); took != 69*time.Second || h.inFlight("e") != 0 {
			t.Errorf("stopped after %v with %d runs in flight", took, h.inFlight("e"))
		}
	})
}

func TestStopCancelsALongRunAndStartsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := t.TempDir() + "/state"
		h := start(t, scheduler.Options{StateFile: file})
		h.takes["e"] = time.Hour
		h.apply(parse(t, `
        e: {module: test.ping, interval: 1m}
        f: {module: test.ping, interval: 65s}`))
		time.Sleep(time.Minute)
		synctest.Wait()
		h.shut()
		if took := time.Since(h.begin); took != 70*time.Second {
			t.Errorf("stopped after %v", took)
		}
		h.expectRuns("f")
		h = start(t, scheduler.Options{StateFile: file})
		defer h.shut()
		h.apply(one(t, "interval: 1m"))
		if e := h.entry("e"); e.Error != "the peel was stopped: signal: killed" || e.Failures != 1 {
			t.Errorf("%+v", e)
		}
	})
}

func TestStopDoesNotWaitForeverAndNamesWhatDidNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		release := make(chan struct{})
		h.results["e"] = func() wire.Result { <-release; return wire.Result{} }
		h.apply(one(t, "interval: 1m"))
		time.Sleep(time.Minute)
		synctest.Wait()
		h.stop()
		err := <-h.ended
		if err == nil || err.Error() != "cannot end the runs of e: they ignore their cancellation" {
			t.Error(err)
		}
		if took := time.Since(h.begin); took != 75*time.Second {
			t.Errorf("stopped after %v", took)
		}
		close(release)
	})
}
