package master

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// reserve is how many bytes the disk of the embedded server has to have free: with less, jobs are refused before a
	// write fails.
	reserve = 64 << 20

	storageEvery = 3 * time.Second  // between two looks at the disk of the embedded server
	probeEvery   = 3 * time.Second  // between two writes to an external server
	probeLimit   = 3 * time.Second  // for one write
	storedWithin = 10 * time.Second // an external server that stored nothing for so long stores nothing
	probeSize    = 8 << 10          // bytes: more than the last block of a full file has room for
)

// A storage checks whether the bus stores what masters write. For the embedded server it reads the free space of the
// disk, and starts the server again if a stream is stuck. To an external server it writes a probe, which lives for 15 s
// in the bucket masters under a key that nothing reads.
type storage struct {
	js  jetstream.JetStream
	bus *ownBus // nil: the server is external
	key string  // of the probes
	log *slog.Logger

	mu     sync.Mutex
	err    error
	stored time.Time // when the last probe that was stored was sent
}

// Err returns why the bus stores nothing now; nil if it stores.
func (s *storage) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.bus != nil || s.stored.IsZero() {
		return s.err
	}
	if age := time.Since(s.stored); age > storedWithin {
		return fmt.Errorf("the bus has stored nothing of this master for %s: its servers are away or have no quorum",
			age.Round(time.Second))
	}
	return nil
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
		s.mu.Lock()
		s.stored = time.Now()
		s.mu.Unlock()
	}
	var before error
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := look()
		if ctx.Err() != nil {
			return
		}
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		err = s.Err()
		switch {
		case err != nil && before == nil:
			s.log.Error("the bus does not store what masters write", "err", err)
		case err == nil && before != nil:
			s.log.Info("the bus stores again what masters write")
		}
		before = err
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe writes to an external server. Its error is a refusal by the server. A probe without a reply is none, until
// [storage.Err] finds that none was stored for 10 s: a server of a cluster that is cut off answers what it knows, and
// stores nothing.
func (s *storage) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	sent := time.Now()
	_, err := s.js.Publish(ctx, wire.KVSubject(wire.BucketMasters, "probe."+s.key), make([]byte, probeSize),
		jetstream.WithRetryAttempts(0))
	if _, refused := errors.AsType[*jetstream.APIError](err); refused {
		return fmt.Errorf("the server of the bus does not store: %w", err)
	}
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stored = sent
	}
	return nil
}
