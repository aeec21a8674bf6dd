package reconciler

import (
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// maxPassed bounds the commits that are noted between two that were tried.
const maxPassed = 20

// attemptOn begins what is remembered of a revision.
func (t *term) attemptOn(c gitrepo.Commit, outcome status.Outcome, reason string) status.Attempt {
	return status.Attempt{
		Commit: settings.Commit(c.Hash.String()), Author: byline(c), Message: c.Subject(),
		Outcome: outcome, Reason: reason, Master: t.r.o.Owner,
	}
}

// passedBy adds the commits that came between the last revision that was tried and c, and were never tried.
func (t *term) passedBy(r record.Record, c gitrepo.Hash) record.Record {
	if last := r.LastAttempt(); last == nil || last.Commit == settings.Commit(c.String()) {
		return r
	}
	var between []status.Attempt
	for at := c; ; {
		parents, err := t.repo.Parents(at)
		if err != nil || len(parents) == 0 || len(between) > maxPassed {
			return r // it does not come after what was tried
		}
		if at = parents[0]; r.HasTried(settings.Commit(at.String())) {
			break
		}
		info, err := t.repo.CommitInfo(at)
		if err != nil {
			return r
		}
		between = append(between, t.attemptOn(info, status.OutcomeSuperseded, "by "+settings.Commit(c.String()).Short()+", before it was tried"))
	}
	for _, a := range slices.Backward(between) {
		r = r.Noted(a, time.Now())
	}
	return r
}

// note returns a record with what became of a revision, and of those that were passed over for it.
func (t *term) note(r record.Record, c gitrepo.Commit, outcome status.Outcome, reason string) record.Record {
	return t.passedBy(r, c.Hash).Noted(t.attemptOn(c, outcome, reason), time.Now())
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
