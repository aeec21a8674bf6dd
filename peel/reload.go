package peel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/entryyaml"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// inForce is what the peel runs at the moment. It is replaced as a whole and never changed.
type inForce struct {
	doc    *settings.Document // nil before the first
	values *strictyaml.Node   // of doc, nil before the first
	mask   *mask              // of the secrets in values

	schedule schedule.Set     // of values
	changes  schedule.Changes // what the last reload did
	errors   []string         // entries of doc that this build cannot use, and why a newer document was refused
	stale    bool             // doc comes from the snapshot and the bus has not confirmed it
}

// start applies the snapshot, or the static entries alone where there is none, and returns the snapshot's generation.
func (p *Peel) start(ctx context.Context) (generation uint64) {
	doc, err := p.snapshot.load(p.o.ID)
	if err != nil {
		p.log.Warn("snapshot ignored", "err", err)
	}
	if doc == nil {
		p.apply(ctx, &inForce{})
		return 0
	}
	values, err := p.key.open(doc)
	if err != nil {
		p.log.Warn("snapshot ignored", "err", err)
		p.apply(ctx, &inForce{})
		return 0
	}
	p.log.Info("running the snapshot until the bus confirms it", "commit", doc.Commit, "generation", doc.Generation)
	p.apply(ctx, &inForce{doc: doc, values: values, stale: true})
	return doc.Generation
}

// hear takes what the bus says of the peel's settings. A new document is stored before it is applied, so that a
// restart never goes back behind what the peel has reported.
func (p *Peel) hear(ctx context.Context, u settings.Update) {
	switch {
	case u.Refused != nil:
		p.refuse(u.Refused)
	case u.Missing:
		p.log.Warn("the bus has no settings for this peel, it goes on with what it has")
	case u.Document == nil:
		p.confirm(u.Confirmed)
	default:
		values, err := p.key.open(u.Document)
		if err != nil {
			p.refuse(err)
			return
		}
		if err := p.snapshot.store(u.Document); err != nil {
			p.log.Error("settings not stored", "commit", u.Document.Commit, "err", err)
		}
		p.apply(ctx, &inForce{doc: u.Document, values: values})
	}
}

// apply makes next what is in force: it parses its schedule, merges it with the static entries and hands it to the
// scheduler. Entries that this build cannot use are reported and paused.
func (p *Peel) apply(ctx context.Context, next *inForce) {
	doc := strictyaml.FromValue("settings", nil)
	if next.values != nil {
		next.mask = maskOf(next.values)
		if section := next.values.Get("schedule"); section != nil {
			doc = section
		}
	}
	was := p.current.Load()
	set, err := entryyaml.Reparse(was.schedule, was.values.Get("schedule"), doc)
	if err != nil {
		entryyaml.KeepInvalid(set, doc, err)
		next.errors = messages(err)
		p.log.Error("schedule entries cannot be used", "err", err)
	}
	unable := unableOf(set)
	next.errors = append(next.errors, unable[:min(len(unable), wire.MaxReported-len(next.errors))]...)
	next.schedule = set
	p.current.Store(next) // first, because a run that begins at once tells what it runs by
	apply := p.sched.Apply
	if was.doc == nil { // the first settings of the process: the snapshot, or else the first document
		apply = p.sched.Begin
	}
	changes, err := apply(ctx, schedule.Merge(p.o.Schedule, set))
	if err != nil {
		return // the peel is shutting down
	}
	applied := *next
	applied.changes = changes
	p.current.Store(&applied)
	if next.doc != nil {
		p.log.Info("settings applied", "commit", next.doc.Commit, "generation", next.doc.Generation,
			"started", len(changes.Added), "stopped", len(changes.Removed),
			"changed", len(changes.Retimed)+len(changes.Swapped), "kept", len(changes.Kept))
	}
	p.report()
}

// confirm marks the settings in force as the newest on the bus if they have that generation. They have not if the newest
// document was refused.
func (p *Peel) confirm(generation uint64) {
	now := p.current.Load()
	if !now.stale || now.doc.Generation != generation {
		return
	}
	fresh := *now
	fresh.stale = false
	p.current.Store(&fresh)
	p.report()
}

// refuse keeps what is in force and reports why a newer document is not.
func (p *Peel) refuse(err error) {
	p.log.Error("settings refused", "err", err)
	if errors.Is(err, settings.ErrOtherKey) {
		p.retell.Store(true)
	}
	kept := *p.current.Load()
	kept.errors = messages(err)
	p.current.Store(&kept)
	p.report()
}

// messages are errors within the limits of a report.
func messages(err error) []string {
	var list strictyaml.Errors
	if !errors.As(err, &list) {
		return []string{cut(err.Error())}
	}
	var out []string
	for _, e := range list[:min(len(list), wire.MaxReported)] {
		out = append(out, cut(e.Error()))
	}
	return out
}

func cut(text string) string {
	if len(text) <= wire.MaxErrorText {
		return text
	}
	return strings.ToValidUTF8(text[:wire.MaxErrorText-len("…")], "") + "…"
}

// report asks for the applied report to be sent. Reports that were not sent yet are replaced by the newer one.
func (p *Peel) report() {
	select {
	case p.reports <- struct{}{}:
	default:
	}
}

// onPausedErrors puts the entries that failures have paused into the applied report.
func (p *Peel) onPausedErrors(entries []string) {
	entries = entries[:min(len(entries), wire.MaxReported)]
	p.paused.Store(&entries)
	p.report()
}

// applied is the report on what is in force.
func (p *Peel) applied() wire.Applied {
	now := p.current.Load()
	a := wire.Applied{
		Peel: p.o.ID, Errors: slices.Concat(now.errors[:min(len(now.errors), wire.MaxReported-maxTroubles)], p.troubles()), Stale: now.stale, Time: time.Now(), V: wire.Version,
		Started: len(now.changes.Added), Stopped: len(now.changes.Removed), Kept: len(now.changes.Kept),
		Changed: len(now.changes.Retimed) + len(now.changes.Swapped),
	}
	if paused := p.paused.Load(); paused != nil {
		a.PausedErrors = *paused
	}
	if now.doc != nil {
		a.Commit, a.Generation, a.Digest = string(now.doc.Commit), now.doc.Generation, string(now.doc.Digest)
	}
	return a
}

// maxTroubles is how many errors [Peel.troubles] returns at most.
const maxTroubles = 2

// troubles returns the errors of the host's disk, which no change of the settings mends.
func (p *Peel) troubles() (errs []string) {
	if n := p.outbox.Dropped(); n > 0 {
		errs = append(errs, fmt.Sprintf("%d reports and returns were dropped since the peel started: see its log", n))
	}
	if text := p.snapshot.err.Load(); text != nil {
		errs = append(errs, cut(*text))
	}
	return errs
}
