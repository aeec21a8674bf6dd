package coverage

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

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
				rows, err := table.kept(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				if fresh := sorted(table.present(q)); !reflect.DeepEqual(rows, fresh) {
					t.Errorf("query %d: %d rows are kept, the table has %d, or others", i, len(rows), len(fresh))
				}
				all = append(all, rows)
			}
			rows, err := table.kept(t.Context(), Query{Peels: map[target.PeelID]bool{}, By: ByPeel})
			if len(rows) > 0 || err != nil {
				t.Errorf("%d rows of no peel, %v", len(rows), err)
			}
			hours, err := table.keptHours(t.Context(), some)
			if fresh := table.hoursBy(some); !reflect.DeepEqual(hours, fresh) || err != nil {
				t.Errorf("hours %v are kept, the table has %v: %v", hours, fresh, err)
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
			if _, err := table.keptHours(t.Context(), map[target.PeelID]bool{fleetPeel(i): true}); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(table.scans.places); n != maxScans {
			t.Errorf("%d scans are kept", n)
		}
		table.scans.note(table.scans.at(scanKey{entries: "large"}, nil), maxScanRows+1)
		if n := len(table.scans.places); n != maxScans-1 {
			t.Errorf("%d scans are kept beside one that is too large", n)
		}
		for _, name := range []string{"half", "other half"} {
			table.scans.note(table.scans.at(scanKey{entries: name}, nil), maxScanRows/2+1)
		}
		if n := len(table.scans.places); n != 1 {
			t.Errorf("%d scans are kept where there is room for one", n)
		}
		kept()
		time.Sleep(keptTime)
		synctest.Wait()
		if n := len(table.scans.places); n != 0 {
			t.Errorf("%d scans are kept for longer than %v", n, keptTime)
		}
	})
}

// TestOneScanAtATime: those who ask for a scan that is made wait for it, as long as they have time, and others do not.
func TestOneScanAtATime(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		table := fleetTable(t, b.Conn(t, grants.RoleMaster, "m1"))
		key, made, proceed := scanKey{entries: "slow"}, 0, make(chan struct{})
		slow := func(ctx context.Context) error {
			_, err := table.scan(ctx, key, Query{}, func(*scan) { made++; <-proceed })
			return err
		}
		var asking errgroup.Group
		for range 3 {
			asking.Go(func() error { return slow(t.Context()) })
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := slow(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one who has a second waits until %v", err)
		}
		if _, err := table.kept(t.Context(), Query{By: ByPeel}); err != nil {
			t.Error(err)
		}
		close(proceed)
		if err := asking.Wait(); err != nil || made != 1 {
			t.Errorf("the scan is made %d times: %v", made, err)
		}
	})
}
