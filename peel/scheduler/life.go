package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// MayFire reports whether a nominal time is in the life of the entry.
func (e *Entry) MayFire(nominal time.Time) bool {
	life := e.Spec.Life
	return !nominal.Before(life.NotBefore) && (life.Until.IsZero() || nominal.Before(life.Until))
}

// Bounded reports whether the entry has not_before or until.
func (e *Entry) Bounded() bool { return !e.Spec.Life.NotBefore.IsZero() || !e.Spec.Life.Until.IsZero() }

// MaxRuns returns how many runs the timing may give the entry; 0 is no limit. delete_after_run is max_runs: 1.
func (e *Entry) MaxRuns() uint64 {
	if e.Spec.Life.DeleteAfterRun {
		return 1
	}
	return uint64(max(0, e.Spec.Life.MaxRuns))
}

// exhaustion returns why an entry has no fire ahead.
func (e *Entry) exhaustion(now Instant, hasAllRuns bool) string {
	life := e.Spec.Life
	switch {
	case life.DeleteAfterRun && hasAllRuns:
		return "it has run"
	case hasAllRuns:
		return "it has had all its runs"
	case !life.Until.IsZero() && !now.Wall.Before(life.Until):
		return "its life ended at " + life.Until.Format(time.RFC3339)
	case len(e.Spec.Clock.At) > 0 || e.Spec.Clock.After > 0:
		return "its time has passed"
	case !life.Until.IsZero():
		return "no fire before " + life.Until.Format(time.RFC3339)
	}
	return "no fire within 50 years"
}

// NeedMet reports whether the end of a run of the entry that this one needs makes it fire.
func (e *Entry) NeedMet(success bool) bool {
	switch e.Spec.Needs.On {
	case schedule.NeedsSuccess:
		return success
	case schedule.NeedsFailure:
		return !success
	}
	return true
}
