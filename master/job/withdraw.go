package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// withdrawAgain is how long Withdraw waits after a write that failed.
const withdrawAgain = 100 * time.Millisecond

// Withdraw removes the record of a job whose requests were never published, so that its ID is free again. The writes of the
// record may be stored, lost, or still on their way: none is stored once Withdraw has returned nil. If the record is not
// that of j's owner any longer the error is [ErrConflict]. It tries until that or success, or until ctx ends. The job's entry in
// the index and its targets stay, because another master may be dispatching the same request already; they end by age.
func (s *Store) Withdraw(ctx context.Context, j *Job) error {
	for {
		err := s.withdraw(ctx, j)
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrConflict) {
			return fmt.Errorf("cannot withdraw job %s: %w", j.JID, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot withdraw job %s: %w", j.JID, err)
		case <-time.After(withdrawAgain):
		}
	}
}

// withdraw puts a mark of deletion in place of what is newest, on the condition that it still is. The mark refuses every
// write that was made for what it replaced.
func (s *Store) withdraw(ctx context.Context, j *Job) error {
	subject := recordPrefix + string(j.JID)
	newest, err := s.index.stream.GetLastMsgForSubject(ctx, subject)
	var last uint64
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
	case err != nil:
		return err
	default:
		last = newest.Sequence
		if slices.Contains([]string{"DEL", "PURGE"}, newest.Header.Get("KV-Operation")) {
			break
		}
		var stored Job
		if err := canon.Unmarshal(newest.Data, &stored); err != nil {
			return err
		}
		if stored.Owner != j.Owner || stored.Status.Final() {
			return ErrConflict
		}
	}
	mark := &nats.Msg{Subject: subject, Header: nats.Header{"KV-Operation": {"DEL"}}}
	_, err = s.js.PublishMsg(ctx, mark, jetstream.WithExpectLastSequencePerSubject(last))
	return err
}
