package reconciler

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

const lookEvery = time.Second // at a rollout under way, besides at each report

// A rolling is what this term has at hand of a rollout.
type rolling struct {
	snapshot *archive.Revision
	base     *plan.Plan // the revision in force
	plan     *plan.Plan // the revision on its way
	runs     *progress.Runs
	stop     func()                      // ends runs, and waits until it has ended
	late     map[target.PeelID]time.Time // since when a peel that is online has been seen without the revision
}

// changes reports whether the revision gives a peel other settings than the one in force.
func (r *rolling) changes(id target.PeelID) bool {
	e, old := r.plan.Peels[id], r.base.Peels[id]
	return e != nil && (old == nil || old.Digest != e.Digest)
}

// skip shows a revision that was rolled back, if head is one.
func (t *term) skip(head gitrepo.Hash) bool {
	s := t.last.FindSkipped(settings.Commit(head.String()))
	if s == nil {
		return false
	}
	t.tried = head
	t.board.skipped(*s)
	return true
}

// safety returns the stricter of what the revision in force and a new one say of how changes go out. The record has the
// former too, for a base that this master cannot compile; base may be nil.
func (t *term) safety(base, p *plan.Plan) top.Safety {
	inForce := t.last.Safety
	if base != nil {
		inForce = inForce.Stricter(base.Safety())
	}
	return inForce.Stricter(p.Safety())
}

// begin starts a rollout, in place of one that is under way, or goes on with the one of this revision.
func (t *term) begin(ctx context.Context, s *archive.Revision, safety top.Safety) error {
	commit := settings.Commit(s.Commit.Hash.String())
	if r := t.last.Rollout; r == nil || r.Commit != commit {
		runs, err := t.sequence(ctx, "job-events")
		if err != nil {
			return fmt.Errorf("cannot begin a rollout: %w", err)
		}
		reports, err := t.sequence(ctx, "applied")
		if err != nil {
			return fmt.Errorf("cannot begin a rollout: %w", err)
		}
		next := t.note(t.last, s.Commit, status.OutcomeProgressing, "")
		if err := t.writeRecord(ctx, rollout.Begin(next, commit, safety, runs, reports, time.Now())); err != nil {
			return err
		}
		if r != nil {
			t.r.log.Info("rollout superseded", "commit", r.Commit, "by", commit)
		}
		t.endRolling()
		t.archive.Request(s, t.last.InUse())
		t.r.log.Info("rollout begins", "commit", commit, "author", s.Commit.Author)
	}
	t.tried, t.stale = s.Commit.Hash, true
	t.board.attempted(commit)
	return nil
}

// sequence is that of the newest message of a stream.
func (t *term) sequence(ctx context.Context, stream string) (uint64, error) {
	s, err := t.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("cannot ask how far the stream %s is: %w", stream, err)
	}
	return s.CachedInfo().State.LastSeq, nil
}

// inBackground runs f until ctx ends or the returned function is called, which waits until f has returned.
func inBackground(ctx context.Context, f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); _ = f(ctx) }()
	return func() { cancel(); <-done }
}

func (t *term) endRolling() {
	if t.rolling != nil {
		t.rolling.stop()
	}
	t.rolling = nil
}

// compile has both revisions of the rollout at hand for the fleet as it is now. It reports false where one of them cannot
// be had: then nothing is written.
func (t *term) compile(ctx context.Context) (bool, error) {
	r := t.last.Rollout
	if err := t.recall(ctx); err != nil || t.good == nil {
		return false, err
	}
	if t.rolling == nil {
		snapshot, err := t.sourceOf(ctx, r.Commit)
		if err != nil || snapshot == nil {
			return false, err
		}
		t.rolling = &rolling{snapshot: snapshot, runs: progress.NewRuns(t.js, r.Sequence, t.news, t.r.log), late: map[target.PeelID]time.Time{}}
		t.rolling.stop = inBackground(ctx, t.rolling.runs.Run)
	}
	base, err := t.sealable(t.compiler.Retarget(t.good.Tree, t.fleet.Index()))
	if err != nil {
		return false, fmt.Errorf("cannot keep the revision in force: %w", err)
	}
	next, err := t.sealable(t.compiler.Retarget(t.rolling.snapshot.Tree, t.fleet.Index()))
	if err != nil {
		return false, fmt.Errorf("cannot go on with the rollout: %w", err)
	}
	t.rolling.base, t.rolling.plan = base, next
	return true, nil
}

