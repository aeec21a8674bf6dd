package enroll

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
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
	revoked map[string]time.Time // when a credential of a peel was revoked last, by wire ID
	damaged map[string]error     // records that cannot be decoded, by wire ID
}

func newSummary(js jetstream.JetStream) *summary {
	return &summary{js: js, turn: make(chan struct{}, 1)}
}

// read returns the keys of peels that were ended and have not expired, and the number of peels that wait.
func (s *summary) read(ctx context.Context) (ended map[string]credential.End, pending int, err error) {
	err = s.refreshed(ctx, func() error {
		for _, wireID := range slices.Sorted(maps.Keys(s.damaged)) {
			return s.damaged[wireID]
		}
		ended, pending = maps.Clone(s.ended), len(s.pending)
		return nil
	})
	return ended, pending, err
}

// revokedSince returns the peels with a credential that was revoked after a time. A peel whose record cannot be decoded
// counts as one, because nothing is known of it.
func (s *summary) revokedSince(ctx context.Context, since time.Time,
	peels []target.PeelID,
) (revoked []target.PeelID, err error) {
	err = s.refreshed(ctx, func() error {
		for _, id := range peels {
			if s.damaged[id.Wire()] != nil || s.revoked[id.Wire()].After(since) {
				revoked = append(revoked, id)
			}
		}
		return nil
	})
	return revoked, err
}

// refreshed calls use with the present content, as the holder of turn.
func (s *summary) refreshed(ctx context.Context, use func() error) (err error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
		if err = s.refresh(ctx); err == nil {
			err = use()
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("cannot read the records of peels: %w", err)
	}
	return nil
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
		s.revoked = map[string]time.Time{}
		s.damaged = map[string]error{}
	}
	now := time.Now()
	maps.DeleteFunc(s.ended, func(_ string, e credential.End) bool {
		return !e.Expires.IsZero() && !e.Expires.After(now)
	})
	if last < s.next {
		return nil
	}
	err = bucket.Drain(ctx, s.js, wire.KV(wire.BucketEnroll), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.next,
		FilterSubject: "$KV." + wire.BucketEnroll + "." + peelPrefix + ">", MaxRequestBatch: recordsAtOnce,
	}, func(m jetstream.Msg, _ *jetstream.MsgMetadata) (more bool) {
		s.take(m)
		return true
	})
	if err == nil {
		s.next = last + 1
	}
	return err
}

// recordsAtOnce is how many records may be in flight.
const recordsAtOnce = 64

// take notes a record in place of an earlier one of the same peel.
func (s *summary) take(m jetstream.Msg) {
	key := strings.TrimPrefix(m.Subject(), "$KV."+wire.BucketEnroll+"."+peelPrefix)
	delete(s.pending, key)
	delete(s.damaged, key)
	if len(m.Data()) == 0 {
		return // the record was removed, and a revocation before that stays noted
	}
	var e credential.Enrolled
	if err := canon.Unmarshal(m.Data(), &e); err != nil {
		s.damaged[key] = fmt.Errorf("the peel %s: %w", key, err)
		return
	}
	if e.State == credential.Pending {
		s.pending[key] = true
	}
	maps.Copy(s.ended, e.Ended)
	for _, end := range e.Ended {
		if end.At.After(s.revoked[key]) {
			s.revoked[key] = end.At
		}
	}
}
