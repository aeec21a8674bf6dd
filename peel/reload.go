package peel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// The functions of this file stand in the order in which a document passes them. followSettings receives it; onUpdate
// opens and stores it; apply parses its schedule and hands that to the scheduler; applied describes it in the report
// that announce sends.

// storeRetry is the pause between attempts to store a document that the disk refused.
const storeRetry = 10 * time.Second

// inForce is the newest document that the peel accepted, with its schedule and mask and how it was applied. An inForce
// never changes: start and followSettings alone put another one into Peel.current, and everybody reads it there.
type inForce struct {
	doc    *settings.Document // nil before the first
	values *strictyaml.Node   // of doc, nil before the first
	mask   *mask.Mask         // of the secrets in values

	schedule schedule.Set     // of values
	changes  schedule.Changes // that the last reload made
	errors   []string         // entries of doc that this build cannot use, and why a newer document was refused
	unstored string           // why doc is not on the disk; empty if it is
	stale    bool             // doc comes from the snapshot and the bus has not confirmed it
}

// start applies the snapshot, or the static entries alone if there is none, and returns the snapshot's generation.
func (p *Peel) start(ctx context.Context) (generation uint64) {
	var values *strictyaml.Node
	doc, err := p.snapshot.Load(p.o.ID)
	if err == nil && doc != nil {
		values, err = p.key.open(doc)
	}
	if err != nil {
		p.log.Warn("snapshot ignored", "err", err)
	}
	if err != nil || doc == nil {
		p.apply(ctx, inForce{})
		return 0
	}
	p.log.Info("running the snapshot until the bus confirms it", "commit", doc.Commit, "generation", doc.Generation)
	p.apply(ctx, inForce{doc: doc, values: values, stale: true})
	return doc.Generation
}

// followSettings handles updates of the peel's settings until ctx ends. If the disk refuses a document, it stores it
// later, for the last time when ctx ends.
func (p *Peel) followSettings(ctx context.Context, updates <-chan settings.Update) {
	var retry <-chan time.Time
	for {
		if p.current.Load().unstored != "" && retry == nil {
			retry = time.After(storeRetry)
		}
		select {
		case <-ctx.Done():
			p.storeAgain()
			return
		case u := <-updates:
			p.onUpdate(ctx, u)
		case <-retry:
			retry = nil
			p.storeAgain()
		}
	}
}

// onUpdate handles one update. A new document is stored before it is applied, so that a restart never goes back behind
// what the peel has reported.
func (p *Peel) onUpdate(ctx context.Context, u settings.Update) {
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
		next := inForce{doc: u.Document, values: values}
		if err := p.snapshot.Store(u.Document); err != nil {
			p.log.Error("settings not stored", "commit", u.Document.Commit, "err", err)
			next.unstored = report.ErrorText("settings run from memory only: " + err.Error())
		}
		p.apply(ctx, next)
	}
}

// storeAgain stores the document in force if the disk refused it before.
func (p *Peel) storeAgain() {
	next := *p.current.Load()
	if next.unstored == "" || p.snapshot.Store(next.doc) != nil {
		return
	}
	next.unstored = ""
	p.log.Info("the snapshot is stored")
	p.replace(next)
}

// replace puts next in force and makes the reports on it due.
func (p *Peel) replace(next inForce) {
	p.current.Store(&next)
	p.due.report.raise()
	p.scheduleReport.Changed()
}

