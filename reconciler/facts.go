package reconciler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// facts returns what new facts take from peels, compared with the stored documents: next is nil without a rollout. If
// they take more than the limits, together with what they took within a day before, the peels whose settings would
// change or go keep them until a person approves that. What waits keeps waiting until a person approves it or it is
// undone, also if it is within the limits later. While an approved change is written, all others wait to be judged
// after it.
func (w *Worker) facts(ctx context.Context, r *record.Record, base, next *plan.Plan) (decide.Facts, error) {
	f := decide.Facts{}
	f.Taken = r.Facts.Taken
	wanted, differ := w.settled(r, base, next)
	if !differ {
		return f, nil
	}
	d, err := diff.Make(w.o.Published.Base(ctx), &plan.Plan{Peels: wanted})
	if err != nil {
		return f, err
	}
	now := time.Now()
	losses := r.Facts.Taken.Within(now)
	earlier, peels := sumOf(losses, d)
	over, _ := errors.AsType[*diff.BlockedError](d.GuardAfter(r.LimitsOrDefault(), earlier, peels))
	if over != nil || r.Facts.Hash != "" {
		err = w.hold(ctx, &f, r, d, wanted)
		if over != nil && f.Hash != "" {
			text := fmt.Sprintf("new facts would change the settings of peels (%d): %s", len(f.Keep), over.Reason)
			f.Reason = record.Cut(text, status.MaxMessage)
		}
		return f, err
	}
	for g, id := range taking(d) {
		mark := record.MarkPeel(id)
		losses[mark] = record.DatedLoss{Loss: losses[mark].Add(record.Loss(g.Takes)), Last: now}
	}
	f.Taken = record.NewLosses(losses)
	return f, nil
}

// taking yields the peels whose settings a difference changes or removes, with their group.
func taking(d *diff.Difference) iter.Seq2[*diff.Group, target.PeelID] {
	return func(yield func(*diff.Group, target.PeelID) bool) {
		for i := range d.Groups {
			g := &d.Groups[i]
			for _, id := range g.Peels {
				if g.Takes.Touched > 0 && !yield(g, id) {
					return
				}
			}
		}
	}
}

// settingsOf holds the settings of peels.
type settingsOf = map[target.PeelID]*plan.Effective

// hold fills in f with the changes of d that wait: all but those that a person has approved.
func (w *Worker) hold(ctx context.Context, f *decide.Facts, r *record.Record, d *diff.Difference,
	wanted settingsOf,
) error {
	f.Reason, f.Keep = r.Facts.Reason, map[target.PeelID]bool{}
	waiting := settingsOf{}
	var shown, peels []record.Mark
	heads := w.o.Published.Heads()
	for g, id := range taking(d) {
		if change := record.MarkChange(id, g.Old, g.New); !r.Facts.Lets(change) {
			f.Keep[id] = r.Rollout != nil && heads.Of(id).Commit == r.Rollout.Commit
			waiting[id] = wanted[id]
			shown, peels = append(shown, change), append(peels, record.MarkPeel(id))
		}
	}
	if r.Facts.Approved != nil || len(waiting) == 0 {
		return nil
	}
	held, err := diff.Make(w.o.Published.Base(ctx), &plan.Plan{Peels: waiting})
	if err != nil {
		return err
	}
	f.Hash, f.Shown, f.Peels = held.Hash, record.NewMarks(shown), record.NewMarks(peels)
	f.Change = &control.Judged{Commit: r.Commit, Hash: held.Hash, Change: control.ChangeOf(held)}
	return nil
}

// settled returns the settings of the peels that have what the revision of the record gave them for their facts at the
// time of writing, and reports whether one of them has other settings now. Documents that the record's revision has yet
// to replace are left out if the guard has judged what replaces them, unless a change of their peel waits. Documents of
// a revision that was rolled back are always left out, as it has to go.
func (w *Worker) settled(r *record.Record, base, next *plan.Plan) (wanted settingsOf, differ bool) {
	wanted = settingsOf{}
	heads := w.o.Published.Heads()
	for id, e := range base.Peels {
		held := heads.Of(id)
		sent := r.Rollout != nil && held.Commit == r.Rollout.Commit
		member := r.Rollout != nil && r.Rollout.Has(id)
		switch {
		case held.Peel != id, sent && !member:
			continue
		case sent:
			e = next.Peels[id]
		case member && r.Rollout.Guarded != nil:
			if e = next.Peels[id]; e == nil || r.Rollout.Guarded.Has(id, e.Digest) && !r.Facts.Holds(id) {
				continue
			}
		case replaces(r, held) && r.FindSkipped(held.Commit) != nil:
			continue
		case replaces(r, held) && r.Guarded.Has(id, e.Digest) && !r.Facts.Holds(id):
			continue
		case member && held.Digest != e.Digest: // its facts have changed since, and it gets the revision of the rollout
			e = next.Peels[id]
		}
		if e != nil {
			wanted[id] = e
			differ = differ || held.Digest != e.Digest
		}
	}
	return wanted, differ
}

// replaces reports whether the revision in force has yet to replace a document, which the guard has judged.
func replaces(r *record.Record, held settings.Held) bool {
	return held.Generation > r.Served && (held.Commit != r.Commit || held.Generation <= r.Former)
}

// sumOf returns what facts took within a day before beside what a difference takes, and from how many peels from which
// the difference removes nothing.
func sumOf(losses map[record.Mark]record.DatedLoss, d *diff.Difference) (sum diff.Taking, peels int) {
	now := map[record.Mark]record.Loss{}
	for g, id := range taking(d) {
		now[record.MarkPeel(id)] = record.Loss(g.Takes)
	}
	for mark, earlier := range losses {
		takes := now[mark]
		all := earlier.Add(takes)
		sum.Touched += max(all.Touched-takes.Touched, 0)
		sum.Removed += max(all.Removed-takes.Removed, 0)
		if earlier.Removed > 0 && takes.Removed == 0 {
			peels++
		}
	}
	return sum, peels
}

// bringsAlong returns why facts wait whose change a difference would bring to the peels, empty if none do. plans are
// those of the revision in force and of the rollout.
func (w *Worker) bringsAlong(ctx context.Context, r *record.Record, plans [2]*plan.Plan,
	d *diff.Difference,
) (string, error) {
	if plans[0] == nil || r.Rollout != nil && plans[1] == nil {
		return "", nil
	}
	held, err := w.facts(ctx, r, plans[0], plans[1])
	if err != nil || len(held.Keep) == 0 {
		return "", err
	}
	for _, id := range taking(d) {
		if _, kept := held.Keep[id]; kept {
			return held.Reason + "; this revision would bring that along", nil
		}
	}
	return "", nil
}

// without returns a plan for all peels but those that keep what they have.
func without(f *decide.Facts, p *plan.Plan) *plan.Plan {
	if len(f.Keep) == 0 {
		return p
	}
	kept := map[target.PeelID]strictyaml.Error{}
	for id := range f.Keep {
		kept[id] = strictyaml.Error{Msg: f.Reason}
	}
	return p.HoldBack(kept)
}

// want sets the wanted settings of a plan, a result of without: peels that keep what they have want just that.
func (w *Worker) want(commit settings.Commit, f *decide.Facts, p *plan.Plan) {
	heads := w.o.Published.Heads()
	if len(f.Keep) > 0 {
		p = p.HoldBack(nil)
	}
	for id := range f.Keep {
		delete(p.Behind, id)
		p.Peels[id] = &plan.Effective{Digest: heads.Of(id).Digest}
	}
	w.o.Progress.Want(commit, p, heads)
}
