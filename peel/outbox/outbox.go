// Package outbox stores the messages of a peel until the bus has acknowledged them. Call [Open], [Outbox.Run] in a
// goroutine, and [Outbox.Put] for each message.
//
// Put stores a message on the disk and never waits for the bus. Run sends the messages one at a time, oldest first, and
// deletes each after its acknowledgement. A message that cannot be sent stays, also across restarts, and the later ones
// wait for it, so messages are sent in the order in which their puts returned. Every message is sent at least once:
// after a crash between acknowledgement and deletion it is sent again. The receiving stream recognises a repeated
// report by its message ID, and readers recognise every message by its job.
//
// The outbox is limited by [MaxItems] and [MaxBytes]. When it is full, the oldest messages are dropped, counted by
// [Outbox.Dropped] and logged. So are messages that the bus will never accept ([ErrRefused]) and messages that are
// damaged on the disk. A message that cannot be read for another reason, such as a lack of file descriptors, is tried
// again.
//
// # When the disk refuses writes
//
// While the disk refuses writes, messages are held in memory, up to [MaxHeldItems] and [MaxHeldBytes]; beyond that the
// oldest of them are dropped, counted and logged. Held messages are sent in their order like the others. They are
// written to the disk with the next message, after each failed attempt to send, and by [Outbox.Close].
//
// # Files
//
// A file is a sequence of records, one for each message; a full file is followed by the next one. Messages that several
// callers put at the same time are written together and flushed once. The record of a message that was sent or dropped
// is marked in place, which works on a full disk, and a file without waiting messages is deleted. Every record has its
// own checksums. Damage loses only the messages that it hits; they are counted and logged. Unreadable bytes at the end
// of a file are an interrupted write, whose put has not returned; they are logged.
//
// Known gap: a crash loses the messages that are held in memory.
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
	// MaxItems is the highest number of messages on the disk.
	MaxItems = 10_000
	// MaxBytes is the highest total length of their records in bytes.
	MaxBytes = 64 << 20

	// MaxHeldItems is the highest number of messages in memory while the disk refuses writes.
	MaxHeldItems = 1_000
	// MaxHeldBytes is the highest total length of their records in bytes.
	MaxHeldBytes = 4 << 20

	firstWait = time.Second      // pause after the first failed attempt to send
	longWait  = 30 * time.Second // longest pause

	cacheBytes = 64 << 10 // payload of stored messages that is cached in memory
)

// ErrRefused is wrapped by the error of a publish function if the bus will never accept the message, for example above
// the server's payload limit. The message is dropped, so that the later ones are sent.
var ErrRefused = errors.New("the bus will never accept the message")

// An Item is a message.
type Item struct {
	MsgID   string // the same at every attempt
	Subject string
	Payload []byte
}

// An Outbox is safe for concurrent use. Create it with [Open].
type Outbox struct {
	log    *slog.Logger
	filled chan struct{} // capacity 1: a message was put
	kicked chan struct{} // capacity 1: try again now

	disk    sync.Mutex // taken before mu
	files   files
	failing bool // the last write failed, which is logged once

	mu        sync.Mutex
	waiting   []*entry // oldest first: stored messages, then messages held in memory
	stored    int      // number of stored messages in waiting
	bytes     int64    // of the records on the disk
	heldBytes int64    // of the records held in memory
	next      *batch   // written after the write in progress; may be nil
	dropped   uint64
	cached    int // payload bytes of cached stored messages, at most cacheBytes
}

// An entry is a message in the list of waiting messages.
type entry struct {
	segment *segment // nil if the message is held in memory
	place
	item *Item // nil if the message is only on the disk
	gone bool  // removed from the list
}

// A batch is a set of messages that are written and flushed together, by the caller that put the first one.
type batch struct {
	entries []*entry
	done    chan struct{} // closed when stored is set
	stored  bool          // on the disk; otherwise held in memory
}

