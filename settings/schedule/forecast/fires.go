package forecast

import (
	"iter"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

const horizon = 50 // years that Fires looks ahead for an open window, as many as timings look ahead for a fire

// Fires yields when an entry fires in (from, until]; a zero until is no end. It assumes that the entry did not run
// before from and that runs take no time. It applies life and windows; deferred fires become one when the window opens.
// It ignores splay, needs and run_on_start. A disabled entry never fires. t is the entry's Timing; for an entry with
// `after`, call [schedule.Timing.Seen] first.
func Fires(e *schedule.Entry, t schedule.Timing, from, until time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		if !e.Enabled {
			return
		}
		left := e.Life.MaxRuns
		if e.Life.DeleteAfterRun {
			left = 1
		}
		w := finder{entry: e, timing: t, until: until}
		for at, ok := w.after(from); ok; at, ok = w.after(at) {
			if !yield(at) || left == 1 {
				return
			}
			left--
		}
	}
}

// finder finds the next fire of an entry.
type finder struct {
	entry  *schedule.Entry
	timing schedule.Timing
	until  time.Time
}

// after returns the first fire after an instant.
func (w *finder) after(from time.Time) (time.Time, bool) {
	life := w.entry.Life
	at, ok := w.timing.Next(from)
	for last := at.AddDate(horizon, 0, 0); ok && !w.beyond(at) && at.Before(last); {
		if at.Before(life.NotBefore) {
			at, ok = w.firstIn(life.NotBefore)
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
			at, ok = w.notBefore(opens, at)
		}
	}
	return time.Time{}, false
}

// beyond reports whether an instant is after until or after the end of the entry's life.
func (w *finder) beyond(at time.Time) bool {
	end := w.entry.Life.Until
	return !w.until.IsZero() && at.After(w.until) || !end.IsZero() && !at.Before(end)
}

// firstIn returns the first nominal time of an entry whose life begins. An interval is due at once.
func (w *finder) firstIn(life time.Time) (time.Time, bool) {
	if w.timing.FollowsRuns() {
		return life, true
	}
	return w.timing.Next(life.Add(-1))
}

// notBefore returns the first nominal time at or after the instant to; at is an earlier nominal time.
func (w *finder) notBefore(to, at time.Time) (time.Time, bool) {
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
