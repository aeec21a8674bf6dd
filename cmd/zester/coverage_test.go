package main

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
)

func TestWhatTheCountsOfCoverageLack(t *testing.T) {
	from := time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC)
	since := "fires since " + clock(from) + ", by the table of master m1"
	for _, c := range []struct {
		peels, reporting int
		unread           []time.Time
		want             string
	}{
		{3, 3, nil, since + ": all peels report"},
		{3, 2, nil, since + "\n1 of 3 peels does not report: their fires are unknown until they do"},
		{3, 3, []time.Time{from, from.Add(time.Hour)}, since + ": all peels report\nnot complete: the master cannot read the stored counts of 2 hours from " + clock(from) + " on;\nthey are damaged, or a newer version wrote them"},
	} {
		got := coverageSource(&api.Coverage{Master: "m1", From: from, Peels: c.peels, Reporting: c.reporting, Unread: c.unread})
		if got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// A row by peel has the reason in a line below the table, as it is longer than a column.
func TestCoverageNamesThePeelsThatDisagree(t *testing.T) {
	var out strings.Builder
	a := &app{out: &out, output: formTable, columns: 80, colour: "never"}
	c := &api.Coverage{Master: "m1", Peels: 2, Reporting: 2, Rows: []api.CoverageRow{
		{Peel: "web-01"}, {Peel: "web-02", Disagrees: "clock: it is 5m0s ahead"},
	}}
	if err := a.printCoverage(c, coverageQuery{by: "peel"}); err != nil {
		t.Fatal(err)
	}
	const want = "\nweb-02 disagrees with Git or the master: clock: it is 5m0s ahead\n"
	if !strings.Contains(out.String(), want) || strings.Count(out.String(), "disagrees") != 1 {
		t.Errorf("it prints\n%s", &out)
	}
}
