package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/content"
	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sops"
)

// maxFailing bounds the failing peels in one notification.
const maxFailing = 200

// A term is one leadership session: its goroutines and their shared state.
type term struct {
	r        *Reconciler
	nc       *nats.Conn
	js       jetstream.JetStream
	rollout  jetstream.KeyValue
	fleet    *fleet.Fleet
	source   *source.Source
	archive  *archive.Archive
	contents *content.Store
	progress *progress.Progress
	control  *control.Service
	worker   *Worker
	loop     *loop
	in       inputs
}

// newTerm reads the stored state of earlier terms. The caller closes the term's source. checkLease returns an error
// when this master may not lead.
func (r *Reconciler) newTerm(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, fleet *fleet.Fleet,
	checkLease func() error,
) (t *term, err error) {
	t = &term{r: r, nc: nc, js: js, fleet: fleet}
	if t.rollout, err = js.KeyValue(ctx, record.Bucket); err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", record.Bucket, err)
	}
	if t.source, err = source.New(r.o.Repo, r.o.Poll); err != nil {
		return nil, err
	}
	own := record.NewSource(t.source.URL(), cmp.Or(r.o.Repo.Branch, "main"), r.o.Repo.Path)
	if t.contents, err = content.Open(ctx, js, checkLease); err == nil {
		t.archive, err = archive.Open(ctx, js, t.contents, own.String(), r.log)
	}
	if err != nil {
		return nil, errors.Join(err, t.source.Close())
	}
	if err := t.load(ctx, own, checkLease); err != nil {
		return nil, errors.Join(err, t.source.Close())
	}
	return t, nil
}

// load reads the record and the stored documents.
func (t *term) load(ctx context.Context, own record.Source, checkLease func() error) error {
	reported := make(chan struct{}, 1)
	t.progress = progress.New(t.fleet, reported, t.r.log)
	reader := t.source.Reader(t.archive)
	blamer := blame.New(reader.History())
	store := record.NewStore(t.rollout, t.r.o.Owner, own)
	last, err := store.Read(ctx)
	if err != nil {
		return err
	}
	published, err := publish.Load(ctx, publish.Options{
		JetStream: t.js, Rollout: t.rollout, Fleet: t.fleet, Blamer: blamer, Sealer: t.r.sealer, CheckLease: checkLease,
	})
	if err != nil {
		return err
	}
	last.Generation = max(last.Generation, published.Generation())
	t.in = inputs{fleet: t.fleet.Watch(ctx), reported: reported, branch: make(chan branchEvent)}
	if last.Generation > 0 { // else the bus is new
		// The record is written before its documents, so no master wrote a generation from between before this term.
		now := uint64(time.Now().UnixMilli())
		t.in.unknown = t.progress.FindUnknown(last.Generation, now, published.Heads())
	}
	w := NewWorker(WorkerOptions{
		History:   t.r.o.History,
		MayAllow:  t.r.o.MayAllow,
		OwnKey:    t.r.o.OwnKey,
		Reader:    reader,
		Archive:   t.archive,
		Progress:  t.progress,
		Fleet:     t.fleet,
		JetStream: t.js,
		Blamer:    blamer,
		Published: published,
		Contents:  t.contents,
		Written:   time.UnixMilli(int64(last.Generation)),
	})
	t.worker = w
	t.loop = &loop{
		store: store, source: t.source, worker: w, metrics: t.r.metrics, log: t.r.log, ring: t.r.ring,
		watch:  watch{js: t.js, fleet: t.fleet, progress: t.progress, reported: reported, log: t.r.log},
		orders: make(chan *control.Order), results: make(chan Result, 1),
	}
	t.loop.state = decide.State{
		Now: time.Now(),
		Session: decide.Session{
			Owner:   t.r.o.Owner,
			Own:     own,
			Repo:    t.source.URL(),
			YieldAt: time.Now().Add(yieldAfter),
		},
		Record: last, RepublishAt: time.Now().Add(republishEvery),
	}
	t.loop.show()
	readers, err := reach.Open(ctx, t.js, t.fleet.Index())
	if err != nil {
		return err
	}
	t.control = &control.Service{
		NC: t.nc, JS: t.js, Orders: t.loop.orders, Newest: t.loop.newest.Load, Archive: t.archive, Progress: t.progress,
		Settings: settings.NewStore(t.js), Fleet: t.fleet, Record: t.r.audit.Write, Remove: w.Remove, Read: w.Read,
		Within: readers.Of, Log: t.r.log, Metrics: t.r.o.Metrics,
	}
	return nil
}

