// Package results turns the reports of scheduled runs into job records. Call [New] and [Consumer.Run] in each master.
//
// Guarantees:
//   - No report is lost while no master is available: reports wait in the stream job-events.
//   - A report makes one record and one return, however often it is delivered and to which masters. All masters share
//     one durable consumer, and acknowledge a report after both are stored. A redelivery creates what is missing.
//   - If the bus does not store a record, the report is delivered again after a growing pause, without end. Other
//     reports are not delayed.
//   - One peel cannot push out the records of others: beyond its share of the bucket jobs ([quota.Account]) a report is
//     refused while less than half of the bucket is free.
//
// A report is also refused if it cannot be decoded, contradicts its subject, has times in the far future, is too large,
// or names a job of another peel. Refused reports are counted by reason, logged once a minute for each peel, not
// delivered again, and stay in the stream.
package results

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/peel/loglimit"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
)

const (
	consumerName = "schedule-results"

	atOnce        = 2       // batches that are stored at the same time
	maxBatch      = 256     // reports in one batch
	maxBatchBytes = 4 << 20 // of the reports of a batch, without the last one
	unacked       = 1024
	ackWait       = 30 * time.Second
	fetched       = 4 << 20 // bytes of reports that are requested in advance
	askWait       = 5 * time.Second
	lastPause     = time.Minute
)

// Options are what a Consumer works with.
type Options struct {
	JetStream jetstream.JetStream
	Store     *job.Store
	Log       *slog.Logger // nil: nothing is logged
}

// A Consumer stores the reports that one master gets. Make it with [New] and call Run once.
type Consumer struct {
	o        Options
	log      *slog.Logger
	refusals *loglimit.Limiter
	records  *quota.Account // of the bucket that records are stored in
	counts   struct{ stored, undecodable, foreign, future, surplus, retried atomic.Uint64 }
}

// Stats are counts since the consumer was made.
type Stats struct {
	Stored      uint64 // reports whose record and return are stored
	Undecodable uint64 // reports that could not be read, were too large or contradicted their subject
	Foreign     uint64 // reports for a job ID that is not a scheduled job of that peel
	Future      uint64 // reports with times from the far future
	Surplus     uint64 // reports beyond their peel's share of a crowded bucket
	Retried     uint64 // deliveries that are repeated because the bus did not store the record
}

// New returns a consumer. It starts nothing.
func New(o Options) *Consumer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Consumer{
		o:        o,
		log:      o.Log,
		refusals: loglimit.New(o.Log),
		records:  quota.NewAccount(o.JetStream, wire.KV(wire.BucketJobs)),
	}
}

// Stats returns the counts.
func (c *Consumer) Stats() Stats {
	return Stats{
		Stored: c.counts.stored.Load(), Undecodable: c.counts.undecodable.Load(), Foreign: c.counts.foreign.Load(),
		Future: c.counts.future.Load(), Surplus: c.counts.surplus.Load(), Retried: c.counts.retried.Load(),
	}
}

// Run stores reports until ctx ends, completes the current batches and returns nil. It logs errors of the bus and
// continues; a closed connection is an error.
func (c *Consumer) Run(ctx context.Context) error {
	pause := time.Second
	for {
		began := time.Now()
		err := c.consume(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if c.o.JetStream.Conn().IsClosed() {
			return errors.New("cannot read scheduled results: the connection to the bus is closed")
		}
		if time.Since(began) > lastPause {
			pause = time.Second
		}
		c.log.Warn("scheduled results wait", "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, lastPause)
	}
}

// consume stores reports until the consumer or ctx ends.
func (c *Consumer) consume(ctx context.Context) error {
	consumer, err := c.consumer(ctx)
	if err != nil {
		return fmt.Errorf("cannot use the consumer %s: %w", consumerName, err)
	}
	key, err := c.proofKey(ctx)
	if err != nil {
		return err
	}
	batches, ended := make(batcher, 1), make(chan error, 1)
	stopping, stop := context.WithCancel(ctx)
	defer stop()
	consuming, err := consumer.Consume(func(m jetstream.Msg) { batches.add(stopping, m) },
		jetstream.PullMaxBytes(fetched), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			select {
			case ended <- err:
			default:
			}
		}))
	if err != nil {
		return fmt.Errorf("cannot use the consumer %s: %w", consumerName, err)
	}
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() { c.work(stopping, batches, &key) })
	}
	select {
	case <-ctx.Done():
	case err = <-ended:
	case <-consuming.Closed():
		err = errors.New("the bus ended the reading")
	}
	stop()
	consuming.Drain() // fetched reports are delivered again at once
	<-consuming.Closed()
	workers.Wait()
	close(batches)
	for b := range batches {
		b.nakAll()
	}
	return err
}

