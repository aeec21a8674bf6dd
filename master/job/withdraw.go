package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	withdrawAgain = 100 * time.Millisecond // the pause after a write that failed
	markLife      = time.Hour              // of the mark of a withdrawn claim: no write is in flight for longer
)

// Withdraw removes the record of a job whose requests were never published, so that its ID is free again. Earlier
// writes of the record may be stored, lost or in flight: once Withdraw has returned nil, none is stored any later. It
// repeats until ctx ends. The error is [ErrConflict] if the record has another owner now, or is final.
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

// withdraw replaces the newest message of the record with a mark of deletion, on the condition that it still is the
// newest. The server then refuses writes in flight, because they expect the message that was replaced. The targets that
// are older than the mark go; those of a later claim are newer.
func (s *Store) withdraw(ctx context.Context, j *Job) error {
	subject := activePrefix + string(j.JID)
	newest, err := s.live.GetLastMsgForSubject(ctx, subject)
	var last uint64
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
	case err != nil:
		return err
	default:
		last = newest.Sequence
		if newest.Header.Get("KV-Operation") != "" {
			break // it is a mark already
		}
		stored, err := decode(j.JID, newest.Data)
		if err != nil {
			return err
		}
		if stored.Owner != j.Owner || stored.Status.Final() {
			return ErrConflict
		}
	}
	mark := &nats.Msg{Subject: subject, Header: nats.Header{
		"KV-Operation": {"PURGE"}, jetstream.MsgRollup: {jetstream.MsgRollupSubject},
	}}
	ack, err := s.js.PublishMsg(ctx, mark, jetstream.WithExpectLastSequencePerSubject(last),
		jetstream.WithMsgTTL(markLife))
	if err == nil && j.TargetCount > inlineTargets {
		err = purge(ctx, s.live, activePrefix+targetsKey(j.JID, "*"), ack.Sequence)
	}
	return err
}
