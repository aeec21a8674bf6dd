package notify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/notify/forge"
	"github.com/seed-c01c3da5/zester/reconciler/notify/place"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	outageAfter  = 5 * time.Minute  // that the branch cannot be read, before it is told
	stalledAfter = time.Minute      // that nothing can be brought to the fleet
	groupFor     = 30 * time.Second // after a peel fails, so that one message tells of all that fail with it
	failAgain    = 10 * time.Minute // at least, between two messages about peels that fail
	orderRecent  = time.Minute      // an order that is older has not caused what is seen now
)

// A watcher derives what there is to tell from successive observations. It belongs to one goroutine.
type watcher struct {
	began   time.Time
	notices notices
	ends    map[string]place.Event // how the fleet came to run commits, by commit and attempt
	before  *Observation
	failing failing
}

// failing are the peels that fail with the revision in force.
type failing struct {
	commit settings.Commit          // that the peels had come to run, empty while it goes out
	known  map[target.PeelID]string // digests of errors that were told, or that there were before
	first  time.Time                // when the first peel failed that was not told of
	told   time.Time
}

func newWatcher(began time.Time) *watcher {
	return &watcher{began: began, ends: map[string]place.Event{}}
}

// events are what happened since the observation before, but for what becomes of revisions. The outcomes of the same
// observation must have been derived first.
func (w *watcher) events(seen Observation, now time.Time) (all []place.Event) {
	if seen.Sync.Owner == "" {
		return nil // the reconciler has not read yet what was before
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

// leader says that another master leads than the one that told places last.
func (w *watcher) leader(seen Observation) []place.Event {
	before, owner := w.notices.Leader, seen.Sync.Owner
	if owner == before {
		return nil
	}
	if w.notices.Leader = owner; before == "" {
		return nil
	}
	return []place.Event{{Kind: place.LeaderChanged, By: owner, Text: fmt.Sprintf("%s leads in place of %s", owner, before)}}
}

// outage says once that the branch cannot be read, and once that it can be again.
func (w *watcher) outage(seen Observation, now time.Time) []place.Event {
	stalled, fetch := conditionOf(seen.Sync, status.Stalled), conditionOf(seen.Sync, status.FetchFailed)
	kind, c := place.Kind(""), status.Condition{}
	switch {
	case stalled.Status && now.Sub(stalled.LastTransitionTime) >= stalledAfter:
		kind, c = place.Stalled, stalled
	case fetch.Status && now.Sub(fetch.LastTransitionTime) >= outageAfter:
		kind, c = place.FetchFailed, fetch
	}
	switch told := w.notices.Outage; {
	case told == "" && kind != "", told == place.FetchFailed && kind == place.Stalled:
		if told == "" {
			w.notices.Since = c.LastTransitionTime
		}
		w.notices.Outage = kind
		return []place.Event{{
			Kind: kind, Revision: inForce(seen.Sync), Text: c.Message, Where: c.Where,
			Details: []string{"since " + stamp(w.notices.Since) + "; the revision in force stays"}, Command: "zester sync status",
		}}
	case told != "" && !stalled.Status && !fetch.Status && !seen.Sync.Read.IsZero():
		took := now.Sub(w.notices.Since)
		w.notices.Outage, w.notices.Since = "", time.Time{}
		return []place.Event{{Kind: place.Recovered, Revision: inForce(seen.Sync), Text: "it could not be read for " + roughly(took)}}
	}
	return nil
}

func conditionOf(s status.Sync, t status.Type) (c status.Condition) {
	if i := slices.IndexFunc(s.Conditions, func(c status.Condition) bool { return c.Type == t }); i >= 0 {
		c = s.Conditions[i]
	}
	return c
}

func inForce(s status.Sync) place.Revision {
	return place.Revision{Commit: s.LastGood.Commit, Author: s.LastGood.Author, Subject: s.LastGood.Message}
}

// pins says that a pin began or ended.
func pins(before, seen Observation, now time.Time) (all []place.Event) {
	was, is := before.Sync.Pinned, seen.Sync.Pinned
	switch {
	case is != nil && (was == nil || *was != *is):
		e := place.Event{Kind: place.Pinned, Revision: place.Revision{Commit: is.Commit}, By: is.By, Text: "new revisions wait for zester sync unpin", Command: "zester sync unpin"}
		if is.UntilNewer {
			e.Text += ", or for a newer commit"
		}
		all = append(all, e)
	case is == nil && was != nil:
		e := place.Event{Kind: place.Unpinned, Revision: place.Revision{Commit: was.Commit}, By: by(seen.Order, "unpin", now), Text: "the fleet follows the branch again"}
		if e.By == "" && was.UntilNewer {
			e.Text += ": a newer commit came"
		}
		all = append(all, e)
	}
	return all
}

// pauses says that new revisions began or ceased to wait for a person.
func pauses(before, seen Observation, now time.Time) []place.Event {
	was, is := before.Sync.Paused, seen.Sync.Paused
	switch {
	case is != nil && was == nil:
		return []place.Event{{Kind: place.Paused, By: is.By, Text: "new revisions wait for zester sync resume", Command: "zester sync resume"}}
	case was != nil && is == nil:
		return []place.Event{{Kind: place.Resumed, By: by(seen.Order, "resume", now), Text: "the fleet follows the branch again"}}
	}
	return nil
}

// freezes says that the next wave of a revision began to wait for the end of a freeze. A revision that waits before its first
// wave is an outcome.
func freezes(before, seen Observation) []place.Event {
	was, is := before.Sync.Frozen, seen.Sync.Frozen
	if is == nil || seen.Sync.Rollout == nil || was != nil && was.Commit == is.Commit {
		return nil
	}
	e := place.Event{Revision: place.Revision{Commit: is.Commit}}
	frozen(&e, is)
	return []place.Event{e}
}

// frozen says why a revision waits, until when, and what lets it go on.
func frozen(e *place.Event, f *status.Freeze) {
	e.Kind, e.State, e.Text = place.Frozen, forge.Pending, f.Reason
	e.Command = "zester sync approve " + f.Commit.Short() + " --override-freeze REASON"
	if !f.Until.IsZero() {
		e.Details = []string{"until " + stamp(f.Until)}
	}
}

// by returns the person whose order caused what is seen now.
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
	slices.SortFunc(all, func(a, b status.Peel) int { return cmp.Compare(a.Peel, b.Peel) })
	return all
}

// failed says which peels fail after the fleet had come to run the revision in force, or was said not to.
func (w *watcher) failed(seen Observation, now time.Time) []place.Event {
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
		*f = failing{commit: fleet.Commit, known: errs, told: f.told}
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
	case now.Sub(f.first) < groupFor, now.Sub(f.told) < failAgain && !f.told.IsZero():
		return nil
	}
	f.known, f.first, f.told = errs, time.Time{}, now
	return []place.Event{{
		Kind: place.PeelsFailed, Revision: inForce(seen.Sync), Counts: fleet.Counts, Details: groups(fresh), Command: "zester sync peels",
		Text: fmt.Sprintf("%s; %d report an error that they did not report before", portion(fleet.Counts), len(fresh)),
	}}
}

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
