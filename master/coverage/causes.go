package coverage

import (
	"cmp"
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A source is a commit and its author.
type source struct {
	commit settings.Commit
	author string
}

// An arrival is when the settings came with which a commit changed an entry of a peel last.
type arrival struct {
	source unique.Handle[source]
	at     uint32 // Unix seconds; 0: not known, as it was before this table began
}

// arrivalsOf returns the arrivals of the entries of a new document, in the order of its names, and those that they
// replace. A commit that comes back, as a wave is rolled back, does not arrive again. The first document that the table
// reads of a peel tells the time only of entries that the revision of its write has changed.
func (p *peel) arrivalsOf(doc *settings.Document, s *document,
	stored time.Time,
) (list []arrival, former map[string]arrival) {
	list = make([]arrival, len(s.names))
	for i, name := range s.names {
		o := doc.Origins[name]
		a := arrival{source: unique.Make(source{o.Commit, o.Author})}
		before, known := p.arrival(name)
		older, replaced := p.former[name]
		switch {
		case known && before.source == a.source:
			a.at = before.at
		case replaced && older.source == a.source:
			a.at = older.at
		case p.document != nil || o.Commit != "" && o.Commit == doc.Commit:
			a.at = seconds(stored)
		}
		list[i] = a
		if known && before.source != a.source {
			older, replaced = before, true
		}
		if replaced {
			if former == nil {
				former = map[string]arrival{}
			}
			former[name] = older
		}
	}
	return list, former
}

// arrival returns the arrival of an entry; known is false if the document does not have it.
func (p *peel) arrival(entry string) (a arrival, known bool) {
	if p.document == nil {
		return a, false
	}
	i, found := slices.BinarySearch(p.document.names, entry)
	if !found {
		return a, false
	}
	return p.arrivals[i], true
}

// arrivalOf returns the arrival of the commit that had last changed an entry when it ran; known is false if the peel
// has got another one since, and this table did not see it come. An empty commit stands for the commit of the document.
func (p *peel) arrivalOf(entry string, commit settings.Commit) (a arrival, known bool) {
	a, known = p.arrival(entry)
	if !known || commit == "" || a.source.Value().commit == commit {
		return a, known
	}
	a, known = p.former[entry]
	return a, known && a.source.Value().commit == commit
}

// maxCauses bounds the causes that are computed at the same time: each takes the hours of all peels that have the
// entry.
const maxCauses = 2

// Cause returns which commit explains a problem of an entry, on all peels that have it; without an entry, which commit
// explains that peels do not report, and what these have in common. Ask [Table.Health] first. Runs are known by the
// hour, so a commit is likely once an hour has passed with it. It waits while [maxCauses] others are computed. Reports
// are taken in meanwhile.
func (t *Table) Cause(kind verdict.Kind, entry string) cause.Finding {
	f := t.causeBy(cause.Of, kind, entry)
	if kind == verdict.NotReporting {
		if f.Common = t.common(); f.Common != "" {
			f.Text = f.Common + "; " + f.Text
		}
	}
	return f
}

// CauseOn is Cause for a problem that a peel has now, and returns since when it has it; zero: it does not. The error is
// [ErrBehind] if the table gives no verdicts.
func (t *Table) CauseOn(id target.PeelID, entry string,
	kind verdict.Kind,
) (f cause.Finding, since time.Time, err error) {
	if err := t.err(); err != nil {
		return f, since, fmt.Errorf("%w: %w", ErrBehind, err)
	}
	t.mu.Lock()
	var p peel
	if have := t.peels[id.Wire()]; have != nil {
		p = *have
	}
	t.mu.Unlock()
	for _, problem := range t.problemsOf(&p, t.clock.now(), t.connected()) {
		if problem.Kind == kind && problem.Entry == entry && problem.Peel == id &&
			(since.IsZero() || problem.Since.Before(since)) {
			since = problem.Since
		}
	}
	if since.IsZero() {
		return f, since, nil
	}
	return t.Cause(kind, entry), since, nil
}

func (t *Table) causeBy(of func(cause.Problem, []cause.Commit) cause.Finding, kind verdict.Kind,
	entry string,
) cause.Finding {
	t.causes <- struct{}{}
	defer func() { <-t.causes }()
	return of(t.suspects(kind, entry))
}

// suspects returns a problem of an entry and the commits that may be its cause.
func (t *Table) suspects(kind verdict.Kind, entry string) (cause.Problem, []cause.Commit) {
	now, connected := t.clock.now(), t.connected()
	problem := cause.Problem{Entry: entry}
	commits := map[source]map[target.PeelID]time.Time{}
	periods := map[clock]time.Duration{}
	for _, p := range t.having(entry) {
		one, found, ok := t.evidence(&p, kind, entry, now, connected)
		if problem.Explained = problem.Explained || found.Explained; !ok {
			continue
		}
		problem.Peels = append(problem.Peels, one)
		c := t.clockOf(&p, entry)
		if _, known := periods[c]; !known {
			periods[c] = c.period(now)
		}
		problem.Period = max(problem.Period, periods[c])
		came, known := p.arrivalOf(entry, settings.Commit(found.Commit))
		if entry == "" && p.document != nil {
			came, known = arrival{p.revision, uint32(p.stored)}, true
		}
		if !known || came.at == 0 || came.source.Value().commit == "" {
			if !known {
				problem.Ran = settings.Commit(found.Commit)
			}
			continue
		}
		from := came.source.Value()
		if commits[from] == nil {
			commits[from] = map[target.PeelID]time.Time{}
		}
		commits[from][p.id] = at(int64(came.at))
	}
	return problem, ordered(commits)
}

// having returns copies of the peels that have an entry; without one, of all. Reports and documents replace the slices
// of a peel and never change them, so a copy may share them.
func (t *Table) having(entry string) []peel {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []peel
	for _, p := range t.peels {
		if entry == "" || p.publishes(entry) {
			list = append(list, *p)
		}
	}
	return list
}

// ordered returns the commits, the one first that reached most peels.
func ordered(commits map[source]map[target.PeelID]time.Time) (list []cause.Commit) {
	for from, reached := range commits {
		list = append(list, cause.Commit{Hash: from.commit, Author: from.author, Changed: true, Reached: reached})
	}
	sorting.Func(list, func(a, b cause.Commit) int {
		return cmp.Or(cmp.Compare(len(b.Reached), len(a.Reached)), cmp.Compare(a.Hash, b.Hash))
	})
	return list
}

// evidence returns what is known of a problem on one peel, and the problem; ok is false if nothing is, or if it is
// explained already.
func (t *Table) evidence(p *peel, kind verdict.Kind, entry string,
	now, connected time.Time,
) (one cause.Peel, found verdict.Problem, ok bool) {
	one.ID = p.id
	if !p.hasSchedule() || entry != "" && t.absent(p, now, connected) {
		return one, found, false
	}
	for _, problem := range t.problemsOf(p, now, connected) {
		if problem.Kind == kind && problem.Entry == entry && (one.Onset.IsZero() || problem.Since.Before(one.Onset)) {
			one.Onset, found = problem.Since, problem
		}
	}
	if found.Explained {
		return one, found, false
	}
	ok = entry == ""
	p.hoursOf(func(r *row, hours []join.Hour) {
		if r.name.Value() != entry {
			return
		}
		ok = true
		if kind == verdict.Failed && !one.Onset.IsZero() && seconds(one.Onset) == r.succeeded {
			one.Onset = t.fireAfter(p, entry, one.Onset) // the report no longer has the first failure
		}
		one.Runs = tallies(kind, hours)
		one.Never = kind == verdict.Failed && r.succeeded == 0 && !slices.ContainsFunc(hours, func(h join.Hour) bool {
			return h.Ran > h.Failed
		})
	})
	return one, found, ok
}

// tallies returns the fires of hours, and those with a problem.
func tallies(kind verdict.Kind, hours []join.Hour) (list []cause.Tally) {
	for _, h := range hours {
		from := time.Unix(h.Hour*3600, 0).UTC()
		t := cause.Tally{From: from, Until: from.Add(time.Hour - time.Nanosecond), Runs: h.Ran}
		switch kind {
		case verdict.Failed:
			t.Failed = h.Failed
		case verdict.Late:
			t.Failed = h.Late
		case verdict.Overran:
			t.Failed = h.Overran
		case verdict.Missed:
			t.Runs, t.Failed = h.Ran+h.Missed, h.Missed
		}
		list = append(list, t)
	}
	return list
}

// fireAfter returns the first fire of an entry after a time, and that time if there is none.
func (t *Table) fireAfter(p *peel, entry string, after time.Time) time.Time {
	if timing, ok := t.clockOf(p, entry).timing(); ok {
		if next, found := timing.Next(after); found {
			return next
		}
	}
	return after
}

// A clock says when an entry fires on a peel. Most peels have an equal one.
type clock struct {
	entry *schedule.Entry // nil: it is not known
	zone  *time.Location
}

func (t *Table) clockOf(p *peel, entry string) (c clock) {
	if s := p.document.spec(entry); s != nil && s.entry != nil {
		c = clock{s.entry, cmp.Or(t.zones.location(p.zone.Value()), time.UTC)}
	}
	return c
}

func (c clock) timing() (timing schedule.Timing, ok bool) {
	if c.entry == nil {
		return timing, false
	}
	timing, err := c.entry.Timing(c.zone)
	return timing, err == nil
}

// period returns the time between the next two fires, 0 if it is not known.
func (c clock) period(now time.Time) time.Duration {
	timing, ok := c.timing()
	if !ok {
		return 0
	}
	first, found := timing.Next(now)
	if !found {
		return 0
	}
	second, found := timing.Next(first)
	if !found {
		return 0
	}
	return second.Sub(first)
}
