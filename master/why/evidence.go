// Package why says what became of one fire of a schedule entry on a peel, or why there was none, and proves it.
//
// [Collector.Collect] reads the sources: the newest report of the peel on its schedule, its settings, the revisions
// that were in force, the records of its jobs, the verdicts on past hours, its presence and the audit log.
// [Found.Explain] is a pure function from what was found to the answer: a verdict, a reason, and the facts, each with
// its source.
//
// A fire is looked up in this order: its run in the peel's list or in the record of its job; what the list, joined
// with the plan, says otherwise; for fires that are older than the list, which goes back 48 hours, what the peel
// tells when it is asked, of 7 days; pauses, windows and life of the entry; the verdicts that masters have stored of
// the hour.
//
// Guarantees: what a source does not say is not in the answer, and a source that could not be read is named and never
// taken for one that knows nothing; each read is bounded in size and time.
//
// Known gaps: the settings bucket has only the newest document of a peel, so the timing of a fire before the newest
// change of its entry is unknown; verdicts on an hour have no times, and prove what became of one fire only if all
// fires of the entry in its hour came to the same end; the names of calendars are not in documents, which have their
// days; the audit log names the first five peels of a job, so a pause of more peels counts if the target of the job
// selects the peel now; a peel that is asked does not tell by which of its clocks an old fire was due.
package why

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Errors about the question itself.
var (
	ErrTime    = errors.New("cannot use the time")
	ErrNoPeel  = errors.New("no such peel")
	ErrNoEntry = errors.New("no such entry")
)

// maxBack is how far back a question may go: as far as masters keep counts of fires.
const maxBack = 35 * 24 * time.Hour

// Found is what the sources say about one entry on one peel.
type Found struct {
	Peel      target.PeelID
	Entry     string
	Time      string    // of the question, as a person wrote it; empty: the last fire
	Now       time.Time // on the master's clock
	Document  Document
	Report    *ledger.Report // nil: the peel has never sent one
	Stored    time.Time      // when the bus stored the report, on its clock
	Presence  Presence
	Revisions []status.Attempt // that were tried, the newest first
	Jobs      []job.Job        // records of runs of the entry on the peel, and of the job that the report names
	Acts      []Act            // of operators on the entry, the oldest first
	Asked     *Asked           // what the peel has told of older fires; nil: it was not asked, or did not answer
	// what masters have stored of the hour of the fire; nil: it was not needed, or could not be read
	Past   *Past
	Cause  *Cause   // nil: the fire is not part of a problem that lasts
	Unread []Unread // the sources that could not be read, or not far enough
}

// A Source is where facts come from.
type Source string

// The sources that may be unread.
const (
	SourceReport    Source = "reports on schedules"
	SourceDocument  Source = "settings"
	SourceRevisions Source = "history of revisions"
	SourceJobs      Source = "records of jobs"
	SourceAudit     Source = "audit log"
	SourceHistory   Source = "stored counts of hours"
	SourcePeel      Source = "fires of 7 days that the peel keeps"
	SourceCause     Source = "causes of problems"
)

// Unread is a source that could not be read.
type Unread struct {
	Source Source
	Why    string
}

// isUnread reports whether a source could not be read.
func (f *Found) isUnread(s Source) bool {
	return slices.ContainsFunc(f.Unread, func(u Unread) bool { return u.Source == s })
}

// Document is what the newest settings of a peel say about an entry.
type Document struct {
	Commit  settings.Commit // of the write; empty: the masters have no settings of the peel
	Digest  settings.Digest
	Written time.Time
	Entry   *schedule.Entry // nil: the settings do not have it
	Origin  settings.Origin // zero: unknown
	Names   []string        // of all entries that are valid
	Places  []string        // of all entries, sorted
}

// Presence says when a peel was last heard.
type Presence struct {
	LastSeen time.Time // zero: never since the master began
	Online   bool
	Unknown  bool // the master has listened for too short a time to know
}

// A Cause is which commit explains a problem of the entry that the peel has now.
type Cause struct {
	cause.Finding
	Since time.Time // of the problem on the peel
}

// A fire is what is known of the fire in question.
type fire struct {
	nominal time.Time
	asked   Moment
	note    string // how the nominal time follows from the time in question, if it is another one
}

// instant returns the time in question: of the fire, or at which there was none; zero if it is not known.
func (f *fire) instant() time.Time {
	if f.nominal.IsZero() {
		return f.asked.First()
	}
	return f.nominal
}

// A judgement is the answer in its parts.
type judgement struct {
	is     api.WhyVerdict
	reason string
	answer string
	source string // of the fact that decided
	fact   string
}