// run runs the term from the stored state until ctx ends or another master leads. moved has a value when a local repo
// may have changed.
func (t *term) run(ctx context.Context, moved <-chan struct{}) error {
	hints, err := t.nc.Subscribe(wire.BranchMoved, func(*nats.Msg) { t.source.Request(source.Hint) })
	if err != nil {
		return fmt.Errorf("cannot subscribe to %s: %w", wire.BranchMoved, err)
	}
	defer func() { _ = hints.Unsubscribe() }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.source.Run(ctx, moved) })
	g.Go(func() error { return t.forwardEvents(ctx) })
	g.Go(func() error { return t.progress.Run(ctx, t.js) })
	g.Go(func() error { return t.progress.RunStates(ctx, t.js) })
	g.Go(func() error { return t.archive.Run(ctx) })
	g.Go(func() error { return t.sweepContents(ctx) })
	g.Go(func() error { return t.control.Run(ctx) })
	g.Go(func() error { return t.r.metrics.Run(ctx, t.view) })
	g.Go(func() error {
		return notify.Run(ctx, notify.Options{Places: t.r.o.Notify, Observe: t.observe, Store: t.rollout, Log: t.r.log})
	})
	for _, c := range t.r.o.Pulls {
		g.Go(func() error { return c.Run(ctx, t.nc, t.fleet.Index(), t.rollout) })
	}
	g.Go(func() error { return t.loop.run(ctx, t.in) })
	return g.Wait()
}

// sweepEvery is how often contents of files are looked for that nothing names.
const sweepEvery = time.Hour

// sweepContents removes contents of files that nothing names, until ctx ends.
func (t *term) sweepContents(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(sweepEvery):
		}
		removed, err := t.worker.SweepContents(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			t.r.log.Warn("unused contents of files are not removed, that is tried again in an hour", "err", err)
		case removed > 0:
			t.r.log.Info("unused contents of files are removed", "contents", removed)
		}
	}
}

// forwardEvents passes events of the source to the loop. After each attempt it reads the identities again, so that keys
// are rotated without a restart.
func (t *term) forwardEvents(ctx context.Context) error {
	for {
		var e branchEvent
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e.Event = <-t.source.Events():
		}
		if !e.Began {
			var err error
			if e.ring, err = sops.ReadRing(t.r.o.Identities...); err != nil {
				t.r.log.Error("identities not read, the previous ones stay in use", "err", err)
				e.ring = nil
			} else {
				t.r.ring = e.ring
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case t.in.branch <- e:
		}
	}
}

// Collector returns the metrics of the reconciler. While another master leads, it has no gauge but zester_sync_leader.
func (r *Reconciler) Collector() prometheus.Collector { return r.metrics }

// view returns the state for metrics, which read it every second: without the lists of the status, which metrics do not
// use.
func (t *term) view() View {
	v := View{Sync: t.loop.newest.Load().Sync}
	counts, reached, ok := t.progress.CountsOf(v.LastGood.Commit)
	if !ok {
		counts = t.progress.Counts()
	}
	v.Counts, v.Reached, v.HostCounts = counts, reached, t.progress.HostCounts()
	return v
}

// observe returns the state for notifications.
func (t *term) observe() notify.Observation {
	newest := t.loop.newest.Load()
	o := notify.Observation{Sync: newest.Sync, Attempts: newest.Attempts, Order: notify.Order(newest.Order)}
	counts, reached, ok := t.progress.CountsOf(o.Sync.LastGood.Commit)
	if !ok {
		return o
	}
	o.Fleet = notify.Fleet{
		Commit:  o.Sync.LastGood.Commit,
		Counts:  counts,
		Reached: reached,
		Errors:  t.progress.Errors(),
	}
	if counts.Failed+counts.Pending > 0 {
		o.Fleet.Failing, o.Fleet.Late = t.progress.Troubled(maxFailing)
	}
	return o
}
