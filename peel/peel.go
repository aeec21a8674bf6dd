// Package peel is the agent of one host: it connects, accepts settings and requests, runs them and reports.
//
// A peel works by itself. Its schedule runs from the moment it starts, out of the static entries of its
// configuration and the snapshot of the last document it accepted, whether or not the bus is there; until the bus
// has confirmed that document, everything it says is marked stale. Settings come from one subscription and one read
// (see [settings.Watch]); each new document is checked, stored, and applied as a difference, so that an entry that
// did not change keeps its timer to the nanosecond. A reload never waits for a running command.
//
// Settings with secrets come sealed to a key that the peel has made and that never leaves its host. They are opened in
// memory: the snapshot is sealed as well, and whatever a peel shows, logs, stores or reports has a fingerprint in place of
// a secret, what runs print included, as far as they print it as it is.
//
// What a peel owes others it owes on disk: a dispatched job is recorded by the fence before it runs, so that no
// crash runs it twice, and the report of a finished run lies in the outbox until the stream has acknowledged it.
package peel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/connection"
	"github.com/seed-c01c3da5/zester/peel/facts"
	"github.com/seed-c01c3da5/zester/peel/fence"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Options say who a peel is and where it lives.
type Options struct {
	ID       target.PeelID
	DataDir  string         // key, snapshot, fence, outbox and scheduler state; made with mode 0700
	URL      string         // of the bus; several are separated by commas
	CA       string         // file with the certificates by which the bus is checked, see [wire.CheckedBy]
	Connect  []nats.Option  // the credential and other options of the connection
	Schedule schedule.Set   // static entries; settings win by name
	Facts    target.Facts   // static facts; they win over those of the host
	Zone     *time.Location // for entries without a time zone; nil: the host's
	Workers  int            // how many requests that change the host run at once; 0: 1
	// Simulated is for a peel that shares its host with many others, to measure a bus: it has no facts but those of
	// Facts, and no cmd.run.
	Simulated bool
	Log       *slog.Logger
}

// A Peel is the agent. Make it with [New] and call Run once.
type Peel struct {
	o        Options
	log      *slog.Logger
	wire     string // the ID as a token of a subject
	registry *module.Registry
	fence    *fence.Fence
	flights  *flights
	outbox   *outbox.Outbox
	sched    *scheduler.Scheduler
	key      *key
	snapshot *snapshot
	facts    atomic.Pointer[target.Facts] // the newest
	current  atomic.Pointer[inForce]
	reports  chan struct{}            // one slot: the applied report is to be sent
	retell   atomic.Bool              // the facts are to be sent with the next report, because masters have another key
	paused   atomic.Pointer[[]string] // names of the entries that are paused_errors
	bus      atomic.Pointer[nats.Conn]
}

// New checks the options and opens the peel's files. It neither connects nor runs anything.
func New(o Options) (*Peel, error) {
	if _, err := target.ParsePeelID(string(o.ID)); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Zone == nil {
		o.Zone = time.Local
	}
	if err := refuseMasterDir(o.DataDir); err != nil {
		return nil, err
	}
	if err := private.Make(o.DataDir); err != nil {
		return nil, err
	}
	p := &Peel{o: o, log: o.Log.With("peel", o.ID), wire: o.ID.Wire(), registry: module.New(), flights: newFlights(), reports: make(chan struct{}, 1)}
	p.snapshot = newSnapshot(p.path("settings"))
	p.current.Store(&inForce{})
	p.addFunctions()
	if o.Simulated {
		p.registry.Drop("cmd.run")
	}
	return p, p.open()
}

// ErrMasterDir is wrapped by the error of [New] if the data directory is a master's.
var ErrMasterDir = errors.New("it holds a master's files, and a peel needs a directory of its own")

// refuseMasterDir refuses a directory with the keys or the streams of a master.
func refuseMasterDir(dir string) error {
	for _, name := range []string{"auth", "bus"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return fmt.Errorf("cannot keep the peel's files in %s, which has %s: %w", dir, name, ErrMasterDir)
		}
	}
	return nil
}

