package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A Tally counts the fires of an entry by what happened to them: each fire once, as soon as that is certain. Fires that are in
// flight, or that wait, are not in it yet.
type Tally struct {
	Total wire.FireCounts     `json:"total,omitzero"` // since the entry was first seen
	Skips map[string]uint64   `json:"skips,omitempty"`
	Hours []wire.ScheduleHour `json:"hours,omitempty"` // by nominal time, the newest last; see [Tally.Forget]
	Fires []wire.FireReport   `json:"fires,omitempty"` // the newest that did not run, failed, were late or overran
	Took  []time.Duration     `json:"took,omitempty"`  // of the newest runs that ended, the newest last
	// Settled is the time up to which fires that did not run are counted.
	Settled time.Time `json:"settled,omitzero"`
	// Down are the newest times that the process was down, by the clock at each start. What was missed in them is taken back if the
	// clock turns out to have been ahead.
	Down []Span `json:"down,omitempty"`
	// Shown is the latest time that the wall clock has shown before it was set back: fires until then are counted.
	Shown time.Time `json:"shown,omitzero"`
	// Offset is by how much the wall clock has been set, forward less back. Below 0 it may be behind now, or may have been ahead
	// before. Unsure says that it was set back by more, while the process was down.
	Offset time.Duration `json:"offset,omitempty"`
	Unsure bool          `json:"unsure,omitempty"`
	// Newest is the result of the newest fire that ran or was missed, as in [wire.FireReport]; empty if it ran well.
	Newest string `json:"newest,omitempty"`
}

// A Span is the times (From, To].
type Span struct {
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
}

// Has reports whether a time is in the span.
func (s Span) Has(at time.Time) bool { return at.After(s.From) && !at.After(s.To) }

const (
	maxTook     = 20 // runs whose duration is remembered
	maxDown     = 4  // times that the process was down
	tallyHours  = 48
	aheadHours  = 4 // more than the limit for setting back the clock without times firing again
	secondsHour = 3600
)

// hourOf returns the number of a time's hour of UTC since the Unix epoch.
func hourOf(at time.Time) int64 {
	s := at.Unix()
	if s < 0 {
		s -= secondsHour - 1
	}
	return s / secondsHour
}

// clone returns a copy. The maps are shared, because a map of a Tally is never changed, but replaced.
func (t Tally) clone() Tally {
	t.Hours, t.Fires, t.Took = slices.Clone(t.Hours), slices.Clone(t.Fires), slices.Clone(t.Took)
	t.Down = slices.Clone(t.Down)
	return t
}

// Forget drops the hours of more than 48 h ago, and those further ahead than 3 h, which the clock showed before it was set back.
func (t *Tally) Forget(now time.Time) {
	first, last := hourOf(now)-tallyHours, hourOf(now)+aheadHours
	t.Hours = slices.DeleteFunc(t.Hours, func(h wire.ScheduleHour) bool { return h.Hour < first || h.Hour > last })
}

// count adds a fire to the total and to its hour, if that is among the newest.
func (t *Tally) count(nominal time.Time, why string, add func(*wire.FireCounts)) {
	add(&t.Total)
	if why != "" {
		t.Skips = increased(t.Skips, why)
	}
	hour := hourOf(nominal)
	i, found := slices.BinarySearchFunc(t.Hours, hour, func(h wire.ScheduleHour, hour int64) int { return cmp.Compare(h.Hour, hour) })
	if !found {
		if len(t.Hours) >= wire.MaxScheduleHours {
			if i == 0 {
				return
			}
			t.Hours = slices.Delete(t.Hours, 0, 1)
			i--
		}
		t.Hours = slices.Insert(t.Hours, i, wire.ScheduleHour{Hour: hour})
	}
	h := &t.Hours[i]
	add(&h.FireCounts)
	if why != "" {
		h.Skips = increased(h.Skips, why)
	}
}

func increased(m map[string]uint64, key string) map[string]uint64 {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]uint64{}
	}
	m[key]++
	return m
}

// NotRun adds a fire that does not run. It counts as missed or as skipped, see [ledger.Reason.IsMissed].
func (t *Tally) NotRun(nominal time.Time, why ledger.Reason) {
	if why.IsMissed() {
		t.count(nominal, "", func(c *wire.FireCounts) { c.Missed++ })
		t.Newest = wire.FireMissed
		t.note(wire.FireReport{Nominal: nominal, Result: wire.FireMissed})
		return
	}
	t.count(nominal, string(why), func(c *wire.FireCounts) { c.Skipped++ })
	t.note(wire.FireReport{Nominal: nominal, Result: string(why)})
}

