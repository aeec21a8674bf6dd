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

// streamName is the stream with the newest facts of every peel.
const streamName = "facts"

const (
	checkEvery        = 10 * time.Second
	consumerHeartbeat = 5 * time.Second // of the server, while it has no messages
	requestTimeout    = 5 * time.Second
	readTimeout       = time.Minute // for all bindings
	minRetryWait      = 250 * time.Millisecond
	maxRetryWait      = 10 * time.Second
	idleConsumer      = 30 * time.Second // how long the server keeps a consumer without a reader
	maxBuffered       = 8 << 20          // bytes of messages that were received and not read yet
)

// reader follows the stream; Run's goroutine owns it.
type reader struct {
	feed *Feed
	js   jetstream.JetStream

	next    uint64    // the sequence to read next
	created time.Time // of the stream that next belongs to
	// pass counts the readings from the start of the stream. At the end of a pass, peels that had no message in it are removed.
	pass    int
	whole   bool           // the pass has not ended yet
	ready   bool           // feed.ready is closed
	known   map[string]int // the last pass with a message of the peel, by wire ID
	atCheck checkpoint
}

// A checkpoint has the values of the last check.
type checkpoint struct {
	next, last uint64   // the sequence to read next, and the last one of the stream
	differs    mismatch // zero if the numbers of peels were equal
}

// A mismatch is a number of peels in the stream that differs from the number of known peels.
type mismatch struct{ stream, known uint64 }

func (r *reader) run(ctx context.Context) error {
	wait := minRetryWait
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
		if time.Since(began) > maxRetryWait {
			wait = minRetryWait
		}
		r.feed.log.Warn("facts are not current, reading on", "err", err, "wait", wait)
		select {
		case <-ctx.Done():
		case <-connected:
			r.feed.setSince(time.Now())
		case <-time.After(wait):
		}
		wait = min(2*wait, maxRetryWait)
	}
}

// errReadOn: a new consumer is needed, although there was no error.
var errReadOn = errors.New("read on")

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
			if err := r.onMessage(ctx, m, number); err != nil {
				return err
			}
			number++
		case err := <-ev.errs:
			return fmt.Errorf("cannot read stream %s: %w", streamName, err)
		case <-ev.connected:
			r.feed.setSince(time.Now())
			return errReadOn
		case <-check.C:
			if err := r.check(ctx, stream); err != nil {
				return err
			}
			r.feed.forgetOffline()
		}
	}
}

// open looks the stream up and returns its last sequence. It begins a new pass if the stream was recreated or restored.
func (r *reader) open(ctx context.Context) (jetstream.Stream, uint64, error) {
	if err := r.feed.refreshBindings(ctx); err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	stream, err := r.js.Stream(ctx, streamName)
	if err != nil {
		return nil, 0, fmt.Errorf("cannot find stream %s: %w", streamName, err)
	}
	info := stream.CachedInfo()
	if r.wasReplaced(info) {
		r.readAll(info.Created)
	}
	r.atCheck.next, r.atCheck.last = 0, 0
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

// onMessage handles a message of the consumer; number is the expected one, counted from 1.
func (r *reader) onMessage(ctx context.Context, m jetstream.Msg, number uint64) error {
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
		r.feed.markSeen(w, earlier(meta.Timestamp, time.Now()))
	}
	r.known[w] = r.pass
	if meta.NumPending == 0 {
		r.caughtUp()
	}
	return nil
}

// earlier returns the earlier of two times. It keeps times of the server from lying ahead of this master's clock.
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

// check compares what was read with the state of the stream. After an error another consumer has to read on.
func (r *reader) check(ctx context.Context, stream jetstream.Stream) error {
	if err := r.feed.refreshBindings(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := stream.Info(ctx)
	if err != nil {
		return fmt.Errorf("cannot compare with stream %s: %w", streamName, err)
	}
	before := r.atCheck
	r.atCheck.next, r.atCheck.last = r.next, info.State.LastSeq
	switch peels := (mismatch{info.State.NumSubjects, uint64(len(r.known))}); {
	case r.wasReplaced(info):
		return errReadOn
	case r.next == before.next && r.next <= before.last:
		return fmt.Errorf("cannot read stream %s: stopped before sequence %d of %d", streamName, r.next, before.last)
	case peels.stream == peels.known:
		r.atCheck.differs = mismatch{}
		return nil
	case r.next <= info.State.LastSeq || peels == before.differs:
		return nil
	default:
		// All is read, and peels were deleted from the stream. If a pass does not remove the mismatch, there is no second one.
		r.atCheck.differs = peels
		r.readAll(r.created)
		return errReadOn
	}
}
