package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

const (
	saveEvery = time.Second
	saveAgain = time.Minute // after a write that failed
)

// A Saver writes what has changed, one write at a time and at most one a second. Make it with [NewSaver]. One goroutine
// uses it: it receives the result of a write from Saved and passes it to [Saver.After].
type Saver struct {
	Dirty   bool       // something has changed since the last write began
	Settled []wire.JID // runs that need no record after the next write
	Saved   chan error
	// Waiting are told how the next write that begins has ended. That is due at once.
	Waiting []chan<- error
	Whole   bool // the next write writes the file anew
	// Memory is since when the disk has refused to write; zero: it has not.
	Memory time.Time

	store  *Store
	saving bool
	next   time.Duration  // when the next write may begin, as elapsed time
	told   []chan<- error // of the write in progress; they have room for the result
}

// NewSaver returns a Saver of a store. If that is nil, nothing is stored. The first write writes the file anew, so that
// the last process leaves its file under the name with ".1".
func NewSaver(s *Store) Saver { return Saver{Saved: make(chan error, 1), store: s, Whole: true} }

// Save begins a write on a goroutine of its own if one is due. It calls changed for what to write.
func (s *Saver) Save(up time.Duration, changed func() Change) {
	if !s.Dirty || s.saving || up < s.next && len(s.Waiting) == 0 {
		return
	}
	s.Dirty = false
	s.told, s.Waiting = s.Waiting, nil
	c := changed()
	if s.store == nil {
		s.tell(nil)
		return
	}
	s.saving, s.next = true, up+saveEvery
	write := s.write(c)
	go func() { s.Saved <- write() }()
}

// write returns the function that writes a change. It encodes at once, and leaves the disk to the function. Settled
// runs are closed in memory at once: if the write fails, the next one writes the file anew, without them.
func (s *Saver) write(c Change) func() error {
	c.Closed, s.Settled = s.Settled, nil
	s.store.close(c.Closed)
	whole := s.Whole || s.store.j.IsLarge()
	encode := s.store.changed
	if whole {
		encode = func(c Change) ([][]byte, error) { return s.store.whole(c.State) }
	}
	s.Whole = false
	records, err := encode(c)
	return func() error {
		switch {
		case err != nil:
		case whole:
			err = s.store.rewrite(records)
		default:
			if err = s.store.j.Append(records...); err == nil {
				err = s.store.j.Sync()
			}
		}
		if err != nil {
			err = fmt.Errorf("cannot store the scheduler's state: %w", err)
		}
		return err
	}
}

// rewrite writes the file anew. Runs that begin meanwhile wait, or are among the records.
func (s *Store) rewrite(records [][]byte) error {
	return s.j.Rewrite(func() ([][]byte, error) {
		open, err := s.openRecords()
		return append(records, open...), err
	})
}

// After ends a write. One that failed is tried again after a minute, with all that is known.
func (s *Saver) After(err error, now time.Time, log *slog.Logger) {
	s.saving = false
	s.Whole = s.Whole || err != nil
	if err == nil {
		s.Memory = time.Time{}
	} else {
		s.Dirty, s.next = true, s.next+saveAgain
		if s.Memory.IsZero() {
			s.Memory = now
		}
		log.Error("history of runs is in memory only", "err", err)
	}
	s.tell(err)
}

func (s *Saver) tell(err error) {
	for _, c := range s.told {
		c <- err
	}
	s.told = nil
}

// Wait returns the time until [Saver.Save] has to be called, atMost if nothing is to be stored.
func (s *Saver) Wait(up, atMost time.Duration) time.Duration {
	if s.Dirty && !s.saving && len(s.Waiting) > 0 {
		return 0
	}
	if s.Dirty && !s.saving {
		return min(atMost, s.next-up)
	}
	return atMost
}

// Stop waits for the write in progress, writes what is left and closes the file.
func (s *Saver) Stop(changed func() Change, now time.Time, log *slog.Logger) (err error) {
	if s.saving {
		s.After(<-s.Saved, now, log)
	}
	c := changed()
	if s.store != nil {
		err = errors.Join(s.write(c)(), s.store.j.Close())
	}
	s.told, s.Waiting = s.Waiting, nil
	s.tell(err)
	return err
}
