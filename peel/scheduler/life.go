package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
)

// mayFire tells whether a nominal time is in the life of the entry.
func (e *entry) mayFire(nominal time.Time) bool {
	life := e.spec.Life
	return !nominal.Before(life.NotBefore) && (life.Until.IsZero() || nominal.Before(life.Until))
}

// bounded tells whether the wall clock bounds the life of the entry.
func (e *entry) bounded() bool { return !e.spec.Life.NotBefore.IsZero() || !e.spec.Life.Until.IsZero() }

// maxRuns returns how many runs the timing may give the entry; 0 is no limit. delete_after_run is max_runs: 1.
func (e *entry) maxRuns() uint64 {
	if e.spec.Life.DeleteAfterRun {
		return 1
	}
	return uint64(max(0, e.spec.Life.MaxRuns))
}

// lived tells whether the entry has had, or has in flight, all the runs that its timing may give it.
func (e *entry) lived() bool {
	n := e.TimingRuns
	for _, r := range e.runs {
		n += r.counts()
	}
	limit := e.maxRuns()
	return limit > 0 && n >= limit
}

// counts is what the run takes from the life of its entry: nothing if somebody asked for it, or if the entry has got
// another timing since.
func (r *run) counts() uint64 {
	if r.fire.Trigger == history.TriggerManual || r.timing != r.e.TimingHash {
		return 0
	}
	return 1
}

// exhaustion says why an entry has no fire ahead.
func (e *entry) exhaustion(now instant) string {
	life := e.spec.Life
	switch {
	case life.DeleteAfterRun && e.lived():
		return "it has run"
	case e.lived():
		return "it has had all its runs"
	case !life.Until.IsZero() && !now.wall.Before(life.Until):
		return "its time is over since " + life.Until.Format(time.RFC3339)
	case len(e.spec.Clock.At) > 0 || e.spec.Clock.After > 0:
		return "its time has passed"
	case !life.Until.IsZero():
		return "no fire before " + life.Until.Format(time.RFC3339)
	}
	return "no fire within 50 years"
}
