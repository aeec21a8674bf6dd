// Package reclaim takes over the jobs of masters that have stopped or died.
//
// Every master writes a heartbeat every 5 s into the bucket masters, where it lives for 15 s, and looks every 20 s at
// the owners of all jobs in the index of active jobs. An owner without a heartbeat in two looks in a row is dead. What
// cannot be read proves nothing: such a look ends with nothing changed, as one does that does not find the heartbeat
// of the very master that looks. So a job whose owner died is taken over within 55 s.
//
// A job that its owner has released, when it stopped in peace, is taken over at once; so is one that is owned by the
// name of the master that looks and is not watched by it, because that was an earlier run of the same master.
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
	Owner      string               // names this master in the records, as it does for the dispatcher
	Log        *slog.Logger         // nil: nothing is logged
}

// A Scanner is one master's part in taking jobs over. Make it with [New] and call Run once.
type Scanner struct {
	o      Options
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
		return nil, errors.New("cannot take jobs over without a connection, a store, a dispatcher and the name of the master")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Scanner{o: o, log: o.Log, misses: map[string]int{}}, nil
}

// Run beats and looks until ctx ends, and then returns nil. An error means that it could not begin.
func (s *Scanner) Run(ctx context.Context) error {
	s.started = time.Now()
	opening, opened := context.WithTimeout(ctx, openLimit)
	defer opened()
	var err error
	if s.beats, err = s.o.JetStream.KeyValue(opening, bucket); err != nil {
		return fmt.Errorf("cannot watch over other masters: %w", err)
	}
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

	beating := make(chan struct{})
	go func() { defer close(beating); s.beat(ctx) }()
	defer func() { <-beating }()
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
}

// beat shows that this master lives, until ctx ends. The last beat is left to end by itself: jobs that could not be
// released are then found as those of a master that died.
func (s *Scanner) beat(ctx context.Context) {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		if err := s.beatOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("heartbeat not written", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Scanner) beatOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	now, err := time.Now().MarshalText()
	if err == nil {
		_, err = s.beats.Put(ctx, s.o.Owner, now)
	}
	return err
}
