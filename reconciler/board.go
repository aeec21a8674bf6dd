package reconciler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
)

// A board is what others may read of a term.
type board struct {
	mu   sync.Mutex
	sync status.Sync
	past []status.Attempt // as the record has them, never changed in place
}

func newBoard(s status.Sync) *board {
	b := &board{sync: s}
	b.set(status.Condition{Type: status.Ready, Reason: "NoRevision", Message: "no revision has been brought to the fleet yet"})
	return b
}

// read returns a copy without the counts.
func (b *board) read() status.Sync {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.sync
	s.Conditions = slices.Clone(s.Conditions)
	return s
}

// set puts a condition up, in the place of the one of its type.
func (b *board) set(c status.Condition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(c)
}

func (b *board) put(c status.Condition) {
	c.Message = cut(c.Message)
	c.LastTransitionTime = time.Now().UTC()
	i := slices.IndexFunc(b.sync.Conditions, func(o status.Condition) bool { return o.Type == c.Type })
	if i < 0 {
		b.sync.Conditions = append(b.sync.Conditions, c)
		return
	}
	if old := b.sync.Conditions[i]; old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	b.sync.Conditions[i] = c
}

// setOrClear puts a condition up if it is true, and marks the one of its type as false otherwise.
func (b *board) setOrClear(c status.Condition) {
	if c.Status {
		b.set(c)
		return
	}
	b.clear(c.Type)
}

func cut(text string) string { return record.Cut(text, status.MaxMessage) }

// clear marks conditions that are up as false.
func (b *board) clear(types ...status.Type) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down(types...)
}

func (b *board) down(types ...status.Type) {
	for _, c := range b.sync.Conditions {
		if c.Status && slices.Contains(types, c.Type) {
			b.put(status.Condition{Type: c.Type})
		}
	}
}

func (b *board) observe(head gitrepo.Hash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Observed, b.sync.Read = settings.Commit(head.String()), time.Now().UTC()
}

// refuse shows that a revision is not brought to the fleet.
func (b *board) refuse(c status.Condition, messages []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range []status.Type{status.CompileFailed, status.GuardBlocked} {
		if other != c.Type {
			b.down(other)
		}
	}
	b.put(c)
	b.sync.Blocked = ""
	for i := range messages {
		messages[i] = cut(messages[i])
	}
	b.sync.LastAttempted, b.sync.Errors = c.ObservedRevision, messages
}

// block shows that a revision waits for approval.
func (b *board) block(w *record.Blocked) {
	b.refuse(status.Condition{
		Type: status.GuardBlocked, Status: true, Reason: cmp.Or(w.Kind, "TooManyChanges"), Message: w.Reason, ObservedRevision: w.Commit,
	}, []string{w.Reason})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Blocked = w.Hash
}

// unblock shows that no revision waits for approval.
func (b *board) unblock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down(status.GuardBlocked)
	b.sync.Blocked = ""
}

// suspend shows whether new commits wait, and for what.
func (b *board) suspend(r *record.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Pinned, b.sync.Paused = nil, nil
	if p := r.Suspended; p != nil {
		b.sync.Paused = &status.Pause{By: p.By, Time: p.Time}
	}
	c := status.Condition{Type: status.Suspended, Status: true}
	switch p := r.Pinned; {
	case p != nil:
		b.sync.Pinned = &status.Pin{Commit: p.Commit, By: p.By, Time: p.Time, UntilNewer: p.UntilNewer}
		c.Reason, c.Message = "Pinned", fmt.Sprintf("to %s by %s at %s: new commits wait for zester sync unpin", p.Commit.Short(), p.By, stamp(p.Time))
		if p.UntilNewer {
			c.Message += ", or for the first that comes after it and after what was known then"
		}
	case r.Suspended != nil:
		c.Reason, c.Message = "Paused", fmt.Sprintf("by %s at %s: new commits wait for zester sync resume", r.Suspended.By, stamp(r.Suspended.Time))
	default:
		b.down(status.Suspended)
		return
	}
	b.put(c)
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// good shows the revision that was just put in force, and who stays behind.
func (b *board) good(c gitrepo.Commit, r record.Record, writes int, p *plan.Plan) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down(status.GuardBlocked, status.RolloutProgressing, status.Frozen)
	b.sync.Blocked, b.sync.Rollout, b.sync.Frozen = "", nil, nil
	if p.Mistakes == nil {
		b.down(status.CompileFailed)
	}
	commit := settings.Commit(c.Hash.String())
	if b.sync.LastGood.Commit != commit {
		b.sync.Writes = 0
	}
	b.sync.Writes += writes
	b.sync.LastAttempted, b.sync.Errors = commit, nil
	b.warn(p)
	b.inForce(c, r)
	b.isolated(p, commit)
}

func (b *board) warn(p *plan.Plan) {
	b.sync.Warnings = nil
	for _, w := range p.Warnings {
		b.sync.Warnings = append(b.sync.Warnings, w.String())
	}
}

// behind shows what there is to say of the revision in force for the fleet as it is now: its warnings and, unless a
// newer one that is refused is what is shown, which peels it holds back.
func (b *board) behind(p *plan.Plan, commit settings.Commit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.warn(p)
	if b.sync.LastAttempted == commit || b.sync.LastAttempted == "" {
		b.isolated(p, commit)
	}
}

