package otel

import "github.com/prometheus/client_golang/prometheus"

var (
	spansTotal = prometheus.NewDesc("zester_otel_spans_total",
		"Spans by what became of them: sent, refused (by the collector), expired (not taken for a day), "+
			"left_out (a job had more than 10,000 runs) or unreadable.",
		[]string{
			"result",
		}, nil)
	failures = prometheus.NewDesc("zester_otel_requests_failed_total",
		"Requests that the collector did not answer, or not with success.", nil, nil)
	waiting = prometheus.NewDesc("zester_otel_waiting",
		"Ended jobs and reports whose spans no master has sent yet; the same on every master.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (e *Exporter) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(e, ch) }

// Collect implements [prometheus.Collector].
func (e *Exporter) Collect(ch chan<- prometheus.Metric) {
	for result, n := range map[string]uint64{
		"sent": e.counts.sent.Load(), "refused": e.counts.refused.Load(), "expired": e.counts.expired.Load(),
		"left_out": e.counts.leftOut.Load(), "unreadable": e.counts.unreadable.Load(),
	} {
		ch <- prometheus.MustNewConstMetric(spansTotal, prometheus.CounterValue, float64(n), result)
	}
	ch <- prometheus.MustNewConstMetric(failures, prometheus.CounterValue, float64(e.counts.failed.Load()))
	ch <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(e.counts.waiting.Load()))
}
