package settings

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	getTimeout  = 2 * time.Second // short, so that thousands of peels recover soon after a server restarts
	getFirstGap = 250 * time.Millisecond
	getLastGap  = 10 * time.Second
)

// An Update is what [Watch.Run] delivers. Exactly one field is set.
type Update struct {
	Document *Document // has a higher generation than all documents before
	Refused  error     // an invalid document arrived; the document in force stays
	Missing  bool      // the bus has no document for this peel
	// Confirmed is the generation of the newest document on the bus. It is the newest delivered document, or
	// [WatchOptions].After. The receiver may have refused it.
	Confirmed uint64
}

// WatchOptions are the options of a [Watch]. All but After are required.
type WatchOptions struct {
	Conn *nats.Conn // may be reconnecting
	Peel target.PeelID
	// After is the generation of the document that the peel already has; Run delivers only higher ones.
	After uint64
	Log   *slog.Logger
}

// A Watch is the peel's access to the settings bucket. It subscribes to the subject on which the stream re-publishes
// the peel's key. It also gets the key at the start, after every reconnect and after a gap in the sequence. The
// subscription starts before the get, so no document is lost between the two; the highest generation wins.
//
// The server sends replies to any subject that a requester names, so another peel can have a reply sent to this one.
// Watch therefore accepts only messages with the key of this peel in the server's header and in the document.
type Watch struct {
	o       WatchOptions
	lookup  chan struct{} // one get is due
	updated chan struct{} // there is an update to deliver

	mu         sync.Mutex
	generation uint64 // highest accepted generation
	sequence   uint64 // of the last message of the key, 0 if unknown
	document   *Document
	others     []Update // to deliver after document; at most one of each kind
}

// NewWatch returns a watch; call [Watch.Run] to start it.
func NewWatch(o WatchOptions) *Watch {
	return &Watch{o: o, generation: o.After, lookup: make(chan struct{}, 1), updated: make(chan struct{}, 1)}
}

// Run calls deliver for one update at a time: documents in the order of their generations, and only the newest of
// several that arrive during a call. It returns nil when ctx ends, or an error when the connection is closed for good.
// All its goroutines have ended then.
func (w *Watch) Run(ctx context.Context, deliver func(context.Context, Update)) error {
	sub, err := w.o.Conn.SubscribeSync(liveSubject(w.o.Peel))
	if err != nil {
		return fmt.Errorf("cannot watch the settings of %s: %w", w.o.Peel, err)
	}
	connected := w.o.Conn.StatusChanged(nats.CONNECTED)
	running, cancel := context.WithCancelCause(ctx)
	var parts sync.WaitGroup
	parts.Go(func() { cancel(w.listen(running, sub)) })
	parts.Go(func() { w.get(running, connected) })
	wake(w.lookup)
	for running.Err() == nil {
		select {
		case <-running.Done():
		case <-w.updated:
			for _, u := range w.take() {
				deliver(running, u)
			}
		}
	}
	parts.Wait()
	w.o.Conn.RemoveStatusListener(connected)
	err = sub.Unsubscribe()
	if ctx.Err() == nil {
		return fmt.Errorf("cannot watch the settings of %s: %w", w.o.Peel, context.Cause(running))
	}
	if err != nil && !errors.Is(err, nats.ErrConnectionClosed) && !errors.Is(err, nats.ErrBadSubscription) {
		return fmt.Errorf("cannot end the watch for settings of %s: %w", w.o.Peel, err)
	}
	return nil
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (w *Watch) take() []Update {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.others
	if w.document != nil {
		out = append([]Update{{Document: w.document}}, out...)
	}
	w.document, w.others = nil, nil
	return out
}

// listen handles re-published messages until ctx ends or the connection is closed.
func (w *Watch) listen(ctx context.Context, sub *nats.Subscription) error {
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case err == nil:
			w.onMessage(msg)
		case errors.Is(err, nats.ErrSlowConsumer):
			wake(w.lookup)
		default:
			return err
		}
	}
}

