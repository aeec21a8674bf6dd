// Package service serves the requests of clients on the bus: [On] makes a verb of a function from request to reply, and
// [Serve] serves verbs until its context ends.
//
// Guarantees, the same for all verbs:
//   - The name of the caller is the last token of the subject, which the bus enforces.
//   - A request has at most [Options.MaxRequest] bytes, is decoded strictly, and has passed its method Check before the
//     function gets it.
//   - A [Lane] bounds how many requests are carried out and how many wait; one more is refused at once, and may be
//     repeated. A request whose caller has given up while it waited is not carried out.
//   - The context of a read ends when its caller gives up. A change is not cut off by its caller.
//   - The rules about the caller allow the verb; see [user.Store.Check]. A caller who may not read about all peels gets
//     no reply that is about the whole fleet; see [api.WholeFleet].
//   - A request that needs two persons is not carried out for one, and waits as a held action; see [access.Second].
//   - A request that changes something is in the audit log before its reply, also if it was refused or not valid. The
//     audit log has no entry for reads, for requests that the lane refused, and for changes that were only checked.
//   - A service whose context ends, as at the end of a lease, leaves no subscription behind. What it has received is
//     carried out for 2 s, and then refused.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var errStopping = errors.New("this master is stopping; ask again")

// A Call is a request that is being carried out.
type Call struct {
	From  grants.Caller
	Data  []byte      // the request as it was sent
	About audit.Entry // names what the request is about; the function fills it in, also before it returns an error
	Dry   bool        // the function only checked the change

	subject   string
	header    nats.Header
	unchecked bool
	// held is the ID of the held action as which the request waits, or which it carries out.
	held string
	// wait has the request wait because of the files that it changes; nil: none of them needs a second person.
	wait  func(context.Context, []string) error
	asker *grants.Caller // who asked for the held action that the request carries out
}

// By returns the caller, and who asked for the held action that the request carries out: both have to be allowed it.
func (c *Call) By() []grants.Caller {
	if c.asker == nil {
		return []grants.Caller{c.From}
	}
	return []grants.Caller{c.From, *c.asker}
}

// A Verb is what a service does with the requests for one verb of the API. Make it with [On].
type Verb struct {
	noun, verb string
	subject    string // all subjects of the verb, whose last token is the caller
	changes    bool
	shows      api.Showing
	lane       *Lane
	unchecked  bool
	naming     func(context.Context, *Call) error // nil: the request says all
	carryOut   func(context.Context, *Call) (any, error)
}

// On returns a verb that f carries out. If Q has a method Check() error, a request that does not pass it is refused. An
// empty message is the zero request. Verbs of [wire.Reads] change nothing, all others do.
func On[Q, A any](e api.Endpoint[Q, A], f func(context.Context, *Call, Q) (*A, error)) Verb {
	carryOut := func(ctx context.Context, c *Call) (any, error) {
		var q Q
		err := decode(c, &q)
		if checked, ok := any(&q).(interface{ Check() error }); ok && err == nil && !c.unchecked {
			err = checked.Check()
		}
		if err != nil {
			return nil, &api.Error{Code: api.CodeInvalid, Msg: "cannot read the request: " + err.Error(), Err: err}
		}
		return f(ctx, c, q)
	}
	return Verb{
		noun: e.Noun, verb: e.Verb, subject: api.Subject(e.Noun, e.Verb, "*"), changes: !wire.Reads(e.Verb),
		shows: e.Shows, carryOut: carryOut,
	}
}

// In returns the verb with a lane of its own, in place of [Options.Lane].
func (v Verb) In(l *Lane) Verb {
	v.lane = l
	return v
}

// Unchecked returns the verb with a function that gets each request that can be decoded, and checks it itself.
func (v Verb) Unchecked() Verb {
	v.unchecked = true
	return v
}

