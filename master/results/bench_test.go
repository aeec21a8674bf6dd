package results_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// BenchmarkResults is how fast one master makes records and returns of reports that wait, and beside it how fast the
// bucket takes values of the same size from one sender that does not wait.
func BenchmarkResults(b *testing.B) {
	const n = 2000
	bus := natstest.Listen(b)
	js, err := jetstream.New(bus.Conn(b, auth.RoleMaster, "m1", nats.ReconnectBufSize(-1)))
	if err != nil {
		b.Fatal(err)
	}
	store, err := job.NewStore(b.Context(), js)
	if err != nil {
		b.Fatal(err)
	}
	web := bus.Conn(b, auth.RolePeel, "web_01")
	b.Run("puts", func(b *testing.B) {
		value := make([]byte, 500)
		for b.Loop() {
			for range n {
				if _, err := js.PublishAsync("$KV.jobs."+string(wire.NewJID()), value); err != nil {
					b.Fatal(err)
				}
			}
			<-js.PublishAsyncComplete()
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "puts/s")
	})
	b.Run("reports", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			for range n {
				r := report(nil)
				data, err := canon.Marshal(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := web.Request(wire.ScheduledOf(r.JID, "web_01"), data, time.Minute); err != nil {
					b.Fatal(err)
				}
			}
			b.StartTimer()
			consume(b, js, store, n)
		}
		b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "reports/s")
	})
}

// consume runs a consumer until it has stored n reports.
func consume(b *testing.B, js jetstream.JetStream, store *job.Store, n uint64) {
	b.Helper()
	c := results.New(results.Options{JetStream: js, Store: store})
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for tick := time.NewTicker(time.Millisecond); c.Stats().Stored < n; <-tick.C {
	}
	stop()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
