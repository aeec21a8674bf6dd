package console

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// sessionsTime is how long a scrape waits for the number of sessions.
const sessionsTime = 2 * time.Second

// metrics count what browsers ask of this master.
type metrics struct {
	renders  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  *prometheus.Desc
	sessions *prometheus.Desc
}

func newMetrics() metrics {
	return metrics{
		renders: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "zester_console_renders_total",
			Help: "Pages and parts of pages that this master made; those that it had are not counted.",
		}, []string{"page"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "zester_console_render_seconds", Help: "How long a page took, with what it asked of masters.",
			Buckets: []float64{0.005, 0.02, 0.1, 0.5, 2},
		}, []string{"page"}),
		streams: prometheus.NewDesc("zester_console_streams",
			"Browsers that this master tells of changes.", nil, nil),
		sessions: prometheus.NewDesc("zester_console_sessions",
			"Sessions of browsers, of all masters.", nil, nil),
	}
}

// rendered counts a page that was made.
func (m *metrics) rendered(page string, took time.Duration) {
	m.renders.WithLabelValues(page).Inc()
	m.seconds.WithLabelValues(page).Observe(took.Seconds())
}

// Describe is a method of [prometheus.Collector].
func (c *Console) Describe(to chan<- *prometheus.Desc) {
	c.metrics.renders.Describe(to)
	c.metrics.seconds.Describe(to)
	to <- c.metrics.streams
	to <- c.metrics.sessions
}

// Collect is a method of [prometheus.Collector]. The number of sessions is absent if the bus cannot tell it.
func (c *Console) Collect(to chan<- prometheus.Metric) {
	c.metrics.renders.Collect(to)
	c.metrics.seconds.Collect(to)
	to <- prometheus.MustNewConstMetric(c.metrics.streams, prometheus.GaugeValue, float64(c.streams.Total()))
	ctx, cancel := context.WithTimeout(context.Background(), sessionsTime)
	defer cancel()
	all, err := c.o.Sessions.List(ctx, "")
	if err == nil {
		to <- prometheus.MustNewConstMetric(c.metrics.sessions, prometheus.GaugeValue, float64(len(all)))
	}
}
