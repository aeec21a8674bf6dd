// Package share keeps one peel from taking the room that all of them have.
//
// The streams to which all peels write hold a number of messages and bytes, and the oldest go first. A peel that floods
// them would push out what others said. A [Room] therefore keeps account of what each peel puts into a stream: a peel
// may put in a sixteenth of the stream at once, and as much again in the course of a week. Beyond that it has no right
// to anything; but as long as half of the stream is free it harms nobody, and everything is taken.
//
// Two things are done about a peel that is beyond its share of a crowded stream. What masters store on its behalf is
// not stored. What the server stores by itself is removed again, the peel's oldest first, by a [Guard].
//
// Every master keeps its own account, in memory, from when it started. While no master lives nobody does.
package share

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	part     = 16                 // a peel's share is one of so many parts of a stream
	again    = 7 * 24 * time.Hour // in which a share that was used up is there again
	overhead = 100                // bytes that a stored message takes beside subject and data

	askEvery = time.Second
	askWait  = 5 * time.Second
)

// A Room is a stream and who has put how much into it. Methods may be called from several goroutines.
type Room struct {
	js     jetstream.JetStream
	stream string

	mu       sync.Mutex
	messages int64 // that the stream holds at most; 0: not known yet, negative: any number
	bytes    int64
	full     map[string]time.Time // when a peel, by its wire ID, has its whole share again
	swept    time.Time

	asking  sync.Mutex // held while the server is asked
	asked   time.Time
	crowded bool
}

// NewRoom returns the room of a stream. It asks nothing yet.
func NewRoom(js jetstream.JetStream, stream string) *Room {
	return &Room{js: js, stream: stream, full: map[string]time.Time{}}
}

// Within accounts for a message of a peel and reports whether it is within the peel's share. One that is not is not
// accounted for. Nothing is within the share of a stream whose size is not known yet: [Room.Crowded] finds it out.
func (r *Room) Within(peel string, bytes int) bool {
	within, _ := r.account(peel, bytes)
	return within
}

// account is Within, and reports whether the size of the stream is known.
func (r *Room) account(peel string, bytes int) (within, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.messages == 0 {
		return false, false
	}
	now := time.Now()
	if now.Sub(r.swept) > time.Hour {
		r.swept = now
		maps.DeleteFunc(r.full, func(_ string, full time.Time) bool { return full.Before(now) })
	}
	full := r.full[peel]
	if full.Before(now) {
		full = now
	}
	if full = full.Add(r.cost(bytes)); full.Sub(now) > again {
		return false, true
	}
	r.full[peel] = full
	return true, true
}

// cost is how long it takes until a peel has again what a message takes of its share; r.mu is held.
func (r *Room) cost(bytes int) time.Duration {
	taken := 0.0
	if r.messages > 0 {
		taken = 1 / float64(r.messages)
	}
	if r.bytes > 0 {
		taken = max(taken, float64(bytes+overhead)/float64(r.bytes))
	}
	return time.Duration(taken * part * float64(again))
}

// Crowded reports whether less than half of the stream is free, as it was within the last second.
func (r *Room) Crowded(ctx context.Context) (bool, error) {
	r.asking.Lock()
	defer r.asking.Unlock()
	if !r.asked.IsZero() && time.Since(r.asked) < askEvery {
		return r.crowded, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	stream, err := r.js.Stream(ctx, r.stream)
	if err != nil {
		return false, fmt.Errorf("cannot see how full the stream %s is: %w", r.stream, err)
	}
	config, state := stream.CachedInfo().Config, stream.CachedInfo().State
	r.asked = time.Now()
	r.crowded = beyondHalf(state.Msgs, config.MaxMsgs) || beyondHalf(state.Bytes, config.MaxBytes)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages, r.bytes = config.MaxMsgs, config.MaxBytes
	return r.crowded, nil
}

func beyondHalf(held uint64, limit int64) bool { return limit > 0 && held > uint64(limit)/2 }
