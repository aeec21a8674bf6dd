// Package coverage says what happened to every fire of every schedule. Make a [Table] with [New], run [Table.Run] on a
// goroutine of its own, and ask [Table.Health] before you use anything else: no verdict is worth anything while the
// table is not ready, or behind.
//
// The table follows the stream schedule-state with the newest report of each peel, and the bucket settings with the
// documents. A report has the list of the fires of each entry; a document says when it was due; package join compares
// them. A peel that is away has one problem, not_reporting, and its fires are unknown until it reports.
//
// Guarantees: reports that are not valid, or in the name of another peel, are refused, counted, and logged at most once
// a minute for each peel; they change nothing. A report names the entries of its settings by their places, so it cannot
// name another one. Entries of peel.yaml count for their peel, until it has not reported them for a while: they have no
// figures of the fleet and no history. A table that may have missed messages finds that within ten seconds (package
// follow). A lost report, a clock that is set, an outage of the masters, or settings that are not there yet never make
// a fire missed. The verdicts of an hour are never replaced by ones that account for fewer fires. Every master has a
// table of its own, and all have the same verdicts.
//
// Package scheduler keeps the verdicts of past hours for 35 days. Any master writes them, and repeats what another one
// did not.
//
// Known gaps: a report with other settings than the two newest that this master has seen names entries that it cannot
// know; they are unknown until the peel has newer ones.
//
// Of a peel whose clock was wrong or was set, planned times of that time may be unknown, and a run may count in the
// hour that the clock showed. One that ran by each of two clocks is unexpected the second time.
//
// A report does not say by how much the clock was wrong before its host booted, nor how an entry was timed before. So a
// master that starts later may count less, or other fires, for the hours before, unless the history has them. One that
// had reports of that time keeps its counts. Example: the clock is set to 5 h ahead at 23:40, the host boots at 00:55
// with the right time. A master that starts at 01:30 has no verdicts on the fires of 22:00.
package coverage

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	judgeEvery = 30 * time.Second // peels that do not report
	sweepEvery = time.Hour        // schedules that no peel has any more
)

// Options are the options of a Table.
type Options struct {
	JetStream jetstream.JetStream // on the connection of a master
	Fleet     *fleetpkg.Fleet     // which runs and is ready
	Log       *slog.Logger        // nil: nothing is logged
	// Noted reports whether [Table.Runs] gives all runs of an entry that reports note; nil: it gives only the newest.
	Noted func(entry string) bool
}

// A Table has the verdicts on the fires of the whole fleet. Its methods may be called from several goroutines.
type Table struct {
	o         Options
	refusals  *loglimit.Limiter
	seed      maphash.Seed
	reports   *bus.Follower
	published *bus.Follower
	past      *HistoryStore
	pastSums  pastSums
	zones     zones
	causes    chan struct{} // of the causes that are computed now
	clock     busClock
	scans     scans

	mu        sync.Mutex
	peels     map[string]*peel // by wire ID
	totals    map[string]*total
	standings standings
	changes   changes
	documents documents
	refused   uint64
	problems  []verdict.Problem // of the last call of Problems while the table was not behind
	writtenHours
}

// writtenHours is what the table knows of the hours that it writes to the history.
type writtenHours struct {
	// firstHour is the oldest hour that every report has that the table read at its start. Of earlier hours the history
	// knows more. A report by a wrong clock has none.
	firstHour  int64
	historyErr error
	unreadable map[int64]bool // hours that were to be written, and could not be read
}

// New checks the options. It starts nothing.
func New(o Options) (*Table, error) {
	if o.JetStream == nil || o.Fleet == nil {
		return nil, errors.New("cannot follow schedules without a connection and a fleet")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Table{
		o:         o,
		refusals:  loglimit.New(o.Log),
		seed:      maphash.MakeSeed(),
		past:      OpenHistory(o.JetStream),
		pastSums:  pastSums{hours: map[int64]pastSum{}},
		zones:     zones{byName: map[string]*time.Location{}},
		causes:    make(chan struct{}, maxCauses),
		clock:     busClock{own: time.Now},
		peels:     map[string]*peel{},
		totals:    map[string]*total{},
		standings: *newStandings(),
	}
	t.unreadable = map[int64]bool{}
	t.documents = newDocuments(&t.zones)
	t.reports = bus.NewFollower(bus.FollowOptions{
		JetStream: o.JetStream,
		Stream:    wire.StreamScheduleState,
		Subject:   wire.AllScheduleStates,
		OnMessage: func(_ context.Context, m bus.FollowMessage) error { t.onReport(m); return nil },
		OnRemoved: t.onReportRemoved,
		OnClock:   t.clock.onTime,
		Log:       o.Log,
	})
	t.published = bus.NewFollower(bus.FollowOptions{
		JetStream: o.JetStream,
		Stream:    wire.KV(wire.BucketSettings),
		Subject:   wire.SettingsKey("*"),
		OnMessage: func(_ context.Context, m bus.FollowMessage) error { t.onDocument(m); return nil },
		OnRemoved: t.onDocumentRemoved,
		Log:       o.Log,
	})
	return t, nil
}

// Run follows the fleet until ctx ends, and then returns nil. An error means that the connection is closed.
func (t *Table) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.published.Run(ctx) })
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-t.published.Ready(): // so that each report is judged by its document
		}
		return t.reports.Run(ctx)
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-t.reports.Ready():
		}
		t.keep(ctx)
		return nil
	})
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-t.reports.Ready():
		}
		t.sumPast(ctx)
		return nil
	})
	g.Go(func() error {
		t.judgeAbsent(ctx)
		return nil
	})
	return g.Wait()
}

