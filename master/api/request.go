package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	unsentWait  = 4 * time.Second        // for a master: one may be about to start
	unsentPause = 200 * time.Millisecond // before a request that reached no master is sent again

	// A request that was answered with CodeUnavailable is sent again after 250 ms, and then after twice as long each
	// time, up to 2 s.
	busyPause    = 250 * time.Millisecond
	maxBusyPause = 2 * time.Second

	repeatAfter = 3 * time.Second // until the first repeat of a request that has no reply
	repeatEvery = 2 * time.Second // until the next repeats; the server sends each to any of the masters
	maxRepeats  = 3               // of requests without a reply
)

// decided are the verbs that change something and may be repeated: dispatch, which runs a job once however often it is
// requested, and those that are decided by compare-and-set, so that a repeat changes nothing more.
var decided = []string{
	"dispatch", "cancel", "approve", "reject", "pause", "resume", "pin", "unpin", "retry", "unsilence",
}

// repeatable reports whether a request with this verb may be sent again when it is not known whether it was received.
func repeatable(verb string) bool { return wire.Reads(verb) || slices.Contains(decided, verb) }

// within returns ctx, with that limit if it has no deadline.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// request sends a request and returns the reply. It ends as soon as the bus refuses the subject, and at the latest with
// ctx.
//
//   - A request that reached no master is sent again for 4 s. While the connection to the bus is away it is sent again
//     until ctx ends, and the 4 s begin when the connection is back.
//   - A request with a repeatable verb is sent again if no reply comes: the master that received it may have died or be
//     frozen.
//   - A request with a repeatable verb is sent again for 15 s if the reply has [CodeUnavailable]: the bus may elect a
//     leader, which takes up to 10 s. If no other reply comes, the newest of these is returned: a full disk lasts
//     longer.
func (c *Client) request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer c.denials.watch(subject, cancel)()
	tokens := strings.Split(subject, ".")
	q := &exchange{
		c: c, subject: subject, data: data, ended: make(chan attempt),
		repeatable: repeatable(tokens[len(tokens)-2]),
		unsent:     time.Now().Add(unsentWait), pause: busyPause,
	}
	a := q.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, nats.ErrPermissionViolation) {
		return nil, cause
	}
	return a.msg, a.err
}

// An exchange is a request that may be sent several times, until one reply is final.
type exchange struct {
	c          *Client
	subject    string
	data       []byte
	repeatable bool
	ended      chan attempt
	open       int       // requests that wait for a reply
	unsent     time.Time // until when a request that reaches no master is sent again
	// until when a request that was answered with CodeUnavailable is sent again; zero: none was
	busy  time.Time
	pause time.Duration // before the next request after a reply with CodeUnavailable
}

// An attempt is one request that has ended.
type attempt struct {
	msg *nats.Msg
	err error
}

func (a attempt) unavailable() bool {
	return a.err == nil && a.msg.Header.Get(micro.ErrorCodeHeader) == string(CodeUnavailable)
}

func (q *exchange) run(ctx context.Context) attempt {
	ctx, cancel := context.WithCancel(ctx)
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel()

	var newest attempt
	send := func() {
		q.open++
		sending.Go(func() { q.send(ctx) })
	}
	send()
	again := time.NewTimer(repeatAfter)
	defer again.Stop()
	for repeats := 0; ; {
		select {
		case <-ctx.Done():
			if newest.msg == nil && newest.err == nil {
				newest.err = ctx.Err()
			}
			return newest
		case newest = <-q.ended:
			q.open--
			pause, more := q.judge(newest)
			if !more {
				return newest
			}
			if q.open == 0 {
				again.Reset(pause)
			}
		case <-again.C:
			next := repeatAfter
			if q.open > 0 {
				if !q.repeatable || repeats == maxRepeats {
					continue
				}
				repeats++
				next = repeatEvery
			}
			send()
			again.Reset(next)
		}
	}
}

// send sends the request once. What ends with ctx is no attempt: the caller has given up.
func (q *exchange) send(ctx context.Context) {
	m := &nats.Msg{Subject: q.subject, Data: q.data, Header: nats.Header{}}
	if until, ok := ctx.Deadline(); ok { // so that masters leave what comes too late
		wire.SetCallerWaits(m.Header, time.Until(until))
	}
	msg, err := q.c.nc.RequestMsgWithContext(ctx, m)
	if err != nil && ctx.Err() != nil {
		return
	}
	select {
	case q.ended <- attempt{msg, err}:
	case <-ctx.Done():
	}
}

// judge reports whether an attempt is not final, and how long to wait before the next one if no other waits for a
// reply.
func (q *exchange) judge(a attempt) (pause time.Duration, more bool) {
	switch {
	case a.unavailable():
		pause = q.pause
		q.pause = min(2*q.pause, maxBusyPause)
		q.unsent = time.Now().Add(unsentWait)
		if q.busy.IsZero() {
			q.busy = time.Now().Add(answerWait)
		}
		return pause, q.repeatable && time.Now().Before(q.busy)
	case errors.Is(a.err, nats.ErrNoResponders):
		return unsentPause, q.open > 0 || time.Now().Before(q.unsent)
	case errors.Is(a.err, nats.ErrReconnectBufExceeded): // the connection is away; masters may be back later than it is
		q.unsent = time.Now().Add(unsentWait)
		return unsentPause, true
	}
	return 0, false
}
