package publish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// ackGrace is how long Write waits for acknowledgements after its context has ended.
const ackGrace = 5 * time.Second

// A Portion holds the settings that one revision gives to some peels.
type Portion struct {
	Commit settings.Commit
	Peels  map[target.PeelID]*plan.Effective
	Plan   *plan.Plan // nil unless Peels are all peels of this plan
}

// A Due lists the documents that the bucket lacks. Every write makes it invalid.
type Due struct{ parts []part }

// A part is a portion with the peels whose documents are due, in order, and the origins of their settings.
type part struct {
	Portion
	due     []target.PeelID
	origins map[*plan.Effective]map[string]settings.Origin
	ran     map[*plan.Effective]map[string]string // what their entries run
}

// Len returns the number of documents.
func (d *Due) Len() (n int) {
	for _, p := range d.parts {
		n += len(p.due)
	}
	return n
}

// Due returns the documents of portions that the bucket lacks. No peel may be in two portions. It reads only the
// history of the repo, for the origins of settings.
func (p *Published) Due(ctx context.Context, portions ...Portion) (*Due, error) {
	d := &Due{}
	for _, portion := range portions {
		due := p.dueOf(portion)
		touched := map[*plan.Effective]bool{}
		for _, id := range due {
			touched[portion.Peels[id]] = true
		}
		part := part{Portion: portion, due: due, ran: map[*plan.Effective]map[string]string{}}
		if len(due) > 0 {
			var err error
			if part.origins, err = p.o.Blamer.Blame(ctx, portion.Commit,
				slices.Collect(maps.Keys(touched))...); err != nil {
				return nil, err
			}
			for e := range touched {
				if part.ran[e], err = settings.RanBy(e.Settings); err != nil {
					return nil, err
				}
			}
		}
		d.parts = append(d.parts, part)
	}
	return d, nil
}

// dueOf returns the peels of a portion whose documents are due, in order. If the previous plan is known, it compares
// only the peels whose settings differ between the plans, and those with secrets, whose keys change without a revision.
func (p *Published) dueOf(portion Portion) (due []target.PeelID) {
	prover := p.proofKey.ID()
	candidates := maps.Keys(portion.Peels)
	if changed, ok := portion.Plan.Since(p.plan); ok {
		for id := range portion.Plan.Secrets() {
			changed = append(changed, id)
		}
		candidates = slices.Values(changed)
	}
	for id := range candidates {
		held := p.heads.Of(id)
		if held.Peel != id {
			held = settings.Held{} // the document of another peel with the same key in the bucket
		}
		if e := portion.Peels[id]; p.resend[id] || isDue(held, e, prover, p.sealingKey(id, e)) {
			due = append(due, id)
		}
	}
	slices.Sort(due)
	return slices.Compact(due)
}

// isDue reports whether the stored document has to be replaced: the settings, the key of the proofs or, with secrets,
// the key that they are sealed to is another one.
func isDue(held settings.Held, e *plan.Effective, prover string, to settings.Key) bool {
	return held.Digest != e.Digest || held.ProvenBy != prover || to != "" && held.SealedTo != to
}

// Write writes the due documents and returns the number of stored ones, also with an error. r is the record that was
// stored after Due; the documents get its generation. The error is a *[settings.ConflictError] if another master has
// written one of them.
func (p *Published) Write(ctx context.Context, d *Due, r record.Record) (writes int, err error) {
	displaced := p.displaced
	var unfit *settings.UnfitError // the other peels get theirs
	for _, part := range d.parts {
		if len(part.due) == 0 {
			continue
		}
		if err := p.checkIntent(part, r); err != nil {
			return writes, err
		}
		n, err := p.writePart(ctx, part, r.Generation)
		writes += n
		if e, ok := errors.AsType[*settings.UnfitError](err); ok && ctx.Err() == nil {
			unfit = cmp.Or(unfit, e)
		} else if err != nil {
			return writes, err
		}
	}
	if unfit != nil {
		return writes, unfit
	}
	if len(d.parts) == 1 && d.parts[0].Plan != nil && p.displaced == displaced {
		p.plan = d.parts[0].Plan
	}
	return writes, nil
}

// checkIntent returns an error unless the record names the revision of a part, and a generation newer than all
// documents that the part replaces.
func (p *Published) checkIntent(part part, r record.Record) error {
	if !r.IsSent(part.Commit) {
		return fmt.Errorf("cannot publish revision %s: the record names only %v", part.Commit.Short(), r.Sent())
	}
	for _, id := range part.due {
		if held := p.heads.Of(id); held.Generation >= r.Generation {
			return fmt.Errorf("cannot publish the settings of %s: generation %d of the record is not newer than %d",
				id, r.Generation, held.Generation)
		}
	}
	return nil
}

func (p *Published) writePart(ctx context.Context, part part, generation uint64) (int, error) {
	w := writer{Published: p, part: part, generation: generation, sealed: map[target.PeelID]settings.Key{}}
	acks, cancel := outlast(ctx)
	defer cancel()
	revisions, err := p.store.Publish(acks, w.writes(ctx))
	for id, revision := range revisions {
		p.recordWrite(settings.Held{
			Peel: id, Digest: part.Peels[id].Digest, Commit: part.Commit, Generation: generation, Revision: revision,
			SealedTo: w.sealed[id], ProvenBy: p.proofKey.ID(),
		})
	}
	return len(revisions), errors.Join(err, w.failed)
}

// outlast returns a context that ends ackGrace after ctx, so that documents in flight when ctx ends are recorded as
// written.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(ackGrace, cancel) })
	return later, func() { stop(); cancel() }
}

// A writer creates documents while they are published, so that only a few are in memory at once.
type writer struct {
	*Published
	part       part
	generation uint64

	sealed map[target.PeelID]settings.Key // the key that each document was sealed to
	failed error                          // the error that ended writes
}

func (w *writer) writes(ctx context.Context) iter.Seq[settings.Write] {
	return func(yield func(settings.Write) bool) {
		for _, id := range w.part.due {
			if w.failed = ctx.Err(); w.failed != nil {
				return
			}
			e := w.part.Peels[id]
			doc := e.Document(id, w.part.Commit, w.generation, w.part.origins[e])
			doc.ProveOrigins(&w.proofKey, w.part.ran[e])
			if to := w.sealingKey(id, e); to != "" {
				if w.failed = e.Seal(doc, w.o.Sealer, to); w.failed != nil {
					return
				}
				w.sealed[id] = to
			}
			if !yield(settings.Write{Document: doc, Revision: w.heads.Of(id).Revision}) {
				return
			}
		}
	}
}