// open opens the peel's files. The fence goes first: it is locked until Run ends, and a second process that opened the
// other files would harm the first.
func (p *Peel) open() (err error) {
	if p.fence, err = fence.Open(p.path("fence")); err != nil {
		return err
	}
	if damage := p.fence.Damage(); damage != nil {
		p.log.Error("jobs of before are refused", "err", damage)
	}
	groups, err := module.OpenGroups(p.path("groups"), p.log) // before an interrupted command can run again
	if err != nil {
		return errors.Join(err, p.fence.Close())
	}
	p.registry.Record(groups)
	if p.key, err = openKey(p.path("key")); err == nil {
		p.outbox, err = outbox.Open(p.path("outbox"), p.log)
	}
	if err == nil {
		p.sched, err = scheduler.New(scheduler.Options{
			Peel: string(p.o.ID), Zone: p.o.Zone, StateFile: p.path("schedule"), Log: p.o.Log,
			Exec: p.runEntry, Report: p.reportRun, Source: p.sourceOf, Able: able, PausedErrors: p.onPausedErrors,
		})
	}
	if err != nil {
		return errors.Join(err, p.fence.Close())
	}
	return nil
}

func (p *Peel) path(name string) string { return filepath.Join(p.o.DataDir, name) }

// Run works until ctx ends: it runs the schedule, keeps connected, and answers. Runs in flight are then given a
// bounded time, and what they report is stored if it cannot be sent. Run can be called once.
func (p *Peel) Run(ctx context.Context) error {
	err := p.run(ctx)
	p.outbox.Close()
	p.snapshot.close()
	return errors.Join(err, p.fence.Close())
}

// collect collects the host's facts and reports whether they have changed. It fails only if ctx ends.
func (p *Peel) collect(ctx context.Context) (changed bool, err error) {
	now := p.o.Facts
	if !p.o.Simulated {
		if now, err = facts.Collect(ctx, p.o.Facts); err != nil {
			return false, err
		}
	}
	before := p.facts.Swap(&now)
	return before == nil || !reflect.DeepEqual(*before, now), nil
}

func (p *Peel) run(ctx context.Context) error {
	if _, err := p.collect(ctx); err != nil {
		return err
	}
	p.log.Info("secrets are sealed to the key of this peel", "key", p.key.public)
	g, ctx := errgroup.WithContext(ctx)
	scheduled := make(chan struct{})
	g.Go(func() error {
		defer close(scheduled)
		return p.sched.Run(ctx)
	})
	g.Go(func() error { p.keepSnapshot(ctx); return nil })
	p.returnInterrupted()
	after := p.start(ctx) // before the bus is tried: an address that does not answer takes its time
	g.Go(func() error { return p.talk(ctx, after, scheduled) })
	return g.Wait()
}

// talk connects, takes settings and requests until ctx ends, and sends reports until scheduled is closed, which is after the
// last run. After is the generation of the snapshot.
func (p *Peel) talk(ctx context.Context, after uint64, scheduled <-chan struct{}) error {
	nc, err := connection.Open(ctx, connection.Options{Peel: p.o.ID, URL: p.o.URL, CA: p.o.CA, Extra: p.o.Connect, Log: p.log})
	if err != nil {
		return err
	}
	defer nc.Close()
	p.bus.Store(nc)
	requests, err := p.listen(nc) // first, as whoever knows a peel by its facts may ask it at once
	if err != nil {
		return err
	}
	sending, stop := context.WithCancel(context.WithoutCancel(ctx))
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = p.outbox.Run(sending, p.send) // ends by stop alone
	}()
	g, ctx := errgroup.WithContext(ctx)
	watch := settings.NewWatch(settings.WatchOptions{Conn: nc, Peel: p.o.ID, After: after, Log: p.log})
	g.Go(func() error { return watch.Run(ctx, p.hear) })
	g.Go(func() error { p.serve(ctx, requests); return nil })
	g.Go(func() error { p.announce(ctx, nc); return nil })
	g.Go(func() error { p.beat(ctx, nc); return nil })
	err = g.Wait()
	requests.close()
	if err == nil {
		<-scheduled
	}
	stop()
	<-sent
	p.outbox.SendHeld(context.WithoutCancel(ctx), p.send) // the others are sent by the next process
	return err
}
