package job

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// Record publishes a step in a job's life to the stream: its dispatch or its end, with the job's summary. The stream
// keeps the first of each; subscribers get all.
func (s *Store) Record(ctx context.Context, subject, kind string, j *Job) error {
	return s.record(ctx, subject, wire.Event{JID: j.JID, Type: kind, Data: j.Summary()})
}

// RecordCancel is [Store.Record] for the order to stop a job. All peels receive it, so it carries the JID and no
// summary.
func (s *Store) RecordCancel(ctx context.Context, jid wire.JID) error {
	return s.record(ctx, wire.CancelOf(jid), wire.Event{JID: jid, Type: "cancel"})
}

func (s *Store) record(ctx context.Context, subject string, e wire.Event) (err error) {
	defer wrap(&err, "cannot record the event %s of job %s", e.Type, e.JID)
	e.Time, e.V = time.Now(), wire.Version
	data, err := canon.Marshal(e)
	if err == nil {
		_, err = s.js.Publish(ctx, subject, data, jetstream.WithExpectLastSequencePerSubject(0))
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok &&
		api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return nil // it is there; that another is on its way is a code of its own
	}
	return err
}
