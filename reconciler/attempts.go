package reconciler

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

const (
	maxAttempts = 50  // that are remembered
	maxPassed   = 20  // commits between two that were tried
	maxName     = 120 // bytes of an author or a commit's first line
	maxReason   = 300
)

// attemptOn begins what is remembered of a revision.
func (t *term) attemptOn(c gitrepo.Commit, outcome status.Outcome) status.Attempt {
	return status.Attempt{
		Commit: settings.Commit(c.Hash.String()), Author: limit(byline(c), maxName), Message: limit(c.Subject(), maxName),
		Outcome: outcome, Master: t.r.o.Owner,
	}
}

func limit(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// noted returns the record with what became of a revision. Until it has ended, or while it is rejected again and again,
// that is one attempt. One that another comes after without an end of its own was superseded by it.
func (r record) noted(a status.Attempt) record {
	now := time.Now().UTC()
	r.History = slices.Clone(r.History)
	a.Began, a.Reason = now, limit(a.Reason, maxReason)
	if a.Outcome.Final() {
		a.Ended = now
	}
	last := len(r.History) - 1
	switch {
	case last < 0:
		r.History = append(r.History, a)
	case r.History[last].Commit == a.Commit && (!r.History[last].Outcome.Final() || r.History[last].Outcome == status.OutcomeRejected):
		before := r.History[last]
		if a.Began = before.Began; a.By == "" && a.Outcome != status.OutcomeBlocked {
			a.By = before.By
		}
		if before.Outcome == a.Outcome && before.Reason == a.Reason {
			a.Ended, a.Master = before.Ended, before.Master
		}
		r.History[last] = a
	default:
		if before := &r.History[last]; !before.Outcome.Final() {
			before.Outcome, before.Ended, before.Reason = status.OutcomeSuperseded, now, "by "+a.Commit.Short()
		}
		r.History = append(r.History, a)
	}
	r.History = r.History[max(0, len(r.History)-maxAttempts):]
	return r
}

// by says who let the attempt under way go on.
func (r record) by(commit settings.Commit, user string) record {
	if last := len(r.History) - 1; last >= 0 && r.History[last].Commit == commit {
		r.History = slices.Clone(r.History)
		r.History[last].By = user
	}
	return r
}

// passedBy adds the commits that came between the last revision that was tried and c, and were never tried.
func (t *term) passedBy(r record, c gitrepo.Hash) record {
	if len(r.History) == 0 || r.History[len(r.History)-1].Commit == settings.Commit(c.String()) {
		return r
	}
	known := map[settings.Commit]bool{r.Commit: true}
	for _, a := range r.History {
		known[a.Commit] = true
	}
	var between []status.Attempt
	for at := c; ; {
		parents, err := t.repo.Parents(at)
		if err != nil || len(parents) == 0 || len(between) > maxPassed {
			return r // it does not come after what was tried
		}
		if at = parents[0]; known[settings.Commit(at.String())] {
			break
		}
		info, err := t.repo.CommitInfo(at)
		if err != nil {
			return r
		}
		a := t.attemptOn(info, status.OutcomeSuperseded)
		a.Reason = "by " + settings.Commit(c.String()).Short() + ", before it was tried"
		between = append(between, a)
	}
	for _, a := range slices.Backward(between) {
		r = r.noted(a)
	}
	return r
}

// note returns a record with what became of a revision, and of those that were passed over for it.
func (t *term) note(r record, c gitrepo.Commit, outcome status.Outcome, reason string) record {
	a := t.attemptOn(c, outcome)
	a.Reason = reason
	return t.passedBy(r, c.Hash).noted(a)
}

// commitInfo is what the repo tells of a commit, or its hash alone.
func (t *term) commitInfo(h gitrepo.Hash) gitrepo.Commit {
	if c, archived := t.archived[settings.Commit(h.String())]; archived {
		return c
	}
	c, err := t.repo.CommitInfo(h)
	if err != nil {
		c = gitrepo.Commit{Hash: h}
	}
	return c
}
