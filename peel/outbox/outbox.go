// Package outbox keeps what a peel owes the bus until the bus has acknowledged it.
//
// [Outbox.Put] returns when the message is on the disk; [Outbox.Run] sends the messages one after the other, oldest
// first, and deletes each after its acknowledgement. A message that cannot be sent stays, across restarts, and holds
// back those behind it, so the order in which puts ended is the order of sending. Every message is sent at least
// once: a crash between acknowledgement and deletion sends it again, which the receiving stream recognises by the
// message ID, and later readers by the job that the message speaks of.
//
// The outbox is bounded by [MaxItems] and [MaxBytes]. When it is full the oldest messages are dropped, counted by
// [Outbox.Dropped] and logged; so is a message that the bus will never take ([ErrRefused]) or the disk gives back
// damaged.
//
// Each message is a file of its own in one directory, written under another name, flushed and renamed. Damage to a
// file loses one message, and a write that a crash cut short leaves a name that Open sweeps away.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// MaxItems is how many messages an outbox holds.
	MaxItems = 10_000
	// MaxBytes is how much room they take at most, in bytes.
	MaxBytes = 64 << 20

	firstWait = time.Second
	longWait  = 30 * time.Second

	freshBytes = 64 << 10
)

// ErrRefused is wrapped by the error of a publish function if the message will never be taken, such as one above
// the server's payload limit. The message is dropped, so that it does not hold back the others for ever.
var ErrRefused = errors.New("the bus will never take the message")

// An Item is a message on its way.
type Item struct {
	MsgID   string // the same at every attempt
	Subject string
	Payload []byte
}

// An Outbox is safe for concurrent use. Make it with [Open].
type Outbox struct {
	dir    string
	log    *slog.Logger
	filled chan struct{} // one slot: something was put
	kicked chan struct{} // one slot: try now

	mu      sync.Mutex
	waiting []entry // oldest first
	bytes   int64   // of waiting and of what is being written
	writing int     // puts that have their room and are not yet in waiting
	last    uint64  // number of the newest entry
	dropped uint64
	fresh   map[uint64]Item // newest messages by number, at most [freshBytes] of payload, that need not be read again
	held    int             // bytes of payload in fresh
}

// An entry is a file of the directory.
type entry struct {
	number uint64
	size   int64
}