// Ready is closed when all stored reports were read.
func (t *Table) Ready() <-chan struct{} { return t.reports.Ready() }

// isReading reports whether stored reports are still being read. They are not added to
// the totals: each start would count them again.
func (t *Table) isReading() bool {
	select {
	case <-t.Ready():
		return false
	default:
		return true
	}
}

// judgeAbsent judges the fires of peels that do not report, until ctx ends.
func (t *Table) judgeAbsent(ctx context.Context) {
	every, sweep := time.NewTicker(judgeEvery), time.NewTicker(sweepEvery)
	defer every.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			t.judgeAbsentOnce(t.clock.now())
		case <-sweep.C:
			t.sweep()
		}
	}
}

func (t *Table) judgeAbsentOnce(now time.Time) {
	if t.err() != nil {
		return
	}
	connected := t.connected()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.peels {
		if p.hasSchedule() && t.absent(p, now, connected) {
			t.away(p, now)
		}
	}
}

// sweep forgets schedules that no peel has.
func (t *Table) sweep() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.documents.sweep()
}

// connected returns since when the present connection to the bus is used, and its clock has not been set.
func (t *Table) connected() time.Time {
	connected := t.reports.Health().Connected
	if set := t.clock.wasSet(); set.After(connected) {
		return set
	}
	return connected
}

// digest returns a short form of a digest, to compare.
func (t *Table) digest(d string) uint64 { return maphash.String(t.seed, d) }

// onReport takes the report of a peel.
func (t *Table) onReport(m bus.FollowMessage) {
	r, err := ledger.Decode(m.Msg)
	if err != nil {
		r = &ledger.Report{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.reporter(m, r.Peel, err); p != nil {
		t.report(p, r, m.Stored)
	}
}

// reporter returns the peel that has sent a report; nil if the report is refused, also because it could not be decoded.
func (t *Table) reporter(m bus.FollowMessage, id target.PeelID, err error) *peel {
	p := t.peels[m.Key]
	if err == nil && p != nil && p.document != nil && p.id != id {
		err = fmt.Errorf("the report is from %s, and the peel with this name on the bus is %s", id, p.id)
	}
	if err != nil {
		t.refused++
		t.refusals.Warn(m.Key, "report on a schedule refused", "peel", m.Key, "err", err)
		return nil
	}
	if p == nil {
		p = newPeel()
		t.peels[m.Key] = p
	}
	if !t.isReading() {
		t.clock.onTime(m.Stored)
	}
	return p
}

// refuseEntries counts a report with entries that are said to be in the settings of the peel, and are not.
func (t *Table) refuseEntries(p *peel, key string, n int) {
	t.refused++
	t.refusals.Warn(key+" entries", "entries of a report refused: the settings of the peel do not have them",
		"peel", key, "entries", n)
}

// onReportRemoved forgets what a peel reported.
func (t *Table) onReportRemoved(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peels[key]
	if p == nil {
		return
	}
	t.release(p, nil)
	next := newPeel()
	next.id = p.id
	t.documents.follow(next, p.document, next.zone)
	t.documents.follow(p, nil, p.zone)
	next.wanted = p.wanted
	next.stored = p.stored
	next.arrivals, next.former, next.revision = p.arrivals, p.former, p.revision
	delete(t.standings.lull.unsettled, p)
	if next.document == nil {
		delete(t.peels, key)
		return
	}
	next.adopt(t, next.document.names)
	t.peels[key] = next
}

// onDocument takes the settings of a peel.
func (t *Table) onDocument(m bus.FollowMessage) {
	doc, err := settings.FromMessage(m.Msg)
	if doc == nil && err == nil {
		t.onDocumentRemoved(m.Key)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	var s *document
	if err == nil {
		s, err = t.documents.of(doc)
	}
	if err != nil {
		t.refusals.Warn(m.Key+" settings", "settings of a peel cannot be read, its fires are not checked", "peel",
			m.Key, "err", err)
		return
	}
	p := t.peels[m.Key]
	if p == nil {
		p = newPeel()
		t.peels[m.Key] = p
	}
	t.want(p, doc, s, m.Stored)
}

// onDocumentRemoved forgets the settings of a peel.
func (t *Table) onDocumentRemoved(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peels[key]
	if p == nil {
		return
	}
	if t.documents.follow(p, nil, p.zone); p.arrived == 0 {
		t.release(p, nil)
		delete(t.standings.lull.unsettled, p)
		delete(t.peels, key)
		return
	}
	p.adopt(t, nil)
}

// err returns why the table gives no verdicts; nil if it does.
func (t *Table) err() error {
	h := t.Feed()
	switch {
	case !h.Ready:
		return errors.New("this master has not read all reports of peels yet")
	case !h.Behind.IsZero():
		return fmt.Errorf("this master has not read all reports of peels since %s", h.Behind.UTC().Format(time.RFC3339))
	}
	return nil
}

// hoursOf calls visit for each entry of a peel with its verdicts, which are valid only during the call.
func (p *peel) hoursOf(visit func(r *row, hours []join.Hour)) {
	u := unpacker{p.hours}
	var list []join.Hour
	for i := range p.rows {
		list = u.next(list[:0])
		visit(&p.rows[i], list)
	}
}
