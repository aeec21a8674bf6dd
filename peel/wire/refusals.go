package wire

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

// Refusals tell a log what was refused, and let nobody fill it: of each sender the first refusal is logged and then at
// most one a minute, which says how many before it were left out. Of senders 1,024 are remembered, each until its
// minute is over; all beyond them count as one. Methods may be called from several goroutines.
type Refusals struct {
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

// NewRefusals returns the refusals of one reader of messages, who tells log.
func NewRefusals(log *slog.Logger) *Refusals {
	return &Refusals{log: log, senders: map[string]*refused{}}
}

// Warn logs a refusal as [slog.Logger.Warn] does, unless the sender, a wire ID, had a line in the last minute.
func (r *Refusals) Warn(sender, text string, args ...any) {
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
func (r *Refusals) admit(sender string, now time.Time) (leftOut int, tell bool) {
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
func (r *Refusals) of(sender string, now time.Time) *refused {
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
