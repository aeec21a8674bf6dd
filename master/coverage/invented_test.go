package coverage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/history"
	"github.com/seed-c01c3da5/zester/master/coverage/judge"
	"github.com/seed-c01c3da5/zester/master/coverage/metrics"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A peel reports entries that its settings do not have: names of its own, and that of an entry of another host. It says that they
// are of its settings, of its peel.yaml, or of settings that masters do not know.
func TestEntriesThatAPeelInventsChangeNoFigureOfTheFleet(t *testing.T) {
	for claim, c := range map[string]struct {
		local   bool
		digest  string
		refused uint64
		rows    int // of the peel
	}{
		"of its settings":      {refused: 1, rows: 1},
		"of peel.yaml":         {local: true, rows: 52},
		"of other settings":    {digest: "none", rows: 52},
		"of both at the first": {local: true, digest: "none", rows: 52},
	} {
		t.Run(claim, func(t *testing.T) {
			bubble(t, func(t *rig) {
				table, _ := t.master()
				good := t.host("db-1", t.document("db-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
				evil := t.host("web-1", t.document("web-1", map[string]map[string]any{"report": cron("0 0 * * *")}))
				t.until("00:31", "db-1", "web-1")
				good.ran("backup", "00:05", "00:30", five)
				good.report(0)
				evil.entry("report")
				evil.count("backup", hhmm(t, "00:25"), wire.FireCounts{Missed: 7})
				for i := range 50 {
					evil.count(fmt.Sprintf("x-%02d", i), hhmm(t, "00:25"), wire.FireCounts{Ran: 1 << 30})
				}
				for i := range evil.state.Entries {
					e := &evil.state.Entries[i]
					e.Local = c.local && e.Name != "report"
					e.Problems = []wire.FireReport{{Nominal: hhmm(t, "00:25"), Result: wire.FireMissed}}
				}
				if c.digest != "" {
					evil.state.Digest = c.digest
				}
				evil.report(0)
				evil.count("backup", hhmm(t, "00:25"), wire.FireCounts{Missed: 7})
				evil.report(0)

				for _, s := range table.Summaries() {
					if s.Entry != "report" && s.Entry != "backup" || s.Entry == "backup" && (s.Counts.Missed > 0 || s.States["active"] != 1 || s.Problems[verdict.Missed] > 0) {
						t.Errorf("the fleet has %+v", s)
					}
				}
				rows, _, err := table.Rows(t.Context(), coverage.Query{By: coverage.ByEntry})
				if err != nil || len(rows) != 2 || rows[0].Peels != 1 || rows[0].Counts.Missed > 0 {
					t.Errorf("entries of the fleet are %+v, %v", rows, err)
				}
				cells, err := table.Cells(coverage.Query{})
				if err != nil || len(cells) != c.rows+1 {
					t.Errorf("%d entries on peels, want %d, %v", len(cells), c.rows+1, err)
				}
				if n := table.Health().Refused; n != 2*c.refused {
					t.Errorf("%d reports refused, want %d", n, 2*c.refused)
				}
				registry := prometheus.NewPedanticRegistry()
				registry.MustRegister(metrics.New(metrics.Source{Health: table.Health, Summaries: table.Summaries, Problems: table.Problems, Cells: table.Cells}))
				families, err := registry.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range families {
					if f.GetName() == "zester_entry_peels" && len(f.GetMetric()) != 2 {
						t.Errorf("%v", f)
					}
				}
				t.alive(6*time.Minute, "db-1", "web-1")
				_, err = history.Open(t.js).Read(t.Context(), []int64{judge.HourOf(hhmm(t, "00:25"))}, func(_ int64, cells []history.Cell) {
					for _, c := range cells {
						if c.Entry == "backup" && c.Peel != "db-1" || c.Entry != "backup" && c.Entry != "report" {
							t.Errorf("the history has %+v", c)
						}
					}
				})
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
}
