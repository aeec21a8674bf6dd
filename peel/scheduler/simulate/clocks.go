package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// A ClockChange is the effect of a change of clocks, as to daylight saving, on an entry with fixed times: some of its
// wall times are skipped, or come twice. Entries that follow elapsed time are not affected.
type ClockChange struct {
	Entry string
	Zone  string
	At    time.Time     // in the zone, by its new clock
	Shift time.Duration // the clocks go forward, or back if it is negative
	Wall  []string      // wall times of the entry that are skipped or come twice, at most maxWall
	Fires []time.Time   // in place of them
}

const maxWall = 4

// ClockChanges returns the changes of clocks in a simulation that affect entries, by time and entry.
func ClockChanges(groups []forecast.Group, from, until time.Time, zone *time.Location) ([]ClockChange, error) {
	var list []ClockChange
	seen := map[string]bool{}
	for _, g := range groups {
		for _, e := range g.Schedule {
			key := fmt.Sprint(e.Name, " ", e.TimingHash(), " ", e.Clock.Zone)
			if seen[key] || !e.Enabled || len(e.Clock.Cron) == 0 {
				continue
			}
			seen[key] = true
			t, err := e.Timing(zone)
			if err != nil {
				return nil, fmt.Errorf("cannot simulate entry %s: %w", e.Name, err)
			}
			if !t.Wild() {
				list = append(list, clockChanges(e, t, from, until)...)
			}
		}
	}
	sorting.Func(list, func(a, b ClockChange) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Zone, b.Zone),
			slices.Compare(a.Wall, b.Wall))
	})
	return list, nil
}

// clockChanges returns the changes that affect one entry.
func clockChanges(e *schedule.Entry, t schedule.Timing, from, until time.Time) (list []ClockChange) {
	for at := from.In(t.Zone()); ; {
		_, next := at.ZoneBounds()
		if next.IsZero() || !next.Before(until) || !next.After(at) {
			return list
		}
		_, before := next.Add(-1).Zone()
		_, after := next.Zone()
		c := ClockChange{
			Entry: e.Name,
			Zone:  t.Zone().String(),
			At:    next,
			Shift: time.Duration(after-before) * time.Second,
		}
		// where the skipped or repeated wall times begin
		wall := time.Unix(next.Unix()+int64(min(before, after)), 0).UTC()
		c.Wall = wallTimes(e, wall, wall.Add(c.Shift.Abs()))
		for fire := range t.Between(next.Add(min(c.Shift, 0)-1), next.Add(c.Shift.Abs()-1)) {
			c.Fires = append(c.Fires, fire)
		}
		if len(c.Wall) > 0 {
			c.Fires = c.Fires[:min(len(c.Fires), 2*maxWall)]
			list = append(list, c)
		}
		at = next
	}
}

// wallTimes returns the wall times of an entry in [from, until), which are times of a clock without zone.
func wallTimes(e *schedule.Entry, from, until time.Time) (list []string) {
	for _, x := range e.Clock.Cron {
		for at, ok := x.Next(from.Add(-1), time.UTC, cron.Changes{}); ok &&
			at.Before(until); at, ok = x.Next(at, time.UTC, cron.Changes{}) {
			if text := at.Format("15:04"); !slices.Contains(list, text) && len(list) < maxWall {
				list = append(list, text)
			}
		}
	}
	slices.Sort(list)
	return list
}
