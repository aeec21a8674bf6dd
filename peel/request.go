package peel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/fence"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// The functions of this file stand in the order in which a request passes them. serveRequests receives it; onRequest or
// onDirect checks it; admit records a job's request in the fence; accept puts it into the worker pool; execute runs it;
// reply stores the result in the outbox, which sends it; finish records in the fence that the result is stored.

// A request asks this peel to run a function, for a job or directly for a person.
type request struct {
	wire.Request             // of a direct request the JID is made by this peel, for its log
	direct       *nats.Msg   // the message of a direct request; nil for a job
	startBefore  time.Time   // work may not start later, on this host's monotonic clock; zero: no limit
	ack          *time.Timer // sends the acknowledgement unless a return comes first; nil if it was sent
	pending
}

// serveRequests handles requests until ctx ends, then waits for those that run. A read-only function runs at once; one
// that changes the host waits for a worker. Functions that change the schedule have a worker of their own, so that an
// entry can be paused behind a command that hangs, and so have prompts, which can take minutes and change nothing.
func (p *Peel) serveRequests(ctx context.Context, in *incoming) {
	pool := newWorkerPool(max(1, p.o.Workers), func(r *request) { p.execute(ctx, r) })
	defer pool.close()
	for {
		select {
		case <-ctx.Done():
			return
		case msg := <-in.people:
			p.handle(ctx, func() { p.onDirect(msg, pool) })
		case msg := <-in.masters:
			if msg.Subject == wire.Cmd(p.o.ID.Wire()) {
				p.handle(ctx, func() { p.onRequest(msg, pool) })
			} else {
				p.onCancel(msg)
			}
		}
	}
}

// handle handles a request, unless the peel has decided to stop since. Masters send a request without an
// acknowledgement again.
func (p *Peel) handle(ctx context.Context, do func()) {
	p.receiving.Lock()
	defer p.receiving.Unlock()
	if ctx.Err() == nil {
		do()
	}
}

// onRequest handles the request of a master for a job.
func (p *Peel) onRequest(msg *nats.Msg, pool *workerPool) {
	req, err := wire.DecodeRequest(msg)
	if err != nil {
		p.log.Warn("request dropped", "err", err)
		return
	}
	r := &request{Request: req}
	if req.TimeLeft != 0 {
		r.startBefore = time.Now().Add(req.TimeLeft)
	}
	if req.V > wire.Version {
		p.reply(r, versionTooNew(req.V))
	} else if p.admit(r) {
		p.accept(r, pool)
	}
}

// onDirect handles a request that a person sent without a master. It is sent once, so the fence need not know it; its
// record there would replace the record of a job.
func (p *Peel) onDirect(msg *nats.Msg, pool *workerPool) {
	req, user, err := wire.DecodeDirect(msg)
	if err != nil {
		p.log.Warn("direct request dropped", "subject", msg.Subject, "err", err)
		return
	}
	r := &request{direct: msg, startBefore: time.Now().Add(req.TimeLeft), Request: wire.Request{
		JID: wire.NewJID(), Function: req.Function, ID: req.ID, Args: req.Args, User: user,
	}}
	p.log.Info("direct request accepted", "jid", r.JID, "user", user, "function", req.Function)
	switch {
	case req.V > wire.Version:
		p.reply(r, versionTooNew(req.V))
	case req.Function == catalogue.Wipe:
		p.reply(r, failure("a direct request cannot run %s, because no master would record it: "+
			"send it through a master", catalogue.Wipe))
	case catalogue.AsksForSecrets(req.Args):
		p.reply(
			r, failure(
				"a direct request gets no secrets, because no master has checked whether %s may see them: "+
					"send it through a master",
				user,
			),
		)
	default:
		p.accept(r, pool)
	}
}

// admit records the request in the fence and then acknowledges it. It reports whether the request is to run. The record
// is on the disk before an acknowledgement or a return leaves.
func (p *Peel) admit(r *request) bool {
	verdict, err := p.fence.Admit(r.JID, r.Epoch)
	if err != nil {
		p.log.Error("request refused, it could not be recorded", "jid", r.JID, "epoch", r.Epoch, "user", r.User,
			"err", err)
		p.reply(r, rejection("%v", err))
		return false
	}
	p.log.Info(verdictMessages[verdict], "jid", r.JID, "epoch", r.Epoch, "user", r.User, "function", r.Function)
	switch jid, epoch := r.JID, r.Epoch; {
	case verdict == fence.Stale:
	case verdict == fence.Accept && runsAtOnce(r.Function):
		r.ack = time.AfterFunc(ackDelay, func() { p.acknowledge(jid, epoch) })
	default:
		p.acknowledge(jid, epoch)
	}
	return verdict == fence.Accept
}

// verdictMessages are the log messages for a request.
var verdictMessages = map[fence.Verdict]string{
	fence.Accept:    "request accepted",
	fence.Duplicate: "request received again, acknowledged and not run again",
	fence.Stale:     "stale request dropped",
}

// ackDelay is how long the acknowledgement of a request that runs at once waits for its return. The return includes the
// acknowledgement, and each message costs the masters about the same.
const ackDelay = 500 * time.Millisecond

func (p *Peel) acknowledge(jid wire.JID, epoch uint64) {
	p.publish(wire.AckOf(jid, p.o.ID.Wire()), wire.Ack{
		JID:   jid,
		Peel:  p.o.ID,
		Epoch: epoch,
		Time:  time.Now(),
		V:     wire.Version,
	})
}

