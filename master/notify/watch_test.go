package notify

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	one = settings.Commit("1111111111111111111111111111111111111111")
	two = settings.Commit("2222222222222222222222222222222222222222")
)

// A clock has a watcher look at one state at one time after the other.
type clock struct {
	t    *testing.T
	w    *watcher
	now  time.Time
	seen Observation
}

func newClock(t *testing.T) *clock {
	c := &clock{t: t, now: time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)}
	c.w = newWatcher(c.now)
	c.seen.Sync = status.Sync{Repo: "https://forge.example/ops/fleet", Branch: "main", Owner: "m1", Read: c.now}
	c.seen.Sync.LastGood = status.Revision{Commit: one, Author: "Ada", Message: "first", Since: c.now}
	return c
}

// after looks once a second, and checks which events come, by kind and a part of their lines.
func (c *clock) after(d time.Duration, want ...string) {
	c.t.Helper()
	var got []string
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(time.Second)
		c.w.outcomes(c.seen, c.now)
		for _, e := range c.w.events(c.seen, c.now) {
			got = append(got, fmt.Sprintf("%s %s %s %q by %s: %s", e.Kind, e.Revision.Commit.Short(), e.Text, e.Details, e.By, e.Command))
		}
	}
	if !slices.EqualFunc(got, want, func(g, w string) bool {
		kind, part, _ := strings.Cut(w, " ")
		return strings.HasPrefix(g, kind+" ") && strings.Contains(g, part)
	}) {
		c.t.Errorf("at %s: events %q, want %q", c.now.Format(time.TimeOnly), got, want)
	}
}

func (c *clock) set(t status.Type, up bool) {
	before := conditionOf(c.seen.Sync, t)
	c.seen.Sync.Conditions = slices.DeleteFunc(slices.Clone(c.seen.Sync.Conditions), func(c status.Condition) bool { return c.Type == t })
	if before.Status != up {
		before = status.Condition{Type: t, Status: up, Message: "it does not answer", LastTransitionTime: c.now}
	}
	c.seen.Sync.Conditions = append(c.seen.Sync.Conditions, before)
}

func TestAnOutageIsReportedOnceWhenItLasts(t *testing.T) {
	c := newClock(t)
	c.set(status.FetchFailed, true)
	c.after(4 * time.Minute)
	c.set(status.FetchFailed, false)
	c.after(time.Minute)
	c.set(status.FetchFailed, true)
	c.after(10*time.Minute, "fetch_failed it does not answer")
	c.after(24 * time.Hour)
	c.set(status.FetchFailed, false)
	c.after(time.Hour, "recovered could not be read for 24 h")
	c.set(status.FetchFailed, true)
	c.set(status.Stalled, true)
	c.after(time.Hour, "stalled zester sync status")
	c.set(status.Stalled, false) // the credential is good again, and the network is away
	c.after(time.Hour)
	c.set(status.FetchFailed, false)
	c.after(time.Minute, "recovered for 2 h")
}

func TestTheNextLeaderNeitherRepeatsAnOutageNorForgetsItsEnd(t *testing.T) {
	c := newClock(t)
	c.set(status.FetchFailed, true)
	c.after(6*time.Minute, "fetch_failed")
	next := newClock(t)
	next.now, next.w.began, next.w.notices = c.now, c.now, c.w.notices
	next.seen.Sync.Owner, next.seen.Sync.Read = "m2", time.Time{}
	next.after(time.Second, "leader_changed m2 leads in place of m1")
	next.set(status.FetchFailed, true)
	next.after(time.Hour)
	next.set(status.FetchFailed, false)
	next.after(time.Minute) // it has not read the branch yet
	next.seen.Sync.Read = next.now
	next.after(time.Minute, "recovered")
	again := newClock(t)
	again.w.notices, again.seen.Sync.Owner = next.w.notices, "m2"
	again.after(time.Minute) // the same master leads on
}

func TestPinsAndPausesAreReportedWithTheirUser(t *testing.T) {
	c := newClock(t)
	c.after(time.Minute)
	c.seen.Sync.Pinned = &status.Pin{Commit: two, By: "ada", Time: c.now}
	c.after(time.Minute, "pinned by ada: zester sync unpin")
	c.seen.Sync.Paused = &status.Pause{By: "bob", Time: c.now}
	c.after(time.Minute, "paused by bob: zester sync resume")
	c.seen.Sync.Pinned, c.seen.Order = nil, Order{Verb: "unpin", By: "eve", Time: c.now}
	c.after(time.Minute, "unpinned by eve")
	c.seen.Sync.Paused, c.seen.Order = nil, Order{Verb: "resume", By: "ada", Time: c.now}
	c.after(time.Minute, "resumed by ada")
	c.seen.Sync.Pinned = &status.Pin{Commit: two, By: "ada", Time: c.now, UntilNewer: true}
	c.after(time.Minute, "pinned or for a newer commit")
	c.seen.Sync.Pinned = nil
	c.after(time.Minute, "unpinned a newer commit came")
}

