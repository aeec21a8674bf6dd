package why

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

func (q *question) reportSource() string {
	return fmt.Sprintf("report of %s at %s", q.Peel, q.stamp(q.Report.Time))
}

func (q *question) documentSource() string { return "document of commit " + q.Document.Commit.Short() }

func (q *question) add(about, source, format string, args ...any) {
	q.facts = append(q.facts, api.WhyFact{About: about, Text: fmt.Sprintf(format, args...), Source: source})
}

// addFacts adds what supports the verdict, and what else is known of the time of the fire.
func (q *question) addFacts(f fire, v *judgement, w *api.WhyAnswer) {
	at := f.instant()
	if f.note != "" {
		q.add("time", q.documentSource(), "%s", f.note)
	}
	if v.fact != "" {
		q.add("fire", v.source, "%s", v.fact)
	}
	q.addRun(f.nominal, w)
	q.addStored(v)
	q.addCause(f.nominal)
	q.addSettings(at, f.nominal)
	q.addTiming(at)
	q.addState()
	q.addActs()
	if q.Presence != (Presence{}) {
		q.add("peel", "presence", "%s", q.presence())
	}
	if q.Report != nil && !q.Report.Started.IsZero() {
		q.add("process", q.reportSource(), "zester-peel %s has run since %s", oneLineFact(q.Report.Version),
			q.stamp(q.Report.Started))
	}
	if off := q.clockOff(); off != 0 {
		q.add("clock", q.reportSource(), "the peel's clock is %s %s that of the bus: the report came at %s",
			strictyaml.FormatDuration(off.Abs()), map[bool]string{true: "ahead of", false: "behind"}[off > 0],
			q.stamp(q.Stored))
	}
	q.addNext(w)
}

// clockTolerance is how far the clocks of a peel and of the bus may be apart, including the time that a report takes.
const clockTolerance = time.Minute

// clockOff returns how far the clock of the peel is ahead of the clock of the bus, 0 below clockTolerance.
func (q *question) clockOff() time.Duration {
	if q.Report == nil || q.Stored.IsZero() {
		return 0
	}
	if off := q.Report.Time.Sub(q.Stored).Round(time.Second); off.Abs() > clockTolerance {
		return off
	}
	return 0
}

// addRun fills in the times and the job of the run, and adds the job.
func (q *question) addRun(nominal time.Time, w *api.WhyAnswer) {
	if nominal.IsZero() {
		return
	}
	r := q.runOf(nominal)
	w.Started, w.Ended, w.Job = r.started, r.ended, r.jid
	if j := r.job; j != nil {
		text := fmt.Sprintf("%s ran %s: %s", j.JID, j.Function, j.Status)
		if r.commit != "" {
			text += fmt.Sprintf(", by the entry of commit %s in %s", short(r.commit), j.Metadata[job.MetaFile])
		}
		q.add("job", r.source, "%s", oneLineFact(text))
	}
}

