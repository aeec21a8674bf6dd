package job_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func TestAWithdrawnClaimRefusesWritesThatAreInFlight(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, js jetstream.JetStream) {
		stored, absent := create(t, s, claim("a")), claim("a")
		for _, j := range []*job.Job{stored, absent} {
			if err := s.Withdraw(t.Context(), j); err != nil {
				t.Fatal(err)
			}
			if _, err := js.Publish(t.Context(), "$KV.active."+string(j.JID), []byte("late"), jetstream.WithExpectLastSequencePerSubject(j.Revision)); err == nil {
				t.Error("a write that was made before the withdrawal is stored after it")
			}
			if _, err := s.Get(t.Context(), j.JID); !errors.Is(err, job.ErrNotFound) {
				t.Errorf("the record: %v", err)
			}
			if err := s.Withdraw(t.Context(), j); err != nil {
				t.Errorf("a second time: %v", err)
			}
			create(t, s, j) // the ID is free
		}
	})
}

// A racingStream runs race once before the next message is published.
type racingStream struct {
	jetstream.JetStream
	race func()
}

func (r *racingStream) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if race := r.race; race != nil {
		r.race = nil
		race()
	}
	return r.JetStream.PublishMsg(ctx, m, opts...)
}

// TestAClaimThatAnotherMasterHasIsNotWithdrawn has a record change before a withdrawal, and between its read and its write.
func TestAClaimThatAnotherMasterHasIsNotWithdrawn(t *testing.T) {
	for name, change := range map[string]func(*job.Job){
		"taken over": func(j *job.Job) { j.Owner = "m2" },
		"ended":      func(j *job.Job) { j.Finish(job.End{Targets: 1}, time.Now()) },
	} {
		for _, during := range []bool{false, true} {
			natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
				js := &racingStream{JetStream: b.JetStream(t)}
				s, err := job.NewStore(t.Context(), js)
				if err != nil {
					t.Fatal(err)
				}
				mine := create(t, s, claim("a"))
				theirs := *mine
				race := func() {
					change(&theirs)
					if err := s.Update(t.Context(), &theirs); err != nil {
						t.Fatal(err)
					}
				}
				if js.race = race; !during {
					js.race = nil
					race()
				}
				if err := s.Withdraw(t.Context(), mine); !errors.Is(err, job.ErrConflict) {
					t.Errorf("%s, during the withdrawal %v: %v", name, during, err)
				}
				if j, err := s.Get(t.Context(), mine.JID); err != nil || j.Owner != theirs.Owner || j.Status != theirs.Status {
					t.Errorf("%s, during the withdrawal %v: the record is %+v, %v", name, during, j, err)
				}
			})
		}
	}
}
