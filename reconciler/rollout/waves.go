package rollout

import (
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// Waves returns how far each wave of a rollout is after a step, with what was noted of them before: an attempt without
// waves, or one at an earlier step of the same rollout.
func (s *Step) Waves(before status.Attempt, now time.Time) []status.Wave {
	r := &s.Rollout
	list := make([]status.Wave, len(r.Waves))
	for i := range list {
		w := &list[i]
		if len(before.Steps) == len(list) {
			*w = before.Steps[i]
		}
		w.Name, w.Gate, w.Soak = r.Waves[i].Name, string(r.Waves[i].Gate), r.Waves[i].Soak
		// An attempt keeps few approvals.
		if w.Gate == string(policy.GateManual) && w.ApprovedBy == "" {
			w.ApprovedBy = openedBy(before.Approvals, w.Name)
		}
		switch {
		case i < r.Stage.Wave || s.State == Complete:
			if w.Began.IsZero() {
				w.Began = now.UTC() // no time passed between its beginning and its end
			}
			if w.Passed.IsZero() {
				w.Passed = now.UTC()
			}
		case i == r.Stage.Wave:
			s.note(w, now)
		}
		if c, is := s.ended[i]; is {
			w.Peels, w.Applied, w.Failing = c.Peels, c.Applied, c.Failed
		}
	}
	return list
}

// note notes the wave under way.
func (s *Step) note(w *status.Wave, now time.Time) {
	stage := &s.Rollout.Stage
	if stage.Phase == record.Choosing && stage.Size == 0 {
		return
	}
	if w.Began.IsZero() {
		w.Began = now.UTC()
	}
	w.Changes, w.Peels = s.Changes, s.Counts.Peels
	w.Applied, w.Failing = s.Counts.Applied, s.Counts.Failed
	w.MaxFailures = s.Rollout.Wave().MaxFailures.Within(stage.Size)
	if stage.Phase == record.Passed && w.Passed.IsZero() {
		w.Passed = stage.Entered.UTC()
	}
}

// openedBy returns who opened the gate of a wave; empty if nobody did.
func openedBy(approvals []status.Approval, wave string) (by string) {
	for _, a := range approvals {
		if a.What == gatePrefix+wave {
			by = a.By
		}
	}
	return by
}
