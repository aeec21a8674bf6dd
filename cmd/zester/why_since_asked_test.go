package main

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// Of the fires before the runs with commits, those that ran count, each once, and no more than there is room for.
func TestFiresThatRanCountAsRunsWithoutACommit(t *testing.T) {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	run := func(at time.Duration, outcome ledger.Outcome, count int) ledger.Run {
		return ledger.Run{
			Fire: ledger.Fire{Nominal: noon.Add(at), Outcome: outcome}, Count: count, Step: 10 * time.Minute,
		}
	}
	list := []ledger.Run{
		run(0, ledger.Ran, 2), run(20*time.Minute, ledger.Skipped, 1), run(30*time.Minute, ledger.Interrupted, 1),
		run(40*time.Minute, ledger.Missed, 1), run(50*time.Minute, ledger.Failed, 5),
		run(2*time.Hour, ledger.Pending, 1),
	}
	hour := run(-time.Hour, ledger.Ran, 200)
	hour.Hour = true
	for most, want := range map[int][]string{
		100: {"12:00 true", "12:10 true", "12:30 false", "12:50 false", "13:00 false"},
		3:   {"12:00 true", "12:10 true", "12:30 false"},
	} {
		var got []string
		for _, r := range runsBefore("web-01", append(list, hour), noon.Add(70*time.Minute), most) {
			if r.Peel != "web-01" || r.Commit != "" || !r.Nominal.Equal(r.Started) {
				t.Errorf("%+v", r)
			}
			word := "false"
			if r.Good {
				word = "true"
			}
			got = append(got, r.Started.Format("15:04 ")+word)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
