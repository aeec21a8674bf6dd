package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/feed"
)

// progress knows how far every peel is: what it is to run, and what it says it runs. Which peels lack what they are to
// run is kept up to date with every report, so that asking how far the fleet is costs as much as there are of them.
type progress struct {
	fleet    *feed.Feed
	log      *slog.Logger
	refusals *wire.Refusals
	news     chan<- struct{} // told of each report

	mu      sync.Mutex
	wanted  map[target.PeelID]settings.Digest
	behind  map[target.PeelID]strictyaml.Error // of wanted, the peels that keep what they have
	reports map[string]report                  // by wire form, of which the bus lets a peel have only one
	lacking map[target.PeelID]lack             // of wanted, the peels that do not run it
	former  []target.PeelID                    // have a document and tell no facts any more, sorted
	commit  settings.Commit                    // that wanted is of; empty: of two
	plan    *plan.Plan                         // that wanted is of
	reached time.Time                          // when a peel last came to run what it is to run, by the bus
	counted time.Time                          // when last was
	last    status.Counts
}

// Where more peels than manyLacking lack something, they are counted once in countEvery for all who ask.
const (
	manyLacking = 1000
	countEvery  = 250 * time.Millisecond
)

// A lack is how a peel is that does not run what it is to run.
type lack struct {
	since  time.Time // it is to run it
	failed bool      // it says why it does not
}

// A report is what a peel said last.
type report struct {
	wire.Applied
	sequence uint64 // of its stream
}

func newProgress(fleet *feed.Feed, news chan<- struct{}, log *slog.Logger) *progress {
	return &progress{fleet: fleet, log: log, refusals: wire.NewRefusals(log), news: news, reports: map[string]report{}}
}

// want replaces what the peels are to run, by one revision if commit is not empty. Those that the plan holds back are to
// run what they were given before.
func (p *progress) want(commit settings.Commit, wanted *plan.Plan, heads settings.Heads) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed, alike := wanted.Since(p.plan) // of the same peels, so that none is new or gone
	before, others := p.behind, p.wanted == nil
	p.counted, p.commit, p.plan, p.behind = time.Time{}, commit, wanted, wanted.Behind
	if others {
		p.wanted, p.lacking = make(map[target.PeelID]settings.Digest, len(wanted.Peels)), map[target.PeelID]lack{}
	}
	look := func(id target.PeelID, e *plan.Effective) {
		was, known := p.wanted[id]
		if _, behind := before[id]; !known || behind || was != e.Digest {
			others = others || !known
			p.expect(id, e.Digest, heads)
		}
	}
	if alike {
		for _, id := range changed {
			look(id, wanted.Peels[id])
		}
	} else {
		for id, e := range wanted.Peels {
			look(id, e)
		}
	}
	for id := range wanted.Behind {
		_, known := p.wanted[id]
		others = others || !known
		p.expect(id, heads.Of(id).Digest, heads)
	}
	if others || len(p.wanted) > len(wanted.Peels)+len(wanted.Behind) {
		p.dismiss(wanted, heads)
	}
}

// expect has a peel run something from now on; p.mu is held.
func (p *progress) expect(id target.PeelID, digest settings.Digest, heads settings.Heads) {
	since := time.Now()
	if was, known := p.wanted[id]; !known || was != digest {
		delete(p.lacking, id)
		if held := heads.Of(id); held.Digest == digest {
			since = time.UnixMilli(int64(held.Generation)) // an earlier term has written it
		}
	}
	p.wanted[id] = digest
	p.compare(id, since)
}

// dismiss forgets the peels that are not of the fleet any more, and finds those that have a document still; p.mu is held.
func (p *progress) dismiss(wanted *plan.Plan, heads settings.Heads) {
	for id := range p.wanted {
		if _, behind := wanted.Behind[id]; wanted.Peels[id] == nil && !behind {
			delete(p.wanted, id)
			delete(p.lacking, id)
		}
	}
	p.former = nil
	for _, held := range heads {
		if _, ok := p.wanted[held.Peel]; !ok && held.Peel != "" {
			p.former = append(p.former, held.Peel)
		}
	}
	slices.Sort(p.former)
}