// WasDown notes that the process was down.
func (t *Tally) WasDown(s Span) {
	t.Down = append(t.Down[max(0, len(t.Down)-maxDown+1):], s)
}

// TakeBack takes back that a fire was missed. It returns false if it was not counted.
func (t *Tally) TakeBack(nominal time.Time) bool {
	hour := hourOf(nominal)
	i := slices.IndexFunc(t.Hours, func(h wire.ScheduleHour) bool { return h.Hour == hour && h.Missed > 0 })
	if i < 0 {
		return false
	}
	t.Hours[i].Missed--
	t.Total.Missed -= min(1, t.Total.Missed)
	t.Fires = slices.DeleteFunc(t.Fires, func(f wire.FireReport) bool { return f.Result == wire.FireMissed && f.Nominal.Equal(nominal) })
	return true
}

// ran adds a run that has ended or was interrupted.
func (t *Tally) ran(r RunRecord) {
	took := r.Ended.Sub(r.Started)
	if !r.Interrupted {
		t.Took = append(t.Took[max(0, len(t.Took)-maxTook+1):], took.Round(time.Millisecond))
	}
	if r.Trigger == TriggerManual {
		t.count(r.Nominal, "", func(c *wire.FireCounts) { c.Manual++ })
		return
	}
	t.count(r.Nominal, "", func(c *wire.FireCounts) {
		c.Ran++
		c.Failed += oneIf(!r.Success)
		c.Late += oneIf(r.Late)
		c.Overran += oneIf(r.Overran)
	})
	f := wire.FireReport{Nominal: r.Nominal, Started: r.Started, Error: r.Error, Commit: r.Commit, Stopped: r.Stopped}
	switch {
	case r.Interrupted:
		f.Result = wire.FireInterrupted
	case !r.Success:
		f.Result = wire.FireFailed
	case r.Overran:
		f.Result = wire.FireOverran
	case r.Late:
		f.Result = wire.FireLate
	}
	if !r.Interrupted {
		f.Took = took
	}
	t.Newest = f.Result
	if f.Result != "" {
		t.note(f)
	}
}

func oneIf(is bool) uint64 {
	if is {
		return 1
	}
	return 0
}

// Begun notes what is wrong with a run that has not ended.
func (t *Tally) Begun(nominal, started time.Time, result string) {
	t.Newest = result
	t.note(wire.FireReport{Nominal: nominal, Started: started, Result: result})
}

// note adds a fire to the newest that did not go well, in the place of an earlier note of the same run. When there are too many,
// skips are dropped first.
func (t *Tally) note(f wire.FireReport) {
	if i := slices.IndexFunc(t.Fires, func(other wire.FireReport) bool { return !f.Started.IsZero() && isSameRun(f, other) }); i >= 0 {
		t.Fires[i] = f
		return
	}
	if len(t.Fires) >= wire.MaxScheduleFires {
		drop := max(0, slices.IndexFunc(t.Fires, isSkip))
		if isSkip(f) && !isSkip(t.Fires[drop]) {
			return
		}
		t.Fires = slices.Delete(t.Fires, drop, drop+1)
	}
	t.Fires = append(t.Fires, f)
}

// Reported adds the job that reports a run.
func (t *Tally) Reported(r RunRecord) {
	f := wire.FireReport{Nominal: r.Nominal, Started: r.Started}
	if i := slices.IndexFunc(t.Fires, func(other wire.FireReport) bool { return isSameRun(f, other) }); i >= 0 {
		t.Fires[i].Job = r.Run
	}
}

func isSameRun(a, b wire.FireReport) bool {
	return a.Started.Equal(b.Started) && a.Nominal.Equal(b.Nominal)
}

// isSkip reports whether a rule or an operator kept the fire from running.
func isSkip(f wire.FireReport) bool { return f.Started.IsZero() && f.Result != wire.FireMissed }

// Durations returns the median and the 95th percentile of the durations of the newest runs, 0 if there are none.
func (t *Tally) Durations() (median, p95 time.Duration) {
	n := len(t.Took)
	if n == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(t.Took))
	return sorted[(n-1)/2], sorted[(n*95+99)/100-1]
}
