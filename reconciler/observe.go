package reconciler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/reconciler/metrics"
)

// Collector returns the metrics of the reconciler. While another master leads, it has no gauge but zester_sync_leader.
func (r *Reconciler) Collector() prometheus.Collector { return r.metrics }

// view is what metrics read of a term.
func (t *term) view() metrics.View {
	v := metrics.View{Sync: t.status()}
	_, v.Reached, _ = t.progress.CountsOf(v.LastGood.Commit)
	return v
}

// took records how long a step took that has just ended, of which began is the start.
func (t *term) took(s metrics.Step, began time.Time) { t.r.metrics.Took(s, time.Since(began)) }
