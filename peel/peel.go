// Package peel is the agent of one host. Make a [Peel] with [New] and call [Peel.Run]: it connects to the bus, accepts
// settings and requests, runs them and reports.
//
// A peel works without the bus. Its schedule runs from the moment it starts, from the static entries of its
// configuration and the snapshot of the last document that it accepted. Until the bus has confirmed that document, all
// its reports are marked stale. A new document is checked, stored in the snapshot, and applied as a difference: an
// entry that did not change keeps its timer to the nanosecond. A reload never waits for a running command.
//
// Each dispatched job runs at most once for each epoch: the fence records the job on the disk before it runs. The
// result of a finished run stays in the outbox, on the disk, until the stream has acknowledged it.
//
// Settings with secrets come sealed to a key that the peel has made and that never leaves its host. The peel opens them
// in memory; its snapshot stays sealed. What it shows, logs, stores or reports has a fingerprint in the place of each
// secret.
//
// Known gap: in the output of commands a secret is replaced only in the forms that package mask names.
package peel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/content"
	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/facts"
	"github.com/seed-c01c3da5/zester/peel/fence"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/prompt"
	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/private"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Options configure a peel. ID, DataDir and URL are required.
type Options struct {
	ID      target.PeelID
	DataDir string // key, snapshot, contents of files, fence, outbox and scheduler state; made with mode 0700
	URL     string // of the servers of the bus, separated by commas
	CA      string // file with the certificates that the bus is checked by, see package dial
	// files beside DataDir that the peel needs, such as its credential; states do not remove them
	Own      []string
	Connect  []nats.Option  // the credential and other options of the connection
	Schedule schedule.Set   // static entries; an entry of the settings replaces the one with the same name
	Facts    target.Facts   // static facts; they replace facts of the host
	Zone     *time.Location // of entries without a time zone; nil: the host's
	Workers  int            // requests that change the host and run at once; 0: 1
	Prompt   *prompt.Config // of the model that prompt.run asks; nil: the peel does not have that function
	// Simulated peels share a host, to measure a bus: they have no facts but Facts, no cmd.run and no states.
	Simulated bool
	Clock     func() scheduler.Instant             // of the schedule and its reports; nil: the clocks of this host
	Boot      func() (id string, up time.Duration) // see [scheduler.Boot]; nil: not known
	// Replace: a value asks Run to return [ErrReplaced] when nothing runs; nil: nobody does. It is the path of the
	// program that is to start, which prints its version if it is called with --version.
	Replace <-chan string
	Log     *slog.Logger // nil: silent
}

// A Peel is the agent. Make it with [New] and call Run once.
type Peel struct {
	o         Options
	log       *slog.Logger
	registry  *module.Registry
	fence     *fence.Fence
	pending   pendingRequests
	receiving sync.Mutex // held while a request is handled, and while leaveIfIdle decides
	outbox    *outbox.Outbox
	receipts  *receipts
	sched     *scheduler.Scheduler
	key       *key
	files     *content.Cache // contents of files that states name
	snapshot  *SnapshotFile  // start and followSettings alone use it
	bus       atomic.Pointer[nats.Conn]

	current atomic.Pointer[inForce]
	newest  struct {
		facts   atomic.Pointer[target.Facts]
		upgrade atomic.Pointer[string]   // the fact zester_upgrade; nil or empty: there is none
		paused  atomic.Pointer[[]string] // names of the entries that are paused_errors
	}

	stateRun report.StateRunFile                      // of the newest run of all states
	due      struct{ report, facts, stateRun signal } // what announce is to send

	scheduleReport *report.Reporter

	removal  removal       // by peel.wipe
	stopping chan struct{} // closed when the peel stops
}

// New checks the options and opens the peel's files. It neither connects nor runs anything. If peel.wipe has removed
// the host from the fleet, the error is a [RemovedError].
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
	if o.Clock == nil {
		o.Clock = scheduler.NewClock()
	}
	if err := refuseMasterDir(o.DataDir); err != nil {
		return nil, err
	}
	if err := private.Make(o.DataDir); err != nil {
		return nil, err
	}
	if err := checkRemoval(o.DataDir); err != nil {
		return nil, err
	}
	p := &Peel{o: o, log: o.Log.With("peel", o.ID), registry: module.New(), stopping: make(chan struct{})}
	p.removal.stored = make(chan struct{})
	p.due.report = newSignal()
	p.due.facts = newSignal()
	p.due.stateRun = newSignal()
	p.stateRun.Path = p.path("state-run")
	p.snapshot = OpenSnapshot(p.path("settings"))
	p.current.Store(&inForce{})
	p.addFunctions()
	if err := p.addPrompt(); err != nil {
		return nil, err
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	if o.Simulated {
		p.registry.Drop("cmd.run")
	} else {
		p.addStates()
	}
	return p, nil
}

// ErrMasterDir is wrapped by the error of [New] if the data directory belongs to a master.
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

