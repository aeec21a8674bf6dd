package coverage

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// scrape returns the lines without comments of a table with this health and these summaries.
func scrape(t testing.TB, h verdict.Health, all ...verdict.Summary) (lines []string) {
	t.Helper()
	return scrapeSource(t, MetricsSource{
		Health: func() verdict.Health { return h }, Summaries: func() []verdict.Summary { return all },
		Problems: func() []verdict.Problem { return nil },
	})
}

func scrapeSource(t testing.TB, s MetricsSource) (lines []string) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(NewCollector(s))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %.500s", w.Code, w.Body)
	}
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

var (
	day    = time.Date(2026, 11, 23, 2, 0, 0, 0, time.UTC)
	backup = verdict.Summary{
		Entry:       "backup",
		Counts:      verdict.Counts{Expected: 20, Ran: 12, Failed: 5, Late: 2, Overran: 1, Skipped: 4, Missed: 3, Unknown: 1, Unexpected: 6},
		Skips:       map[string]uint64{"paused": 1, "Not A Reason": 1, "other": 2},
		States:      map[string]int{"active": 2, "paused_errors": 1, "a state of a later version": 1, "nonsense": 1},
		Problems:    map[verdict.Kind]int{verdict.Missed: 2, verdict.Failed: 1},
		LastSuccess: day, NextFire: day.Add(24 * time.Hour),
		Durations: []uint64{0, 1, 2, 2, 2, 10, 11, 11, 11}, Sum: time.Hour, Runs: 12,
	}
)

func TestAnEntryHasTheMetricsOfItsSummary(t *testing.T) {
	got := scrape(t, verdict.Health{Ready: true, Peels: 7, Reporting: 5, Entries: 5, Refused: 9}, backup)
	want := strings.Split(`zester_coverage_disagreeing_peels 0
zester_coverage_left_out 0
zester_coverage_peels{state="not_reporting"} 2
zester_coverage_peels{state="reporting"} 5
zester_coverage_ready 1
zester_coverage_reports_refused_total 9
zester_entry_duration_seconds_bucket{entry="backup",le="+Inf"} 12
zester_entry_duration_seconds_bucket{entry="backup",le="0.1"} 0
zester_entry_duration_seconds_bucket{entry="backup",le="1"} 1
zester_entry_duration_seconds_bucket{entry="backup",le="15"} 2
zester_entry_duration_seconds_bucket{entry="backup",le="21600"} 11
zester_entry_duration_seconds_bucket{entry="backup",le="300"} 10
zester_entry_duration_seconds_bucket{entry="backup",le="3600"} 11
zester_entry_duration_seconds_bucket{entry="backup",le="5"} 2
zester_entry_duration_seconds_bucket{entry="backup",le="60"} 2
zester_entry_duration_seconds_bucket{entry="backup",le="900"} 11
zester_entry_duration_seconds_count{entry="backup"} 12
zester_entry_duration_seconds_sum{entry="backup"} 3600
zester_entry_expected_total{entry="backup"} 20
zester_entry_last_success_timestamp_seconds{entry="backup"} 1.7953992e+09
zester_entry_late_total{entry="backup"} 2
zester_entry_missed_total{entry="backup"} 3
zester_entry_next_fire_timestamp_seconds{entry="backup"} 1.7954856e+09
zester_entry_peels{entry="backup",state="active"} 2
zester_entry_peels{entry="backup",state="other"} 2
zester_entry_peels{entry="backup",state="paused_errors"} 1
zester_entry_problems{entry="backup",problem="disagrees"} 0
zester_entry_problems{entry="backup",problem="failed"} 1
zester_entry_problems{entry="backup",problem="late"} 0
zester_entry_problems{entry="backup",problem="missed"} 2
zester_entry_problems{entry="backup",problem="overran"} 0
zester_entry_problems{entry="backup",problem="paused"} 0
zester_entry_runs_total{entry="backup",result="failed"} 5
zester_entry_runs_total{entry="backup",result="ok"} 7
zester_entry_skipped_total{entry="backup",reason="other"} 3
zester_entry_skipped_total{entry="backup",reason="paused"} 1`, "\n")
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) {
			t.Errorf("not expected: %s", line)
		}
	}
}

