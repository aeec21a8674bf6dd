package scheduler_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
)

func TestIntervalDoesNotWaitForASlowReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		h.store = func(scheduler.Fire) bool { time.Sleep(5 * time.Second); return true }
		h.apply(one(t, "interval: 2s, return_job: true"))
		time.Sleep(7500 * time.Millisecond)
		if e := h.entry("e"); e.Last[0].Job == "" || e.Job != "" {
			t.Errorf("the job of the first run is taken for that of the newest success: %+v", e)
		}
		time.Sleep(time.Second)
		h.expectRuns("e", 2*time.Second, 4*time.Second, 6*time.Second, 8*time.Second)
		e := h.entry("e")
		if e.Runs != 4 || e.Running != 0 || e.Skips != nil {
			t.Errorf("%+v", e)
		}
		if first := string(h.fire(0).JID); e.Last[0].Job != first || e.Last[1].Job != "" || e.Job != "" {
			t.Errorf("jobs before their reports are stored: %+v", e)
		}
		time.Sleep(4 * time.Second)
		if e := h.entry("e"); e.Last[2].Job != string(h.fire(2).JID) || e.Last[3].Job != "" || e.Job != "" {
			t.Errorf("%+v", e)
		}
		h.apply(nil)
		time.Sleep(time.Minute)
		h.apply(one(t, "interval: 2s, return_job: true"))
		if e := h.entry("e"); e.Job == "" || e.Job != e.Last[len(e.Last)-1].Job {
			t.Errorf("the last job is missing: %+v", e)
		}
	})
}

func TestRunsThatEndBesideTooManyReportsKeepTheirSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		free := make(chan struct{})
		h.store = func(scheduler.Fire) bool { <-free; return true }
		h.apply(one(t, "interval: 1s, return_job: true"))
		time.Sleep(5 * time.Minute)
		if e := h.entry("e"); e.Runs != 64 || e.Running != 1 {
			t.Errorf("%d runs ended, %d in flight", e.Runs, e.Running)
		}
		close(free)
		time.Sleep(3 * time.Second)
		if e := h.entry("e"); e.Runs < 66 || e.Running != 0 || e.Job != e.Last[9].Job {
			t.Errorf("%+v", e)
		}
		h.shut()
	})
}

func TestStopWaitsForTheReportOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		h := start(t, scheduler.Options{Log: j.logger()})
		stored := false
		h.store = func(scheduler.Fire) bool { time.Sleep(8 * time.Second); stored = true; return true }
		h.apply(one(t, "interval: 1m, return_job: true"))
		time.Sleep(time.Minute)
		synctest.Wait()
		h.shut()
		if !stored || j.count("not stored yet") != 0 {
			t.Error("it did not wait")
		}
	})
}

// The job of an entry is that of its newest success, if that was reported: a job of an earlier success is not shown
// beside the time of a later one.
func TestTheJobOfAnEntryIsThatOfItsNewestSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, scheduler.Options{})
		defer h.shut()
		var isStored atomic.Bool // a run asks for it
		isStored.Store(true)
		h.store = func(scheduler.Fire) bool { return isStored.Load() }
		h.apply(one(t, "interval: 1h, return_job: true"))
		time.Sleep(90 * time.Minute)
		if e := h.entry("e"); e.Job == "" || e.Job != e.Last[0].Job {
			t.Errorf("after a success that was reported: %q, want that of %+v", e.Job, e.Last)
		}

		isStored.Store(false)
		time.Sleep(time.Hour)
		if e := h.entry("e"); len(e.Last) != 2 || e.Job != "" {
			t.Errorf("after a success that was not reported: %q, want none; %+v", e.Job, e.Last)
		}
	})
}
