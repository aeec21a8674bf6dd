package coverage_test

import (
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A lie is a difference between what masters say and what the test has seen.
type lie struct {
	about string // what may not be, as in the names of the counts
	host  *soakHost
	entry string
	hour  time.Time
	text  string
}

func (l lie) String() string {
	return fmt.Sprintf("%s: %s on %s, hour of %s: %s", l.about, l.entry, l.host.id, l.hour.UTC().Format("2 Jan 15:04"), l.text)
}

// bounds are the least and the most that masters may count of the fires in one hour.
type bounds struct{ least, most verdict.Counts }

// add adds a fire that may count in each of the counts of most, and must count in each of least.
func (b *bounds) add(least, most verdict.Counts) {
	b.least.Add(least)
	b.most.Add(most)
}

// many is more fires than there are.
const many = 1 << 20

// anything is a fire of which nothing is certain but that it was not missed and that no master lacks a report of it.
var anything = verdict.Counts{Expected: 1, Ran: 1, Failed: 1, Late: 1, Overran: 1, Skipped: 1}

// truth returns what masters may count for an entry of a host, by hour.
func (h *soakHost) truth(entry string, now time.Time) map[int64]*bounds {
	hours := map[int64]*bounds{}
	at := func(t time.Time) *bounds {
		hour := t.Unix() / 3600
		if hours[hour] == nil {
			hours[hour] = &bounds{}
		}
		return hours[hour]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	runs := map[int64][]*ranFire{} // by nominal time
	for _, r := range h.runsOf(entry) {
		nominal := h.nominalOf(r)
		runs[nominal.Unix()] = append(runs[nominal.Unix()], r)
	}
	h.byOtherClocks(entry, at)
	hasPlan := true
	for _, a := range h.active[entry] {
		if a.plan == nil {
			hasPlan = hasPlan && a.fields == nil
			continue
		}
		until := a.to
		if until.IsZero() {
			until = now
		}
		for _, p := range a.plan(a.from, until.Add(time.Second)) {
			least, most := h.planned(kinds[entry], a, entry, p, runs[p.Unix()])
			at(p).add(least, most)
			delete(runs, p.Unix())
		}
	}
	for _, list := range runs {
		for _, r := range list {
			least, most := h.unplanned(r, hasPlan)
			nominal := h.nominalOf(r)
			if r.ahead != 0 {
				least = verdict.Counts{}
			}
			if !nominal.Equal(r.nominal) && nominal.Unix()/3600 != r.nominal.Unix()/3600 { // it counts in one of the two
				least = verdict.Counts{}
				at(r.nominal).add(least, most)
			}
			at(nominal).add(least, most)
		}
	}
	if hasPlan {
		return hours
	}
	for t := h.began; t.Before(now); t = t.Add(time.Hour) {
		most := verdict.Counts{Expected: many, Skipped: many, Late: many, Overran: many}
		if h.isOff(t.Add(-5*time.Hour), t.Add(2*time.Hour)) {
			most.Missed = many
		}
		if h.isDoubtful(t.Add(-2*time.Hour), t.Add(2*time.Hour)) {
			most.Unknown, most.Unexpected, most.Missed = many, many, many
		}
		at(t).add(verdict.Counts{}, most)
	}
	return hours
}

// byOtherClocks adds what masters may count of runs that had a nominal time by another clock than the present one: at their true time,
// if they know by how much the clock was wrong, or at the time that the clock showed when they were due.
func (h *soakHost) byOtherClocks(entry string, at func(time.Time) *bounds) {
	most := anything
	most.Unexpected = 1
	margin, delay := h.margin(), kinds[entry].delay
	for _, r := range h.runsOf(entry) {
		if truly := h.nominalOf(r).Add(-r.ahead); r.ahead != 0 {
			at(truly.Add(-margin)).add(verdict.Counts{}, most)
			at(truly.Add(margin)).add(verdict.Counts{}, most)
		}
		if needed := h.needed(r); needed != nil && (r.ahead != 0 || needed.ahead != 0) {
			at(needed.nominal.Add(-needed.ahead)).add(verdict.Counts{}, most)
		}
		for _, m := range h.marks { // set while the run waited
			if m.at.Before(r.started.Add(-delay-margin)) || m.at.After(r.started) {
				continue
			}
			for _, ahead := range []time.Duration{0, m.was} {
				first, last := r.started.Add(ahead-delay-margin), r.started.Add(ahead)
				for shown := first.Truncate(time.Hour); !shown.After(last); shown = shown.Add(time.Hour) {
					at(shown).add(verdict.Counts{}, most)
				}
			}
		}
	}
}

// nominalOf returns the nominal time in whose hour a run counts, by the clock of the run. A run that follows another one
// has the nominal time of the other, also if the clock was set between the two.
func (h *soakHost) nominalOf(run *ranFire) time.Time {
	needed := h.needed(run)
	switch {
	case needed == nil:
		return run.nominal
	case needed.ahead.Abs() > tolerated || run.ahead.Abs() > tolerated:
		return needed.nominal.Add(run.ahead - needed.ahead)
	}
	return needed.nominal
}

// needed returns the run that a run follows: its end, by the clock of that moment, is the nominal time of the other. It
// returns nil if it follows none.
func (h *soakHost) needed(run *ranFire) *ranFire {
	if run.trigger != wire.TriggerNeeds {
		return nil
	}
	needs, _ := kinds[run.entry].variants[0].fields["needs"].(map[string]any)
	for _, r := range h.runsOf(needs["entry"].(string)) {
		if r.ended.Add(run.ahead).Sub(run.nominal).Abs() < time.Second {
			return r
		}
	}
	return nil
}

// runsOf returns the runs of an entry. The caller holds the lock.
func (h *soakHost) runsOf(entry string) (list []*ranFire) {
	for _, r := range h.runs {
		if r.entry == entry {
			list = append(list, r)
		}
	}
	return list
}

// margin is how far the clock of the host may be from the right one where it counts as right, and how long starts take.
func (h *soakHost) margin() time.Duration {
	if h.badClock {
		return 2 * time.Minute
	}
	return 2 * time.Second
}

// isOff reports whether the host did nothing at some time of a span: it was down or asleep.
func (h *soakHost) isOff(from, to time.Time) bool {
	return h.down.meet(from, to) || h.asleep.meet(from, to)
}

// isDoubtful reports whether the clock was wrong at some time of a span, or set within a minute of it.
func (h *soakHost) isDoubtful(from, to time.Time) bool {
	from, to = from.Add(-time.Minute-h.margin()), to.Add(time.Minute+h.margin())
	if h.wrong.meet(from, to) {
		return true
	}
	for _, m := range h.marks {
		if !m.at.Before(from) && !m.at.After(to) {
			return true
		}
	}
	return false
}

// planned returns how a planned time of an entry may count.
func (h *soakHost) planned(k *kind, a *activation, entry string, p time.Time, runs []*ranFire) (least, most verdict.Counts) {
	from, to := p.Add(-h.margin()), p.Add(k.delay+h.margin())
	off := h.isOff(from, to)
	doubtful := h.isDoubtful(p, to)
	var ran *ranFire
	for _, r := range runs {
		if r.trigger == wire.TriggerManual || r.trigger == wire.TriggerNeeds || r.trigger == wire.TriggerStart {
			most.Unexpected++
			continue
		}
		if ran != nil {
			doubtful = true // a time that the clock has shown twice
		}
		ran = r
		doubtful = doubtful || h.isDoubtful(r.started, r.started)
	}
	switch {
	case doubtful:
		most.Add(anything)
		most.Unknown, most.Unexpected = 1, uint64(max(1, len(runs)))
		if off || k.waits {
			most.Missed = 1
		}
		return least, most
	case ran != nil && ran.ended.IsZero():
		most.Add(anything)
		return least, most
	case ran != nil:
		least = verdict.Counts{Expected: 1, Ran: 1}
		if ran.failed {
			least.Failed = 1
		}
		unexpected := most.Unexpected
		most = least
		most.Late, most.Overran, most.Unexpected = 1, 1, unexpected
		return least, most
	}
	isEdge := p.Sub(a.from) < h.margin() || !a.to.IsZero() && !a.to.After(to)
	if r := h.rests[entry]; r != nil {
		isEdge = isEdge || r.meet(from, to)
	}
	isOpen := k.closed == nil || !k.closed(p)
	switch {
	case isEdge || k.loose:
		most = verdict.Counts{Expected: 1, Skipped: 1, Unexpected: most.Unexpected}
		if off || k.waits {
			most.Missed = 1
		}
	case !isOpen || !off:
		least = verdict.Counts{Expected: 1, Skipped: 1}
		most = verdict.Counts{Expected: 1, Skipped: 1, Unexpected: most.Unexpected}
	case h.down.cover(from, to) && !k.trips:
		least = verdict.Counts{Expected: 1, Missed: 1}
		most = verdict.Counts{Expected: 1, Missed: 1, Unexpected: most.Unexpected}
	default:
		least = verdict.Counts{Expected: 1}
		most = verdict.Counts{Expected: 1, Missed: 1, Skipped: 1, Unexpected: most.Unexpected}
	}
	return least, most
}

// unplanned returns how a run may count that has not the time of a plan.
func (h *soakHost) unplanned(r *ranFire, hasPlan bool) (least, most verdict.Counts) {
	switch {
	case r.trigger == wire.TriggerManual:
		return least, verdict.Counts{Unexpected: 1}
	// One that has waited has the nominal time that the clock showed before.
	case h.isDoubtful(r.nominal, r.nominal) || h.isDoubtful(r.started.Add(-kinds[r.entry].delay), r.started) || r.ended.IsZero():
		most = anything
		most.Unexpected = 1
		return least, most
	case hasPlan:
		return verdict.Counts{Failed: many}, most // it must not be
	}
	least = verdict.Counts{Expected: 1, Ran: 1}
	if r.failed {
		least.Failed = 1
	}
	return least, least
}

var countNames = [...]string{"expected", "ran", "failed", "late", "overran", "skipped", "missed", "unknown", "unexpected"}

// compare returns what is not within the bounds. Of hours that are not over only too much is a lie.
func (h *soakHost) compare(entry string, hour int64, got verdict.Counts, b *bounds, isOver bool) (lies []lie) {
	at := time.Unix(hour*3600, 0)
	if !isOver && got.Unknown > 0 {
		return nil // the host has not reported since: what it was to do is not known either
	}
	text := fmt.Sprintf("%s, and the truth is from %q to %q", text(got), text(b.least), text(b.most))
	least, most := b.least.Numbers(), b.most.Numbers()
	for i, n := range got.Numbers() {
		switch {
		case *n > *most[i]:
			lies = append(lies, lie{countNames[i] + " too many", h, entry, at, text})
		case isOver && !kinds[entry].comes && *n < *least[i]:
			lies = append(lies, lie{countNames[i] + " too few", h, entry, at, text})
		}
	}
	if sum := got.Ran + got.Skipped + got.Missed + got.Unknown; isOver && got.Expected != sum {
		lies = append(lies, lie{"verdicts of one fire", h, entry, at, text})
	}
	return lies
}

// A cellKey is an hour of an entry on a peel.
type cellKey struct {
	peel  target.PeelID
	entry string
	hour  int64
}

// hoursOf returns what a table counts in each hour of a span.
func (s *soak) hoursOf(table *coverage.Table, from, until int64) (map[cellKey]verdict.Counts, error) {
	if err := table.CheckSums(); err != nil {
		return nil, err
	}
	all, later := map[cellKey]verdict.Counts{}, map[cellKey]verdict.Counts{}
	for hour := until + 1; hour >= from; hour-- { // no fire counts before its time
		cells, err := table.Cells(coverage.Query{Since: time.Unix(hour*3600, 0)})
		if err != nil {
			return nil, err
		}
		for _, c := range cells {
			sum := cellKey{c.Peel, c.Entry, 0}
			all[cellKey{c.Peel, c.Entry, hour}] = minus(c.Counts, later[sum])
			later[sum] = c.Counts
		}
	}
	return all, nil
}

func minus(a, b verdict.Counts) verdict.Counts {
	to := a.Numbers()
	for i, n := range b.Numbers() {
		*to[i] -= *n
	}
	return a
}
