// File metrics.go serves the metrics of a master in the text format of Prometheus. Call [MetricsHandler].

package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/peel/build"
)

var (
	jobsTotal    = describe("jobs_total", "Jobs that this master saw to their end, by how they ended.", "status")
	jobSeconds   = describe("job_duration_seconds", "How long jobs took that this master saw to their end.")
	reclaims     = describe("orphans_reclaimed_total", "Jobs that this master took over from others.")
	unreachables = describe("dispatch_unreachable_total",
		"Targets that stayed silent after their request was sent again.")
	refusedJobs = describe("dispatch_refused_total", "Requests for a job that made none.")
	resent      = describe("dispatch_resent_total", "Requests that were sent again because their target was silent.")
	stored      = describe("dispatch_returns_stored_total", "Returns that this master stored.")
	retried     = describe("dispatch_retried_total", "Writes about jobs that this master tried again.")
	fenced      = describe("dispatch_fenced_total",
		"Jobs that this master let go because another had taken them over.")
	resultsTotal = describe("schedule_results_total", "Reports of scheduled runs, by what became of them.", "result")
	factsRefused = describe("facts_refused_total",
		"Facts of peels that were not taken, because they are beyond the limits, unreadable or speak for another.")
	dropped = describe("replies_dropped_total", "Acks and returns that this master did not count, by why.",
		"reason")
	surplus = describe("surplus_removed_total",
		"How often this master removed what a peel had put into a crowded stream beyond its share.")
	heldMessages = describe("stream_messages", "Messages in a stream.", "stream")
	heldBytes    = describe("stream_bytes", "Bytes in a stream.", "stream")
	mostMessages = describe("stream_messages_limit", "Messages that a stream may have, where it has a limit.", "stream")
	mostBytes    = describe("stream_bytes_limit", "Bytes that a stream may have, where it has a limit.", "stream")
	auditEntries = describe("audit_sequence",
		"Number of the newest entry of the audit log that this master has checked.")
	auditGaps = describe("audit_gaps_total",
		"Entries of the audit log that do not follow the one before them, which this master has found.")
	busUp        = describe("bus_connected", "Whether the connection to the bus stands.")
	busReconnect = describe("bus_reconnects_total", "How often the connection to the bus was made again.")
	busMessages  = describe("bus_messages_total", "Messages on the connection to the bus.", "direction")
	busBytes     = describe("bus_bytes_total", "Bytes on the connection to the bus.", "direction")
	buildInfo    = describe("build_info", "1, with the versions of this master and of its Go.", "version", "goversion")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("zester_"+name, help, labels, nil)
}

// MetricsSources are the services of a master whose counters are metrics.
type MetricsSources struct {
	JetStream  jetstream.JetStream
	Dispatcher *dispatch.Dispatcher
	Results    *results.Consumer
	Scanner    *dispatch.Scanner
	Fleet      *fleet.Fleet
	Trimmer    *quota.Trimmer
	Audit      *audit.Log // nil: none is kept
}

// A collector reads the counters at each request.
type collector struct{ MetricsSources }

func (c collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

func (c collector) Collect(ch chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	this := build.Read()
	ch <- prometheus.MustNewConstMetric(buildInfo, prometheus.GaugeValue, 1, this.Version, this.Go)
	s := c.Dispatcher.Stats()
	for status, n := range s.Ended {
		count(jobsTotal, n, string(status))
	}
	ch <- prometheus.MustNewConstHistogram(jobSeconds, s.Took.Count, s.Took.Sum.Seconds(), s.Took.Upto)
	count(unreachables, s.Unreachable)
	count(refusedJobs, s.Refused)
	count(resent, s.Resent)
	count(stored, s.Stored)
	count(retried, s.Retried)
	count(fenced, s.Fenced)
	count(reclaims, c.Scanner.Reclaimed())
	r := c.Results.Stats()
	for result, n := range map[string]uint64{
		"stored":      r.Stored,
		"undecodable": r.Undecodable,
		"foreign":     r.Foreign,
		"future":      r.Future,
		"surplus":     r.Surplus,
		"retried":     r.Retried,
	} {
		count(resultsTotal, n, result)
	}
	count(factsRefused, c.Fleet.Refused())
	for reason, n := range map[string]uint64{
		"stranger": s.Strangers, "forged": s.Forged, "late": s.Late,
	} {
		count(dropped, n, reason)
	}
	count(surplus, c.Trimmer.Removed())
	chain := c.Audit.Status()
	ch <- prometheus.MustNewConstMetric(auditEntries, prometheus.GaugeValue, float64(chain.Head.Seq))
	count(auditGaps, uint64(chain.Gaps))
	c.collectStreams(ch)
	nc := c.JetStream.Conn()
	up := 0.0
	if nc.Status() == nats.CONNECTED {
		up = 1
	}
	ch <- prometheus.MustNewConstMetric(busUp, prometheus.GaugeValue, up)
	n := nc.Stats()
	count(busReconnect, n.Reconnects)
	count(busMessages, n.InMsgs, "in")
	count(busMessages, n.OutMsgs, "out")
	count(busBytes, n.InBytes, "in")
	count(busBytes, n.OutBytes, "out")
}

// streamsWait bounds the wait for the bus; if that passes, the metrics of the streams are missing.
const streamsWait = 2 * time.Second

func (c collector) collectStreams(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), streamsWait)
	defer cancel()
	streams, err := bucket.Usages(ctx, c.JetStream)
	if err != nil {
		return
	}
	gauge := func(d *prometheus.Desc, n float64, stream string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, n, stream)
	}
	for _, s := range streams {
		gauge(heldMessages, float64(s.Messages), s.Name)
		gauge(heldBytes, float64(s.Bytes), s.Name)
		if s.MaxMessages > 0 {
			gauge(mostMessages, float64(s.MaxMessages), s.Name)
		}
		if s.MaxBytes > 0 {
			gauge(mostBytes, float64(s.MaxBytes), s.Name)
		}
	}
}

// MetricsHandler serves the metrics of the sources, of the process, and those of further collectors.
func MetricsHandler(s MetricsSources, further ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{s}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(further...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, DisableCompression: true})
}
