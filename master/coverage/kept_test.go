package coverage

import (
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestWhatIsKeptIsAsNewAsTheTable changes peels within the time for which rows and hours are kept.
func TestWhatIsKeptIsAsNewAsTheTable(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		table, now := fleetTable(t, b.Conn(t, grants.RoleMaster, "m1")), time.Now()
		join := func(i, entries int) {
			document, report := fleetMessages(t, fleetPeel(i), now, entries)
			table.onDocument(document)
			table.onReport(report)
		}
		some := map[target.PeelID]bool{fleetPeel(1): true, fleetPeel(2): true, fleetPeel(9): true}
		one := Query{Key: "one", Entry: func(name string) bool { return name == "entry-01" }, By: ByPeelAndEntry}
		oneOnSome, entries := one, Query{Peels: some, By: ByEntry}
		oneOnSome.Peels = some
		queries := []Query{one, oneOnSome, entries, {By: ByPeel}, {Peels: some, By: ByPeel}}
		kept := func() (all [][]*Row) {
			for i, q := range queries {
				rows := table.kept(q)
				if fresh := sorted(table.present(q)); !reflect.DeepEqual(rows, fresh) {
					t.Errorf("query %d: %d rows are kept, the table has %d, or others", i, len(rows), len(fresh))
				}
				all = append(all, rows)
			}
			if rows := table.kept(Query{Peels: map[target.PeelID]bool{}, By: ByPeel}); len(rows) > 0 {
				t.Errorf("%d rows of no peel", len(rows))
			}
			if hours := table.hoursBy(some); !reflect.DeepEqual(table.keptHours(some), hours) {
				t.Errorf("hours are kept that the table has not: %v", hours)
			}
			return all
		}
		for i := range 5 {
			join(i, 2)
		}
		first := kept()
		for i, again := range kept() {
			if &again[0] != &first[i][0] {
				t.Errorf("query %d is not kept", i)
			}
		}

		join(0, 1) // has the entry no more
		rows := kept()
		if !slices.Contains(rows[0], first[0][1]) || len(rows[0]) != 4 || len(first[0]) != 5 {
			t.Errorf("%d rows: those of peels that are as they were are not kept", len(rows[0]))
		}
		join(0, 2)
		join(2, 3)
		join(9, 2)
		kept()
		table.away(table.peels[fleetPeel(1).Wire()], now.Add(time.Hour))
		kept()
		table.onReportRemoved(fleetPeel(2).Wire())
		kept()
		table.onDocumentRemoved(fleetPeel(2).Wire())
		if rows := kept(); len(rows[1]) != 2 {
			t.Errorf("%d rows of two peels", len(rows[1]))
		}

		for i := range 2 * maxScans {
			table.keptHours(map[target.PeelID]bool{fleetPeel(i): true})
		}
		if n := len(table.scans.list); n != maxScans {
			t.Errorf("%d scans are kept", n)
		}
		table.scans.add(&scan{rows: make([]*Row, maxScanRows+1), until: now.Add(keptTime)})
		if n := len(table.scans.list); n != maxScans {
			t.Errorf("%d scans are kept beside one that is too large", n)
		}
		kept()
		time.Sleep(keptTime)
		synctest.Wait()
		if n := len(table.scans.list); n != 0 {
			t.Errorf("%d scans are kept for longer than %v", n, keptTime)
		}
	})
}
