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

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/top"
)

const (
	rolloutBucket = "rollout"
	recordKey     = "state"
)

// A record says which revision was last given to the fleet. It is written before the first document is, so that
// whoever leads next knows of a rollout that was cut off.
type record struct {
	Commit     settings.Commit `json:"commit"`
	Generation uint64          `json:"generation"`
	Done       bool            `json:"done"` // every document was written
	Owner      string          `json:"owner"`
	Time       time.Time       `json:"time"`
	Since      time.Time       `json:"since,omitzero"` // when Commit was put in force

	Limits *top.Limits `json:"limits,omitempty"` // of Commit, nil for the default

	Blocked   *blocked  `json:"blocked,omitempty"`   // the newest revision, if the guard has stopped it
	Approved  *approval `json:"approved,omitempty"`  // nil once its plan has gone out or the branch has moved on
	Suspended *approval `json:"suspended,omitempty"` // who has, nil while new commits are followed

	Rollout *rollout  `json:"rollout,omitempty"` // the revision that goes out in waves; Commit stays in force meanwhile
	Skipped []skipped `json:"skipped,omitempty"` // what was rolled back, the newest last
	Pinned  *pin      `json:"pinned,omitempty"`  // the revision that is held, nil while the branch is followed

	History []status.Attempt `json:"history,omitempty"` // the newest last
}

// A blocked revision waits until its plan is approved or the branch moves on.
type blocked struct {
	Commit settings.Commit `json:"commit"`
	Hash   string          `json:"hash"` // of the plan
	Reason string          `json:"reason"`
	Kind   string          `json:"kind,omitempty"` // reason of the condition; empty: TooManyChanges
}

// An approval says who did something, by the credential, and when. The approval of a plan names its revision and hash.
type approval struct {
	Commit settings.Commit `json:"commit,omitempty"`
	Hash   string          `json:"hash,omitempty"` // of the plan
	By     string          `json:"by"`
	Time   time.Time       `json:"time"`
}

// limits returns the limits of the revision in force.
func (r *record) limits() top.Limits {
	if r.Limits == nil {
		return top.DefaultLimits
	}
	return *r.Limits
}

// letThrough reports whether a revision was judged before: its writes may be half done.
func (r *record) letThrough(commit settings.Commit) bool {
	return r.Commit == commit || r.Rollout != nil && r.Rollout.Commit == commit
}

// inForce returns the record for a revision that is given to the whole fleet.
func (t *term) inForce(c gitrepo.Commit, limits top.Limits, done bool) record {
	r, commit := t.last, settings.Commit(c.Hash.String())
	if r.Commit != commit {
		r.Since = time.Now()
		r = t.note(r.spent(), c, status.OutcomeProgressing, "")
	}
	if last := len(r.History) - 1; done && last >= 0 && r.History[last].Outcome == status.OutcomeProgressing {
		r = t.note(r, c, status.OutcomeApplied, "")
	}
	r.Commit, r.Done, r.Rollout, r.Limits = commit, done, nil, &limits
	return r
}

// inUse are the revisions that must stay at hand.
func (r *record) inUse() []settings.Commit {
	use := []settings.Commit{r.Commit}
	if r.Rollout != nil {
		use = append(use, r.Rollout.Commit)
	}
	if r.Pinned != nil {
		use = append(use, r.Pinned.Commit)
	}
	return use
}

// readRecord returns the zero record where there is none.
func readRecord(ctx context.Context, kv jetstream.KeyValue) (r record, revision uint64, err error) {
	entry, err := kv.Get(ctx, recordKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return r, 0, nil
	}
	if err == nil {
		err = canon.Unmarshal(entry.Value(), &r)
	}
	if err != nil {
		return r, 0, fmt.Errorf("cannot read what was rolled out: %w", err)
	}
	return r, entry.Revision(), nil
}

// writeRecord replaces the record unless somebody else has.
func (t *term) writeRecord(ctx context.Context, r record) error {
	r.Owner, r.Time = t.r.o.Owner, time.Now()
	data, err := canon.Marshal(r)
	if err != nil {
		return err
	}
	revision, err := t.rollout.Update(ctx, recordKey, data, t.revision)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("cannot record what is rolled out: %w", errOvertaken)
	}
	if err != nil {
		return fmt.Errorf("cannot record what is rolled out: %w", err)
	}
	t.last, t.revision = r, revision
	t.board.remember(r.History)
	return nil
}

// errOvertaken ends the term: the record is not what this term has read. The next one reads it again.
var errOvertaken = errors.New("it was written since it was read")

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
func (t *term) publish(ctx context.Context, p *plan.Plan, s *source) (int, error) {
	commit := settings.Commit(s.Commit.Hash.String())
	t.progress.want(commit, p, t.heads)
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
func (t *term) deliver(ctx context.Context, r record, portions ...portion) (writes int, err error) {
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
		err = fmt.Errorf("%w: %w", errOvertaken, err)
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
