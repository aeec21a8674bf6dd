package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
)

const (
	presenceKnown = 45 * time.Second // after the beginning of the session; heartbeats come every 30 s
	lateAfter     = 5 * time.Minute  // an online peel that takes longer to apply its settings is late
	maxEnds       = 50               // remembered successes, as many as the history has attempts
	gateState     = "gate"           // of a rollout, as package status documents it
)

// An outcome is the event about the state of a revision. Its mark changes with each state that a place should get.
type outcome struct {
	Event
	mark    string
	attempt string // part of the mark: the attempt
}

// isDue reports whether a place lacks the outcome. A success is final until the commit is tried again. That a commit
// was superseded is sent only after a message that it was pending.
func (o *outcome) isDue(known delivered) bool {
	before, heard := known[o.Revision.Commit]
	switch {
	case before == o.mark || before == string(forge.Success)+o.attempt:
		return false
	case o.State == forge.Canceled:
		return heard && !strings.HasPrefix(before, string(forge.Failure)+o.attempt)
	}
	return true
}

// outcomes returns the outcome of each commit of the history, the oldest first.
func (w *watcher) outcomes(seen Observation, now time.Time) (all []outcome) {
	done := map[settings.Commit]bool{}
	for i, a := range seen.Attempts {
		if done[a.Commit] {
			continue
		}
		done[a.Commit] = true
		o := outcome{attempt: fmt.Sprintf(" %d", a.Began.UnixMilli()), Event: Event{
			Repo: seen.Sync.Repo, Branch: seen.Sync.Branch, By: a.By, Time: laterOf(a.Began, a.Ended),
			Revision: Revision{Commit: a.Commit, Author: a.Author, Subject: a.Message},
		}}
		detail := ""
		switch {
		case a.Outcome != status.OutcomeApplied:
			detail = attempted(&o.Event, a, seen.Sync)
		case i == 0, a.Commit == seen.Sync.LastGood.Commit:
			detail = w.converging(&o.Event, a, seen, now)
			w.ended(&o)
		default:
			o.Kind, o.State, o.Text = Superseded, forge.Canceled, "superseded before every peel had it"
			w.ended(&o)
		}
		o.mark = string(o.State) + o.attempt
		if detail != "" {
			o.mark += " " + digest(detail)
		}
		all = append(all, o)
	}
	slices.Reverse(all)
	return all
}

// ended remembers a success, and replaces a later outcome of the same attempt by it.
func (w *watcher) ended(o *outcome) {
	key := string(o.Revision.Commit) + o.attempt
	if o.State == forge.Success {
		if len(w.ends) >= maxEnds {
			clear(w.ends)
		}
		w.ends[key] = o.Event
	} else if end, ok := w.ends[key]; ok {
		o.Event = end
	}
}

// attempted fills in the event about an attempt that is not in force. detail is part of the mark, so a new detail is
// sent.
func attempted(e *Event, a status.Attempt, s status.Sync) (detail string) {
	switch a.Outcome {
	case status.OutcomeProgressing:
		e.Kind, e.State, e.Text = Progressing, forge.Pending, "goes to the fleet"
		if r := s.Rollout; r != nil && r.Commit == a.Commit {
			e.Text = fmt.Sprintf("wave %d of %d (%s)", r.Wave, r.Waves, r.Name)
			e.Counts = r.Counts
			if r.State == gateState {
				e.Kind, e.Text, e.Command = Gate, e.Text+" has passed and waits for approval", "zester sync approve "+
					r.Name
			}
			return e.Text
		}
		return ""
	case status.OutcomeBlocked:
		if f := s.Frozen; f != nil && f.Commit == a.Commit {
			frozen(e, f)
			return string(Frozen) // one message for each revision, also if another freeze holds it later
		}
		e.Kind, e.State, e.Text = Blocked, forge.Pending, "waits for approval: "+a.Reason
		if s.Blocked != "" && s.LastAttempted == a.Commit {
			e.Command = "zester sync approve " + status.ShortHash(s.Blocked)
			e.Details = []string{
				"plan " + s.Blocked + "; its hash changes when the fleet does, and zester sync status shows the newest",
			}
		}
	case status.OutcomeSuperseded:
		e.Kind, e.State, e.Text = Superseded, forge.Canceled, "superseded "+a.Reason
		return ""
	case status.OutcomeRolledBack:
		e.Kind, e.State, e.Text = WaveFailed, forge.Failure, a.Reason
		e.Command = "zester sync retry, or a new commit that fixes it"
	default:
		e.Kind, e.State, e.Text = Rejected, forge.Failure, a.Reason
		if s.LastAttempted == a.Commit {
			e.Where = whereOf(s)
			e.Details = s.Errors[min(1, len(s.Errors)):]
		}
	}
	return e.Text
}

