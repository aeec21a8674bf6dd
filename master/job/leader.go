package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
)

// errBehind says that the leader of the stream of returns lacks some that the record of a job counts, as a new leader
// may for a moment.
var errBehind = errors.New("its leader does not have all of them yet")

// askLeader adds to stored what the leader of the stream of returns has under keys of a job. On a cluster the other
// reads may be served by a copy that lags behind the record of the job, and a return that is not seen would be called
// missing. It is an error if the leader lags too, unless the stream was made after the record.
func (s *Store) askLeader(ctx context.Context, j *Job, keys []string, stored map[string]bucket.Message) error {
	info, err := retryTransient(ctx, func() (*jetstream.StreamInfo, error) {
		info, err := s.returns.Info(ctx, jetstream.WithSubjectFilter(returnSubject(j.JID, "*")))
		if err == nil && info.State.LastSeq < j.LastReturn && !info.Created.After(j.Written) {
			return nil, errBehind
		}
		return info, err
	})
	if err != nil {
		return fmt.Errorf("cannot ask the leader for the returns of job %s: %w", j.JID, err)
	}
	for _, key := range keys {
		if _, read := stored[key]; read || info.State.Subjects[key] == 0 {
			continue
		}
		m, err := retryTransient(ctx, func() (bucket.Message, error) { return s.newestOfLeader(ctx, key) })
		if err != nil {
			return fmt.Errorf("cannot ask the leader for %s: %w", key, err)
		}
		stored[key] = m
	}
	return nil
}

// newestOfLeader reads the newest message of a subject from the leader of the stream of returns. The library asks any
// copy.
func (s *Store) newestOfLeader(ctx context.Context, subject string) (m bucket.Message, err error) {
	q, err := json.Marshal(struct {
		Last string `json:"last_by_subj"`
	}{subject})
	if err != nil {
		return m, err
	}
	answer, err := s.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+wire.KV(wire.BucketJobReturns), q)
	if err != nil {
		return m, err
	}
	var a struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Sequence uint64    `json:"seq"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &a); err != nil {
		return m, err
	}
	switch {
	case a.Error != nil:
		return m, a.Error
	case a.Message == nil:
		return m, errors.New("the reply holds no message")
	}
	return bucket.Message{Data: a.Message.Data, Stored: a.Message.Time, Sequence: a.Message.Sequence}, nil
}
