package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/reconciler/notify"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	tellEvery  = time.Second      // at most that often is it looked what there is to tell
	tellSettle = 45 * time.Second // before a new term believes that a peel is away: heartbeats come every 30 s
	tellLate   = 5 * time.Minute  // that a peel which is online has to run what it was given
	toldPrefix = "told."          // of the keys in the bucket rollout
)

// A teller keeps places up to date on what became of the revisions that are remembered. Nobody waits for it: it looks at
// what others have noted, and tells each place what that was not told, the oldest first. What was told is stored after
// it, so that whoever leads next goes on there, and repeats one report at most.
type teller struct {
	board    *board
	progress *progress.Progress
	kv       jetstream.KeyValue
	branch   string
	began    time.Time
	log      *slog.Logger

	mu   sync.Mutex
	ends map[string]notify.Report // how the fleet came to run commits, by commit and attempt
}

// told is the last mark of each commit that a place knows.
type told map[settings.Commit]string

// A telling is what there is to tell of a commit. Its mark stays as long as that is the same in essence.
type telling struct {
	notify.Report
	commit settings.Commit
	mark   string
	since  string // the part of the mark that says which attempt it is of
}

// keep tells one place until ctx ends.
func (w *teller) keep(ctx context.Context, p *notify.Place) error {
	var known told
	failures, notBefore := 0, time.Time{}
	for tick := time.NewTicker(tellEvery); ; {
		if known == nil {
			var err error
			if known, err = w.recall(ctx, p); err != nil && ctx.Err() == nil {
				w.log.Warn("place not told", "place", p.Name(), "err", err)
			}
		}
		for next, ok := w.next(known); ok && !time.Now().Before(notBefore); next, ok = w.next(known) {
			if err := p.Send(ctx, next.Report); !w.sent(ctx, p, known, next, err) {
				failures++
				notBefore = time.Now().Add(tellAgain(failures, err))
			} else {
				failures = 0
			}
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// sent notes that a place was told, or cannot be told that, and reports false where it is to be tried again.
func (w *teller) sent(ctx context.Context, p *notify.Place, known told, t telling, err error) bool {
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		w.log.Warn("place not told", "place", p.Name(), "commit", t.Commit, "state", t.State, "err", err)
		if e, ok := errors.AsType[*notify.Error](err); !ok || !e.Final {
			return false
		}
	}
	known[t.commit] = t.mark
	if err := w.store(ctx, p, known); err != nil && ctx.Err() == nil {
		w.log.Warn("what a place was told is not stored", "place", p.Name(), "err", err)
	}
	return true
}

// tellAgain is how long to wait after so many errors in a row.
func tellAgain(failures int, err error) time.Duration {
	if e, ok := errors.AsType[*notify.Error](err); ok && e.After > 0 {
		return e.After
	}
	return backoffFirst + rand.N(min(backoffFirst<<min(failures, 10), backoffMost))
}

// recall reads what a place was told. A new one is told of the newest commit alone.
func (w *teller) recall(ctx context.Context, p *notify.Place) (told, error) {
	const cannot = "cannot read what was told"
	entry, err := w.kv.Get(ctx, toldPrefix+p.Name())
	known := told{}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		all := w.tellings()
		for _, t := range all[:max(0, len(all)-1)] {
			known[t.commit] = t.mark
		}
		return known, nil
	}
	if err != nil {
		return nil, fmt.Errorf(cannot+": %w", err)
	}
	if err := canon.Unmarshal(entry.Value(), &known); err != nil {
		return nil, fmt.Errorf(cannot+": %w", err)
	}
	return known, nil
}

// store forgets commits that the history has forgotten.
func (w *teller) store(ctx context.Context, p *notify.Place, known told) error {
	all := w.board.attempts()
	for c := range known {
		if !slices.ContainsFunc(all, func(a status.Attempt) bool { return a.Commit == c }) {
			delete(known, c)
		}
	}
	data, err := canon.Marshal(known)
	if err != nil {
		return err
	}
	_, err = w.kv.Put(ctx, toldPrefix+p.Name(), data)
	return err
}

// next is the oldest report that a place lacks. It is asked for all the time, so that the fleet is seen to run a commit
// while the place is away.
func (w *teller) next(known told) (telling, bool) {
	all := w.tellings()
	i := slices.IndexFunc(all, func(t telling) bool { return known != nil && t.lacked(known) })
	if i < 0 {
		return telling{}, false
	}
	return all[i], true
}

// lacked reports whether a place is to be told. A success stays one, whatever peels do later, until the commit is tried
// again. That another commit took the place of one matters only where that one was pending.
func (t *telling) lacked(known told) bool {
	before, heard := known[t.commit]
	switch {
	case before == t.mark || before == string(notify.Success)+t.since:
		return false
	case t.State == notify.Canceled:
		return heard && !strings.HasPrefix(before, string(notify.Failure)+t.since)
	}
	return true
}

// tellings are what there is to tell of each commit that is remembered, the oldest first.
func (w *teller) tellings() (all []telling) {
	s := w.board.read()
	seen := map[settings.Commit]bool{}
	for i, a := range w.board.attempts() {
		if seen[a.Commit] {
			continue
		}
		seen[a.Commit] = true
		r := notify.Report{Commit: string(a.Commit), Branch: w.branch, Author: a.Author, Subject: a.Message}
		since := fmt.Sprintf(" %d", a.Began.UnixMilli())
		detail := ""
		switch {
		case a.Outcome != status.OutcomeApplied:
			detail = outcome(a, s, &r)
		case i == 0:
			detail = w.converging(a, s, &r)
			w.ended(string(a.Commit)+since, &r)
		default:
			r.State, r.Text = notify.Canceled, "superseded before every peel had it"
			w.ended(string(a.Commit)+since, &r)
		}
		t := telling{Report: r, commit: a.Commit, mark: string(r.State) + since, since: since}
		if detail != "" {
			t.mark += " " + mark(detail)
		}
		all = append(all, t)
	}
	slices.Reverse(all)
	return all
}

// ended remembers a success, and puts it in the place of what is said of the same attempt later.
func (w *teller) ended(attempt string, r *notify.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.State == notify.Success {
		if len(w.ends) >= record.MaxHistory {
			clear(w.ends)
		}
		w.ends[attempt] = *r
	} else if end, ok := w.ends[attempt]; ok {
		*r = end
	}
}

// outcome says what became of an attempt that is not in force, and what else makes a report on it another one.
func outcome(a status.Attempt, s status.Sync, r *notify.Report) (detail string) {
	switch a.Outcome {
	case status.OutcomeProgressing:
		r.State, r.Text = notify.Pending, "goes to the fleet"
		if g := s.Rollout; g != nil && g.Commit == a.Commit {
			r.Text = fmt.Sprintf("wave %d of %d (%s)", g.Wave, g.Waves, g.Name)
			r.Peels, r.Applied, r.Failed, r.Offline = g.Peels, g.Applied, g.Failed, g.Offline
			return r.Text
		}
	case status.OutcomeBlocked:
		r.State, r.Text = notify.Pending, "waits for approval: "+a.Reason
		return r.Text
	case status.OutcomeSuperseded:
		r.State, r.Text = notify.Canceled, "superseded "+a.Reason
	default: // rejected or rolled back
		r.State, r.Text = notify.Failure, a.Reason
		return r.Text
	}
	return ""
}

// converging says how far the fleet is with the revision in force.
func (w *teller) converging(a status.Attempt, s status.Sync, r *notify.Report) (detail string) {
	c, last, ok := w.progress.CountsOf(a.Commit)
	if r.State, r.Text = notify.Pending, "goes to the fleet"; !ok {
		return ""
	}
	r.Peels, r.Applied, r.Failed, r.Offline = c.Peels, c.Applied, c.Failed, c.Offline
	began := a.Began
	if a.By != "" {
		began = s.LastGood.Since // it had waited for somebody
	}
	watched := time.Since(later(w.began, began))
	unsure := c.Offline > 0 && (time.Since(w.began) < tellSettle || c.Applied == 0)
	switch {
	case c.Pending > 0 && watched < tellLate, c.Pending == 0 && c.Failed == 0 && unsure:
		return ""
	case c.Pending > 0 || c.Failed > 0:
		r.State, r.Text = notify.Failure, portionOf(c)+": "+w.progress.Trouble()
		return "peels"
	}
	r.State, r.Took = notify.Success, max(0, later(last, a.Ended).Sub(began))
	r.Text = portionOf(c) + " in " + roughly(r.Took)
	return ""
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// portionOf is 12/14 peels, 1 failed, 1 offline.
func portionOf(c status.Counts) string {
	parts := []string{fmt.Sprintf("%d/%d peels", c.Applied, c.Peels)}
	for _, p := range []struct {
		n    int
		what string
	}{{c.Failed, "failed"}, {c.Pending, "pending"}, {c.Offline, "offline"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}

// roughly is a time with one unit.
func roughly(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}
