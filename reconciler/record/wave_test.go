package record

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMarksAreASet(t *testing.T) {
	var all Marks
	for i := range 100 {
		all = all.With(MarkPeel(target.PeelID(fmt.Sprint(i))), MarkPeel("0"))
	}
	for i := range 120 {
		if has := all.Has(MarkPeel(target.PeelID(fmt.Sprint(i)))); has != (i < 100) {
			t.Errorf("%d: %v", i, has)
		}
	}
	before := slices.Clone(all)
	less := all.Without(MarkPeel("7"))
	if all.Len() != 100 || less.Len() != 99 || less.Has(MarkPeel("7")) || !less.Has(MarkPeel("8")) || !slices.Equal(before, all) {
		t.Errorf("%d and %d marks", all.Len(), less.Len())
	}
	if MarkError("a", "x") == MarkError("b", "x") || MarkError("a", "x") == MarkError("a", "y") || MarkPeel("a") == MarkError("a", "") {
		t.Error("different things have one mark")
	}
}

func TestDecisionsAreNotedWithTheirAttempt(t *testing.T) {
	r := Record{History: []status.Attempt{{Commit: "a", Outcome: status.OutcomeProgressing}}}
	for i := range MaxApprovals + 2 {
		r = r.NotedApproval("a", status.Approval{By: fmt.Sprint(i)})
	}
	if other := r.NotedApproval("b", status.Approval{By: "eve"}); len(other.History[0].Approvals) != MaxApprovals {
		t.Errorf("%+v", other.History)
	}
	r = r.Noted(status.Attempt{Commit: "a", Outcome: status.OutcomeApplied}, now)
	if got := r.History[0].Approvals; len(got) != MaxApprovals || got[0].By != "2" || r.History[0].Outcome != status.OutcomeApplied {
		t.Errorf("%+v", r.History)
	}
}

// The record has a size that the bus takes, so only some attempts keep their waves.
func TestTheNewestAttemptsKeepTheirWaves(t *testing.T) {
	r := Record{}
	commit := func(i int) settings.Commit { return settings.Commit(fmt.Sprint(i)) }
	for i := range MaxStepped + 2 {
		r.History = append(r.History, status.Attempt{Commit: commit(i)})
		r = r.NotedWaves(commit(i), []status.Wave{{Name: "canary"}})
	}
	for i, a := range r.History {
		if keeps := len(a.Steps) > 0; keeps != (i >= 2) {
			t.Errorf("attempt %d of %d has its waves: %v", i+1, len(r.History), keeps)
		}
	}
}
