package reconciler

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A watch observes the peels while a revision goes out in waves. Only the loop uses it.
type watch struct {
	js       jetstream.JetStream
	fleet    *fleet.Fleet
	progress *progress.Progress
	reported chan<- struct{} // gets a value after a failed run
	log      *slog.Logger

	commit settings.Commit // the revision that goes out; empty if none does
	runs   *progress.Runs
	stop   func()                      // ends runs
	late   map[target.PeelID]time.Time // when an online member was first seen without the revision
	lost   map[target.PeelID]time.Time // when a member was first seen gone while another peel was online
	outage rollout.Outage
}

// follow begins to observe a rollout and ends the one before; nil only ends it.
func (w *watch) follow(ctx context.Context, r *record.Rollout) {
	if r != nil && r.Commit == w.commit || r == nil && w.commit == "" {
		return
	}
	if w.commit != "" {
		w.stop()
	}
	if w.commit = ""; r == nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	runs := progress.NewRuns(w.js, r.Sequence, r.Started, w.reported, w.log)
	go func() {
		defer close(ended)
		_ = runs.Run(ctx) // until cancel
	}()
	w.commit = r.Commit
	w.runs = runs
	w.late = map[target.PeelID]time.Time{}
	w.lost = map[target.PeelID]time.Time{}
	w.outage = rollout.Outage{}
	w.stop = func() { cancel(); <-ended }
}

// observe returns the present state of the peels that the rollout changes, for rollout.Next.
func (w *watch) observe(r *record.Record, p *decide.Prepared, now time.Time) rollout.Observed {
	o := rollout.Observed{Now: now, Fleet: w.fleet.Index(), Freezes: r.Freezes}
	if by := r.Suspended; by != nil {
		o.Paused = "paused by " + by.By + " at " + by.Time.UTC().Format(time.RFC3339)
	}
	failed := w.runs.Failures()
	for id, e := range p.Next.Plan.Peels {
		// Peels that keep what they have, as their facts wait, are no longer changed, unless they have the revision.
		if sent, kept := p.Facts.Keep[id]; !sent && (kept || !p.ChangesPeel(id)) {
			continue
		}
		view := w.progress.View(id)
		peel := rollout.Peel{
			ID:      id,
			Applied: view.Applied && r.Rollout.Has(id),
			Errors:  view.Errors,
			Report:  view.Sequence,
			Run:     failed[id],
		}
		peel.State = w.progress.NewFailure(id, e.Digest, r.Rollout.States)
		switch _, online := w.fleet.Presence(id); {
		case online:
			peel.Presence = rollout.Online
		case w.fleet.Unknown(id):
			peel.Presence = rollout.Unknown
		}
		peel.Lacking = since(w.late, id, now, r.Rollout.Has(id) && !peel.Applied && peel.Presence == rollout.Online)
		o.Peels = append(o.Peels, peel)
	}
	w.outage.Update(o.Peels, now)
	o.Outage = w.outage
	online := slices.ContainsFunc(o.Peels, func(p rollout.Peel) bool { return p.Presence == rollout.Online })
	for i := range o.Peels {
		p := &o.Peels[i]
		p.Lost = since(w.lost, p.ID, now, online && r.Rollout.Has(p.ID) && w.fleet.Gone(p.ID))
	}
	return o
}

// since returns for how long a peel has been in a state, and records the beginning in began. is says whether it is in
// it now.
func since(began map[target.PeelID]time.Time, id target.PeelID, now time.Time, is bool) time.Duration {
	if !is {
		delete(began, id)
		return 0
	}
	if began[id].IsZero() {
		began[id] = now
	}
	return now.Sub(began[id])
}
