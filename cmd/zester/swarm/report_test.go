package swarm

import (
	"slices"
	"testing"
)

func TestAReportNamesTheGoalsOfItsFigures(t *testing.T) {
	r := Report{Peels: 10_000, Figures: []Figure{{Name: PingEnded, Unit: "s", Value: 3, Bare: 2, Ratio: 1.5, OneAccount: 1, OneAccountRatio: 3}, {Name: PingPeelCPU, Unit: "ms", Value: 0.1, Bare: 0.05, Ratio: 2}, {Name: Waiting, Ratio: 0.8}}}
	r.SetGoals()
	want := []Goal{{Name: PingEnded, Value: 1.5, OneAccountRatio: 3, Goal: 1.5}, {Name: PingPeelCPU, Unit: "ms", Value: 0.1, Goal: 0.06}, {Name: Waiting, Value: 0.8, Goal: 0.9, AtLeast: true}}
	if !slices.Equal(r.Goals, want) {
		t.Errorf("%+v", r.Goals)
	}
	if got := r.goal(Waiting) + r.goal(PingPeelCPU) + r.goal("none"); got != ">= 0.9 <= 0.06 ms" {
		t.Error(got)
	}
	r.Peels = 1000
	if r.SetGoals(); r.Goals[0].Goal != 1.3 {
		t.Errorf("%+v", r.Goals[0])
	}
}
