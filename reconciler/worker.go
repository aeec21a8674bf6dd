// File worker.go runs the slow tasks of the reconciler: it verifies, reads, compiles and compares revisions, finds the
// peels whose settings changed, and writes documents.
//
// Call [NewWorker] and then [Worker.Do] with a [Task], in a goroutine of its own. [Worker.Remove] removes the settings
// of one peel.
//
// Guarantees: one task runs at a time. A worker changes no record, and decides nothing about the fleet: package decide
// does, from the results. A mistake in a revision is in its judgement; the error of a task has another cause. A task
// whose context ends stops after the file or the signature that it compiles.

package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/content"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
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
)

// WorkerOptions are the dependencies of a worker. Nothing else may use Published. All fields but History, MayAllow and
// OwnKey are required.
type WorkerOptions struct {
	History History // empty: HistoryApprove
	// MayAllow names the signers, by principal or fingerprint, whose Zester-Allow line counts if commits have to be
	// signed. If empty, the line of every trusted signer counts.
	MayAllow []string
	// fingerprint of the key that signs commits of this master, whose Zester-Allow line never counts; may be empty
	OwnKey    string
	Reader    *source.Reader
	Archive   *archive.Archive
	Progress  *progress.Progress
	Fleet     *fleet.Fleet
	JetStream jetstream.JetStream
	Blamer    *blame.Blamer
	Published *publish.Published
	Contents  *content.Store
	Written   time.Time // when the newest settings were written before this term
}

// A Worker runs one task at a time.
type Worker struct {
	o WorkerOptions

	mu       sync.Mutex // one task at a time; guards all below, and what was published
	compiler *plan.Compiler
	ring     *sops.Ring
	judged   decide.Compiled                     // of the newest judgement
	opened   map[settings.Commit]decide.Compiled // the revisions of the goal that was prepared last
}

// A Task is one piece of work, for the record and the fleet at the time when it begins.
type Task struct {
	Kind    decide.Kind
	Commit  settings.Commit
	Goal    decide.Goal
	Basis   decide.Basis
	Attempt uint64
	Record  record.Record
	Ring    *sops.Ring
	Due     *publish.Due // of DoPublish
}

// A Result is the outcome of a task. Besides Task, Took and Err, the field that belongs to Task.Kind is set.
type Result struct {
	Task     Task
	Took     time.Duration
	Err      error
	Judged   *decide.Judgement
	Compared decide.Comparison
	Measured *decide.Measurement
	Prepared *decide.Prepared
	Writes   int
	Stale    []target.PeelID // whose documents have to be written again
	Lost     *record.Lost    // nil: the bus has all that peels know
}

// NewWorker returns a worker that knows no revision yet.
func NewWorker(o WorkerOptions) *Worker { return &Worker{o: o, compiler: plan.NewCompiler()} }

// Do runs a task. When ctx ends it stops as soon as it can.
func (w *Worker) Do(ctx context.Context, j Task) (out Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.Ring != w.ring {
		w.ring, w.judged, w.opened = j.Ring, decide.Compiled{}, nil
		w.compiler.UseRing(j.Ring)
	}
	w.compiler.Until(ctx)
	began := time.Now()
	out.Task = j
	switch j.Kind {
	case decide.DoJudge:
		out.Judged, out.Err = w.judge(ctx, j)
	case decide.DoCompare:
		out.Compared = decide.Comparison{Head: j.Commit, Pinned: j.Record.Pinned.Commit}
		out.Compared.Descends, out.Err = w.o.Reader.Descends(j.Commit, j.Record.Pinned.Commit)
	case decide.DoMeasure:
		out.Measured, out.Err = w.measure(ctx, j.Commit)
	case decide.DoPrepare:
		out.Prepared, out.Err = w.prepare(ctx, j)
	case decide.DoPublish:
		out.Writes, out.Err = w.o.Published.Write(ctx, j.Due, j.Record)
	case decide.DoRepublish:
		out.Stale = w.o.Published.RepublishStale(w.o.Progress.Pending())
		out.Lost = w.lost()
	}
	out.Took = time.Since(began)
	return out
}

// lost returns what peels know and the bus does not. It may be called during a task.
func (w *Worker) lost() *record.Lost {
	found := w.o.Progress.Unknown()
	if found.Peels == 0 {
		return nil
	}

	return &record.Lost{
		From:  w.o.Written.UTC(),
		Until: time.UnixMilli(int64(found.Newest)).UTC(),
		Peel:  found.Peel,
		Peels: found.Peels,
		Seen:  time.Now().UTC(),
	}
}

// Remove removes the settings of a peel, and reports whether there were any.
func (w *Worker) Remove(ctx context.Context, id target.PeelID) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	held := w.o.Published.Heads().Of(id).Peel == id
	return held, w.o.Published.Remove(ctx, id)
}

// Read reads a revision from the repo or the archive, nil if neither has it.
func (w *Worker) Read(ctx context.Context, commit settings.Commit) (*archive.Revision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.o.Reader.Revision(ctx, commit)
}

