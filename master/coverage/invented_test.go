package coverage_test

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// A peel reports entries that its settings do not have: names of its own, and that of an entry of another host. It says that they
// are of its peel.yaml, that its settings had them, that they have more entries than masters know, or that it has other settings.
func TestEntriesThatAPeelInventsChangeNoFigureOfTheFleet(t *testing.T) {
	for claim, c := range map[string]struct {
		state   string
		place   bool // by a place beyond the last
		digest  string
		refused uint64
		rows    int // of the peel
	}{
		"of peel.yaml":          {rows: 52},
		"that were removed":     {state: "removed", refused: 1, rows: 1},
		"at places of nobody":   {place: true, refused: 1, rows: 1},
		"of other settings":     {digest: "none", rows: 52},
		"by places in no known": {place: true, digest: "none", rows: 1},
	} {
		t.Run(claim, func(t *testing.T) {
			bubble(t, func(t *rig) {
				table, _ := t.master()
				good := t.host("db-1", t.document("db-1", map[string]map[string]any{"backup": cron("*/5 * * * *")}))
				evil := t.host("web-1", t.document("web-1", map[string]map[string]any{"report": cron("0 0 * * *")}))
				t.until("00:31", "db-1", "web-1")
				good.ran("backup", "00:05", "00:30", five)
				good.report(0)
				send := func() {
					evil.entry("report")
					evil.fire("backup", hhmm(t, "00:25"), ledger.Fire{Outcome: ledger.Missed, Why: ledger.DeadlineExceeded})
					for i := range 50 {
						evil.fire(fmt.Sprintf("x-%02d", i), hhmm(t, "00:25"), ledger.Fire{Outcome: ledger.Ran})
					}
					evil.build(0)
					for i := range evil.state.Entries {
						e := &evil.state.Entries[i]
						if e.Name == "" {
							continue
						}
						e.State = cmp.Or(c.state, e.State)
						if c.place {
							e.Name, e.Place = "", 1+i
						}
					}
				}
				if c.digest != "" {
					evil.state.Digest = c.digest
				}
				send()
				evil.send()
				evil.send()

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
				registry.MustRegister(coverage.NewCollector(coverage.MetricsSource{Health: table.Health, Summaries: table.Summaries, Problems: table.Problems, Cells: table.Cells}))
				families, err := registry.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range families {
					known := 2
					if c.digest != "" {
						known = 1 // a place in a document that is not known is no entry
					}
					if f.GetName() == "zester_entry_peels" && len(f.GetMetric()) != known {
						t.Errorf("%v", f)
					}
				}
				t.alive(6*time.Minute, "db-1", "web-1")
				_, err = coverage.OpenHistory(t.js).Read(t.Context(), []int64{join.HourOf(hhmm(t, "00:25"))}, func(_ int64, cells []coverage.HistoryCell) {
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