// work handles batches until ctx ends. It completes a batch that it has begun.
func (c *Consumer) work(ctx context.Context, batches <-chan batch, key *settings.ProofKey) {
	for {
		select {
		case <-ctx.Done():
			return
		case b := <-batches:
			if ctx.Err() != nil {
				b.nakAll()
				return
			}
			c.handle(context.WithoutCancel(ctx), b.reports, key)
		}
	}
}

func (c *Consumer) proofKey(ctx context.Context) (settings.ProofKey, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	rollout, err := c.o.JetStream.KeyValue(ctx, wire.BucketRollout)
	if err != nil {
		return settings.ProofKey{}, fmt.Errorf("cannot read the key that proves origins: %w", err)
	}
	return settings.LoadProofKey(ctx, rollout)
}

func (c *Consumer) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	return c.o.JetStream.CreateOrUpdateConsumer(ctx, wire.StreamJobEvents, jetstream.ConsumerConfig{
		Durable:       consumerName,
		FilterSubject: wire.AllScheduled,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: unacked,
	})
}

// handle stores reports and answers their deliveries.
func (c *Consumer) handle(ctx context.Context, reports []jetstream.Msg, key *settings.ProofKey) {
	if err := c.records.Refresh(ctx); err != nil {
		c.log.Debug("shares of peels are those from before", "err", err)
	}
	now := time.Now()
	ends := make([]job.Ended, 0, len(reports))
	good := make([]jetstream.Msg, 0, len(reports))
	for _, m := range reports {
		if err := c.admit(m); err != nil {
			c.answer(m, err)
			continue
		}
		end, err := Read(m, now, key)
		if err != nil {
			c.answer(m, err)
			continue
		}
		ends, good = append(ends, end), append(good, m)
	}
	if len(ends) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ackWait/2)
	defer cancel()
	c.o.Store.CreateEnded(ctx, ends, func(i int, err error) {
		switch {
		case errors.Is(err, job.ErrExists):
			err = &refusalError{foreign, err}
		case errors.Is(err, job.ErrTooLarge):
			err = &refusalError{undecodable, err}
		}
		c.answer(good[i], err)
	})
}

// answer acknowledges a delivery, refuses it for good, or has it repeated.
func (c *Consumer) answer(m jetstream.Msg, err error) {
	switch refusal, refused := errors.AsType[*refusalError](err); {
	case err == nil:
		c.counts.stored.Add(1)
		err = m.Ack()
	case refused:
		c.refuse(m, refusal)
		err = m.TermWithReason(string(refusal.reason))
	default:
		err = c.again(m, err)
	}
	if err != nil {
		c.log.Debug("delivery not answered, it comes again", "subject", m.Subject(), "err", err)
	}
}

// again requests a redelivery after a pause.
func (c *Consumer) again(m jetstream.Msg, why error) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	pause := min(time.Second<<min(meta.NumDelivered-1, 10), lastPause)
	c.counts.retried.Add(1)
	c.log.Warn("scheduled result not stored yet", "subject", m.Subject(), "wait", pause, "err", why)
	return m.NakWithDelay(pause)
}

// admit refuses a report beyond its peel's share of the records. One that was admitted before stays so, and is not
// accounted for again.
func (c *Consumer) admit(m jetstream.Msg) error {
	if meta, err := m.Metadata(); err != nil || meta.NumDelivered > 1 {
		return nil
	}
	if !c.records.Admit(wire.Sender(m.Subject()), len(m.Data())) {
		return &refusalError{
			surplus, errors.New(
				"the peel has used up its share of the records of jobs, of which less than half is free",
			),
		}
	}
	return nil
}

func (c *Consumer) refuse(m jetstream.Msg, e *refusalError) {
	switch e.reason {
	case foreign:
		c.counts.foreign.Add(1)
	case future:
		c.counts.future.Add(1)
	case surplus:
		c.counts.surplus.Add(1)
	default:
		c.counts.undecodable.Add(1)
	}
	c.refusals.Warn(wire.Sender(m.Subject()), "scheduled result refused", "subject", m.Subject(), "reason",
		e.reason, "err", e.err)
}
