package peel

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
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const longestPause = 30 * time.Second // but for jitter

// A welcome is how a peel's connection is received. Methods may be called from several goroutines.
type welcome struct {
	checkedBy string // file with the certificates that servers are checked by
	log       *slog.Logger
	refused   atomic.Int64 // in a row

	mu       sync.Mutex
	troubles *loglimit.Limiter // by what they are
	reason   string            // why no server could be reached

	conn  atomic.Pointer[nats.Conn] // nil before the first attempt to connect has ended
	stood atomic.Bool               // a server has accepted the connection; before that the client calls no handler for refusals
}

func newWelcome(checkedBy string, log *slog.Logger) *welcome {
	return &welcome{checkedBy: checkedBy, log: log, troubles: loglimit.New(log)}
}

// trouble logs what is wrong with the connection, the same once a minute: a credential is refused at every attempt.
func (w *welcome) trouble(err error) {
	if unwelcome(err) {
		w.refused.Add(1)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.troubles.Warn(err.Error(), "bus", wire.LogError(err, w.checkedBy)...)
}

func unwelcome(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked) ||
		errors.Is(err, nats.ErrAccountAuthExpired)
}

// away logs why no server can be reached, each reason once until there is another: attempts follow each other fast. What
// was said before is said anew after it.
func (w *welcome) away(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if reason := err.Error(); reason != w.reason && !errors.Is(err, context.Canceled) {
		w.reason, w.troubles = reason, loglimit.New(w.log)
		w.log.Warn("waiting for the bus", wire.LogError(err, w.checkedBy)...)
	}
}

// back is called when the connection stands, and when it stands again.
func (w *welcome) back() {
	w.refused.Store(0)
	w.stood.Store(true)
}

// pause is how long to wait after all servers were tried: little, at random, where they are away, because everybody
// waits for them; more and more where they refuse the credential, which the next second will hardly mend.
func (w *welcome) pause(int) time.Duration {
	if nc := w.conn.Load(); nc != nil {
		switch err := nc.LastError(); {
		case unwelcome(err) && !w.stood.Load():
			w.trouble(err)
		case wire.IsImpostor(err):
			w.away(err)
		}
	}
	pause := time.Second << min(max(w.refused.Load()-1, 0), 10)
	return min(pause, longestPause) + rand.N(2*time.Second)
}
