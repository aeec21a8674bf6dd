package record

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestARevisionInForceEndsWhatCameBefore(t *testing.T) {
	before := Record{
		Commit: "old", Since: now, Blocked: &Blocked{Commit: "new"}, Approved: &Approval{Commit: "new"}, Rollout: &Rollout{Commit: "new"},
	}
	later := now.Add(time.Hour)
	r := before.Enforced("new", policy.Safety{Limits: &policy.Limits{Peels: 7}}, false, later)
	if r.Commit != "new" || r.Done || !r.Since.Equal(later) || r.Blocked != nil || r.Approved != nil || r.Rollout != nil || r.LimitsOrDefault().Peels != 7 {
		t.Errorf("%+v", r)
	}
	r.Blocked = &Blocked{Commit: "newer"}
	if again := r.Enforced("new", policy.Safety{}, true, later.Add(time.Hour)); !again.Done || !again.Since.Equal(later) || again.Blocked == nil {
		t.Errorf("the same revision for another fleet: %+v", again)
	}
	if before.Blocked == nil || before.Rollout == nil || before.Commit != "old" {
		t.Errorf("the argument was changed: %+v", before)
	}
	if got := new(Record).LimitsOrDefault(); got != policy.DefaultLimits {
		t.Errorf("without limits: %+v", got)
	}
}

// The branch may go back to a revision whose documents are not all written, during the rollout of the next one.
func TestARevisionThatStaysInForceKeepsWhatWasJudgedWithIt(t *testing.T) {
	r := Record{Commit: "old", Judged: Judged{Guarded: &Guarded{}}, Rollout: &Rollout{Commit: "new"}}
	if back := r.Enforced("old", policy.Safety{}, false, now); back.Guarded == nil {
		t.Error("all settings of a revision that stays in force count as judged")
	}
	if next := r.Enforced("new", policy.Safety{}, false, now); next.Guarded != nil {
		t.Error("another revision has what was judged with the one before")
	}
	if pinned := r.Pinning("old", policy.Safety{}, now); pinned.Guarded != nil {
		t.Error("settings of a revision that a person chose do not all count as judged")
	}
}

func TestARevisionThatIsRolledBackIsRemembered(t *testing.T) {
	r := Record{Skipped: make([]Skipped, 1, 9), Rollout: &Rollout{Commit: "bad"}}
	first := r.RolledBack(strings.Repeat("x", 2*status.MaxMessage), now)
	r.Rollout = &Rollout{Commit: "worse"}
	r.RolledBack("", now)
	if s := first.FindSkipped("bad"); s == nil || len(s.Reason) > status.MaxMessage || !s.Time.Equal(now) || first.Rollout != nil {
		t.Errorf("%+v", first)
	}
	if first.FindSkipped("good") != nil || len(r.Skipped) != 1 {
		t.Errorf("%+v", r)
	}
}

func TestRevisionsInUse(t *testing.T) {
	r := Record{Commit: "a", Rollout: &Rollout{Commit: "b"}, Pinned: &Pin{Commit: "c", Head: "h"}}
	if got := r.Sent(); !slices.Equal(got, []settings.Commit{"a", "b"}) {
		t.Errorf("sent: %v", got)
	}
	if got := r.InUse(); !slices.Equal(got, []settings.Commit{"a", "b", "c"}) {
		t.Errorf("in use: %v", got)
	}
	if got := new(Record).InUse(); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
	for commit, want := range map[settings.Commit]bool{"a": true, "b": true, "c": false} {
		if r.IsSent(commit) != want {
			t.Errorf("%s: %v", commit, !want)
		}
	}
}

func TestTheNewestRevisionThatIsKnown(t *testing.T) {
	r := Record{Commit: "a"}
	if got := r.NewestKnown(); got != "a" {
		t.Errorf("in force: %s", got)
	}
	r = r.Noted(status.Attempt{Commit: "b", Outcome: status.OutcomeRejected}, now)
	if got := r.NewestKnown(); got != "b" {
		t.Errorf("tried: %s", got)
	}
	r.Pinned = &Pin{Commit: "a", Head: "c"}
	if got := r.NewestKnown(); got != "c" {
		t.Errorf("at the pin: %s", got)
	}
}

