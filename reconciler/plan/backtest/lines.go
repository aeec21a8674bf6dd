package backtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// fates say what becomes of a fire that comes while the run before is in flight.
var fates = map[schedule.IfRunning]string{
	schedule.IfRunningSkip:   "skipped",
	schedule.IfRunningQueue:  "queued",
	schedule.IfRunningCancel: "cancel it",
	schedule.IfRunningAllow:  "run beside it",
}

// Lines returns the result for people: what was compared, a line for each entry, and the load.
func (r *Result) Lines() []string {
	const layout = "2006-01-02 15:04 MST"
	records := "no runs are recorded, so durations are not known"
	if known := r.Until.Sub(r.Recorded); !r.Recorded.IsZero() {
		records = fmt.Sprintf("runs are recorded for %s of these %s", span(max(0, known)), span(r.Until.Sub(r.From)))
	}
	lines := []string{fmt.Sprintf("backtest: %s to %s; %s", r.From.Format(layout), r.Until.Format(layout), records)}
	for _, e := range r.Entries {
		lines = append(lines, "backtest: "+e.line())
	}
	if r.More > 0 {
		lines = append(lines, fmt.Sprintf("backtest: %d more changes were not tested", r.More))
	}
	return append(lines,
		fmt.Sprintf("backtest: most starts in a minute: %s → %s", peak(r.Load.Before.Starts, r.Load.Before.StartsAt),
			peak(r.Load.After.Starts, r.Load.After.StartsAt)),
		fmt.Sprintf("backtest: most runs at a time: %s → %s", peak(r.Load.Before.InFlight, r.Load.Before.InFlightAt),
			peak(r.Load.After.InFlight, r.Load.After.InFlightAt)))
}

// span returns a length of time, in whole days from two on.
func span(d time.Duration) string {
	if d >= 48*time.Hour {
		return fmt.Sprintf("%.0f days", d.Hours()/24)
	}
	return strictyaml.FormatDuration(d.Round(time.Minute))
}

func peak(n float64, at time.Time) string {
	if at.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%s (%s)", forecast.Number(n), at.Format("2006-01-02 15:04 MST"))
}

func (e *Entry) line() string {
	noun := "peels"
	if e.Peels == 1 {
		noun = "peel"
	}
	parts := []string{fmt.Sprintf("%s on %d %s: %d fires each, %d before", e.Entry, e.Peels, noun, e.Fires, e.Before)}
	switch {
	case e.Runs == 0:
		parts = append(parts, "no run is recorded")
	case e.Counted:
		text := "a run takes about %s, and 95 of 100 at most about %s, as the peels have counted"
		parts = append(parts, fmt.Sprintf(text, length(e.Median), length(e.P95)))
	default:
		parts = append(parts, fmt.Sprintf("a run takes %s, and 95 of 100 at most %s", length(e.Median), length(e.P95)))
	}
	if e.Overlaps > 0 {
		parts = append(parts, fmt.Sprintf("%d come while the run before is in flight (%s)", e.Overlaps,
			fates[e.IfRunning]))
	}
	if e.Blackout > 0 {
		parts = append(parts, fmt.Sprintf("%d more are in a blackout", e.Blackout))
	}
	if e.Outside > 0 {
		parts = append(parts, fmt.Sprintf("%d more are outside its windows", e.Outside))
	}
	if e.Into > 0 {
		parts = append(parts, fmt.Sprintf("%d runs would last beyond its windows", e.Into))
	}
	for _, p := range e.Beside {
		parts = append(parts, fmt.Sprintf("%d run beside %s", p.Fires, p.Entry))
	}
	return strings.Join(parts, "; ")
}

func length(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	}
	return strictyaml.FormatDuration(d)
}
