package coverage

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// While a cause is computed the table takes in reports of the peels that the cause is about.
func TestASlowCauseDoesNotKeepReportsWaiting(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		table, now := fleetTable(t, b.Conn(t, grants.RoleMaster, "m1")), time.Now()
		document, report := fleetMessages(t, fleetPeel(1), now, fleetEntries)
		table.onDocument(document)
		table.onReport(report)
		called := false
		table.causeBy(func(p cause.Problem, _ []cause.Commit) cause.Finding {
			called = true
			if len(p.Peels) != 1 {
				t.Errorf("the problem is of the peels %+v", p.Peels)
			}
			if !table.mu.TryLock() {
				t.Error("the table is locked while a cause is computed")
				return cause.Finding{}
			}
			table.mu.Unlock()
			document, report := fleetMessages(t, fleetPeel(1), now.Add(time.Minute), fleetEntries)
			table.onDocument(document)
			table.onReport(report)
			return cause.Finding{}
		}, verdict.Disagrees, "")
		if !called || table.peels[fleetPeel(1).Wire()].arrived != now.Add(time.Minute).Unix() {
			t.Errorf("called %v, and the newest report is of %s", called, at(table.peels[fleetPeel(1).Wire()].arrived))
		}
	})
}

func TestSoManyCausesAreComputedAtTheSameTime(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		table := fleetTable(t, b.Conn(t, grants.RoleMaster, "m1"))
		var mu sync.Mutex
		running, ended := 0, make(chan struct{})
		var asked sync.WaitGroup
		for range 5 * maxCauses {
			asked.Go(func() {
				table.causeBy(func(cause.Problem, []cause.Commit) cause.Finding {
					mu.Lock()
					running++
					mu.Unlock()
					<-ended
					return cause.Finding{}
				}, verdict.Failed, "entry-03")
			})
		}
		synctest.Wait()
		if running != maxCauses {
			t.Errorf("%d causes are computed at the same time, want %d", running, maxCauses)
		}
		close(ended)
		asked.Wait()
		if running != 5*maxCauses {
			t.Errorf("%d causes were computed, want %d", running, 5*maxCauses)
		}
	})
}
