package scheduler_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
)

// Cases of Salt's scheduler (tests/pytests/unit/utils/scheduler/test_skip.py), the ones that
// settings/schedule/testdata/semantic.json has and only a running scheduler can answer.
func TestCasesOfSalt(t *testing.T) {
	const day = "2017-11-29 "
	for id, c := range map[string]struct {
		from, fields string
		skip         string // when somebody skips the next fire
		ran          []string
		skips        map[ledger.Reason]uint64
	}{
		"salt-0001": {
			from: "15:59:00", fields: `at: ["2017-11-29T16:00:00Z", "2017-11-29T17:00:00Z"]`, skip: "15:59:30",
			ran: []string{"17:00:00"}, skips: map[ledger.Reason]uint64{ledger.SkippedOnce: 1},
		},
		"salt-0002": {
			from: "12:30:00", fields: `interval: 1h, max_runs: 2, blackout: "2017-11-29T14:00:00Z/2017-11-29T15:00:00Z"`,
			ran: []string{"13:30:00", "15:30:00"}, skips: map[ledger.Reason]uint64{ledger.InBlackout: 1},
		},
		// Salt looks once a second and runs it at 15:00:01; here it runs as the blackout ends.
		"salt-0004": {
			from: "13:00:00", fields: `at: "2017-11-29T14:30:00Z", outside: defer, blackout: "2017-11-29T14:00:00Z/2017-11-29T15:00:00Z"`,
			ran: []string{"15:00:00"},
		},
		"salt-0005": {
			from: "14:00:00", fields: "interval: 10s, max_runs: 2", skip: "14:00:15",
			ran: []string{"14:00:10", "14:00:30"}, skips: map[ledger.Reason]uint64{ledger.SkippedOnce: 1},
		},
	} {
		t.Run(id, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startAt(t, "UTC", day+c.from)
				defer h.shut()
				h.apply(one(t, c.fields))
				if c.skip != "" {
					at, err := time.Parse(time.DateTime, day+c.skip)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Until(at))
					if _, err := h.Skip(t.Context(), "e", scheduler.Override{}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(8 * time.Hour)
				var ran []string
				for _, f := range h.all() {
					ran = append(ran, f.Started.Format(time.TimeOnly))
				}
				if !slices.Equal(ran, c.ran) {
					t.Errorf("ran at %v, want %v", ran, c.ran)
				}
				if skips := h.entry("e").Skips; !maps.Equal(skips, c.skips) {
					t.Errorf("skipped %v, want %v", skips, c.skips)
				}
			})
		})
	}
}
