package coverage

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Settings and reports of peels come and go, runs fail, people pause entries, clocks are wrong, connections end and time
// passes, thousands of times at random. After each change the sums are what an addition over all peels gives.
func TestTheSumsOfWhatIsWrongAreThoseOfAllPeels(t *testing.T) {
	if testing.Short() {
		t.Skip("3,000 changes, one after the other")
	}
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		table := fleetTable(t, b.Conn(t, grants.RoleMaster, "m1"))
		table.o.Fleet.FollowsConnections()
		const n, changes = 12, 3000
		few := 0
		all := map[target.PeelID]bool{}
		for i := range n {
			all[fleetPeel(i)] = true
		}
		random := rand.New(rand.NewPCG(1, 2))
		seen := map[verdict.Kind]bool{}
		equal := func(step int) Wrong {
			l, host := &table.standings.lull, time.Now()
			if host.Before(l.silent) && table.clock.now().Before(l.overdue) && len(l.unsettled) < n {
				few++ // unless the fleet has turned
			}
			if random.IntN(2) == 0 {
				table.wrong(all) // who asks about some changes nothing for those who ask about all
			}
			got, want := table.wrong(nil), table.wrong(all)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("after change %d: %+v, want %+v", step, got, want)
			}
			counted, reporting := table.Count(nil)
			if n, reports := table.Count(all); counted != n || reporting != reports {
				t.Fatalf("after change %d: %d peels, of which %d report, want %d and %d", step, counted, reporting, n, reports)
			}
			absent := map[target.PeelID]bool{}
			table.eachLocked(nil, func(p *peel, isAbsent bool, _ fleetpkg.Presence) { absent[p.id] = isAbsent })
			for key, r := range table.present(Query{By: ByPeel}) {
				if is := r.Absent > 0; is != absent[key.peel] {
					t.Fatalf("after change %d: the row of %s says absent %t", step, key.peel, is)
				}
			}
			follow := map[scheduled]int{}
			for _, p := range table.peels {
				if p.document != nil {
					follow[scheduled{p.document, p.zone}]++
				}
			}
			if has := table.documents.peels; !maps.Equal(has, follow) {
				t.Fatalf("after change %d: peels by schedule %v, want %v", step, has, follow)
			}
			return got
		}
		for step := range changes {
			id := fleetPeel(random.IntN(n))
			document, report := fleetMessages(t, id, time.Now(), 3)
			switch act := random.IntN(20); act {
			case 0:
				table.onReportRemoved(id.Wire())
			case 1:
				table.onDocumentRemoved(id.Wire())
			case 2:
				table.o.Fleet.Disconnected(id.Wire())
			case 3:
				time.Sleep(time.Duration(random.IntN(120)) * time.Second)
			case 11:
				for range random.IntN(10) { // all are online, and their reports become overdue
					for id := range all {
						table.o.Fleet.Connected(id.Wire())
					}
					equal(step)
					time.Sleep(time.Minute)
				}
			case 10:
				time.Sleep(time.Duration(random.IntN(10)) * time.Minute)
				table.clock.onTime(time.Now().Add(time.Duration(random.IntN(40)-20) * time.Minute))
			case 4, 5, 6:
				document.Stored = time.Now()
				table.onDocument(document)
			case 7, 8, 9:
				table.o.Fleet.Connected(id.Wire())
			default:
				report.Msg = told(t, report.Msg, random)
				table.onReport(report)
			}
			got := equal(step)
			for _, g := range got.Groups {
				seen[g.Kind] = true
			}
		}
		if few < changes/3 {
			t.Errorf("%d of %d times not all peels were looked at", few, changes)
		}
		for _, kind := range []verdict.Kind{verdict.Failed, verdict.Paused, verdict.Disagrees, verdict.NotReporting} {
			if !seen[kind] {
				t.Errorf("no peel was %s: %v", kind, seen)
			}
		}
	})
}

// told returns a report in which something may be wrong.
func told(t *testing.T, m *nats.Msg, random *rand.Rand) *nats.Msg {
	t.Helper()
	r, err := ledger.Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		switch random.IntN(6) {
		case 0:
			runs, err := ledger.ParseRuns(e.Runs)
			if err != nil {
				t.Fatal(err)
			}
			runs[len(runs)-1].Outcome = ledger.Failed
			e.Runs, e.Succeeded = ledger.AppendRuns(nil, runs), time.Time{}
		case 1:
			e.State = []string{"paused_manual", "paused_errors"}[random.IntN(2)]
		}
	}
	if random.IntN(6) == 0 {
		r.Time = r.Time.Add(time.Hour)
	}
	data, err := ledger.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return &nats.Msg{Subject: wire.ScheduleStateOf(r.Peel.Wire()), Data: data}
}
