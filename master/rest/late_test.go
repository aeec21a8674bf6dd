package rest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// late is a bus whose buckets take longer over new keys, so long as delay is set.
type late struct {
	jetstream.JetStream
	delay *time.Duration
}

type lateBucket struct {
	jetstream.KeyValue
	delay *time.Duration
}

func (l late) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	kv, err := l.JetStream.KeyValue(ctx, bucket)
	return lateBucket{kv, l.delay}, err
}

func (l lateBucket) Create(ctx context.Context, key string, value []byte, o ...jetstream.KVCreateOpt) (uint64, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(*l.delay):
	}
	return l.KeyValue.Create(ctx, key, value, o...)
}

// TestADispatchMayTakeLongerThanTheReadingOfItsBody has the record of a job written 7 s after the request has been read.
func TestADispatchMayTakeLongerThanTheReadingOfItsBody(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", target.Facts{"os": "debian"}, echo("web-01"))
		s.delay = 7 * time.Second
		began := time.Now()
		j := want[job.Job](t, s.ask(s.admin(), "POST", "/api/v1/jobs", object{"target": "web-01", "function": "test.ping", "timeout": "90s"}), http.StatusAccepted)
		if took := time.Since(began); took < s.delay || j.TargetCount != 1 {
			t.Errorf("after %s: %+v", took, j)
		}
	})
}
