package peel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/puback"
)

const ackTimeout = 5 * time.Second // how long a stream may take to confirm that it has stored a message

// publish sends a message that may be lost.
func (p *Peel) publish(subject string, v any) {
	data, err := canon.Marshal(v)
	if nc := p.bus.Load(); err == nil && nc != nil {
		err = nc.Publish(subject, data)
	}
	if err != nil {
		p.log.Debug("message not sent", "subject", subject, "err", err)
	}
}

// send publishes an item of the outbox, cut if it is too large for this bus. An item of another peel is refused: this
// one had another ID before, whose subjects the bus denies without a reply. The stream drops a second copy of the
// report of a scheduled run by its message ID. A return has no message ID, which another peel could guess and use
// first; its stream keeps the first message of each subject.
func (p *Peel) send(ctx context.Context, item outbox.Item) error {
	if !strings.HasSuffix(item.Subject, "."+p.o.ID.Wire()) {
		return fmt.Errorf("%w: it is from the time before the peel became %s", outbox.ErrRefused, p.o.ID)
	}
	msg := &nats.Msg{Subject: item.Subject, Data: item.Payload}
	publish := p.publishReturn
	if wire.IsScheduled(item.Subject) {
		msg.Header = nats.Header{nats.MsgIdHdr: {item.MsgID}}
		publish = p.publishAcked
	}
	err := publish(ctx, msg)
	if err == nil {
		p.finishReturn(msg)
	}
	if !errors.Is(err, nats.ErrMaxPayload) {
		return err
	}
	limit := p.bus.Load().MaxPayload()
	short, cannot := report.FitStored(msg, limit)
	if cannot != nil {
		return fmt.Errorf("%w: it carries %d bytes: %w", outbox.ErrRefused, limit, cannot)
	}
	p.log.Warn("message cut, the bus carries less", "msg", item.MsgID, "bytes", len(item.Payload), "max_payload", limit)
	msg.Data = short
	return publish(ctx, msg)
}

// Error codes of a stream.
const (
	storeFailed   = 10077 // the subject has a return, or the stream is full
	wrongSequence = 10071 // the subject has a message that is stored for good
)

// expectedSequence is the header that lets a stream store a message only if the last one of its subject has that
// sequence.
const expectedSequence = "Nats-Expected-Last-Subject-Sequence"

// publishReturn publishes a return. It returns nil if the stream has a return of this peel, this one or an earlier one.
// A stream refuses a message with the same code if it is full and if it has a return, which on a cluster may not be
// stored for good yet. So after a refusal the return is published on the condition that there is none.
func (p *Peel) publishReturn(ctx context.Context, msg *nats.Msg) error {
	err := p.publishAcked(ctx, msg)
	if e, ok := errors.AsType[*streamError](err); !ok || e.code != storeFailed {
		return err
	}
	again := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: nats.Header{expectedSequence: {"0"}}}
	err = p.publishAcked(ctx, again)
	if e, ok := errors.AsType[*streamError](err); ok && e.code == wrongSequence {
		return nil
	}
	return err
}

// A streamError is the reply of a stream that did not store a message.
type streamError struct {
	subject, description string
	code                 int
}

func (e *streamError) Error() string {
	return fmt.Sprintf("cannot publish %s: %s (%d)", e.subject, e.description, e.code)
}

// finishReturn records in the fence that masters have stored a return. A return that was on the disk is recorded
// already.
func (p *Peel) finishReturn(msg *nats.Msg) {
	if wire.IsScheduled(msg.Subject) {
		return
	}
	if jid, _, err := wire.JobSubject(msg.Subject); err == nil && p.fence.IsUnfinished(jid) {
		if r, err := wire.DecodeReturn(msg); err == nil {
			p.finish(jid, r.Epoch)
		}
	}
}

// publishAcked publishes to a stream and waits for at most [ackTimeout] until the stream has stored the message.
func (p *Peel) publishAcked(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	reply, err := p.bus.Load().RequestMsgWithContext(ctx, msg)
	if err != nil {
		return dial.Explain(fmt.Errorf("cannot publish %s: %w", msg.Subject, err), p.o.CA)
	}
	ack, err := puback.Read(reply.Data)
	if err != nil {
		return fmt.Errorf("cannot publish %s: %w", msg.Subject, err)
	}
	if ack.Error != nil {
		return &streamError{msg.Subject, ack.Error.Description, int(ack.Error.ErrorCode)}
	}
	if ack.Stream == "" {
		return fmt.Errorf("cannot publish %s: no stream has confirmed it", msg.Subject)
	}
	return nil
}
