package coverage

import (
	"fmt"
	"slices"
	"time"
	"unique"

	"github.com/seed-c01c3da5/zester/master/coverage/judge"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// clockTolerance is how far the time of a report may be from its arrival.
	clockTolerance = 2 * time.Minute
	// documentGrace is how long a peel may take to have a new document.
	documentGrace = 2 * time.Minute
	// overdueAfter is how long a peel may not report: two intervals with their jitter, and a minute.
	overdueAfter = 2*wire.ScheduleInterval + wire.ScheduleInterval/5 + time.Minute
	// steadyWithin is the longest time between two reports of a peel that reports without a break.
	steadyWithin = wire.ScheduleInterval + wire.ScheduleInterval/2
)

// A peel is what the table knows of one peel. Times are Unix seconds, to be small.
type peel struct {
	id       target.PeelID
	rows     []row  // of the entries in the report or in the document, by name
	hours    []byte // the verdicts of the rows, packed
	problems []verdict.Problem

	document *document             // nil: there is none
	wanted   uint64                // digest of the document
	stored   int64                 // when the document was stored
	has      uint64                // digest of the settings on the peel
	arrivals []arrival             // of the entries of the document
	former   map[string]arrival    // of the entries whose arrival the document has replaced
	revision unique.Handle[source] // that was in force when the document was written
	zone     unique.Handle[string]
	// uncomputed is how many active entries of the document have fires that this master cannot compute, and the name of the first.
	uncomputed struct {
		n     int
		first unique.Handle[string]
	}

	arrived  int64 // of the newest report; 0: none
	reported int64 // time of the newest report whose clock was right
	steady   int64 // see judge.Facts
	offset   int64 // of the peel's clock when the newest report was made
	judged   int64 // up to when fires were judged of a peel that does not report, or that reports lists
	lists    lists
}

func newPeel() *peel { return &peel{zone: unique.Make("")} }

// A row is one entry on one peel.
type row struct {
	name      unique.Handle[string]
	detail    *detail // nil: there is nothing to tell
	next      uint32
	succeeded uint32
	since     uint32
	started   uint32
	ended     uint32
	state     state
	published bool // the settings of the peel have the entry, or had it since this row was made; only such rows count for the fleet
	is        condition
	exit      uint8 // of the run that ended: 0 if it succeeded, its exit code, or noExit
}

// A condition is what holds of an entry; its parts are bits.
type condition uint8

const (
	running condition = 1 << iota // a run is in flight
	planned                       // its list is compared with its plan
)

// with returns the condition with a part, if that holds.
func (c condition) with(part condition, holds bool) condition {
	if holds {
		c |= part
	}
	return c
}

// A detail is what few entries have.
type detail struct {
	why   string
	err   string
	inRow uint64 // failures
	skips []skips
}

// skips is a number of fires that were skipped for a reason, since the entry was first seen.
type skips struct {
	reason unique.Handle[string]
	n      uint64
}

// A state is the state of an entry in a report.
type state uint8

// states are the words of a [state]. Others are "other", and "" is that of an entry that the report does not have.
var states = []string{"", judge.Active, "disabled", "paused_manual", "paused_errors", "paused_invalid", "exhausted", "other"}

const activeState state = 1

func stateOf(word string) state { return state(max(slices.Index(states[:len(states)-1], word), 0)) }

func (s state) String() string { return states[s] }

// hasSchedule reports whether anything is expected of the peel.
func (p *peel) hasSchedule() bool { return len(p.rows) > 0 }

// clockIsWrong reports whether the newest report was made by a wrong clock.
func (p *peel) clockIsWrong() bool {
	return p.offset > int64(clockTolerance.Seconds()) || -p.offset > int64(clockTolerance.Seconds())
}

// isStale reports whether the peel reported other settings than those that it should have had for a while.
func (p *peel) isStale() bool {
	return p.arrived > 0 && p.document != nil && p.has != p.wanted && p.arrived > p.stored+int64(documentGrace.Seconds())
}

