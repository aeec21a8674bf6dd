package reconciler

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// A shown is what the status tells besides what can be computed from the rest of the state.
type shown struct {
	looking    bool // at the branch
	working    bool // a task is under way
	waits      reason
	good       status.Revision
	writes     int // documents that took to bring to the fleet what is named by written
	written    settings.Commit
	moved      status.Condition // HistoryRewritten, of the revision that was sent last
	completed  settings.Commit  // the last revision whose waves have all passed
	completion string           // how they have
	order      control.Carried  // the last order that was carried out
	conditions []status.Condition
}

// conditions returns every condition as it is now, computed from the record and from what this term has observed.
func conditions(s *state) []status.Condition {
	r, head := &s.record, s.source.head
	all := []status.Condition{
		ready(s),
		{Type: status.Reconciling, Status: s.shown.looking || s.shown.working},
		compileFailed(s),
		guardBlocked(s),
		suspended(r),
		progressing(s),
		frozen(s),
		skippedHead(r, head),
		s.shown.moved,
	}
	all[1].Reason = map[bool]string{true: "Attempt"}[all[1].Status]
	all = append(all, fetchFailed(s)...)
	if j := s.judged; j != nil && j.signed.Type != "" {
		all = append(all, j.signed)
	}
	return all
}

// transitions returns conditions with the times of their last change. A condition that is false and says nothing is left
// out unless it was there before.
func transitions(before, now []status.Condition, at time.Time) (all []status.Condition) {
	for _, c := range now {
		i := slices.IndexFunc(before, func(o status.Condition) bool { return o.Type == c.Type })
		if c.Type == "" || i < 0 && !c.Status && c.Reason == "" {
			continue
		}
		c.Message, c.LastTransitionTime = record.Cut(c.Message, status.MaxMessage), at.UTC()
		if i >= 0 && before[i].Status == c.Status {
			c.LastTransitionTime = before[i].LastTransitionTime
		}
		all = append(all, c)
	}
	for _, o := range before {
		if !slices.ContainsFunc(all, func(c status.Condition) bool { return c.Type == o.Type }) {
			all = append(all, o) // SourceVerified, while the newest commit is not judged
		}
	}
	return all
}

func ready(s *state) status.Condition {
	c := status.Condition{Type: status.Ready, Reason: "NoRevision", Message: "no revision has been brought to the fleet yet"}
	good, err := s.shown.good, s.failed.serve.err
	if other := s.record.CheckSource(s.own); other != nil {
		c.Reason, c.Message = string(otherSource), other.Error()
	} else if _, git := errors.AsType[*gitrepo.Error](err); s.failed.write.err != nil || err != nil && !git {
		c.Reason, c.Message = "PublishFailed", cmp.Or(s.failed.write.err, err).Error()
	} else if good.Commit != "" {
		c.Status, c.Reason, c.ObservedRevision = true, "InForce", good.Commit
		c.Message = good.Commit.Short() + " " + good.Message
	}
	return c
}

// fetchFailed returns FetchFailed and Stalled.
func fetchFailed(s *state) []status.Condition {
	failed, stalled := status.Condition{Type: status.FetchFailed}, status.Condition{Type: status.Stalled}
	if other := s.record.CheckSource(s.own); other != nil {
		stalled.Status, stalled.Reason, stalled.Message = true, string(otherSource), other.Error()
	}
	err := s.source.err
	for _, other := range []error{s.failed.judge.err, s.failed.serve.err} {
		if _, git := errors.AsType[*gitrepo.Error](other); err == nil && git {
			err = other
		}
	}
	if err == nil {
		return []status.Condition{failed, stalled}
	}
	failed.Status, failed.Reason, failed.Message = true, "Failed", err.Error()
	if e, ok := errors.AsType[*gitrepo.Error](err); ok {
		failed.Reason = string(e.Reason)
		if e.Reason.Stalled() {
			stalled.Status, stalled.Reason, stalled.Message = true, failed.Reason, failed.Message
		}
	}
	return []status.Condition{failed, stalled}
}

// headRefusal returns why the commit that was judged last is refused, nil if it is not, or if people want another one. A
// newer head counts when it is judged.
func headRefusal(s *state) *refused {
	if j := s.judged; j != nil && s.record.Pinned == nil && !s.record.IsSent(j.commit) && s.record.FindSkipped(j.commit) == nil {
		return j.refused
	}
	return nil
}