func (b *board) isolated(p *plan.Plan, commit settings.Commit) {
	b.sync.LastAttempted = commit
	if p.Mistakes == nil {
		b.down(status.CompileFailed)
		b.sync.Errors = nil
		return
	}
	peels := slices.Sorted(maps.Keys(p.Behind))
	message := "no peel stays behind"
	if len(peels) > 0 {
		message = fmt.Sprintf("%d peels keep what they have: %s", len(peels), plan.FirstOf(peels, 20))
	}
	b.put(status.Condition{
		Type: status.CompileFailed, Status: true, Reason: "Isolated", Message: message,
		Where: p.Mistakes.Errors[0].Pos.String(), ObservedRevision: commit,
	})
	b.sync.Errors = nil
	for _, e := range p.Mistakes.Errors {
		b.sync.Errors = append(b.sync.Errors, cut(e.Error()))
	}
}

// attempted shows that a revision is the newest that goes to the fleet.
func (b *board) attempted(commit settings.Commit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down(status.GuardBlocked, status.CompileFailed)
	b.sync.LastAttempted, b.sync.Errors, b.sync.Blocked = commit, nil, ""
}

// rolling shows how far a rollout is.
func (b *board) rolling(step rollout.Step) {
	r, w, c := step.Rollout, step.Rollout.Wave(), step.Counts
	s := &status.Rollout{
		Commit: r.Commit, Wave: r.Stage.Wave + 1, Waves: len(r.Waves), Name: w.Name, State: string(step.State), Started: r.Started,
		Reason: cut(step.Reason), Until: step.Until, Gate: string(w.Gate), Deadline: w.Deadline,
		Peels: c.Peels, Applied: c.Applied, Pending: c.Pending, Offline: c.Away, Failed: c.Failed,
	}
	if step.State == rollout.Soaks {
		s.Soaked = step.Until
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Rollout, b.sync.Frozen = s, nil
	b.down(status.Frozen)
	if step.Frozen {
		b.sync.Frozen = &status.Freeze{Commit: r.Commit, Reason: s.Reason, Until: s.Until}
		b.put(status.Condition{Type: status.Frozen, Status: true, Reason: "Frozen", Message: s.Reason, ObservedRevision: r.Commit})
	}
	b.put(status.Condition{
		Type: status.RolloutProgressing, Status: true, Reason: "Wave", ObservedRevision: r.Commit,
		Message: fmt.Sprintf("wave %d of %d (%s) %s: %s", s.Wave, s.Waves, s.Name, s.State, s.Reason),
	})
}

// freeze shows the revision that a freeze holds before its rollout, nil if none does.
func (b *board) freeze(f *status.Freeze) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Frozen = f
	if f == nil {
		b.down(status.Frozen)
		return
	}
	b.down(status.GuardBlocked, status.CompileFailed)
	b.sync.LastAttempted, b.sync.Errors, b.sync.Blocked = f.Commit, nil, ""
	b.put(status.Condition{Type: status.Frozen, Status: true, Reason: "Frozen", Message: f.Reason, ObservedRevision: f.Commit})
}

// rolled shows how a rollout ended.
func (b *board) rolled(c status.Condition) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c.Type = status.RolloutProgressing
	b.put(c)
	b.down(status.Frozen)
	b.sync.Rollout, b.sync.Frozen = nil, nil
}

// skipped shows a revision that was rolled back and is not tried again.
func (b *board) skipped(s record.Skipped) {
	b.rolled(status.Condition{Reason: "WaveFailed", Message: s.Reason, ObservedRevision: s.Commit})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.down(status.GuardBlocked, status.CompileFailed)
	b.sync.Blocked, b.sync.LastAttempted, b.sync.Skipped, b.sync.Errors = "", s.Commit, s.Commit, []string{s.Reason}
}

// retries shows that the revision that was rolled back is tried again.
func (b *board) retries() {
	b.rolled(status.Condition{})
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sync.Skipped, b.sync.Errors = "", nil
}

// unready shows that the revision in force could not be brought to all peels.
func (b *board) unready(err error) {
	b.set(status.Condition{Type: status.Ready, Reason: "PublishFailed", Message: err.Error()})
}

// serves shows the revision that an earlier term has put in force. What is said of a newer one stays.
func (b *board) serves(c gitrepo.Commit, r record.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inForce(c, r)
}

func (b *board) inForce(c gitrepo.Commit, r record.Record) {
	commit := settings.Commit(c.Hash.String())
	b.sync.LastGood = status.Revision{Commit: commit, Author: byline(c), Message: c.Subject(), Time: c.Time, Since: r.Since}
	b.sync.Generation = r.Generation
	b.put(status.Condition{
		Type: status.Ready, Status: true, Reason: "InForce", ObservedRevision: commit,
		Message: commit.Short() + " " + c.Subject(),
	})
}

// remember shows what the record says of the past.
func (b *board) remember(attempts []status.Attempt) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.past = attempts
}

// attempts are those that are remembered, the newest first.
func (b *board) attempts() []status.Attempt {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := slices.Clone(b.past)
	slices.Reverse(all)
	return all
}
