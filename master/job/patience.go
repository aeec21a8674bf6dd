package job

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

const (
	patience  = 5 * time.Second // of a reading that nobody answers
	readPause = 100 * time.Millisecond
)

// patiently reads again while nobody answers, which is how it is on a cluster until a stream that has lost its leader has
// found another.
func patiently[T any](ctx context.Context, read func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		got, err := read()
		if !errors.Is(err, nats.ErrNoResponders) || time.Since(began) > patience {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(readPause):
		}
	}
}
