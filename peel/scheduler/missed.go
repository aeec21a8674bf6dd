package scheduler

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// CatchUpLimit returns the number of missed fires that catch_up allows to be made up.
func (e *Entry) CatchUpLimit() int {
	switch e.Spec.Missed.CatchUp {
	case schedule.CatchUpRunOnce:
		return 1
	case schedule.CatchUpRunAll:
		return e.Spec.Missed.CatchUpMax
	}
	return 0
}

// maxChecked bounds the nominal times that one search for missed fires checks.
const maxChecked = 100_000

// MissedFires returns the last n nominal times of a loss until now at which the entry would have run.
func (e *Entry) MissedFires(l Loss, to time.Time, n int, zone *time.Location) []time.Time {
	from := l.From
	if !l.Planned.IsZero() {
		from = l.Planned.Add(-1)
	}
	if limit := to.Add(-LongAgo); from.Before(limit) {
		from = limit
	}
	for back := time.Minute; ; back *= 2 {
		start, checked := e.Rhythm.alignedStart(e, from, to, back), 0
		var list []time.Time
		for at := range e.Timing.Between(start, to) {
			if checked++; checked > maxChecked {
				break
			}
			lost := at.After(l.After) && !e.Has(at) || at.Equal(l.Planned)
			if lost && e.MayFire(at) && e.ClosedBy(at) == "" {
				list = append(list, at.In(zone))
			}
		}
		if len(list) >= n || !start.After(from) || checked > maxChecked {
			return slices.Clone(list[max(0, len(list)-n):])
		}
	}
}
