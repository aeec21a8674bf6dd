package main

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	found "github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// The screens in testdata are what zester coverage prints on terminals of three widths.
func TestCoverageOnTerminalsOfThreeWidths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now().UTC()
		c := &api.Coverage{Master: "m1", From: now.Add(-24 * time.Hour).Truncate(time.Hour), Now: now, Peels: 5, Reporting: 4, Rows: []api.CoverageRow{
			{Entry: "backup", Peels: 5, Counts: found.Counts{Expected: 120, Ran: 96, Failed: 2, Late: 3, Skipped: 8, Missed: 4, Unknown: 12}, Cause: "likely commit 9b1c8f0e by Ada: 2 of 2 runs failed with it, 0 of 94 without"},
			{Entry: "rotate-the-logs-of-all-services", Peels: 3, Counts: found.Counts{Expected: 72, Ran: 72}},
			{Entry: "yearly", Peels: 1, Counts: found.Counts{Overran: 1, Unexpected: 2}},
		}}
		one := &api.Coverage{Master: "m1", From: c.From, Now: now, Peels: 2, Reporting: 1, Rows: []api.CoverageRow{
			{Entry: "backup", Peel: "db-01", State: "paused_errors", Why: "5 runs in a row failed", Counts: found.Counts{Expected: 24, Ran: 20, Failed: 5, Missed: 4}, LastSuccess: now.Add(-7 * time.Hour)},
			{Entry: "backup", Peel: "db-02", State: "active", NotReporting: true, Counts: found.Counts{Expected: 24, Ran: 12, Unknown: 12}},
		}}
		peels := &api.Coverage{Master: "m1", From: c.From, Now: now, Peels: 1, Reporting: 1, Rows: []api.CoverageRow{{Peel: "db-01", Counts: found.Counts{Expected: 48, Ran: 48}}}}
		for _, columns := range []int{80, 120, 200} {
			var got bytes.Buffer
			for _, form := range []form{formTable, formWide} {
				a := &app{out: &got, errOut: &got, output: form, columns: columns, colour: "never"}
				for _, shown := range []struct {
					name string
					c    *api.Coverage
					q    coverageQuery
				}{
					{"coverage", c, coverageQuery{by: "entry"}},
					{"coverage --by peel", peels, coverageQuery{by: "peel"}},
					{"coverage --entry backup --by peel", one, coverageQuery{by: "peel", entry: "backup"}},
				} {
					fmt.Fprintf(&got, "$ zester %s -o %s\n", shown.name, form)
					if err := a.printCoverage(shown.c, shown.q); err != nil {
						t.Error(err)
					}
					fmt.Fprintln(&got)
				}
			}
			compareGolden(t, fmt.Sprintf("testdata/screens/coverage%d.txt", columns), got.Bytes())
		}
	})
}