// A question is a Found with what follows from it.
type question struct {
	*Found
	listed   *ledger.EntryReport // of the entry; nil: the report does not have it
	spans    []join.Span         // the verdicts on all fires of the list
	told     []join.Span         // the verdicts on fires that the peel was asked for
	hours    []join.Hour         // the same by hour
	timing   schedule.Timing     // zero: unknown
	hasClock bool                // the timing is known and gives fires on the wall clock
	zone     *time.Location
	zoneName string
	facts    []api.WhyFact
}

// Explain returns what became of the fire, and the facts that prove it.
func (f *Found) Explain() (*api.WhyAnswer, error) {
	q, err := f.question()
	if err != nil {
		return nil, err
	}
	fire, v, err := q.fire()
	if err != nil {
		return nil, err
	}
	w := &api.WhyAnswer{Peel: f.Peel, Entry: f.Entry}
	for _, u := range f.Unread {
		w.Unread = append(w.Unread, string(u.Source)+": "+oneLineFact(u.Why))
	}
	if len(fire.asked.At) > 0 && f.Time != "" {
		w.Asked = fire.asked.At[0]
	}
	if v == nil {
		w.Nominal = fire.nominal
		v = q.judge(fire.nominal)
	}
	w.Verdict, w.Reason = v.is, v.reason
	w.Text = q.awayWords() + v.answer + q.rolloutWords(fire.nominal) + q.causeWords(fire.nominal)
	q.addFacts(fire, v, w)
	w.Facts = q.facts
	return w, nil
}

// question checks that the entry is known.
func (f *Found) question() (*question, error) {
	q := f.prepare()
	complete := !f.isUnread(SourceReport) && !f.isUnread(SourceDocument) && !f.isUnread(SourceHistory)
	if complete && f.Document.Entry == nil && q.listed == nil && len(f.Jobs) == 0 &&
		(f.Past == nil || f.Past.Verdicts == nil) {
		return nil, fmt.Errorf("%w: neither the settings nor the reports of %s have a schedule entry %.256q%s",
			ErrNoEntry, f.Peel, f.Entry, strictyaml.Suggest(f.Entry, f.names()))
	}
	return q, nil
}

// prepare finds the zone and the timing of the entry, and joins its list with its plan.
func (f *Found) prepare() *question {
	q := &question{Found: f, zone: time.UTC, zoneName: "UTC"}
	name := ""
	if f.Document.Entry != nil {
		name = f.Document.Entry.Clock.Zone
	}
	if name == "" && f.Report != nil {
		name = f.Report.Zone.Name
	}
	if zone, err := window.Zone(name); err == nil {
		q.zone, q.zoneName = zone, name
	}
	if e := f.Document.Entry; e != nil {
		if t, err := e.Timing(q.zone); err == nil {
			q.timing, q.hasClock = t, !e.Clock.IsZero() && !t.FollowsRuns() && e.Clock.After == 0
		}
	}
	q.join()
	if q.Asked != nil {
		q.told = join.Told(q.Asked.Fires)
	}
	return q
}

