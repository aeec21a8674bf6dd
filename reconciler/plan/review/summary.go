package review

import (
	"fmt"

	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
)

// Radius says how much of the fleet changes.
func (r *Review) Radius() string {
	switch {
	case r.Refused:
		return "this revision would be refused: the fleet would keep what it has"
	case r.Empty():
		return fmt.Sprintf("nothing changes on any of %d peels", r.Peels)
	}
	return fmt.Sprintf("%d of %d peels change (%.3g %%)", len(r.Touched), r.Peels, 100*float64(len(r.Touched))/float64(r.Peels))
}

// Facts are lines about the change as a whole: who, how much, and what it makes of the load.
func (r *Review) Facts() []string {
	if r.Refused {
		return nil
	}
	var lines []string
	if !r.Empty() {
		lines = r.extent()
	}
	if n := len(r.Emptied); n > 0 {
		lines = append(lines, "without any entry after it: "+Names(r.Emptied))
	}
	if n := len(r.Behind); n > 0 {
		lines = append(lines, "held back by mistakes: "+Names(r.Behind))
	}
	if n := len(r.Warnings) - r.NewWarnings; n > 0 && !r.Empty() {
		lines = append(lines, fmt.Sprintf("warnings that the base has too: %d, which zester lint lists", n))
	}
	return lines
}

// extent says which peels change, and how much.
func (r *Review) extent() []string {
	who := r.Touched
	more := ""
	if len(who) > namesShown {
		who, more = who[:namesShown], fmt.Sprintf(" and %d more", len(who)-namesShown)
	}
	t := r.Totals
	lines := []string{
		"peels: " + join(who) + more,
		fmt.Sprintf("entries: %d added, %d changed, %d removed of %d; %d timers start anew",
			t.Added, t.Changed, t.Removed, t.Before, t.TimersReset),
		fmt.Sprintf("runs in a day: %s → %s", forecast.Number(r.Load.Before.Runs), forecast.Number(r.Load.After.Runs)),
		fmt.Sprintf("worst minute: %s → %s", r.Load.Before.Worst, r.Load.After.Worst),
	}
	return append(lines, r.Safety.Lines(len(r.Touched))...)
}

// String is the minute with its number of runs.
func (w *Worst) String() string {
	if w == nil {
		return "none"
	}
	return fmt.Sprintf("%s with %s", w.At.Format("15:04 MST"), forecast.Number(w.Runs))
}

// release says how a change that the guard holds back can go out.
func release(stop *diff.BlockedError) string {
	approve := "zester sync approve " + stop.Hash + " after the merge lets it out"
	if stop.RemovesAll {
		return approve
	}
	return "the line " + stop.Trailer() + " at the end of the commit's message, or " + approve
}
