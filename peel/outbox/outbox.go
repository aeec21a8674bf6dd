// Package outbox keeps what a peel has to send until the bus has acknowledged it.
//
// [Outbox.Put] stores a message on the disk and never waits for the bus; [Outbox.Run] sends the messages one after the
// other, oldest first, and deletes each after its acknowledgement. A message that cannot be sent stays, across
// restarts, and holds back those behind it, so the order in which puts ended is the order of sending. Every message is
// sent at least once: a crash between acknowledgement and deletion sends it again. The receiving stream recognises a
// report by its message ID, and readers know every message by the job that it names.
//
// The outbox is bounded by [MaxItems] and [MaxBytes]. When it is full the oldest messages are dropped, counted by
// [Outbox.Dropped] and logged; so is a message that the bus will never take ([ErrRefused]) or that is damaged on the
// disk. A message that cannot be read for another reason, such as a lack of file descriptors, is tried again.
//
// # A disk that takes nothing
//
// While the disk refuses a write, messages are held in memory, up to [MaxHeldItems] and [MaxHeldBytes]; beyond that the
// oldest of them are dropped, counted and logged. Held messages are sent in their turn like the others. They are written to
// the disk with the next message, after each failed attempt to send, and by [Outbox.Close]; until then a crash loses them.
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
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"
)

const (
	// MaxItems is how many messages the disk holds.
	MaxItems = 10_000
	// MaxBytes is how long their records are at most, in bytes.
	MaxBytes = 64 << 20

	// MaxHeldItems is how many messages are held in memory while the disk takes none.
	MaxHeldItems = 1_000
	// MaxHeldBytes is how long their records are at most, in bytes.
	MaxHeldBytes = 4 << 20

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

	disk    sync.Mutex // taken before mu
	files   files
	failing bool // the last write failed, which is logged once

	mu        sync.Mutex
	waiting   []*entry // oldest first: those on the disk, then those held in memory
	stored    int      // how many of waiting are on the disk
	bytes     int64    // of the records on the disk
	heldBytes int64    // of the records held in memory
	next      *batch   // written after the write in progress; nil: none
	dropped   uint64
	cached    int // bytes of payload in the items of messages on the disk, at most [freshBytes]
}

// An entry is a message.
type entry struct {
	segment *segment // nil: held in memory
	place
	item *Item // nil: it is read from the disk
	gone bool  // it has left the list
}

// A batch is written and flushed together, by the first who put something into it.
type batch struct {
	entries []*entry
	done    chan struct{} // closed when stored is set
	stored  bool          // they are on the disk, else in memory
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
	o.stored = len(o.waiting)
	if s.left = len(c.waiting); s.left == 0 {
		_ = os.Remove(path) // it is tried again next time
	}
	return nil
}

// Close writes the messages held in memory, if the disk takes them, and releases the file. Nothing is put or sent
// afterwards.
func (o *Outbox) Close() {
	o.persist()
	o.disk.Lock()
	defer o.disk.Unlock()
	o.files.leave()
	if n := o.Held(); n > 0 {
		o.log.Error("messages are lost: the disk did not take them and they were not sent", "messages", n)
	}
}

// Len is how many messages wait.
func (o *Outbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

// Held returns how many messages are in memory alone.
func (o *Outbox) Held() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting) - o.stored
}

// Dropped is how many messages were given up since Open.
func (o *Outbox) Dropped() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// item is the message of an entry, from the disk if it is not in memory.
func (o *Outbox) item(e *entry) (Item, error) {
	o.mu.Lock()
	item := e.item
	o.mu.Unlock()
	if item != nil {
		return *item, nil
	}
	return o.files.read(e.segment, e.place)
}

// isLost reports whether a message that could not be read with this error will never be readable. Other errors, such as a
// lack of file descriptors, pass.
func isLost(err error) bool {
	return errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) || errors.Is(err, syscall.EIO)
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
		o.persist()
		if failures == 0 {
			o.log.Info("outbox waits", "messages", o.Len(), "err", err)
		}
		if failures++; o.pause(ctx, failures) {
			failures = 0
		}
	}
	return ctx.Err()
}

// SendHeld sends waiting messages, the oldest first, until none is in memory alone or one cannot be sent. It is called
// after Run.
func (o *Outbox) SendHeld(ctx context.Context, publish func(context.Context, Item) error) {
	for o.persist(); o.Held() > 0; {
		if err := o.send(ctx, o.oldest(), publish); err != nil {
			return
		}
	}
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
	if isLost(err) {
		o.leave(e, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read a message: %w", err)
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
	there := o.takeLocked(e)
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

// remove marks on the disk that an entry has left the list. An entry that cannot be marked is sent again after a restart
// and recognised by its message ID.
func (o *Outbox) remove(e *entry) {
	o.disk.Lock()
	defer o.disk.Unlock()
	if e.segment == nil {
		return // it was never written
	}
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
