package swarm

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"
)

const (
	soakStep    = 10 * time.Second // has one commit, one dispatch and one restart at most
	recordLimit = time.Minute      // for the records of the last runs
	minutely    = "  minutely: {cron: '* * * * *', timezone: UTC, module: test.ping, return_job: true}\n"
)

// A sample is what master and bus have at one moment.
type sample struct {
	memory, peels float64 // KiB
	goroutines    int
	messages      int64 // in all streams
}

// soak lets the fleet work: every peel reports a run each minute, jobs go to all, their settings change, and the master
// restarts with its bus. It counts what was lost, and what has grown since the first quarter.
func (f *fleet) soak(ctx context.Context) error {
	if err := avoidMinute(ctx); err != nil {
		return err
	}
	if err := f.settle(ctx, "A run every minute", content{probe: minutely}); err != nil {
		return err
	}
	began, before := time.Now(), f.returns(ctx)
	w, err := f.runWorkload(ctx)
	if err != nil {
		return err
	}
	due, stored, err := f.runs(ctx, began, func() int64 { return f.returns(ctx) - before - w.stored })
	if err != nil {
		return err
	}
	f.r.figure("dispatched to peels", "", float64(w.targets))
	f.r.figure("returns lost", "", float64(w.targets-w.stored))
	f.r.figure("scheduled runs due", "", float64(due))
	f.r.figure("scheduled runs lost, or kept twice if negative", "", float64(due-stored))
	f.r.figure("commits that every peel has applied", "", float64(w.commits))
	f.r.figure("restarts of master and bus", "", float64(w.restarts))
	return f.growth(ctx, w.quarter)
}

// A workload is what was done in a soak.
type workload struct {
	targets, stored   int64 // of jobs, and their returns in records
	commits, restarts int
	quarter           sample // when a quarter of the time was over
}

// runWorkload lets the fleet work until the time is over.
func (f *fleet) runWorkload(ctx context.Context) (w workload, err error) {
	end := time.Now().Add(f.r.o.Soak)
	quarter := end.Add(-f.r.o.Soak * 3 / 4)
	for step := 0; step == 0 || time.Now().Before(end); step++ {
		next := time.Now().Add(soakStep)
		if step%3 == 0 {
			j, err := f.dispatch(ctx, "test.ping", "*", nil)
			if err != nil {
				return w, err
			}
			w.targets, w.stored = w.targets+int64(f.r.o.Peels), w.stored+int64(j.stored)
		}
		if step%4 == 0 {
			if err := f.settle(ctx, "A change", content{all: step + 1, probe: minutely}); err != nil {
				return w, err
			}
			w.commits++
		}
		if step%15 == 7 && f.r.o.External == nil {
			if _, err := f.restart(ctx); err != nil {
				return w, err
			}
			w.restarts++
		}
		if w.quarter.goroutines == 0 && time.Now().After(quarter) {
			if w.quarter, err = f.sample(ctx); err != nil {
				return w, err
			}
		}
		if err := pauseUntil(ctx, slices.MinFunc([]time.Time{next, end}, time.Time.Compare)); err != nil {
			return w, err
		}
	}
	if w.quarter.goroutines == 0 { // the time was shorter than a step
		w.quarter, err = f.sample(ctx)
	}
	return w, err
}

// runs waits until all runs that were due since began are stored, and returns how many were due and how many are
// stored. While it waits, further runs may become due.
func (f *fleet) runs(ctx context.Context, began time.Time, count func() int64) (due, stored int64, err error) {
	late, cancel := context.WithTimeout(ctx, recordLimit)
	defer cancel()
	for {
		minute := time.Now().Truncate(time.Minute)
		due = int64(minute.Sub(began.Truncate(time.Minute))/time.Minute) * int64(f.r.o.Peels)
		err = f.until(late, "runs of the schedule", due, count)
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return 0, 0, err
		}
		stored = count()
		if err != nil || time.Now().Truncate(time.Minute).Equal(minute) {
			return due, stored, nil
		}
	}
}

// avoidMinute waits until the next full minute is far enough that every peel has the entry by then.
func avoidMinute(ctx context.Context) error {
	now := time.Now()
	if next := now.Truncate(time.Minute).Add(time.Minute); next.Sub(now) < 20*time.Second {
		return pauseUntil(ctx, next)
	}
	return nil
}

func pauseUntil(ctx context.Context, t time.Time) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Until(t)):
		return nil
	}
}

func (f *fleet) sample(ctx context.Context) (s sample, err error) {
	streams := f.js.ListStreams(ctx)
	for info := range streams.Info() {
		s.messages += int64(info.State.Msgs)
	}
	s.memory, s.peels, s.goroutines = OwnMemory(), f.r.peelMemory(), runtime.NumGoroutine()
	return s, streams.Err()
}

// growth adds figures of the sample after a quarter and of one at the end.
func (f *fleet) growth(ctx context.Context, quarter sample) error {
	end, err := f.sample(ctx)
	if err != nil {
		return err
	}
	f.r.figure("goroutines of "+f.r.side()+" after a quarter", "", float64(quarter.goroutines))
	f.r.figure("goroutines of "+f.r.side()+" at the end", "", float64(end.goroutines))
	f.r.figure("memory of "+f.r.side()+" after a quarter", "MiB", quarter.memory/1024)
	f.r.figure("memory of "+f.r.side()+" at the end", "MiB", end.memory/1024)
	f.r.figure("messages that the streams keep more", "", float64(end.messages-quarter.messages))
	f.r.figure("memory of a simulated peel after a quarter", "KiB", quarter.peels)
	f.r.figure("memory of a simulated peel at the end", "KiB", end.peels)
	return nil
}
