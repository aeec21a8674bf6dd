package swarm

import (
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// An appliedReports has the peels that have reported each revision as applied, with all its contents. It listens from
// before the first commit to the end: a peel can report a commit before the call that made it returns.
type appliedReports struct {
	mu    sync.Mutex
	peels map[string]map[target.PeelID]bool // by commit
}

// onReport handles a report of a peel on its settings.
func (a *appliedReports) onReport(m *nats.Msg) {
	report, err := wire.DecodeApplied(m)
	if err != nil || report.MissingContents > 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.peels == nil {
		a.peels = map[string]map[target.PeelID]bool{}
	}
	if a.peels[report.Commit] == nil {
		a.peels[report.Commit] = map[target.PeelID]bool{}
	}
	a.peels[report.Commit][report.Peel] = true
}

// count returns the number of peels that have applied a commit.
func (a *appliedReports) count(commit string) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return int64(len(a.peels[commit]))
}
