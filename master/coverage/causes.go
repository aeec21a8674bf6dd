package coverage

import (
	"cmp"
	"slices"
	"time"
	"unique"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/judge"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
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

// arrivalsOf returns the arrivals of the entries of a new document; they are in the order of its names. The first document that the
// table reads of a peel tells the time only of entries that the revision of its write has changed.
func (p *peel) arrivalsOf(doc *settings.Document, s *document, stored time.Time) []arrival {
	list := make([]arrival, len(s.names))
	for i, name := range s.names {
		o := doc.Origins[name]
		a := arrival{source: unique.Make(source{o.Commit, o.Author})}
		switch before, known := p.arrival(name); {
		case known && before.source == a.source:
			a.at = before.at
		case p.document != nil || o.Commit != "" && o.Commit == doc.Commit:
			a.at = seconds(stored)
		}
		list[i] = a
	}
	return list
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

// Cause returns which commit explains a problem of an entry, on all peels that have it; without an entry, which commit explains that
// peels do not report. Ask [Table.Health] first. Runs are known by the hour, so a commit is likely once an hour has passed with it.
func (t *Table) Cause(kind verdict.Kind, entry string) cause.Finding {
	now, connected := time.Now(), t.connected()
	t.mu.Lock()
	defer t.mu.Unlock()
	problem := cause.Problem{Entry: entry}
	commits := map[source]map[target.PeelID]time.Time{}
	for _, p := range t.peels {
		one, ok := t.evidence(p, kind, entry, now, connected)
		if !ok {
			continue
		}
		problem.Peels = append(problem.Peels, one)
		problem.Period = max(problem.Period, t.period(p, entry, now))
		came, known := p.arrival(entry)
		if entry == "" && p.document != nil {
			came, known = arrival{p.revision, uint32(p.stored)}, true
		}
		if !known || came.at == 0 || came.source.Value().commit == "" {
			continue
		}
		from := came.source.Value()
		if commits[from] == nil {
			commits[from] = map[target.PeelID]time.Time{}
		}
		commits[from][p.id] = at(int64(came.at))
	}
	return cause.Of(problem, ordered(commits))
}

// ordered returns the commits, the one first that reached most peels.
func ordered(commits map[source]map[target.PeelID]time.Time) (list []cause.Commit) {
	for from, reached := range commits {
		list = append(list, cause.Commit{Hash: from.commit, Author: from.author, Changed: true, Reached: reached})
	}
	slices.SortFunc(list, func(a, b cause.Commit) int {
		return cmp.Or(cmp.Compare(len(b.Reached), len(a.Reached)), cmp.Compare(a.Hash, b.Hash))
	})
	return list
}

// evidence returns what is known of a problem on one peel; ok is false if that is nothing.
func (t *Table) evidence(p *peel, kind verdict.Kind, entry string, now, connected time.Time) (one cause.Peel, ok bool) {
	one.ID = p.id
	if !p.hasSchedule() || entry != "" && t.absent(p, now, connected) {
		return one, false
	}
	for _, problem := range t.problemsOf(p, now, connected) {
		if problem.Kind == kind && problem.Entry == entry && (one.Onset.IsZero() || problem.Since.Before(one.Onset)) {
			one.Onset = problem.Since
		}
	}
	ok = entry == ""
	p.hoursOf(func(r *row, hours []judge.Hour) {
		if r.name.Value() != entry {
			return
		}
		ok = true
		if kind == verdict.Failed && !one.Onset.IsZero() && seconds(one.Onset) == r.succeeded {
			one.Onset = t.fireAfter(p, entry, one.Onset) // the report has the first failure no more
		}
		one.Runs = tallies(kind, hours)
	})
	return one, ok
}

// tallies returns the fires of hours, and those with a problem.
func tallies(kind verdict.Kind, hours []judge.Hour) (list []cause.Tally) {
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
	if timing, ok := t.timing(p, entry); ok {
		if next, found := timing.Next(after); found {
			return next
		}
	}
	return after
}

// period returns the time between the next two fires of an entry, 0 if it is not known.
func (t *Table) period(p *peel, entry string, now time.Time) time.Duration {
	timing, ok := t.timing(p, entry)
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

func (t *Table) timing(p *peel, entry string) (timing schedule.Timing, ok bool) {
	s := p.document.spec(entry)
	if s == nil || s.entry == nil {
		return timing, false
	}
	zone := t.documents.location(p.zone.Value())
	if zone == nil {
		zone = time.UTC
	}
	timing, err := s.entry.Timing(zone)
	return timing, err == nil
}