// publishes reports whether an entry counts for the fleet: a peel may claim any other.
func (p *peel) publishes(entry string) bool {
	i, found := slices.BinarySearchFunc(p.rows, entry, compareName)
	return found && p.rows[i].published
}

// dropInvented takes from a report the entries that are said to be in the settings of the peel, and are not. It returns how many
// those are. While the peel has other settings than those of the document, nothing is known of them.
func (p *peel) dropInvented(t *Table, r *wire.ScheduleState) int {
	before := len(r.Entries)
	if p.document != nil && p.wanted == t.digest(r.Digest) {
		r.Entries = slices.DeleteFunc(r.Entries, func(e wire.EntryReport) bool { return !e.Local && p.document.spec(e.Name) == nil })
	}
	return before - len(r.Entries)
}

// disagreement returns why masters do not believe the peel's settings or clock; empty if they do.
func (p *peel) disagreement(t *Table) string {
	switch {
	case p.arrived == 0:
		return ""
	case p.clockIsWrong():
		d := time.Duration(p.offset) * time.Second
		if d > 0 {
			return fmt.Sprintf("clock: it is %s ahead", d)
		}
		return fmt.Sprintf("clock: it is %s behind", -d)
	case p.isStale():
		return "document: it runs other settings than those that were published " + at(p.stored).Format(time.RFC3339)
	}
	zone := p.zone.Value()
	isNamed := zone != "" && zone != "Local"
	text := ""
	switch isKnown := isNamed && t.zones.location(zone) != nil; {
	case isNamed && !isKnown:
		text = fmt.Sprintf("zone: masters do not know %.64q", zone)
	case p.uncomputed.n == 0:
		return ""
	case isKnown:
		text = "document: this master cannot read all entries"
	default:
		text = "zone: the peel does not know the name of its host's zone, which /etc/timezone may have"
	}
	switch n := p.uncomputed.n; n {
	case 0:
		return text
	case 1:
		return fmt.Sprintf("%s; the fires of %s are not checked", text, p.uncomputed.first.Value())
	default:
		return fmt.Sprintf("%s; the fires of %s and %d more are not checked", text, p.uncomputed.first.Value(), n-1)
	}
}

