package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// ClosedBy returns the rule that keeps the entry from running at a time; it is empty if none does.
func (e *Entry) ClosedBy(at time.Time) ledger.Reason { return ledger.Reason(e.Timing.Window(at)) }

// Deferred returns when the windows open next. It returns false if they never do, if the
// entry does not want fires held, or if its life ends before.
func (e *Entry) Deferred(now Instant) (time.Time, bool) {
	if e.Spec.Windows.Outside != schedule.OutsideDefer {
		return time.Time{}, false
	}
	opens, ok := e.Timing.Opens(now.Wall)
	return opens, ok && e.MayFire(opens)
}

// maxClosed bounds the search for the next fire: it ends after this many times in closed windows in a row.
const maxClosed = 1000

// Ahead returns the next n times at which the entry may run, without splay. nominal and fire are the times of Next.
func (e *Entry) Ahead(nominal, fire, now time.Time, n int, zone *time.Location) []time.Time {
	var list []time.Time
	at, ok := nominal, true
	if e.Next.Held {
		list, at = append(list, fire), now
		at, ok = e.Timing.Next(at)
	}
	for closed := 0; ok && closed < maxClosed && len(list) < n && e.MayFire(at); {
		if e.ClosedBy(at) == "" {
			list, closed = append(list, at.In(zone)), 0
			at, ok = e.Timing.Next(at)
			continue
		}
		closed++
		opens, opensEver := e.Timing.Opens(at)
		switch {
		case !opensEver:
			ok = false
		case e.Spec.Windows.Outside == schedule.OutsideDefer:
			if e.MayFire(opens) {
				list = append(list, opens.In(zone))
			}
			at, ok = e.Timing.Next(opens)
		default:
			at, ok = e.Rhythm.firstFrom(e, at, opens)
		}
	}
	return list[:min(len(list), max(n, 0))]
}
