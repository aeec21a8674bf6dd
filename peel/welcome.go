package peel

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

const longestPause = 30 * time.Second // but for jitter

// A welcome is how a peel's connection is received. Methods may be called from several goroutines.
type welcome struct {
	troubles *wire.Refusals // by what they are
	refused  atomic.Int64   // in a row
}

func newWelcome(log *slog.Logger) *welcome { return &welcome{troubles: wire.NewRefusals(log)} }

// trouble logs what is wrong with the connection, the same once a minute: a credential is refused at every attempt.
func (w *welcome) trouble(err error) {
	for _, refusal := range []error{nats.ErrAuthorization, nats.ErrAuthExpired, nats.ErrAuthRevoked, nats.ErrAccountAuthExpired} {
		if errors.Is(err, refusal) {
			w.refused.Add(1)
		}
	}
	w.troubles.Warn(err.Error(), "bus", "err", err)
}

// back is called when the connection stands again.
func (w *welcome) back() { w.refused.Store(0) }

// pause is how long to wait after all servers were tried: little, at random, where they are away, because everybody
// waits for them; more and more where they refuse the credential, which the next second will hardly mend.
func (w *welcome) pause(int) time.Duration {
	pause := time.Second << min(max(w.refused.Load()-1, 0), 10)
	return min(pause, longestPause) + rand.N(2*time.Second)
}
