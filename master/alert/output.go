package alert

import (
	"context"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/notify"
)

const (
	outputsAtOnce = 5 // outputs read for all receivers, before one every outputRefill; other messages go without
	outputRefill  = 5 * time.Second
	outputTimeout = 5 * time.Second
	maxOutputs    = 200 // outputs kept for messages that repeat an alert
)

// outputs adds to messages what the failed runs printed that they are about. It keeps what it has read: for each other
// receiver of a message, for another attempt, and for the messages that repeat an alert.
type outputs struct {
	o     Options
	turn  chan struct{} // has a value while a receiver uses the fields below
	limit *rate.Limiter
	known map[string]knownOutput // by the ID of the alert
}

// A knownOutput is what was read for a message.
type knownOutput struct {
	event  string // of the message
	output notify.Output
}

func newOutputs(o Options) *outputs {
	return &outputs{
		o: o, turn: make(chan struct{}, 1), known: map[string]knownOutput{},
		limit: rate.NewLimiter(rate.Every(outputRefill), outputsAtOnce),
	}
}

// add returns the messages with their outputs, as far as they are known. An output that cannot be read is left out: the
// message is more urgent.
func (s *outputs) add(ctx context.Context, messages []notify.AlertMessage) []notify.AlertMessage {
	if s.o.Output == nil {
		return messages
	}
	limit := time.NewTimer(outputTimeout)
	defer limit.Stop()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-limit.C:
		return messages
	case <-ctx.Done():
		return messages
	}
	ctx, cancel := context.WithTimeout(ctx, outputTimeout)
	defer cancel()

	messages = slices.Clone(messages) // another receiver has the same
	for i := range messages {
		m := &messages[i]
		known, isKnown := s.known[m.ID]
		switch {
		case !m.HasOutput():
			delete(s.known, m.ID)
		case isKnown && (m.Phase == notify.AlertLasts || m.Event == known.event):
			m.Output = known.output
		case ctx.Err() == nil && s.limit.Allow():
			output, err := s.read(ctx, m)
			if err != nil {
				continue // another receiver or attempt may find it
			}
			m.Output = output
			if len(s.known) >= maxOutputs {
				clear(s.known)
			}
			s.known[m.ID] = knownOutput{m.Event, m.Output}
		}
	}
	return messages
}

// read returns the output of the first peel of a message that has one. It fails if none was found and one could not be
// read.
func (s *outputs) read(ctx context.Context, m *notify.AlertMessage) (none notify.Output, failed error) {
	for _, peel := range m.Names {
		output, err := s.o.Output(ctx, m.Subject, peel)
		if err != nil {
			s.o.Log.Warn("output of a failed run not read for its alert", "alert", m.ID, "peel", peel, "err", err)
			failed = err
			if ctx.Err() != nil {
				break
			}
		}
		if len(output.Lines) > 0 {
			return output, nil
		}
	}
	return none, failed
}
