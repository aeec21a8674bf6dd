package review

import (
	"maps"
	"slices"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/backtest"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// Measured returns the entries whose durations [Review.Test] uses, sorted: those that change, and the others of their
// peels. head is the plan that the review was made of.
func (r *Review) Measured(head *plan.Plan) []string {
	names := map[string]bool{}
	for _, c := range r.Changes {
		names[c.Entry] = true
		for name := range entriesOf(head, c) {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Test adds what the changed entries would have done in the past. The plans are those that the review was made of.
func (r *Review) Test(base, head *plan.Plan, past backtest.Past) (err error) {
	changes := make([]backtest.Change, len(r.Changes))
	for i, c := range r.Changes {
		changes[i] = backtest.Change{
			Entry:  c.Entry,
			Peels:  c.Peels,
			Before: entriesOf(base, c)[c.Entry],
			After:  entriesOf(head, c)[c.Entry],
			Beside: entriesOf(head, c),
		}
	}
	r.Backtest, err = backtest.Of(changes, past)
	return err
}

// entriesOf returns the entries of the first peel with a change.
func entriesOf(p *plan.Plan, c Change) schedule.Set {
	e := p.Peels[c.Peels[0]]
	if e == nil { // the peel was held back
		return nil
	}
	return e.Schedule
}
