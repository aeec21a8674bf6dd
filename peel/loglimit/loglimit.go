// Package loglimit limits how often refused messages are logged, so that no sender can fill a log. Create a [Limiter]
// with [New] for each reader of messages and call [Limiter.Warn] for each refusal.
//
// Known gap: senders beyond the first 1,024 share one limit.
package loglimit

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	logEvery   = time.Minute
	maxSenders = 1024
)

// A Limiter logs the first refusal of each sender, and then at most one a minute, with the number of refusals that were
// not logged in between. It remembers up to 1,024 senders; all others count as one sender. It is safe for concurrent
// use.
type Limiter struct {
	log *slog.Logger

	mu      sync.Mutex
	senders map[string]*sender // by wire ID; "" for all senders above the limit
	swept   time.Time          // when senders without a recent refusal were last removed
}

// sender is the state of one sender.
type sender struct {
	logged  time.Time // last logged refusal
	leftOut int       // refusals since then
}

// New returns a Limiter that writes to log.
func New(log *slog.Logger) *Limiter {
	return &Limiter{log: log, senders: map[string]*sender{}}
}

// Warn logs a refusal with [slog.Logger.Warn], unless a refusal of the sender was logged in the last minute. from is
// the wire ID of the sender.
func (r *Limiter) Warn(from, text string, args ...any) {
	leftOut, ok := r.admit(from, time.Now())
	if !ok {
		return
	}
	if leftOut > 0 {
		args = slices.Concat(args, []any{"left_out", leftOut})
	}
	r.log.Warn(text, args...)
}

// admit reports whether to log a refusal, and how many were not logged since the last one.
func (r *Limiter) admit(from string, now time.Time) (leftOut int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.senderLocked(from, now)
	if !s.logged.IsZero() && now.Sub(s.logged) < logEvery {
		s.leftOut++
		return 0, false
	}
	leftOut, s.leftOut, s.logged = s.leftOut, 0, now
	return leftOut, true
}

// senderLocked returns the state of a sender. The caller holds r.mu.
func (r *Limiter) senderLocked(from string, now time.Time) *sender {
	if s, ok := r.senders[from]; ok {
		return s
	}
	if len(r.senders) >= maxSenders && now.Sub(r.swept) >= logEvery {
		r.swept = now
		maps.DeleteFunc(r.senders, func(_ string, s *sender) bool { return now.Sub(s.logged) >= logEvery })
	}
	if len(r.senders) >= maxSenders {
		from = ""
	}
	s, ok := r.senders[from]
	if !ok {
		s = &sender{}
		r.senders[from] = s
	}
	return s
}
