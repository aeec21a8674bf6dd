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
	// reserve is how many bytes the disk of the embedded server has to have free: with less, jobs are refused before a write fails.
	reserve = 64 << 20

	storageEvery = 3 * time.Second // between two looks at the disk of the embedded server
	probeEvery   = 9 * time.Second // between two writes to an external server
	probeLimit   = 3 * time.Second // for one write
	probeSize    = 8 << 10         // bytes: more than the last block of a full file has room for
)

// A storage checks whether the bus stores what masters write. For the embedded server it reads the free space of the disk,
// and starts the server again if a stream is stuck. To an external server it writes a probe, which lives for 15 s in the
// bucket masters under a key that nothing reads.
type storage struct {
	js  jetstream.JetStream
	bus *ownBus // nil: the server is external
	key string  // of the probes
	log *slog.Logger

	mu  sync.Mutex
	err error
}

// Err returns why the bus stores nothing now; nil if it stores.
func (s *storage) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// room returns why no job can start; nil if one can. An external server accepts or refuses each write itself.
func (s *storage) room() error {
	if s.bus == nil {
		return nil
	}
	return s.Err()
}

// run checks until ctx ends.
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

// probe writes to an external server. Its error is a refusal by the server; that the bus is away is no error here.
func (s *storage) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	_, err := s.js.Publish(ctx, "$KV.masters.probe."+s.key, make([]byte, probeSize), jetstream.WithRetryAttempts(0))
	if _, refused := errors.AsType[*jetstream.APIError](err); refused {
		return fmt.Errorf("the server of the bus does not store: %w", err)
	}
	return nil
}
