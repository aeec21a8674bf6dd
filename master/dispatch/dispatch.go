// Package dispatch turns what a person asks for into a job: it records it, sends it to its targets, gathers what they
// return and decides how it ended.
//
// The order of the steps is an invariant, because any of them may be the last that a master takes:
//
//  1. a record is created among the live jobs that says claimed, with this master as owner and a deadline on its clock,
//     and no job that has ended has the ID;
//  2. the store is read for a revocation of the job's user. A revocation is stored before it cancels the live jobs, so
//     either it finds the job or this check finds the revocation;
//  3. the revision of the claim becomes the job's epoch, and the stream job-events gets the event dispatched;
//  4. the record is changed to running, on the condition that nobody has changed it;
//  5. only then the request is published to each target.
//
// So the request of a record that is claimed was never published. A claim that cannot be dispatched is withdrawn before the
// caller gets the error, and its ID is free again; if the withdrawal fails too, the error is [ErrUnknown]. The same request
// under the same ID continues a claim that is left, and else returns the job as it is; a different request under an ID that
// is taken is refused.
//
// From before the first request is published until the job ends it is watched. The sender of an acknowledgement or a
// return is the last token of its subject. The bucket job-returns stores the first return of each target, refuses all
// later ones, and re-publishes what it has stored; the dispatcher subscribes to that before the first request is
// published. So a return that counts is stored, and counts once. A stored return that is damaged or contradicts its subject
// counts as a failed one. Messages that were missed, because the bus was away or too many came at once, are made up for by
// reading the bucket: at the latest after 15 s, and before targets are given up.
//
// Targets that are silent when the acknowledgement window ends get the same request once more, under the same epoch, by
// which peels know that they have it; those still silent after a second window are unreachable, until they acknowledge or
// return. The deadline is counted on the monotonic clock; each request tells its peel how much of it was left.
//
// A batch is a window of targets that work: one that returns, is unreachable or has taken all its time leaves its
// place to the next. How far the targets were sent the request is in the record before they are. With
// [job.Spec.WhenOnline] a target that is away is sent the request when it tells its facts, as peels do when they
// connect, and has the whole timeout from then.
//
// Before any later publication the permissions of the job's user are checked again: for the next targets of a batch, for a
// target that is back, for the repeat to a silent target, and by a master that took the job over. If the user may no longer
// run the job, it is canceled; while the check fails, nothing is published.
//
// Whoever cancels a job has the wish recorded first, so that it holds for every later owner. From then on no further
// target is sent the request; the job ends when all that were have returned, or after ten seconds.
//
// A job belongs to the master once it is recorded: the caller may leave. A master that stops releases its jobs. The master
// that takes a job over raises its epoch by a conditional write; every write of the former owner is refused from then on, and
// the former owner lets go when it learns that. The new owner reads the stored returns and sends the request again to each
// target without one. The requests keep the epoch under which the first was sent, whichever master sends them, so a peel runs
// the job once. Each event of a job's life is in the stream once, whichever master records it.
//
// The end of a job is first a conditional write of its live record, so that a former owner cannot end it. Then the final
// record is copied to the ended jobs, the event status is recorded, and the live record is removed. If a master stops in
// between, another one repeats these steps.
//
// A known gap: on a cluster a return that is stored before all servers know the subscription of its job is missed, and
// counts when the bucket is read next.
//
// # Taking over
//
// A [Scanner] takes over the jobs of masters that have stopped or died. The owner of a job is one run of a master: its
// name and an ID that no other run has. Every master writes a heartbeat every 5 s into the bucket masters, where it lives
// for 15 s under the master's name and says which run has the name. It is written on the condition that no other run has
// it, so of two processes with one name the second does not start ([Scanner.Enter]), and one that lost its name while it
// could not renew it ends.
//
// Every master looks every 20 s at the owners of all live jobs. An owner without a heartbeat in two looks in a row is dead.
// What cannot be read proves nothing: such a look ends with nothing changed, and so does one that does not find this
// run's own heartbeat. So a job whose owner died is taken over within 55 s. A job that its owner has released, when it
// stopped in peace, is taken over at once; so is one of an earlier run of this master, because that run has ended.
//
// Taking over is one conditional write of the record: of several masters one succeeds. A job that has been taken from
// dead owners more than [MaxReclaims] times is ended as failed, because it may be what kills them. The clocks of masters
// need not agree: how much time a job has left is computed from its record and the bus's clock. Heartbeats and records
// are read from the leader of their stream.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/reply"
	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// MaxLive is how many jobs that have not ended one master dispatches. It bounds the bucket active, which has no other limit.
