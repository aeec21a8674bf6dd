// Package loglimit lets nobody fill a log with what is refused. Make a [Limiter] with [New] for each reader of messages and
// call Warn for each refusal.
package loglimit

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	tellEvery  = time.Minute
	maxSenders = 1024
)

// A Limiter logs the first refusal of each sender, and then at most one a minute, which says how many before it were left
// out. It remembers 1,024 senders, each until its minute is over; all beyond them count as one. Methods may be called from
// several goroutines.
type Limiter struct {
	log *slog.Logger

	mu      sync.Mutex
	senders map[string]*refused // by wire ID; "" for all that there is no room for
	swept   time.Time
}

// refused is what is remembered of a sender.
type refused struct {
	told    time.Time
	leftOut int
}

// New returns the limiter of one reader of messages, which writes to log.
func New(log *slog.Logger) *Limiter {
	return &Limiter{log: log, senders: map[string]*refused{}}
}

// Warn logs a refusal as [slog.Logger.Warn] does, unless the sender, a wire ID, had a line in the last minute.
func (r *Limiter) Warn(sender, text string, args ...any) {
	leftOut, tell := r.admit(sender, time.Now())
	if !tell {
		return
	}
	if leftOut > 0 {
		args = slices.Concat(args, []any{"left_out", leftOut})
	}
	r.log.Warn(text, args...)
}

// admit counts a refusal, and says whether it is to be told and how many were not since the last that was.
func (r *Limiter) admit(sender string, now time.Time) (leftOut int, tell bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.of(sender, now)
	if !s.told.IsZero() && now.Sub(s.told) < tellEvery {
		s.leftOut++
		return 0, false
	}
	leftOut, s.leftOut, s.told = s.leftOut, 0, now
	return leftOut, true
}

// of finds a sender; r.mu is held.
func (r *Limiter) of(sender string, now time.Time) *refused {
	if s, ok := r.senders[sender]; ok {
		return s
	}
	if len(r.senders) >= maxSenders && now.Sub(r.swept) >= tellEvery {
		r.swept = now
		maps.DeleteFunc(r.senders, func(_ string, s *refused) bool { return now.Sub(s.told) >= tellEvery })
	}
	if len(r.senders) >= maxSenders {
		sender = ""
	}
	s, ok := r.senders[sender]
	if !ok {
		s = &refused{}
		r.senders[sender] = s
	}
	return s
}
