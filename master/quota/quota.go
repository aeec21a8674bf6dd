// Package quota keeps the streams to which all peels write from filling up, and one peel from taking the room of all.
//
// [Streams] reads how full every stream is; [Of] does so from an answer of the server. A [Trimmer] purges: make it with
// [New] and call Run once in every master. An [Account] limits what masters store on behalf of a peel where the server
// cannot count it.
//
// A stream that refuses messages when it is full (job-returns) is trimmed: at 80 % of its messages or bytes the oldest are
// purged down to 70 %. Returns of live jobs stay: those before the first of them go by sequence, those between them one by
// one, at about 75 µs each. If live jobs alone hold more than 70 %, the stream fills up and then refuses returns, which the
// peels keep in their outboxes and send again; /readyz and zester doctor say so from 95 % on. What is purged depends on the stream's
// state alone, so several masters may do it at once and none needs a lease.
//
// A peel's share is a sixteenth of a stream, in messages and in bytes. While less than half of a stream is used, every
// peel may take more. In one that is more than half full, each look reads the sizes and subjects of 128 of the newest
// messages and of 128 in a row from a random place. The messages of a peel that has more than a sixteenth of either are
// counted by the server, and if it has more than its share, its oldest are purged down to half of it, returns of live jobs
// included. Nothing is kept in memory for each message.
//
// # Room while no master lives
//
// Then nothing is trimmed. A stream of 4,000,000 messages takes at most 1.4 GB of the server's memory, about 350 B a message.
//
//   - job-returns gets the returns of the jobs that were already sent, and no others: scheduled runs get theirs from masters.
//     From 80 % on it has room for 800,000 messages and 819 MiB: a job of 10,000 targets with 64 KiB each takes 625 MiB. A
//     return for which there is no room waits in its peel's outbox.
//   - job-events gets the reports of scheduled runs, about 650 B each. Its 2 GiB hold 3,300,000 of them: 27 h of 10,000 peels
//     with a reported run every 5 minutes (33 a second), 5.5 h with one every minute (167 a second). For a day at that rate
//     it would need 14,400,000 messages: 9.4 GB on disk and 5 GB of memory. Beyond its limits the oldest reports are lost.
//   - jobs and active are written by masters alone.
//
// Known gaps: a flood that adds half of job-events within 5 s can push out the oldest reports before it is seen.
// An [Account] is kept by each master, in memory, from when it started.
package quota

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// A Stream is how full a stream of the bus is.
type Stream struct {
	Name        string `json:"name"`
	Messages    uint64 `json:"messages"`
	MaxMessages int64  `json:"max_messages,omitempty"` // 0: no limit
	Bytes       uint64 `json:"bytes"`
	MaxBytes    int64  `json:"max_bytes,omitempty"` // 0: no limit
	Refuses     bool   `json:"refuses,omitempty"`   // at a limit new messages are refused; else the oldest are removed
	Copies      int    `json:"copies"`
	Behind      int    `json:"behind,omitempty"` // copies that are away or do not have everything
}

// Full returns how much of the stream's limits is used, from 0 to 1; 0 without limits.
func (s *Stream) Full() float64 {
	return max(part(s.Messages, s.MaxMessages), part(s.Bytes, s.MaxBytes))
}

func part(used uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

// nearlyFull is from when a stream that refuses messages is named by [Stream.Err].
const nearlyFull = 0.95

// Err returns an error if the stream refuses messages, or is about to because it is more than 95 % full.
func (s *Stream) Err() error {
	if !s.Refuses || s.Full() <= nearlyFull {
		return nil
	}
	return fmt.Errorf("the stream %s is %.0f %% full and refuses messages beyond its limits", s.Name, s.Full()*100)
}

// Of returns how full the stream of an answer is.
func Of(info *jetstream.StreamInfo) Stream {
	s := Stream{
		Name: info.Config.Name, Messages: info.State.Msgs, MaxMessages: max(info.Config.MaxMsgs, 0),
		Bytes: info.State.Bytes, MaxBytes: max(info.Config.MaxBytes, 0), Copies: info.Config.Replicas,
	}
	s.Refuses = info.Config.Discard == jetstream.DiscardNew && s.MaxMessages+s.MaxBytes > 0
	if info.Cluster != nil {
		for _, r := range info.Cluster.Replicas {
			if r.Offline || !r.Current {
				s.Behind++
			}
		}
	}
	return s
}

// Streams asks the server how full every stream is.
func Streams(ctx context.Context, js jetstream.JetStream) ([]Stream, error) {
	var all []Stream
	lister := js.ListStreams(ctx)
	for info := range lister.Info() {
		all = append(all, Of(info))
	}
	if err := lister.Err(); err != nil {
		return nil, fmt.Errorf("cannot list the streams: %w", err)
	}
	return all, nil
}
