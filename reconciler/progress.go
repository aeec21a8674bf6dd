package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

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

// progress knows how far every peel is: what it is to run, and what it says it runs.
type progress struct {
	fleet *feed.Feed
	log   *slog.Logger
	news  chan<- struct{} // told of each report

	mu      sync.Mutex
	wanted  map[target.PeelID]settings.Digest
	behind  map[target.PeelID]strictyaml.Error // of wanted, the peels that keep what they have
	reports map[string]report                  // by wire form, of which the bus lets a peel have only one
}

// A report is what a peel said last.
type report struct {
	wire.Applied
	sequence uint64 // of its stream
}

func newProgress(fleet *feed.Feed, news chan<- struct{}, log *slog.Logger) *progress {
	return &progress{fleet: fleet, log: log, news: news, reports: map[string]report{}}
}

// want replaces what the peels are to run. Those that the plan holds back are to run what they were given before.
func (p *progress) want(wanted *plan.Plan, heads settings.Heads) {
	digests := make(map[target.PeelID]settings.Digest, len(wanted.Peels))
	for id, e := range wanted.Peels {
		digests[id] = e.Digest
	}
	for id := range wanted.Behind {
		digests[id] = heads.Of(id).Digest
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wanted, p.behind = digests, wanted.Behind
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
		p.log.Warn("report refused", "err", err)
		return
	}
	meta, err := m.Metadata()
	if err != nil {
		p.log.Warn("report refused", "err", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reports[said.Peel.Wire()] = report{said, meta.Sequence.Stream}
	select {
	case p.news <- struct{}{}:
	default:
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

// counts are over all peels that are to run something.
func (p *progress) counts() (c status.Counts) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.Peels = len(p.wanted)
	for id := range p.wanted {
		switch p.peel(id).State {
		case status.Applied:
			c.Applied++
		case status.Failed:
			c.Failed++
		case status.Offline:
			c.Offline++
		default:
			c.Pending++
		}
	}
	return c
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
		Digest: settings.Digest(report.Digest), Wanted: p.wanted[id], Errors: report.Errors, Stale: report.Stale,
		Started: report.Started, Stopped: report.Stopped, Changed: report.Changed, Kept: report.Kept, Reported: report.Time,
	}
	if mistake, ok := p.behind[id]; ok {
		s.State, s.Errors = status.Failed, append(slices.Clone(s.Errors), mistake.Error())
		return s
	}
	switch {
	case s.Digest == s.Wanted:
		s.State = status.Applied
	case len(s.Errors) > 0 && online:
		s.State = status.Failed
	case !online:
		s.State = status.Offline
	default:
		s.State = status.Pending
	}
	return s
}

// page returns up to most peels after one ID, in order.
func (p *progress) page(after target.PeelID, most int) status.PeelsPage {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := slices.Sorted(maps.Keys(p.wanted))
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
