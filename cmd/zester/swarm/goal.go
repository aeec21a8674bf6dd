package swarm

import (
	"fmt"
	"slices"
)

// Names of the figures that have a goal.
const (
	pingEnded     = "test.ping of all: ended, every return stored"
	pingCPU       = "processor time of client, master and bus for a target"
	pingPeel      = "processor time of a simulated peel for it"
	diskWritten   = "disk written for 1 KiB of every peel, beside one copy"
	commitSeconds = "commit that changes an entry of every peel: applied"
	commitCPU     = "processor time of master and bus for a peel of it"
	commitPeel    = "processor time of a simulated peel for an entry"
	waiting       = "results that wait: in records"
	idleCPU       = "processor of idle master and bus"
)

// A Goal is what a figure is to be.
type Goal struct {
	Name    string  `json:"name"`           // of the figure
	Unit    string  `json:"unit,omitempty"` // of Value; empty: the ratio to the bare bus
	Value   float64 `json:"value"`
	Goal    float64 `json:"goal"`
	AtLeast bool    `json:"at_least,omitempty"` // Value is to be Goal or more; else Goal or less
}

// goals returns the goals for a fleet of that size.
func goals(peels int) []Goal {
	dispatch := 1.3
	if peels > 1000 {
		dispatch = 1.5
	}
	return []Goal{
		{Name: pingEnded, Goal: dispatch},
		{Name: pingCPU, Goal: 1.5},
		{Name: pingPeel, Unit: "ms", Goal: 0.06},
		{Name: diskWritten, Goal: 1},
		{Name: commitSeconds, Goal: 1.5},
		{Name: commitCPU, Goal: 1.3},
		{Name: commitPeel, Unit: "ms", Goal: 0.06},
		{Name: waiting, Goal: 0.9, AtLeast: true},
		{Name: idleCPU, Unit: "%", Goal: 4},
	}
}

// setGoals computes Goals from Figures. It leaves out goals without a figure.
func (r *Report) setGoals() {
	r.Goals = nil
	for _, g := range goals(r.Peels) {
		i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == g.Name })
		if i < 0 {
			continue
		}
		if g.Value = r.Figures[i].Ratio; g.Unit != "" {
			g.Value = r.Figures[i].Value
		}
		r.Goals = append(r.Goals, g)
	}
}

// goal is the goal of a figure as a table has it, empty if it has none.
func (r *Report) goal(figure string) string {
	for _, g := range r.Goals {
		switch {
		case g.Name != figure:
		case g.AtLeast:
			return fmt.Sprintf(">= %g %s", g.Goal, g.Unit)
		default:
			return fmt.Sprintf("<= %g %s", g.Goal, g.Unit)
		}
	}
	return ""
}
