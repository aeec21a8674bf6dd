package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// replayAtOnce is how many messages are on their way from the stream.
const replayAtOnce = 64

// Record publishes a step in a job's life to the stream: its dispatch or its end, with the job's summary. The stream keeps
// the first of each; subscribers get all.
func (s *Store) Record(ctx context.Context, subject, kind string, j *Job) error {
	return s.record(ctx, subject, wire.Event{JID: j.JID, Type: kind, Data: j.Summary()})
}

// RecordCancel is [Store.Record] for the order to stop a job. All peels receive it, so it carries the JID and no summary.
func (s *Store) RecordCancel(ctx context.Context, jid wire.JID) error {
	return s.record(ctx, wire.CancelOf(jid), wire.Event{JID: jid, Type: "cancel"})
}

func (s *Store) record(ctx context.Context, subject string, e wire.Event) error {
	e.Time, e.V = time.Now(), wire.Version
	data, err := canon.Marshal(e)
	if err == nil {
		_, err = s.js.Publish(ctx, subject, data, jetstream.WithExpectLastSequencePerSubject(0))
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return nil // it is there; that another is on its way is a code of its own
	}
	if err != nil {
		return fmt.Errorf("cannot record the event %s of job %s: %w", e.Type, e.JID, err)
	}
	return nil
}

// Replay calls heard for the acknowledgements and returns of a job that the stream holds, in their order, those that
// nobody heard when they came included. They are as the peels sent them: checking them is the caller's part.
func (s *Store) Replay(ctx context.Context, jid wire.JID, heard func(*nats.Msg)) error {
	if err := s.replay(ctx, jid, heard); err != nil {
		return fmt.Errorf("cannot read what the peels of job %s sent: %w", jid, err)
	}
	return nil
}

func (s *Store) replay(ctx context.Context, jid wire.JID, heard func(*nats.Msg)) error {
	c := jetstream.ConsumerConfig{
		FilterSubjects: []string{wire.AckOf(jid, "*"), wire.ReturnOf(jid, "*")}, MaxRequestBatch: replayAtOnce,
	}
	// The dispatch of a job is recorded before its requests are sent, so nothing is to be found before it.
	first, err := s.events.GetLastMsgForSubject(ctx, wire.DispatchOf(jid))
	switch {
	case err == nil:
		c.DeliverPolicy, c.OptStartSeq = jetstream.DeliverByStartSequencePolicy, first.Sequence
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return err
	}
	return bucket.Drain(ctx, s.js, eventsStream, c, func(m jetstream.Msg, _ *jetstream.MsgMetadata) (more bool) {
		heard(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
		return true
	})
}