func (w *Watch) onMessage(msg *nats.Msg) {
	if err := w.check(msg); err != nil {
		w.o.Log.Warn("refused settings", "peel", w.o.Peel, "err", err)
		return
	}
	sequence, _ := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
	before, err := strconv.ParseUint(msg.Header.Get("Nats-Last-Sequence"), 10, 64)
	w.mu.Lock()
	gap := err != nil || w.sequence != 0 && before != w.sequence
	w.sequence = sequence
	w.mu.Unlock()
	w.offer(msg, false)
	if gap {
		wake(w.lookup)
	}
}

// check returns an error unless the bucket's stream sent the message for this peel's key.
func (w *Watch) check(msg *nats.Msg) error {
	if stream, key := msg.Header.Get("Nats-Stream"), msg.Header.Get("Nats-Subject"); stream != bucketStream ||
		key != keySubject(w.o.Peel) {
		return fmt.Errorf("the message on %s comes from %q in the stream %q", msg.Subject, key, stream)
	}
	return nil
}

// offer queues the update for a message of the key. If the message is a reply to a get (current), there is always an
// update, as the reply is the state of the bus now.
func (w *Watch) offer(msg *nats.Msg, current bool) {
	var d *Document
	var err error
	if !deleted(msg.Header) {
		d, err = Decode(msg.Data, w.o.Peel)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err != nil:
		w.queueLocked(Update{Refused: err})
	case d == nil:
		w.queueLocked(Update{Missing: true})
	case d.Generation > w.generation:
		w.generation, w.document, w.others = d.Generation, d, nil
		wake(w.updated)
	case current && d.Generation == w.generation:
		w.queueLocked(Update{Confirmed: d.Generation})
	case d.Generation < w.generation:
		w.o.Log.Warn("dropped older settings", "peel", w.o.Peel, "commit", d.Commit, "generation", d.Generation,
			"have", w.generation)
	}
}

// queueLocked keeps the newest update of each kind. The caller holds mu.
func (w *Watch) queueLocked(u Update) {
	for i, o := range w.others {
		if o.Missing == u.Missing && (o.Refused == nil) == (u.Refused == nil) {
			w.others = append(w.others[:i], w.others[i+1:]...)
			break
		}
	}
	w.others = append(w.others, u)
	wake(w.updated)
}

// get gets the key whenever that is due, and repeats a failed get with growing pauses.
func (w *Watch) get(ctx context.Context, connected <-chan nats.Status) {
	for gap := time.Duration(0); ; {
		var retry <-chan time.Time
		if gap > 0 {
			retry = time.After(rand.N(gap)) // full jitter, as a whole fleet sends gets at the same time
		}
		select {
		case <-ctx.Done():
			return
		case _, open := <-connected:
			if !open {
				connected = nil // the connection is closed for good
			}
		case <-w.lookup:
		case <-retry:
		}
		switch err := w.getOnce(ctx); {
		case err == nil:
			gap = 0
		case ctx.Err() == nil:
			w.o.Log.Debug("cannot get settings, trying again", "peel", w.o.Peel, "err", err)
			gap = min(max(2*gap, getFirstGap), getLastGap)
		}
	}
}

// getOnce gets the key once. It returns an error unless the bus replied.
func (w *Watch) getOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	msg, err := w.o.Conn.RequestWithContext(ctx, directGet(w.o.Peel), nil)
	if err != nil {
		return err
	}
	switch status := msg.Header.Get("Status"); {
	case status == "404":
		w.mu.Lock()
		w.queueLocked(Update{Missing: true})
		w.mu.Unlock()
		return nil
	case status != "":
		return fmt.Errorf("the server replied %s %s", status, msg.Header.Get("Description"))
	}
	if err := w.check(msg); err != nil {
		return err
	}
	sequence, err := strconv.ParseUint(msg.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return fmt.Errorf("the reply has no sequence: %w", err)
	}
	w.mu.Lock()
	w.sequence = sequence
	w.mu.Unlock()
	w.offer(msg, true)
	return nil
}
