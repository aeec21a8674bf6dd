package peel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/dial"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	factsEvery      = 10 * time.Minute // ± 10 %: when facts are collected again
	acknowledgement = 5 * time.Second  // how long the stream may take to confirm what it stored
)

// news is what the peel has to tell the masters and they have not confirmed yet.
type news struct{ facts, applied bool }

// announce keeps the masters informed: facts and the applied report after every connect, each again when it
// changes. What the stream does not confirm is sent again.
func (p *Peel) announce(ctx context.Context, nc *nats.Conn) {
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	again := time.NewTimer(0)
	defer again.Stop()
	collect := time.NewTimer(aboutEvery(factsEvery))
	defer collect.Stop()
	open := news{facts: true, applied: true}
	for {
		select {
		case <-ctx.Done():
			return
		case <-connected:
			p.outbox.Kick()
			_, _ = p.collect(ctx) // fails only at the end of ctx
			open = news{facts: true, applied: true}
		case <-p.reports:
			open.applied = true
			open.facts = p.retell.Swap(false) || open.facts
		case <-again.C:
		case <-collect.C:
			if changed, _ := p.collect(ctx); changed {
				open.facts = true
			}
			collect.Reset(aboutEvery(factsEvery))
		}
		if nc.IsConnected() && !p.tell(ctx, &open) {
			again.Reset(acknowledgement/2 + rand.N(acknowledgement))
		}
	}
}

// aboutEvery returns d ± 10 %, at random, so that the peels of a fleet do not act at the same time.
func aboutEvery(d time.Duration) time.Duration { return d*9/10 + rand.N(d/5) }

// tell sends what is open and reports whether the stream has confirmed all of it.
func (p *Peel) tell(ctx context.Context, open *news) bool {
	if open.facts {
		data, err := wire.Facts{Peel: p.o.ID, Facts: *p.facts.Load(), Key: p.key.public, Proof: p.prove(), V: wire.Version}.Encode()
		if err != nil {
			p.log.Error("facts not sent, masters would refuse them; those that they have stay in force: make facts in peel.yaml fewer or shorter", "err", err)
		}
		open.facts = err == nil && !p.confirmed(ctx, wire.Fact(p.wire), data)
	}
	if open.applied {
		data, err := canon.Marshal(p.applied())
		if err != nil {
			p.log.Error("report on settings not sent", "err", err)
		}
		open.applied = err == nil && !p.confirmed(ctx, wire.SettingsApplied(p.wire), data)
	}
	return !open.facts && !open.applied
}

// prove signs the peel's sealing key with the nkey of its credential. It returns nil if the credential has no nkey.
func (p *Peel) prove() []byte {
	sign := p.bus.Load().Opts.SignatureCB
	if sign == nil {
		return nil
	}
	proof, err := sign(wire.KeyProof(p.o.ID, p.key.public))
	if err != nil {
		p.log.Error("sealing key not signed, masters may refuse it", "err", err)
	}
	return proof
}

// confirmed is true where there is no use in sending again, as well.
func (p *Peel) confirmed(ctx context.Context, subject string, data []byte) bool {
	err := p.request(ctx, &nats.Msg{Subject: subject, Data: data})
	if errors.Is(err, nats.ErrMaxPayload) {
		p.log.Error("report not sent, it is larger than the bus carries: raise max_payload of its servers",
			"subject", subject, "bytes", len(data), "max_payload", p.bus.Load().MaxPayload())
		return true
	}
	if err != nil {
		p.log.Info("report not confirmed, it is sent again", "subject", subject, "err", err)
	}
	return err == nil
}

// send publishes an item of the outbox. What is too large for this bus goes shorter. The stream drops a second copy of a
// report by the message ID. A return has none: its stream keeps the first under each subject, and an ID that another peel
// guesses could not keep it out.
func (p *Peel) send(ctx context.Context, item outbox.Item) error {
	msg := &nats.Msg{Subject: item.Subject, Data: item.Payload}
	publish := p.publishReturn
	if isReport(item.Subject) {
		msg.Header = nats.Header{nats.MsgIdHdr: {item.MsgID}}
		publish = p.request
	}
	err := publish(ctx, msg)
	if err == nil {
		p.finishReturn(msg)
	}
	if !errors.Is(err, nats.ErrMaxPayload) {
		return err
	}
	limit := p.bus.Load().MaxPayload()
	short, cannot := refit(item, room(limit))
	if cannot != nil {
		return fmt.Errorf("%w: it carries %d bytes: %w", outbox.ErrRefused, limit, cannot)
	}
	p.log.Warn("message cut, the bus carries less", "msg", item.MsgID, "bytes", len(item.Payload), "max_payload", limit)
	msg.Data = short
	return publish(ctx, msg)
}

// Codes of errors of a stream.
const (
	storeFailed   = 10077 // the subject has its return, or the stream is full
	wrongSequence = 10071 // the subject has a message that is stored for good
)

// expectedSequence is the header that lets a stream store a message only if the last one of its subject has that sequence.
const expectedSequence = "Nats-Expected-Last-Subject-Sequence"

// publishReturn publishes a return. It returns nil if the stream has a return of this peel, this one or an earlier one. A
// stream refuses a message with the same code if it is full and if it has a return, which on a cluster may not be stored for
// good yet. So after a refusal the return is published on the condition that there is none.
func (p *Peel) publishReturn(ctx context.Context, msg *nats.Msg) error {
	err := p.request(ctx, msg)
	if e, ok := errors.AsType[*streamError](err); !ok || e.code != storeFailed {
		return err
	}
	again := &nats.Msg{Subject: msg.Subject, Data: msg.Data, Header: nats.Header{expectedSequence: {"0"}}}
	err = p.request(ctx, again)
	if e, ok := errors.AsType[*streamError](err); ok && e.code == wrongSequence {
		return nil
	}
	return err
}

// A streamError is the answer of a stream that did not store a message.
type streamError struct {
	subject, description string
	code                 int
}

func (e *streamError) Error() string {
	return fmt.Sprintf("cannot publish %s: %s (%d)", e.subject, e.description, e.code)
}

// finishReturn records in the fence that masters have stored a return. A return that was on the disk is recorded already.
func (p *Peel) finishReturn(msg *nats.Msg) {
	if isReport(msg.Subject) {
		return
	}
	if jid, _, err := wire.JobSubject(msg.Subject); err == nil && p.fence.IsUnfinished(jid) {
		if r, err := wire.DecodeReturn(msg); err == nil {
			p.finish(jid, r.Epoch)
		}
	}
}

// request publishes to a stream and waits until it says that it has stored the message.
func (p *Peel) request(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, acknowledgement)
	defer cancel()
	reply, err := p.bus.Load().RequestMsgWithContext(ctx, msg)
	if err != nil {
		return dial.Explain(fmt.Errorf("cannot publish %s: %w", msg.Subject, err), p.o.CA)
	}
	var ack struct {
		Stream string `json:"stream"`
		Error  *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return fmt.Errorf("cannot publish %s: %w", msg.Subject, err)
	}
	if ack.Error != nil {
		return &streamError{msg.Subject, ack.Error.Description, ack.Error.Code}
	}
	if ack.Stream == "" {
		return fmt.Errorf("cannot publish %s: no stream has confirmed it", msg.Subject)
	}
	return nil
}
