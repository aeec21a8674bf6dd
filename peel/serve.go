package peel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/fence"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	queueLength  = 64                       // requests that wait for a worker
	readersLimit = 64                       // read-only requests that run at once
	maxReturn    = wire.MaxMessage - 64<<10 // bytes of a message with a result
	keptHead     = 64 << 10                 // bytes of data that was too large
)

// An order is a request that was admitted.
type order struct {
	wire.Request
	until time.Time // when work may no longer start, on this host's monotonic clock; zero: no limit
}

// serve hears requests until ctx ends, then waits for those that run. Read-only functions run at once; those that
// change the host wait in a queue for one of the workers.
func (p *Peel) serve(ctx context.Context, nc *nats.Conn) error {
	heard := make(chan *nats.Msg, 4*queueLength)
	sub, err := nc.ChanSubscribe(wire.Cmd(p.wire), heard)
	if err != nil {
		return fmt.Errorf("cannot listen for requests: %w", err)
	}
	defer sub.Unsubscribe()

	var readers errgroup.Group
	readers.SetLimit(readersLimit)
	queue := make(chan order, queueLength)
	var workers errgroup.Group
	for range max(1, p.o.Workers) {
		workers.Go(func() error {
			for o := range queue {
				p.execute(ctx, o)
			}
			return nil
		})
	}
	defer readers.Wait()
	defer workers.Wait()
	defer close(queue)
	for {
		select {
		case <-ctx.Done():
			return nil
		case msg := <-heard:
			o, ok := p.admit(msg)
			if !ok {
				continue
			}
			if !p.hand(ctx, o, &readers, queue) {
				p.reply(o, refusal("rejected: the peel is busy, %d requests wait or run already", queueLength))
			}
		}
	}
}

// hand starts or queues an order; false if there is no room for it.
func (p *Peel) hand(ctx context.Context, o order, readers *errgroup.Group, queue chan<- order) bool {
	if fn, known := wire.LookupFunction(o.Function); !known || fn.ReadOnly {
		return readers.TryGo(func() error { p.execute(ctx, o); return nil })
	}
	select {
	case queue <- o:
		return true
	default:
		return false
	}
}

// admit decodes, fences and acknowledges. The fence is on disk before the acknowledgement leaves.
func (p *Peel) admit(msg *nats.Msg) (order, bool) {
	req, err := wire.DecodeRequest(msg)
	if err != nil {
		p.log.Warn("request dropped", "err", err)
		return order{}, false
	}
	log := p.log.With("jid", req.JID, "epoch", req.Epoch)
	o := order{Request: req}
	if req.TimeLeft != 0 {
		o.until = time.Now().Add(req.TimeLeft)
	}
	if req.V > wire.Version {
		p.reply(o, refusal("rejected: version %d of the protocol, this peel knows up to %d", req.V, wire.Version))
		return o, false
	}
	verdict, err := p.fence.Admit(req.JID, req.Epoch)
	if err != nil {
		log.Error("request refused, it could not be recorded", "err", err)
		p.reply(o, refusal("rejected: %v", err))
		return o, false
	}
	switch verdict {
	case fence.Stale:
		log.Warn("stale request dropped")
		return o, false
	case fence.Duplicate:
		log.Info("request heard again, acknowledged and not run again")
	case fence.Accept:
		log.Info("request accepted", "function", req.Function)
	}
	p.publish(wire.AckOf(req.JID, p.wire), wire.Ack{JID: req.JID, Peel: p.o.ID, Epoch: req.Epoch, Time: time.Now(), V: wire.Version})
	return o, verdict == fence.Accept
}

// execute runs an order and sends what it gave.
func (p *Peel) execute(ctx context.Context, o order) {
	switch {
	case ctx.Err() != nil:
		p.reply(o, refusal("rejected: the peel is shutting down"))
	case !o.until.IsZero() && time.Now().After(o.until):
		p.reply(o, refusal("rejected: the job's deadline passed before the work could start"))
	default:
		p.reply(o, p.registry.Call(ctx, o.Function, module.Call{ID: o.ID, Args: o.Args}))
	}
}

func refusal(format string, args ...any) wire.Result {
	return wire.Result{Error: fmt.Sprintf(format, args...)}
}

// reply hands an order's result to the outbox, which sends it until the stream has acknowledged it.
func (p *Peel) reply(o order, result wire.Result) {
	r := wire.Return{JID: o.JID, Peel: p.o.ID, Result: result, Epoch: o.Epoch, Finished: time.Now(), V: wire.Version}
	data, err := encode(&r, &r.Result)
	if err == nil {
		err = p.outbox.Put(string(o.JID)+"."+p.wire, wire.ReturnOf(o.JID, p.wire), data)
	}
	if err != nil {
		p.log.Error("return not stored", "jid", o.JID, "err", err)
	}
}

// encode gives the bytes of a message. The data of its result is cut if the bus would not carry it; full size, digest
// and the first bytes are then in its place.
func encode(message any, result *wire.Result) ([]byte, error) {
	data, err := canon.Marshal(message)
	if err != nil || len(data) <= maxReturn {
		return data, err
	}
	whole, err := canon.Marshal(result.Data)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(whole)
	result.Data = map[string]any{
		"output_truncated": true, "bytes": len(whole), "sha256": hex.EncodeToString(sum[:]), "head": whole[:min(len(whole), keptHead)],
	}
	return canon.Marshal(message)
}

// publish sends what may be lost.
func (p *Peel) publish(subject string, v any) {
	data, err := canon.Marshal(v)
	if err == nil {
		err = p.bus.Load().Publish(subject, data)
	}
	if err != nil {
		p.log.Debug("message not sent", "subject", subject, "err", err)
	}
}
