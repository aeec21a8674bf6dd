package forecast

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

// profile is the expected runs of one load in each minute. It is reused for the next load.
type profile struct {
	*load
	from    time.Time
	minutes []float64
	spread  time.Duration
}

// delays are the parameters of a fire on which the delays of splay_mode: host depend, besides the peel.
type delays struct {
	high  time.Duration // exclusive
	phase time.Duration // of the nominal time within its minute
}

// bin is the number of peels that run in the given minute after the nominal time's.
type bin struct{ minute, peels int }

func (p *profile) end() time.Time {
	return p.from.Add(time.Duration(len(p.minutes)) * time.Minute)
}

func (p *profile) compute(l *load) {
	p.load, p.spread = l, 0
	clear(p.minutes)
	if p.timing.FollowsRuns() {
		p.interval()
	} else {
		for at := range Fires(p.entry, p.timing, p.first(), p.end().Add(-1)) {
			p.fire(at)
		}
	}
	if (p.entry.Splay.Max > 0 || p.timing.FollowsRuns()) && !p.entry.Windows.Rules.None() {
		p.applyWindows()
	}
}

// interval spreads the runs of an interval evenly over time.
func (p *profile) interval() {
	e := p.entry
	next, _ := p.timing.Next(p.from) // an interval never ends
	spread := next.Sub(p.from)
	if e.Clock.IntervalFrom == schedule.FromEnd {
		spread += (e.Splay.Min + e.Splay.Max) / 2 // each run is delayed, and the next interval begins after it
	}
	rate := float64(p.count) * float64(time.Minute) / float64(spread)
	runs := e.Life.MaxRuns
	if e.Life.DeleteAfterRun {
		runs = 1
	}
	left := float64(p.count) * float64(runs)
	if life := e.Life.NotBefore; !life.Before(p.from) && life.Before(p.end()) {
		p.fire(life) // the interval has passed on every peel by then, so all fire at once
		left -= float64(p.count)
	}
	for i := range p.minutes {
		at := p.at(i)
		if at.Before(e.Life.NotBefore) || !e.Life.Until.IsZero() && !at.Before(e.Life.Until) {
			continue
		}
		more := rate
		if runs > 0 {
			more = min(rate, left)
			left -= more
		}
		p.minutes[i] += more
	}
	p.spread = spread
}

func (p *profile) at(minute int) time.Time {
	return p.from.Add(time.Duration(minute) * time.Minute)
}

// first returns an instant before the first fire whose runs can be in the forecast. A delay ends before the next fire,
// so of the fires before the forecast only the last one matters.
func (p *profile) first() time.Time {
	start := p.from.Add(-1)
	longest := p.entry.Splay.Max
	for back := min(time.Minute, longest); back > 0; back = min(2*back, longest) {
		var last time.Time
		for at := range Fires(p.entry, p.timing, p.from.Add(-back), start) {
			last = at
		}
		if !last.IsZero() {
			return last.Add(-1)
		}
		if back == longest {
			break
		}
	}
	return start
}

// fire adds the runs of one fire of all peels.
func (p *profile) fire(nominal time.Time) {
	s := p.entry.Splay
	high := max(1, p.timing.SplayBound(nominal, s.Max))
	low := max(0, min(s.Min, high-1))
	if s.Max > 0 {
		p.spread = max(p.spread, high-low)
	}
	if s.Mode == schedule.SplayHost && s.Max > 0 {
		p.fireOfHosts(nominal, high)
		return
	}
	p.even(nominal.Add(low).Sub(p.from), nominal.Add(high).Sub(p.from))
}

// even spreads one run of each peel evenly over [low, high) after the start.
func (p *profile) even(low, high time.Duration) {
	perNano := float64(p.count) / float64(high-low)
	for at, end := max(low, 0), min(high, time.Duration(len(p.minutes))*time.Minute); at < end; {
		next := min(at.Truncate(time.Minute)+time.Minute, end)
		p.minutes[at/time.Minute] += perNano * float64(next-at)
		at = next
	}
}

// fireOfHosts adds one run of each peel at the peel's own delay.
func (p *profile) fireOfHosts(nominal time.Time, high time.Duration) {
	minute := nominal.Truncate(time.Minute)
	first := int(minute.Sub(p.from) / time.Minute)
	for _, b := range p.binsOf(delays{high, nominal.Sub(minute)}) {
		if i := first + b.minute; i >= 0 && i < len(p.minutes) {
			p.minutes[i] += float64(b.peels)
		}
	}
}

// binsOf returns the numbers of peels by delay, sorted; it computes them once.
func (p *profile) binsOf(d delays) []bin {
	if bins, ok := p.offsets[d]; ok {
		return bins
	}
	all := make([]int, 0, p.count)
	for _, peels := range p.peels {
		for _, id := range peels {
			offset := p.entry.Splay.Offset(string(id), p.entry.Name, d.high)
			all = append(all, int((d.phase+offset)/time.Minute))
		}
	}
	slices.Sort(all)
	var bins []bin
	for i, minute := range all {
		if i == 0 || minute != all[i-1] {
			bins = append(bins, bin{minute: minute})
		}
		bins[len(bins)-1].peels++
	}
	if p.offsets == nil {
		p.offsets = map[delays][]bin{}
	}
	p.offsets[d] = bins
	return bins
}

// applyWindows removes the runs of the minutes in which the windows are closed. If they are deferred, at most one run
// of each peel is added when the windows open.
func (p *profile) applyWindows() {
	held := 0.0
	for i, runs := range p.minutes {
		if p.timing.Window(p.at(i)) == window.Open {
			p.minutes[i] += held
			held = 0
			continue
		}
		p.minutes[i] = 0
		if p.entry.Windows.Outside == schedule.OutsideDefer {
			held = min(held+runs, float64(p.count))
		}
	}
}

// sum returns the forecast of the load.
func (p *profile) sum() Entry {
	e := Entry{Name: p.entry.Name, Peels: p.count, Spread: p.spread, By: ByNothing, Meaning: p.entry.Explain()}
	for _, runs := range p.minutes {
		e.Runs += runs
		e.Peak = max(e.Peak, runs)
	}
	switch splay := p.entry.Splay; {
	case p.timing.FollowsRuns():
		e.By = ByInterval
	case splay.Max > 0 && splay.Mode == schedule.SplayHost:
		e.By = ByHost
	case splay.Max > 0:
		e.By = ByRandom
	}
	return e
}
