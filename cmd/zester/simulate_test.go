package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler/simulate"
)

// The tables of a simulation fit terminals of 80 and 120 columns.
func TestTheTablesOfASimulationFitTheTerminal(t *testing.T) {
	from := time.Date(2026, 3, 25, 0, 0, 0, 0, time.UTC)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	r := &simulate.Result{
		From: from, Until: from.AddDate(0, 0, 90), Peels: 1200, Hours: make([]simulate.Hour, 24*90),
		Entries: []simulate.Entry{
			{
				Name: "backup-of-the-database", Peels: 200, Takes: 90 * time.Minute, Runs: 17_640, Peak: 184, Missed: 412, CaughtUp: 198, Waited: 31, Late: 12, Cut: 2, Interrupted: 5,
				Skips: map[ledger.Reason]simulate.Skips{
					ledger.AlreadyRunning: {Fires: 104, First: from.Add(9 * time.Hour), Peel: "db-frankfurt-eu-central-1-0017"},
					ledger.InBlackout:     {Fires: 2400, First: from.Add(26 * time.Hour), Peel: "db-01"},
				},
			},
			{Name: "ping", Peels: 1200, Takes: time.Second, Runs: 1_296_000, Peak: 1200},
		},
		Worst: []simulate.Minute{{At: from.Add(26 * time.Hour), Runs: 1384, InFlight: 1568, Contributions: []simulate.Contribution{{Entry: "ping", Runs: 1200}, {Entry: "backup-of-the-database", Runs: 184}}}},
	}
	r.Hours[3] = simulate.Hour{Runs: 1_313_640, Peak: 1384, InFlight: 1568}
	changes := []simulate.ClockChange{{
		Entry: "backup-of-the-database", Zone: "Europe/Berlin", At: time.Date(2026, 3, 29, 3, 0, 0, 0, berlin), Shift: time.Hour,
		Wall: []string{"02:15", "02:30"}, Fires: []time.Time{time.Date(2026, 3, 29, 3, 0, 0, 0, berlin)},
	}}
	out := simulationOf(r, changes, map[string]time.Duration{"ping": time.Second}, "UTC")
	if out.Entries[0].Measured || !out.Entries[1].Measured || out.Runs != 1_313_640 {
		t.Errorf("%+v", out)
	}
	for _, columns := range []int{80, 120} {
		var got bytes.Buffer
		a := &app{out: &got, errOut: &got, output: formTable, columns: columns, colour: "never"}
		if err := a.simulationTables(out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(got.String()) {
			if n := len([]rune(line)) - 1; n > columns {
				t.Errorf("on %d columns a line takes %d: %s", columns, n, line)
			}
		}
		compareGolden(t, fmt.Sprintf("testdata/screens/simulate%d.txt", columns), got.Bytes())
	}
}
