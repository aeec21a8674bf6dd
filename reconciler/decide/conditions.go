package decide

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
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// conditions computes every condition from the record and the observations of this term.
func conditions(s *State) []status.Condition {
	r, head := &s.Record, s.Source.Head
	all := []status.Condition{
		ready(s),
		{Type: status.Reconciling, Status: s.Shown.Reading || s.Shown.working},
		compileFailed(s),
		guardBlocked(s),
		suspended(r),
		progressing(s),
		frozen(s),
		skippedHead(r, head),
		restored(s),
		s.Shown.Moved,
	}
	all[1].Reason = map[bool]string{true: "Attempt"}[all[1].Status]
	all = append(all, fetchFailed(s)...)
	if j := s.Judged; j != nil && j.Signed.Type != "" {
		all = append(all, j.Signed)
	}
	return all
}

// transitions sets the times of the last change. A condition that is false and has no reason is left out unless it was
// in before.
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

func ready(s *State) status.Condition {
	c := status.Condition{
		Type:    status.Ready,
		Reason:  "NoRevision",
		Message: "no revision has been brought to the fleet yet",
	}
	good, err := s.Shown.good, s.Failed.Serve.Err
	if other := s.Record.CheckSource(s.Own); other != nil {
		c.Reason, c.Message = string(otherSource), other.Error()
	} else if _, git := errors.AsType[*gitrepo.Error](err); s.Failed.Write.Err != nil || err != nil && !git {
		c.Reason, c.Message = "PublishFailed", cmp.Or(s.Failed.Write.Err, err).Error()
	} else if good.Commit != "" {
		c.Status, c.Reason, c.ObservedRevision = true, "InForce", good.Commit
		c.Message = good.Commit.Short() + " " + good.Message
	}
	return c
}

