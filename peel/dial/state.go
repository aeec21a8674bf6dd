package dial

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/loglimit"
)

const maxPause = 30 * time.Second // without jitter

// A state records whether the servers accept the peel. It logs why they do not and chooses the pause before the next
// attempt. Methods may be called from several goroutines.
type state struct {
	ca       string // file with the certificates that servers are checked by
	log      *slog.Logger
	refusals atomic.Int64              // of the credential, in a row
	conn     atomic.Pointer[nats.Conn] // nil before the first attempt to connect has ended
	// before the first connection the client calls no handler for a refused credential
	hasConnected atomic.Bool

	mu       sync.Mutex
	warnings *loglimit.Limiter // one a minute for each error
	reason   string            // the last reason logged by onUnreachable
}

func newState(ca string, log *slog.Logger) *state {
	return &state{ca: ca, log: log, warnings: loglimit.New(log)}
}

// onError logs an error of the connection, the same error once a minute: a credential is refused at every attempt.
func (s *state) onError(err error) {
	if Refusal(err) != nil {
		s.refusals.Add(1)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings.Warn(err.Error(), "bus", LogError(err, s.ca)...)
}

// onUnreachable logs why no server can be reached, unless the attempt before failed for the same reason. Errors that
// onError logged before are logged again after it.
func (s *state) onUnreachable(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reason := err.Error(); reason != s.reason && !errors.Is(err, context.Canceled) {
		s.reason, s.warnings = reason, loglimit.New(s.log)
		s.log.Warn("waiting for the bus", LogError(err, s.ca)...)
	}
}

// onConnected is called after each connect.
func (s *state) onConnected() {
	s.refusals.Store(0)
	s.hasConnected.Store(true)
}

// pause returns how long to wait after all servers were tried. If they are away, the pause is short and random, because
// the whole fleet waits for them. If they refuse the credential, it doubles: a second later they will hardly accept it.
func (s *state) pause(int) time.Duration {
	if nc := s.conn.Load(); nc != nil {
		switch err := nc.LastError(); {
		case Refusal(err) != nil && !s.hasConnected.Load():
			s.onError(err)
		case IsImpostor(err):
			s.onUnreachable(err)
		}
	}
	pause := time.Second << min(max(s.refusals.Load()-1, 0), 10)
	return min(pause, maxPause) + rand.N(2*time.Second)
}
