package coverage

import (
	"slices"
	"time"
	"unique"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// lists are what the table remembers of a peel for its next report.
type lists struct {
	measured []join.Measured // what reports have shown of the clock, the newest last
	took     []byte          // how long runs took, of each row, packed
	// former is the document before the present one, and its digest: a report may still name entries by their places in
	// it.
	former *document
	digest uint64
}

// keptMeasured is for how long the error of a clock is remembered after its era: reports have hours of two days.
const keptMeasured = (join.Kept + 1) * time.Hour

// measure remembers the error of the peel's clock when it made a report that arrived at a time, also if the clock was
// right. If the host boots with another time later, the errors of earlier eras follow from this one.
func (l *lists) measure(m join.Measured, arrived time.Time) {
	list := slices.Clone(l.measured)
	if n := len(list); n > 0 && list[n-1].Era == m.Era && list[n-1].Began == m.Began {
		list = list[:n-1]
	}
	list = append(list, m)
	ended := func() time.Time { return at(list[1].Began - list[1].Error) } // the first era
	for len(list) > ledger.MaxMarks || len(list) > 1 && ended().Before(arrived.Add(-keptMeasured)) {
		list = list[1:]
	}
	l.measured = slices.Clip(list)
}

// An item is one entry of the report or of the document of a peel.
type item struct {
	name string
	e    *ledger.EntryReport // nil: the report does not have it
	old  *row                // nil: it is new
	was  []join.Hour
	took took // by the report before
}

// report replaces what the peel reported before.
func (t *Table) report(p *peel, r *ledger.Report, stored time.Time) {
	first, judged := p.arrived == 0, max(p.judged, p.stored+int64(documentGrace/time.Second))
	p.id, p.has, p.arrived = r.Peel, t.digest(r.Digest), stored.Unix()
	t.documents.follow(p, p.document, unique.Make(t.zones.nameOf(&r.Zone)))
	p.offset, p.memory = r.Time.Unix()-stored.Unix(), seconds(r.Memory)
	of := join.New(r.Marks, r.Time, stored, p.lists.measured)
	p.lists.measure(join.Measure(r.Marks, r.Time, stored), stored)
	p.judged = of.Made().Unix()

	entries, refused := t.named(p, r)
	if refused > 0 {
		t.refuseEntries(p, p.id.Wire(), refused)
	}
	p.from = 0
	for i := range r.Entries {
		if e := &r.Entries[i]; isCut(e, r.Time) && e.From.After(r.Time.Add(time.Hour-ledger.Kept)) {
			p.from = max(p.from, seconds(e.From))
		}
	}
	if t.isReading() {
		t.firstHour = max(t.firstHour, firstHour(r, of))
	}
	t.takeEntries(p, entries, of, taking{first, judged})
}

// firstHour returns the first hour whose fires a report has completely.
func firstHour(r *ledger.Report, of *join.Report) int64 {
	hour := of.Oldest()
	for i := range r.Entries {
		if e := &r.Entries[i]; isCut(e, r.Time) {
			hour = max(hour, join.HourOf(e.From.Add(time.Hour-1)))
		}
	}
	return hour
}

// isCut reports whether the list of an entry begins later than the entry did.
func isCut(e *ledger.EntryReport, made time.Time) bool {
	return (len(e.Marks) == 0 || e.From.After(e.Marks[0].At.Add(time.Second))) && !e.From.After(made)
}

// named returns the entries of a report by name, and how many are refused: a report names entries of the document by
// their places, and a name is one of peel.yaml, or one that the document had.
func (t *Table) named(p *peel, r *ledger.Report) (entries map[string]*ledger.EntryReport, refused int) {
	doc := p.document
	if p.document == nil || p.has != p.wanted {
		doc = nil
		if p.lists.former != nil && p.has == p.lists.digest {
			doc = p.lists.former
		}
	}
	entries = make(map[string]*ledger.EntryReport, len(r.Entries))
	for i := range r.Entries {
		e := &r.Entries[i]
		name := e.Name
		if name == "" && doc != nil && e.Place < len(doc.names) {
			name = doc.names[e.Place]
		}
		switch {
		case name == "" && doc == nil:
			continue // its document is not known
		case name == "", entries[name] != nil, e.Name != "" && doc.spec(name) != nil,
			e.State == removed && !p.publishes(name):
			refused++
			continue
		}
		entries[name] = e
	}
	return entries, refused
}

// removed is the state of an entry that the settings of the peel do not have any more.
const removed = "removed"

// items yields the entries of a report and of the document, by name.
func (p *peel) items(entries map[string]*ledger.EntryReport) (list []item) {
	names := make([]string, 0, len(entries))
	for name := range entries {
		names = append(names, name)
	}
	if p.document != nil {
		names = append(names, p.document.names...)
	}
	slices.Sort(names)
	verdicts, tooks := unpack(p.hours, len(p.rows)), unpackTook(p.lists.took, len(p.rows))
	for _, name := range slices.Compact(names) {
		one := item{name: name, e: entries[name]}
		if i, known := slices.BinarySearchFunc(p.rows, name, compareName); known {
			one.old, one.was, one.took = &p.rows[i], verdicts[i], tooks[i]
		}
		list = append(list, one)
	}
	return list
}

// taking holds what the table knows of a peel before it takes a report.
type taking struct {
	first  bool  // nothing: this table has no earlier report of it
	judged int64 // up to when its fires were judged
}

// takeEntries makes the rows of a report, with the verdicts on its fires.
func (t *Table) takeEntries(p *peel, entries map[string]*ledger.EntryReport, report *join.Report, known taking) {
	var rows []row
	var hours [][]join.Hour
	var tooks []took
	p.problems, p.uncomputed.n, p.noted = nil, 0, nil
	for _, one := range p.items(entries) {
		now := newRow(&one)
		spec := p.document.spec(one.name)
		wasPublished := one.old != nil && one.old.published
		now.published = spec != nil || wasPublished
		all := one.was
		if one.e != nil {
			f := t.facts(p, &one, entries)
			now.is = now.is.with(planned, f.entry.Plan != nil && f.entry.IsActive)
			var spans []join.Span
			found := report.Hours(&f.entry, func(s join.Span) { spans = append(spans, s) })
			all = join.Replace(one.was, found, join.Bounds{Oldest: report.Oldest(), Marked: report.Marked(&f.entry)})
			for _, problem := range problemsOf(one.e, spans) {
				problem.Entry, problem.Peel = one.name, p.id
				p.problems = append(p.problems, problem)
			}
			p.problems = append(p.problems, f.problems...)
		} else if spec != nil {
			all = t.unreported(p, spec, one.was, known.judged)
		}
		if now.published {
			total := t.total(one.name, wasPublished)
			if wasPublished {
				total.replace(one.was, all)
			} else {
				total.replace(nil, all)
			}
			if !known.first || !t.isReading() {
				total.gain(one.was, all)
				if one.e != nil && !known.first {
					total.ran(tookOf(one.e), one.took)
				}
			}
		}
		now.name = unique.Make(one.name)
		rows, hours = append(rows, now), append(hours, all)
		if one.e != nil {
			t.note(p, one.name, one.e)
			tooks = append(tooks, tookOf(one.e))
		} else {
			tooks = append(tooks, one.took)
		}
	}
	t.release(p, rows)
	p.rows, p.hours, p.lists.took = append(make([]row, 0, len(rows)), rows...), pack(hours), packTook(tooks)
}

// listFacts are the inputs of the join for one entry.
type listFacts struct {
	entry    join.Entry
	problems []verdict.Problem // with the document or the zone
}

// facts returns the inputs of the join for an entry that a report has.
func (t *Table) facts(p *peel, one *item, entries map[string]*ledger.EntryReport) (f listFacts) {
	e, spec := one.e, p.document.spec(one.name)
	f.entry = join.Entry{IsActive: e.State == stateActive, Marks: e.Marks, From: e.From, Fires: e.Fires}
	if spec == nil || spec.entry == nil {
		if spec != nil && f.entry.IsActive {
			p.isUncomputed(one.name)
		}
		return f
	}
	plan := t.documents.plan(spec, p.zone.Value())
	if plan == nil {
		if f.entry.IsActive {
			p.isUncomputed(one.name)
		}
		return f
	}
	isSame := e.Timing == spec.timing
	holds := isSame && (e.Next.IsZero() || e.NextClass != ledger.Timer || plan.Has(e.Next))
	if holds {
		f.entry.Plan = plan
		if needed := entries[spec.entry.Needs.Entry]; needed != nil {
			f.entry.Needed = &join.Entry{From: needed.From, Fires: needed.Fires, Marks: needed.Marks}
		}
		return f
	}
	if p.has != p.wanted || !f.entry.IsActive {
		return f // the peel as a whole disagrees, once it is late
	}
	problem := verdict.Problem{Kind: verdict.Disagrees, Entry: one.name, Peel: p.id, Since: at(p.arrived)}
	problem.Text = "document: the timing that the peel has is another one"
	if isSame {
		problem.Text = "zone: the peel announces its next fire at " + e.Next.UTC().Format(time.RFC3339)
		problem.Text += ", by its settings "
		if next, is := plan.Next(at(p.arrived)); is {
			problem.Text += "it is at " + next.UTC().Format(time.RFC3339)
		} else {
			problem.Text += "there is none"
		}
	}
	f.problems = append(f.problems, problem)

	return f
}

// isUncomputed notes an active entry whose fires this master cannot compute.
func (p *peel) isUncomputed(entry string) {
	if p.uncomputed.n++; p.uncomputed.n == 1 {
		p.uncomputed.first = unique.Make(entry)
	}
}

// unreported returns the verdicts on an entry of the document that the report does not have: it is not known what
// becomes of its fires since the peel should have the document.
func (t *Table) unreported(p *peel, spec *spec, was []join.Hour, judged int64) []join.Hour {
	plan := t.documents.plan(spec, p.zone.Value())
	if plan == nil || !spec.entry.Enabled {
		return was
	}
	return plan.Away(was, join.Absence{Judged: judged, Now: p.judged + int64(join.Margin/time.Second)})
}

// newRow returns the row of an entry.
func newRow(one *item) (n row) {
	e := one.e
	if e == nil {
		if one.old != nil {
			n.since = one.old.since
		}
		return n
	}
	n.next = seconds(e.Next)
	n.succeeded = seconds(e.Succeeded)
	n.since = seconds(e.Since)
	n.state = stateOf(e.State)
	last := lastFire(e)
	n.started, n.ended, n.is = seconds(last.Started), seconds(last.Ended), n.is.with(running, e.Running > 0)
	n.exit = exitOf(last.Ended.Equal(last.Succeeded), last.Error)
	if n.state == 0 {
		n.state = state(len(states) - 1)
	}
	if e.Why != "" || last.Error != "" || e.InRow > 0 {
		n.detail = &detail{why: e.Why, err: last.Error, inRow: e.InRow}
	}
	return n
}

// away judges the fires of a peel that does not report: those that were pending, and those that are planned since,
// are unknown.
func (t *Table) away(p *peel, now time.Time) {
	verdicts := unpack(p.hours, len(p.rows))
	for i := range p.rows {
		r := &p.rows[i]
		plan := t.documents.plan(p.document.spec(r.name.Value()), p.zone.Value())
		since := int64(r.since)
		switch {
		case plan == nil, r.state != 0 && r.is&planned == 0:
			continue
		case r.state == 0: // the peel has not reported the entry
			since = p.stored + int64(documentGrace/time.Second)
		}
		after := plan.Away(verdicts[i], join.Absence{
			Next: int64(r.next), Judged: max(p.judged, since), Now: now.Unix(),
		})
		total := t.total(r.name.Value(), true)
		total.replace(verdicts[i], after)
		total.gain(verdicts[i], after)
		verdicts[i] = after
	}
	t.touch(p, false)
	p.judged, p.hours = now.Unix()-int64(join.Margin/time.Second), pack(verdicts)
}
