package api

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	followBuffer = 8192
	// lookAgain is how often a followed job's record is read, in case the message that it has ended got lost.
	lookAgain = 5 * time.Second
	// pollEvery is how often the record is read for a caller to whom the bus sends no events.
	pollEvery = time.Second
)

// An Event is an ack, a return or the end of a job: exactly one of Acked, Return and Ended is set.
type Event struct {
	Peel target.PeelID // of an ack or a return
	// the peel has the request; acks are not stored, so only those that arrive while following are events
	Acked  bool
	Return *wire.Return
	Ended  *job.Job // the final record, without targets and arguments; nothing follows
}

// A Follower receives the acks, the stored returns and the end of one job. The bus sends events of jobs to operators
// alone: for others the follower asks masters each second, and there are no acks.
type Follower struct {
	c       *Client
	jid     wire.JID
	targets map[string]target.PeelID // by wire ID, until they have returned
	acked   map[string]bool
	heard   *backlog
	subs    []*nats.Subscription
	counted int             // returns that the record counted when rows were last read for the caller
	refused context.Context // ends if the bus sends no events to the caller
	unwatch func()          // of refused
	behind  bool            // the targets and what they returned so far are yet to be read
}

// Start dispatches a job and returns a follower that misses none of its events. The caller makes the job's ID, and ends
// the follower with Close.
func (c *Client) Start(ctx context.Context, spec job.Spec) (*Follower, error) {
	f, err := c.Follow(spec.JID, spec.Targets)
	if err != nil {
		return nil, err
	}
	if _, err := JobDispatch.Ask(ctx, c, spec); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Follow subscribes to the events of a job before it is dispatched. The caller ends it with Close.
func (c *Client) Follow(jid wire.JID, targets []target.PeelID) (*Follower, error) {
	f := &Follower{
		c:       c,
		jid:     jid,
		targets: make(map[string]target.PeelID, len(targets)),
		acked:   map[string]bool{},
		heard:   newBacklog(),
	}
	for _, id := range targets {
		f.targets[id.Wire()] = id
	}
	refused, refuse := context.WithCancelCause(context.Background())
	f.refused, f.unwatch = refused, c.denials.watch(wire.StoredOf(jid, "*"), refuse)
	for _, subject := range []string{wire.AckOf(jid, "*"), wire.StoredOf(jid, "*"), wire.StatusOf(jid)} {
		sub, err := c.nc.ChanSubscribe(subject, f.heard.arrived)
		if err != nil {
			f.Close()
			return nil, requestError(subject, err)
		}
		f.subs = append(f.subs, sub)
	}
	if err := c.nc.FlushTimeout(answerWait); err != nil {
		f.Close()
		return nil, requestError(wire.StoredOf(jid, "*"), err)
	}
	return f, nil
}

// Watch subscribes to the events of a job that was dispatched before, by any user. The events begin with the stored
// returns. The caller ends it with Close.
func (c *Client) Watch(jid wire.JID) (*Follower, error) {
	f, err := c.Follow(jid, nil)
	if err == nil {
		f.behind = true
	}
	return f, err
}

// Close ends the subscriptions. The job goes on.
func (f *Follower) Close() {
	f.unwatch()
	for _, sub := range f.subs {
		_ = sub.Unsubscribe()
	}
	f.heard.end()
}

// Events yields events until the job has ended, each return once: when it is stored, or at the end if its message was
// lost. It ends with an error if the end of the job cannot be read, also with the error of ctx.
func (f *Follower) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if f.behind && !f.catchUp(ctx, yield) {
			return
		}
		look := time.NewTicker(lookAgain)
		defer look.Stop()
		refused := f.refused.Done()
		for {
			var ended *job.Job
			select {
			case <-ctx.Done():
				yield(Event{}, ctx.Err())
				return
			case <-refused:
				refused = nil
				look.Reset(pollEvery)
				continue
			case msg := <-f.heard.next:
				e, ok := f.event(msg)
				if !ok {
					continue
				}
				if ended = e.Ended; ended == nil {
					if !yield(e, nil) {
						return
					}
					continue
				}
			case <-look.C:
				var goesOn bool
				if ended, goesOn = f.look(ctx, yield); !goesOn {
					return
				}
				if ended == nil {
					continue
				}
			}
			f.finish(ctx, ended, yield)
			return
		}
	}
}

