package scheduler_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
)

// quiet asks the scheduler to start no run, and wants to hear whether it was idle.
func (h *host) quiet(force, want bool) {
	h.t.Helper()
	_, idle, err := h.Quiet(h.t.Context(), force, 0)
	h.must(err)
	if idle != want {
		h.t.Errorf("idle is %v, want %v", idle, want)
	}
}

func TestAFireThatIsDueInAQuietScheduleStartsInTheNextProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		h := start(t, o)
		h.apply(one(t, `cron: "30 * * * *"`))
		h.quiet(false, true)
		time.Sleep(31 * time.Minute)
		h.expectRuns("e")
		h.shut()

		h = start(t, o)
		defer h.shut()
		h.apply(one(t, `cron: "30 * * * *"`))
		synctest.Wait()
		h.expectRuns("e", 0)
		if e := h.entry("e"); e.Skips[ledger.DeadlineExceeded] != 0 {
			t.Errorf("%v", e.Skips)
		}
	})
}

func TestAScheduleIsQuietWhenNothingRunsAndNothingIsDueSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.takes["e"] = time.Minute
		h.apply(one(t, `cron: "30 * * * *"`))

		time.Sleep(30*time.Minute - 100*time.Millisecond)
		h.quiet(false, false) // it is due in 100 ms
		time.Sleep(30 * time.Second)
		h.expectRuns("e", 30*time.Minute)
		h.quiet(false, false) // it runs

		time.Sleep(time.Minute)
		h.quiet(true, true)
		time.Sleep(time.Hour)
		h.expectRuns("e", 30*time.Minute)
		h.must(h.Loud(t.Context()))
		time.Sleep(time.Minute)
		h.expectRuns("e", 30*time.Minute, 91*time.Minute+29900*time.Millisecond)
	})
}

// TestWhatIsForcedIsNotEndedByAnotherCaller: an upgrade that waits asks again and again while peel.wipe has forced it.
func TestWhatIsForcedIsNotEndedByAnotherCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{Zone: time.UTC})
		defer h.shut()
		h.apply(one(t, `cron: "30 * * * *"`))
		h.quiet(true, true)
		_, idle, err := h.Quiet(t.Context(), false, 1)
		h.must(err)
		if idle {
			t.Error("idle with a request that runs")
		}
		time.Sleep(31 * time.Minute)
		h.expectRuns("e")
	})
}
