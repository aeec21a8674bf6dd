package enroll

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// A Summary is a summary of the records of peels.
type Summary struct{ s *summary }

func NewSummary(js jetstream.JetStream) *Summary { return &Summary{newSummary(js)} }

// Look returns how many keys were ended and how many peels wait.
func (s *Summary) Look(ctx context.Context) (ended, pending int, err error) {
	keys, pending, err := s.s.read(ctx)
	return len(keys), pending, err
}
