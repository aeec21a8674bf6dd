package job

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	retryLimit = 5 * time.Second // for a request that is retried
	retryPause = 100 * time.Millisecond

	// writeInFlight: on a cluster, another message of the subject is being stored.
	writeInFlight = jetstream.JSErrCodeStreamWrongLastSequenceConstant
)

// retryTransient repeats a request while no server answers, as on a cluster until a stream that lost its leader has
// another, while that one lacks what the last one had, and while another master writes to the same subject.
func retryTransient[T any](ctx context.Context, request func() (T, error)) (T, error) {
	for began := time.Now(); ; {
		got, err := request()
		api, refused := errors.AsType[*jetstream.APIError](err)
		transient := errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errBehind) ||
			refused && api.ErrorCode == writeInFlight
		if !transient || time.Since(began) > retryLimit {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(retryPause):
		}
	}
}
