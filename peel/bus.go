package peel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	heartbeatEvery  = 30 * time.Second // ± 10 %
	acknowledgement = 5 * time.Second  // how long the stream may take to confirm what it stored

	// A server to which thousands of peels come back at once answers in order, late. Who leaves after two seconds and
	// comes again makes it do the work of encryption twice, and in the end for nobody.
	answerTime = 2 * time.Second  // of an address to a connection
	greetTime  = 30 * time.Second // of a server to who is connected
)

// connect returns a connection that keeps trying: a peel that starts before the bus waits for it, and one whose
// credential is refused asks again, because credentials are renewed on disk. Nothing that could not be sent is kept
// in memory and sent later by itself.
func (p *Peel) connect() (*nats.Conn, error) {
	opts := append([]nats.Option{
		nats.Name(string(p.o.ID)),
		nats.CustomInboxPrefix(wire.Inbox(p.wire)),
		nats.RetryOnFailedConnect(true),
		nats.Dialer(&net.Dialer{Timeout: answerTime}),
		nats.Timeout(greetTime),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectBufSize(-1),
		nats.ReconnectWait(time.Second),
		nats.ReconnectJitter(2*time.Second, 2*time.Second),
		nats.ConnectHandler(func(nc *nats.Conn) { p.log.Info("bus is reached", "url", nc.ConnectedUrlRedacted()) }),
		nats.ReconnectErrHandler(p.waits()),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // else the peel itself has left
				p.log.Warn("bus is away", "err", err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { p.log.Info("bus is back", "url", nc.ConnectedUrlRedacted()) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { p.log.Warn("bus", "err", err) }),
	}, p.o.Connect...)
	nc, err := nats.Connect(p.o.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("cannot use the bus at %s: %w", p.o.URL, err)
	}
	return nc, nil
}

// waits logs why the bus cannot be reached, each reason once until there is another: attempts follow each other fast.
func (p *Peel) waits() nats.ConnErrHandler {
	var last string
	return func(_ *nats.Conn, err error) {
		if reason := err.Error(); reason != last {
			last = reason
			p.log.Warn("waiting for the bus", "err", err)
		}
	}
}

// news is what the peel has to tell the masters and they have not confirmed yet.
type news struct{ facts, applied bool }

// announce keeps the masters informed: facts and the applied report after every connect, the report again when it
// changes, and a heartbeat. What the stream does not confirm is sent again.
func (p *Peel) announce(ctx context.Context, nc *nats.Conn) error {
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	beat := time.NewTimer(rand.N(heartbeatEvery))
	defer beat.Stop()
	again := time.NewTimer(0)
	defer again.Stop()
	open := news{facts: true, applied: true}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-connected:
			p.outbox.Kick()
			open = news{facts: true, applied: true}
		case <-p.reports:
			open.applied = true
		case <-again.C:
		case <-beat.C:
			if err := nc.Publish(wire.Heartbeat(p.wire), nil); err != nil {
				p.log.Debug("heartbeat not sent", "err", err)
			}
			beat.Reset(heartbeatEvery*9/10 + rand.N(heartbeatEvery/5))
		}
		if nc.IsConnected() && !p.tell(ctx, &open) {
			again.Reset(acknowledgement/2 + rand.N(acknowledgement))
		}
	}
}

// tell sends what is open and reports whether the stream has confirmed all of it.
func (p *Peel) tell(ctx context.Context, open *news) bool {
	if open.facts {
		open.facts = !p.confirmed(ctx, wire.Fact(p.wire), wire.Facts{Peel: p.o.ID, Facts: p.facts, V: wire.Version})
	}
	if open.applied {
		open.applied = !p.confirmed(ctx, wire.SettingsApplied(p.wire), p.applied())
	}
	return !open.facts && !open.applied
}

func (p *Peel) confirmed(ctx context.Context, subject string, v any) bool {
	data, err := canon.Marshal(v)
	if err == nil {
		err = p.request(ctx, &nats.Msg{Subject: subject, Data: data})
	}
	if err != nil {
		p.log.Info("report not confirmed, it is sent again", "subject", subject, "err", err)
	}
	return err == nil
}

// send publishes an item of the outbox. The stream drops a second copy by the message ID.
func (p *Peel) send(ctx context.Context, item outbox.Item) error {
	err := p.request(ctx, &nats.Msg{Subject: item.Subject, Data: item.Payload, Header: nats.Header{nats.MsgIdHdr: {item.MsgID}}})
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: %w", outbox.ErrRefused, err)
	}
	return err
}

// request publishes to a stream and waits until it says that it has stored the message.
func (p *Peel) request(ctx context.Context, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, acknowledgement)
	defer cancel()
	reply, err := p.bus.Load().RequestMsgWithContext(ctx, msg)
	if err != nil {
		return fmt.Errorf("cannot publish %s: %w", msg.Subject, err)
	}
	var ack struct {
		Stream string `json:"stream"`
		Error  *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(reply.Data, &ack); err != nil {
		return fmt.Errorf("cannot publish %s: %w", msg.Subject, err)
	}
	if ack.Error != nil {
		return fmt.Errorf("cannot publish %s: %s", msg.Subject, ack.Error.Description)
	}
	if ack.Stream == "" {
		return fmt.Errorf("cannot publish %s: no stream has confirmed it", msg.Subject)
	}
	return nil
}
