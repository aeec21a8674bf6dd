package auth

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A summary holds what is needed often of the records of all peels: the keys that were ended, and how many peels wait. A
// look at it reads the records that changed since the last one, and none if nothing changed.
type summary struct {
	js jetstream.JetStream

	mu      sync.Mutex
	created time.Time      // of the stream that next counts in
	next    uint64         // the first sequence that was not read
	ended   map[string]End // keys that were ended and have not expired
	pending map[string]bool
}

// read brings the summary up to date and calls f with it.
func (s *summary) read(ctx context.Context, f func()) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refreshLocked(ctx); err != nil {
		return fmt.Errorf("cannot read the records of peels: %w", err)
	}
	f()
	return nil
}

func (s *summary) refreshLocked(ctx context.Context) error {
	stream, err := s.js.Stream(ctx, "KV_"+enrollBucket)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	last := info.State.LastSeq
	if !info.Created.Equal(s.created) || last+1 < s.next || s.ended == nil {
		s.created, s.next, s.ended, s.pending = info.Created, 1, map[string]End{}, map[string]bool{}
	}
	now := time.Now()
	for key, e := range s.ended {
		if !e.Expires.IsZero() && !e.Expires.After(now) {
			delete(s.ended, key)
		}
	}
	if last < s.next {
		return nil
	}
	var failed error
	err = bucket.Drain(ctx, s.js, "KV_"+enrollBucket, jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: s.next,
		FilterSubject: "$KV." + enrollBucket + "." + peelPrefix + ">", MaxRequestBatch: recordsAtOnce,
	}, func(m jetstream.Msg, _ *jetstream.MsgMetadata) (more bool) {
		failed = s.takeLocked(m)
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	if err == nil {
		s.next = last + 1
	}
	return err
}

// recordsAtOnce is how many records are on their way.
const recordsAtOnce = 64

func (s *summary) takeLocked(m jetstream.Msg) error {
	key := strings.TrimPrefix(m.Subject(), "$KV."+enrollBucket+"."+peelPrefix)
	delete(s.pending, key)
	if len(m.Data()) == 0 {
		return nil // the record was removed
	}
	var e Enrolled
	if err := canon.Unmarshal(m.Data(), &e); err != nil {
		return fmt.Errorf("the peel %s: %w", key, err)
	}
	if e.State == Pending {
		s.pending[key] = true
	}
	maps.Copy(s.ended, e.Ended)
	return nil
}
