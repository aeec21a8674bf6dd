package record

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// Bounds of the texts of an attempt, in bytes.
const (
	maxName   = 120 // of an author or a commit's first line
	maxReason = 300
)

// Cut returns text with at most most bytes, as valid UTF-8, with an ellipsis where it was cut.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// Noted returns the record with an attempt added to its history. It continues the newest attempt at the same revision
// if that has not ended, or if it is the last one and was rejected. Older attempts that have not ended become
// superseded, but for those at the revision in force and at the one that goes out, see [Record.IsSent]: they go on
// while a newer one is held. So put a revision in force before it is noted. Began and Ended of a are set from now;
// Author, Message and Reason are cut.
func (r Record) Noted(a status.Attempt, now time.Time) Record {
	now = now.UTC()
	a.Author, a.Message, a.Reason = Cut(a.Author, maxName), Cut(a.Message, maxName), Cut(a.Reason, maxReason)
	a.Began = now
	if a.Outcome.Final() {
		a.Ended = now
	}
	r.History = slices.Clone(r.History)
	i := r.newest(a.Commit)
	if i >= 0 && (!r.History[i].Outcome.Final() ||
		r.History[i].Outcome == status.OutcomeRejected && i == len(r.History)-1) {
		r.History[i] = continued(r.History[i], a)
	} else {
		i = len(r.History)
		r.History = append(r.History, a)
	}
	for j := range i {
		if before := &r.History[j]; !before.Outcome.Final() && !r.IsSent(before.Commit) {
			before.Outcome, before.Ended, before.Reason = status.OutcomeSuperseded, now, "by "+a.Commit.Short()
		}
	}
	r.History = r.History[max(0, len(r.History)-MaxHistory):]
	return r
}

// newest returns the index of the newest attempt at a revision, -1 if there is none.
func (r *Record) newest(commit settings.Commit) int {
	for i, a := range slices.Backward(r.History) {
		if a.Commit == commit {
			return i
		}
	}
	return -1
}

// continued returns an attempt that is in the state a after it was in the state before. By is dropped if the revision
// waits for approval again.
func continued(before, a status.Attempt) status.Attempt {
	a.Began, a.Approvals, a.Steps = before.Began, before.Approvals, before.Steps
	if a.By == "" && a.Outcome != status.OutcomeBlocked {
		a.By = before.By
	}
	if before.Outcome == a.Outcome && before.Reason == a.Reason {
		a.Ended, a.Master = before.Ended, before.Master
	}
	return a
}

// NotedBy returns the record with a user as By of the newest attempt at this revision.
func (r Record) NotedBy(commit settings.Commit, user string) Record {
	if i := r.newest(commit); i >= 0 {
		r.History = slices.Clone(r.History)
		r.History[i].By = user
	}
	return r
}

// NotedApproval returns the record with a decision of a person added to the newest attempt at this revision. The newest
// [MaxApprovals] are kept.
func (r Record) NotedApproval(commit settings.Commit, a status.Approval) Record {
	i := r.newest(commit)
	if i < 0 {
		return r
	}
	r.History = slices.Clone(r.History)
	all := append(slices.Clone(r.History[i].Approvals), a)
	r.History[i].Approvals = all[max(0, len(all)-MaxApprovals):]
	return r
}

// NotedWaves returns the record with the waves of the newest attempt at this revision. The newest [MaxStepped] attempts
// keep theirs.
func (r Record) NotedWaves(commit settings.Commit, waves []status.Wave) Record {
	i := r.newest(commit)
	if i < 0 {
		return r
	}
	r.History = slices.Clone(r.History)
	r.History[i].Steps = waves
	stepped := 0
	for j := range slices.Backward(r.History) {
		if len(r.History[j].Steps) == 0 {
			continue
		}
		if stepped++; stepped > MaxStepped {
			r.History[j].Steps = nil
		}
	}
	return r
}

// LastAttempt returns the newest attempt, nil if the history is empty. The caller must not change it.
func (r *Record) LastAttempt() *status.Attempt {
	if len(r.History) == 0 {
		return nil
	}
	return &r.History[len(r.History)-1]
}

// AttemptAt returns the newest attempt at a revision, nil if there is none. The caller must not change it.
func (r *Record) AttemptAt(commit settings.Commit) *status.Attempt {
	if i := r.newest(commit); i >= 0 {
		return &r.History[i]
	}
	return nil
}

// HasTried reports whether a revision is in force or in the history.
func (r *Record) HasTried(commit settings.Commit) bool {
	return r.Commit == commit || slices.ContainsFunc(r.History, func(a status.Attempt) bool {
		return a.Commit == commit
	})
}