func TestAPinFromBeforeTheLeaderBeganIsNotReported(t *testing.T) {
	c := newClock(t)
	c.seen.Sync.Pinned, c.seen.Sync.Paused = &status.Pin{Commit: two, By: "ada"}, &status.Pause{By: "ada"}
	c.after(time.Hour)
}

func TestAStateThatWasNotReadYetIsNoNews(t *testing.T) {
	c := newClock(t)
	read := c.seen
	c.w.notices.Leader = "m1"
	c.seen = Observation{}
	c.after(time.Minute)
	c.seen = read
	c.seen.Sync.Pinned = &status.Pin{Commit: two, By: "ada"}
	c.after(time.Minute)
}

// fail has peels report errors, by peel.
func (c *clock) fail(errs map[target.PeelID]string) {
	f := &c.seen.Fleet
	f.Failing = nil
	for id, text := range errs {
		f.Failing = append(f.Failing, status.Peel{Peel: id, State: status.Failed, Errors: []string{text}})
	}
	slices.SortFunc(f.Failing, func(a, b status.Peel) int { return strings.Compare(string(a.Peel), string(b.Peel)) })
	f.Counts.Failed, f.Counts.Applied = len(errs), f.Counts.Peels-len(errs)
}

func TestPeelsThatFailLaterAreReportedTogether(t *testing.T) {
	c := newClock(t)
	c.seen.Attempts = []status.Attempt{{Commit: one, Outcome: status.OutcomeApplied, Began: c.now}}
	c.seen.Fleet = Fleet{Commit: one, Counts: status.Counts{Peels: 40, Applied: 38, Pending: 2}, Late: "web-01"}
	c.after(time.Minute)
	c.seen.Fleet.Counts = status.Counts{Peels: 40, Applied: 40}
	c.fail(map[target.PeelID]string{"web-00": "old trouble"})
	c.after(time.Minute) // that is told of the revision
	errs := map[target.PeelID]string{"web-00": "old trouble", "web-01": "cannot use x"}
	c.fail(errs)
	c.after(10 * time.Second)
	for n := 2; n < 20; n++ {
		errs[target.PeelID(fmt.Sprintf("web-%02d", n))] = "cannot use x"
	}
	errs["db-01"] = "cannot use y"
	c.fail(errs)
	c.after(time.Hour, `peels_failed ["web-01, web-02, web-03, web-04, web-05 and 14 more: cannot use x" "db-01: cannot use y"]`)
	errs["web-30"] = "cannot use z"
	c.fail(errs)
	c.after(10*time.Minute, `peels_failed ["web-30: cannot use z"]`)
	for n := range 200 { // peels that come and go
		delete(errs, "web-30")
		c.fail(errs)
		c.after(time.Second)
		errs["web-30"] = fmt.Sprint("cannot use ", n)
		c.fail(errs)
		c.w.events(c.seen, c.now)
	}
	c.after(20*time.Minute, "peels_failed web-30: cannot use 199")
}

func TestAPeelThatRunsTheRevisionAndReportsAnErrorFails(t *testing.T) {
	c := newClock(t)
	c.seen.Attempts = []status.Attempt{{Commit: one, Outcome: status.OutcomeApplied, Began: c.now}}
	c.seen.Fleet = Fleet{Commit: one, Counts: status.Counts{Peels: 2, Applied: 2}, Errors: map[target.PeelID][]string{"db-01": {"old"}}}
	c.after(time.Minute)
	c.seen.Fleet.Errors = map[target.PeelID][]string{"db-01": {"old"}, "web-02": {"cannot use x"}, "web-01": {"cannot use x", "nor y"}}
	c.after(time.Hour, `peels_failed ["web-01, web-02: cannot use x"]`)
}

func TestARevisionThatGoesOutHasNoPeelsThatFailLater(t *testing.T) {
	c := newClock(t)
	c.seen.Attempts = []status.Attempt{{Commit: one, Outcome: status.OutcomeApplied, Began: c.now}}
	c.seen.Fleet = Fleet{Commit: one, Counts: status.Counts{Peels: 4, Applied: 2, Pending: 2}, Late: "web-01"}
	c.after(time.Minute)
	c.fail(map[target.PeelID]string{"web-00": "cannot use x"})
	c.seen.Fleet.Counts.Pending = 1
	c.after(10 * time.Minute) // it is incomplete, which is told with these peels
}

