package progress

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestEqualResultsOfStatesAreOneGroup(t *testing.T) {
	drift := status.StateResult{State: "motd", Result: "would_change", Cause: "drift"}
	failed := status.StateResult{State: "nginx", Result: "failed", Error: "port in use"}
	var g stateGrouping
	for i := range 30 {
		id := target.PeelID(fmt.Sprintf("web-%02d", i))
		g.add(&status.States{Peel: id, State: status.HostDrifted, Results: []status.StateResult{drift}})
	}
	before := failed
	before.Before = true
	for id, r := range map[target.PeelID]status.StateResult{"db-01": failed, "db-02": before} {
		g.add(&status.States{Peel: id, State: status.HostFailed, Results: []status.StateResult{r, r}})
	}
	g.add(&status.States{Peel: "old-01", State: status.HostOther, Results: []status.StateResult{drift}})
	g.add(&status.States{Peel: "ok-01", State: status.HostClean})

	got := g.shown()
	if len(got.Groups) != 2 || got.Left != 0 {
		t.Fatalf("%+v", got)
	}
	if first := got.Groups[0]; first.StateResult != failed || first.Count != 2 {
		t.Errorf("the failure is not first: %+v", first)
	}
	second := got.Groups[1]
	if second.StateResult != drift || second.Count != 30 || len(second.Peels) != status.MaxGroupPeels {
		t.Errorf("%+v", second)
	}
	if !slices.IsSorted(second.Peels) {
		t.Errorf("%v", second.Peels)
	}
}

func TestRepliesHaveABoundedNumberOfGroups(t *testing.T) {
	var g stateGrouping
	for i := range 130 {
		r := status.StateResult{State: fmt.Sprint("state ", i), Result: "failed"}
		g.add(&status.States{Peel: "web-01", State: status.HostFailed, Results: []status.StateResult{r}})
	}
	if got := g.shown(); len(got.Groups) != status.MaxStateGroups || got.Left != 30 {
		t.Errorf("%d groups, %d left", len(got.Groups), got.Left)
	}
}