// Open reads the directory, which is made with mode 0700 if it does not exist. Only one process may use it at a time.
func Open(dir string, log *slog.Logger) (*Outbox, error) {
	o := &Outbox{dir: dir, log: log, filled: make(chan struct{}, 1), kicked: make(chan struct{}, 1), fresh: map[uint64]Item{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot open the outbox: %w", err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("cannot open the outbox: %w", err)
	}
	for _, f := range files { // in the order of their names, which is that of the numbers
		if strings.HasSuffix(f.Name(), unfinished) {
			_ = os.Remove(filepath.Join(dir, f.Name())) // it is swept again next time
			continue
		}
		number, ok := numberOf(f.Name())
		if !ok {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return nil, fmt.Errorf("cannot open the outbox: %w", err)
		}
		o.waiting = append(o.waiting, entry{number, info.Size()})
		o.bytes += info.Size()
		o.last = number
	}
	return o, nil
}

// Len is how many messages wait.
func (o *Outbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

// Dropped is how many messages were given up since Open.
func (o *Outbox) Dropped() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// Put stores a message and returns when it is on the disk. Message ID and subject must be free of blanks and line
// breaks, and the payload must not be changed afterwards. After an error the message is not in the outbox.
func (o *Outbox) Put(msgID, subject string, payload []byte) error {
	item := Item{msgID, subject, payload}
	data, err := encode(item)
	if err == nil && len(data) > MaxBytes {
		err = fmt.Errorf("%d bytes, the limit is %d", len(data), MaxBytes)
	}
	if err != nil {
		return fmt.Errorf("cannot store message %q: %w", msgID, err)
	}
	e, full := o.reserve(int64(len(data)))
	for _, old := range full {
		o.giveUp(old, errors.New("the outbox is full"))
	}
	err = o.write(e, data)
	o.mu.Lock()
	o.writing--
	if err == nil {
		o.waiting = append(o.waiting, e)
		o.hold(e, item)
	} else {
		o.bytes -= e.size
	}
	o.mu.Unlock()
	if err != nil {
		return fmt.Errorf("cannot store message %q: %w", msgID, err)
	}
	signal(o.filled)
	return nil
}

// reserve makes room for an entry and returns the entries that had to leave for it.
func (o *Outbox) reserve(size int64) (e entry, full []entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.writing++
	o.bytes += size
	for len(o.waiting) > 0 && (o.bytes > MaxBytes || len(o.waiting)+o.writing > MaxItems) {
		full = append(full, o.waiting[0])
		o.take(o.waiting[0])
	}
	return entry{o.last, size}, full
}

// take removes an entry from the list and reports whether it was there. o.mu is held.
func (o *Outbox) take(e entry) bool {
	i := slices.Index(o.waiting, e)
	if i < 0 {
		return false
	}
	o.waiting = slices.Delete(o.waiting, i, i+1)
	o.bytes -= e.size
	if item, ok := o.fresh[e.number]; ok {
		delete(o.fresh, e.number)
		o.held -= len(item.Payload)
	}
	return true
}

// hold keeps a message in memory if there is room. o.mu is held.
func (o *Outbox) hold(e entry, item Item) {
	if o.held+len(item.Payload) <= freshBytes {
		o.fresh[e.number] = item
		o.held += len(item.Payload)
	}
}

// item is the message of an entry, from the disk if it is not in memory.
func (o *Outbox) item(e entry) (Item, error) {
	o.mu.Lock()
	item, ok := o.fresh[e.number]
	o.mu.Unlock()
	if ok {
		return item, nil
	}
	return o.read(e)
}

// Kick ends the wait after a failure: the bus is back.
func (o *Outbox) Kick() { signal(o.kicked) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run sends until ctx ends and returns ctx's error. publish returns nil when the message is acknowledged; after an
// error the same message is tried again, the first time after a second, later after up to half a minute, or at a
// kick. Run is called once.
func (o *Outbox) Run(ctx context.Context, publish func(context.Context, Item) error) error {
	failures := 0
	for ctx.Err() == nil {
		e, ok := o.oldest()
		if !ok {
			select {
			case <-ctx.Done():
			case <-o.filled:
			}
			continue
		}
		err := o.send(ctx, e, publish)
		if err == nil {
			failures = 0
			continue
		}
		if ctx.Err() != nil {
			break
		}
		if failures == 0 {
			o.log.Info("outbox waits", "messages", o.Len(), "err", err)
		}
		if failures++; o.pause(ctx, failures) {
			failures = 0
		}
	}
	return ctx.Err()
}

func (o *Outbox) oldest() (entry, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		return entry{}, false
	}
	return o.waiting[0], true
}

// send tries one entry. An error means that it waits; else it has left the outbox.
func (o *Outbox) send(ctx context.Context, e entry, publish func(context.Context, Item) error) error {
	item, err := o.item(e)
	if err != nil {
		o.leave(e, err)
		return nil
	}
	err = publish(ctx, item)
	if err != nil && !errors.Is(err, ErrRefused) {
		return err
	}
	o.leave(e, err)
	return nil
}

// leave takes an entry out: sent, or given up because of err. One that was dropped while it was sent is gone already.
func (o *Outbox) leave(e entry, err error) {
	o.mu.Lock()
	there := o.take(e)
	o.mu.Unlock()
	switch {
	case there && err == nil:
		o.remove(e)
	case there:
		o.giveUp(e, err)
	}
}

// giveUp drops an entry that is no longer in the list.
func (o *Outbox) giveUp(e entry, why error) {
	o.mu.Lock()
	o.dropped++
	o.mu.Unlock()
	item, _ := o.read(e) // for its name in the log
	o.log.Warn("message dropped", "msg", item.MsgID, "subject", item.Subject, "err", why)
	o.remove(e)
}

// remove deletes the file. One that stays is sent again after a restart and recognised by its message ID.
func (o *Outbox) remove(e entry) {
	if err := os.Remove(o.path(e)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		o.log.Warn("message stays on the disk", "err", err)
	}
}

// pause waits after so many failures in a row, and reports whether it was ended by a kick.
func (o *Outbox) pause(ctx context.Context, failures int) bool {
	wait := min(longWait, firstWait<<min(failures-1, 10))
	timer := time.NewTimer(wait/2 + rand.N(wait/2+1))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-o.kicked:
		return true
	}
	return false
}
