package results_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/results"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// BenchmarkResults is how fast one master makes records and returns of reports that wait, and beside it how fast the
// bucket takes values of the same size from one sender that does not wait, and how fast each report is taken from the stream
// and stored twice unread.
func BenchmarkResults(b *testing.B) {
	const n = 5000
	bus := natstest.Listen(b)
	js, err := jetstream.New(bus.Conn(b, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1)))
	if err != nil {
		b.Fatal(err)
	}
	store, err := job.NewStore(b.Context(), js)
	if err != nil {
		b.Fatal(err)
	}
	web := bus.Conn(b, grants.RolePeel, "web_01")
	b.Run("puts", func(b *testing.B) {
		value := make([]byte, 500)
		var used time.Duration
		for b.Loop() {
			before := processor(b)
			for range n {
				if _, err := js.PublishAsync("$KV.jobs."+string(wire.NewJID()), value); err != nil {
					b.Fatal(err)
				}
			}
			<-js.PublishAsyncComplete()
			used += processor(b) - before
		}
		rates(b, n, used)
	})
	b.Run("copies", func(b *testing.B) {
		var used time.Duration
		for b.Loop() {
			b.StopTimer()
			publish(b, web, n)
			b.StartTimer()
			before := processor(b)
			copyTwice(b, js, n)
			used += processor(b) - before
		}
		rates(b, n, used)
	})
	b.Run("reports", func(b *testing.B) {
		var used time.Duration
		for b.Loop() {
			b.StopTimer()
			publish(b, web, n)
			b.StartTimer()
			before := processor(b)
			consume(b, js, store, n)
			used += processor(b) - before
		}
		rates(b, n, used)
	})
}

// rates are how many of a kind a second of the clock and one of a processor are enough for, the bus's part included.
func rates(b *testing.B, n int, used time.Duration) {
	all := float64(n) * float64(b.N)
	b.ReportMetric(all/b.Elapsed().Seconds(), "1/s")
	b.ReportMetric(all/used.Seconds(), "1/cpu-s")
	b.ReportMetric(0, "ns/op")
}

func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// publish returns when n reports lie in the stream.
func publish(b *testing.B, web *nats.Conn, n int) {
	b.Helper()
	for i := range n {
		r := report(nil)
		data, err := canon.Marshal(r)
		if err == nil && i < n-1 {
			err = web.Publish(wire.ScheduledOf(r.JID, "web_01"), data)
		} else if err == nil {
			_, err = web.Request(wire.ScheduledOf(r.JID, "web_01"), data, time.Minute) // which comes after the others
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// copyTwice takes n reports from the stream and stores each under two keys that must not be there before it is acknowledged.
func copyTwice(b *testing.B, js jetstream.JetStream, n int) {
	b.Helper()
	stream, err := js.Stream(b.Context(), "job-events")
	if err != nil {
		b.Fatal(err)
	}
	first := stream.CachedInfo().State.LastSeq - uint64(n) + 1
	consumer, err := js.CreateConsumer(b.Context(), "job-events", jetstream.ConsumerConfig{
		FilterSubject: wire.AllScheduled, AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: first,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = js.DeleteConsumer(b.Context(), "job-events", consumer.CachedInfo().Name) }()
	type copies struct {
		m   jetstream.Msg
		put [2]jetstream.PubAckFuture
	}
	sent := make(chan copies, n)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		c, jid := copies{m: m}, string(wire.NewJID())
		for i, key := range []string{"jobs." + jid, "job-returns." + jid + ".web_01"} {
			c.put[i], _ = js.PublishAsync("$KV."+key, m.Data(), jetstream.WithExpectLastSequencePerSubject(0))
		}
		sent <- c
	})
	if err != nil {
		b.Fatal(err)
	}
	defer consuming.Stop()
	for range n {
		c := <-sent
		for _, put := range c.put {
			select {
			case err := <-put.Err():
				b.Fatal(err)
			case <-put.Ok():
			}
		}
		if err := c.m.Ack(); err != nil {
			b.Fatal(err)
		}
	}
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
