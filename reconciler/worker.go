package reconciler

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sops"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/feed"
)

// A worker does what takes time: one task at a time, each in a goroutine that the loop waits for. It changes no record.
type worker struct {
	o        *Options
	reader   *source.Reader
	archive  *archive.Archive
	progress *progress.Progress
	fleet    *feed.Feed
	js       jetstream.JetStream

	mu        sync.Mutex // one task at a time; guards all below
	compiler  *plan.Compiler
	blamer    *blame.Blamer
	published *publish.Published
	ring      *sops.Ring
	judged    compiled                     // of the newest judgement
	opened    map[settings.Commit]compiled // of the goal that was prepared last
}

// A task is what the worker does, for the record and the fleet as they were when it began.
type task struct {
	kind    kind
	commit  settings.Commit
	goal    goal
	basis   basis
	attempt uint64
	record  record.Record
	ring    *sops.Ring
	due     *publish.Due // of doPublish
}

// A result is what came of a task. It has the part that the kind of the task makes.
type result struct {
	task     task
	took     time.Duration
	err      error
	judged   *judgement
	compared comparison
	measured *measurement
	prepared *prepared
	writes   int
	stale    []target.PeelID // whose documents have to be written again
}

// A compiled revision is a plan for the fleet as it was.
type compiled struct {
	revision *archive.Revision
	plan     *plan.Plan
	changes  uint64 // see basis
}

// A prepared is what peels are to have, and which documents the bucket lacks for it.
type prepared struct {
	goal    goal
	changes uint64   // see basis
	base    compiled // the revision in force
	next    compiled // the revision that goes out in waves; zero if there is none
	lacking int      // documents that the bucket lacks: those of due
	due     *publish.Due
	watched map[target.PeelID]progress.Entries // the runs that say something of the revision that goes out
}

// changesPeel reports whether the revision that goes out gives a peel other settings than the one in force.
func (p *prepared) changesPeel(id target.PeelID) bool {
	e, old := p.next.plan.Peels[id], p.base.plan.Peels[id]
	return e != nil && (old == nil || old.Digest != e.Digest)
}

// do does a task. When ctx ends it stops as soon as it can.
func (w *worker) do(ctx context.Context, j task) (out result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.ring != w.ring {
		w.ring, w.judged, w.opened = j.ring, compiled{}, nil
		w.compiler.UseRing(j.ring)
	}
	began := time.Now()
	out.task = j
	switch j.kind {
	case doJudge:
		out.judged, out.err = w.judge(ctx, j)
	case doCompare:
		out.compared = comparison{head: j.commit, pinned: j.record.Pinned.Commit}
		out.compared.descends, out.err = w.reader.Descends(j.commit, j.record.Pinned.Commit)
	case doMeasure:
		out.measured, out.err = w.measure(ctx, j.commit)
	case doPrepare:
		out.prepared, out.err = w.prepare(ctx, j)
	case doPublish:
		out.writes, out.err = w.published.Write(ctx, j.due, j.record)
	case doRepublish:
		out.stale = w.published.RepublishStale(w.progress.Pending())
	}
	out.took = time.Since(began)
	return out
}

// remove removes the settings of a peel, and reports whether there were any.
func (w *worker) remove(ctx context.Context, id target.PeelID) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.published.Heads().Of(id).Peel == id
	return held, w.published.Remove(ctx, id)
}

// measure finds out how far the streams are that say what becomes of a rollout.
func (w *worker) measure(ctx context.Context, commit settings.Commit) (*measurement, error) {
	m := &measurement{commit: commit}
	for stream, sequence := range map[string]*uint64{"job-events": &m.sequence, "applied": &m.reports} {
		s, err := w.js.Stream(ctx, stream)
		if err != nil {
			return nil, fmt.Errorf("cannot ask how far the stream %s is: %w", stream, err)
		}
		*sequence = s.CachedInfo().State.LastSeq
	}
	return m, nil
}

