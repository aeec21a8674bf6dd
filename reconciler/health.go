package reconciler

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/feed"
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
	fleet    *feed.Feed
	progress *progress.Progress
	reported chan<- struct{} // gets a value after a failed run
	log      *slog.Logger

	commit settings.Commit // the revision that goes out; empty if none does
	runs   *progress.Runs
	stop   func()                      // ends runs
	late   map[target.PeelID]time.Time // when an online member was first seen without the revision
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
	runs := progress.NewRuns(w.js, r.Sequence, w.reported, w.log)
	go func() {
		defer close(ended)
		_ = runs.Run(ctx) // until cancel
	}()
	w.commit, w.runs, w.late = r.Commit, runs, map[target.PeelID]time.Time{}
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
		if !p.ChangesPeel(id) {
			continue
		}
		view := w.progress.View(id)
		peel := rollout.Peel{ID: id, Applied: view.Applied && r.Rollout.Has(id), Errors: view.Errors, Report: view.Sequence, Run: failed[id]}
		peel.State = w.progress.NewFailure(id, e.Digest, r.Rollout.States)
		seen, online := w.fleet.Presence(id)
		switch peel.Seen = seen; {
		case online:
			peel.Presence = rollout.Online
		case w.fleet.Unknown(id):
			peel.Presence = rollout.Unknown
		}
		peel.Lacking = w.lacking(peel, r.Rollout.Has(id), now)
		o.Peels = append(o.Peels, peel)
	}
	return o
}

// lacking returns how long a member has been online without the revision in this term; zero for any other peel.
func (w *watch) lacking(p rollout.Peel, member bool, now time.Time) time.Duration {
	if !member || p.Applied || p.Presence != rollout.Online {
		delete(w.late, p.ID)
		return 0
	}
	if w.late[p.ID].IsZero() {
		w.late[p.ID] = now
	}
	return now.Sub(w.late[p.ID])
}
