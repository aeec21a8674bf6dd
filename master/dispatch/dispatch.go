// Package dispatch runs jobs on peels: it records a request, sends it to its targets, counts what they return and
// records how the job ended. Make a [Dispatcher] with [New] and a [Scanner] with [NewScanner] and call Run of both.
// Requests come over the bus or by [Dispatcher.Submit]; [Dispatcher.Cancel] stops a job.
//
// A master may stop after any step, so the order of the steps is an invariant:
//
//  1. a record with status claimed is created among the live jobs, with this master as owner and a deadline on its
//     clock, if no ended job has the ID;
//  2. the store is read for a revocation of the job's user. A revocation is stored before it cancels the live jobs, so
//     either it finds the job or this check finds the revocation;
//  3. the revision of the claim becomes the job's epoch, and the event dispatched is recorded in the stream job-events;
//  4. the record is changed to running, on the condition that no other master has changed it;
//  5. the request is published to each target.
//
// So the request of a record that is claimed was never published. A claim that cannot be dispatched is withdrawn before
// the caller gets the error, and its ID is free again; if the withdrawal fails too, the error is [ErrUnknown]. The same
// request under the same ID continues a claim that is left, and else returns the job as it is; a different request
// under an ID that is taken is refused. A job belongs to the master once it is recorded: the caller may leave.
//
// # Returns
//
// A job is watched from before the first request is published until it ends. The sender of a message is the last token
// of its subject. The bucket job-returns stores the first return of each target, refuses all later ones, and
// re-publishes what it has stored, to which the dispatcher subscribes. So a return that counts is stored, and counts
// once. A stored return that is damaged or contradicts its subject counts as failed. If messages may have been missed,
// the bucket is read: within 15 s, and before targets are given up.
//
// Targets that are silent when the acknowledgement window ends get the same request once more, under the same epoch, by
// which peels recognise it; those still silent after a second window are unreachable, until they acknowledge or return.
// The deadline is counted on the monotonic clock; each request has how much of it was left.
//
// A batch bounds how many targets work at a time: one that returns, is unreachable or has taken all its time makes room
// for the next. The record has how many targets may have the request before these are sent it. With
// [job.Spec.WhenOnline] a target that is unreachable is sent the request when it sends its facts, as peels do when they
// connect, and has the whole timeout from then.
//
// # Permissions and cancels
//
// Before any later publication the permissions of the job's user are checked again: for the next targets of a batch,
// for a target that connects, for the repeat to a silent target, and by a master that took the job over. If the user
// may no longer run the job, it is canceled; while the check fails, nothing is published. A target whose credential was
// revoked since the job was made is given up: the host that has its name now is another one, and the user of the job
// knew nothing about it. A cancel is recorded first, so it holds for every later owner. From then on no further target
// is sent the request; the job ends when all that were have returned, or after ten seconds.
//
// # The end
//
// The end of a job is first a conditional write of its live record, so that a former owner cannot end it. Then the
// final record is copied to the ended jobs, the event status is recorded, and the live record is removed. If a master
// stops in between, another one repeats these steps. Each event of a job's life is in the stream once.
//
// A user may fill a sixteenth of the bucket of ended jobs at once, and as much again in a week. While less than half of
// the bucket is free, each further record of that user goes after 10 minutes instead of a week, so that it pushes out
// no record of others.
//
// # Taking over
//
// A master that stops releases its jobs. A [Scanner] takes over the jobs of masters that have stopped or died. The
// owner of a job is one run of a master, see package bus. Every master reads all live jobs every 20 s. An owner without
// a heartbeat in two scans in a row is dead. A failed read proves nothing: such a scan changes nothing, and neither
// does one that does not find this run's own heartbeat. So a job whose owner died is taken over within 55 s. A job that
// was released is taken over at once; so is one of an earlier run of this master. A record that cannot be decoded is
// logged with its key and skipped.
//
// Taking over is one conditional write of the record, which raises its epoch: of several masters one succeeds, and
// every write of the former owner is refused. The new owner reads the stored returns and sends the request again to
// each target without one. The requests keep the epoch of the first, whichever master sends them, so a peel runs the
// job once. A job that has been taken from dead owners more than [MaxReclaims] times is ended as failed, because it may
// be what kills them. The clocks of masters need not agree: how much time is left is computed from the record and the
// bus's clock. Heartbeats and records are read from the leader of their stream.
//
// Known gap: on a cluster a return that is stored before all servers know the subscription of its job is missed, and
// counts when the bucket is read next.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// MaxLive is how many jobs that have not ended one master dispatches, and MaxLiveBytes how many bytes their requests
// may take, encoded. They bound the bucket active, which has no other limit and keeps ten revisions of a record: a
// master fills at most 2.5 GiB of it. Jobs that are taken over count, and are never refused.
const (
	MaxLive      = 10_000
	MaxLiveBytes = 256 << 20
)