// compare notes whether a peel runs what it is to run; p.mu is held.
func (p *progress) compare(id target.PeelID, since time.Time) {
	digest, wanted := p.wanted[id]
	_, behind := p.behind[id]
	r := p.reports[id.Wire()]
	if !wanted || !behind && r.Peel == id && settings.Digest(r.Digest) == digest {
		delete(p.lacking, id)
		return
	}
	if known, ok := p.lacking[id]; ok {
		since = known.since
	}
	p.lacking[id] = lack{since, r.Peel == id && len(r.Errors) > 0}
}

// state says how far a peel is that is to run something; p.mu is held.
func (p *progress) state(id target.PeelID) status.State {
	lacks, lacking := p.lacking[id]
	_, behind := p.behind[id]
	switch {
	case !lacking:
		return status.Applied
	case behind || lacks.failed && p.reachable(id):
		return status.Failed
	case !p.reachable(id):
		return status.Offline
	}
	return status.Pending
}

// follow reads the peels' reports, the newest of each first, until ctx ends.
func (p *progress) follow(ctx context.Context, js jetstream.JetStream) error {
	consumer, err := js.OrderedConsumer(ctx, "applied", jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy})
	if err != nil {
		return fmt.Errorf("cannot follow the reports of the peels: %w", err)
	}
	reading, err := consumer.Consume(p.hear, jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		p.log.Warn("reports of the peels are read again", "err", err)
	}))
	if err != nil {
		return fmt.Errorf("cannot follow the reports of the peels: %w", err)
	}
	defer func() { reading.Stop(); <-reading.Closed() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-reading.Closed():
		return fmt.Errorf("cannot follow the reports of the peels: the reader ended")
	}
}

func (p *progress) hear(m jetstream.Msg) {
	said, err := wire.DecodeApplied(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	if err != nil {
		p.refusals.Warn(wire.Sender(m.Subject()), "report refused", "err", err)
		return
	}
	meta, err := m.Metadata()
	if err != nil {
		p.log.Warn("report refused", "err", err)
		return
	}
	p.take(said, meta.Sequence.Stream, meta.Timestamp)
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// take notes a report, its sequence and when the bus stored it.
func (p *progress) take(said wire.Applied, sequence uint64, stored time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.reports[said.Peel.Wire()]
	p.reports[said.Peel.Wire()] = report{said, sequence}
	for _, id := range []target.PeelID{said.Peel, before.Peel} { // two may share a wire form
		_, lacked := p.lacking[id]
		p.compare(id, stored)
		if _, lacks := p.lacking[id]; lacked && !lacks {
			p.reached = later(p.reached, stored)
		}
	}
}

// sight is how a peel looks from here.
type sight struct {
	online, applied bool
	errors          []string
	sequence        uint64 // of the report, 0 if there is none
}

// seen looks at one peel.
func (p *progress) seen(id target.PeelID) sight {
	p.mu.Lock()
	defer p.mu.Unlock()
	peel := p.peel(id)
	return sight{
		online: peel.Online, applied: peel.State == status.Applied, errors: peel.Errors, sequence: p.reports[id.Wire()].sequence,
	}
}

// forget drops what a peel has reported.
func (p *progress) forget(id target.PeelID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reports[id.Wire()].Peel == id {
		delete(p.reports, id.Wire())
	}
	p.former = slices.DeleteFunc(slices.Clone(p.former), func(other target.PeelID) bool { return other == id })
}

// one is how one peel is.
func (p *progress) one(id target.PeelID) status.Peel {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peel(id)
}

// known are marks of the errors that peels report now, sorted, at most so many.
func (p *progress) known(most int) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	marks := map[string]bool{}
	for _, r := range p.reports {
		for _, text := range r.Errors {
			marks[mark(text)] = true
		}
	}
	all := slices.Sorted(maps.Keys(marks))
	return all[:min(most, len(all))]
}

// pausedErrors returns the first peels by ID, most of them at most, that have settings and entries paused by failures.
func (p *progress) pausedErrors(most int) (list []status.PausedEntries) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.reports {
		if _, wanted := p.wanted[r.Peel]; wanted && len(r.PausedErrors) > 0 {
			list = append(list, status.PausedEntries{Peel: r.Peel, Entries: r.PausedErrors})
		}
	}
	slices.SortFunc(list, func(a, b status.PausedEntries) int { return cmp.Compare(a.Peel, b.Peel) })
	return list[:min(len(list), most)]
}

