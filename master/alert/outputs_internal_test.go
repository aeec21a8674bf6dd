package alert

import (
	"context"
	"testing"

	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// What the runs of an alert printed that has ended is not shown when its entry fails again.
func TestTheOutputOfAnEndedAlertIsForgotten(t *testing.T) {
	s := newOutputs(Options{Output: func(_ context.Context, _ string, peel target.PeelID) (notify.Output, error) {
		return notify.Output{Peel: peel, Lines: []string{"no data of yesterday"}}, nil
	}})
	s.limit = rate.NewLimiter(0, 1) // one output is read
	lines := func(phase notify.AlertPhase) int {
		m := notify.AlertMessage{
			ID: "default/backup", Event: "e", Phase: phase, Subject: "backup", Troubles: []verdict.Kind{verdict.Failed},
			Names: []target.PeelID{"db-1"},
		}
		return len(s.add(t.Context(), []notify.AlertMessage{m})[0].Output.Lines)
	}
	for i, step := range []struct {
		phase notify.AlertPhase
		want  int
	}{{notify.AlertBegan, 1}, {notify.AlertLasts, 1}, {notify.AlertEnded, 0}, {notify.AlertLasts, 0}} {
		if got := lines(step.phase); got != step.want {
			t.Errorf("step %d, %s: %d lines, want %d", i, step.phase, got, step.want)
		}
	}
}
