package join

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A Plan has the times at which an entry is due in one zone, windows not applied. Make it with [NewPlan]. All peels
// that have the entry in this zone share it. It remembers what it has computed, so its methods may not be called at the
// same time.
type Plan struct {
	entry  *schedule.Entry
	timing schedule.Timing
	list   []times // oldest first, in (from, until]
	from   int64   // Unix time
	until  int64
}

// maxPlan is the longest time that a plan remembers, in seconds. The reports of peels that are away may be days old.
const maxPlan = 8 * 24 * 3600

// Margin is how late a peel may notice that its host was suspended, or that the clock was set. A fire that the list
// lacks is missed if it was due this long before the report, or longer.
const Margin = time.Minute

// NewPlan returns the plan of an entry. An entry that names no zone is planned in the given one. The error says that
// this host does not know the zone of the entry.
func NewPlan(e *schedule.Entry, zone *time.Location) (*Plan, error) {
	timing, err := e.Timing(zone)
	if err != nil {
		return nil, err
	}
	return &Plan{entry: e, timing: timing}, nil
}

// A kind says what the fires of an entry follow.
type kind int

const (
	exact     kind = iota // the wall clock alone
	fromEnd               // the end of each run, by an interval
	fromStart             // each nominal time, by an interval
	once                  // the moment at which the entry was first seen
	untimed               // only the runs of another entry, or starts of the process
)

func (p *Plan) kind() kind {
	switch c := &p.entry.Clock; {
	case c.After > 0:
		return once
	case c.IsZero():
		return untimed
	case !p.timing.FollowsRuns():
		return exact
	case c.IntervalFrom == schedule.FromStart:
		return fromStart
	}
	return fromEnd
}

// Has reports whether a time is one of the plan. If the times depend on runs, each may be.
func (p *Plan) Has(at time.Time) bool {
	if p.kind() != exact {
		return true
	}
	next, ok := p.timing.Next(at.Add(-1))

	return ok && next.Unix() == at.Unix() && p.lives(at.Unix())
}

// Next returns the first time after the given one; false if there is none, or if the times depend on runs.
func (p *Plan) Next(after time.Time) (time.Time, bool) {
	if p.kind() != exact {
		return time.Time{}, false
	}
	if start := p.entry.Life.NotBefore; after.Before(start) {
		after = start.Add(-1)
	}
	next, ok := p.timing.Next(after)

	return next, ok && p.lives(next.Unix())
}

// lives reports whether a Unix time is in the life of the entry.
func (p *Plan) lives(at int64) bool {
	life := p.entry.Life

	return (life.NotBefore.IsZero() || at >= life.NotBefore.Unix()) && (life.Until.IsZero() || at < life.Until.Unix())
}

// closed returns what closes the windows at a Unix time; empty if they are open.
func (p *Plan) closed(at int64) string {
	if p.isOpen() {
		return ""
	}
	return string(p.timing.Window(time.Unix(at, 0)))
}

// isOpen reports whether the windows never close.
func (p *Plan) isOpen() bool { return p.entry.Windows.Rules.None() }

// interval returns the interval of the entry in seconds; 0 if it has none, or counts months.
func (p *Plan) interval() int64 { return int64(p.entry.Clock.Interval.Duration / time.Second) }

// slack is how long before and after a change of the clock a fire may be missing in the list, in seconds.
func (p *Plan) slack() int64 { return int64((Margin + p.entry.Splay.Max) / time.Second) }

// between returns the times in (from, until], and later ones. They are valid until the next call.
func (p *Plan) between(from, until int64) cursor[times] {
	p.cover(from, until)
	i, _ := slices.BinarySearchFunc(p.list, from, func(t times, from int64) int {
		if t.last() <= from {
			return -1
		}
		return 1
	})
	c := cursor[times]{rest: p.list[i:]}
	c.skipTo(from + 1)

	return c
}

// cover computes the times in (from, until] that are not known yet.
func (p *Plan) cover(from, until int64) {
	if p.until == 0 || max(until, p.until)-min(from, p.from) > maxPlan {
		p.list, p.from, p.until = nil, from, from
	}
	if from < p.from {
		p.list = append(p.compute(nil, from, p.from), p.list...)
		p.from = from
	}
	if until > p.until {
		p.list = p.compute(p.list, p.until, until)
		p.until = until
	}
}

// compute appends the times in (from, until] to a list.
func (p *Plan) compute(list []times, from, until int64) []times {
	if p.kind() != exact {
		return list
	}
	life := p.entry.Life
	if start := life.NotBefore; !start.IsZero() {
		from = max(from, start.Unix()-1)
	}
	if end := life.Until; !end.IsZero() {
		until = min(until, end.Unix()-1)
	}
	// Nominal times are cut to seconds: the one at until may have a fraction.
	for at := range p.timing.Between(time.Unix(from+1, -1), time.Unix(until+1, -1)) {
		list = appendTime(list, at.Unix())
	}
	return list
}

// Count returns how many times of the plan are in [from, until), which is at most a day. Those of an interval depend on
// runs: they are counted as if the first had been at the Unix epoch.
func (p *Plan) Count(from, until time.Time) (n int64) {
	first, end := from.Unix(), until.Unix()
	if p.kind() != exact {
		if step := p.interval(); step > 0 {
			return (end-1)/step - (first-1)/step
		}
		return 0
	}
	c := p.between(first-1, end-1)
	for _, t := range c.rest {
		n += t.before(end) - t.before(first)
	}
	return n
}