// Jobs that are taken over count, and are never refused.
const MaxLive = 10_000

// DefaultAckWindow is how long a target may be silent before it gets its request again.
const DefaultAckWindow = 5 * time.Second

const (
	acceptAtOnce = 32              // requests of people that are worked on
	acceptQueue  = 256             // requests of people that wait
	pendingBytes = 256 << 20       // of cancels and facts that wait for their handler
	handOverWait = 2 * time.Second // for what reached this master before the bus knew that it stops
	listenLimit  = 5 * time.Second // for the bus to take the subscriptions of a job
	stopGrace    = 5 * time.Second
)

// What requests are refused for, beside what the store says.
var (
	ErrInvalid = errors.New("the request is not valid")
	ErrTaken   = errors.New("the job ID belongs to another job")
	// ErrElsewhere is of a job that another master has claimed and not dispatched yet: asking again helps.
	ErrElsewhere = errors.New("another master is about to dispatch the job")
	ErrBusy      = errors.New("too many requests are waiting")
	// ErrTooManyLive: this master has [MaxLive] jobs that have not ended.
	ErrTooManyLive = errors.New("too many jobs have not ended: wait for some to end, or cancel some that `zester job active` lists")
	// ErrUnknown: the job may run, because it could be neither dispatched nor withdrawn.
	ErrUnknown = errors.New("whether the job runs is not known")
)

// What a cancel is refused for, beside [job.ErrNotFound].
var (
	ErrEnded    = errors.New("the job has ended")
	ErrCanceled = errors.New("the job is being canceled already")
)

// Options are what a Dispatcher works with.
type Options struct {
	Conn  *nats.Conn // of a master, with a reconnect buffer of -1
	Store *job.Store
	Owner string // this run of the master in the records; no other run has the same
	// AckWindow is how long a target may be silent before it gets its request once more: 0 means
	// [DefaultAckWindow], a negative one that it does not.
	AckWindow time.Duration
	// Allow authorizes requests that come over the bus; its error is [grants.ErrNotAllowed] if one is not allowed. Before later
	// publications of a job it is called again with the targets in question, and the Caller has the user's name alone. If
	// nil, everything is allowed.
	Allow func(ctx context.Context, from grants.Caller, spec *job.Spec) error
	// CheckNotRevoked returns [grants.ErrNotAllowed] if the user of a job was revoked. It is called when the claim is stored,
	// before the first publication, and must see every revocation that was stored before. If nil, nobody was revoked.
	CheckNotRevoked func(ctx context.Context, user string) error
	// Room returns an error while the bus stores nothing: then no job begins. If nil, there is always room.
	Room  func() error
	Audit *audit.Log   // gets what comes over the bus; nil: nothing is kept
	Log   *slog.Logger // nil: nothing is logged
}

// A Dispatcher is one master's part in dispatching jobs. Make it with [New] and call Run once.
type Dispatcher struct {
	o        Options
	log      *slog.Logger
	refusals *loglimit.Limiter
	messages chan *nats.Msg // acknowledgements and stored returns of the jobs that are watched
	requests chan request
	resumed  chan *job.Job // from the scanner: jobs that this master has taken over
	counts   counters
	started  time.Time
	maxLive  int
	reached  func(step) // in tests: called at each step

	mu      sync.Mutex
	watches map[wire.JID]*watch // jobs that are being dispatched or watched here
	patient map[wire.JID]*watch // those of them whose targets may come later
	stopped bool                // Run has ended: requests are refused
}