// shortHistory is how long the record of an ended job is kept whose user has used up a share of the bucket jobs.
const shortHistory = 10 * time.Minute

// DefaultAckWindow is how long a target may be silent before it gets its request again.
const DefaultAckWindow = 5 * time.Second

const (
	acceptAtOnce = 32               // requests in progress
	acceptQueue  = 256              // requests that wait
	pendingBytes = 256 << 20        // of cancels and facts that wait for their handler
	handOverWait = 2 * time.Second  // for requests that reached this master before the bus knew that it stops
	selectLimit  = 2 * time.Second  // for the peels that the expression of a request selects
	listenLimit  = 5 * time.Second  // for the bus to accept the subscriptions of a job
	replayLimit  = 30 * time.Second // for one reading of all returns of a job
	// for the withdrawal of a claim that could not be dispatched, for which its caller waits
	withdrawLimit = 3 * time.Second
	stopGrace     = 5 * time.Second // for jobs to be released when the master stops, and for one request to the bus
)

// Errors of requests, beside those of the [job.Store].
var (
	ErrInvalid = errors.New("the request is not valid")
	ErrTaken   = errors.New("the job ID belongs to another job")
	// ErrElsewhere: another master has claimed the job and not dispatched it yet. The request may be repeated.
	ErrElsewhere = errors.New("another master is about to dispatch the job")
	ErrBusy      = errors.New("too many requests are waiting")
	errStopping  = errors.New("this master is stopping, repeat the request")
	// ErrTooManyLive: this master has [MaxLive] jobs that have not ended, or their requests take [MaxLiveBytes].
	ErrTooManyLive = errors.New(
		"too many jobs have not ended: wait for some to end, or cancel some that `zester job active` lists",
	)
	// ErrUnknown: the job may run, because it could be neither dispatched nor withdrawn.
	ErrUnknown = errors.New("whether the job runs is not known")
)

// IsRefusal reports whether the error of a request says that it is not allowed, not valid, or conflicts with another.
func IsRefusal(err error) bool {
	return errors.Is(err, grants.ErrNotAllowed) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrTaken)
}

// A WaitsError says that a job waits for a second person, and was not begun.
type WaitsError struct {
	Held string // ID of the held action
	Text string // the whole sentence for people
}

func (e *WaitsError) Error() string { return e.Text }

// EntryOf returns the entry of a request in the audit log, which ended with err.
func EntryOf(spec *job.Spec, err error) audit.Entry {
	e := audit.Dispatch(spec, err, IsRefusal(err))
	if waits, ok := errors.AsType[*WaitsError](err); ok {
		e.Result, e.Held = audit.Asked, waits.Held
	}
	return e
}

// Errors of [Dispatcher.Cancel], beside [job.ErrNotFound].
var (
	ErrEnded    = errors.New("the job has ended")
	ErrCanceled = errors.New("the job is being canceled already")
)