// counts are over all peels that are to run something.
func (p *progress) counts() (c status.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count()
}

// countsOf are counts, and when the last peel so far came to run what it is to run. It reports false if that is not what
// this revision says.
func (p *progress) countsOf(commit settings.Commit) (c status.Counts, reached time.Time, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.commit != commit {
		return c, reached, false
	}
	return p.count(), p.reached, true
}

// trouble names one peel that failed, or is online and does not run what it is to run, and what it says.
func (p *progress) trouble() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var first status.Peel
	for id := range p.lacking {
		if state := p.state(id); (state == status.Failed || state == status.Pending) && (first.Peel == "" || id < first.Peel) {
			first = status.Peel{Peel: id, State: state}
		}
	}
	if first.State != status.Failed {
		return string(first.Peel) + " has not applied it"
	}
	return string(first.Peel) + ": " + strings.Join(p.peel(first.Peel).Errors, "; ")
}

// count is what counts returns; p.mu is held.
func (p *progress) count() (c status.Counts) {
	if len(p.lacking) > manyLacking && time.Since(p.counted) < countEvery {
		return p.last
	}
	c.Peels, c.Applied = len(p.wanted), len(p.wanted)-len(p.lacking)
	for id := range p.lacking {
		switch p.state(id) {
		case status.Failed:
			c.Failed++
		case status.Offline:
			c.Offline++
		default:
			c.Pending++
		}
	}
	p.counted, p.last = time.Now(), c
	return c
}

// reachable reports whether a peel is online or may be: a master that has just started does not know yet.
func (p *progress) reachable(id target.PeelID) bool {
	_, online := p.fleet.Presence(id)
	return online || p.fleet.Unknown(id)
}

// peel joins what is wanted with what is reported; p.mu is held.
func (p *progress) peel(id target.PeelID) status.Peel {
	report := p.reports[id.Wire()].Applied
	if report.Peel != id {
		report = wire.Applied{}
	}
	_, online := p.fleet.Presence(id)
	s := status.Peel{
		Peel: id, Online: online, Commit: settings.Commit(report.Commit), Generation: report.Generation,
		Digest: settings.Digest(report.Digest), Wanted: p.wanted[id], Errors: report.Errors, PausedErrors: report.PausedErrors, Stale: report.Stale,
		Started: report.Started, Stopped: report.Stopped, Changed: report.Changed, Kept: report.Kept, Reported: report.Time,
	}
	if _, wanted := p.wanted[id]; !wanted {
		s.State = status.Decommissioned
		return s
	}
	s.State, s.Since = p.state(id), p.lacking[id].since
	if mistake, ok := p.behind[id]; ok {
		s.Errors = append(slices.Clone(s.Errors), mistake.Error())
	}
	return s
}

// pending are the peels that are online and neither run what they are to run nor say why.
func (p *progress) pending() map[target.PeelID]settings.Digest {
	p.mu.Lock()
	defer p.mu.Unlock()
	peels := map[target.PeelID]settings.Digest{}
	for id := range p.lacking {
		if p.state(id) == status.Pending {
			peels[id] = p.wanted[id]
		}
	}
	return peels
}

// page returns up to most peels after one ID, in order.
func (p *progress) page(after target.PeelID, most int) status.PeelsPage {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := slices.AppendSeq(slices.Clone(p.former), maps.Keys(p.wanted))
	slices.Sort(ids)
	start, found := slices.BinarySearch(ids, after)
	if found {
		start++
	}
	end := min(start+most, len(ids))
	page := status.PeelsPage{More: end < len(ids)}
	for _, id := range ids[start:end] {
		page.Peels = append(page.Peels, p.peel(id))
	}
	return page
}