// spread gives every peel the revision of its place.
func (t *term) spread(ctx context.Context) error {
	r := *t.last.Rollout
	if err := t.watchRuns(ctx, &r); err != nil {
		return err
	}
	mixed := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}, Behind: map[target.PeelID]strictyaml.Error{}}
	rest := publish.Portion{Commit: t.last.Commit, Peels: share(t.rolling.base, mixed, func(id target.PeelID) bool { return !r.Has(id) })}
	first := publish.Portion{Commit: r.Commit, Peels: share(t.rolling.plan, mixed, r.Has)}
	t.progress.Want("", mixed, t.published.Heads())
	if _, err := t.deliver(ctx, t.last, rest, first); err != nil {
		return err
	}
	t.stale = false
	t.board.serves(t.good.Commit, t.last)
	return nil
}

// share copies what a plan says of some peels into mixed, and returns what it gives them.
func share(p, mixed *plan.Plan, of func(target.PeelID) bool) map[target.PeelID]*plan.Effective {
	peels := map[target.PeelID]*plan.Effective{}
	for id, e := range p.Peels {
		if of(id) {
			peels[id], mixed.Peels[id] = e, e
		}
	}
	for id, mistake := range p.Behind {
		if of(id) {
			mixed.Behind[id] = mistake
		}
	}
	return peels
}

// watchRuns says which runs tell something of the revision: those of the versions of entries that it brings.
func (t *term) watchRuns(ctx context.Context, r *record.Rollout) error {
	difference, err := plan.Diff(t.rolling.base.Base(), t.rolling.plan)
	if err != nil {
		return err
	}
	watched := map[target.PeelID]progress.Entries{}
	for _, g := range difference.Groups {
		e := t.rolling.plan.Peels[g.Peels[0]]
		origins, err := t.blamer.Blame(ctx, r.Commit, e)
		if err != nil {
			return err
		}
		entries := progress.Entries{}
		for _, name := range slices.Concat(g.Entries.Added, g.Entries.Retimed, g.Entries.Swapped) {
			entries[name] = origins[e][name].Commit
		}
		for _, id := range g.Peels {
			if r.Has(id) {
				watched[id] = entries
			}
		}
	}
	t.rolling.runs.Watch(watched)
	return nil
}

// roll takes the rollout as far as its waves let it. What a rollout before it has reached gets the first wave of this one
// at once, where it belongs to it, and does not go back before.
func (t *term) roll(ctx context.Context) error {
	for t.last.Rollout != nil {
		if t.stale {
			if ready, err := t.compile(ctx); err != nil || !ready {
				return err
			}
		}
		step := rollout.Next(*t.last.Rollout, t.observed())
		t.board.rolling(step)
		switch {
		case step.Changed:
			if err := t.take(ctx, step.Rollout); err != nil {
				return err
			}
		case t.stale:
			if err := t.spread(ctx); err != nil {
				return err
			}
		case step.State == rollout.Failed:
			return t.rollBack(ctx, step.Reason)
		case step.State == rollout.Complete:
			return t.complete(ctx, step.Reason)
		default:
			return nil
		}
	}
	return nil
}

// take records how far the rollout is. Its peels are given the revision next.
func (t *term) take(ctx context.Context, r record.Rollout) error {
	before, next := t.last.Rollout, t.last
	next.Rollout = &r
	if err := t.writeRecord(ctx, next); err != nil {
		return err
	}
	t.stale = t.stale || !bytes.Equal(before.Members, r.Members)
	if before.Stage.Taken.IsZero() && !r.Stage.Taken.IsZero() {
		t.r.log.Info("wave begins", "commit", r.Commit, "wave", r.Wave().Name, "peels", r.Stage.Size)
	}
	return nil
}

// complete puts the revision of the rollout in force.
func (t *term) complete(ctx context.Context, reason string) error {
	s := t.rolling.snapshot
	err := t.enforce(ctx, t.rolling.plan, s)
	if t.good == s {
		t.board.rolled(status.Condition{Reason: "Completed", Message: reason, ObservedRevision: t.last.Commit})
	}
	return err
}

// rollBack ends the rollout for good and gives its peels the revision in force again.
func (t *term) rollBack(ctx context.Context, reason string) error {
	next := t.note(t.last, t.rolling.snapshot.Commit, status.OutcomeRolledBack, reason).RolledBack(reason, time.Now())
	if err := t.writeRecord(ctx, next); err != nil {
		return err
	}
	out := next.Skipped[len(next.Skipped)-1]
	t.endRolling()
	t.stale = true
	t.board.skipped(out)
	t.r.metrics.Failed("WaveFailed")
	t.r.log.Error("revision rolled back", "commit", out.Commit, "reason", reason)
	return t.retarget(ctx)
}

// respread gives every peel, for the fleet as it is now, the revision of its place.
func (t *term) respread(ctx context.Context) error {
	if ready, err := t.compile(ctx); err != nil || !ready {
		return err
	}
	return t.spread(ctx)
}
