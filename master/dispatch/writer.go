package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// writesAtOnce is how many returns are on their way to the bucket and not acknowledged.
	writesAtOnce = 1024
	bytesAtOnce  = 64 << 20
	writeWait    = 2 * time.Second // for an acknowledgement, before the return is sent again
)

// A writer stores returns beside the callbacks that hear them, which hand over without waiting. It sends them to the
// bucket's stream as they come, up to a number in flight, and checks the acknowledgement of each. What is not
// acknowledged is sent again, which is refused where only the acknowledgement was lost: the first return of a peel stays,
// whichever master stores it.
type writer struct {
	nc     *nats.Conn
	counts *counters
	log    *slog.Logger
	wake   chan struct{} // holds one token when there may be something to do
	inbox  string        // before the tokens

	mu      sync.Mutex
	queue   []write
	flying  map[uint64]flight // by the token of the subject for the acknowledgement
	bytes   int               // of what flies
	last    uint64            // token
	pause   time.Duration     // since writes fail
	closed  bool
	resting time.Time // nothing is sent before
	looked  time.Time // when overdue acknowledgements were looked for
}

// write is one return on its way. Stored is called once, when it is in the bucket.
type write struct {
	jid    wire.JID
	peel   target.PeelID
	data   []byte
	stored func()
}

type flight struct {
	write
	until time.Time
}

func newWriter(nc *nats.Conn, counts *counters, log *slog.Logger) *writer {
	return &writer{nc: nc, counts: counts, log: log, wake: make(chan struct{}, 1), flying: map[uint64]flight{}}
}

func (w *writer) put(r write) {
	w.mu.Lock()
	w.queue = append(w.queue, r)
	w.mu.Unlock()
	w.signal()
}

// close lets run return when everything is stored. Nothing may be put afterwards.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// listen begins to hear acknowledgements.
func (w *writer) listen() (unsubscribe func(), err error) {
	w.inbox = w.nc.NewInbox()
	sub, err := w.nc.Subscribe(w.inbox+".*", w.acknowledged)
	if err != nil {
		return nil, err
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// run stores what is put, until the writer is closed and empty or ctx ends.
func (w *writer) run(ctx context.Context) {
	tick := time.NewTicker(firstPause)
	defer tick.Stop()
	for {
		waiting, idle := w.send()
		if idle {
			return
		}
		var again <-chan time.Time
		if waiting {
			again = tick.C
		}
		select {
		case <-w.wake:
		case <-again:
		case <-ctx.Done():
			w.mu.Lock()
			left := len(w.queue) + len(w.flying)
			w.mu.Unlock()
			w.log.Error("returns not stored", "returns", left, "err", ctx.Err())
			return
		}
	}
}

// send sends as many returns as may be in flight. Waiting says that something has to be looked at again without a
// sign; idle that all is stored and nothing more comes.
func (w *writer) send() (waiting, idle bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	w.retryOverdue(now)
	if !now.Before(w.resting) {
		for len(w.queue) > 0 && len(w.flying) < writesAtOnce && (w.bytes < bytesAtOnce || len(w.flying) == 0) {
			r := w.queue[0]
			w.last++
			m := job.ReturnMessage(r.jid, r.peel, r.data)
			m.Reply = w.inbox + "." + strconv.FormatUint(w.last, 10)
			if err := w.nc.PublishMsg(m); err != nil {
				w.failed(&r, err)
				break
			}
			w.queue[0] = write{}
			w.queue = w.queue[1:]
			w.flying[w.last] = flight{r, now.Add(writeWait)}
			w.bytes += len(r.data)
		}
	}
	left := len(w.queue) + len(w.flying)
	return left > 0, left == 0 && w.closed
}

// retryOverdue puts back what was not acknowledged in time. It is for who holds the lock.
func (w *writer) retryOverdue(now time.Time) {
	if now.Sub(w.looked) < time.Second {
		return
	}
	w.looked = now
	for token, f := range w.flying {
		if now.After(f.until) {
			w.land(token, f)
			w.queue = append(w.queue, f.write)
			w.failed(&f.write, errors.New("the bus has not acknowledged it"))
		}
	}
}

// land is for who holds the lock.
func (w *writer) land(token uint64, f flight) {
	delete(w.flying, token)
	w.bytes -= len(f.data)
}

// failed lets the writer rest, longer each time until something is stored. It is for who holds the lock.
func (w *writer) failed(r *write, err error) {
	w.counts.retried.Add(1)
	if now := time.Now(); !now.Before(w.resting) {
		w.pause = min(max(2*w.pause, firstPause), lastPause)
		w.resting = now.Add(w.pause)
		w.log.Warn("return not stored yet", "jid", r.jid, "peel", r.peel, "err", err)
	}
}

// acknowledged is called for every answer of the bucket's stream.
func (w *writer) acknowledged(msg *nats.Msg) {
	token, err := strconv.ParseUint(msg.Subject[strings.LastIndexByte(msg.Subject, '.')+1:], 10, 64)
	if err != nil {
		return
	}
	err = job.Kept(msg)
	w.mu.Lock()
	f, known := w.flying[token]
	if known {
		w.land(token, f)
		if err != nil {
			w.queue = append(w.queue, f.write)
			w.failed(&f.write, err)
		} else {
			w.pause, w.resting = 0, time.Time{}
		}
	}
	w.mu.Unlock()
	if known && err == nil {
		w.counts.stored.Add(1)
		f.stored()
	}
	w.signal()
}