// apply puts next in force: it parses the schedule, merges it with the static entries and gives it to the scheduler.
// Entries that this build cannot use are reported and paused.
func (p *Peel) apply(ctx context.Context, next inForce) {
	doc := strictyaml.FromValue("settings", nil)
	if next.values != nil {
		next.mask = mask.Of(next.values)
		if section := next.values.Get("schedule"); section != nil {
			doc = section
		}
	}
	was := p.current.Load()
	set, err := schedule.Reparse(was.schedule, was.values.Get("schedule"), doc)
	if err != nil {
		schedule.KeepInvalid(set, doc, err)
		next.errors = messages(err)
		p.log.Error("schedule entries cannot be used", "err", err)
	}
	next.errors = append(next.errors, p.wantContents(next.values)...)
	unable := p.unableEntries(set)
	next.errors = append(next.errors, unable[:min(len(unable), max(0, wire.MaxReported-len(next.errors)))]...)
	next.schedule = set
	starting := next
	p.current.Store(&starting) // before the scheduler has it: a run that starts at once reports the origin of its entry
	apply := p.sched.Apply
	if was.doc == nil { // the first settings of the process: the snapshot, or else the first document
		apply = p.sched.Begin
	}
	if next.changes, err = apply(ctx, schedule.Merge(p.o.Schedule, set)); err != nil {
		return // the peel is shutting down
	}
	if c := next.changes; next.doc != nil {
		p.log.Info("settings applied", "commit", next.doc.Commit, "generation", next.doc.Generation,
			"started", len(c.Added), "stopped", len(c.Removed), "changed", len(c.Retimed)+len(c.Swapped),
			"kept", len(c.Kept))
	}
	p.replace(next)
}

// wantContents makes the peel fetch the contents of files that settings name, and returns what is wrong with the
// settings. If they cannot be read, the peel keeps what it wanted before.
func (p *Peel) wantContents(values *strictyaml.Node) []string {
	compiled, err := compiledStates(values)
	if err != nil {
		p.log.Error("states cannot be used", "err", err)
		return messages(err)
	}
	p.files.Want(compiled.Files)
	return nil
}

// compiledStates returns what the compiler added to the states of settings.
func compiledStates(values *strictyaml.Node) (state.Compiled, error) {
	added := values.Get(state.CompiledKey)
	if added == nil {
		return state.Compiled{}, nil
	}
	return state.ReadCompiled(map[string]any{state.CompiledKey: added.Reveal()})
}

// confirm marks the settings in force as the newest on the bus if they have that generation. If the newest document was
// refused, they have an older one.
func (p *Peel) confirm(generation uint64) {
	if next := *p.current.Load(); next.stale && next.doc.Generation == generation {
		next.stale = false
		p.replace(next)
	}
}

// refuse reports why a newer document is refused. What is in force stays.
func (p *Peel) refuse(err error) {
	p.log.Error("settings refused", "err", err)
	if errors.Is(err, settings.ErrOtherKey) {
		p.due.facts.raise() // masters have another key of this peel
	}
	next := *p.current.Load()
	next.errors = messages(err)
	p.replace(next)
}

// messages returns the texts of errors within the limits of a report.
func messages(err error) []string {
	var list strictyaml.Errors
	if !errors.As(err, &list) {
		return []string{report.ErrorText(err.Error())}
	}
	var out []string
	for _, e := range list[:min(len(list), wire.MaxReported)] {
		out = append(out, report.ErrorText(e.Error()))
	}
	return out
}

// onPausedErrors puts the entries that failures have paused into the applied report.
func (p *Peel) onPausedErrors(entries []string) {
	entries = entries[:min(len(entries), wire.MaxReported)]
	p.newest.paused.Store(&entries)
	p.due.report.raise()
}

// applied returns the report on the settings in force.
func (p *Peel) applied() wire.Applied {
	now := p.current.Load()
	a := wire.Applied{
		Peel: p.o.ID, Stale: now.stale, Time: time.Now(), Features: features, V: wire.Version,
		Started: len(now.changes.Added), Stopped: len(now.changes.Removed), Kept: len(now.changes.Kept),
		Changed: len(now.changes.Retimed) + len(now.changes.Swapped),
	}
	var disk []string
	if n := p.outbox.Dropped(); n > 0 {
		disk = append(disk, fmt.Sprintf("%d reports and returns were dropped since the peel started: see its log", n))
	}
	if lost := p.sched.Damage(); lost != "" {
		disk = append(disk, lost)
	}
	if now.unstored != "" {
		disk = append(disk, now.unstored)
	}
	a.Errors = slices.Concat(now.errors[:min(len(now.errors), wire.MaxReported-len(disk))], disk)
	if paused := p.newest.paused.Load(); paused != nil {
		a.PausedErrors = *paused
	}
	a.MissingContents = p.files.Missing()
	if now.doc != nil {
		a.Commit, a.Generation, a.Digest = string(now.doc.Commit), now.doc.Generation, string(now.doc.Digest)
	}
	return a
}
