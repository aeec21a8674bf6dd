package review

import (
	"fmt"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
)

// effectsShown bounds the effects of one kind in the facts.
const effectsShown = 20

var effectTitles = map[diff.StateKind]string{
	diff.StateRemoval:  "deletes",
	diff.StateReaction: "reacts",
	diff.StatesLeft:    "taken out",
}

// Radius returns one line about the share of the fleet that changes.
func (r *Review) Radius() string {
	switch {
	case r.Refused:
		return "this revision would be refused: the fleet would keep what it has"
	case r.Peels == 0:
		return "no peels are known: which hosts get what was not checked"
	case r.Empty():
		return fmt.Sprintf("nothing changes on any of %d peels", r.Peels)
	}
	verb := "change"
	if len(r.Touched) == 1 {
		verb = "changes"
	}
	return fmt.Sprintf("%d of %d peels %s (%.3g %%)", len(r.Touched), r.Peels, verb,
		100*float64(len(r.Touched))/float64(r.Peels))
}

// Facts returns lines about the whole change: its peels, its extent and the load.
func (r *Review) Facts() []string {
	if r.Refused {
		return nil
	}
	var lines []string
	if !r.Empty() {
		lines = r.extent()
	}
	for _, rule := range r.Safety.Weakens {
		lines = append(lines, "weaker rule: "+rule)
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

// extent returns lines about the peels and entries that change.
func (r *Review) extent() []string {
	t := r.Totals
	lines := []string{
		"peels: " + plan.FirstOf(r.Touched, namesShown),
		fmt.Sprintf("entries: %d added, %d changed, %d removed of %d; %d timers start anew",
			t.Added, t.Changed, t.Removed, t.Before, t.TimersReset),
		fmt.Sprintf("runs in a day: %s → %s", forecast.Number(r.Load.Before.Runs), forecast.Number(r.Load.After.Runs)),
		fmt.Sprintf("worst minute: %s → %s", r.Load.Before.Worst, r.Load.After.Worst),
	}
	if len(r.States) > 0 {
		lines = append(lines, fmt.Sprintf("states: %d added, %d changed, %d removed", t.StatesAdded, t.StatesChanged,
			t.StatesRemoved))
	}
	lines = append(lines, r.Safety.Lines(len(r.Touched))...)
	if r.Backtest != nil {
		lines = append(lines, r.Backtest.Lines()...)
	}
	return append(lines, r.effects()...)
}

// effects returns lines about what states will do because of the change, at most effectsShown of each kind.
func (r *Review) effects() (lines []string) {
	shown := map[diff.StateKind]int{}
	for _, e := range r.Effects {
		if shown[e.Kind]++; shown[e.Kind] <= effectsShown {
			lines = append(lines, fmt.Sprintf("%s: %s (state %s); %s", effectTitles[e.Kind], cut(e.Text, valueShown),
				e.State, Names(e.Peels)))
		}
	}
	for _, kind := range []diff.StateKind{diff.StateRemoval, diff.StateReaction, diff.StatesLeft} {
		if more := shown[kind] - effectsShown; more > 0 {
			lines = append(lines, fmt.Sprintf("%s: %d more", effectTitles[kind], more))
		}
	}
	return lines
}

// String returns the minute with its number of runs.
func (w *Worst) String() string {
	if w == nil {
		return "none"
	}
	return fmt.Sprintf("%s with %s", w.At.Format("15:04 MST"), forecast.Number(w.Runs))
}
