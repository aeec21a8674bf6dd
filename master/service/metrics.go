package service

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-c01c3da5/zester/master/api"
)

// Metrics count the requests of all services of one master. Make them with [NewMetrics].
type Metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

// succeeded is the code of a reply without an error in metrics.
const succeeded = "200"

// NewMetrics returns metrics of requests, which are empty until a service has replied to one.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "zester_requests_total",
			Help: "Requests of clients that this master replied to, by the code of the reply.",
		}, []string{"noun", "verb", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "zester_request_duration_seconds", Help: "How long requests of clients were carried out.",
			Buckets: []float64{0.01, 0.1, 1, 10},
		}, []string{"noun", "verb"}),
	}
}

// Describe is a method of [prometheus.Collector].
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.requests.Describe(to)
	m.seconds.Describe(to)
}

// Collect is a method of [prometheus.Collector].
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	m.requests.Collect(to)
	m.seconds.Collect(to)
}

// count counts a request that was replied to with a code, and for how long it was carried out.
func (m *Metrics) count(v Verb, code api.Code, took time.Duration) {
	if m == nil {
		return
	}
	text := string(code)
	if text == "" {
		text = succeeded
	}
	m.requests.WithLabelValues(v.noun, v.verb, text).Inc()
	m.seconds.WithLabelValues(v.noun, v.verb).Observe(took.Seconds())
}
