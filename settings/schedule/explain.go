package schedule

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule/window"
)

// Explain describes in one English sentence when and how the entry runs: "every 4 hours at minute 0, in Europe/London,
// delayed by up to 15 minutes, at most one at a time". Of the defaults it mentions only the limit of runs.
func (e *Entry) Explain() string {
	parts := []string{e.timing()}
	if e.Clock.Zone != "" {
		parts = append(parts, "in "+e.Clock.Zone)
	}
	parts = append(parts, e.Clock.changes()...)
	parts = append(parts, e.Splay.explain()...)
	parts = append(parts, e.Windows.explain()...)
	parts = append(parts, e.Life.explain()...)
	parts = append(parts, e.Overlap.explain())
	if e.RunOnStart {
		parts = append(parts, "and once when the peel starts")
	}
	if e.Timeout > 0 {
		parts = append(parts, "ended after "+span(e.Timeout))
	}
	parts = append(parts, e.Missed.explain()...)
	parts = append(parts, e.Failures.explain()...)
	switch e.ReturnJob {
	case ReturnAlways:
		parts = append(parts, "reported as a job")
	case ReturnFailures:
		parts = append(parts, "reported as a job where it fails")
	}
	text := strings.Join(parts, ", ")
	if !e.Enabled {
		text = "disabled: " + text
	}
	return text
}

func (e *Entry) timing() string {
	texts := make([]string, 0, 2)
	if !e.Clock.IsZero() {
		texts = append(texts, e.Clock.explain())
	}
	if e.Needs.Entry != "" {
		texts = append(texts, "when "+e.Needs.Entry+map[NeedsOn]string{
			NeedsSuccess: " has succeeded", NeedsFailure: " has failed", NeedsDone: " has ended",
		}[e.Needs.On])
	}
	if len(texts) == 0 {
		return "never"
	}
	return strings.Join(texts, " and ")
}

func (c Clock) explain() string {
	switch {
	case len(c.At) > 0:
		texts := make([]string, len(c.At))
		for i, at := range c.At {
			texts[i] = at.Format(time.RFC3339)
		}
		return "once at " + strings.Join(texts, " and at ")
	case c.After > 0:
		return "once, " + span(c.After) + " after it was first seen"
	case len(c.Cron) > 0:
		texts := make([]string, len(c.Cron))
		for i, x := range c.Cron {
			texts[i] = x.English()
		}
		return strings.Join(texts, " and ")
	}
	every := "every " + span(c.Interval.Duration)
	if unit, one := strings.CutPrefix(every, "every 1 "); one && !strings.Contains(unit, " ") {
		every = "every " + unit
	}
	if c.Interval.Months > 0 {
		every = "every month"
	}
	switch c.IntervalFrom {
	case FromStart:
		return every + " from the start of the run before"
	case FromEpoch:
		every += " from 1970-01-01 on"
		if c.Phase > 0 {
			every += " plus " + span(c.Phase)
		}
		return every
	}
	return every + " from the end of the run before"
}

// changes describes the daylight saving rules of the entry if they are not the defaults.
func (c Clock) changes() []string {
	var parts []string
	if g := c.Changes.Gap; g != "" && g != New("").Clock.Changes.Gap {
		parts = append(parts, "times that the clock jumps over "+
			map[string]string{"skip": "are skipped", "shift": "come as much later"}[string(g)])
	}
	if r := c.Changes.Repeat; r != "" && r != New("").Clock.Changes.Repeat {
		parts = append(parts, "times that come twice count "+
			map[string]string{"first": "the first time", "last": "the last time", "both": "both times"}[string(r)])
	}
	return parts
}

func (s Splay) explain() []string {
	if s.Max == 0 {
		return nil
	}
	text := "delayed by up to " + span(s.Max)
	if s.Min > 0 {
		text = "delayed by " + span(s.Min) + " to " + span(s.Max)
	}
	if s.Mode == SplayHost {
		text += ", always the same on one peel"
	}
	return []string{text}
}

func (w Windows) explain() []string {
	var parts []string
	if len(w.Rules.Hours) > 0 {
		texts := make([]string, len(w.Rules.Hours))
		for i, h := range w.Rules.Hours {
			texts[i] = h.String()
		}
		parts = append(parts, "only in "+strings.Join(texts, " and "))
	}
	for _, d := range []struct {
		text string
		days window.Days
	}{{"only on ", w.Rules.On}, {"not on ", w.Rules.NotOn}, {"never in the blackout ", w.Rules.Blackout}} {
		if !d.days.Empty() {
			parts = append(parts, d.text+strings.Join(d.days.Words(), " and "))
		}
	}
	if len(parts) > 0 && w.Outside == OutsideDefer {
		parts = append(parts, "or else once as soon as it may")
	}
	return parts
}

func (l Life) explain() []string {
	var parts []string
	if !l.NotBefore.IsZero() {
		parts = append(parts, "not before "+l.NotBefore.Format(time.RFC3339))
	}
	if !l.Until.IsZero() {
		parts = append(parts, "until "+l.Until.Format(time.RFC3339))
	}
	if l.MaxRuns > 0 {
		parts = append(parts, count(l.MaxRuns, "run")+" at most")
	}
	if l.DeleteAfterRun {
		parts = append(parts, "gone after a run")
	}
	return parts
}

func (o Overlap) explain() string {
	text := fmt.Sprintf("at most %d at a time", o.MaxRunning)
	if o.MaxRunning == 1 {
		text = "at most one at a time"
	}
	if o.Group != "" {
		text += " in group " + o.Group
	}
	switch o.IfRunning {
	case IfRunningQueue:
		text += ", then one waits"
	case IfRunningCancel:
		text += ", then the one before is cancelled"
	case IfRunningAllow:
		text = "however many run"
	}
	return text
}

func (m Missed) explain() []string {
	usual := New("").Missed
	var parts []string
	switch m.CatchUp {
	case CatchUpRunOnce:
		parts = append(parts, "made up once where times were missed")
	case CatchUpRunAll:
		parts = append(parts, fmt.Sprintf("made up to %d times where times were missed", m.CatchUpMax))
	}
	if m.StartDeadline != usual.StartDeadline {
		parts = append(parts, "started up to "+span(m.StartDeadline)+" late")
	}
	if m.LateAfter > 0 {
		parts = append(parts, "marked late after "+span(m.LateAfter))
	}
	return parts
}

func (f Failures) explain() []string {
	var parts []string
	if f.Retry.Attempts > 0 {
		parts = append(parts, "tried again up to "+count(f.Retry.Attempts, "time")+" after "+span(f.Retry.Backoff))
	}
	if f.Breaker.Threshold > 0 {
		parts = append(parts, "stopped for "+span(f.Breaker.ResetAfter)+" by "+count(f.Breaker.Threshold, "failure")+
			" in a row")
	}
	if f.PauseAfter > 0 {
		parts = append(parts, "paused by "+count(f.PauseAfter, "failure")+" in a row")
	}
	return parts
}

// span formats a duration in words: "1 hour and 30 minutes".
func span(d time.Duration) string {
	var parts []string
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"day", 24 * time.Hour}, {"hour", time.Hour}, {"minute", time.Minute}} {
		if n := d / unit.size; n > 0 {
			parts = append(parts, count(int(n), unit.name))
			d %= unit.size
		}
	}
	switch {
	case d%time.Second == 0 && (d > 0 || len(parts) == 0):
		parts = append(parts, count(int(d/time.Second), "second"))
	case d > 0:
		parts = append(parts, d.String())
	}
	return strings.Join(parts, " and ")
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
