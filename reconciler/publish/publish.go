// Package publish writes the documents of the peels: each holds the settings that a revision gives to one peel. It
// remembers the last document of every peel.
//
// Call [Load] first. [Published.Due] finds the documents that the bucket lacks. Store the record that names their
// revision, and call [Published.Write] with it.
//
// Guarantees:
//   - Intent comes first: Write writes only documents of a revision that the stored record names, with the record's
//     generation.
//   - A document is written only if its digest, the key that it is sealed to, or the key of its proofs changes. Each
//     write names the document that it replaces, so the write of a former leader fails once the next leader has
//     written.
//   - Options.CheckLease is called right before each document is sent, also when it is sent again. When it fails, no
//     more documents are sent. Write also stops between two documents when its context ends. In both cases the
//     documents that were stored are recorded.
//   - Secrets are sealed to the key of their peel; a peel without a key is held back by [HoldBack].
//   - Nothing is removed from a peel except by [Published.Remove].
//
// Known gap: a master that is stopped (SIGSTOP) after a check of the lease and continues after another leads still
// sends the one document that it has checked, and what its connection had buffered (32 KiB at most). Such a write takes
// effect only for a peel that the next leader has not written; that leader writes it again after three minutes
// ([Published.RepublishStale]).
package publish

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Options say where documents are stored and what goes into them. All fields are required.
type Options struct {
	JetStream  jetstream.JetStream
	Rollout    jetstream.KeyValue // the bucket [record.Bucket], for node groups, alert rules and the key of proofs
	Fleet      *fleet.Fleet       // for the keys of peels
	Blamer     *blame.Blamer
	Sealer     *settings.Sealer
	CheckLease func() error // returns an error unless this master leads
}

// A Published knows the last document of every peel. One goroutine may use it.
type Published struct {
	o        Options
	store    *settings.Store
	proofKey settings.ProofKey // of the origins in documents

	heads     settings.Heads
	given     map[target.PeelID]settings.Digest // the digests of heads
	plan      *plan.Plan                        // the plan whose documents all its peels have; nil if unknown
	displaced int                               // number of documents that replaced the document of another peel

	groups         settings.NodeGroups
	groupsRevision uint64 // of the key of groups; 0: there is none
	alerts         []policy.Alert
	alertsRevision uint64 // of the key of alerts; 0: there is none

	pending pendingFor
	resend  map[target.PeelID]bool // whose documents are written again although they are as wanted
}

// Load reads the last document of every peel, its metadata only.
func Load(ctx context.Context, o Options) (*Published, error) {
	p := &Published{
		o:      o,
		store:  settings.NewStore(o.JetStream).Checked(o.CheckLease),
		given:  map[target.PeelID]settings.Digest{},
		resend: map[target.PeelID]bool{},
	}
	var err error
	if p.proofKey, err = settings.LoadProofKey(ctx, o.Rollout); err != nil {
		return nil, err
	}
	if p.heads, err = p.store.Load(ctx); err != nil {
		return nil, err
	}
	if p.groups, p.groupsRevision, err = settings.LoadNodeGroups(ctx, o.Rollout); err != nil && p.groupsRevision == 0 {
		return nil, err
	}
	if p.alerts, p.alertsRevision, err = policy.LoadAlerts(ctx, o.Rollout); err != nil {
		if p.alertsRevision == 0 {
			return nil, err
		}
		p.alerts = []policy.Alert{{}} // differs from the rules of every revision, which replace what cannot be read
	}
	for _, h := range p.heads {
		if h.Peel != "" {
			p.given[h.Peel] = h.Digest
		}
	}
	return p, nil
}

// Generation returns the newest generation of all documents, 0 if there are none.
func (p *Published) Generation() (newest uint64) {
	for _, h := range p.heads {
		newest = max(newest, h.Generation)
	}
	return newest
}

// Heads returns the metadata of the stored documents. The caller must not change it, nor use it after the next call.
func (p *Published) Heads() settings.Heads { return p.heads }

// Base returns the stored settings of the peels, for [diff.Make]. It reads settings from the bucket when they are
// needed.
func (p *Published) Base(ctx context.Context) diff.Base {
	return diff.Base{Digests: p.given, Plan: p.plan, Settings: func(d settings.Digest) (canon.Raw, error) {
		var holder target.PeelID
		for id, digest := range p.given {
			if digest == d {
				holder = id
				break
			}
		}
		doc, _, err := p.store.Get(ctx, holder)
		if err != nil {
			return nil, err
		}
		if doc == nil || doc.Digest != d {
			return nil, &settings.ConflictError{Peels: []target.PeelID{holder}}
		}
		return doc.Settings, nil
	}}
}

// Remove deletes the document of a peel.
func (p *Published) Remove(ctx context.Context, id target.PeelID) error {
	if err := p.store.Remove(ctx, id); err != nil {
		return err
	}
	p.forget(id)
	return nil
}

// replace writes a key of the bucket [record.Bucket], and checks the lease before.
// A conflict of writes wraps [record.ErrConflict].
func (p *Published) replace(write func() (revision uint64, err error)) (uint64, error) {
	if err := p.o.CheckLease(); err != nil {
		return 0, err
	}

	revision, err := write()
	if bucket.IsConflict(err) {
		err = fmt.Errorf("%w: %w", record.ErrConflict, err)
	}

	return revision, err
}

// WriteGroups stores the node groups of a revision for all masters, unless they are stored. The error is
// [record.ErrConflict] if another master has written them.
func (p *Published) WriteGroups(ctx context.Context, groups settings.NodeGroups) error {
	if maps.EqualFunc(p.groups, groups, slices.Equal) {
		return nil
	}
	revision, err := p.replace(func() (uint64, error) {
		return settings.PublishNodeGroups(ctx, p.o.Rollout, groups, p.groupsRevision)
	})
	if err != nil {
		return err
	}
	p.groups, p.groupsRevision = maps.Clone(groups), revision
	return nil
}

// WriteAlerts is WriteGroups for the alert rules of a revision.
func (p *Published) WriteAlerts(ctx context.Context, rules []policy.Alert) error {
	if policy.EqualAlerts(p.alerts, rules) {
		return nil
	}
	revision, err := p.replace(func() (uint64, error) {
		return policy.PublishAlerts(ctx, p.o.Rollout, rules, p.alertsRevision)
	})
	if err != nil {
		return err
	}
	p.alerts, p.alertsRevision = slices.Clone(rules), revision
	return nil
}

// recordWrite remembers the document last written for a peel. Two peels may share a key in the bucket; then it replaced
// the document of the other.
func (p *Published) recordWrite(h settings.Held) {
	if other := p.heads.Of(h.Peel).Peel; other != "" && other != h.Peel {
		p.forget(other)
		p.displaced++
	}
	delete(p.resend, h.Peel)
	p.heads[h.Peel.Wire()] = h
	p.given[h.Peel] = h.Digest
	p.plan = nil
}

// forget drops the remembered document of a peel.
func (p *Published) forget(id target.PeelID) {
	if _, held := p.given[id]; held {
		delete(p.given, id)
		delete(p.resend, id)
		delete(p.heads, id.Wire())
		p.plan = nil
	}
}