// look reads the record of the job, and returns it if the job has ended. To a caller without events it yields what was
// returned meanwhile. goesOn is false if no more events follow.
func (f *Follower) look(ctx context.Context, yield func(Event, error) bool) (ended *job.Job, goesOn bool) {
	j, err := JobShow.Ask(ctx, f.c, JobRequest{JID: f.jid})
	switch code := CodeOf(err); {
	case code == CodeNotFound, code == CodeDenied, code == CodeForbidden:
		yield(Event{}, err)
		return nil, false
	case err != nil && f.c.nc.IsClosed(): // it connects no more
		return f.readRest(err, yield)
	case err != nil:
		return nil, true
	case j.Status.Final():
		summary := j.Summary()
		return &summary, true
	case f.refused.Err() == nil, j.ReturnCount == f.counted:
		return nil, true
	}
	f.counted = j.ReturnCount
	return nil, f.yieldRows(f.c.Rows(ctx, f.jid), yield)
}

// readRest yields the events before the connection was closed, and returns the end of the job if it is one of them. If
// not, it yields lost.
func (f *Follower) readRest(lost error, yield func(Event, error) bool) (ended *job.Job, goesOn bool) {
	f.heard.end()
	for _, msg := range f.heard.rest {
		e, ok := f.event(msg)
		switch {
		case !ok:
		case e.Ended != nil:
			return e.Ended, true
		case !yield(e, nil):
			return nil, false
		}
	}
	yield(Event{}, lost)
	return nil, false
}

// yieldRows yields the returns of rows that were not yielded before. It returns false if no more events follow.
func (f *Follower) yieldRows(rows iter.Seq2[job.Row, error], yield func(Event, error) bool) (goesOn bool) {
	for row, err := range rows {
		if err != nil {
			yield(Event{}, err)
			return false
		}
		sender := row.Peel.Wire()
		if _, open := f.targets[sender]; !open || row.Return == nil {
			continue
		}
		delete(f.targets, sender)
		if !yield(Event{Peel: row.Peel, Return: row.Return}, nil) {
			return false
		}
	}
	return true
}

// catchUp yields the stored returns, and the end if the job has ended. It returns false if no more events follow.
func (f *Follower) catchUp(ctx context.Context, yield func(Event, error) bool) (listen bool) {
	for row, err := range f.c.Rows(ctx, f.jid) {
		switch {
		case err != nil:
			yield(Event{}, err)
			return false
		case row.Return == nil:
			f.targets[row.Peel.Wire()] = row.Peel
		case !yield(Event{Peel: row.Peel, Return: row.Return}, nil):
			return false
		}
	}
	j, err := JobShow.Ask(ctx, f.c, JobRequest{JID: f.jid})
	if err != nil {
		yield(Event{}, err)
		return false
	}
	if j.Status.Final() {
		summary := j.Summary()
		f.finish(ctx, &summary, yield)
		return false
	}
	return true
}

// event reads a message; what does not count, such as a second return, is none.
func (f *Follower) event(msg *nats.Msg) (Event, bool) {
	if msg.Subject == wire.StatusOf(f.jid) {
		var e struct {
			Data job.Job `json:"data"`
		}
		if err := wire.Decode(msg, &e); err != nil || e.Data.JID != f.jid || !e.Data.Status.Final() {
			return Event{}, false
		}
		return Event{Ended: &e.Data}, true
	}
	sender := wire.Sender(msg.Subject)
	id, open := f.targets[sender]
	if !open {
		return Event{}, false
	}
	if msg.Subject == wire.AckOf(f.jid, sender) {
		if a, err := wire.DecodeAck(msg); err != nil || a.Peel != id || f.acked[sender] {
			return Event{}, false
		}
		f.acked[sender] = true
		return Event{Peel: id, Acked: true}, true
	}
	delete(f.targets, sender)
	return Event{Peel: id, Return: job.ReadReturn(f.jid, id, msg.Data)}, true
}

// finish yields the returns whose messages were lost, then the end.
func (f *Follower) finish(ctx context.Context, ended *job.Job, yield func(Event, error) bool) {
	if f.lacks(ended) && !f.yieldRows(f.c.EndedRows(ctx, f.jid), yield) {
		return
	}
	if f.lacks(ended) {
		yield(Event{}, fail(CodeUnavailable, errors.New("some returns could not be read"), "cannot show all of job %s",
			f.jid))
		return
	}
	yield(Event{Ended: ended}, nil)
}

// lacks reports whether returns that the final record counts were not yielded yet.
func (f *Follower) lacks(ended *job.Job) bool {
	return len(f.targets) > ended.TargetCount-ended.ReturnCount
}
