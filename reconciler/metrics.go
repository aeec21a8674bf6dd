// File metrics.go holds the metrics of a reconciler for Prometheus. Call [NewMetrics] once, and [Metrics.Run] in each
// leadership session.
//
// Guarantees: gauges are computed from the status at each collection. A master that does not lead has only
// zester_sync_leader, which is 0. Counters and histograms count the work of this process, so a sum over all masters
// counts everything once. The values of labels are bounded: words of the code, and four commits in
// zester_sync_revision_info.
//
// Known gap: the step converge is not measured for a revision that changes no peel, nor if another master takes the
// lead before every online peel runs the revision.

package reconciler

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A Step is a step from a commit to the fleet.
type Step string

// The steps of zester_sync_duration_seconds.
const (
	Fetch    Step = "fetch"    // reading the branch and its newest commit
	Compile  Step = "compile"  // judging a new commit: verifying, compiling for the fleet, comparing
	Publish  Step = "publish"  // writing the documents of a revision
	converge Step = "converge" // from a revision in force until every online peel runs it
)

const (
	viewEvery  = time.Second
	maxReasons = 64 // values of the label reason; more are counted as otherReason
	// otherReason is the label of failures beyond maxReasons reasons.
	otherReason = "Other"
)

// A View is the state of a leading reconciler for metrics.
type View struct {
	status.Sync
	Reached time.Time // when a peel last came to run the revision in force; zero during a rollout
}

// Metrics are the metrics of one reconciler, a [prometheus.Collector]. Make them with [NewMetrics]. Methods may be
// called from several goroutines.
type Metrics struct {
	attempts prometheus.Counter
	failures *prometheus.CounterVec
	took     *prometheus.HistogramVec

	mu      sync.Mutex
	view    func() View // nil: another master leads
	reasons map[string]bool
}

// NewMetrics returns metrics with all counters at zero. Every step has a histogram from the beginning.
func NewMetrics() *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "zester_sync_attempts_total",
			Help: "Times that this master read the branch, or tried to.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "zester_sync_failures_total",
			Help: "What kept a commit from the fleet, by the reason of the condition: the branch could not be read, " +
				"the commit was refused, waits for approval or was rolled back, or documents could not be published.",
		}, []string{"reason"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "zester_sync_duration_seconds",
			Help: "How long the steps took: fetch, compile, publish, and converge, " +
				"which ends when every online peel runs the revision.",
			Buckets: []float64{.005, .02, .1, .5, 1, 2, 5, 10, 30, 60, 120, 300, 900, 3600},
		}, []string{"step"}),
		reasons: map[string]bool{},
	}
	for _, s := range []Step{Fetch, Compile, Publish, converge} {
		m.took.WithLabelValues(string(s))
	}
	return m
}

// Attempted counts one attempt to read the branch.
func (m *Metrics) Attempted() { m.attempts.Inc() }

// Failed counts a failure by the reason of its condition, one word.
func (m *Metrics) Failed(reason string) {
	m.mu.Lock()
	if !m.reasons[reason] && len(m.reasons) >= maxReasons {
		reason = otherReason
	}
	m.reasons[reason] = true
	m.mu.Unlock()
	m.failures.WithLabelValues(reason).Inc()
}

// Took records how long a step took.
func (m *Metrics) Took(s Step, d time.Duration) {
	m.took.WithLabelValues(string(s)).Observe(d.Seconds())
}

// Run computes gauges from view until ctx ends. view is called from several goroutines and must return at once.
func (m *Metrics) Run(ctx context.Context, view func() View) error {
	m.setView(view)
	defer m.setView(nil)
	c := convergence{began: time.Now()}
	tick := time.NewTicker(viewEvery)
	defer tick.Stop()
	for {
		if took, ok := c.next(view()); ok {
			m.Took(converge, took)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (m *Metrics) setView(view func() View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view = view
}

// A convergence measures the time until every online peel runs the revision in force.
type convergence struct {
	began    time.Time // when the master began to lead: an earlier revision is not its own
	observed settings.Commit
	since    time.Time // when observed was put in force
}

// next returns how long the revision in force took to converge, the first time that it has.
func (c *convergence) next(v View) (took time.Duration, ok bool) {
	r, n := v.LastGood, v.Counts
	switch {
	case r.Commit == "" || r.Since.Before(c.began) || r.Commit == c.observed && r.Since.Equal(c.since):
		return 0, false
	case n.Pending > 0 || n.Failed > 0 || n.Applied == 0 || v.Reached.Before(r.Since):
		return 0, false
	}
	c.observed, c.since = r.Commit, r.Since
	return v.Reached.Sub(r.Since), true
}
