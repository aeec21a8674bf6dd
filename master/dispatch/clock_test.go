package dispatch

import (
	"log/slog"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
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
