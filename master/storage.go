package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// reserve is how much the disk of the embedded server keeps free: jobs are refused before a write can fail.
	reserve = 64 << 20

	storageEvery = 3 * time.Second
	probeEvery   = 9 * time.Second
	probeLimit   = 3 * time.Second
	probeKept    = "1m"    // how long a probe is stored
	probeSize    = 8 << 10 // more than what fits into the last block of a file that is full
)

// A storage watches whether what masters write is stored. The disk of the embedded server is looked at, and its streams
// are opened again once there is room. A server elsewhere is tried with real writes to the bucket masters, where they live
// for 15 s under a key that nothing reads.
type storage struct {
	js  jetstream.JetStream
	bus *ownBus // nil: the server is elsewhere
	key string  // of the probes
	log *slog.Logger

	mu  sync.Mutex
	err error
}

// Err returns why nothing is stored now, nil if all is well.
func (s *storage) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// room returns why no job can begin, nil if one can. A server elsewhere decides that itself, write by write.
func (s *storage) room() error {
	if s.bus == nil {
		return nil
	}
	return s.Err()
}

// run looks until ctx ends.
func (s *storage) run(ctx context.Context) {
	every, look := storageEvery, func() error { return s.bus.room(s.log) }
	if s.bus == nil {
		every, look = probeEvery, func() error { return s.probe(ctx) }
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := look()
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		before := s.err
		s.err = err
		s.mu.Unlock()
		switch {
		case err != nil && before == nil:
			s.log.Error("the bus does not store what masters write", "err", err)
		case err == nil && before != nil:
			s.log.Info("the bus stores again what masters write")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe writes to a server elsewhere. It reports what the server refuses alone: that the bus is away is found by others.
func (s *storage) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	_, err := s.js.Publish(ctx, "$KV.masters.probe."+s.key, make([]byte, probeSize), jetstream.WithRetryAttempts(0))
	if _, refused := errors.AsType[*jetstream.APIError](err); refused {
		return fmt.Errorf("the server of the bus does not store: %w", err)
	}
	return nil
}
