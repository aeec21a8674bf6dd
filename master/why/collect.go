package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Bounds of what is read for one question.
const (
	readWait       = 2500 * time.Millisecond // for each source
	jobPages       = 3                       // of 2,000 records
	mostFoundFacts = 50                      // records of runs
	// how long after its time a run may start and still be found by its record alone
	jobsAfter = 4 * time.Hour
)

// A Collector reads the sources. Its fields are required except Audit and History, without which nothing is said about
// acts of operators and revisions.
type Collector struct {
	JetStream jetstream.JetStream
	Jobs      *job.Store
	Fleet     *fleet.Fleet // which is ready
	Audit     *audit.Log
	// Select returns the peels that an expression selects now.
	Select func(ctx context.Context, expr string) ([]target.PeelID, error)
	// History returns the revisions that were tried, the newest first.
	History func(ctx context.Context) ([]status.Attempt, error)
	// Ask runs a job on one peel and waits for its return; nil: peels are not asked.
	Ask func(ctx context.Context, spec job.Spec) (*wire.Return, error)
	// Cause returns which commit explains a problem of an entry, and since when the peel has it; zero: it does not.
	// nil: causes are not for the caller.
	Cause func(peel target.PeelID, entry string, kind verdict.Kind) (cause.Finding, time.Time, error)
}

// Collect reads what the sources say about a fire. text is the time of the question as in [Found]. It reads in five
// steps, each for at most 2.5 s; the peel itself is asked once, in one of them.
func (c *Collector) Collect(ctx context.Context, peel target.PeelID, entry, text string) (*Found, error) {
	f := &Found{Peel: peel, Entry: entry, Time: text, Now: time.Now()}
	_, known := c.Fleet.Index().Get(peel)
	f.Presence.LastSeen, f.Presence.Online = c.Fleet.Presence(peel)
	f.Presence.Unknown = c.Fleet.Unknown(peel)
	c.each(ctx, f, map[Source]func(context.Context, *Found) error{
		SourceReport: c.report, SourceDocument: c.document, SourceRevisions: c.revisions,
	})
	if !known && f.Report == nil && f.Document.Commit == "" && !f.isUnread(SourceReport) &&
		!f.isUnread(SourceDocument) {
		return nil, fmt.Errorf("%w: %q has never told its facts%s", ErrNoPeel, peel,
			strictyaml.Suggest(string(peel), c.ids()))
	}
	c.each(ctx, f, map[Source]func(context.Context, *Found) error{SourceJobs: c.jobs, SourceAudit: c.acts})
	c.each(ctx, f, map[Source]func(context.Context, *Found) error{SourcePeel: c.ask})
	c.each(ctx, f, map[Source]func(context.Context, *Found) error{SourceHistory: c.past})
	c.each(ctx, f, map[Source]func(context.Context, *Found) error{SourceCause: c.cause})
	return f, nil
}

func (c *Collector) ids() []string {
	var names []string
	for _, id := range c.Fleet.Index().IDs() {
		names = append(names, string(id))
	}
	return names
}

// each reads sources at the same time. Each fills in other fields of f, and one that cannot be read is noted.
func (c *Collector) each(ctx context.Context, f *Found, sources map[Source]func(context.Context, *Found) error) {
	var g errgroup.Group
	errs := make(map[Source]*error, len(sources))
	for source, read := range sources {
		err := new(error)
		errs[source] = err
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, readWait)
			defer cancel()
			*err = read(ctx, f)
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs
	for source, err := range errs {
		if *err == nil {
			continue
		}
		why := (*err).Error()
		if errors.Is(*err, context.DeadlineExceeded) {
			why = fmt.Sprintf("not read within %v: %s", readWait, why)
		}
		f.Unread = append(f.Unread, Unread{source, why})
	}
	sorting.Func(f.Unread, func(a, b Unread) int { return strings.Compare(string(a.Source), string(b.Source)) })
}

// report reads the newest report of the peel.
func (c *Collector) report(ctx context.Context, f *Found) error {
	subject := wire.ScheduleStateOf(f.Peel.Wire())
	found, err := bucket.Newest(ctx, c.JetStream.Conn(), wire.StreamScheduleState, []string{subject})
	if err != nil {
		return err
	}
	message, ok := found[subject]
	if !ok {
		return nil
	}
	r, err := ledger.Decode(&nats.Msg{Subject: subject, Data: message.Data})
	switch {
	case err != nil:
		return err
	case r.Peel != f.Peel:
		return fmt.Errorf("the newest one is of %q, which has the same name on the bus", r.Peel)
	}
	f.Report, f.Stored = r, message.Stored

	return nil
}

// document reads the newest settings of the peel.
func (c *Collector) document(ctx context.Context, f *Found) error {
	doc, _, err := settings.NewStore(c.JetStream).Get(ctx, f.Peel)
	if err != nil || doc == nil {
		return err
	}
	values, err := doc.Values()
	if err != nil {
		return err
	}
	set := schedule.Set{}
	if entries, ok := values["schedule"]; ok {
		// A refused entry is left out of the set, as on the peel.
		set, _ = schedule.ParseSet(strictyaml.FromValue("the settings of "+string(f.Peel), entries))
	}
	f.Document = Document{
		Commit:  doc.Commit,
		Digest:  doc.Digest,
		Written: time.UnixMilli(int64(doc.Generation)).UTC(),
		Entry:   set[f.Entry],
		Origin:  doc.Origins[f.Entry],
	}
	if f.Document.Places, err = doc.Entries(); err != nil {
		return err
	}
	for name := range set {
		f.Document.Names = append(f.Document.Names, name)
	}
	slices.Sort(f.Document.Names)
	return nil
}

