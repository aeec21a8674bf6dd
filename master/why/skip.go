package why

import (
	"cmp"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// skipAnswer says in words why a fire did not run.
func (q *question) skipAnswer(nominal time.Time, reason ledger.Reason) string {
	return fmt.Sprintf("The fire of %s was skipped: %s.", q.stamp(nominal), q.skipWords(nominal, reason))
}

func (q *question) skipWords(nominal time.Time, reason ledger.Reason) string {
	e := cmp.Or(q.Document.Entry, schedule.New(q.Entry))
	switch reason {
	case ledger.AlreadyRunning:
		if e.Overlap.MaxRunning == 1 {
			return "the run before was still in flight, and maxrunning is 1"
		}
		return fmt.Sprintf("%d runs were in flight, as many as maxrunning allows", e.Overlap.MaxRunning)
	case ledger.QueueFull:
		return "it waited for a run to end, and a later fire took its place (if_running is queue or cancel)"
	case ledger.Superseded:
		return "a later fire, or the end of a run, took its place before it could start"
	case ledger.OutsideWindow, ledger.InBlackout:
		if line := q.closedBy(nominal); line != "" {
			return "its windows were closed (" + line + ")"
		}
		return map[ledger.Reason]string{
			ledger.OutsideWindow: "its windows were closed",
			ledger.InBlackout:    "it was in a blackout",
		}[reason]
	case ledger.CircuitOpen:
		return "the breaker was open" + breakerWords(e)
	case ledger.NeedsUnmet:
		return fmt.Sprintf("it runs only after %s ends with %s (needs), and that run did not",
			cmp.Or(e.Needs.Entry, "the other entry"), e.Needs.On)
	case ledger.SkippedOnce:
		return "an operator had asked for that" + By(q.Acts, "schedule.skip", nominal)
	case ledger.MaxRuns:
		return "the entry had already had all its runs" + runsWords(e)
	case ledger.Paused:
		return "the entry was paused while the fire waited" + By(q.Acts, "schedule.pause", nominal)
	case ledger.Disabled:
		return "the entry was disabled while the fire waited"
	case ledger.Removed:
		return "the entry was removed from the schedule while the fire waited"
	}
	return "the peel says " + oneLineFact(string(reason))
}

func breakerWords(e *schedule.Entry) string {
	if b := e.Failures.Breaker; b.Threshold > 0 {
		return fmt.Sprintf(": after %d failures in a row nothing runs for %s", b.Threshold,
			strictyaml.FormatDuration(b.ResetAfter))
	}
	return " after failures in a row"
}

func runsWords(e *schedule.Entry) string {
	switch {
	case e.Life.DeleteAfterRun:
		return " (delete_after_run)"
	case e.Life.MaxRuns > 0:
		return fmt.Sprintf(" (max_runs is %d)", e.Life.MaxRuns)
	}
	return ""
}
