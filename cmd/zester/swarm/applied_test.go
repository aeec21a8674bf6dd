package swarm

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A report that arrives before the swarm waits for its commit counts. One that is sent twice, has another commit, or
// lacks a content does not.
func TestAPeelCountsOnceForACommitWheneverItReports(t *testing.T) {
	const old, head = "0000000000000000000000000000000000000001", "0000000000000000000000000000000000000002"
	var reports appliedReports
	for _, r := range []wire.Applied{
		{Peel: "sim-00000", Commit: old},
		{Peel: "sim-00001", Commit: old},
		{Peel: "sim-00000", Commit: head},
		{Peel: "sim-00000", Commit: head},
		{Peel: "sim-00002", Commit: head, MissingContents: 1},
	} {
		r.V = wire.Version
		data, err := canon.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		reports.onReport(&nats.Msg{Subject: wire.SettingsApplied(r.Peel.Wire()), Data: data})
	}
	for commit, want := range map[string]int64{old: 2, head: 1, "": 0} {
		if got := reports.count(commit); got != want {
			t.Errorf("%d peels have applied %q, want %d", got, commit, want)
		}
	}
}