// whereOf returns the position of the first mistake of the revision last attempted.
func whereOf(s status.Sync) string {
	for _, c := range s.Conditions {
		if c.Type == status.CompileFailed && c.Status {
			return c.Where
		}
	}
	return ""
}

// converging fills in the event about the revision in force. detail is part of the mark.
func (w *watcher) converging(e *Event, a status.Attempt, seen Observation, now time.Time) (detail string) {
	f := seen.Fleet
	if e.Kind, e.State, e.Text = Progressing, forge.Pending, "goes to the fleet"; f.Commit != a.Commit {
		return ""
	}
	c := f.Counts
	e.Counts = c
	began := a.Began
	if a.By != "" {
		began = seen.Sync.LastGood.Since // it had waited for a person
	}
	watched := now.Sub(laterOf(w.began, began))
	unsure := c.Offline > 0 && (now.Sub(w.began) < presenceKnown || c.Applied == 0)
	switch {
	case c.Pending > 0 && watched < lateAfter, c.Pending == 0 && c.Failed == 0 && unsure:
		return ""
	case c.Pending > 0 || c.Failed > 0:
		e.Kind = Incomplete
		e.State = forge.Failure
		e.Text = portion(c) + ": " + f.trouble()
		e.Time = now
		e.Details, e.Command = groups(f.Failing), "zester sync peels"
		return "peels"
	}
	e.Kind, e.State, e.Took = Completed, forge.Success, max(0, laterOf(f.Reached, a.Ended).Sub(began))
	e.Text, e.Time = portion(c)+" in "+roughly(e.Took), now
	return ""
}

// trouble describes one peel that failed, with its error, or one that is late.
func (f Fleet) trouble() string {
	if len(f.Failing) > 0 && (f.Late == "" || f.Failing[0].Peel < f.Late) {
		return string(f.Failing[0].Peel) + ": " + strings.Join(f.Failing[0].Errors, "; ")
	}
	return string(f.Late) + " has not applied it"
}

const (
	maxGroups = 5
	maxNamed  = 5 // peels of a group that are named
)

// groups returns a line for each error with the peels that report it, the error of most peels first.
func groups(failing []status.Peel) (lines []string) {
	members := map[string][]string{}
	for _, p := range failing {
		first := "without an error message"
		if len(p.Errors) > 0 {
			first = p.Errors[0]
		}
		members[first] = append(members[first], string(p.Peel))
	}
	texts := make([]string, 0, len(members))
	for text := range members {
		texts = append(texts, text)
	}
	sorting.Func(texts, func(a, b string) int {
		if d := len(members[b]) - len(members[a]); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	for i, text := range texts {
		if i == maxGroups {
			lines = append(lines, fmt.Sprintf("and %d more errors", len(texts)-i))
			break
		}
		names := members[text]
		more := ""
		if n := len(names) - maxNamed; n > 0 {
			names, more = names[:maxNamed], fmt.Sprintf(" and %d more", n)
		}
		lines = append(lines, strings.Join(names, ", ")+more+": "+text)
	}
	return lines
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// portion returns the counts in the form "12/14 peels, 1 failed, 1 offline".
func portion(c status.Counts) string {
	parts := []string{fmt.Sprintf("%d/%d peels", c.Applied, c.Peels)}
	for _, p := range []struct {
		n    int
		what string
	}{{c.Failed, "failed"}, {c.Pending, "pending"}, {c.Offline, "offline"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// roughly returns a duration with one unit.
func roughly(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}