// names returns the entries that the peel is known to have.
func (f *Found) names() []string {
	names := slices.Clone(f.Document.Names)
	if f.Report != nil {
		for i := range f.Report.Entries {
			names = append(names, f.Report.Entries[i].Name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// fire returns the fire that the question means, or the verdict that there was none.
func (q *question) fire() (fire, *judgement, error) {
	if q.Time == "" {
		at, v := q.last()
		return fire{nominal: at}, v, nil
	}
	m, err := ParseMoment(q.Time, q.zone, q.Now)
	if err != nil {
		return fire{}, nil, fmt.Errorf("%w %w", ErrTime, err)
	}
	switch first := m.First(); {
	case first.After(q.Now):
		return fire{}, nil, fmt.Errorf("%w %s: it has not come yet; zester schedule next %s %s lists what comes",
			ErrTime, q.stamp(first), q.Peel, q.Entry)
	case q.Now.Sub(first) > maxBack:
		return fire{}, nil, fmt.Errorf("%w %s: masters know what became of fires for 35 days; the earliest time is %s",
			ErrTime, q.stamp(first), q.stamp(q.Now.Add(-maxBack)))
	}
	if at, note, ok := q.due(m); ok {
		return fire{at, m, note}, nil, nil
	}
	return fire{asked: m}, q.noFire(m), nil
}

// last returns the nominal time of the last fire, or the verdict that there was none.
func (q *question) last() (time.Time, *judgement) {
	at := q.newest()
	if len(q.Jobs) > 0 {
		isHand := q.listed != nil && q.Jobs[0].Metadata[job.MetaTrigger] == string(wire.TriggerManual)
		if nominal := nominalOf(&q.Jobs[0]); nominal.After(at) && !isHand {
			at = nominal
		}
	}
	if q.hasClock && q.stopped(q.Now) == nil {
		if due, ok := Before(q.timing, q.Now); ok && due.After(at) && !due.Before(q.since()) {
			at = due
		}
	}
	if !at.IsZero() {
		return at, nil
	}
	if v := q.stopped(q.Now); v != nil {
		return at, v
	}
	text := fmt.Sprintf("%s has not been due on %s yet.", q.Entry, q.Peel)
	switch {
	case q.isUnread(SourceReport):
		return at, q.unreadReport("when it was last due")
	case q.listed == nil:
		return at, &judgement{
			is:     api.WhyUnknown,
			reason: "never_reported",
			answer: fmt.Sprintf("%s has not reported on %s, so masters do not know when it was last due.", q.Peel,
				q.Entry),
		}
	}
	return at, &judgement{is: api.WhyNone, reason: "not_due_yet", answer: text}
}

// unreadReport returns the verdict without the report of the peel, which could not be read.
func (q *question) unreadReport(what string) *judgement {
	return &judgement{
		is:     api.WhyUnknown,
		reason: "unread",
		answer: fmt.Sprintf("The report of %s on its schedule could not be read, so it is not known %s.", q.Peel, what),
	}
}

// since returns when the entry got its present timing and state on the peel; zero if that is unknown.
func (q *question) since() time.Time {
	if q.listed == nil {
		return q.Document.Written
	}
	return q.listed.Since
}

// due returns the nominal time of the fire at a moment: by the timing, or because a run or a skip is known. note says
// why it is another time than the one in question.
func (q *question) due(m Moment) (at time.Time, note string, ok bool) {
	known := q.known()
	for _, instant := range m.At {
		if q.hasClock {
			if at, ok := FireIn(q.timing, instant, m.Span); ok {
				return at, "", true
			}
		}
		for _, k := range known {
			if in(k.nominal, instant, m.Span) {
				return k.nominal, "", true
			}
		}
	}
	for _, instant := range m.At {
		for _, k := range known {
			if in(k.started, instant, m.Span) {
				return k.nominal, fmt.Sprintf("the run that started at %s was due at %s", q.stamp(k.started),
					q.stamp(k.nominal)), true
			}
		}
	}
	if len(m.At) > 0 || !q.hasClock {
		return at, "", false
	}
	// The clocks skip the time: its fire may have moved to the end of the gap, or as far as the gap is long.
	wall, err := time.Parse(WallForm, m.Wall)
	if err != nil {
		return at, "", false
	}
	_, offset := m.Gap.At.Add(-time.Second).Zone()
	for _, moved := range []time.Time{wall.Add(-time.Duration(offset) * time.Second), m.Gap.At} {
		if at, ok := FireIn(q.timing, moved, m.Span); ok && q.movedBy(m) {
			return at, fmt.Sprintf("the clocks skip %s, and dst_gap has moved the fire to %s", m.Wall,
				q.stamp(at)), true
		}
	}
	return at, "", false
}

// movedBy reports whether the timing names the skipped time itself, so that its fire is moved.
func (q *question) movedBy(m Moment) bool {
	wall, err := time.Parse(WallForm, m.Wall)
	if err != nil || q.Document.Entry.Clock.Changes.Gap == "skip" || q.timing.Wild() {
		return false
	}
	return q.namesWall(wall, m.Span)
}

// namesWall reports whether the expressions of the entry name a wall time, whatever the clocks of the zone do.
func (q *question) namesWall(wall time.Time, span time.Duration) bool {
	e := *q.Document.Entry
	e.Clock.Zone = ""
	t, err := e.Timing(time.UTC)
	if err != nil {
		return false
	}
	_, ok := FireIn(t, wall, span)
	return ok
}

func in(at, from time.Time, span time.Duration) bool {
	return !at.IsZero() && !at.Before(from) && at.Before(from.Add(span))
}

// A trace is a fire that a source names.
type trace struct{ nominal, started time.Time }

// known returns the fires that the sources name.
func (q *question) known() []trace {
	list := q.traces()
	for i := range q.Jobs {
		list = append(list, trace{nominalOf(&q.Jobs[i]), timeOf(&q.Jobs[i], job.MetaStarted)})
	}
	return slices.DeleteFunc(list, func(t trace) bool { return t.nominal.IsZero() })
}

func nominalOf(j *job.Job) time.Time { return timeOf(j, job.MetaNominal) }

func timeOf(j *job.Job, key string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, j.Metadata[key])
	if err != nil {
		return time.Time{}
	}
	return at
}
