// File follow.go follows a stream that keeps the newest message of each subject. Make a [Follower] with [NewFollower],
// run [Follower.Run] on a goroutine of its own, and ask [Follower.Health] before you judge by what was read.
//
// Guarantees: a message is read at least once, and the newest of a subject last. To miss none, the consumer has
// heartbeats, a gap in its sequence or a reconnect makes the follower read on with a new consumer, and every ten
// seconds it compares itself with the last sequence and the number of subjects of the stream. A subject whose message
// was deleted from the stream is reported as removed. Memory is bounded: at most 8 MiB of messages wait to be read.
//
// The facts of peels, their reports on schedules and their settings are followed by it.

package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// FollowCheckEvery is the time between two comparisons with the stream.
const FollowCheckEvery = 10 * time.Second

const (
	consumerHeartbeat = 5 * time.Second // of the server, while it has no messages
	requestTimeout    = 5 * time.Second
	minRetryWait      = 250 * time.Millisecond
	maxRetryWait      = 10 * time.Second
	idleConsumer      = 30 * time.Second // how long the server keeps a consumer without a reader
	maxBuffered       = 8 << 20          // bytes of messages that were received and not read yet
)

// A FollowMessage is one message of the stream.
type FollowMessage struct {
	Key    string    // the last token of the subject
	Msg    *nats.Msg // as the publisher sent it
	Stored time.Time // on the clock of the bus
}

// FollowOptions are the options of a Follower. All but Check and OnClock are required.
type FollowOptions struct {
	JetStream jetstream.JetStream
	Stream    string
	Subject   string // which messages of the stream; the last token is the wildcard
	// OnMessage is called for each message, and OnRemoved for each key that has none any more, on the goroutine of Run.
	// After an error the message is read again.
	OnMessage func(context.Context, FollowMessage) error
	OnRemoved func(key string)
	// Check is called there before each reading and each comparison with the stream. After an error the follower tries
	// again.
	Check func(context.Context) error
	// OnClock is called there before each reading with what the clock of the bus shows.
	OnClock func(time.Time)
	Log     *slog.Logger
}

// FollowHealth says how far a stream was read.
type FollowHealth struct {
	Ready  bool      // all messages that were stored at the start were read
	Behind time.Time // since when messages may be missing; zero: none
	// Connected is when the present connection to the bus was first used.
	Connected time.Time
}

// A Follower follows a stream. Its methods may be called from several goroutines.
type Follower struct {
	o     FollowOptions
	ready chan struct{}

	mu     sync.Mutex
	health FollowHealth
}

// NewFollower makes a follower. It starts nothing.
func NewFollower(o FollowOptions) *Follower {
	if o.Check == nil {
		o.Check = func(context.Context) error { return nil }
	}
	if o.OnClock == nil {
		o.OnClock = func(time.Time) {}
	}
	return &Follower{o: o, ready: make(chan struct{})}
}

// Health returns how far the stream was read.
func (f *Follower) Health() FollowHealth {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

// Ready is closed when all messages that were stored at the start were read.
func (f *Follower) Ready() <-chan struct{} { return f.ready }

// Run follows the stream until ctx ends, and then returns nil. Errors of the bus are logged and retried, except that a
// closed connection is returned as an error.
func (f *Follower) Run(ctx context.Context) error {
	r := reader{f: f, known: map[string]int{}}
	nc := f.o.JetStream.Conn()
	connected := nc.StatusChanged(nats.CONNECTED)
	defer nc.RemoveStatusListener(connected)
	wait := minRetryWait
	for {
		began := time.Now()
		f.setConnected(began)
		err := r.follow(ctx, connected)
		switch {
		case ctx.Err() != nil:
			return nil
		case nc.IsClosed():
			return fmt.Errorf("cannot follow the stream %s: the connection to the bus is closed", f.o.Stream)
		case errors.Is(err, errReadOn):
			continue
		}
		f.setBehind(time.Now())
		if time.Since(began) > maxRetryWait {
			wait = minRetryWait
		}
		f.o.Log.Warn("a stream is not current, reading on", "stream", f.o.Stream, "err", err, "wait", wait)
		select {
		case <-ctx.Done():
		case <-connected:
			f.resetConnected()
		case <-time.After(wait):
		}
		wait = min(2*wait, maxRetryWait)
	}
}

// setConnected records the first use of a connection.
func (f *Follower) setConnected(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.health.Connected.IsZero() {
		f.health.Connected = at
	}
}

// resetConnected records that there is another connection.
func (f *Follower) resetConnected() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.health.Connected = time.Now()
}

// setBehind records since when messages may be missing, unless it is known already. A zero time records that none are.
func (f *Follower) setBehind(since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if since.IsZero() || f.health.Behind.IsZero() {
		f.health.Behind = since
	}
}

func (f *Follower) setReady() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.health.Ready {
		f.health.Ready = true
		close(f.ready)
	}
}

// errReadOn: a new consumer is needed, although there was no error.
var errReadOn = errors.New("read on")

// A reader reads the stream; the goroutine of Run owns it.
type reader struct {
	f       *Follower
	next    uint64    // the sequence to read next
	created time.Time // of the stream that next belongs to
	// pass counts the readings from the start of the stream. At the end of a pass, keys without a message in it are
	// removed.
	pass  int
	whole bool           // the pass has not ended yet
	known map[string]int // the last pass with a message, by key
	last  checkpoint
}

// A checkpoint has the values of the last check.
type checkpoint struct {
	at         time.Time
	next, last uint64 // the sequence to read next, and the last one of the stream
	differs    mismatch
}

