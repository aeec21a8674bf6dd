package quota

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
)

const (
	refill    = 7 * 24 * time.Hour // after which a used share is available again
	stateFor  = time.Second        // how long a reading of the bucket's state is used
	sweepWait = time.Hour          // between removals of peels that have their whole share again
)

// An Account limits what a master stores for each peel in a bucket whose keys do not name the peel. Call
// [Account.Refresh], then [Account.Admit] for each message. A peel may use a sixteenth of the bucket at once, and as
// much again within a week. Beyond that its messages are refused while less than half of the bucket is free. An Account
// is safe for concurrent use.
type Account struct {
	js     jetstream.JetStream
	stream string

	mu      sync.Mutex
	share   amount // of one peel; zero until the server has answered
	crowded bool
	asked   time.Time
	whole   map[string]time.Time // when a peel, by its wire ID, has its whole share again
	swept   time.Time
}

// NewAccount returns an account of a stream. It sends no request.
func NewAccount(js jetstream.JetStream, stream string) *Account {
	return &Account{js: js, stream: stream, whole: map[string]time.Time{}}
}

// Refresh reads the limits and the size of the bucket, at most once a second.
func (a *Account) Refresh(ctx context.Context) error {
	a.mu.Lock()
	due := time.Since(a.asked) >= stateFor
	if due {
		a.asked = time.Now()
	}
	a.mu.Unlock()
	if !due {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestWait)
	defer cancel()
	stream, err := a.js.Stream(ctx, a.stream)
	if err != nil {
		return fmt.Errorf("cannot read how full the stream %s is: %w", a.stream, err)
	}
	info := stream.CachedInfo()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.share, a.crowded = shareOf(&info.Config), crowded(bucket.UsageOf(info))
	return nil
}

// Admit reports whether a message of a peel may be stored, and counts it if so. All messages are admitted until the
// first [Account.Refresh].
func (a *Account) Admit(peel string, bytes int) bool {
	return a.admit(peel, bytes, true)
}

// Admits is Admit without counting, for a message that may be stored only after several tries.
func (a *Account) Admits(peel string, bytes int) bool {
	return a.admit(peel, bytes, false)
}

func (a *Account) admit(peel string, bytes int, counts bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Sub(a.swept) >= sweepWait {
		a.swept = now
		maps.DeleteFunc(a.whole, func(_ string, whole time.Time) bool { return whole.Before(now) })
	}
	whole := a.whole[peel]
	if whole.Before(now) {
		whole = now
	}
	whole = whole.Add(a.costLocked(uint64(bytes + overhead)))
	if whole.Sub(now) > refill {
		return !a.crowded
	}
	if counts {
		a.whole[peel] = whole
	}
	return true
}

// costLocked returns how long it takes until the part of a share that a message uses is available again. Caller must
// hold mu.
func (a *Account) costLocked(bytes uint64) time.Duration {
	taken := 0.0
	if a.share.messages > 0 {
		taken = 1 / float64(a.share.messages)
	}
	if a.share.bytes > 0 {
		taken = max(taken, float64(bytes)/float64(a.share.bytes))
	}
	return time.Duration(taken * float64(refill))
}
