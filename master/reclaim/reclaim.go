// Package reclaim takes over the jobs of masters that have stopped or died.
//
// The owner of a job is one run of a master: its name and an ID that no other run has. Every master writes a heartbeat
// every 5 s into the bucket masters, where it lives for 15 s under the master's name and says which run has the name. It
// is written on the condition that no other run has it, so of two processes with one name the second does not start
// ([Scanner.Enter]), and one that lost its name while it could not renew it ends.
//
// Every master looks every 20 s at the owners of all jobs in the index of active jobs. An owner without a heartbeat in
// two looks in a row is dead. What cannot be read proves nothing: such a look ends with nothing changed, and so does one
// that does not find this run's own heartbeat. So a job whose owner died is taken over within 55 s.
//
// A job that its owner has released, when it stopped in peace, is taken over at once; so is one of an earlier run of this
// master, because that run has ended.
//
// Taking over is one conditional write of the record, which raises the job's epoch: of several masters one succeeds,
// and the former owner, should it come back, fails from then on. A job that has been taken from dead owners more than
// [MaxReclaims] times is ended as failed, because it may be what kills them. A job that was ended by an owner who died
// before it had told anybody is told.
//
// The clocks of masters need not agree: how much time a job has left is told by its record and by the bus's clock.
//
// Heartbeats, the index's keys and records are read from the leader of their stream.
package reclaim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
)

// MaxReclaims is how often a job is taken from a dead owner before it is ended as failed.
const MaxReclaims = 3

const (
	bucket     = "masters"
	beatEvery  = 5 * time.Second
	scanEvery  = 20 * time.Second
	deadMisses = 2 // looks in a row
	askLimit   = 5 * time.Second
	openLimit  = time.Minute // for a bus to which a large fleet comes back

	// sameClock is how far apart clocks may be that count as one: a heartbeat and a write take their time.
	sameClock = time.Second

	// unanswered is how long an entry of the index is kept that has no record. The record may be on its way: a master
	// that was paused between the two writes goes on where it was.
	unanswered = time.Hour
)

// Options are what a Scanner works with.
type Options struct {
	JetStream  jetstream.JetStream // on the connection of a master
	Store      *job.Store
	Dispatcher *dispatch.Dispatcher // which runs as long as the scanner does
	Owner      string               // this run of the master, as for the dispatcher: see [OwnerOf]
	Earlier    string               // the owner of the previous run on the same data directory; empty: not known
	Log        *slog.Logger         // nil: nothing is logged
}

// A Scanner is one master's part in taking jobs over. Make it with [New] and call Run once.
type Scanner struct {
	o      Options
	name   string // of this master: the key of its heartbeat
	log    *slog.Logger
	beats  jetstream.KeyValue
	misses map[string]int // looks in a row that found no heartbeat, by owner
	ahead  time.Duration  // that the clock of this master is of the bus's, by its last heartbeat

	started   time.Time
	reclaimed atomic.Uint64
}

// Reclaimed is how many jobs were taken over since the scanner was made.
func (s *Scanner) Reclaimed() uint64 { return s.reclaimed.Load() }

// New checks the options. It starts nothing.
func New(o Options) (*Scanner, error) {
	if o.JetStream == nil || o.Store == nil || o.Dispatcher == nil || o.Owner == "" {
		return nil, errors.New("cannot take jobs over without a connection, a store, a dispatcher and the owner")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Scanner{o: o, name: nameOf(o.Owner), log: o.Log, misses: map[string]int{}}, nil
}

// Run beats and looks until ctx ends, and then returns nil. It needs [Scanner.Enter]. An error means that it could not
// begin, or that another run has the name now.
func (s *Scanner) Run(ctx context.Context) error {
	s.started = time.Now()
	released := make(chan *nats.Msg, 1)
	sub, err := s.o.JetStream.Conn().Subscribe(dispatch.Released, func(msg *nats.Msg) {
		select {
		case released <- msg:
		default: // a look is coming that will see this as well
		}
	})
	if err != nil {
		return fmt.Errorf("cannot watch over other masters: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.beat(ctx) })
	g.Go(func() error {
		s.scan(ctx, false) // for what an earlier run of this master has left
		tick := time.NewTicker(scanEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				s.scan(ctx, true)
			case <-released:
				s.scan(ctx, false)
			}
		}
	})
	return g.Wait()
}

// beat renews the heartbeat until ctx ends. The error is [ErrNameTaken]. The last heartbeat is left to end by itself: jobs
// that could not be released are then found as those of a master that died.
func (s *Scanner) beat(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		_, err := s.hold(ctx)
		if errors.Is(err, ErrNameTaken) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			s.log.Warn("heartbeat not written", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