func TestAFreezeIsReportedOnceForEachRevision(t *testing.T) {
	c := newClock(t)
	c.after(time.Minute)
	c.seen.Sync.Rollout = &status.Rollout{Commit: one}
	c.seen.Sync.Frozen = &status.Freeze{Commit: one, Reason: "freeze: weekends", Until: c.now.Add(time.Hour)}
	c.after(time.Minute, `frozen 11111111 freeze: weekends ["until 2026-06-01T10:01:00Z"]`)
	c.seen.Sync.Frozen = &status.Freeze{Commit: one, Reason: "freeze: another window"}
	c.after(time.Minute)
	c.seen.Sync.Frozen = &status.Freeze{Commit: two, Reason: "freeze: another window"}
	c.after(time.Minute) // the newest commit, while another one is under way: an outcome
	c.seen.Sync.Frozen = nil
	c.after(time.Minute)
	c.seen.Sync.Rollout = &status.Rollout{Commit: two}
	c.seen.Sync.Frozen = &status.Freeze{Commit: two, Reason: "freeze: another window"}
	c.after(time.Minute, "frozen zester sync approve 22222222 --override-freeze REASON")
	c.seen.Sync.Frozen = nil
	c.after(time.Minute)
}

func TestARevisionThatAFreezeHoldsIsReportedOnce(t *testing.T) {
	c := newClock(t)
	c.after(time.Minute)
	c.seen.Attempts = []status.Attempt{{Commit: two, Outcome: status.OutcomeBlocked, Reason: "freeze: weekends", Began: c.now}}
	c.seen.Sync.LastAttempted, c.seen.Sync.Frozen = two, &status.Freeze{Commit: two, Reason: "freeze: weekends"}
	o := c.w.outcomes(c.seen, c.now)[0]
	if o.Kind != Frozen || o.State != "pending" || o.Command != "zester sync approve 22222222 --override-freeze REASON" {
		t.Errorf("%+v", o)
	}
	c.after(time.Minute) // no event beside the outcome
	c.seen.Sync.Frozen = &status.Freeze{Commit: two, Reason: "freeze: another window"}
	if again := c.w.outcomes(c.seen, c.now)[0]; again.mark != o.mark {
		t.Errorf("told again: %+v", again)
	}
}

func TestAWaveAtItsGateSaysWhatOpensIt(t *testing.T) {
	c := newClock(t)
	c.seen.Attempts = []status.Attempt{{Commit: two, Outcome: status.OutcomeProgressing, Began: c.now}}
	c.seen.Sync.Rollout = &status.Rollout{Commit: two, Wave: 1, Waves: 2, Name: "canary", State: "soaks", Counts: status.Counts{Peels: 3}}
	soaks := c.w.outcomes(c.seen, c.now)[0]
	c.seen.Sync.Rollout.State = "gate"
	gate := c.w.outcomes(c.seen, c.now)[0]
	if soaks.Kind != Progressing || gate.Kind != Gate || gate.Command != "zester sync approve canary" || gate.mark == soaks.mark || gate.Counts.Peels != 3 {
		t.Errorf("%+v, then %+v", soaks, gate)
	}
}

func TestOutcomesSayWhatToDo(t *testing.T) {
	c := newClock(t)
	c.seen.Sync.LastAttempted, c.seen.Sync.Blocked = two, strings.Repeat("0123456789abcdef", 4)
	c.seen.Sync.Errors = []string{"top.yaml:3:1: no", "top.yaml:4:1: nor that"}
	c.seen.Sync.Conditions = []status.Condition{{Type: status.CompileFailed, Status: true, Where: "top.yaml:3"}}
	for outcome, want := range map[status.Outcome]Event{
		status.OutcomeBlocked:    {Kind: Blocked, Text: "waits for approval: too much", Command: "zester sync approve 0123456789ab"},
		status.OutcomeRolledBack: {Kind: WaveFailed, Text: "too much", Command: "zester sync retry, or a new commit that fixes it"},
		status.OutcomeRejected:   {Kind: Rejected, Text: "too much", Where: "top.yaml:3", Details: []string{"top.yaml:4:1: nor that"}},
		status.OutcomeSuperseded: {Kind: Superseded, Text: "superseded too much"},
	} {
		c.seen.Attempts = []status.Attempt{{Commit: two, Author: "Ada", Message: "more", Outcome: outcome, Reason: "too much", Began: c.now, By: "bob"}}
		all := c.w.outcomes(c.seen, c.now)
		e := all[0].Event
		if len(all) != 1 || e.Kind != want.Kind || e.Text != want.Text || e.Command != want.Command || e.Where != want.Where {
			t.Errorf("%s: %+v", outcome, e)
		}
		if want.Details != nil && !slices.Equal(e.Details, want.Details) || e.Revision != (Revision{Commit: two, Author: "Ada", Subject: "more"}) || e.By != "bob" {
			t.Errorf("%s: %+v", outcome, e)
		}
	}
}