// request is what a person asks for, and where the answer goes.
type request struct {
	spec   job.Spec
	user   string
	from   *grants.Caller // nil: whoever submits it has judged it, and keeps account of it
	answer func(*job.Job, error)
}

// New checks the options. It starts nothing.
func New(o Options) (*Dispatcher, error) {
	if o.Conn == nil || o.Store == nil || o.Owner == "" {
		return nil, errors.New("cannot dispatch jobs without a connection, a store and the name of the master")
	}
	if o.AckWindow == 0 {
		o.AckWindow = DefaultAckWindow
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Room == nil {
		o.Room = func() error { return nil }
	}
	if o.CheckNotRevoked == nil {
		o.CheckNotRevoked = func(context.Context, string) error { return nil }
	}
	return &Dispatcher{
		o: o, log: o.Log, refusals: loglimit.New(o.Log), messages: make(chan *nats.Msg, maxPending),
		requests: make(chan request, acceptQueue), resumed: make(chan *job.Job),
		maxLive: MaxLive, watches: map[wire.JID]*watch{}, patient: map[wire.JID]*watch{},
	}, nil
}

// Run answers zester.dispatch.* as one of the masters' queue group and watches what it has dispatched, until ctx
// ends; then it releases its jobs, which takes seconds at most, and returns nil. An error means that it could not begin.
func (d *Dispatcher) Run(ctx context.Context) error {
	d.started = time.Now()
	unsubscribe, err := d.subscribe()
	if err != nil {
		return fmt.Errorf("cannot subscribe to cancels and facts: %w", err)
	}
	defer unsubscribe()
	service, err := d.serve()
	if err != nil {
		return fmt.Errorf("cannot serve the dispatch of jobs: %w", err)
	}

	// What is under way when ctx ends is brought to a safe point in the time of grace.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	watching, endReceive := context.WithCancel(work)
	var receiving, working sync.WaitGroup
	receiving.Go(func() { d.receive(watching) })
	slots := make(chan struct{}, acceptAtOnce)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case j := <-d.resumed:
			working.Go(func() { d.takeOver(ctx, work, j) })
		case slots <- struct{}{}:
			working.Go(func() { d.next(ctx, work, slots) })
		}
	}
	defer time.AfterFunc(stopGrace, stop).Stop()
	err = service.Stop()
	reply.WaitForHandlers(d.o.Conn, handOverWait)
	d.refuseWaiting()
	working.Wait()
	endReceive()
	receiving.Wait()
	if err != nil && !d.o.Conn.IsClosed() {
		d.log.Warn("dispatch service not stopped cleanly", "err", err)
	}
	return nil
}

// next waits for a request and sees its job through. It gives its slot back when the job is published or refused.
func (d *Dispatcher) next(ctx, work context.Context, slots <-chan struct{}) {
	select {
	case <-ctx.Done():
		<-slots
	case r := <-d.requests:
		w, j, err := d.accept(work, r)
		<-slots
		d.account(work, &r, err)
		r.answer(j, err)
		if w != nil {
			d.watch(ctx, work, w)
		}
	}
}

// account enters what came of a request of the bus into the audit log.
func (d *Dispatcher) account(ctx context.Context, r *request, err error) {
	if r.from != nil {
		d.o.Audit.Write(ctx, Entry(&r.spec, err).By(*r.from))
	}
}

// refuseWaiting refuses the requests in the queue, and makes enqueue refuse all later ones.
func (d *Dispatcher) refuseWaiting() {
	d.mu.Lock()
	d.stopped = true
	d.mu.Unlock()
	for {
		select {
		case r := <-d.requests:
			r.answer(nil, stopping(r.spec.JID))
		default:
			return
		}
	}
}

