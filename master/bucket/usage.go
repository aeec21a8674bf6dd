package bucket

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// A Usage is how full a stream of the bus is. It is part of replies to clients.
type Usage struct {
	Name        string `json:"name"`
	Messages    uint64 `json:"messages"`
	MaxMessages int64  `json:"max_messages,omitempty"` // 0: no limit
	Bytes       uint64 `json:"bytes"`
	MaxBytes    int64  `json:"max_bytes,omitempty"` // 0: no limit
	Refuses     bool   `json:"refuses,omitempty"`   // at a limit new messages are refused; else the oldest are removed
	Copies      int    `json:"copies"`
	Clustered   bool   `json:"clustered,omitempty"` // the bus is a cluster of servers
	Behind      int    `json:"behind,omitempty"`    // copies that are offline or incomplete
}

// Full returns the larger used part of the two limits, from 0 to 1; 0 without limits.
func (s *Usage) Full() float64 {
	return max(part(s.Messages, s.MaxMessages), part(s.Bytes, s.MaxBytes))
}

func part(used uint64, limit int64) float64 {
	if limit <= 0 {
		return 0
	}
	return float64(used) / float64(limit)
}

// nearlyFull is the used part of a stream from which [Usage.Err] returns an error.
const nearlyFull = 0.95

// Err returns an error if the stream refuses messages, or is more than 95 % full and will soon.
func (s *Usage) Err() error {
	if !s.Refuses || s.Full() <= nearlyFull {
		return nil
	}
	return fmt.Errorf("the stream %s is %.0f %% full and refuses messages beyond its limits", s.Name, s.Full()*100)
}

// UsageOf returns the usage of the stream in a reply of the server.
func UsageOf(info *jetstream.StreamInfo) Usage {
	s := Usage{
		Name: info.Config.Name, Messages: info.State.Msgs, MaxMessages: max(info.Config.MaxMsgs, 0),
		Bytes: info.State.Bytes, MaxBytes: max(info.Config.MaxBytes, 0), Copies: info.Config.Replicas,
	}
	s.Refuses = info.Config.Discard == jetstream.DiscardNew && s.MaxMessages+s.MaxBytes > 0
	if info.Cluster != nil {
		s.Clustered = info.Cluster.Name != ""
		for _, r := range info.Cluster.Replicas {
			if r.Offline || !r.Current {
				s.Behind++
			}
		}
	}
	return s
}

// Usages reads how full every stream is.
func Usages(ctx context.Context, js jetstream.JetStream) ([]Usage, error) {
	var all []Usage
	lister := js.ListStreams(ctx)
	for info := range lister.Info() {
		all = append(all, UsageOf(info))
	}
	if err := lister.Err(); err != nil {
		return nil, fmt.Errorf("cannot list the streams: %w", err)
	}
	return all, nil
}
