package notify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	outageAfter  = 5 * time.Minute  // time without reading the branch before an event
	stalledAfter = time.Minute      // time of the condition Stalled before an event
	groupFor     = 30 * time.Second // after the first failure of a peel, to name several peels in one message
	failAgain    = 10 * time.Minute // least time between two messages about failing peels
	orderRecent  = time.Minute      // an older order did not cause a change that is observed now
)

// A watcher derives outcomes and events from successive observations. Use it from one goroutine.
type watcher struct {
	began   time.Time
	notices notices
	ends    map[string]Event // successes, by commit and attempt
	before  *Observation
	failing failing
}

// failing are the peels that fail with the revision in force.
type failing struct {
	commit settings.Commit          // the revision in force, empty while it goes out
	known  map[target.PeelID]string // digests of errors that were reported in a message, or existed before
	first  time.Time                // when the first error appeared that is not in known
	sent   time.Time                // when the last message was sent
}

func newWatcher(began time.Time) *watcher {
	return &watcher{began: began, ends: map[string]Event{}}
}

// events returns the events since the previous observation, without outcomes of revisions. Call outcomes for the same
// observation first.
func (w *watcher) events(seen Observation, now time.Time) (all []Event) {
	if seen.Sync.Owner == "" {
		return nil // the reconciler has not read the record yet
	}
	all = append(all, w.leader(seen)...)
	all = append(all, w.outage(seen, now)...)
	if w.before != nil {
		all = append(all, pins(*w.before, seen, now)...)
		all = append(all, pauses(*w.before, seen, now)...)
		all = append(all, freezes(*w.before, seen)...)
	}
	all = append(all, w.failed(seen, now)...)
	w.before = &seen
	for i := range all {
		all[i].Time, all[i].Repo, all[i].Branch = now, seen.Sync.Repo, seen.Sync.Branch
	}
	return all
}

// leader returns an event if another master leads than before.
func (w *watcher) leader(seen Observation) []Event {
	before, owner := w.notices.Leader, seen.Sync.Owner
	if owner == before {
		return nil
	}
	if w.notices.Leader = owner; before == "" {
		return nil
	}
	return []Event{{Kind: LeaderChanged, By: owner, Text: fmt.Sprintf("%s leads in place of %s", owner, before)}}
}

// outage returns an event when the branch cannot be read, and one when it can be read again.
func (w *watcher) outage(seen Observation, now time.Time) []Event {
	stalled, fetch := conditionOf(seen.Sync, status.Stalled), conditionOf(seen.Sync, status.FetchFailed)
	kind, c := Kind(""), status.Condition{}
	switch {
	case stalled.Status && now.Sub(stalled.LastTransitionTime) >= stalledAfter:
		kind, c = Stalled, stalled
	case fetch.Status && now.Sub(fetch.LastTransitionTime) >= outageAfter:
		kind, c = FetchFailed, fetch
	}
	switch reported := w.notices.Outage; {
	case reported == "" && kind != "", reported == FetchFailed && kind == Stalled:
		if reported == "" {
			w.notices.Since = c.LastTransitionTime
		}
		w.notices.Outage = kind
		return []Event{{
			Kind:     kind,
			Revision: inForce(seen.Sync),
			Text:     c.Message,
			Where:    c.Where,
			Details:  []string{"since " + timestamp(w.notices.Since) + "; the revision in force stays"},
			Command:  "zester sync status",
		}}
	case reported != "" && !stalled.Status && !fetch.Status && !seen.Sync.Read.IsZero():
		took := now.Sub(w.notices.Since)
		w.notices.Outage, w.notices.Since = "", time.Time{}
		return []Event{
			{Kind: Recovered, Revision: inForce(seen.Sync), Text: "it could not be read for " + roughly(took)},
		}
	}
	return nil
}

func conditionOf(s status.Sync, t status.Type) (c status.Condition) {
	if i := slices.IndexFunc(s.Conditions, func(c status.Condition) bool { return c.Type == t }); i >= 0 {
		c = s.Conditions[i]
	}
	return c
}

func inForce(s status.Sync) Revision {
	return Revision{Commit: s.LastGood.Commit, Author: s.LastGood.Author, Subject: s.LastGood.Message}
}

