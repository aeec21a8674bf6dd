package reconciler

import (
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
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
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

// begin starts a rollout, in place of one that is under way, or goes on with the one of this revision.
func (t *term) begin(ctx context.Context, s *archive.Revision) error {
	commit := settings.Commit(s.Commit.Hash.String())
	if r := t.last.Rollout; r == nil || r.Commit != commit {
		sequence, err := t.sequence(ctx, "job-events")
		if err != nil {
			return fmt.Errorf("cannot begin a rollout: %w", err)
		}
		next := t.note(t.last.WithoutApproval(), s.Commit, status.OutcomeProgressing, "")
		next.Rollout = &record.Rollout{Commit: commit, Sequence: sequence, Known: knownMarks(t.progress.Errors()), Started: time.Now()}
		if err := t.writeRecord(ctx, next); err != nil {
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
	rest := publish.Portion{Commit: t.last.Commit, Peels: share(t.rolling.base, mixed, func(id target.PeelID) bool { return !r.Reaches(id) })}
	first := publish.Portion{Commit: r.Commit, Peels: share(t.rolling.plan, mixed, r.Reaches)}
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
			if r.Reaches(id) {
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
	for again := true; again && t.last.Rollout != nil; {
		if t.stale {
			if ready, err := t.compile(ctx); err != nil || !ready {
				return err
			}
		}
		if t.last.Rollout.Reach == "" {
			launched, err := t.launch(ctx, 0)
			if err != nil {
				return err
			}
			if launched || t.last.Rollout == nil {
				continue
			}
			t.board.rolling(t.last.Rollout, t.rolling.plan.Waves, health{}, waveWaits)
		}
		if t.stale {
			if err := t.spread(ctx); err != nil {
				return err
			}
		}
		var err error
		if again, err = t.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step judges the wave under way, if there is one, and does what follows. It reports whether there may be more to do at
// once.
func (t *term) step(ctx context.Context) (again bool, err error) {
	r := t.last.Rollout
	if r.Reach == "" {
		return false, nil
	}
	waves := t.rolling.plan.Waves
	if r.Wave >= len(waves) {
		return t.launch(ctx, r.Wave)
	}
	w, h := waves[r.Wave], t.health()
	verdict := judge(r, w, h, time.Now())
	t.board.rolling(r, waves, h, verdict)
	switch verdict {
	case waveFailed:
		return false, t.rollBack(ctx, fmt.Sprintf("wave %s failed: %s", w.Name, h.failures(w.MaxFailures.Within(h.peels))))
	case waveApplied:
		next := t.last
		rolling := *r
		rolling.Soaking = time.Now()
		next.Rollout = &rolling
		return true, t.writeRecord(ctx, next)
	case wavePassed:
		return t.launch(ctx, r.Wave+1)
	}
	return false, nil
}

// launch begins a wave, or puts the revision in force where no wave is left or nothing is to be learnt from one. A wave
// is counted in peels that are online; where none is it waits, as it does for the end of a pause.
func (t *term) launch(ctx context.Context, wave int) (again bool, err error) {
	if t.last.Suspended != nil {
		return false, nil
	}
	waves := t.rolling.plan.Waves
	var places []string // of the peels that the revision changes and that are online
	affected := 0
	for id := range t.rolling.plan.Peels {
		if !t.rolling.changes(id) {
			continue
		}
		affected++
		if _, online := t.fleet.Presence(id); online {
			places = append(places, record.Place(id))
		}
	}
	if affected == 0 || wave >= len(waves) {
		return false, t.complete(ctx)
	}
	if len(places) == 0 {
		return false, nil
	}
	reports, err := t.sequence(ctx, "applied")
	if err != nil {
		return false, err
	}
	slices.Sort(places)
	next := t.last
	rolling := *t.last.Rollout
	rolling.Wave, rolling.Reports, rolling.Soaking = wave, reports, time.Time{}
	rolling.Reach = max(rolling.Reach, places[waves[wave].Peels.Of(len(places))-1])
	next.Rollout = &rolling
	t.r.log.Info("wave begins", "commit", rolling.Commit, "wave", waves[wave].Name)
	t.stale = true
	return true, t.writeRecord(ctx, next)
}

// complete puts the revision of the rollout in force.
func (t *term) complete(ctx context.Context) error {
	s := t.rolling.snapshot
	err := t.enforce(ctx, t.rolling.plan, s)
	if t.good == s {
		t.board.rolled(status.Condition{Reason: "Completed", Message: "every wave has passed", ObservedRevision: t.last.Commit})
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
