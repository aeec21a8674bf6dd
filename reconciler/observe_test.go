package reconciler

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// metrics checks that each line is among the metrics of the reconciler.
func (b *bench) metrics(lines ...string) {
	b.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.term.r.Collector())
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range lines {
		if !strings.Contains("\n"+w.Body.String(), "\n"+line+"\n") {
			b.t.Errorf("no %s in\n%s", line, w.Body)
		}
	}
}

// failures returns how many looks and revisions have failed for a reason.
func (b *bench) failures(reason string) (n float64) {
	b.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(b.term.r.Collector())
	families, err := registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "zester_sync_failures_total" && m.GetLabel()[0].GetValue() == reason {
				n += m.GetCounter().GetValue()
			}
		}
	}
	return n
}

func TestMetricsCountWhatBecomesOfCommits(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
		r.metrics("zester_sync_leader 1", "zester_sync_up_to_date 1", `zester_peels{state="applied"} 4`, `zester_sync_revision_info{commit="`+string(r.good)+`",role="in_force"} 1`,
			`zester_sync_duration_seconds_count{step="publish"} 1`, `zester_sync_duration_seconds_count{step="converge"} 1`)
		r.metrics(`zester_sync_duration_seconds_count{step="compile"} 1`)
		r.commit("broken", map[string]string{"top.yaml": "base: ["})
		r.now()
		r.peel("late-01", nil) // has it judged again
		r.after(time.Minute)
		r.metrics(`zester_sync_failures_total{reason="Invalid"} 1`, `zester_sync_condition{type="CompileFailed"} 1`, "zester_sync_up_to_date 0")
		r.commit("too much", map[string]string{"top.yaml": string(siteFiles()["top.yaml"].Data), "settings/common.yaml": "schedule:\n  a: {module: test.ping, interval: 1h}\n"})
		r.now()
		r.metrics(`zester_sync_failures_total{reason="TooManyChanges"} 1`, `zester_sync_condition{type="GuardBlocked"} 1`, `zester_sync_condition{type="CompileFailed"} 0`)
		r.commit("x", map[string]string{"settings/common.yaml": string(siteFiles()["settings/common.yaml"].Data), "settings/web.yaml": xForW})
		r.now()
		r.metrics("zester_sync_rollout_wave 1", `zester_sync_condition{type="RolloutProgressing"} 1`)
		r.runs(r.ids[0], "x", wire.Result{})
		r.metrics("zester_sync_rollout_wave 0", `zester_sync_failures_total{reason="WaveFailed"} 1`, `zester_sync_condition{type="HeadSkipped"} 1`)
		if err := os.Rename(r.dir, r.dir+".away"); err != nil {
			r.t.Fatal(err)
		}
		r.after(time.Second)
		_ = r.status()
		r.now()
		r.metrics(`zester_sync_condition{type="FetchFailed"} 1`)
		if n := r.failures("NotFound"); n < 1 || n > 3 { // it is looked again after 1 to 3 s
			t.Errorf("%v looks have failed", n)
		}
		r.stop()
		r.metrics("zester_sync_leader 0", `zester_sync_failures_total{reason="WaveFailed"} 1`)
	})
}
