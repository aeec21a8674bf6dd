package enroll

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A summary holds the ended keys of all peels and the number of waiting peels. Each read of it reads only the records
// that changed since the last read.
type summary struct {
	js   jetstream.JetStream
	turn chan struct{} // has a value while somebody reads; held over requests, so a wait for it ends with the context

	// The holder of turn alone uses these.
	created time.Time                 // of the stream that next counts in
	next    uint64                    // the first sequence that was not read
	ended   map[string]credential.End // keys that were ended and have not expired
	pending map[string]bool
}

func newSummary(js jetstream.JetStream) *summary {
	return &summary{js: js, turn: make(chan struct{}, 1)}
}

// read returns the keys of peels that were ended and have not expired, and the number of peels that wait.
func (s *summary) read(ctx context.Context) (ended map[string]credential.End, pending int, err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		err = s.refresh(ctx)
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, 0, fmt.Errorf("cannot read the records of peels: %w", err)
	}
	return maps.Clone(s.ended), len(s.pending), nil
}

func (s *summary) refresh(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, wire.KV(wire.BucketEnroll))
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	last := info.State.LastSeq
	if !info.Created.Equal(s.created) || last+1 < s.next {
		s.created = info.Created
		s.next = 1
		s.ended = map[string]credential.End{}
		s.pending = map[string]bool{}
	}
	now := time.Now()
	maps.DeleteFunc(s.ended, func(_ string, e credential.End) bool {
		return !e.Expires.IsZero() && !e.Expires.After(now)
	})
	if last < s.next {
		return nil
	}
	var failed error
	err = bucket.Drain(ctx, s.js, wire.KV(wire.BucketEnroll), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.next,
		FilterSubject: "$KV." + wire.BucketEnroll + "." + peelPrefix + ">", MaxRequestBatch: recordsAtOnce,
	}, func(m jetstream.Msg, _ *jetstream.MsgMetadata) (more bool) {
		failed = s.take(m)
		return failed == nil
	})
	if err = cmp.Or(failed, err); err == nil {
		s.next = last + 1
	}
	return err
}

// recordsAtOnce is how many records may be in flight.
const recordsAtOnce = 64

func (s *summary) take(m jetstream.Msg) error {
	key := strings.TrimPrefix(m.Subject(), "$KV."+wire.BucketEnroll+"."+peelPrefix)
	delete(s.pending, key)
	if len(m.Data()) == 0 {
		return nil // the record was removed
	}
	var e credential.Enrolled
	if err := canon.Unmarshal(m.Data(), &e); err != nil {
		return fmt.Errorf("the peel %s: %w", key, err)
	}
	if e.State == credential.Pending {
		s.pending[key] = true
	}
	maps.Copy(s.ended, e.Ended)
	return nil
}