// Naming returns the verb that calls f before a request waits for a second person. f completes [Call.Data] with what
// the request leaves to the time at which it is carried out, or refuses what could not be done now.
func (v Verb) Naming(f func(context.Context, *Call) error) Verb {
	v.naming = f
	return v
}

// Read returns the verb as one that changes nothing, or writes to the audit log itself.
func (v Verb) Read() Verb {
	v.changes = false
	return v
}

// decode decodes a request. An empty message leaves into as it is.
func decode(c *Call, into any) error {
	if len(c.Data) == 0 {
		return nil
	}
	return wire.Decode(&nats.Msg{Subject: c.subject, Header: c.header, Data: c.Data}, into)
}

// A Lane bounds requests. Several verbs and services may share one.
type Lane struct {
	places chan struct{} // of requests that are carried out or wait
	turns  chan struct{} // of those that are carried out
	each   int           // requests of one caller; 0: as many as there are places

	mu      sync.Mutex // guards callers
	callers map[string]int
}

// NewLane returns a lane in which some requests are carried out at once, and some more wait.
func NewLane(atOnce, waiting int) *Lane {
	return &Lane{places: make(chan struct{}, atOnce+waiting), turns: make(chan struct{}, atOnce)}
}

// Each returns the lane with a bound for each caller, who has at most n requests in it.
func (l *Lane) Each(n int) *Lane {
	l.each = n
	l.callers = map[string]int{}
	return l
}

// DoFor is [Lane.Do] for a request of a user. The error has [api.CodeUnavailable] if as many as [Lane.Each] says are in
// the lane.
func (l *Lane) DoFor(ctx context.Context, user string, f func()) error {
	if l.each == 0 {
		return l.Do(ctx, f)
	}
	if !l.enter(user) {
		msg := fmt.Sprintf("%d requests of %s of this kind are carried out or wait: ask again when one is done", l.each,
			user)
		return &api.Error{Code: api.CodeUnavailable, Msg: msg}
	}
	defer l.leave(user)
	return l.Do(ctx, f)
}

// enter counts a request of a user. It reports false if there are too many.
func (l *Lane) enter(user string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.callers[user] >= l.each {
		return false
	}
	l.callers[user]++
	return true
}

func (l *Lane) leave(user string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.callers[user]--; l.callers[user] == 0 {
		delete(l.callers, user)
	}
}

