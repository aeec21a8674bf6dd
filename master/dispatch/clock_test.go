package dispatch

import (
	"log/slog"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// The owner's clock shows 10:00 and the job has 5 minutes when it writes the record. The bus's clock shows 12:00 then.
// A minute later this master, whose clock is ahead of the bus's, looks at the record: 4 minutes are left.
func TestTheTimeThatIsLeftDoesNotDependOnTheClocksOfMasters(t *testing.T) {
	owner := time.Date(2026, time.May, 1, 10, 0, 0, 0, time.UTC)
	bus := owner.Add(2 * time.Hour)
	for _, ahead := range []time.Duration{-time.Hour, -10 * time.Second, 0, 10 * time.Second, time.Hour} {
		s := &Scanner{d: &Dispatcher{log: slog.New(slog.DiscardHandler)}, ahead: ahead}
		j := &job.Job{Updated: owner, Deadline: owner.Add(5 * time.Minute), Written: bus}
		now := bus.Add(time.Minute + ahead)
		s.setDeadline(j, now)
		if left := j.Deadline.Sub(now); left != 4*time.Minute {
			t.Errorf("with a clock that is %v ahead of the bus's %v are left, want 4m0s", ahead, left)
		}
	}
}

func TestTheHeartbeatTellsHowFarTheClockIsAheadOfTheBus(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s := NewScanner(&Dispatcher{o: Options{Owner: "m1/1"}, log: slog.New(slog.DiscardHandler)}, b.JetStream(t), "")
		if err := s.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, ahead := range []time.Duration{-3 * time.Minute, 3 * time.Minute} {
			data, err := canon.Marshal(heartbeat{"m1/1", time.Now().Add(ahead)})
			if err == nil {
				_, err = s.beats.Put(t.Context(), "m1", data)
			}
			if err != nil {
				t.Fatal(err)
			}
			if lives, err := s.lives(t.Context(), "m1/1"); err != nil || !lives || (s.ahead-ahead).Abs() > time.Second {
				t.Errorf("lives: %v, %v; its clock is %v ahead, want %v", lives, err, s.ahead, ahead)
			}
		}
	})
}