// measure returns the newest sequences of the streams with runs, reports and runs of states. Later messages count for a
// rollout.
func (w *Worker) measure(ctx context.Context, commit settings.Commit) (*decide.Measurement, error) {
	m := &decide.Measurement{Commit: commit}
	for stream, sequence := range map[string]*uint64{
		"job-events": &m.Sequence,
		"applied":    &m.Reports,
		"states":     &m.States,
	} {
		s, err := w.o.JetStream.Stream(ctx, stream)
		if err != nil {
			return nil, fmt.Errorf("cannot read the newest sequence of the stream %s: %w", stream, err)
		}
		*sequence = s.CachedInfo().State.LastSeq
	}
	return m, nil
}

// prepare compiles the revisions of the record for the present fleet, and finds the documents that the bucket lacks.
func (w *Worker) prepare(ctx context.Context, j Task) (*decide.Prepared, error) {
	r := &j.Record
	p := &decide.Prepared{Goal: j.Goal, Changes: j.Basis.Changes}
	var err error
	if p.Base, err = w.compile(ctx, r.Commit, p.Changes); err != nil {
		return nil, fmt.Errorf("cannot bring the revision in force to all peels: %w", err)
	}
	if r.Rollout != nil {
		if p.Next, err = w.compile(ctx, r.Rollout.Commit, p.Changes); err != nil {
			return nil, fmt.Errorf("cannot go on with the rollout: %w", err)
		}
	}
	if p.Facts, err = w.facts(ctx, r, p.Base.Plan, p.Next.Plan); err != nil {
		return nil, err
	}
	base := without(&p.Facts, p.Base.Plan)
	portions := []publish.Portion{{Commit: r.Commit, Peels: base.Peels, Plan: base}}
	if r.Rollout == nil {
		w.archive(&p.Base, r)
		w.want(r.Commit, &p.Facts, base)
		if err := w.o.Published.WriteGroups(ctx, p.Base.Plan.Groups); err != nil {
			return nil, err
		}
		if err := w.o.Published.WriteAlerts(ctx, p.Base.Plan.Alerts); err != nil {
			return nil, err
		}
	} else {
		w.archive(&p.Next, r)
		mixed := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}, Behind: map[target.PeelID]strictyaml.Error{}}
		portions = []publish.Portion{
			{Commit: r.Commit, Peels: share(base, mixed, func(id target.PeelID) bool { return !r.Rollout.Has(id) })},
			{Commit: r.Rollout.Commit, Peels: share(without(&p.Facts, p.Next.Plan), mixed, r.Rollout.Has)},
		}
		w.want("", &p.Facts, mixed)
	}
	w.opened = map[settings.Commit]decide.Compiled{r.Commit: p.Base}
	if r.Rollout != nil {
		w.opened[r.Rollout.Commit] = p.Next
	}
	if err := w.publishContents(ctx); err != nil {
		return nil, err
	}
	if p.Next.Plan != nil {
		if p.Watched, err = w.watched(ctx, p, r.Rollout); err != nil {
			return nil, err
		}
	}
	if p.Due, err = w.o.Published.Due(ctx, portions...); err != nil {
		return nil, err
	}
	p.Lacking = p.Due.Len()
	return p, nil
}

// watched returns, for each member, the entries that the revision adds or changes: their runs show whether it works.
func (w *Worker) watched(ctx context.Context, p *decide.Prepared,
	r *record.Rollout,
) (map[target.PeelID]progress.Entries, error) {
	difference, err := diff.Make(diff.Of(p.Base.Plan), p.Next.Plan)
	if err != nil {
		return nil, err
	}
	all := map[target.PeelID]progress.Entries{}
	for _, g := range difference.Groups {
		e := p.Next.Plan.Peels[g.Peels[0]]
		origins, err := w.o.Blamer.Blame(ctx, r.Commit, e)
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

// archive requests that a revision be stored, with the rules of its zester.yaml for sending changes.
func (w *Worker) archive(c *decide.Compiled, r *record.Record) {
	revision, safety := *c.Revision, c.Plan.Safety()
	revision.Safety, revision.Contents = &safety, c.Plan.Contents()
	w.o.Archive.Request(&revision, r.InUse())
}

// share copies the part of a plan for some peels into mixed, and returns the settings of these peels.
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

// errLost is followed by the commit of a revision that went to the fleet.
var errLost = errors.New("neither the repo nor the archive has revision")

// compile returns a revision that was sent, compiled for the present fleet. A mistake in it holds back only the peels
// that depend on it.
func (w *Worker) compile(ctx context.Context, commit settings.Commit, changes uint64) (decide.Compiled, error) {
	known := w.opened[commit]
	if r := w.judged.Revision; r != nil && r.ID() == commit {
		known = w.judged
	}
	if known.Revision != nil && known.Changes == changes {
		return known, nil
	}
	revision := known.Revision
	if revision == nil {
		var err error
		if revision, err = w.o.Reader.Revision(ctx, commit); err != nil {
			return decide.Compiled{}, err
		}
	}
	if revision == nil {
		return decide.Compiled{}, fmt.Errorf("%w %s", errLost, commit.Short())
	}
	p, err := w.compiler.Retarget(revision.Tree, w.o.Fleet.Index())
	if err != nil {
		return decide.Compiled{}, err
	}
	return decide.Compiled{Revision: revision, Plan: publish.HoldBack(p, w.o.Fleet), Changes: changes}, nil
}