func (d *Dispatcher) subscribe() (unsubscribe func(), err error) {
	var subs []*nats.Subscription
	unsubscribe = func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe()
		}
	}
	for subject, heard := range map[string]nats.MsgHandler{
		wire.AllCancels: d.onCancel, wire.AllFacts: d.onFacts,
	} {
		sub, err := d.o.Conn.Subscribe(subject, heard)
		if err == nil {
			subs = append(subs, sub)
			err = sub.SetPendingLimits(-1, pendingBytes)
		}
		if err != nil {
			unsubscribe()
			return nil, err
		}
	}
	return unsubscribe, d.o.Conn.Flush()
}

func (d *Dispatcher) serve() (micro.Service, error) {
	service, err := micro.AddService(d.o.Conn, micro.Config{Name: "zester-dispatch", Version: "1.0.0", QueueGroup: wire.MastersQueue})
	if err != nil {
		return nil, err
	}
	if err := service.AddEndpoint("dispatch", micro.HandlerFunc(d.asked), micro.WithEndpointSubject(wire.AllDispatches)); err != nil {
		return nil, errors.Join(err, service.Stop())
	}
	return service, nil
}

// asked takes a request off the bus. The user is the last token of its subject, which the bus lets nobody else use.
func (d *Dispatcher) asked(req micro.Request) {
	from := grants.CallerOf(req.Subject(), nats.Header(req.Headers()))
	r := request{user: from.User, from: &from, answer: func(j *job.Job, err error) { d.respond(req, j, err) }}
	msg := &nats.Msg{Subject: req.Subject(), Header: nats.Header(req.Headers()), Data: req.Data()}
	if err := wire.Decode(msg, &r.spec); err != nil {
		r.answer(nil, fmt.Errorf("%w: %w", ErrInvalid, err))
		return
	}
	d.enqueue(r)
}

// respond answers with the job's summary or an error.
func (d *Dispatcher) respond(req micro.Request, j *job.Job, err error) {
	var data []byte
	if err == nil {
		data, err = canon.Marshal(j.Summary())
	}
	if err := reply.Send(d.o.Conn, req, data, code(err), err); err != nil {
		d.log.Debug("request not answered", "user", wire.Sender(req.Subject()), "err", err)
	}
}

// code is what an error is answered with.
func code(err error) string {
	switch {
	case errors.Is(err, ErrInvalid):
		return "400"
	case errors.Is(err, ErrTaken):
		return "409"
	case errors.Is(err, grants.ErrNotAllowed):
		return "403"
	}
	return "503"
}

// Submit asks for a job as user and returns its record once it is published, or as it is if it was asked for before.
// The job goes on whatever becomes of ctx. It needs Run.
func (d *Dispatcher) Submit(ctx context.Context, spec job.Spec, user string) (*job.Job, error) {
	type answer struct {
		job *job.Job
		err error
	}
	answers := make(chan answer, 1)
	d.enqueue(request{spec: spec, user: user, answer: func(j *job.Job, err error) { answers <- answer{j, err} }})
	select {
	case a := <-answers:
		return a.job, a.err
	case <-ctx.Done():
		return nil, unknown(spec.JID, ctx.Err())
	}
}

// enqueue puts a request into the queue, or refuses it.
func (d *Dispatcher) enqueue(r request) {
	if err := d.tryEnqueue(r); err != nil {
		r.answer(nil, err)
	}
}

func (d *Dispatcher) tryEnqueue(r request) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return stopping(r.spec.JID)
	}
	select {
	case d.requests <- r:
		return nil
	default:
		return fmt.Errorf("cannot run job %s: %w", r.spec.JID, ErrBusy)
	}
}

// find returns the watch of a job, nil if it is not dispatched from here.
func (d *Dispatcher) find(jid wire.JID) *watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watches[jid]
}

// live returns how many jobs are dispatched or watched here.
func (d *Dispatcher) live() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.watches)
}

// forget ends the watch of a job and its subscriptions.
func (d *Dispatcher) forget(w *watch) {
	for _, sub := range w.subs {
		_ = sub.Unsubscribe()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watches, w.jid)
	delete(d.patient, w.jid)
}
