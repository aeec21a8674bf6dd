package peel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/fence"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	queueLength  = 64 // requests in each queue of a lane
	readersLimit = 64 // read-only requests of each lane that run at once

	// ackDelay is how long the acknowledgement of a request that runs at once waits for its return, which says more.
	// Each costs the masters about as much as the other.
	ackDelay = 500 * time.Millisecond
)

// An order is a request that was admitted.
type order struct {
	wire.Request
	until time.Time   // when work may no longer start, on this host's monotonic clock; zero: no limit
	asked *nats.Msg   // nil for the request of a job; else a direct one, which has a JID of this peel for its log
	ack   *time.Timer // sends the acknowledgement, unless a return comes first; nil if it was sent
}

// requests are received messages in two queues, so that people cannot crowd out masters.
type requests struct {
	masters, people chan *nats.Msg
	subscriptions   []*nats.Subscription
}

// listen receives requests from now on, until they are closed.
func (p *Peel) listen(nc *nats.Conn) (requests, error) {
	r := requests{masters: make(chan *nats.Msg, 4*queueLength), people: make(chan *nats.Msg, queueLength)}
	for subject, to := range map[string]chan *nats.Msg{wire.Cmd(p.wire): r.masters, wire.AllCancels: r.masters, wire.Direct(p.wire, "*"): r.people} {
		sub, err := nc.ChanSubscribe(subject, to)
		if err != nil {
			return r, fmt.Errorf("cannot listen for requests: %w", err)
		}
		r.subscriptions = append(r.subscriptions, sub)
	}
	return r, nil
}

// close ends the subscriptions: the connection stays, to send reports.
func (r *requests) close() {
	for _, sub := range r.subscriptions {
		_ = sub.Unsubscribe() // fails on a closed connection only
	}
}

// serve does what is requested until ctx ends, then waits for what runs. Read-only functions run at once; those that
// change the host wait in a queue for one of the workers. What changes the peel's own schedule has a queue of its own,
// so that an entry can be paused behind a command that hangs.
func (p *Peel) serve(ctx context.Context, r requests) {
	w := p.hire(ctx)
	defer w.dismiss()
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-r.people:
			p.question(msg, w)
		case msg := <-r.masters:
			if msg.Subject != wire.Cmd(p.wire) {
				p.cancel(msg)
			} else if o, ok := p.admit(msg); ok {
				p.accept(o, w)
			}
		}
	}
}

// A crew runs what was accepted.
type crew struct {
	workers errgroup.Group
	masters lane
	people  lane
	run     func(*flight)
}

// A lane bounds the requests of masters, or the direct requests of people. Each has its own, so that neither can fill the
// queues of the other.
type lane struct {
	readers   errgroup.Group
	queue     chan *flight // of requests that change the host
	schedules chan *flight // of requests that change the schedule
}

func (l *lane) open() {
	l.queue, l.schedules = make(chan *flight, queueLength), make(chan *flight, queueLength)
	l.readers.SetLimit(readersLimit)
}

func (p *Peel) hire(ctx context.Context) *crew {
	c := &crew{run: func(f *flight) { p.execute(ctx, f) }}
	c.masters.open()
	c.people.open()
	c.workers.Go(func() error { c.work(c.masters.schedules, c.people.schedules); return nil })
	for range max(1, p.o.Workers) {
		c.workers.Go(func() error { c.work(c.masters.queue, c.people.queue); return nil })
	}
	return c
}

// work runs queued requests until both queues are closed. If both hold requests it takes either at random.
func (c *crew) work(masters, people <-chan *flight) {
	for masters != nil || people != nil {
		var f *flight
		var open bool
		select {
		case f, open = <-masters:
			if !open {
				masters = nil
			}
		case f, open = <-people:
			if !open {
				people = nil
			}
		}
		if open {
			c.run(f)
		}
	}
}

// dismiss waits for what runs.
func (c *crew) dismiss() {
	for _, l := range []*lane{&c.masters, &c.people} {
		close(l.queue)
		close(l.schedules)
	}
	_ = c.workers.Wait()
	_ = c.masters.readers.Wait()
	_ = c.people.readers.Wait()
}

// take starts or queues a flight; false if there is no room for it.
func (c *crew) take(f *flight) bool {
	l := &c.masters
	if f.asked != nil {
		l = &c.people
	}
	queue := l.queue
	switch {
	case atOnce(f.Function):
		return l.readers.TryGo(func() error { c.run(f); return nil })
	case strings.HasPrefix(f.Function, "schedule."):
		queue = l.schedules
	}
	select {
	case queue <- f:
		return true
	default:
		return false
	}
}

// atOnce says whether a function needs no place in a queue: one that changes nothing, and one that there is not.
func atOnce(function string) bool {
	fn, known := catalogue.Lookup(function)
	return !known || fn.ReadOnly
}

// accept sees to it that an admitted request is answered.
func (p *Peel) accept(o order, c *crew) {
	f := p.flights.enter(o)
	switch {
	case f.over:
		p.log.Info("request not started, its job was canceled", "jid", o.JID, "function", o.Function)
		p.reply(o, canceled(wire.Result{}))
	case !c.take(f) && p.flights.land(f):
		p.reply(o, rejection("the peel is busy, %d requests wait or run already", queueLength))
	}
}