// pins returns an event if a pin began or ended.
func pins(before, seen Observation, now time.Time) (all []Event) {
	was, is := before.Sync.Pinned, seen.Sync.Pinned
	switch {
	case is != nil && (was == nil || *was != *is):
		e := Event{
			Kind:     Pinned,
			Revision: Revision{Commit: is.Commit},
			By:       is.By,
			Text:     "new revisions wait for zester sync unpin",
			Command:  "zester sync unpin",
		}
		if is.UntilNewer {
			e.Text += ", or for a newer commit"
		}
		all = append(all, e)
	case is == nil && was != nil:
		e := Event{
			Kind:     Unpinned,
			Revision: Revision{Commit: was.Commit},
			By:       by(seen.Order, "unpin", now),
			Text:     "the fleet follows the branch again",
		}
		if e.By == "" && was.UntilNewer {
			e.Text += ": a newer commit came"
		}
		all = append(all, e)
	}
	return all
}

// pauses returns an event if a pause began or ended.
func pauses(before, seen Observation, now time.Time) []Event {
	was, is := before.Sync.Paused, seen.Sync.Paused
	switch {
	case is != nil && was == nil:
		return []Event{
			{Kind: Paused, By: is.By, Text: "new revisions wait for zester sync resume", Command: "zester sync resume"},
		}
	case was != nil && is == nil:
		return []Event{{Kind: Resumed, By: by(seen.Order, "resume", now), Text: "the fleet follows the branch again"}}
	}
	return nil
}

// freezes returns an event if a freeze began to hold the next wave of a rollout. A freeze before the first wave is an
// outcome.
func freezes(before, seen Observation) []Event {
	was, is, out := before.Sync.Frozen, seen.Sync.Frozen, seen.Sync.Rollout
	if is == nil || out == nil || is.Commit != out.Commit || was != nil && was.Commit == is.Commit {
		return nil
	}
	e := Event{Revision: Revision{Commit: is.Commit}}
	frozen(&e, is)
	return []Event{e}
}

// frozen fills in the event about a freeze: the reason, its end, and the command that overrides it.
func frozen(e *Event, f *status.Freeze) {
	e.Kind, e.State, e.Text = Frozen, forge.Pending, f.Reason
	e.Command = "zester sync approve " + f.Commit.Short() + " --override-freeze REASON"
	if !f.Until.IsZero() {
		e.Details = []string{"until " + timestamp(f.Until)}
	}
}

// by returns the person whose order with a verb caused a change now, empty if none did.
func by(o Order, verb string, now time.Time) string {
	if o.Verb == verb && now.Sub(o.Time) < orderRecent {
		return o.By
	}
	return ""
}

// withErrors returns the peels that failed or report errors, sorted by ID.
func (f Fleet) withErrors() []status.Peel {
	all := slices.Clone(f.Failing)
	for id, errs := range f.Errors {
		if !slices.ContainsFunc(f.Failing, func(p status.Peel) bool { return p.Peel == id }) {
			all = append(all, status.Peel{Peel: id, Errors: errs})
		}
	}
	sorting.Func(all, func(a, b status.Peel) int { return cmp.Compare(a.Peel, b.Peel) })
	return all
}

// failed returns an event about peels with new errors, once the revision in force was applied or reported as
// incomplete.
func (w *watcher) failed(seen Observation, now time.Time) []Event {
	f, fleet := &w.failing, seen.Fleet
	if fleet.Commit == "" || len(seen.Attempts) == 0 {
		return nil
	}
	all := fleet.withErrors()
	errs := make(map[target.PeelID]string, len(all))
	for _, p := range all {
		errs[p.Peel] = digest(fmt.Sprint(p.Errors))
	}
	if f.commit != fleet.Commit {
		if fleet.Counts.Pending > 0 && now.Sub(laterOf(w.began, seen.Sync.LastGood.Since)) < lateAfter {
			return nil // it goes out
		}
		*f = failing{commit: fleet.Commit, known: errs, sent: f.sent}
		return nil
	}
	fresh := slices.DeleteFunc(all, func(p status.Peel) bool { return f.known[p.Peel] == errs[p.Peel] })
	for id := range f.known {
		if errs[id] == "" {
			delete(f.known, id)
		}
	}
	switch {
	case len(fresh) == 0:
		f.first = time.Time{}
		return nil
	case f.first.IsZero():
		f.first = now
		return nil
	case now.Sub(f.first) < groupFor, now.Sub(f.sent) < failAgain && !f.sent.IsZero():
		return nil
	}
	f.known, f.first, f.sent = errs, time.Time{}, now
	return []Event{{
		Kind:     PeelsFailed,
		Revision: inForce(seen.Sync),
		Counts:   fleet.Counts,
		Details:  groups(fresh),
		Command:  "zester sync peels",
		Text: fmt.Sprintf("%s; %d report an error that they did not report before", portion(fleet.Counts),
			len(fresh)),
	}}
}

func timestamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
