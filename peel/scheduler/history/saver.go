package history

import (
	"errors"
	"log/slog"
	"time"
)

const (
	saveEvery = time.Second
	saveAgain = time.Minute // after a write that failed
)

// A Saver replaces the state file when the state has changed, one write at a time and at most one a second. Make it with
// [NewSaver]. One goroutine uses it: it receives the result of a write from Saved and passes it to [Saver.After].
type Saver struct {
	Dirty   bool     // the state has changed since the last write began
	Settled []string // records of runs to remove after the next write
	Saved   chan error
	// Waiting are told how the next write that begins has ended. That is due at once.
	Waiting []chan<- error

	path     string
	saving   bool
	next     time.Duration  // when the next write may begin, as elapsed time
	removing []string       // records of runs to remove after the write in progress
	told     []chan<- error // of the write in progress; they have room for the result
}

// NewSaver returns a Saver of a state file. If path is empty, nothing is stored.
func NewSaver(path string) Saver { return Saver{Saved: make(chan error, 1), path: path} }

// Save begins a write on a goroutine of its own if one is due. It calls histories for the state.
func (s *Saver) Save(up time.Duration, histories func() State) {
	if !s.Dirty || s.saving || up < s.next && len(s.Waiting) == 0 {
		return
	}
	s.Dirty = false
	s.told, s.Waiting = s.Waiting, nil
	if s.path == "" {
		s.tell(nil)
		return
	}
	s.saving, s.next = true, up+saveEvery
	entries, removing := histories(), s.Settled
	s.removing, s.Settled = removing, nil
	go func() { s.Saved <- Store(s.path, entries, removing) }()
}

// After ends a write. One that failed, or could not remove records, is tried again after a minute.
func (s *Saver) After(err error, log *slog.Logger) {
	s.saving = false
	if err != nil {
		s.Dirty, s.next = true, s.next+saveAgain
		s.Settled = append(s.removing, s.Settled...)
	}
	if errors.Is(err, errRecordsLeft) {
		log.Error("the records of some runs stay on the disk, although their end is stored", "err", err)
		err = nil
	} else if err != nil {
		log.Error("history of runs is in memory only", "err", err)
	}
	s.removing = nil
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

// Stop waits for the write in progress and stores the state.
func (s *Saver) Stop(histories func() State, log *slog.Logger) error {
	if s.saving {
		s.After(<-s.Saved, log)
	}
	err := Store(s.path, histories(), s.Settled)
	s.told, s.Waiting = s.Waiting, nil
	s.tell(err)
	return err
}
