package verdict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/status"
)

func TestConditionsOfTheReconcilerAreProblems(t *testing.T) {
	condition := func(c status.Type, is bool, reason string) status.Sync {
		return status.Sync{Conditions: []status.Condition{{Type: c, Status: is, Reason: reason, Message: "why", Where: "top.yaml:3", ObservedRevision: "0123456789abcdef"}}}
	}
	gate := condition(status.RolloutProgressing, true, "Wave")
	gate.Rollout = &status.Rollout{State: "gate"}
	blocked := condition(status.GuardBlocked, true, "TooManyChanges")
	blocked.Blocked = "0123456789"
	for _, c := range []struct {
		sync status.Sync
		want verdict.Kind // empty: none
	}{
		{condition(status.CompileFailed, true, "Invalid"), verdict.Refused},
		{condition(status.SourceVerified, false, "Unsigned"), verdict.Refused},
		{condition(status.GuardBlocked, true, "HistoryForbidden"), verdict.Refused},
		{condition(status.Stalled, true, "OtherSource"), verdict.Stalled},
		{condition(status.RolloutProgressing, false, "WaveFailed"), verdict.WaveFailed},
		{condition(status.HeadSkipped, true, "RolledBack"), verdict.WaveFailed},
		{condition(status.Suspended, true, "Pinned"), verdict.Held},
		{condition(status.Frozen, true, "Frozen"), verdict.Held},
		{gate, verdict.Held},
		{blocked, verdict.Held},
		{condition(status.RolloutProgressing, false, "Completed"), ""},
		{condition(status.RolloutProgressing, true, "Wave"), ""},
		{condition(status.FetchFailed, true, "Failed"), ""},
		{condition(status.SourceVerified, true, ""), ""},
		{condition(status.CompileFailed, false, ""), ""},
		{status.Sync{}, ""},
	} {
		got := verdict.OfRevision(&c.sync, time.Time{})
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%+v: %+v", c.sync.Conditions, got)
		case c.want != "" && (len(got) != 1 || got[0].Kind != c.want || got[0].Text != "01234567: top.yaml:3: why" && !strings.HasSuffix(got[0].Text, ": top.yaml:3: why")):
			t.Errorf("%+v: %+v, want %s", c.sync.Conditions, got, c.want)
		}
	}
}

// A revision that was rolled back a day ago is not what is wrong with the fleet now.
func TestARollBackEnds(t *testing.T) {
	rolledBack := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	s := &status.Sync{Conditions: []status.Condition{
		{Type: status.RolloutProgressing, Reason: "WaveFailed", LastTransitionTime: rolledBack},
		{Type: status.HeadSkipped, Status: true, LastTransitionTime: rolledBack},
	}}
	for after, want := range map[time.Duration]verdict.Kind{0: verdict.WaveFailed, 23 * time.Hour: verdict.WaveFailed, 24 * time.Hour: verdict.Held} {
		got := verdict.OfRevision(s, rolledBack.Add(after))
		if len(got) != 1 || got[0].Kind != want || !got[0].Since.Equal(rolledBack) {
			t.Errorf("after %s: %+v, want %s", after, got, want)
		}
	}
}

func TestAPlaceIsNamedOnce(t *testing.T) {
	got := verdict.OfRevision(&status.Sync{Conditions: []status.Condition{{
		Type: status.CompileFailed, Status: true, Reason: "Invalid", Message: "top.yaml:3: unknown key", Where: "top.yaml:3",
	}}}, time.Time{})
	if len(got) != 1 || got[0].Text != "top.yaml:3: unknown key" {
		t.Errorf("%+v", got)
	}
}
