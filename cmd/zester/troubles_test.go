package main

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	verdictpkg "github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

func TestTroublesOfSchedulesAreShownBesideThePeel(t *testing.T) {
	rows := []api.CoverageRow{
		{Peel: "a", Counts: verdictpkg.Counts{Expected: 9, Ran: 9}},
		{Peel: "b", Counts: verdictpkg.Counts{Expected: 9, Ran: 7, Failed: 3, Missed: 2}},
		{Peel: "c", NotReporting: true},
	}
	list := func() table {
		return table{header: []string{"PEEL", "ONLINE"}, rows: [][]string{{"a", "yes"}, {"b", "yes"}, {"c", "no"}}}
	}
	some := troublesIn(rows, time.Time{})
	if got, want := some.String(), "fires missed on 1 peel, runs failed on 1 peel, no report on 1 peel in the last day"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got := some.addTo(list())
	if !slices.Equal(got.header, []string{"PEEL", "ONLINE", "SCHEDULE"}) || got.rows[0][2] != "" || got.rows[1][2] != "2 missed, 3 failed" || got.rows[2][2] != "not reporting" {
		t.Errorf("%q %q", got.header, got.rows)
	}
	none := troublesIn(rows[:1], time.Time{})
	if got := none.addTo(list()); len(got.header) != 2 || none.String() != "" {
		t.Errorf("nothing is wrong: %q, %q", got.header, none)
	}
	if got := (scheduleTroubles{err: errors.New("behind")}).String(); got != "not known: behind" {
		t.Errorf("%q", got)
	}
}
