package alert

import (
	"context"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/notify"
)

const (
	outputsEach   = 5 // outputs read for one batch; the other messages go without
	outputTimeout = 5 * time.Second
	maxOutputs    = 200 // outputs kept for messages that repeat an alert
)

// outputs adds to messages what the failed runs printed that they are about. It keeps what it has read for the messages
// that repeat an alert.
type outputs struct {
	o     Options
	known map[string]notify.Output // by the ID of the alert
}

// add returns the messages with their outputs, as far as they are known. An output that cannot be read is left out: the
// message is more urgent.
func (s *outputs) add(ctx context.Context, messages []notify.AlertMessage) []notify.AlertMessage {
	if s.o.Output == nil {
		return messages
	}
	ctx, cancel := context.WithTimeout(ctx, outputTimeout)
	defer cancel()
	messages = slices.Clone(messages) // an attempt after this one may find more
	left := outputsEach
	for i := range messages {
		m := &messages[i]
		known, isKnown := s.known[m.ID]
		switch {
		case !m.HasOutput():
			delete(s.known, m.ID)
		case m.Phase == notify.AlertLasts && isKnown:
			m.Output = known
		case left > 0:
			left--
			m.Output = s.read(ctx, m)
			if len(s.known) >= maxOutputs {
				clear(s.known)
			}
			s.known[m.ID] = m.Output
		}
	}
	return messages
}

// read returns the output of the first peel of a message that has one.
func (s *outputs) read(ctx context.Context, m *notify.AlertMessage) (found notify.Output) {
	for _, peel := range m.Names {
		output, err := s.o.Output(ctx, m.Subject, peel)
		if err != nil {
			s.o.Log.Warn("output of a failed run not read for its alert", "alert", m.ID, "peel", peel, "err", err)
			if ctx.Err() != nil {
				return found
			}
		}
		if len(output.Lines) > 0 {
			return output
		}
	}
	return found
}
