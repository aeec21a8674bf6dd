// Package outbox keeps what a peel owes the bus until the bus has acknowledged it.
//
// [Outbox.Put] returns when the message is on the disk; [Outbox.Run] sends the messages one after the other, oldest
// first, and deletes each after its acknowledgement. A message that cannot be sent stays, across restarts, and holds
// back those behind it, so the order in which puts ended is the order of sending. Every message is sent at least
// once: a crash between acknowledgement and deletion sends it again. The receiving stream recognises a report by its
// message ID, and readers know every message by the job of which it speaks.
//
// The outbox is bounded by [MaxItems] and [MaxBytes]. When it is full the oldest messages are dropped, counted by
// [Outbox.Dropped] and logged; so is a message that the bus will never take ([ErrRefused]) or the disk gives back
// damaged.
//
// # Files
//
// Messages are records that follow each other in a file, until it is full and the next begins. What several callers
// put at once is written together and flushed once. A message that has left the outbox is marked in its place, which
// needs no room on a full disk, and a file goes when nothing in it waits; only the oldest file has anything else, so the
// files are little larger than what waits. Damage loses the messages that it hits, which are counted and logged: every
// record has checksums of its own. What cannot be read at the end of a file is taken for a write that a crash cut short,
// whose put has not returned, and is logged.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

const (
	// MaxItems is how many messages an outbox holds.
	MaxItems = 10_000
	// MaxBytes is how long their records are at most, in bytes.
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
	log    *slog.Logger
	filled chan struct{} // one slot: something was put
	kicked chan struct{} // one slot: try now

	disk  sync.Mutex // taken before mu
	files files

	mu      sync.Mutex
	waiting []*entry // oldest first
	bytes   int64    // of waiting and of what is being written
	writing int      // puts that have their room and are not yet in waiting
	next    *batch   // of puts that are written next; nil: none
	dropped uint64
	held    int // bytes of payload in the items of waiting, at most [freshBytes]
}

// An entry is a message.
type entry struct {
	segment *segment
	place
	item *Item // nil: it is read again
}

// A batch is written and flushed together, by the first who put something into it.
type batch struct {
	entries []*entry
	records [][]byte
	done    chan struct{} // closed when err is set
	err     error
}

// Open reads the directory, which is made with mode 0700 if it does not exist. Only one process may use it at a time.
func Open(dir string, log *slog.Logger) (*Outbox, error) {
	o := &Outbox{log: log, filled: make(chan struct{}, 1), kicked: make(chan struct{}, 1), files: files{dir: dir}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot open the outbox: %w", err)
	}
	names, err := os.ReadDir(dir) // in their order, which is that of the numbers
	if err != nil {
		return nil, fmt.Errorf("cannot open the outbox: %w", err)
	}
	for _, f := range names {
		if s, ok := segmentOf(f.Name()); ok {
			if err := o.load(s); err != nil {
				return nil, fmt.Errorf("cannot open the outbox: %w", err)
			}
		}
	}
	return o, nil
}

// load takes in what waits in a segment, which is removed if that is nothing.
func (o *Outbox) load(s *segment) error {
	path := o.files.path(s)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	o.files.last = s.number
	c := s.salt.parse(data)
	if c.gaps > 0 {
		o.dropped += uint64(c.gaps)
		o.log.Warn("messages dropped", "at_least", c.gaps, "file", path, "err", errDamaged)
	}
	if c.tail > 0 {
		o.log.Warn("end of the outbox cut, a write was interrupted", "file", path, "bytes", c.tail)
	}
	for _, p := range c.waiting {
		o.waiting = append(o.waiting, &entry{segment: s, place: p})
		o.bytes += p.size
	}
	if s.left = len(c.waiting); s.left == 0 {
		_ = os.Remove(path) // it is tried again next time
	}
	return nil
}

