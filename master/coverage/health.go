package coverage

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

// Feed is [Table.Health] without what is counted over all peels, and the errors of the history.
func (t *Table) Feed() (h verdict.Health) {
	published, reports := t.published.Health(), t.reports.Health()
	h.Ready, h.Behind = published.Ready && reports.Ready, reports.Behind
	if h.Behind.IsZero() || !published.Behind.IsZero() && published.Behind.Before(h.Behind) {
		h.Behind = published.Behind
	}
	return h
}

// Health returns how far the reports behind all verdicts are known.
func (t *Table) Health() verdict.Health {
	h := t.Feed()
	h.Peels, h.Reporting = t.Count(nil)
	t.mu.Lock()
	defer t.mu.Unlock()
	h.Refused, h.HistoryUnread = t.refused, len(t.unreadable)
	if t.historyErr != nil {
		h.HistoryError = t.historyErr.Error()
	}
	for _, p := range t.peels {
		h.Entries += len(p.rows)
	}
	return h
}

// absent reports whether a peel with a schedule does not report: it is offline, or its report is overdue. connected is
// since when the present connection to the bus is used: before that nothing could arrive.
func (t *Table) absent(p *peel, now, connected time.Time) bool {
	if t.o.Fleet.Silent(p.id) {
		return true
	}
	return p.isOverdue(now, time.Since(connected))
}

// isOverdue reports whether a report of the peel should have come by now. connected is how long messages could arrive.
func (p *peel) isOverdue(now time.Time, connected time.Duration) bool {
	return p.dueIn(now, connected) < 0
}

// dueIn returns the time until the report of a peel is overdue.
func (p *peel) dueIn(now time.Time, connected time.Duration) time.Duration {
	last := p.arrived
	if last == 0 {
		last = p.stored
	}
	return overdueAfter - min(now.Sub(at(last)), connected)
}

// Problems returns what is wrong now, sorted by kind, entry and peel. Ask [Table.Health] first: a table that is behind
// returns what it returned before, so that no problem begins or ends because of it.
func (t *Table) Problems() []verdict.Problem {
	now, connected, behind := t.clock.now(), t.connected(), t.err() != nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if behind {
		return slices.Clone(t.problems)
	}
	var list []verdict.Problem
	for _, p := range t.peels {
		list = append(list, t.problemsOf(p, now, connected)...)
	}
	sorting.Func(list, func(a, b verdict.Problem) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Peel, b.Peel))
	})
	t.problems = list
	return slices.Clone(list)
}

// problemsOf returns what is wrong with a peel. Of one that does not report nothing else is known.
func (t *Table) problemsOf(p *peel, now, connected time.Time) []verdict.Problem {
	if !p.hasSchedule() {
		return nil
	}
	if t.absent(p, now, connected) {
		last, online := t.o.Fleet.Presence(p.id)
		return []verdict.Problem{p.notReporting(fleetpkg.Presence{Last: last, Online: online})}
	}
	return p.reported(t)
}

// reported returns what is wrong with a peel that reports.
func (p *peel) reported(t *Table) []verdict.Problem {
	list := p.problems
	if text := p.disagreement(t); text != "" {
		since := at(p.arrived)
		if p.isStale() {
			since = at(p.stored)
		}
		list = append(slices.Clip(list), verdict.Problem{Kind: verdict.Disagrees, Peel: p.id, Since: since, Text: text})
	}
	return list
}

// notReporting returns the problem of a peel that does not report, with what is known of it.
func (p *peel) notReporting(seen fleetpkg.Presence) verdict.Problem {
	problem := verdict.Problem{Kind: verdict.NotReporting, Peel: p.id, Since: at(p.arrived)}
	heard := seen.Last.UTC().Truncate(time.Second)
	switch {
	case p.arrived == 0 && seen.Online:
		problem.Since = at(p.stored)
		problem.Text = "it is connected, but has not reported on its schedule since its settings were published " +
			problem.Since.Format(time.RFC3339) + ": it may run an older version"
	case p.arrived == 0:
		problem.Since, problem.Explained = at(p.stored), true
		problem.Text = "it is offline and has not reported on its schedule yet; its settings were published " +
			problem.Since.Format(time.RFC3339)
		if seen.Last.IsZero() {
			problem.Text += ", and this master has not heard of it"
		} else {
			problem.Text += ", and it was last heard of " + heard.Format(time.RFC3339)
		}
	case seen.Online:
		problem.Text = "it is connected, but its last report on its schedule is from " +
			problem.Since.Format(time.RFC3339)
	default:
		problem.Text, problem.Explained = "it is offline", true
	}
	if !seen.Online && heard.After(problem.Since) {
		problem.Since = heard
	}
	return problem
}

// Summaries returns each entry over all peels, by name. Ask [Table.Health] first.
func (t *Table) Summaries() []verdict.Summary {
	now, connected := t.clock.now(), t.connected()
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]*verdict.Summary, len(t.totals))
	for name, have := range t.totals {
		all[name] = &verdict.Summary{
			Entry:     name,
			Counts:    have.counts,
			Skips:     maps.Clone(have.skips),
			States:    map[string]int{},
			Problems:  map[verdict.Kind]int{},
			Durations: slices.Clone(have.durations),
			Sum:       have.sum,
			Runs:      have.runs,
		}
	}
	never := map[string]bool{}
	for _, p := range t.peels {
		for i := range p.rows {
			r := &p.rows[i]
			name := r.name.Value()
			s := all[name]
			if r.state == 0 || !r.published {
				continue
			}
			s.States[r.state.String()]++
			if r.succeeded == 0 {
				never[name] = true
			} else if succeeded := at(int64(r.succeeded)); s.LastSuccess.IsZero() || succeeded.Before(s.LastSuccess) {
				s.LastSuccess = succeeded
			}
			if next := at(int64(r.next)); r.next > 0 && (s.NextFire.IsZero() || next.Before(s.NextFire)) {
				s.NextFire = next
			}
		}
		for _, problem := range t.problemsOf(p, now, connected) {
			if s := all[problem.Entry]; s != nil && p.publishes(problem.Entry) {
				s.Problems[problem.Kind]++
			}
		}
	}
	for name := range never {
		all[name].LastSuccess = time.Time{}
	}
	list := make([]verdict.Summary, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	return list
}