// Open opens the outbox in a directory, and creates it with mode 0700 if it does not exist. Only one process may use it
// at a time.
func Open(dir string, log *slog.Logger) (*Outbox, error) {
	o := &Outbox{log: log, filled: make(chan struct{}, 1), kicked: make(chan struct{}, 1), files: files{dir: dir}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot open the outbox: %w", err)
	}
	names, err := os.ReadDir(dir) // in the order of their numbers
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

// load adds the waiting messages of a segment, and deletes the segment if it has none.
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
		o.log.Warn("unreadable end of an outbox file ignored, a write was interrupted", "file", path, "bytes", c.tail)
	}
	for _, p := range c.waiting {
		o.waiting = append(o.waiting, &entry{segment: s, place: p})
		o.bytes += p.size
	}
	o.stored = len(o.waiting)
	if s.left = len(c.waiting); s.left == 0 {
		_ = os.Remove(path) // the next Open tries again
	}
	return nil
}

// Close tries to write the messages held in memory, and closes the file. Do not use the outbox afterwards.
func (o *Outbox) Close() {
	o.persist()
	o.disk.Lock()
	defer o.disk.Unlock()
	o.files.close()
	if n := o.Held(); n > 0 {
		o.log.Error("messages are lost: the disk refused them and they were not sent", "messages", n)
	}
}

// Len returns the number of waiting messages.
func (o *Outbox) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting)
}

// Held returns the number of waiting messages that are only in memory.
func (o *Outbox) Held() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting) - o.stored
}

// Dropped returns the number of messages dropped since Open.
func (o *Outbox) Dropped() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.dropped
}

// item returns the message of an entry, from the disk if it is not in memory.
func (o *Outbox) item(e *entry) (Item, error) {
	o.mu.Lock()
	item := e.item
	o.mu.Unlock()
	if item != nil {
		return *item, nil
	}
	return o.files.read(e.segment, e.place)
}

// isLost reports whether an error of reading a message is permanent. A lack of file descriptors, for example, is not.
func isLost(err error) bool {
	return errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) ||
		errors.Is(err, syscall.EIO)
}

// Kick ends the pause after a failure. Call it when the connection is back.
func (o *Outbox) Kick() { signal(o.kicked) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run sends messages until ctx ends and returns ctx's error. publish returns nil when the message is acknowledged.
// After an error Run tries the same message again, first after a second, later after up to half a minute, or after
// Kick. Call Run once.
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

// SendHeld sends waiting messages, oldest first, until none is only in memory or one cannot be sent. Call it after Run.
func (o *Outbox) SendHeld(ctx context.Context, publish func(context.Context, Item) error) {
	for o.persist(); o.Held() > 0; {
		if err := o.send(ctx, o.oldest(), publish); err != nil {
			return
		}
	}
}

// oldest returns the oldest waiting message, nil if there is none.
func (o *Outbox) oldest() *entry {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.waiting) == 0 {
		return nil
	}
	return o.waiting[0]
}

// send sends one entry. If it returns an error, the entry stays; otherwise it was sent or dropped.
func (o *Outbox) send(ctx context.Context, e *entry, publish func(context.Context, Item) error) error {
	item, err := o.item(e)
	if isLost(err) {
		o.finish(e, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read a message: %w", err)
	}
	err = publish(ctx, item)
	if err != nil && !errors.Is(err, ErrRefused) {
		return err
	}
	o.finish(e, err)
	return nil
}

// finish removes an entry that was sent, or drops it because of err. It does nothing if the entry was dropped while it
// was being sent.
func (o *Outbox) finish(e *entry, err error) {
	o.mu.Lock()
	removed := o.removeLocked(e)
	o.mu.Unlock()
	switch {
	case removed && err == nil:
		o.mark(e)
	case removed:
		o.drop(e, err)
	}
}

// drop counts and logs an entry that was removed from the list unsent, and marks it on the disk.
func (o *Outbox) drop(e *entry, why error) {
	o.mu.Lock()
	o.dropped++
	o.mu.Unlock()
	item, _ := o.item(e) // for the log
	o.log.Warn("message dropped", "msg", item.MsgID, "subject", item.Subject, "err", why)
	o.mark(e)
}

// mark marks the record of a removed entry. An entry that cannot be marked is sent again after a restart, and
// recognised by its message ID.
func (o *Outbox) mark(e *entry) {
	o.disk.Lock()
	defer o.disk.Unlock()
	if e.segment == nil {
		return // it was never written
	}
	o.mu.Lock()
	left := e.segment.left
	o.mu.Unlock()
	if err := o.files.mark(e.segment, e.place, left == 0); err != nil {
		o.log.Warn("message stays on the disk and may be sent again", "err", err)
	}
}

// pause waits after the given number of consecutive failures, and reports whether Kick ended it.
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