// Do waits for a turn and calls f. It takes no place of a request that waits. If ctx ends first, f is not called and Do
// returns the error of ctx.
func (l *Lane) Do(ctx context.Context, f func()) error {
	select {
	case l.turns <- struct{}{}:
		defer func() { <-l.turns }()
	case <-ctx.Done():
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f()
	return nil
}

// Options configure a service. Conn, Verbs and Lane are required.
type Options struct {
	Conn       *nats.Conn
	Verbs      []Verb
	Lane       *Lane         // of the verbs that have no lane of their own
	MaxRequest int           // bytes; 0: [wire.MaxMessage]
	Limit      time.Duration // for a request that is carried out; 0: none
	// Record stores an entry in the audit log, and returns when it is stored or cannot be. If nil, nothing is stored.
	Record func(context.Context, audit.Entry)
	// Code returns the code of an error; if nil, it is [CodeOf].
	Code  func(error) api.Code
	Ready func() // called when all subscriptions have been made; may be nil
	// Metrics count the requests; if nil, nothing is counted.
	Metrics *Metrics
	Log     *slog.Logger

	people *people
}

// Serve serves the verbs in the queue group of the masters until ctx ends, and returns when all requests have their
// replies.
func Serve(ctx context.Context, o Options) error {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Code == nil {
		o.Code = CodeOf
	}
	o.MaxRequest = cmp.Or(o.MaxRequest, wire.MaxMessage)
	o.people = &people{conn: o.Conn}
	s := bus.NewService(ctx, o.Conn)
	defer s.Stop()
	for _, v := range o.Verbs {
		lane := cmp.Or(v.lane, o.Lane)
		receive := func(ctx context.Context, req *bus.Request) {
			user := grants.CallerOf(req.Subject(), req.Headers()).User
			err := lane.DoFor(ctx, user, func() { o.serve(ctx, v, req) })
			if ctx.Err() != nil && err != nil {
				err = errStopping
			}
			if err != nil {
				o.send(req, nil, err)
			}
		}
		if err := s.HandleEach(v.subject, lane.places, receive); err != nil {
			return err
		}
	}
	if o.Ready != nil {
		o.Ready()
	}
	<-ctx.Done()
	return ctx.Err()
}

// serve carries out a request that has its turn.
func (o *Options) serve(ctx context.Context, v Verb, req *bus.Request) {
	if req.Late() {
		return // its caller has given up, and has repeated what may be repeated
	}
	ctx, cancel := o.limit(ctx, v, req)
	defer cancel()
	c := &Call{
		From: grants.CallerOf(req.Subject(), req.Headers()), Data: req.Data(),
		subject: req.Subject(), header: req.Headers(), unchecked: v.unchecked,
	}
	began := time.Now()
	answer, err := o.carryOut(ctx, v, c)
	took := time.Since(began)
	if v.changes && !c.Dry && o.Record != nil {
		o.Record(ctx, c.entry(v, err, o.Code(err) != api.CodeUnavailable))
	}
	var data []byte
	if err == nil {
		data, err = canon.Marshal(answer)
	}
	o.Metrics.count(v, o.Code(err), took)
	o.send(req, data, err)
}

// entry returns the entry of a request in the audit log, which ended with err.
func (c *Call) entry(v Verb, err error, isRefusal bool) audit.Entry {
	c.About.Action = v.noun + "." + v.verb
	e := c.About.Ended(err, isRefusal).By(c.From)
	e.Held = cmp.Or(c.held, e.Held)
	if api.CodeOf(err) == api.CodeWaits {
		e.Result = audit.Asked
	}
	return e
}

// limit returns the context of a request.
func (o *Options) limit(ctx context.Context, v Verb, req *bus.Request) (context.Context, context.CancelFunc) {
	var end time.Time
	if o.Limit > 0 {
		end = time.Now().Add(o.Limit)
	}
	if until := req.Until(); !v.changes && !until.IsZero() && (end.IsZero() || until.Before(end)) {
		end = until
	}
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end)
}

func (o *Options) carryOut(ctx context.Context, v Verb, c *Call) (any, error) {
	if len(c.Data) > o.MaxRequest {
		msg := fmt.Sprintf("the request has %d bytes, the limit is %d", len(c.Data), o.MaxRequest)
		return nil, &api.Error{Code: api.CodeInvalid, Msg: msg}
	}
	if err := o.people.check(ctx, c.From, v.asks(c), v.shows); err != nil {
		return nil, err
	}
	if err := o.second(ctx, v, c); err != nil {
		return nil, err
	}
	return v.carryOut(ctx, c)
}

func (o *Options) send(req *bus.Request, data []byte, err error) {
	if err := bus.SendReply(o.Conn, req, data, string(o.Code(err)), err); err != nil {
		o.Log.Debug("reply not sent", "subject", req.Subject(), "err", err)
	}
}

// CodeOf returns the code of an error in a reply: the code of an [api.Error] or of an error with a method Code()
// string, 400 for a target that cannot be read, 403 for [grants.ErrNotAllowed], and otherwise 503, as the same
// request may succeed later. It is empty for nil.
func CodeOf(err error) api.Code {
	if err == nil {
		return ""
	}
	if code := api.CodeOf(err); code != "" {
		return code
	}
	if coded, ok := errors.AsType[interface {
		error
		Code() string
	}](err); ok {
		return api.Code(coded.Code())
	}
	if _, ok := errors.AsType[*target.SyntaxError](err); ok {
		return api.CodeInvalid
	}
	if errors.Is(err, grants.ErrNotAllowed) {
		return api.CodeForbidden
	}
	return api.CodeUnavailable
}