// Close releases the file that is written. Nothing is put or sent afterwards.
func (o *Outbox) Close() {
	o.disk.Lock()
	defer o.disk.Unlock()
	o.files.leave()
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
	item := &Item{msgID, subject, payload}
	record, err := encode(*item)
	if err == nil {
		e := &entry{place: place{size: int64(len(record))}, item: item}
		for _, old := range o.reserve(e.size) {
			o.giveUp(old, errors.New("the outbox is full"))
		}
		err = o.write(e, record)
	}
	if err != nil {
		return fmt.Errorf("cannot store message %q: %w", msgID, err)
	}
	signal(o.filled)
	return nil
}

// reserve makes room for a record and returns the entries that had to leave for it.
func (o *Outbox) reserve(size int64) (full []*entry) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.writing++
	o.bytes += size
	for len(o.waiting) > 0 && (o.bytes > MaxBytes || len(o.waiting)+o.writing > MaxItems) {
		full = append(full, o.waiting[0])
		o.take(o.waiting[0])
	}
	return full
}

// write returns when an entry waits, or could not be stored.
func (o *Outbox) write(e *entry, record []byte) error {
	o.mu.Lock()
	b, first := o.next, o.next == nil
	if first {
		b = &batch{done: make(chan struct{})}
		o.next = b
	}
	b.entries, b.records = append(b.entries, e), append(b.records, record)
	o.mu.Unlock()
	if first {
		o.commit(b)
	}
	<-b.done
	return b.err
}

// commit writes a batch when what is being written is on the disk, until when others may join it.
func (o *Outbox) commit(b *batch) {
	o.disk.Lock()
	defer o.disk.Unlock()
	o.mu.Lock()
	o.next = nil
	o.mu.Unlock()
	segment, places, err := o.files.append(b.records)
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, e := range b.entries {
		o.writing--
		if err != nil {
			o.bytes -= e.size
			continue
		}
		e.segment, e.place = segment, places[i]
		segment.left++
		o.waiting = append(o.waiting, e)
		o.hold(e)
	}
	b.err = err
	close(b.done)
}

// take removes an entry from the list and reports whether it was there. o.mu is held.
func (o *Outbox) take(e *entry) bool {
	if len(o.waiting) == 0 || o.waiting[0] != e { // only the oldest is ever taken: this one is gone
		return false
	}
	o.waiting[0] = nil
	o.waiting = o.waiting[1:]
	o.bytes -= e.size
	e.segment.left--
	if e.item != nil {
		o.held -= len(e.item.Payload)
	}
	return true
}

// hold lets an entry keep its message in memory if there is room. o.mu is held.
func (o *Outbox) hold(e *entry) {
	if o.held+len(e.item.Payload) > freshBytes {
		e.item = nil
		return
	}
	o.held += len(e.item.Payload)
}

// item is the message of an entry, from the disk if it is not in memory.
func (o *Outbox) item(e *entry) (Item, error) {
	if e.item != nil {
		return *e.item, nil
	}
	return o.files.read(e.segment, e.place)
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
		e := o.oldest()
		if e == nil {
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

// oldest is nil if nothing waits.
func (o *Outbox) oldest() *entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		return nil
	}
	return o.waiting[0]
}

// send tries one entry. An error means that it waits; else it has left the outbox.
func (o *Outbox) send(ctx context.Context, e *entry, publish func(context.Context, Item) error) error {
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
func (o *Outbox) leave(e *entry, err error) {
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
func (o *Outbox) giveUp(e *entry, why error) {
	o.mu.Lock()
	o.dropped++
	o.mu.Unlock()
	item, _ := o.item(e) // for its name in the log
	o.log.Warn("message dropped", "msg", item.MsgID, "subject", item.Subject, "err", why)
	o.remove(e)
}

// remove says on the disk that an entry has left the list. One of which that cannot be said is sent again after a
// restart and recognised by its message ID.
func (o *Outbox) remove(e *entry) {
	o.disk.Lock()
	defer o.disk.Unlock()
	o.mu.Lock()
	left := e.segment.left
	o.mu.Unlock()
	if err := o.files.discharge(e.segment, e.place, left == 0); err != nil {
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