// admit decodes, fences and acknowledges. The fence is on disk before the acknowledgement or a return leaves.
func (p *Peel) admit(msg *nats.Msg) (order, bool) {
	req, err := wire.DecodeRequest(msg)
	if err != nil {
		p.log.Warn("request dropped", "err", err)
		return order{}, false
	}
	o := order{Request: req}
	if req.TimeLeft != 0 {
		o.until = time.Now().Add(req.TimeLeft)
	}
	if req.V > wire.Version {
		p.reply(o, tooNew(req.V))
		return o, false
	}
	verdict, err := p.fence.Admit(req.JID, req.Epoch)
	if err != nil {
		p.log.Error("request refused, it could not be recorded", "jid", req.JID, "epoch", req.Epoch, "user", req.User, "err", err)
		p.reply(o, rejection("%v", err))
		return o, false
	}
	p.log.Info(said[verdict], "jid", req.JID, "epoch", req.Epoch, "user", req.User, "function", req.Function)
	switch jid, epoch := req.JID, req.Epoch; {
	case verdict == fence.Stale:
	case verdict == fence.Accept && atOnce(req.Function):
		o.ack = time.AfterFunc(ackDelay, func() { p.acknowledge(jid, epoch) })
	default:
		p.acknowledge(jid, epoch)
	}
	return o, verdict == fence.Accept
}

// said is what the log says of a request.
var said = map[fence.Verdict]string{
	fence.Accept:    "request accepted",
	fence.Duplicate: "request heard again, acknowledged and not run again",
	fence.Stale:     "stale request dropped",
}

func (p *Peel) acknowledge(jid wire.JID, epoch uint64) {
	p.publish(wire.AckOf(jid, p.wire), wire.Ack{JID: jid, Peel: p.o.ID, Epoch: epoch, Time: time.Now(), V: wire.Version})
}

// execute runs a flight, unless somebody has ended it, and sends what it gave.
func (p *Peel) execute(ctx context.Context, f *flight) {
	work, ok := p.flights.begin(ctx, f)
	if !ok {
		return
	}
	var result wire.Result
	switch {
	case ctx.Err() != nil:
		result = rejection("the peel is shutting down")
	case !f.until.IsZero() && time.Now().After(f.until):
		result = rejection("the job's deadline passed before the work could start")
	default:
		result = p.call(work, f.Function, module.Call{ID: f.ID, Args: f.Args, User: f.User}, nil)
		switch {
		case result.Success:
		case errors.Is(context.Cause(work), errCanceled):
			result = canceled(result)
		case ctx.Err() != nil:
			result.Outcome, result.Error = wire.Interrupted, "the peel was stopped"
		}
	}
	if p.flights.land(f) {
		p.reply(f.order, result)
	}
}

// rejection is the result of work that was not started.
func rejection(format string, args ...any) wire.Result {
	return wire.Result{Outcome: wire.Rejected, Error: "rejected: " + fmt.Sprintf(format, args...)}
}

func tooNew(v int) wire.Result {
	return rejection("version %d of the protocol, this peel knows up to %d", v, wire.Version)
}

// refusal is the result of a function that cannot do what it was called for.
func refusal(format string, args ...any) wire.Result {
	return wire.Result{Error: fmt.Sprintf(format, args...)}
}

// reply puts a job's result into the outbox, which sends it until the stream has acknowledged it. A direct request is
// answered at once. Neither waits for the bus: the worker is free for the next request.
func (p *Peel) reply(o order, result wire.Result) {
	if o.asked != nil {
		p.respond(o, result)
		return
	}
	r := wire.Return{JID: o.JID, Peel: p.o.ID, Result: result, Epoch: o.Epoch, Finished: time.Now(), V: wire.Version}
	data, err := fitReturn(&r, room(wire.MaxMessage))
	next, stored := p.outbox.Len() == 0, false // no other message is sent before it; it is on the disk
	if err == nil {
		stored, err = p.outbox.Put(string(o.JID)+"."+p.wire, wire.ReturnOf(o.JID, p.wire), data)
	}
	if stored {
		p.finish(o.JID, o.Epoch)
	}
	if err != nil {
		p.log.Error("return not stored", "jid", o.JID, "err", err)
	} else if next && o.ack != nil {
		o.ack.Stop()
	}
}

// finish records that a job has a result that is stored.
func (p *Peel) finish(jid wire.JID, epoch uint64) {
	if err := p.fence.Finish(jid, epoch); err != nil {
		p.log.Warn("end of a job not recorded: after a restart it may be returned again as interrupted, which masters ignore", "jid", jid, "err", err)
	}
}

// returnInterrupted returns the jobs that the last process did not finish. A job whose return is in the outbox already is
// returned twice, and masters keep the first return.
func (p *Peel) returnInterrupted() {
	for _, a := range p.fence.Unfinished() {
		p.log.Warn("job was interrupted", "jid", a.JID, "epoch", a.Epoch)
		p.reply(order{Request: wire.Request{JID: a.JID, Epoch: a.Epoch}}, wire.Result{
			Outcome: wire.Interrupted, Error: "interrupted: the peel or its host died before the job had a result",
		})
	}
}

// publish sends what may be lost.
func (p *Peel) publish(subject string, v any) {
	data, err := canon.Marshal(v)
	if nc := p.bus.Load(); err == nil && nc != nil {
		err = nc.Publish(subject, data)
	}
	if err != nil {
		p.log.Debug("message not sent", "subject", subject, "err", err)
	}
}
