package forecast

import (
	"iter"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

// horizon is how many years ahead a fire that windows allow is looked for, as far as timings look for one.
const horizon = 50

// Fires yields when an entry fires in (from, until]; a zero until is no end. It is as if the entry had not run before
// from and no run took time: life and windows count, and what is deferred fires once when its window opens. Splay,
// needs and run_on_start are no part of it. An entry that is not enabled never fires. The timing is the entry's own,
// with [schedule.Timing.Seen] where `after` counts.
func Fires(e *schedule.Entry, t schedule.Timing, from, until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		if !e.Enabled {
			return
		}
		left := e.Life.MaxRuns
		if e.Life.DeleteAfterRun {
			left = 1
		}
		w := walk{entry: e, timing: t, until: until}
		for at, ok := w.after(from); ok; at, ok = w.after(at) {
			if !yield(at) || left == 1 {
				return
			}
			left--
		}
	}
}

// walk goes from fire to fire.
type walk struct {
	entry  *schedule.Entry
	timing schedule.Timing
	until  time.Time
}

// after returns the first fire after an instant.
func (w *walk) after(from time.Time) (time.Time, bool) {
	life := w.entry.Life
	at, ok := w.timing.Next(from)
	for last := at.AddDate(horizon, 0, 0); ok && !w.beyond(at) && at.Before(last); {
		if at.Before(life.NotBefore) {
			at, ok = w.begin(life.NotBefore)
			continue
		}
		if w.timing.Window(at) == window.Open {
			return at, true
		}
		opens, found := w.timing.Opens(at)
		switch {
		case !found:
			return time.Time{}, false
		case w.entry.Windows.Outside == schedule.OutsideDefer:
			at = opens
		default:
			at, ok = w.reach(at, opens)
		}
	}
	return time.Time{}, false
}

// beyond tells whether nothing from an instant on is asked for.
func (w *walk) beyond(at time.Time) bool {
	end := w.entry.Life.Until
	return !w.until.IsZero() && at.After(w.until) || !end.IsZero() && !at.Before(end)
}

// begin returns the first nominal time of an entry whose life begins. An interval that has passed by then is over at
// once.
func (w *walk) begin(life time.Time) (time.Time, bool) {
	if w.timing.FollowsRuns() {
		return life, true
	}
	return w.timing.Next(life.Add(-1))
}

// reach goes on from a nominal time to the first one that is not before an instant.
func (w *walk) reach(at, to time.Time) (time.Time, bool) {
	if !w.timing.FollowsRuns() {
		return w.timing.Next(to.Add(-1))
	}
	ok := true
	for ok && at.Before(to) {
		if step := w.entry.Clock.Interval.Duration; step > 0 {
			at = at.Add(max(1, to.Sub(at)/step) * step)
		} else {
			at, ok = w.timing.Next(at)
		}
	}
	return at, ok
}
