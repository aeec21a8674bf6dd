package main

import (
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