// Options are what a Dispatcher works with.
type Options struct {
	Conn  *nats.Conn // of a master, with a reconnect buffer of -1
	Store *job.Store
	Owner string // this run of the master; no other run has the same
	// AckWindow is how long a target may be silent before it gets its request once more: 0 means [DefaultAckWindow],
	// and with a negative one no request is sent again.
	AckWindow time.Duration
	// Allow authorizes requests from the bus; its error is [grants.ErrNotAllowed] if one is not allowed. Before later
	// publications of a job it is called again with the targets in question, and the Caller has only the name and
	// the role of the user. If nil, all requests are allowed.
	Allow func(ctx context.Context, from grants.Caller, spec *job.Spec) error
	// Select returns the peels that an expression selects for the caller of a request from the bus, sorted. If nil, no
	// expression is taken for what it selects.
	Select func(ctx context.Context, from grants.Caller, expr string) ([]target.PeelID, error)
	// CheckNotRevoked returns [grants.ErrNotAllowed] if the user of a job was revoked. It is called when the claim is
	// stored, before the first publication, and must see every revocation that was stored before. If nil, no user was
	// revoked.
	CheckNotRevoked func(ctx context.Context, user string) error
	// Revoked returns the peels whose credential was revoked after a time: a host that comes under their name is
	// another one. It is called before later publications of a job. If nil, no peel was revoked.
	Revoked func(ctx context.Context, since time.Time, peels []target.PeelID) ([]target.PeelID, error)
	// Approved returns the metadata of a job that its user approved as the held action with an ID, or
	// [grants.ErrNotAllowed]. If nil, no action was approved.
	Approved func(ctx context.Context, user string, spec *job.Spec, action string) (map[string]string, error)
	// Second returns a [WaitsError] if a job waits for a second person, and another error if nobody can approve it. If
	// nil, no job waits.
	Second func(ctx context.Context, from grants.Caller, spec *job.Spec) error
	// Room returns an error while the bus stores nothing: then no job begins. If nil, there is always room.
	Room func() error
	// Records counts what each user has in the bucket jobs. If nil, nothing is counted.
	Records *quota.Account
	Audit   *audit.Log   // of requests from the bus; if nil, none are recorded
	Log     *slog.Logger // if nil, nothing is logged
}

// A Dispatcher is one master's part in dispatching jobs. Make it with [New] and call Run once.
type Dispatcher struct {
	o        Options
	log      *slog.Logger
	refusals *loglimit.Limiter
	inbox
	requests chan request
	resumed  chan *watch   // from the scanner: of jobs that this master has taken over
	answers  chan struct{} // closed when it has subscribed to requests
	counts   counters
	started  time.Time
	maxLive  int
	// maxLiveBytes bounds liveBytes.
	maxLiveBytes int
	// clustered reports whether the bus may have several servers. Then one may store a return that another does not
	// deliver.
	clustered func() bool
	reached   func(step) // in tests: called at each step

	mu      sync.Mutex
	watches map[wire.JID]*watch // jobs that are being dispatched or watched here
	waiting map[wire.JID]*watch // those of them that wait for targets to connect
	stopped bool                // Run has ended: requests are refused
	// liveBytes is the sum of the sizes of the watches.
	liveBytes int
}

// request is a request for a job. Answer is called once with its result.
type request struct {
	spec   job.Spec
	user   string
	from   *grants.Caller // nil: the caller of Submit has authorized it, and records it in the audit log
	late   func() bool    // the caller has given up; nil: it waits
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
		o:            o,
		log:          o.Log,
		refusals:     loglimit.New(o.Log),
		inbox:        newInbox(),
		requests:     make(chan request, acceptQueue),
		resumed:      make(chan *watch),
		answers:      make(chan struct{}),
		maxLive:      MaxLive,
		maxLiveBytes: MaxLiveBytes,
		watches:      map[wire.JID]*watch{},
		waiting:      map[wire.JID]*watch{},
		counts:       counters{stats: newStats()},
		clustered:    func() bool { return o.Conn.ConnectedClusterName() != "" },
	}, nil
}

// Run answers zester.dispatch.* as a member of the masters' queue group and watches the jobs that it has dispatched,
// until ctx ends; then it releases its jobs, which takes 5 s at most, and returns nil. An error means that it could not
// begin.
func (d *Dispatcher) Run(ctx context.Context) error {
	d.started = time.Now()
	for subject, handler := range map[string]nats.MsgHandler{wire.AllCancels: d.onCancel, wire.AllFacts: d.onFacts} {
		unsubscribe, err := d.subscribe(subject, handler)
		if err != nil {
			return fmt.Errorf("cannot subscribe to %s: %w", subject, err)
		}
		defer unsubscribe()
	}
	service := bus.NewService(ctx, d.o.Conn)
	defer service.Stop()
	if err := service.Handle(wire.AllDispatches, d.onRequest); err != nil {
		return err
	}
	close(d.answers)

	// Work that goes on when ctx ends has stopGrace to come to a safe point.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	watching, endReceive := context.WithCancel(work)
	var receiving, working sync.WaitGroup
	receiving.Go(func() { d.take(watching) })
	receiving.Go(func() { d.receive(watching) })
	slots := make(chan struct{}, acceptAtOnce)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case w := <-d.resumed:
			working.Go(func() { d.takeOver(ctx, work, w) })
		case slots <- struct{}{}:
			working.Go(func() { d.next(ctx, work, slots) })
		}
	}
	defer time.AfterFunc(stopGrace, stop).Stop()
	service.Leave()
	d.refuseWaiting()
	working.Wait()
	endReceive()
	receiving.Wait()
	return nil
}