func (c *Collector) revisions(ctx context.Context, f *Found) (err error) {
	if c.History != nil {
		f.Revisions, err = c.History(ctx)
	}
	return err
}

// jobs reads the records of runs of the entry about the time in question, and of those that the report names.
func (c *Collector) jobs(ctx context.Context, f *Found) error {
	at, named, err := f.about()
	if err != nil {
		return nil // the question is not valid
	}
	for _, jid := range named {
		j, err := c.Jobs.GetRecord(ctx, jid)
		if errors.Is(err, job.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		f.addJob(j)
	}
	if e := f.Document.Entry; e != nil && e.ReturnJob == schedule.ReturnNever {
		return nil // it has no other records
	}
	return c.search(ctx, f, at)
}

// search looks for records of runs that began about a time; for the newest one if it is zero.
func (c *Collector) search(ctx context.Context, f *Found, at time.Time) error {
	query := job.Query{Schedule: f.Entry, Target: f.Peel, Limit: mostFoundFacts}
	if !at.IsZero() {
		query.Cursor = wire.FirstJID(at.Add(jobsAfter))
	}
	for range jobPages {
		page, err := c.Jobs.List(ctx, query)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			f.addJob(&page.Jobs[i])
		}
		past := page.Next != "" && page.Next.Time().Before(at.Add(-time.Minute))
		if page.Next == "" || past || at.IsZero() && len(f.Jobs) > 0 {
			return nil
		}
		query.Cursor = page.Next
	}
	return fmt.Errorf("only those of jobs that began after %s were searched",
		query.Cursor.Time().UTC().Format(time.RFC3339))
}

// addJob adds a record if it is of the entry on the peel and not there yet; the newest run comes first.
func (f *Found) addJob(j *job.Job) {
	same := func(other job.Job) bool { return other.JID == j.JID }
	if j.Metadata[job.MetaSchedule] != f.Entry || !j.Scheduled() ||
		!slices.Equal(j.Targets, []target.PeelID{f.Peel}) || slices.ContainsFunc(f.Jobs, same) ||
		len(f.Jobs) >= mostFoundFacts {
		return
	}
	f.Jobs = append(f.Jobs, *j)
	sorting.Func(f.Jobs, func(a, b job.Job) int { return nominalOf(&b).Compare(nominalOf(&a)) })
}

// about returns the time in question, zero if the last fire is meant and its time is unknown, and the jobs that the
// report names.
func (f *Found) about() (at time.Time, named []wire.JID, err error) {
	q := f.prepare()
	at = q.newest()
	if q.listed != nil {
		jobs := []wire.JID{q.listed.Job}
		for i := range q.listed.Notes {
			jobs = append(jobs, q.listed.Notes[i].Job)
		}
		named = slices.DeleteFunc(jobs, func(jid wire.JID) bool { return jid == "" })
	}
	if f.Time == "" {
		return at, named, nil
	}
	m, err := ParseMoment(f.Time, q.zone, f.Now)
	if err != nil {
		return at, nil, err
	}
	return m.First(), named, nil
}

// past reads what masters have stored of the hour in question, if the report does not go back so far.
func (c *Collector) past(ctx context.Context, f *Found) error {
	q := f.prepare()
	fire, _, err := q.fire()
	at := fire.instant()
	if err != nil || at.IsZero() || !q.isOlder(at) {
		return nil // the question is not valid, or has no time
	}
	p := &Past{Hour: at.Unix() / 3600}
	unreadable, err := coverage.OpenHistory(c.JetStream).Read(ctx,
		[]int64{p.Hour}, func(_ int64, cells []coverage.HistoryCell) {
			p.Stored = true
			i, found := slices.BinarySearchFunc(cells, f, func(c coverage.HistoryCell, f *Found) int {
				return cmp.Or(cmp.Compare(c.Entry, f.Entry), cmp.Compare(c.Peel, f.Peel))
			})
			if found {
				p.Verdicts = &join.Hour{Hour: p.Hour, Counts: cells[i].Counts, Reasons: cells[i].Reasons}
			}
		})
	switch {
	case err != nil:
		return err
	case len(unreadable) > 0:
		return coverage.ErrUnreadable
	}
	f.Past = p
	return nil
}

// problems are the verdicts that are part of a problem while it lasts.
var problems = map[api.WhyVerdict]verdict.Kind{
	api.WhyFailed:  verdict.Failed,
	api.WhyMissed:  verdict.Missed,
	api.WhyLate:    verdict.Late,
	api.WhyOverran: verdict.Overran,
}

// cause asks which commit explains the problem that the fire is part of.
func (c *Collector) cause(_ context.Context, f *Found) error {
	answer, err := f.Explain()
	if err != nil || c.Cause == nil {
		return nil // the question is not valid
	}
	kind, is := problems[answer.Verdict]
	if !is {
		return nil
	}
	finding, since, err := c.Cause(f.Peel, f.Entry, kind)
	if err == nil && !since.IsZero() {
		f.Cause = &Cause{finding, since}
	}
	return err
}

// acts reads what operators did to the entry.
func (c *Collector) acts(ctx context.Context, f *Found) (err error) {
	if c.Audit != nil {
		f.Acts, err = ReadActs(ctx, c.Audit, ActQuery{
			Peel:   f.Peel,
			Entry:  f.Entry,
			Since:  f.Now.Add(-maxBack),
			Select: c.Select,
		})
	}
	return err
}