// A mismatch is a number of subjects in the stream that differs from the number of known keys.
type mismatch struct{ stream, known uint64 }

// follow reads with one consumer until it may have missed messages.
func (r *reader) follow(ctx context.Context, connected <-chan nats.Status) error {
	stream, last, err := r.open(ctx)
	if err != nil {
		return err
	}
	consumer, err := r.consumer(ctx, stream)
	if err != nil {
		return err
	}
	if consumer.CachedInfo().NumPending == 0 {
		r.next = max(r.next, last+1)
		r.caughtUp()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	msgs, errs := make(chan jetstream.Msg), make(chan error, 1)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		select {
		case msgs <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxBytes(maxBuffered), jetstream.PullHeartbeat(consumerHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case errs <- err:
			default:
			}
		}))
	if err != nil {
		return fmt.Errorf("cannot read the stream %s: %w", r.f.o.Stream, err)
	}
	defer func() { cancel(); consuming.Stop(); <-consuming.Closed() }()
	return r.loop(ctx, stream, events{msgs, errs, connected})
}

// events are what can happen to a consumer.
type events struct {
	msgs      <-chan jetstream.Msg
	errs      <-chan error
	connected <-chan nats.Status
}

func (r *reader) loop(ctx context.Context, stream jetstream.Stream, ev events) error {
	check := time.NewTicker(FollowCheckEvery)
	defer check.Stop()
	for number := uint64(1); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-ev.msgs:
			if err := r.onMessage(ctx, m, number); err != nil {
				return err
			}
			number++
		case err := <-ev.errs:
			return fmt.Errorf("cannot read the stream %s: %w", r.f.o.Stream, err)
		case <-ev.connected:
			r.f.resetConnected()
			return errReadOn
		case <-check.C:
			if err := r.check(ctx, stream); err != nil {
				return err
			}
		}
	}
}

// open looks the stream up and returns its last sequence. It begins a new pass if the stream was recreated or restored.
func (r *reader) open(ctx context.Context) (jetstream.Stream, uint64, error) {
	if err := r.f.o.Check(ctx); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := r.f.o.JetStream.Stream(ctx, r.f.o.Stream)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot find the stream %s: %w", r.f.o.Stream, err)
	}
	info := stream.CachedInfo()
	r.f.o.OnClock(info.TimeStamp)
	if r.wasReplaced(info) {
		r.readAll(info.Created)
	}
	r.last.next, r.last.last = 0, 0
	return stream, info.State.LastSeq, nil
}

// wasReplaced reports whether the stream was recreated, or restored to an earlier state, since it was read.
func (r *reader) wasReplaced(info *jetstream.StreamInfo) bool {
	return !info.Created.Equal(r.created) || info.State.LastSeq+1 < r.next
}

// readAll begins a new pass.
func (r *reader) readAll(created time.Time) {
	r.created, r.next, r.whole = created, 1, true
	r.pass++
}

func (r *reader) consumer(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject:     r.f.o.Subject,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.next,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: idleConsumer,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the stream %s: %w", r.f.o.Stream, err)
	}
	return c, nil
}

// onMessage handles a message of the consumer; number is the expected one, counted from 1.
func (r *reader) onMessage(ctx context.Context, m jetstream.Msg, number uint64) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("cannot read the stream %s: %w", r.f.o.Stream, err)
	}
	if meta.Sequence.Consumer != number {
		return fmt.Errorf("cannot read the stream %s: message %d of the consumer is missing", r.f.o.Stream, number)
	}
	subject := m.Subject()
	key := subject[strings.LastIndexByte(subject, '.')+1:]
	msg := &nats.Msg{Subject: subject, Header: m.Headers(), Data: m.Data()}
	if err := r.f.o.OnMessage(ctx, FollowMessage{Key: key, Msg: msg, Stored: meta.Timestamp}); err != nil {
		return err
	}
	r.next = meta.Sequence.Stream + 1
	r.known[key] = r.pass
	if meta.NumPending == 0 {
		r.caughtUp()
	}
	return nil
}

// caughtUp records that all messages were read. It ends a pass.
func (r *reader) caughtUp() {
	r.f.setBehind(time.Time{})
	if !r.whole {
		return
	}
	r.whole = false
	for key, pass := range r.known {
		if pass < r.pass {
			delete(r.known, key)
			r.f.o.OnRemoved(key)
		}
	}
	r.f.setReady()
}

// check compares what was read with the state of the stream. After an error another consumer has to read on.
func (r *reader) check(ctx context.Context, stream jetstream.Stream) error {
	if err := r.f.o.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("cannot compare with the stream %s: %w", r.f.o.Stream, err)
	}
	before := r.last
	r.last.at, r.last.next, r.last.last = time.Now(), r.next, info.State.LastSeq
	if r.next <= before.last {
		r.f.setBehind(before.at)
	}
	switch keys := (mismatch{info.State.NumSubjects, uint64(len(r.known))}); {
	case r.wasReplaced(info):
		return errReadOn
	case r.next == before.next && r.next <= before.last:
		return fmt.Errorf("cannot read the stream %s: stopped before sequence %d of %d", r.f.o.Stream, r.next,
			before.last)
	case keys.stream == keys.known:
		r.last.differs = mismatch{}
		return nil
	case r.next <= info.State.LastSeq || keys == before.differs:
		return nil
	default:
		// All is read, and subjects were deleted from the stream. If a pass does not remove the mismatch, there is no
		// second one.
		r.last.differs = keys
		r.readAll(r.created)
		return errReadOn
	}
}
