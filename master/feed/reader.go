package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// streamName is the stream that holds the newest facts of every peel.
const streamName = "facts"

const (
	checkEvery   = 10 * time.Second
	pulse        = 5 * time.Second // of an idle consumer
	askTimeout   = 5 * time.Second
	readTimeout  = time.Minute // of all bindings
	retryAtFirst = 250 * time.Millisecond
	retryAtLast  = 10 * time.Second
	// idleConsumer is how long the server keeps a consumer that was left.
	idleConsumer = 30 * time.Second
	// inFlight bounds the bytes that wait to be read.
	inFlight = 8 << 20
)

// reader follows the stream; Run's goroutine owns it.
type reader struct {
	feed *Feed
	js   jetstream.JetStream

	next    uint64    // the stream's sequence to read next
	created time.Time // of the stream that next counts in
	// pass counts the readings from the start. At the end of one, peels that
	// it did not meet are gone.
	pass    int
	whole   bool           // the pass is not at its end yet
	ready   bool           // feed.ready is closed
	known   map[string]int // the pass in which a subject was met last
	atCheck checkpoint
}

// checkpoint is what the last check saw.
type checkpoint struct {
	next, last uint64
	odd        oddity
}

// oddity is a number of subjects in the stream that is not the number read.
type oddity struct{ stream, read uint64 }

func (r *reader) run(ctx context.Context) error {
	wait := retryAtFirst
	connected := r.feed.nc.StatusChanged(nats.CONNECTED)
	defer r.feed.nc.RemoveStatusListener(connected)
	for {
		began := time.Now()
		err := r.follow(ctx, connected)
		switch {
		case ctx.Err() != nil:
			return nil
		case r.feed.nc.IsClosed():
			return errors.New("cannot follow the facts of the fleet: the connection to the bus is closed")
		case errors.Is(err, errReadOn):
			continue
		}
		if time.Since(began) > retryAtLast {
			wait = retryAtFirst
		}
		r.feed.log.Warn("facts are not current, reading on", "err", err, "wait", wait)
		select {
		case <-ctx.Done():
		case <-connected:
			r.feed.listens(time.Now())
		case <-time.After(wait):
		}
		wait = min(2*wait, retryAtLast)
	}
}

// errReadOn asks for a new consumer where nothing went wrong.
var errReadOn = errors.New("read on")

// follow reads with one consumer until it can no longer be trusted.
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
	}, jetstream.PullMaxBytes(inFlight), jetstream.PullHeartbeat(pulse),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case errs <- err:
			default:
			}
		}))
	if err != nil {
		return fmt.Errorf("cannot read stream %s: %w", streamName, err)
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
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for number := uint64(1); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m := <-ev.msgs:
			if err := r.message(ctx, m, number); err != nil {
				return err
			}
			number++
		case err := <-ev.errs:
			return fmt.Errorf("cannot read stream %s: %w", streamName, err)
		case <-ev.connected:
			r.feed.listens(time.Now())
			return errReadOn
		case <-check.C:
			if err := r.check(ctx, stream); err != nil {
				return err
			}
			r.feed.forgetStrangers()
		}
	}
}

// open looks the stream up and returns its last sequence. It begins a new pass
// where next does not count in this stream.
func (r *reader) open(ctx context.Context) (jetstream.Stream, uint64, error) {
	if err := r.feed.refreshBindings(ctx); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, err := r.js.Stream(ctx, streamName)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot find stream %s: %w", streamName, err)
	}
	info := stream.CachedInfo()
	if r.foreign(info) {
		r.readAll(info.Created)
	}
	r.atCheck.next, r.atCheck.last = 0, 0
	return stream, info.State.LastSeq, nil
}

// foreign reports whether the stream is not the one that was read: it was recreated, or restored to an earlier state.
func (r *reader) foreign(info *jetstream.StreamInfo) bool {
	return !info.Created.Equal(r.created) || info.State.LastSeq+1 < r.next
}

// readAll begins a new pass.
func (r *reader) readAll(created time.Time) {
	r.created, r.next, r.whole = created, 1, true
	r.pass++
}

func (r *reader) consumer(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c, err := stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		FilterSubject:     wire.AllFacts,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.next,
		AckPolicy:         jetstream.AckNonePolicy,
		InactiveThreshold: idleConsumer,
		MemoryStorage:     true,
		Replicas:          1,
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read stream %s: %w", streamName, err)
	}
	return c, nil
}

// message takes the consumer's message of that number, counted from 1.
func (r *reader) message(ctx context.Context, m jetstream.Msg, number uint64) error {
	meta, err := m.Metadata()
	if err != nil {
		return fmt.Errorf("cannot read stream %s: %w", streamName, err)
	}
	if meta.Sequence.Consumer != number {
		return fmt.Errorf("cannot read stream %s: message %d of the consumer is missing", streamName, number)
	}
	w := wire.Sender(m.Subject())
	facts, err := wire.DecodeFacts(&nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
	if err == nil {
		if err = r.feed.admit(ctx, facts); err != nil && !errors.Is(err, ErrRefused) {
			return err // it is read again
		}
	}
	r.next = meta.Sequence.Stream + 1
	if err != nil {
		r.feed.refused.Add(1)
		r.feed.refusals.Warn(w, "facts refused", "peel", w, "err", err)
	} else {
		r.feed.put(w, facts)
		r.feed.hear(w, earlier(meta.Timestamp, time.Now()))
	}
	r.known[w] = r.pass
	if meta.NumPending == 0 {
		r.caughtUp()
	}
	return nil
}

// earlier bounds the server's clock by the own one.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// caughtUp ends a pass.
func (r *reader) caughtUp() {
	if !r.whole {
		return
	}
	r.whole = false
	for w, pass := range r.known {
		if pass < r.pass {
			delete(r.known, w)
			r.feed.remove(w)
		}
	}
	if !r.ready {
		r.ready = true
		close(r.feed.ready)
	}
}

// check compares what was read with what the stream says of itself. Its error
// means that another consumer must read on.
func (r *reader) check(ctx context.Context, stream jetstream.Stream) error {
	if err := r.feed.refreshBindings(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("cannot compare with stream %s: %w", streamName, err)
	}
	before := r.atCheck
	r.atCheck.next, r.atCheck.last = r.next, info.State.LastSeq
	switch odd := (oddity{info.State.NumSubjects, uint64(len(r.known))}); {
	case r.foreign(info):
		return errReadOn
	case r.next == before.next && r.next <= before.last:
		return fmt.Errorf("cannot read stream %s: stopped before sequence %d of %d", streamName, r.next, before.last)
	case odd.stream == odd.read:
		r.atCheck.odd = oddity{}
		return nil
	case r.next <= info.State.LastSeq || odd == before.odd:
		return nil
	default:
		// All is read, and peels were deleted from the stream. An oddity that
		// a pass did not mend is no reason for another.
		r.atCheck.odd = odd
		r.readAll(r.created)
		return errReadOn
	}
}