// open opens the peel's files. The fence is first: it stays locked until Run ends, and keeps a second process from the
// other files.
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
	p.scheduleReport = report.NewReporter(report.ReporterOptions{
		Peel: p.o.ID, Clock: p.o.Clock, Zone: p.o.Zone, Settings: p.reported, Send: p.sendReport, Log: p.log,
		Account: func(ctx context.Context) (scheduler.Account, error) { return p.sched.Account(ctx) },
	})
	if p.key, err = openKey(p.path("key")); err == nil {
		p.receipts, err = openReceipts(p.path("receipts"), p.o.Connect, p.log)
	}
	if err == nil {
		p.files, err = content.New(p.path("contents"), p.due.report.raise, p.log)
	}
	if err == nil {
		p.outbox, err = outbox.Open(p.path("outbox"), p.log)
	}
	if err == nil {
		p.sched, err = scheduler.New(scheduler.Options{
			Peel:         string(p.o.ID),
			Zone:         p.o.Zone,
			StateFile:    p.path("schedule"),
			Clock:        p.o.Clock,
			Boot:         p.o.Boot,
			Log:          p.o.Log,
			Exec:         p.runEntry,
			Report:       p.reportRun,
			Source:       p.sourceOf,
			Able:         p.checkFunction,
			PausedErrors: p.onPausedErrors,
			Changed:      p.scheduleReport.Changed,
		})
	}
	if err != nil {
		return errors.Join(err, p.fence.Close())
	}
	return nil
}

func (p *Peel) path(name string) string { return filepath.Join(p.o.DataDir, name) }

// Run runs the schedule, keeps connected and serves requests until ctx ends. Running functions then get a bounded time,
// and results that cannot be sent stay in the outbox. Run can be called once. If the error is a [RemovedError], the
// caller has to call [DeleteData].
func (p *Peel) Run(ctx context.Context) error {
	err := p.run(ctx)
	p.outbox.Close()
	p.receipts.close()
	p.snapshot.Close()
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
	if text := p.newest.upgrade.Load(); text != nil && *text != "" {
		now = maps.Clone(now)
		now["zester_upgrade"] = *text
	}
	before := p.newest.facts.Swap(&now)
	return before == nil || !reflect.DeepEqual(*before, now), nil
}

func (p *Peel) run(ctx context.Context) error {
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	defer context.AfterFunc(ctx, func() { close(p.stopping) })()
	if _, err := p.collect(ctx); err != nil {
		return err
	}
	p.log.Info("secrets are sealed to the key of this peel", "key", p.key.public)
	running := ctx
	g, ctx := errgroup.WithContext(ctx)
	scheduleEnded := make(chan struct{})
	g.Go(func() error {
		defer close(scheduleEnded)
		return p.sched.Run(ctx)
	})
	p.returnInterrupted()
	after := p.start(ctx) // before connecting, which takes long if an address does not answer
	updates := make(chan settings.Update)
	g.Go(func() error { p.followSettings(ctx, updates); return nil })
	g.Go(func() error { return p.communicate(ctx, after, updates, scheduleEnded) })
	g.Go(func() error { p.awaitReplace(ctx, leave); return nil })
	g.Go(func() error { p.awaitRemoval(ctx, leave); return nil })
	err := g.Wait()
	if err != nil {
		return err
	}
	if removal := p.removal.recorded.Load(); removal != nil {
		return removal
	}
	if context.Cause(running) == ErrReplaced {
		return ErrReplaced
	}
	return nil
}

// communicate connects and exchanges messages with the bus until ctx ends, and sends reports until scheduleEnded is
// closed, which is after the last run. It delivers the documents with a generation higher than after to updates.
func (p *Peel) communicate(ctx context.Context, after uint64, updates chan<- settings.Update,
	scheduleEnded <-chan struct{},
) error {
	nc, err := dial.Open(ctx, dial.Options{Peel: p.o.ID, URL: p.o.URL, CA: p.o.CA, Extra: p.o.Connect, Log: p.log})
	if err != nil {
		return err
	}
	defer nc.Close()
	p.bus.Store(nc)
	in, err := p.subscribe(nc) // before the facts are sent: then requests can come
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
	g.Go(func() error {
		return watch.Run(ctx, func(ctx context.Context, u settings.Update) {
			select {
			case updates <- u:
			case <-ctx.Done():
			}
		})
	})
	g.Go(func() error { p.serveRequests(ctx, in); return nil })
	g.Go(func() error { p.files.Run(ctx, nc); return nil })
	g.Go(func() error { p.announce(ctx, nc); return nil })
	g.Go(func() error { p.scheduleReport.Run(ctx, nc); return nil })
	g.Go(func() error { p.sendHeartbeats(ctx, nc); return nil })
	err = g.Wait()
	in.close()
	if err == nil {
		<-scheduleEnded
	}
	if p.removal.recorded.Load() != nil {
		p.sendAll()
	}
	stop()
	<-sent
	p.outbox.SendHeld(context.WithoutCancel(ctx), p.send) // the next process sends the others
	return err
}