func TestATableThatIsNotReadyOrBehindShowsNoEntry(t *testing.T) {
	for name, h := range map[string]verdict.Health{
		"not ready": {Peels: 3, Reporting: 3, Refused: 1},
		"behind":    {Ready: true, Behind: day, Peels: 3, Reporting: 3, Refused: 1},
	} {
		got := strings.Join(scrape(t, h, backup), "\n")
		if want := "zester_coverage_ready 0\nzester_coverage_reports_refused_total 1"; got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestAnEntryThatNeverSucceededAndNeverFires(t *testing.T) {
	got := scrape(t, verdict.Health{Ready: true}, verdict.Summary{Entry: "new"})
	if !slices.Contains(got, `zester_entry_last_success_timestamp_seconds{entry="new"} 0`) {
		t.Error(strings.Join(got, "\n"))
	}
	for _, line := range got {
		if strings.Contains(line, "next_fire") {
			t.Error(line)
		}
	}
}

func TestNamesAndReasonsAreBounded(t *testing.T) {
	all := []verdict.Summary{{Entry: "bad\xff", States: map[string]int{"active": 9}}, {Entry: "worse\xff", States: map[string]int{"active": 9}}}
	for i := range MaxMetricEntries + 50 {
		all = append(all, verdict.Summary{
			Entry: fmt.Sprintf("e%05d", i), States: map[string]int{"active": 1},
			Skips: map[string]uint64{fmt.Sprint("r", i): 1, "window": 2},
		})
	}
	all = append(all, verdict.Summary{Entry: "zzz", States: map[string]int{"active": 2}}) // on two peels, so it stays
	before := all[0].Entry
	entries, reasons, left := map[string]bool{}, map[string]bool{}, ""
	for _, line := range scrape(t, verdict.Health{Ready: true}, all...) {
		name, rest, _ := strings.Cut(line, "{")
		switch {
		case strings.HasPrefix(line, "zester_coverage_left_out"):
			left = line
		case name == "zester_entry_expected_total":
			entries[rest] = true
		case name == "zester_entry_skipped_total":
			_, reason, _ := strings.Cut(rest, "reason=")
			reason, _, _ = strings.Cut(reason, "}")
			reasons[reason] = true
		}
	}
	if len(entries) != MaxMetricEntries || !entries[`entry="zzz"} 0`] || left != "zester_coverage_left_out 53" {
		t.Errorf("%d entries, zzz is there: %v; %s", len(entries), entries[`entry="zzz"} 0`], left)
	}
	if len(reasons) != maxMetricReasons+1 || !reasons[`"window"`] || !reasons[`"other"`] {
		t.Errorf("%d reasons: %v", len(reasons), reasons)
	}
	if all[0].Entry != before {
		t.Error("the table's slice was sorted")
	}
}

func TestWithALabelForEachPeelTheGaugesAreOfPeels(t *testing.T) {
	problem := func(kind verdict.Kind, entry string, peel target.PeelID) verdict.Problem {
		return verdict.Problem{Kind: kind, Entry: entry, Peel: peel}
	}
	source := MetricsSource{
		Health:    func() verdict.Health { return verdict.Health{Ready: true, Peels: 3, Reporting: 3} },
		Summaries: func() []verdict.Summary { return []verdict.Summary{backup} },
		Problems: func() []verdict.Problem {
			return []verdict.Problem{
				problem(verdict.Disagrees, "", "db-01"), problem(verdict.Disagrees, "", "db-02"), problem(verdict.NotReporting, "", "db-03"),
				problem(verdict.Missed, "backup", "db-01"), problem(verdict.Missed, "backup", "db-01"), problem(verdict.Failed, "backup", "db-02"),
				problem(verdict.Failed, "elsewhere", "db-01"), problem(verdict.Disagrees, "elsewhere", "db-01"),
			}
		},
		Cells: func(Query) ([]Cell, error) {
			return []Cell{
				{Entry: "backup", Peel: "db-01", State: "active", Next: day, Succeeded: day.Add(time.Second)},
				{Entry: "backup", Peel: "db-02", State: "sleeping"},
				{Entry: "backup", Peel: "db-03"},
				{Entry: "bad\xff", Peel: "db-03", State: "active"},
			}, nil
		},
	}
	lines := scrapeSource(t, source)
	var got []string
	for _, line := range lines {
		if strings.Contains(line, "peel=") || strings.HasPrefix(line, "zester_coverage_left_out") || strings.HasPrefix(line, "zester_coverage_dis") {
			got = append(got, line)
		}
	}
	want := strings.Split(`zester_coverage_disagreeing_peels 2
zester_coverage_left_out 1
zester_entry_last_success_timestamp_seconds{entry="backup",peel="db-01"} 1.795399201e+09
zester_entry_last_success_timestamp_seconds{entry="backup",peel="db-02"} 0
zester_entry_next_fire_timestamp_seconds{entry="backup",peel="db-01"} 1.7953992e+09
zester_entry_peels{entry="backup",peel="db-01",state="active"} 1
zester_entry_peels{entry="backup",peel="db-02",state="other"} 1
zester_entry_problems{entry="backup",peel="db-01",problem="missed"} 1
zester_entry_problems{entry="backup",peel="db-02",problem="failed"} 1`, "\n")
	if !slices.Equal(got, want) {
		t.Errorf("\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if !slices.Contains(lines, `zester_entry_missed_total{entry="backup"} 3`) || slices.Contains(lines, `zester_entry_peels{entry="backup",state="active"} 2`) {
		t.Error(strings.Join(lines, "\n"))
	}
	source.Cells = func(Query) ([]Cell, error) {
		all := make([]Cell, MaxMetricPairs+5)
		for i := range all {
			all[i] = Cell{Entry: "backup", Peel: target.PeelID(fmt.Sprint("p", i)), State: "active"}
		}
		return all, nil
	}
	if lines := scrapeSource(t, source); !slices.Contains(lines, "zester_coverage_left_out 5") {
		t.Error("the pairs that are left out are not counted")
	}
	source.Cells = func(Query) ([]Cell, error) { return nil, ErrBehind }
	for _, line := range scrapeSource(t, source) {
		if strings.Contains(line, "peel=") {
			t.Error(line)
		}
	}
}

// BenchmarkCollect is one collection of 10,000 entries.
func BenchmarkCollect(b *testing.B) {
	all := make([]verdict.Summary, MaxMetricEntries)
	for i := range all {
		all[i] = backup
		all[i].Entry = fmt.Sprint("e", i)
	}
	c := NewCollector(MetricsSource{
		Health: func() verdict.Health { return verdict.Health{Ready: true} }, Summaries: func() []verdict.Summary { return all },
		Problems: func() []verdict.Problem { return nil },
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