// Answering is closed when the dispatcher has subscribed to requests. The bus has processed that once it has replied to
// a later flush of the same connection.
func (d *Dispatcher) Answering() <-chan struct{} { return d.answers }

// next waits for a request, dispatches its job and watches it. It gives its slot back when the job is published or
// refused.
func (d *Dispatcher) next(ctx, work context.Context, slots <-chan struct{}) {
	select {
	case <-ctx.Done():
		<-slots
	case r := <-d.requests:
		if r.late != nil && r.late() {
			<-slots
			return // its caller has repeated it, or does not want it any more
		}
		w, j, err := d.accept(work, &r)
		<-slots
		if repeated := w == nil && err == nil && audit.IsRepeat(j.Created); r.from != nil && !repeated {
			d.o.Audit.Write(work, EntryOf(&r.spec, err).By(*r.from))
		}
		r.answer(j, err)
		if w != nil {
			d.watch(ctx, work, w)
		}
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
			r.answer(nil, fmt.Errorf("cannot run job %s: %w", r.spec.JID, errStopping))
		default:
			return
		}
	}
}

func (d *Dispatcher) subscribe(subject string, handler nats.MsgHandler) (unsubscribe func(), err error) {
	sub, err := d.o.Conn.Subscribe(subject, handler)
	if err == nil {
		err = sub.SetPendingLimits(-1, pendingBytes)
	}
	if err == nil {
		err = d.o.Conn.Flush()
	}
	return func() { _ = sub.Unsubscribe() }, err
}

// onRequest queues a request from the bus. The user is the last token of its subject, which the bus lets that user
// alone publish to.
func (d *Dispatcher) onRequest(req *bus.Request) {
	from := grants.CallerOf(req.Subject(), req.Headers())
	r := request{
		user:   from.User,
		from:   &from,
		late:   req.Late,
		answer: func(j *job.Job, err error) { d.respond(req, j, err) },
	}
	msg := &nats.Msg{Subject: req.Subject(), Header: req.Headers(), Data: req.Data()}
	if err := wire.Decode(msg, &r.spec); err != nil {
		r.answer(nil, fmt.Errorf("%w: %w", ErrInvalid, err))
		return
	}
	d.enqueue(r)
}

// respond answers with the job's summary or an error.
func (d *Dispatcher) respond(req *bus.Request, j *job.Job, err error) {
	var data []byte
	if err == nil {
		data, err = canon.Marshal(j.Summary())
	}
	if err := bus.SendReply(d.o.Conn, req, data, code(err), err); err != nil {
		d.log.Debug("request not answered", "user", wire.Sender(req.Subject()), "err", err)
	}
}

// code returns the code of an answer with an error.
func code(err error) string {
	_, waits := errors.AsType[*WaitsError](err)
	switch {
	case waits:
		return "202"
	case errors.Is(err, ErrInvalid):
		return "400"
	case errors.Is(err, ErrTaken):
		return "409"
	case errors.Is(err, grants.ErrNotAllowed):
		return "403"
	}
	return "503"
}

// Submit requests a job as user and returns its record once it is published, or as it is if it was requested before.
// The job goes on if ctx ends. Run must be running.
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
	err := errStopping
	d.mu.Lock()
	if !d.stopped {
		select {
		case d.requests <- r:
			err = nil
		default:
			err = ErrBusy
		}
	}
	d.mu.Unlock()
	if err != nil {
		r.answer(nil, fmt.Errorf("cannot run job %s: %w", r.spec.JID, err))
	}
}

// find returns the watch of a job, nil if it is not dispatched from here.
func (d *Dispatcher) find(jid wire.JID) *watch {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.watches[jid]
}

// forget removes a watch and its subscriptions. Another watch of the same job stays.
func (d *Dispatcher) forget(w *watch) {
	for _, sub := range w.subs {
		_ = sub.Unsubscribe()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.watches[w.jid] == w {
		d.liveBytes -= w.size
		delete(d.watches, w.jid)
	}
	if d.waiting[w.jid] == w {
		delete(d.waiting, w.jid)
	}
}
