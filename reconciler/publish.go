package reconciler

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

// inForce returns the record for a revision that is given to the whole fleet.
func (t *term) inForce(c gitrepo.Commit, limits top.Limits, done bool) record.Record {
	r, commit := t.last, settings.Commit(c.Hash.String())
	if r.Commit != commit {
		r = t.note(r, c, status.OutcomeProgressing, "")
	}
	if a := r.LastAttempt(); done && a != nil && a.Outcome == status.OutcomeProgressing {
		r = t.note(r, c, status.OutcomeApplied, "")
	}
	return r.Enforced(commit, limits, done, time.Now())
}

// writeRecord replaces the record unless another master has.
func (t *term) writeRecord(ctx context.Context, r record.Record) (err error) {
	if r, err = t.records.Write(ctx, r); err != nil {
		return err
	}
	t.last = r
	t.board.remember(r.History)
	return nil
}

// base is what the peels have been given.
func (t *term) base(ctx context.Context) plan.Base {
	return plan.Base{Digests: t.given, Plan: t.settled, Settings: func(d settings.Digest) (canon.Raw, error) {
		var holder target.PeelID
		for id, digest := range t.given {
			if digest == d {
				holder = id
				break
			}
		}
		doc, _, err := t.store.Get(ctx, holder)
		if err != nil {
			return nil, err
		}
		if doc == nil || doc.Digest != d {
			return nil, &settings.ConflictError{Peels: []target.PeelID{holder}}
		}
		return doc.Settings, nil
	}}
}

// holds notes what the bucket holds for a peel.
func (l *ledger) holds(h settings.Held) {
	if other := l.heads.Of(h.Peel).Peel; other != "" && other != h.Peel {
		l.drop(other)
		l.displaced++
	}
	l.heads[h.Peel.Wire()] = h
	l.given[h.Peel] = h.Digest
	l.settled = nil
}

// drop notes that the bucket holds nothing for a peel, as if it had never done so.
func (l *ledger) drop(id target.PeelID) {
	if _, held := l.given[id]; held {
		delete(l.given, id)
		delete(l.heads, id.Wire())
		l.settled = nil
	}
}

// publish gives the revision to the whole fleet and returns how many documents that took.
func (t *term) publish(ctx context.Context, p *plan.Plan, s *archive.Revision) (int, error) {
	commit := settings.Commit(s.Commit.Hash.String())
	t.progress.Want(commit, p, t.heads)
	if err := t.publishGroups(ctx, p.Groups); err != nil {
		return 0, err
	}
	displaced := t.displaced
	writes, err := t.deliver(ctx, t.inForce(s.Commit, p.Limits, false), portion{commit, p.Peels, p})
	if err == nil && t.displaced == displaced {
		t.settled = p
	}
	if err != nil || t.last.Commit == commit && t.last.Done && t.last.Rollout == nil {
		return writes, err
	}
	return writes, t.writeRecord(ctx, t.inForce(s.Commit, p.Limits, true))
}

// A portion is what some peels are to run by one revision.
type portion struct {
	commit settings.Commit
	peels  map[target.PeelID]*plan.Effective
	whole  *plan.Plan // that peels are of, nil if they are some of it
}

// due are the peels of which the bucket holds something else, or something that they can no longer open, in order.
func (t *term) due(p portion) (peels []target.PeelID) {
	prover := t.proofKey.ID()
	look := func(id target.PeelID, e *plan.Effective) {
		_, secret := e.Secret()
		if t.given[id] != e.Digest || t.heads.Of(id).ProvenBy != prover || secret && t.heads.Of(id).SealedTo != t.sealedTo(id, e) {
			peels = append(peels, id)
		}
	}
	if changed, ok := p.whole.Since(t.settled); ok {
		for id := range p.whole.Secrets() { // keys change without a revision
			changed = append(changed, id)
		}
		slices.Sort(changed)
		for _, id := range slices.Compact(changed) {
			look(id, p.peels[id])
		}
		return peels
	}
	for id, e := range p.peels {
		look(id, e)
	}
	slices.Sort(peels)
	return peels
}

// deliver writes the documents of portions that differ from what the bucket holds, and returns how many. Before the
// first it writes the record r, with the generation that they get; without any it writes nothing.
func (t *term) deliver(ctx context.Context, r record.Record, portions ...portion) (writes int, err error) {
	recorded := false
	generation := settings.NextGeneration(t.last.Generation, time.Now())
	for _, p := range portions {
		peels := t.due(p)
		if len(peels) == 0 {
			continue
		}
		touched := map[*plan.Effective]bool{}
		for _, id := range peels {
			touched[p.peels[id]] = true
		}
		origins, err := t.blamer.Blame(ctx, p.commit, slices.Collect(maps.Keys(touched))...)
		if err != nil {
			return writes, err
		}
		if !recorded {
			r.Generation = generation
			if err := t.writeRecord(ctx, r); err != nil {
				return writes, err
			}
			recorded = true
		}
		w := documents{term: t, part: p, generation: generation, origins: origins, sealed: map[target.PeelID]settings.Key{}}
		revisions, err := t.store.Publish(ctx, w.writes(peels))
		for peel, revision := range revisions {
			t.holds(settings.Held{
				Peel: peel, Digest: p.peels[peel].Digest, Commit: p.commit, Generation: generation, Revision: revision,
				SealedTo: w.sealed[peel], ProvenBy: t.proofKey.ID(),
			})
		}
		writes += len(revisions)
		if err = errors.Join(err, w.failed); err != nil {
			return writes, err
		}
	}
	return writes, nil
}

// publishGroups lets every master know the repo's node groups, when they change.
func (t *term) publishGroups(ctx context.Context, words settings.Words) error {
	if maps.EqualFunc(t.groups, words, slices.Equal) {
		return nil
	}
	revision, err := settings.PublishGroups(ctx, t.rollout, words, t.groupsAt)
	if errors.Is(err, jetstream.ErrKeyExists) {
		err = fmt.Errorf("%w: %w", record.ErrConflict, err)
	}
	if err != nil {
		return err
	}
	t.groups, t.groupsAt = maps.Clone(words), revision
	return nil
}

// documents are made while they are published, so that few of them are in memory at once.
type documents struct {
	*term
	part       portion
	generation uint64
	origins    map[*plan.Effective]map[string]settings.Origin

	sealed map[target.PeelID]settings.Key // to what, of those that were made
	failed error                          // none is made after
}

func (w *documents) writes(peels []target.PeelID) iter.Seq[settings.Write] {
	return func(yield func(settings.Write) bool) {
		for _, id := range peels {
			e := w.part.peels[id]
			doc := e.Document(id, w.part.commit, w.generation, w.origins[e])
			doc.ProveOrigins(&w.proofKey)
			if to := w.sealedTo(id, e); to != "" {
				if w.failed = e.Seal(doc, w.r.sealer, to); w.failed != nil {
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