// addSettings adds the document, the origin of the entry in Git, and the revisions in force and on their way at a time.
func (q *question) addSettings(at, nominal time.Time) {
	d := &q.Document
	switch {
	case d.Commit == "":
	case d.Entry == nil:
		q.add("document", q.documentSource(), "the newest settings of %s, written at %s, do not have %s", q.Peel,
			q.stamp(d.Written), q.Entry)
	default:
		q.add("document", q.documentSource(), "the newest settings of %s (generation %d) were written at %s%s", q.Peel,
			d.Written.UnixMilli(), q.stamp(d.Written), q.applied())
	}
	q.addGeneration(nominal)
	if q.listed != nil && q.listed.Name != "" && q.listed.State != stateRemoved {
		q.add("document", q.reportSource(), "the entry is in peel.yaml of the host, not in Git")
	}
	if o := d.Origin; o.Commit != "" {
		q.add("entry", q.documentSource(), "last changed in %s:%d by %s at %s, with commit %s", o.File, o.Line,
			oneLineFact(o.Author), q.stamp(o.Time), o.Commit.Short())
	}
	if at.IsZero() {
		return
	}
	others := ""
	if r := takenBack(q.Revisions, at); r != nil {
		text := fmt.Sprintf(
			"commit %s was on its way to the fleet then; it had begun at %s, and was rolled back at %s",
			r.Commit.Short(), q.stamp(r.Began), q.stamp(r.Ended),
		)
		if q.runOf(nominal).commit == string(r.Commit) {
			others = " on other peels"
			text = fmt.Sprintf(
				"the run had commit %s, which the peel got before others from %s on, and which was rolled back at %s",
				r.Commit.Short(), q.stamp(r.Began), q.stamp(r.Ended),
			)
		}
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		q.add("rollout", "history of revisions", "%s", oneLineFact(text))
	}
	if r := inForce(q.Revisions, at); r != nil {
		text := fmt.Sprintf("commit %s was in force%s then; it had begun to go out at %s", r.Commit.Short(), others,
			q.stamp(r.Began))
		if d.Commit != "" && d.Written.After(at) {
			text += "; the settings of the peel were written after that time, so they may have been others then"
		}
		q.add("revision", "history of revisions", "%s", text)
	}
}

// addGeneration adds which settings of the peel were in force when the fire ran.
func (q *question) addGeneration(nominal time.Time) {
	r := q.runOf(nominal)
	switch {
	case nominal.IsZero() || r.generation == 0:
	case r.generation == uint64(q.Document.Written.UnixMilli()):
		q.add("document", q.reportSource(), "the run had these settings, of generation %d", r.generation)
	default:
		q.add("document", q.reportSource(), "the run had others, of generation %d, which were written at %s",
			r.generation, q.stamp(time.UnixMilli(int64(min(r.generation, math.MaxInt64)))))
	}
}

// takenBack returns the revision that was going out at a time and was rolled back later, nil if there is none.
func takenBack(attempts []status.Attempt, at time.Time) *status.Attempt {
	i := slices.IndexFunc(attempts, func(a status.Attempt) bool {
		return a.Outcome == status.OutcomeRolledBack && !a.Began.After(at) && a.Ended.After(at)
	})
	if i < 0 {
		return nil
	}
	return &attempts[i]
}

// applied says whether the peel runs the document, as of its report.
func (q *question) applied() string {
	switch {
	case q.Report == nil || q.Report.Digest == "" || q.Document.Digest == "":
		return ""
	case q.Report.Digest == string(q.Document.Digest):
		return ", and the peel runs them"
	}
	return ", and the peel runs others, of commit " + short(q.Report.Commit)
}

// inForce returns the revision that was in force at a time; nil if the history does not go back so far.
func inForce(attempts []status.Attempt, at time.Time) *status.Attempt {
	for i := range attempts {
		switch a := &attempts[i]; a.Outcome {
		case status.OutcomeApplied, status.OutcomeProgressing, status.OutcomeSuperseded:
			if !a.Began.After(at) {
				return a
			}
		}
	}
	return nil
}

// addTiming adds the timing in words, the zone, and the windows at a time.
func (q *question) addTiming(at time.Time) {
	e := q.Document.Entry
	if e == nil {
		return
	}
	q.add("timing", q.documentSource(), "%s", e.Explain())
	source := q.documentSource()
	if e.Clock.Zone == "" && q.Report != nil {
		source = q.reportSource()
	}
	zone := q.zoneName
	if !at.IsZero() {
		zone += ", " + at.In(q.zone).Format("UTC-07:00") + " then"
		if change := ClockChange(at, q.zone); change != "" {
			zone += "; " + change
		}
	}
	q.add("zone", source, "%s", zone)
	if e.Windows.Rules.None() || at.IsZero() {
		return
	}
	text := "open at " + q.stamp(at)
	if line := q.closedBy(at); line != "" {
		text = fmt.Sprintf("closed at %s (%s)", q.stamp(at), line)
		if opens, ok := q.timing.Opens(at); ok {
			text += "; they open at " + q.stamp(opens)
		}
	}
	q.add("windows", q.documentSource(), "%s", text)
}

