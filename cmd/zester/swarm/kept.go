package swarm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
)

// twice is a report and what becomes of its two copies.
type twice struct {
	report jetstream.Msg
	copies [2]jetstream.PubAckFuture
}

// take lets as many reports wait in their stream as a sender of the fleet sends, stores a record and a return for each, as
// fast as the bus takes them, and says how many a second were.
func (s *bus) take(ctx context.Context) (float64, error) {
	n := reportsOf(s.r.o.Peels)
	messages, err := reports(n, &settings.ProofKey{})
	if err != nil {
		return 0, err
	}
	nc, err := dial(s.url, s.caFile(), s.r.keys("bare"), string(sender))
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	consumer, err := s.js.CreateConsumer(ctx, natsd.StreamJobEvents, jetstream.ConsumerConfig{FilterSubject: wire.AllScheduled, AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return 0, err
	}
	began, copied := time.Now(), make(chan twice, n)
	for _, m := range messages {
		if err := nc.PublishMsg(m); err != nil {
			return 0, err
		}
	}
	consuming, err := consumer.Consume(func(m jetstream.Msg) { copied <- s.copy(m) })
	if err != nil {
		return 0, err
	}
	defer consuming.Stop()
	for range n {
		if err := s.acknowledge(ctx, copied); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(began).Seconds(), nil
}

// copy sends both copies of a report, each to a key that must not be there.
func (s *bus) copy(m jetstream.Msg) (t twice) {
	t.report = m
	jid := string(wire.NewJID())
	for i, key := range []string{natsd.BucketJobs + "." + jid, natsd.BucketJobReturns + "." + jid + "." + string(sender)} {
		t.copies[i], _ = s.js.PublishAsync("$KV."+key, m.Data(), jetstream.WithExpectLastSequencePerSubject(0)) // nil: it could not be sent
	}
	return t
}

// acknowledge waits for both copies of the next report.
func (s *bus) acknowledge(ctx context.Context, copied <-chan twice) error {
	var t twice
	select {
	case t = <-copied:
	case <-time.After(patience):
		return fmt.Errorf("no report came for %v", patience)
	}
	for _, copied := range t.copies {
		if copied == nil {
			return errors.New("a copy could not be sent")
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-copied.Err():
			return err
		case <-copied.Ok():
		}
	}
	return t.report.Ack()
}