func TestWhatBecomesOfAnAttempt(t *testing.T) {
	var r Record
	at := now
	note := func(commit settings.Commit, outcome status.Outcome, reason, master string) {
		at = at.Add(time.Minute)
		r = r.Noted(status.Attempt{Commit: commit, Outcome: outcome, Reason: reason, Master: master}, at)
	}
	note("a", status.OutcomeBlocked, "large", "m1")
	r = r.NotedBy("a", "ada").NotedBy("other", "eve")
	before := r
	note("a", status.OutcomeProgressing, "", "m1")
	note("a", status.OutcomeApplied, "", "m2")
	note("a", status.OutcomeProgressing, "", "m2") // another attempt, as the one before has ended
	note("b", status.OutcomeRejected, "line 1", "m1")
	note("b", status.OutcomeRejected, "line 1", "m2") // the same, by the next leader
	note("b", status.OutcomeRejected, "line 2", "m2")
	note("c", status.OutcomeProgressing, "", "m1")
	r = r.NotedBy("c", "ada")
	note("c", status.OutcomeBlocked, "large", "m1")
	minute := func(i int) time.Time { return now.Add(time.Duration(i) * time.Minute) }
	want := []status.Attempt{
		{Commit: "a", Outcome: status.OutcomeApplied, By: "ada", Master: "m2", Began: minute(1), Ended: minute(3)},
		{Commit: "a", Outcome: status.OutcomeSuperseded, Reason: "by b", Master: "m2", Began: minute(4), Ended: minute(5)},
		{Commit: "b", Outcome: status.OutcomeRejected, Reason: "line 2", Master: "m2", Began: minute(5), Ended: minute(7)},
		{Commit: "c", Outcome: status.OutcomeBlocked, Reason: "large", Master: "m1", Began: minute(8)},
	}
	if !slices.EqualFunc(r.History, want, status.Attempt.Equal) {
		t.Errorf("%+v,\nwant %+v", r.History, want)
	}
	if a := before.History[0]; len(before.History) != 1 || a.Outcome != status.OutcomeBlocked {
		t.Errorf("the argument was changed: %+v", before.History)
	}
	if last := r.LastAttempt(); last == nil || last.Commit != "c" || !r.HasTried("b") || r.HasTried("d") || new(Record).LastAttempt() != nil {
		t.Errorf("the last attempt is %+v", last)
	}
	same := Record{}.Noted(want[2], now)
	if again := same.Noted(status.Attempt{Commit: "b", Outcome: status.OutcomeRejected, Reason: "line 2", Master: "m3"}, at); !slices.EqualFunc(again.History, same.History, status.Attempt.Equal) {
		t.Errorf("the same refusal changes the history: %+v", again.History)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var r Record
	for i := range 3 * MaxHistory {
		r = r.Noted(status.Attempt{
			Commit: settings.Commit(fmt.Sprint(i)), Author: strings.Repeat("ä", 1000), Message: strings.Repeat("m", 1000),
			Reason: strings.Repeat("r", 1000), Outcome: status.OutcomeRejected,
		}, now)
	}
	last := r.LastAttempt()
	if len(r.History) != MaxHistory || last.Commit != settings.Commit(fmt.Sprint(3*MaxHistory-1)) {
		t.Errorf("%d attempts, the last of %s", len(r.History), last.Commit)
	}
	if len(last.Author) > maxName || len(last.Message) > maxName || len(last.Reason) > maxReason || !strings.HasSuffix(last.Author, "ä…") {
		t.Errorf("%+v", last)
	}
}

func TestARevisionThatIsHeldDoesNotEndTheOneThatGoesOut(t *testing.T) {
	r := Record{Commit: "a", Rollout: &Rollout{Commit: "b"}}
	r = r.Noted(status.Attempt{Commit: "b", Outcome: status.OutcomeProgressing}, now)
	r = r.Noted(status.Attempt{Commit: "c", Outcome: status.OutcomeBlocked, Reason: "large"}, now)
	r = r.NotedApproval("b", status.Approval{What: "gate canary", By: "ada"})
	r = r.Enforced("b", r.Safety, false, now).Noted(status.Attempt{Commit: "b", Outcome: status.OutcomeApplied}, now)
	if b := r.AttemptAt("b"); len(r.History) != 2 || b.Outcome != status.OutcomeApplied || len(b.Approvals) != 1 || r.LastAttempt().Outcome != status.OutcomeBlocked {
		t.Errorf("%+v", r.History)
	}
	r = r.Noted(status.Attempt{Commit: "d", Outcome: status.OutcomeProgressing}, now)
	if c := r.AttemptAt("c"); c.Outcome != status.OutcomeSuperseded || c.Reason != "by d" || r.AttemptAt("b").Outcome != status.OutcomeApplied {
		t.Errorf("%+v", r.History)
	}
	r = Record{Commit: "a", Rollout: &Rollout{Commit: "b"}}.Noted(status.Attempt{Commit: "b", Outcome: status.OutcomeProgressing}, now)
	r.Rollout = &Rollout{Commit: "c"}
	if r = r.Noted(status.Attempt{Commit: "c", Outcome: status.OutcomeProgressing}, now); r.AttemptAt("b").Outcome != status.OutcomeSuperseded {
		t.Errorf("a rollout that another one replaces: %+v", r.History)
	}
}