// accept starts or queues a request, or replies why it cannot.
func (p *Peel) accept(r *request, pool *workerPool) {
	switch {
	case !p.pending.add(r):
		p.log.Info("request not started, its job was canceled", "jid", r.JID, "function", r.Function)
		p.reply(r, canceled(wire.Result{}))
	case !pool.enqueue(r) && p.pending.finish(r):
		p.reply(r, rejection("the peel is busy, %d requests wait or run already", queueLength))
	}
}

// onCancel handles the cancel of a job, which every peel receives. Only masters may publish it, but a peel could direct
// an answer of the server to the subject, so the message is checked.
func (p *Peel) onCancel(msg *nats.Msg) {
	event, err := wire.DecodeCancel(msg)
	if err != nil {
		p.log.Warn("cancel dropped", "err", err)
		return
	}
	for _, r := range p.pending.cancel(event.JID) {
		p.log.Info("request canceled before it started", "jid", event.JID, "function", r.Function)
		p.reply(r, canceled(wire.Result{}))
	}
}

// execute runs a request, unless it was canceled, and replies.
func (p *Peel) execute(ctx context.Context, r *request) {
	work, ok := p.pending.start(ctx, r)
	if !ok {
		return
	}
	var result wire.Result
	var after []func()
	switch {
	case ctx.Err() != nil:
		result = rejection("the peel is shutting down")
	case !r.startBefore.IsZero() && time.Now().After(r.startBefore):
		result = rejection("the job's deadline passed before the work could start")
	default:
		result = p.call(work, r.Function, module.Call{
			ID:          r.ID,
			Args:        r.Args,
			User:        r.User,
			JID:         r.JID,
			StartBefore: r.startBefore,
			AfterStored: func(do func()) { after = append(after, do) },
		}, nil)
		switch {
		case result.Success:
		case errors.Is(context.Cause(work), errCanceled):
			result = canceled(result)
		case ctx.Err() != nil:
			result.Outcome, result.Error = wire.Interrupted, "the peel was stopped"
		}
	}
	if p.pending.finish(r) {
		p.reply(r, result)
	}
	for _, do := range after {
		do()
	}
}

// reply stores the result of a job in the outbox, which sends it until the stream has acknowledged it. The result of a
// direct request is sent at once. Neither waits for the bus: the worker is free for the next request.
func (p *Peel) reply(r *request, result wire.Result) {
	if r.direct != nil {
		p.answer(r, result)
		return
	}
	ret := wire.Return{JID: r.JID, Peel: p.o.ID, Result: result, Epoch: r.Epoch, Finished: time.Now(), V: wire.Version}
	data, err := p.encodeReturn(&ret, &r.Request)
	isNext, stored := p.outbox.Len() == 0, false // isNext: no message is sent before it; stored: it is on the disk
	if err == nil {
		stored, err = p.outbox.Put(string(r.JID)+"."+p.o.ID.Wire(), wire.ReturnOf(r.JID, p.o.ID.Wire()), data)
	}
	if stored {
		p.finish(r.JID, r.Epoch)
	}
	if err != nil {
		p.log.Error("return not stored", "jid", r.JID, "err", err)
	} else if isNext && r.ack != nil {
		r.ack.Stop()
	}
}

// answer sends the result of a direct request. If the person has gone, it is lost.
func (p *Peel) answer(r *request, result wire.Result) {
	p.receipts.end(r.JID) // the number remains without a receipt
	nc := p.bus.Load()
	a := wire.DirectAnswer{Peel: p.o.ID, Result: result, V: wire.Version}
	data, err := report.FitAnswer(&a, nc.MaxPayload())
	if err == nil {
		err = nc.Publish(r.direct.Reply, data)
	}
	p.log.Info("direct request answered", "jid", r.JID, "user", r.User, "function", r.Function,
		"success", result.Success, "outcome", result.Outcome, "err", err)
}

// finish records in the fence that the result of a job is stored.
func (p *Peel) finish(jid wire.JID, epoch uint64) {
	if err := p.fence.Finish(jid, epoch); err != nil {
		p.log.Warn(
			"end of a job not recorded: after a restart it may be returned again as interrupted, which masters ignore",
			"jid", jid, "err", err,
		)
	}
}

// returnInterrupted returns the jobs that the last process did not finish. If the outbox already has the return of a
// job, the job is returned twice, and masters keep the first return.
func (p *Peel) returnInterrupted() {
	for _, a := range p.fence.Unfinished() {
		p.log.Warn("job was interrupted", "jid", a.JID, "epoch", a.Epoch)
		p.reply(&request{Request: wire.Request{JID: a.JID, Epoch: a.Epoch}}, wire.Result{
			Outcome: wire.Interrupted, Error: "interrupted: the peel or its host died before the job had a result",
		})
	}
}

// canceled returns the result of work that was stopped, or never started, because its job was canceled.
func canceled(r wire.Result) wire.Result {
	r.Success, r.Outcome, r.Error = false, wire.Canceled, errCanceled.Error()
	return r
}

// rejection returns the result of work that was not started.
func rejection(format string, args ...any) wire.Result {
	return wire.Result{Outcome: wire.Rejected, Error: "rejected: " + fmt.Sprintf(format, args...)}
}

func versionTooNew(v int) wire.Result {
	return rejection("version %d of the protocol, this peel knows up to %d", v, wire.Version)
}

// failure returns the result of a function that failed.
func failure(format string, args ...any) wire.Result {
	return wire.Result{Error: fmt.Sprintf(format, args...)}
}