// fetchFailed returns FetchFailed and Stalled.
func fetchFailed(s *State) []status.Condition {
	failed, stalled := status.Condition{Type: status.FetchFailed}, status.Condition{Type: status.Stalled}
	if other := s.Record.CheckSource(s.Own); other != nil {
		stalled.Status, stalled.Reason, stalled.Message = true, string(otherSource), other.Error()
	}
	err := s.Source.Err
	for _, other := range []error{s.Failed.Judge.Err, s.Failed.Serve.Err} {
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

// headRefusal returns why the commit that was judged last is refused, nil if it is not refused or no longer matters,
// because of a pin for example. A newer head matters once it is judged.
func headRefusal(s *State) *Refused {
	if j := s.Judged; j != nil && s.Record.Pinned == nil && !s.Record.IsSent(j.Commit) &&
		s.Record.FindSkipped(j.Commit) == nil {
		return j.Refused
	}
	return nil
}

func compileFailed(s *State) status.Condition {
	c := status.Condition{Type: status.CompileFailed}
	if no := headRefusal(s); no != nil {
		if no.Kind == c.Type {
			c.Status = true
			c.Reason = no.Reason
			c.Message = no.Message()
			c.Where = no.Where
			c.ObservedRevision = s.Judged.Commit
		}
		return c
	}
	p := s.isolated()
	if p == nil {
		return c
	}
	c.Status, c.Reason, c.Message = true, "Isolated", "no peel stays behind"
	c.Where, c.ObservedRevision = p.Mistakes.Errors[0].Pos.String(), s.Record.Commit
	if peels := slices.Sorted(maps.Keys(p.Behind)); len(peels) > 0 {
		c.Message = fmt.Sprintf("%d peels keep what they have: %s", len(peels), plan.FirstOf(peels, 20))
	}
	return c
}

// isolated returns the plan of the revision in force if mistakes in it hold peels back and no newer revision was
// attempted.
func (s *State) isolated() *plan.Plan {
	r, p := &s.Record, s.Prepared
	if p == nil || p.Base.Plan == nil || p.Base.Plan.Mistakes == nil || attempted(s) != r.Commit || r.Blocked != nil {
		return nil
	}
	return p.Base.Plan
}

func guardBlocked(s *State) status.Condition {
	c := status.Condition{Type: status.GuardBlocked}
	if b := s.Record.Blocked; b != nil {
		c.Status = true
		c.Reason = b.Kind
		c.Message = b.Reason
		c.ObservedRevision = b.Commit
	} else if no := headRefusal(s); no != nil && no.Kind == c.Type {
		c.Status = true
		c.Reason = no.Reason
		c.Message = no.Message()
		c.ObservedRevision = s.Judged.Commit
	} else if f := &s.Record.Facts; f.Waits() {
		c.Status = true
		c.Reason = status.FactsChanged
		c.Message = f.Reason
		c.ObservedRevision = s.Record.Commit
	}
	return c
}

func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// suspended returns Suspended: true if new commits wait because of a pin or a pause.
func suspended(r *record.Record) status.Condition {
	c := status.Condition{Type: status.Suspended, Status: true}
	switch p := r.Pinned; {
	case p != nil:
		c.Reason, c.Message = "Pinned", fmt.Sprintf("to %s by %s at %s: new commits wait for zester sync unpin",
			p.Commit.Short(), p.By, timestamp(p.Time))
		if p.UntilNewer {
			c.Message += ", or for a newer commit"
		}
	case r.Suspended != nil:
		c.Reason, c.Message = "Paused", fmt.Sprintf("by %s at %s: new commits wait for zester sync resume",
			r.Suspended.By, timestamp(r.Suspended.Time))
	default:
		c.Status = false
	}
	return c
}

// progressing returns RolloutProgressing: the wave under way, or how the last rollout ended if it concerns the head.
func progressing(s *State) status.Condition {
	r, head := &s.Record, s.Source.Head
	c := status.Condition{Type: status.RolloutProgressing}
	switch skipped := r.FindSkipped(head); {
	case r.Rollout != nil:
		c.Status, c.Reason, c.ObservedRevision = true, "Wave", r.Rollout.Commit
		w := rolloutStatus(s)
		c.Message = fmt.Sprintf("wave %d of %d (%s) %s: %s", w.Wave, w.Waves, w.Name, w.State, w.Reason)
	case skipped != nil:
		c.Reason, c.Message, c.ObservedRevision = "WaveFailed", skipped.Reason, skipped.Commit
	case s.Shown.Completed != "" && s.Shown.Completed == r.Commit:
		c.Reason, c.Message, c.ObservedRevision = "Completed", s.Shown.Completion, r.Commit
	}
	return c
}

// rolloutStatus returns the progress of the rollout under way.
func rolloutStatus(s *State) *status.Rollout {
	r, step := s.Record.Rollout, s.Step
	w, c := r.Wave(), step.Counts
	out := &status.Rollout{
		Commit:   r.Commit,
		Wave:     r.Stage.Wave + 1,
		Waves:    len(r.Waves),
		Name:     w.Name,
		State:    cmp.Or(string(step.State), string(rollout.Waits)),
		Reason:   record.Cut(step.Reason, status.MaxMessage),
		Until:    step.Until,
		Gate:     string(w.Gate),
		Deadline: w.Deadline,
		Started:  r.Started,
		Counts: status.Counts{
			Peels:   c.Peels,
			Applied: c.Applied,
			Pending: c.Pending,
			Offline: c.Away,
			Failed:  c.Failed,
		},
	}
	if step.State == rollout.Soaks {
		out.Soaked = step.Until
	}
	if at := s.Record.AttemptAt(r.Commit); at != nil && step.State != "" {
		out.Steps = step.Waves(*at, s.Now)
	}
	return out
}

// freezeOf returns the freeze that holds the head or else the revision under way, nil if there is none. If it holds
// both, RolloutProgressing says so of the one under way.
func freezeOf(s *State) *status.Freeze {
	if hold, held := s.headHold(); held {
		return &status.Freeze{Commit: s.Judged.Commit, Reason: hold.Reason, Until: hold.Until}
	}
	if r := s.Record.Rollout; r != nil && s.Step.Frozen {
		return &status.Freeze{Commit: r.Commit, Reason: s.Step.Reason, Until: s.Step.Until}
	}
	return nil
}

// FrozenOf returns the revisions that a freeze holds: the one under way and the head.
func FrozenOf(s *State) (all []rollout.Frozen) {
	if r := s.Record.Rollout; r != nil && s.Step.Frozen {
		all = append(all, rollout.Frozen{Commit: r.Commit, Until: s.Step.Until})
	}
	if hold, held := s.headHold(); held {
		all = append(all, rollout.Frozen{Commit: s.Judged.Commit, Until: hold.Until})
	}
	return all
}

func frozen(s *State) status.Condition {
	c := status.Condition{Type: status.Frozen}
	if f := freezeOf(s); f != nil {
		c.Status = true
		c.Reason = "Frozen"
		c.Message = f.String()
		c.ObservedRevision = f.Commit
	}
	return c
}

// skippedHead returns HeadSkipped. It is true if head, the newest commit of the branch, was rolled back: then the
// revision in force stays, also one that a pin has left.
func skippedHead(r *record.Record, head settings.Commit) status.Condition {
	c := status.Condition{Type: status.HeadSkipped}
	if r.FindSkipped(head) != nil {
		c.Status, c.Reason, c.ObservedRevision = true, "RolledBack", head
		c.Message = fmt.Sprintf(
			"%s, the newest commit, was rolled back and is not tried again; "+
				"%s stays in force until a newer commit comes or zester sync retry %[1]s",
			head.Short(), r.Commit.Short(),
		)
	}
	return c
}

// restored returns BusRestored.
func restored(s *State) status.Condition {
	c := status.Condition{Type: status.BusRestored}
	if lost := s.Record.Lost; lost.IsShown(s.Now) {
		c.Status, c.Reason, c.Message = true, "OlderThanPeels", lost.String()
	}
	return c
}

// attempted returns the newest revision that was tried, or that waits.
func attempted(s *State) settings.Commit {
	r, head := &s.Record, s.Source.Head
	_, held := s.headHold()
	switch {
	case r.Pinned != nil:
		return r.Pinned.Commit
	case r.Blocked != nil:
		return r.Blocked.Commit
	case r.FindSkipped(head) != nil:
		return head
	case headRefusal(s) != nil || held:
		return s.Judged.Commit
	case r.Rollout != nil:
		return r.Rollout.Commit
	}
	return r.Commit
}

// problems returns the errors of the revision that was attempted.
func problems(s *State) (all []string) {
	r := &s.Record
	if no := headRefusal(s); no != nil {
		all = no.Messages
	} else if r.Blocked != nil {
		all = []string{r.Blocked.Reason}
	} else if skipped := r.FindSkipped(s.Source.Head); skipped != nil && r.Pinned == nil {
		all = []string{skipped.Reason}
	} else if p := s.isolated(); p != nil {
		for _, e := range p.Mistakes.Errors {
			all = append(all, e.Error())
		}
	}
	var cut []string // a new slice, as others may still read what was shown before
	for _, text := range all {
		cut = append(cut, record.Cut(text, status.MaxMessage))
	}
	return cut
}

// Show returns the state for readers outside the loop, and updates Shown. working reports whether a task is under way.
func (s *State) Show(working bool) *control.Snapshot {
	s.Shown.working = working
	if p := s.Prepared; p != nil && p.Goal == GoalOf(&s.Record) && (s.Record.Done || s.Record.Rollout != nil) {
		c := p.Base.Revision.Commit
		s.Shown.good = status.Revision{
			Commit:  s.Record.Commit,
			Author:  source.Byline(c),
			Message: c.Subject(),
			Time:    c.Time,
			Since:   s.Record.Since,
		}
	}
	s.Shown.conditions = transitions(s.Shown.conditions, conditions(s), s.Now)
	return s.snapshot()
}

// snapshot returns the state for readers outside the loop.
func (s *State) snapshot() *control.Snapshot {
	r := &s.Record
	sync := status.Sync{
		Repo:          s.Repo,
		Branch:        s.Own.Branch,
		Path:          s.Own.Path,
		Owner:         s.Owner,
		Holds:         status.Holds{Frozen: freezeOf(s)},
		Observed:      s.Source.Observed,
		Read:          s.Source.Read,
		LastAttempted: attempted(s),
		LastGood:      s.Shown.good,
		Written:       status.Written{Generation: r.Generation},
		Conditions:    s.Shown.conditions,
		Findings:      status.Findings{Errors: problems(s)},
	}
	if s.Shown.Written == s.Shown.good.Commit {
		sync.Writes = s.Shown.Writes
	}
	if r.CheckSource(s.Own) != nil {
		sync.Adopt = &status.Adoption{From: r.Source.String(), To: s.Own.String()}
	}
	if r.Blocked != nil {
		sync.Blocked = r.Blocked.Hash
	}
	if f := &r.Facts; f.Waits() {
		sync.Facts = &status.FactsHold{Hash: f.Hash, Reason: f.Reason, Peels: f.Peels.Len()}
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
		sync.Rollout = rolloutStatus(s)
	}
	if p := s.Prepared; p != nil && p.Base.Plan != nil {
		for _, w := range p.Base.Plan.Warnings {
			sync.Warnings = append(sync.Warnings, w.String())
		}
	}
	past := slices.Clone(r.History)
	slices.Reverse(past)
	c := control.Snapshot{Sync: sync, Attempts: past, Order: s.Shown.Order}
	if s.Judged != nil {
		c.Judged = s.Judged.Change
	}
	if s.Prepared != nil {
		c.Facts = s.Prepared.Facts.Change
	}
	return &c
}
