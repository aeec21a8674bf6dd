package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// MaxReclaims is how often a job is taken from a dead owner before it is ended as failed.
const MaxReclaims = 3

const (
	beatsBucket = "masters"
	beatEvery   = 5 * time.Second
	scanEvery   = 20 * time.Second
	deadMisses  = 2               // scans in a row
	beatLimit   = 5 * time.Second // for one read or write of a heartbeat
	enterLimit  = time.Minute     // for Enter, when a large fleet reconnects to the bus

	// sameClock is by how much clocks may differ without a log entry: a heartbeat and a write take time.
	sameClock = time.Second
)

// A Scanner is one master's part in taking jobs over. Make it with [NewScanner], take the master's name with
// [Scanner.Enter], and call Run once.
type Scanner struct {
	d       *Dispatcher // which runs as long as the scanner does
	js      jetstream.JetStream
	earlier string // the owner of the previous run on the same data directory; empty: not known
	name    string // of this master: the key of its heartbeat
	beats   jetstream.KeyValue
	misses  map[string]int // scans in a row that found no heartbeat, by owner
	ahead   time.Duration  // of this master's clock to the bus's, by the last heartbeat

	started   time.Time
	reclaimed atomic.Uint64
}

// Reclaimed is how many jobs were taken over since the scanner was made.
func (s *Scanner) Reclaimed() uint64 { return s.reclaimed.Load() }

// NewScanner returns the scanner of a master that dispatches with d, whose owner is one of [OwnerOf]. Earlier is the owner
// of the previous run on the same data directory, empty if it is not known. It starts nothing.
func NewScanner(d *Dispatcher, js jetstream.JetStream, earlier string) *Scanner {
	return &Scanner{d: d, js: js, earlier: earlier, name: nameOf(d.o.Owner), misses: map[string]int{}}
}

// Run renews the heartbeat and scans until ctx ends, and then returns nil. Call [Scanner.Enter] first. An error means that it
// could not begin, or that another run has the name now.
func (s *Scanner) Run(ctx context.Context) error {
	s.started = time.Now()
	releases := make(chan struct{}, 1)
	sub, err := s.js.Conn().Subscribe(released, func(*nats.Msg) {
		select {
		case releases <- struct{}{}:
		default: // the scan that is coming finds this release too
		}
	})
	if err != nil {
		return fmt.Errorf("cannot subscribe to %s: %w", released, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.beat(ctx) })
	g.Go(func() error {
		s.scan(ctx, false) // for jobs of an earlier run of this master
		tick := time.NewTicker(scanEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				s.scan(ctx, true)
			case <-releases:
				s.scan(ctx, false)
			}
		}
	})
	return g.Wait()
}

// beat renews the heartbeat until ctx ends. The error is [ErrNameTaken]. The last heartbeat expires by itself: jobs that could
// not be released are then found as those of a master that died.
func (s *Scanner) beat(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		_, err := s.hold(ctx)
		if errors.Is(err, ErrNameTaken) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			s.d.log.Warn("heartbeat not written", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
