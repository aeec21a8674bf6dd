package judge

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
)

// Margin is how long after its latest start a fire may be missing in a report.
const Margin = time.Minute

// maxPerHour bounds the fires of an entry in one hour: the shortest interval is a second.
const maxPerHour = 3600

// A Plan computes the fires that a document asks of one entry. It remembers what it has computed for whole hours, so its
// methods may not be called at the same time.
type Plan struct {
	entry  *schedule.Entry
	timing schedule.Timing
	hours  map[int64]fires
}

// fires are numbers of fires in one hour.
type fires struct{ required, most uint16 }

// rememberedHours is how many hours a Plan remembers: more than a report has.
const rememberedHours = 64

// NewPlan returns the plan of an entry. zone is that of entries that name none. The error says that this host does not know
// the zone of the entry.
func NewPlan(e *schedule.Entry, zone *time.Location) (*Plan, error) {
	timing, err := e.Timing(zone)
	if err != nil {
		return nil, err
	}
	return &Plan{entry: e, timing: timing, hours: map[int64]fires{}}, nil
}

// Exact reports whether the fires of the entry depend on nothing but the wall clock: not on earlier runs, on other entries, or
// on when the host first saw the entry.
func (p *Plan) Exact() bool {
	e := p.entry
	return !p.timing.FollowsRuns() && e.Clock.After == 0 && !e.Clock.IsZero() && e.Windows.Outside != schedule.OutsideDefer &&
		e.Life.MaxRuns == 0 && !e.Life.DeleteAfterRun
}

// Slack is how long after its nominal time a report may lack a fire: its splay, and [Margin]. A fire that may wait for the run of
// another entry has until its start deadline.
func (p *Plan) Slack() time.Duration {
	slack := p.entry.Splay.Max + Margin
	if o := p.entry.Overlap; o.Group != "" || o.IfRunning == schedule.IfRunningQueue || o.IfRunning == schedule.IfRunningCancel {
		slack += p.entry.Missed.StartDeadline
	}
	return slack
}

// Required returns how many times the entry has to fire in (after, until] within one hour of UTC. Times that windows close are
// left out.
func (p *Plan) Required(hour int64, after, until time.Time) int {
	first, last := bounds(hour)
	if after.Before(first) && !until.Before(last) {
		return int(p.whole(hour).required)
	}
	return p.count(later(after, first), earlier(until, last))
}

// Most returns how many times the entry may fire in an hour of UTC, whatever windows say.
func (p *Plan) Most(hour int64) int { return int(p.whole(hour).most) }

// Fires returns how many times the entry fires in each hour of (after, until], if runs take no time.
func (p *Plan) Fires(after, until time.Time) []Hour {
	var list []Hour
	n := 0
	timing := p.timing.Seen(after)
	for at := range forecast.Fires(p.entry, timing, after, until) {
		hour := HourOf(at)
		if len(list) == 0 || list[len(list)-1].Hour != hour {
			list = append(list, Hour{Hour: hour})
		}
		list[len(list)-1].Expected++
		if n++; n == maxPerHour*MaxHours {
			break
		}
	}
	return list
}

// First returns the first fire in (after, until]; false if there is none. A zero until is no end.
func (p *Plan) First(after, until time.Time) (time.Time, bool) {
	for at := range forecast.Fires(p.entry, p.timing, after, until) {
		return at, true
	}
	return time.Time{}, false
}

func (p *Plan) whole(hour int64) fires {
	if f, ok := p.hours[hour]; ok {
		return f
	}
	if len(p.hours) == rememberedHours {
		clear(p.hours)
	}
	first, last := bounds(hour)
	f := fires{required: uint16(p.count(first, last))}
	for range p.timing.Between(first, last) {
		if f.most++; f.most == maxPerHour {
			break
		}
	}
	p.hours[hour] = f
	return f
}

func (p *Plan) count(after, until time.Time) (n int) {
	if !until.After(after) {
		return 0
	}
	for range forecast.Fires(p.entry, p.timing, after, until) {
		if n++; n == maxPerHour {
			break
		}
	}
	return n
}

// HourOf returns the hour of UTC of an instant, counted since the Unix epoch.
func HourOf(at time.Time) int64 { return at.Unix() / 3600 }

// StartOf returns the first instant of an hour of UTC.
func StartOf(hour int64) time.Time { return time.Unix(hour*3600, 0).UTC() }

// bounds returns an hour as (after, until]: a fire at its first instant belongs to it.
func bounds(hour int64) (after, until time.Time) {
	start := StartOf(hour)
	return start.Add(-1), start.Add(time.Hour - 1)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
