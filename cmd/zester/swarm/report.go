// File report.go holds the figures of one run of a swarm, and judges them by their goals. Fill [Report.Figures], then
// call [Report.SetGoals]; [Report.Markdown] writes a table.

package swarm

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// A Figure is a measured value. Its ratios are Value divided by the value of the bare bus; zero means not measured.
type Figure struct {
	Name            string  `json:"name"`
	Unit            string  `json:"unit"` // s, ms, KiB, 1/s, %, or empty for a number
	Value           float64 `json:"value"`
	Bare            float64 `json:"bare,omitempty"` // of the bare bus, accounts as the fleet
	Ratio           float64 `json:"ratio,omitempty"`
	OneAccount      float64 `json:"bare_one_account,omitempty"` // of the bare bus, one account
	OneAccountRatio float64 `json:"ratio_one_account,omitempty"`
}

// A Report has all figures of one run.
type Report struct {
	Version int      `json:"version"` // of this form: 1
	Machine Machine  `json:"machine"`
	Peels   int      `json:"peels"`
	Procs   int      `json:"procs"`
	Rounds  int      `json:"rounds"`
	Bus     string   `json:"bus,omitempty"` // URL of an external bus
	Figures []Figure `json:"figures"`
	Goals   []Goal   `json:"goals,omitempty"` // of the figures that were measured
}

// A Goal is a limit for one figure.
type Goal struct {
	Name string `json:"name"` // of the figure
	// of Value; empty: Value is the ratio to the bare bus, accounts as the fleet
	Unit            string  `json:"unit,omitempty"`
	Value           float64 `json:"value"`
	OneAccountRatio float64 `json:"ratio_one_account,omitempty"` // for comparison; the goal is not judged by it
	Goal            float64 `json:"goal"`
	AtLeast         bool    `json:"at_least,omitempty"` // Value should be Goal or more; else Goal or less
}

// Names of the figures that have a goal.
const (
	PingEnded     = "test.ping of all: ended, every return stored"
	PingCPU       = "processor time of client, master and bus for a target"
	PingPeelCPU   = "processor time of a simulated peel for it"
	DiskWritten   = "disk written for 1 KiB of every peel, beside one copy"
	CommitSeconds = "commit that changes an entry of every peel: applied"
	CommitCPU     = "processor time of master and bus for a peel of it"
	CommitPeelCPU = "processor time of a simulated peel for an entry"
	Waiting       = "results that wait: in records"
	IdleCPU       = "processor of idle master and bus"
)

// Goals returns the goals for a fleet of that size.
func Goals(peels int) []Goal {
	dispatch := 1.3
	if peels > 1000 {
		dispatch = 1.5
	}
	return []Goal{
		{Name: PingEnded, Goal: dispatch},
		{Name: PingCPU, Goal: 1.5},
		{Name: PingPeelCPU, Unit: "ms", Goal: 0.06},
		{Name: DiskWritten, Goal: 1},
		{Name: CommitSeconds, Goal: 1.5},
		{Name: CommitCPU, Goal: 1.3},
		{Name: CommitPeelCPU, Unit: "ms", Goal: 0.06},
		{Name: Waiting, Goal: 0.9, AtLeast: true},
		{Name: IdleCPU, Unit: "%", Goal: 4},
	}
}

// SetGoals computes Goals from Figures. It leaves out goals without a figure.
func (r *Report) SetGoals() {
	r.Goals = nil
	for _, g := range Goals(r.Peels) {
		i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Name == g.Name })
		if i < 0 {
			continue
		}
		if f := r.Figures[i]; g.Unit == "" {
			g.Value, g.OneAccountRatio = f.Ratio, f.OneAccountRatio
		} else {
			g.Value = f.Value
		}
		r.Goals = append(r.Goals, g)
	}
}

// goal returns the goal of a figure for a table, empty if it has none.
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

// Markdown writes what was run and where, and a table of the figures that is aligned in a terminal too.
func (r *Report) Markdown(w io.Writer) error {
	bus := "TLS"
	if r.Bus != "" {
		bus = "the bus at " + r.Bus
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d peels in %d processes, a credential each, %s, median of %d; %s\n", r.Peels, r.Procs, bus,
		r.Rounds, r.Machine)
	b.WriteString(
		"The first bare bus has accounts as the fleet, and goals are judged by its ratio; " +
			"the second has one account.\n\n",
	)
	row := func(cells ...any) { fmt.Fprintf(&b, "| %-58s | %12s | %12s | %6s | %12s | %6s | %10s |\n", cells...) }
	row("figure", "measured", "bare bus", "ratio", "one account", "ratio", "goal")
	fmt.Fprintf(&b, "|%s|%s:|%[2]s:|%[3]s:|%[2]s:|%[3]s:|%s:|\n", strings.Repeat("-", 60), strings.Repeat("-", 13),
		strings.Repeat("-", 7), strings.Repeat("-", 11))
	for _, f := range r.Figures {
		row(f.Name, amount(f.Value, f.Unit), besides(f.Bare, f.Unit), ratio(f.Ratio), besides(f.OneAccount, f.Unit),
			ratio(f.OneAccountRatio), r.goal(f.Name))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// besides formats the figure of a bare bus, which is empty if it was not measured.
func besides(v float64, unit string) string {
	if v == 0 {
		return ""
	}
	return amount(v, unit)
}

func ratio(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// amount formats a value with its unit, in three digits or as many as a whole number has.
func amount(v float64, unit string) string {
	if unit == "" {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64) + " " + unit
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
