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

// A watch observes the peels while a revision goes out in waves. It belongs to the loop.
type watch struct {
	js       jetstream.JetStream
	fleet    *feed.Feed
	progress *progress.Progress
	reported chan<- struct{} // gets a value after a failed run
	log      *slog.Logger

	commit settings.Commit // that goes out; empty: nothing is observed
	runs   *progress.Runs
	stop   func()                      // ends runs
	late   map[target.PeelID]time.Time // since when a member that is online has been seen without the revision
}

// follow observes the rollout of a record from now on, or none.
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

// observe returns what the rollout depends on, for the peels as they are now.
func (w *watch) observe(r *record.Record, p *decide.Prepared, now time.Time) rollout.Observed {
	both := r.Safety.Stricter(p.Base.Plan.Safety()).Stricter(p.Next.Plan.Safety())
	o := rollout.Observed{Now: now, Fleet: w.fleet.Index(), Freezes: both.Freezes}
	if by := r.Suspended; by != nil {
		o.Paused = "paused by " + by.By + " at " + by.Time.UTC().Format(time.RFC3339)
	}
	failed := w.runs.Failures()
	for id := range p.Next.Plan.Peels {
		if !p.ChangesPeel(id) {
			continue
		}
		view := w.progress.View(id)
		peel := rollout.Peel{ID: id, Applied: view.Applied && r.Rollout.Has(id), Errors: view.Errors, Report: view.Sequence, Run: failed[id]}
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

// lacking returns how long this term has seen a member online without the revision.
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
