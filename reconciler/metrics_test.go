package reconciler

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// scrape returns the lines of m without comments.
func scrape(t *testing.T, m *Metrics) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func (m *Metrics) has(t *testing.T, want ...string) {
	t.Helper()
	lines := scrape(t, m)
	for _, line := range want {
		if !slices.Contains(lines, line) {
			t.Errorf("no %s in\n%s", line, strings.Join(lines, "\n"))
		}
	}
}

var started = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestTheLeaderShowsItsStatusAndTheOthersNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMetrics()
		m.Attempted()
		m.Failed("Unreachable")
		m.Took(Fetch, 3*time.Second)
		counted := []string{
			"zester_sync_attempts_total 1", `zester_sync_failures_total{reason="Unreachable"} 1`,
			`zester_sync_duration_seconds_count{step="fetch"} 1`, `zester_sync_duration_seconds_bucket{step="fetch",le="2"} 0`, `zester_sync_duration_seconds_bucket{step="fetch",le="5"} 1`,
			`zester_sync_duration_seconds_count{step="compile"} 0`, `zester_sync_duration_seconds_count{step="publish"} 0`, `zester_sync_duration_seconds_count{step="converge"} 0`,
		}
		m.has(t, append(counted, "zester_sync_leader 0")...)
		before := scrape(t, m)
		s := status.Sync{
			Observed: "c2", LastAttempted: "c2", LastGood: status.Revision{Commit: "c1", Since: started}, Read: started.Add(1500 * time.Millisecond), Written: status.Written{Generation: 7},
			Holds: status.Holds{Pinned: &status.Pin{Commit: "c1"}}, Rollout: &status.Rollout{Wave: 2},
			Conditions: []status.Condition{{Type: status.Suspended, Status: true}, {Type: status.FetchFailed}},
			Counts:     status.Counts{Peels: 10, Applied: 4, Pending: 3, Failed: 2, Offline: 1}, HostCounts: status.HostCounts{status.HostFailed: 2, status.HostClean: 0},
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- m.Run(ctx, func() View { return View{Sync: s} }) }()
		synctest.Wait()
		m.has(t, append(counted,
			"zester_sync_leader 1", "zester_sync_last_success_timestamp_seconds 1.7953488015e+09", "zester_sync_in_force_timestamp_seconds 1.7953488e+09",
			`zester_sync_revision_info{commit="c2",role="observed"} 1`, `zester_sync_revision_info{commit="c2",role="attempted"} 1`,
			`zester_sync_revision_info{commit="c1",role="in_force"} 1`, `zester_sync_revision_info{commit="c1",role="pinned"} 1`,
			"zester_sync_up_to_date 0", "zester_sync_generation 7", "zester_sync_rollout_wave 2",
			`zester_sync_condition{type="Suspended"} 1`, `zester_sync_condition{type="FetchFailed"} 0`, `zester_sync_condition{type="Stalled"} 0`,
			`zester_peels{state="applied"} 4`, `zester_peels{state="pending"} 3`, `zester_peels{state="failed"} 2`, `zester_peels{state="offline"} 1`,
			`zester_state_peels{state="failed"} 2`, `zester_state_peels{state="clean"} 0`)...)
		cancel()
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
		if after := scrape(t, m); !slices.Equal(before, after) {
			t.Errorf("a master that led shows\n%s\nand not\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
		}
	})
}

// A status of a term that has read nothing yet has no times and no revisions.
func TestUnknownTimesHaveNoGauge(t *testing.T) {
	m := NewMetrics()
	m.setView(func() View { return View{} })
	for _, line := range scrape(t, m) {
		if strings.Contains(line, "timestamp") || strings.Contains(line, "revision_info") {
			t.Error(line)
		}
	}
	m.has(t, "zester_sync_leader 1", "zester_sync_up_to_date 0", "zester_sync_rollout_wave 0")
}

func TestReasonsAreBounded(t *testing.T) {
	m := NewMetrics()
	for i := range 10 * maxReasons {
		m.Failed(fmt.Sprint("r", i))
	}
	n := 0
	for _, line := range scrape(t, m) {
		if strings.HasPrefix(line, "zester_sync_failures_total") {
			n++
		}
	}
	if n != maxReasons+1 {
		t.Errorf("%d reasons, want %d", n, maxReasons+1)
	}
	m.has(t, fmt.Sprintf(`zester_sync_failures_total{reason="Other"} %d`, 9*maxReasons))
}

func TestARevisionConvergesOnce(t *testing.T) {
	at := func(commit settings.Commit, since, reached time.Duration, counts status.Counts) View {
		v := View{Sync: status.Sync{LastGood: status.Revision{Commit: commit, Since: started.Add(since)}, Counts: counts}, Reached: started.Add(reached)}
		return v
	}
	all, away := status.Counts{Peels: 2, Applied: 2}, status.Counts{Peels: 2, Applied: 1, Offline: 1}
	c := convergence{began: started}
	for i, step := range []struct {
		name string
		view View
		took time.Duration
	}{
		{"nothing in force", View{}, 0},
		{"an earlier leader's", at("a", -time.Hour, time.Second, all), 0},
		{"pending", at("b", time.Minute, 2*time.Minute, status.Counts{Peels: 2, Applied: 1, Pending: 1}), 0},
		{"failed", at("b", time.Minute, 2*time.Minute, status.Counts{Peels: 2, Applied: 1, Failed: 1}), 0},
		{"counts of two revisions", View{Sync: at("b", time.Minute, 0, all).Sync}, 0},
		{"everybody is away", at("b", time.Minute, 2*time.Minute, status.Counts{Peels: 2, Offline: 2}), 0},
		{"all that are online", at("b", time.Minute, 3*time.Minute, away), 2 * time.Minute},
		{"again", at("b", time.Minute, 4*time.Minute, all), 0},
		{"changes no peel", at("c", time.Hour, 4*time.Minute, all), 0},
		{"the earlier one once more", at("b", 2*time.Hour, 2*time.Hour+time.Second, all), time.Second},
	} {
		if took, ok := c.next(step.view); took != step.took || ok != (step.took > 0) {
			t.Errorf("%d %s: %v, %v", i, step.name, took, ok)
		}
	}
}

// A condition that is not in the list would have no gauge.
func TestTypesHoldsEveryCondition(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "../settings/status/status.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	declared := 0
	ast.Inspect(f, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && fmt.Sprint(v.Type) == "Type" {
			declared++
		}
		return true
	})
	if declared != len(status.Types) || declared == 0 {
		t.Errorf("%d conditions are declared, the list has %d", declared, len(status.Types))
	}
}
