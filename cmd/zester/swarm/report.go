package swarm

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Figure is one thing that was measured.
type Figure struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"` // s, ms, KiB, 1/s, %, or empty for a number
	Value float64 `json:"value"`
	Bare  float64 `json:"bare,omitempty"`  // of the bare bus with the same traffic; 0: there is no such thing
	Ratio float64 `json:"ratio,omitempty"` // Value to Bare
}

// A Report is all that was measured in one run.
type Report struct {
	Version int      `json:"version"` // of this form: 1
	Machine Machine  `json:"machine"`
	Peels   int      `json:"peels"`
	Procs   int      `json:"procs"`
	Rounds  int      `json:"rounds"`
	Bus     string   `json:"bus,omitempty"` // URL of one that somebody else runs
	Figures []Figure `json:"figures"`
	Goals   []Goal   `json:"goals,omitempty"` // of the figures that were measured
}

// Markdown writes the report as people read it: what was run and where, and a table that is one in a terminal too.
func (r *Report) Markdown(w io.Writer) error {
	bus := "TLS"
	if r.Bus != "" {
		bus = "the bus at " + r.Bus
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d peels in %d processes, a credential each, %s, median of %d; %s\n\n", r.Peels, r.Procs, bus, r.Rounds, r.Machine)
	fmt.Fprintf(&b, "| %-58s | %12s | %12s | %6s | %10s |\n", "figure", "measured", "bare bus", "ratio", "goal")
	fmt.Fprintf(&b, "|%s|%s:|%s:|%s:|%s:|\n", strings.Repeat("-", 60), strings.Repeat("-", 13), strings.Repeat("-", 13), strings.Repeat("-", 7), strings.Repeat("-", 11))
	for _, f := range r.Figures {
		bare, ratio := "", ""
		if f.Bare > 0 {
			bare, ratio = amount(f.Bare, f.Unit), strconv.FormatFloat(f.Ratio, 'f', 2, 64)
		}
		fmt.Fprintf(&b, "| %-58s | %12s | %12s | %6s | %10s |\n", f.Name, amount(f.Value, f.Unit), bare, ratio, r.goal(f.Name))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// amount is a value with its unit, in three digits or as many as a whole number has.
func amount(v float64, unit string) string {
	if unit == "" {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64) + " " + unit
	}
	return fmt.Sprintf("%.3g %s", v, unit)
}