// at returns the instant of Unix seconds, zero for 0.
func at(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// seconds returns Unix seconds, 0 for the zero time and for times that do not fit.
func seconds(at time.Time) uint32 {
	s := at.Unix()
	if at.IsZero() || s < 0 || s > 1<<32-1 {
		return 0
	}
	return uint32(s)
}

// report replaces what the peel reported before.
func (t *Table) report(p *peel, r *wire.ScheduleState, stored time.Time) {
	first := p.arrived == 0
	p.id, p.has, p.zone, p.arrived = r.Peel, t.digest(r.Digest), unique.Make(r.Zone), stored.Unix()
	p.lists.are, p.lists.took = false, nil
	p.offset = int64(r.Time.Sub(stored) / time.Second)
	right := !p.clockIsWrong()
	switch {
	case !right:
		p.steady = 0
	case p.steady == 0 || r.Time.Unix()-p.reported > int64(steadyWithin.Seconds()):
		p.steady = r.Time.Unix()
	}
	switch {
	case right:
		p.reported, p.judged = r.Time.Unix(), 0
	case first:
		p.reported = p.arrived
	}
	t.replaceRows(p, r, first, right)
}

// replaceRows makes the rows of a report and judges its fires, unless the clock of the peel is wrong.
func (t *Table) replaceRows(p *peel, r *wire.ScheduleState, first, right bool) {
	before, verdicts := p.rows, unpack(p.hours, len(p.rows))
	agrees := right && p.has == p.wanted && p.document != nil
	var rows []row
	var hours [][]judge.Hour
	p.problems, p.uncomputed.n = nil, 0
	for name, e := range t.union(p, r) {
		i, known := slices.BinarySearchFunc(before, name, compareName)
		old, was := row{}, []judge.Hour(nil)
		if known {
			old, was = before[i], verdicts[i]
		}
		now := newRow(name, e)
		spec := p.document.spec(name)
		now.published = spec != nil || old.published
		f := judge.Facts{
			Entry: e, Plan: t.documents.plan(spec, r.Zone), Time: r.Time, From: r.From, Steady: at(p.steady),
			Agrees: agrees && (e != nil || r.More == 0), Announced: old.announced(e), Before: was,
		}
		if f.Uncomputed = spec != nil && f.Plan == nil; f.Uncomputed && now.state == activeState {
			if p.uncomputed.n++; p.uncomputed.n == 1 {
				p.uncomputed.first = now.name
			}
		}
		if p.document != nil {
			f.Document = at(p.stored).Add(documentGrace)
		}
		if p.steady == 0 {
			f.Steady = r.Time
		}
		all := was
		if right {
			all = judge.Judge(f)
		}
		if now.published {
			if total := t.total(name, old.published); !first || !t.isReading() {
				total.add(was, all, e, &old, first)
			}
		}
		rows, hours = append(rows, now), append(hours, all)
		if e == nil {
			continue
		}
		for _, problem := range judge.Problems(e) {
			if problem.Kind == verdict.Missed && !right {
				continue // the peel may have been up at that time
			}
			p.problems = append(p.problems, verdict.Problem{
				Kind: problem.Kind, Entry: now.name.Value(), Peel: p.id, Since: problem.Since, Text: problem.Text,
				Commit: problem.Commit, Explained: problem.Explained,
			})
		}
		p.problems = append(p.problems, t.foundProblems(p, &f, all)...)
	}
	t.release(before, rows)
	p.rows, p.hours = append(make([]row, 0, len(rows)), rows...), pack(hours)
}

// foundProblems returns what the entry's report does not say itself: fires that it does not account for, and a wrong zone.
func (t *Table) foundProblems(p *peel, f *judge.Facts, all []judge.Hour) (list []verdict.Problem) {
	if since, is := f.Lost(all); is {
		list = append(list, verdict.Problem{
			Kind: verdict.Missed, Entry: f.Entry.Name, Peel: p.id, Since: since, Text: "the peel does not account for the fire",
		})
	}
	if f.Agrees {
		if text := f.Disagreement(); text != "" {
			list = append(list, verdict.Problem{Kind: verdict.Disagrees, Entry: f.Entry.Name, Peel: p.id, Since: f.Time, Text: text})
		}
	}
	return list
}

// announced returns the fire that an entry announced and that nothing has moved until its report e; zero: there is none. The next
// fire of an interval follows the start and the end of each run, also of one by hand.
func (r *row) announced(e *wire.EntryReport) time.Time {
	if e == nil || r.is&running != 0 || seconds(e.Started) != r.started || seconds(e.Ended) != r.ended {
		return time.Time{}
	}
	return at(int64(r.next))
}

// union yields the entries of a report and of the document, by name; the entry is nil if the report does not have it.
func (t *Table) union(p *peel, r *wire.ScheduleState) func(yield func(string, *wire.EntryReport) bool) {
	return func(yield func(string, *wire.EntryReport) bool) {
		var names []string
		if p.document != nil {
			names = p.document.names
		}
		for i := range r.Entries {
			e := &r.Entries[i]
			for len(names) > 0 && names[0] < e.Name {
				if !yield(names[0], nil) {
					return
				}
				names = names[1:]
			}
			if len(names) > 0 && names[0] == e.Name {
				names = names[1:]
			}
			if !yield(e.Name, e) {
				return
			}
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func compareName(r row, name string) int {
	switch have := r.name.Value(); {
	case have < name:
		return -1
	case have > name:
		return 1
	}
	return 0
}

// noExit is in a row if a run failed without an exit code, or with this one.
const noExit = 255

// exitOf returns the field exit of a row, by whether the last run succeeded and by its error.
func exitOf(succeeded bool, text string) uint8 {
	if succeeded {
		return 0
	}
	if code, ok := wire.ParseExitCode(text); ok {
		return uint8(code)
	}
	return noExit
}

// newRow returns the row of an entry; e is nil if the report does not have it.
func newRow(name string, e *wire.EntryReport) row {
	n := row{name: unique.Make(name)}
	if e == nil {
		return n
	}
	n.next, n.succeeded, n.since, n.state = seconds(e.Next), seconds(e.Succeeded), seconds(e.Since), stateOf(e.State)
	n.started, n.ended, n.exit = seconds(e.Started), seconds(e.Ended), exitOf(e.Ended.Equal(e.Succeeded), e.Error)
	n.is = n.is.with(running, e.Running > 0)
	if n.state == 0 {
		n.state = state(len(states) - 1)
	}
	if e.Why != "" || e.Error != "" || e.InRow > 0 || len(e.Skips) > 0 {
		n.detail = &detail{why: e.Why, err: e.Error, inRow: e.InRow}
		for reason, count := range e.Skips {
			n.detail.skips = append(n.detail.skips, skips{unique.Make(reason), count})
		}
	}
	return n
}

// want replaces the document of a peel.
func (t *Table) want(p *peel, doc *settings.Document, s *document, stored time.Time) {
	arrivals, former := p.arrivalsOf(doc, s, stored)
	p.arrivals, p.former, p.revision = arrivals, former, unique.Make(source{commit: doc.Commit})
	if digest := t.digest(string(doc.Digest)); p.document != nil && digest != p.wanted {
		p.lists.former, p.lists.digest = p.document, p.wanted
	}
	p.id, p.document, p.wanted, p.stored = doc.Peel, s, t.digest(string(doc.Digest)), stored.Unix()
	p.adopt(t, s.names)
}

// adopt makes rows of the entries of the document that the peel has not reported. Rows that it has reported stay until it reports
// again.
func (p *peel) adopt(t *Table, names []string) {
	verdicts, had := unpack(p.hours, len(p.rows)), unpackTook(p.lists.took, len(p.rows))
	var rows []row
	var hours [][]judge.Hour
	var tooks []took
	add := func(i int) {
		rows, hours, tooks = append(rows, p.rows[i]), append(hours, verdicts[i]), append(tooks, had[i])
	}
	i := 0
	for _, name := range names {
		for ; i < len(p.rows) && compareName(p.rows[i], name) < 0; i++ {
			if p.rows[i].state != 0 {
				add(i)
			}
		}
		if i < len(p.rows) && compareName(p.rows[i], name) == 0 {
			add(i)
			i++
		} else {
			rows, hours, tooks = append(rows, newRow(name, nil)), append(hours, nil), append(tooks, took{})
		}
		if r := &rows[len(rows)-1]; !r.published {
			t.total(name, false)
			r.published = true
		}
	}
	for ; i < len(p.rows); i++ {
		if p.rows[i].state != 0 {
			add(i)
		}
	}
	t.release(p.rows, rows)
	p.rows, p.hours, p.lists.took = append(make([]row, 0, len(rows)), rows...), pack(hours), packTook(tooks)
}

// away judges the fires of a peel that does not report.
func (t *Table) away(p *peel, now time.Time) {
	if p.lists.are || p.arrived == 0 {
		t.awayList(p, now)
		return
	}
	verdicts := unpack(p.hours, len(p.rows))
	reported := p.reported
	if p.arrived == 0 {
		reported = p.stored
	}
	a := judge.Absence{Reported: at(reported), Judged: at(p.judged), Now: now}
	for i := range p.rows {
		r := &p.rows[i]
		plan := t.documents.plan(p.document.spec(r.name.Value()), p.zone.Value())
		if plan == nil || r.state > activeState {
			continue
		}
		a.Since = at(p.stored)
		if p.has == p.wanted && p.arrived > 0 && !p.clockIsWrong() {
			a.Since = at(int64(r.since))
		}
		after := judge.Away(plan, verdicts[i], a)
		t.total(r.name.Value(), true).counts.Add(gained(verdicts[i], after))
		verdicts[i] = after
	}
	p.judged, p.hours = now.Unix(), pack(verdicts)
}