// addState adds the state of the entry on the peel, and its breaker.
func (q *question) addState() {
	e := q.listed
	if e == nil {
		return
	}
	text := e.State
	if !e.Since.IsZero() {
		text += " since " + q.stamp(e.Since)
	}
	if e.Why != "" {
		text += ": " + oneLineFact(e.Why)
	}
	if e.InRow == 1 {
		text += "; the newest run failed"
	} else if e.InRow > 1 {
		text += fmt.Sprintf("; %d runs in a row failed", e.InRow)
	}
	if e.Running > 0 {
		text += fmt.Sprintf("; %d in flight", e.Running)
	}
	q.add("state", q.reportSource(), "%s", text)
	if e.Breaker != "" {
		q.add("breaker", q.reportSource(), "%s", oneLineFact(e.Breaker))
	}
}

// mostActs bounds the actions of operators in an answer.
const mostActs = 5

func (q *question) addActs() {
	for i := range q.Acts[max(0, len(q.Acts)-mostActs):] {
		act := &q.Acts[max(0, len(q.Acts)-mostActs)+i]
		q.add("operator", act.Source(), "%s at %s", act, q.stamp(act.Time))
	}
}

// addNext adds when the entry is due next.
func (q *question) addNext(w *api.WhyAnswer) {
	switch {
	case q.listed != nil && q.listed.Next.After(q.Now):
		w.Next = q.listed.Next
		text := q.stamp(w.Next)
		if late := q.listed.Latest.Sub(w.Next).Round(time.Second); late > 0 {
			text += ", and must start within " + strictyaml.FormatDuration(late)
		}
		q.add("next", q.reportSource(), "%s", text)
	case q.hasClock && q.stopped(q.Now) == nil:
		if next, ok := q.timing.Next(q.Now); ok {
			w.Next = next
			q.add("next", q.documentSource(), "%s", q.stamp(next))
		}
	}
}

// pauseAt returns the act by which an operator had paused the entry at a time, as [PauseAt] does; nil if none is known.
func (q *question) pauseAt(at time.Time) *Act {
	if q.listed != nil && q.listed.State != "paused_manual" && !q.listed.Since.After(at) {
		return nil // it was resumed in a way that the log does not name
	}
	return PauseAt(q.Acts, at)
}

// rolloutWords is the sentence with the commit that a run had if it was rolled back; empty otherwise.
func (q *question) rolloutWords(nominal time.Time) string {
	r := takenBack(q.Revisions, nominal)
	if nominal.IsZero() || r == nil || q.runOf(nominal).commit != string(r.Commit) {
		return ""
	}
	return fmt.Sprintf(" It ran with commit %s, which %s got before other peels, and which was rolled back at %s%s.",
		r.Commit.Short(), q.Peel, q.stamp(r.Ended), words(" (", oneLineFact(r.Reason), ")"))
}

// causeOf returns the cause if the fire is part of the problem that the peel has now.
func (q *question) causeOf(nominal time.Time) *Cause {
	if q.Cause == nil || nominal.IsZero() || nominal.Before(q.Cause.Since.Truncate(time.Second)) {
		return nil
	}
	return q.Cause
}

// addCause adds which commit the problem followed, or that none explains it.
func (q *question) addCause(nominal time.Time) {
	if c := q.causeOf(nominal); c != nil {
		q.add("cause", fmt.Sprintf("reports and settings of all peels with %s", q.Entry),
			"%s; on %s the problem began at %s",
			oneLineFact(c.Text), q.Peel, q.stamp(c.Since))
	}
}

// causeWords is the sentence with the commit that the problem followed; empty if none is likely or possible.
func (q *question) causeWords(nominal time.Time) string {
	c := q.causeOf(nominal)
	if c == nil || c.Word == cause.None {
		return ""
	}
	text := oneLineFact(c.Text)
	return " " + strings.ToUpper(text[:1]) + text[1:] + "."
}