func compileFailed(s *state) status.Condition {
	c := status.Condition{Type: status.CompileFailed}
	if no := headRefusal(s); no != nil {
		if no.kind == c.Type {
			c.Status, c.Reason, c.Message, c.Where, c.ObservedRevision = true, no.reason, no.message(), no.where, s.judged.commit
		}
		return c
	}
	p := s.isolated()
	if p == nil {
		return c
	}
	c.Status, c.Reason, c.Message = true, "Isolated", "no peel stays behind"
	c.Where, c.ObservedRevision = p.Mistakes.Errors[0].Pos.String(), s.record.Commit
	if peels := slices.Sorted(maps.Keys(p.Behind)); len(peels) > 0 {
		c.Message = fmt.Sprintf("%d peels keep what they have: %s", len(peels), plan.FirstOf(peels, 20))
	}
	return c
}

// isolated returns the plan of the revision in force if it holds peels back for mistakes and no newer revision is at issue.
func (s *state) isolated() *plan.Plan {
	r, p := &s.record, s.prepared
	if p == nil || p.base.plan == nil || p.base.plan.Mistakes == nil || attempted(s) != r.Commit || r.Blocked != nil {
		return nil
	}
	return p.base.plan
}

func guardBlocked(s *state) status.Condition {
	c := status.Condition{Type: status.GuardBlocked}
	if b := s.record.Blocked; b != nil {
		c.Status, c.Reason, c.Message, c.ObservedRevision = true, cmp.Or(b.Kind, "TooManyChanges"), b.Reason, b.Commit
	} else if no := headRefusal(s); no != nil && no.kind == c.Type {
		c.Status, c.Reason, c.Message, c.ObservedRevision = true, no.reason, no.message(), s.judged.commit
	}
	return c
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// suspended says whether new commits wait, and for what.
func suspended(r *record.Record) status.Condition {
	c := status.Condition{Type: status.Suspended, Status: true}
	switch p := r.Pinned; {
	case p != nil:
		c.Reason, c.Message = "Pinned", fmt.Sprintf("to %s by %s at %s: new commits wait for zester sync unpin", p.Commit.Short(), p.By, stamp(p.Time))
		if p.UntilNewer {
			c.Message += ", or for the first that comes after it and after what was known then"
		}
	case r.Suspended != nil:
		c.Reason, c.Message = "Paused", fmt.Sprintf("by %s at %s: new commits wait for zester sync resume", r.Suspended.By, stamp(r.Suspended.Time))
	default:
		c.Status = false
	}
	return c
}

// progressing says how far a rollout is, or how the last one ended as long as that concerns the head.
func progressing(s *state) status.Condition {
	r, head := &s.record, s.source.head
	c := status.Condition{Type: status.RolloutProgressing}
	switch skipped := r.FindSkipped(head); {
	case r.Rollout != nil:
		c.Status, c.Reason, c.ObservedRevision = true, "Wave", r.Rollout.Commit
		w := rolling(s)
		c.Message = fmt.Sprintf("wave %d of %d (%s) %s: %s", w.Wave, w.Waves, w.Name, w.State, w.Reason)
	case skipped != nil:
		c.Reason, c.Message, c.ObservedRevision = "WaveFailed", skipped.Reason, skipped.Commit
	case s.shown.completed != "" && s.shown.completed == r.Commit:
		c.Reason, c.Message, c.ObservedRevision = "Completed", s.shown.completion, r.Commit
	}
	return c
}

// rolling says how far the rollout under way is.
func rolling(s *state) *status.Rollout {
	r, step := s.record.Rollout, s.step
	w, c := r.Wave(), step.Counts
	out := &status.Rollout{
		Commit: r.Commit, Wave: r.Stage.Wave + 1, Waves: len(r.Waves), Name: w.Name, State: cmp.Or(string(step.State), string(rollout.Waits)),
		Reason: record.Cut(step.Reason, status.MaxMessage), Until: step.Until, Gate: string(w.Gate), Deadline: w.Deadline, Started: r.Started,
		Peels: c.Peels, Applied: c.Applied, Pending: c.Pending, Offline: c.Away, Failed: c.Failed,
	}
	if step.State == rollout.Soaks {
		out.Soaked = step.Until
	}
	return out
}

// freezeOf returns the revision that a freeze holds, nil if none does.
func freezeOf(s *state) *status.Freeze {
	r, j := &s.record, s.judged
	if r.Rollout != nil && s.step.Frozen {
		return &status.Freeze{Commit: r.Rollout.Commit, Reason: s.step.Reason, Until: s.step.Until}
	}
	if s.shown.waits != headFrozen || j == nil {
		return nil
	}
	hold, held := j.out.frozen(r, s.now)
	if !held {
		return nil
	}
	return &status.Freeze{Commit: j.commit, Reason: hold.Reason, Until: hold.Until}
}

func frozen(s *state) status.Condition {
	c := status.Condition{Type: status.Frozen}
	if f := freezeOf(s); f != nil {
		c.Status, c.Reason, c.Message, c.ObservedRevision = true, "Frozen", f.String(), f.Commit
	}
	return c
}

// skippedHead returns the condition HeadSkipped. It is true if head, the newest revision of the branch, was rolled back:
// then the revision in force stays, whichever that is after a pin.
func skippedHead(r *record.Record, head settings.Commit) status.Condition {
	c := status.Condition{Type: status.HeadSkipped}
	if r.FindSkipped(head) != nil {
		c.Status, c.Reason, c.ObservedRevision = true, "RolledBack", head
		c.Message = fmt.Sprintf("%s, the newest commit, was rolled back and is not tried again; %s stays in force until a newer commit comes or zester sync retry %[1]s", head.Short(), r.Commit.Short())
	}
	return c
}

// attempted returns the newest revision that was tried, or is held.
func attempted(s *state) settings.Commit {
	r, head := &s.record, s.source.head
	switch {
	case r.Pinned != nil:
		return r.Pinned.Commit
	case r.Blocked != nil:
		return r.Blocked.Commit
	case r.FindSkipped(head) != nil:
		return head
	case headRefusal(s) != nil || s.shown.waits == headFrozen:
		return s.judged.commit
	case r.Rollout != nil:
		return r.Rollout.Commit
	}
	return r.Commit
}

// problems returns what is wrong with the revision that was attempted.
func problems(s *state) (all []string) {
	r := &s.record
	if no := headRefusal(s); no != nil {
		all = no.messages
	} else if r.Blocked != nil {
		all = []string{r.Blocked.Reason}
	} else if skipped := r.FindSkipped(s.source.head); skipped != nil && r.Pinned == nil {
		all = []string{skipped.Reason}
	} else if p := s.isolated(); p != nil {
		for _, e := range p.Mistakes.Errors {
			all = append(all, e.Error())
		}
	}
	for i := range all {
		all[i] = record.Cut(all[i], status.MaxMessage)
	}
	return all
}

// snapshot returns what others may read of the state.
func (s *state) snapshot() *control.Snapshot {
	r := &s.record
	sync := status.Sync{
		Repo: s.repo, Branch: s.own.Branch, Path: s.own.Path, Owner: s.owner, Holds: status.Holds{Frozen: freezeOf(s)},
		Observed: s.source.observed, Read: s.source.read, LastAttempted: attempted(s), LastGood: s.shown.good,
		Generation: r.Generation, Conditions: s.shown.conditions, Errors: problems(s),
	}
	if s.shown.written == s.shown.good.Commit {
		sync.Writes = s.shown.writes
	}
	if r.CheckSource(s.own) != nil {
		sync.Adopt = &status.Adoption{From: r.Source.String(), To: s.own.String()}
	}
	if r.Blocked != nil {
		sync.Blocked = r.Blocked.Hash
	}
	if n := len(r.Skipped); n > 0 {
		sync.Skipped = r.Skipped[n-1].Commit
	}
	if p := r.Pinned; p != nil {
		sync.Pinned = &status.Pin{Commit: p.Commit, By: p.By, Time: p.Time, UntilNewer: p.UntilNewer}
	}
	if p := r.Suspended; p != nil {
		sync.Paused = &status.Pause{By: p.By, Time: p.Time}
	}
	if r.Rollout != nil {
		sync.Rollout = rolling(s)
	}
	if p := s.prepared; p != nil && p.base.plan != nil {
		for _, w := range p.base.plan.Warnings {
			sync.Warnings = append(sync.Warnings, w.String())
		}
	}
	past := slices.Clone(r.History)
	slices.Reverse(past)
	c := control.Snapshot{Sync: sync, Attempts: past}
	if s.judged != nil {
		c.Judged = s.judged.change
	}
	return &c
}
