package coverage

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// largeTable returns a table with 10,000 peels of 20 entries each, as if all reports had been read.
func largeTable(b *testing.B) *Table {
	b.Helper()
	bus := natstest.Listen(b)
	table := fleetTable(b, bus.Conn(b, grants.RoleMaster, "m1"))
	now := time.Now()
	for i := range fleetPeels {
		document, report := fleetMessages(b, fleetPeel(i), now, 20)
		table.onDocument(document)
		table.onReport(report)
	}
	b.ReportAllocs()
	b.ResetTimer()
	return table
}

// BenchmarkRows is what GET /coverage without a target takes.
func BenchmarkRows(b *testing.B) {
	table := largeTable(b)
	q := Query{Since: time.Now().Add(-24 * time.Hour)}
	for b.Loop() {
		if rows := table.present(q); len(rows) != 20 {
			b.Fatal(len(rows))
		}
	}
}

// BenchmarkEntry is what the page of one entry asks of its peels.
func BenchmarkEntry(b *testing.B) {
	table := largeTable(b)
	q := Query{Since: time.Now().Add(-24 * time.Hour), By: ByPeelAndEntry, Entry: func(name string) bool { return name == "entry-07" }}
	for b.Loop() {
		if rows := sorted(table.present(q)); len(rows) != fleetPeels {
			b.Fatal(len(rows))
		}
	}
}

// BenchmarkHealth is what each step of the alerts takes beside the problems.
func BenchmarkHealth(b *testing.B) {
	table := largeTable(b)
	for b.Loop() {
		if h := table.Health(); h.Peels != fleetPeels {
			b.Fatal(h.Peels)
		}
	}
}

// BenchmarkAhead is the plan of the next twelve hours.
func BenchmarkAhead(b *testing.B) {
	table := largeTable(b)
	for b.Loop() {
		if ahead := table.Ahead(12, nil); ahead[0].Expected != 20*12*fleetPeels {
			b.Fatal(ahead[0])
		}
	}
}

// BenchmarkHours is a day of the fleet by the hour.
func BenchmarkHours(b *testing.B) {
	table := largeTable(b)
	for b.Loop() {
		if hours, err := table.hourly(b.Context(), 0, Query{}); err != nil || len(hours) < 24 {
			b.Fatal(len(hours), err)
		}
	}
}

// BenchmarkWrong is what is wrong with the fleet, which Now, its parts and the navigation ask for.
func BenchmarkWrong(b *testing.B) {
	table := largeTable(b)
	for b.Loop() {
		if w := table.wrong(nil); w.Well+w.Peels[verdict.NotReporting] != fleetPeels {
			b.Fatalf("%d peels are well: %v", w.Well, w.Peels)
		}
	}
}
