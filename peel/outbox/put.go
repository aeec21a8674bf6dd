package outbox

import (
	"errors"
	"fmt"
	"slices"
)

// Put adds a message and returns when it is on the disk, or held in memory because the disk refused it; stored reports
// which. It returns an error if message ID or subject are empty or contain blanks or line breaks, or the message is too
// long. The caller must not change the payload afterwards.
func (o *Outbox) Put(msgID, subject string, payload []byte) (stored bool, err error) {
	item := &Item{msgID, subject, payload}
	size, err := item.check()
	if err != nil {
		return false, fmt.Errorf("cannot store message %q: %w", msgID, err)
	}
	stored = o.write(&entry{place: place{size: size}, item: item})
	signal(o.filled)
	return stored, nil
}

// write adds an entry to the waiting list and reports whether it is on the disk.
func (o *Outbox) write(e *entry) (stored bool) {
	o.mu.Lock()
	b, first := o.next, o.next == nil
	if first {
		b = &batch{done: make(chan struct{})}
		o.next = b
	}
	b.entries = append(b.entries, e)
	o.mu.Unlock()
	if first {
		o.commit(b)
	}
	<-b.done
	return b.stored
}

// persist tries to write the messages held in memory.
func (o *Outbox) persist() {
	if o.Held() > 0 {
		o.commit(&batch{done: make(chan struct{})})
	}
}

// commit waits for the write in progress and then writes the messages held in memory and the batch; until then callers
// of Put join the batch. After the write it drops the oldest messages beyond the limits.
func (o *Outbox) commit(b *batch) {
	full, why := o.commitBatch(b)
	for _, e := range full {
		o.drop(e, why)
	}
}

func (o *Outbox) commitBatch(b *batch) (full []*entry, why error) {
	o.disk.Lock()
	defer o.disk.Unlock()
	o.mu.Lock()
	if o.next == b {
		o.next = nil
	}
	all := slices.Concat(o.waiting[o.stored:], b.entries)
	o.mu.Unlock()
	segment, places, err := o.files.append(all)
	o.logWrite(len(all)-len(b.entries), err)
	o.mu.Lock()
	defer o.mu.Unlock()
	defer close(b.done)
	o.waiting = append(o.waiting, b.entries...)
	for _, e := range b.entries {
		o.heldBytes += e.size
	}
	if err != nil {
		return o.trimHeldLocked(), fmt.Errorf("the disk refuses it, and too many messages are held in memory: %w", err)
	}
	b.stored = true
	for i, e := range all {
		o.storedLocked(e, segment, places[i])
	}
	return o.trimStoredLocked(), errors.New("the outbox is full")
}

// logWrite logs the first of several failed writes, and the first write that works again.
func (o *Outbox) logWrite(held int, err error) {
	if err != nil && !o.failing {
		o.log.Warn("messages are held in memory, the disk refuses them", "err", err)
	}
	if err == nil && held > 0 {
		o.log.Info("messages that were held in memory are on the disk", "messages", held)
	}
	o.failing = err != nil
}

// storedLocked records the place of an entry on the disk. If the entry was sent from memory during the write,
// [Outbox.mark] marks its record next.
func (o *Outbox) storedLocked(e *entry, s *segment, p place) {
	e.segment, e.place = s, p
	if e.gone {
		return
	}
	o.heldBytes -= e.size
	s.left++
	o.stored++
	o.bytes += e.size
	o.cacheLocked(e)
}

// trimStoredLocked removes the oldest stored entries above the limits and returns them.
func (o *Outbox) trimStoredLocked() (full []*entry) {
	for o.stored > 0 && (o.bytes > MaxBytes || o.stored > MaxItems) {
		full = append(full, o.waiting[0])
		o.removeLocked(o.waiting[0])
	}
	return full
}

// trimHeldLocked removes the oldest held entries above the limits and returns them.
func (o *Outbox) trimHeldLocked() (full []*entry) {
	for o.heldBytes > MaxHeldBytes || len(o.waiting)-o.stored > MaxHeldItems {
		e := o.waiting[o.stored]
		full = append(full, e)
		o.waiting = slices.Delete(o.waiting, o.stored, o.stored+1)
		o.heldBytes -= e.size
		e.gone = true
	}
	return full
}

// removeLocked removes the oldest entry e from the list and reports whether it did; e may be removed already.
func (o *Outbox) removeLocked(e *entry) bool {
	if e.gone {
		return false
	}
	e.gone = true
	o.waiting[0] = nil
	o.waiting = o.waiting[1:]
	if e.segment == nil {
		o.heldBytes -= e.size
		return true
	}
	o.stored--
	o.bytes -= e.size
	e.segment.left--
	if e.item != nil {
		o.cached -= len(e.item.Payload)
	}
	return true
}

// cacheLocked keeps the message of a stored entry in memory if the cache has room.
func (o *Outbox) cacheLocked(e *entry) {
	if o.cached+len(e.item.Payload) > cacheBytes {
		e.item = nil
		return
	}
	o.cached += len(e.item.Payload)
}