// prepare compiles what the record says for the fleet as it is, and finds the documents that the bucket lacks.
func (w *worker) prepare(ctx context.Context, j task) (*prepared, error) {
	r := &j.record
	p := &prepared{goal: j.goal, changes: j.basis.changes}
	var err error
	if p.base, err = w.compile(ctx, r.Commit, p.changes); err != nil {
		return nil, fmt.Errorf("cannot bring the revision in force to all peels: %w", err)
	}
	portions := []publish.Portion{{Commit: r.Commit, Peels: p.base.plan.Peels, Plan: p.base.plan}}
	if r.Rollout == nil {
		w.archive.Request(p.base.revision, r.InUse())
		w.progress.Want(r.Commit, p.base.plan, w.published.Heads())
		if err := w.published.WriteGroups(ctx, p.base.plan.Groups); err != nil {
			return nil, err
		}
	} else {
		if p.next, err = w.compile(ctx, r.Rollout.Commit, p.changes); err != nil {
			return nil, fmt.Errorf("cannot go on with the rollout: %w", err)
		}
		w.archive.Request(p.next.revision, r.InUse())
		mixed := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}, Behind: map[target.PeelID]strictyaml.Error{}}
		portions = []publish.Portion{
			{Commit: r.Commit, Peels: share(p.base.plan, mixed, func(id target.PeelID) bool { return !r.Rollout.Has(id) })},
			{Commit: r.Rollout.Commit, Peels: share(p.next.plan, mixed, r.Rollout.Has)},
		}
		w.progress.Want("", mixed, w.published.Heads())
	}
	w.opened = map[settings.Commit]compiled{r.Commit: p.base}
	if r.Rollout != nil {
		w.opened[r.Rollout.Commit] = p.next
	}
	if p.next.plan != nil {
		if p.watched, err = w.watched(ctx, p, r.Rollout); err != nil {
			return nil, err
		}
	}
	if p.due, err = w.published.Due(ctx, portions...); err != nil {
		return nil, err
	}
	p.lacking = p.due.Len()
	return p, nil
}

// watched returns the entries whose runs say something of a revision: those that it brings to its members.
func (w *worker) watched(ctx context.Context, p *prepared, r *record.Rollout) (map[target.PeelID]progress.Entries, error) {
	difference, err := diff.Make(diff.Of(p.base.plan), p.next.plan)
	if err != nil {
		return nil, err
	}
	all := map[target.PeelID]progress.Entries{}
	for _, g := range difference.Groups {
		e := p.next.plan.Peels[g.Peels[0]]
		origins, err := w.blamer.Blame(ctx, r.Commit, e)
		if err != nil {
			return nil, err
		}
		entries := progress.Entries{}
		for _, name := range slices.Concat(g.Entries.Added, g.Entries.Retimed, g.Entries.Swapped) {
			entries[name] = origins[e][name].Commit
		}
		for _, id := range g.Peels {
			if r.Has(id) {
				all[id] = entries
			}
		}
	}
	return all, nil
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

// compile returns a revision that was sent, compiled for the fleet as it is. What is wrong with it holds back only the peels
// that depend on it.
func (w *worker) compile(ctx context.Context, commit settings.Commit, changes uint64) (compiled, error) {
	known := w.opened[commit]
	if r := w.judged.revision; r != nil && r.ID() == commit {
		known = w.judged
	}
	if known.revision != nil && known.changes == changes {
		return known, nil
	}
	revision := known.revision
	if revision == nil {
		var err error
		if revision, err = w.reader.Revision(ctx, commit); err != nil {
			return compiled{}, err
		}
	}
	if revision == nil {
		return compiled{}, fmt.Errorf("neither the repo nor the archive has revision %s", commit.Short())
	}
	p, err := w.compiler.Retarget(revision.Tree, w.fleet.Index())
	if err != nil {
		return compiled{}, err
	}
	return compiled{revision, publish.HoldBack(p, w.fleet), changes}, nil
}
