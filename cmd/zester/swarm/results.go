package swarm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// sender is the ID of a peel that only sends reports, of runs that were never made.
const sender target.PeelID = "sim-sender"

// Reports that sender sends: ten for each peel, within these limits.
const (
	minReports = 1000
	maxReports = 20_000
)

func reportsFor(peels int) int { return min(max(10*peels, minReports), maxReports) }

// results makes a scheduled run due on all peels in the same second, and measures how fast the records come. If that
// second passes before all peels have the entry, a later one is tried with another entry: guards stop changes of the
// same one.
func (f *fleet) results(ctx context.Context) error {
	var at time.Time
	var probes strings.Builder
	for ahead := 3*time.Second + time.Duration(f.r.o.Peels)*time.Millisecond; !time.Now().Before(at); ahead *= 2 {
		at = time.Now().Add(ahead).Truncate(time.Second)
		fmt.Fprintf(&probes, "  probe-%.0f: {at: %s, module: test.ping, return_job: true}\n", ahead.Seconds(),
			at.UTC().Format(time.RFC3339))
		if err := f.settle(ctx, "A run on every peel at once", content{probe: probes.String()}); err != nil {
			return err
		}
	}
	// the results of an earlier entry are stored by then
	if err := pauseUntil(ctx, at.Add(-time.Second/2)); err != nil {
		return err
	}
	if err := f.until(ctx, "results", f.returns(ctx)+int64(f.r.o.Peels), func() int64 {
		return f.returns(ctx)
	}); err != nil {
		return err
	}
	f.r.compare("results of scheduled runs in records", "1/s", float64(f.r.o.Peels)/time.Since(at).Seconds(), perSecond)
	return nil
}

func perSecond(b floor) float64 { return b.storedPerSecond }

// waitingReports measures how fast reports become records that nothing has to run for.
func (f *fleet) waitingReports(ctx context.Context) error {
	nc, err := f.bus().Connect(grants.RolePeel, sender.Wire())
	if err != nil {
		return err
	}
	defer nc.Close()
	rollout, err := f.js.KeyValue(ctx, wire.BucketRollout)
	if err != nil {
		return err
	}
	key, err := settings.LoadProofKey(ctx, rollout)
	if err != nil {
		return err
	}
	n := reportsFor(f.r.o.Peels)
	messages, err := reports(n, &key)
	if err != nil {
		return err
	}
	before, watch := f.returns(ctx), stopwatch()
	for _, m := range messages {
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	if err := f.until(ctx, "reports", before+int64(n), func() int64 { return f.returns(ctx) }); err != nil {
		return err
	}
	took, used := watch()
	f.r.compare(Waiting, "1/s", float64(n)/took.Seconds(), perSecond)
	f.r.figure("processor time of "+f.r.side()+" for one", "ms", used.Seconds()*1000/float64(n))
	return nil
}

// reports returns the reports of n runs of test.ping, with a proof of their origin.
func reports(n int, key *settings.ProofKey) (all []*nats.Msg, err error) {
	const entry = "probe"
	origin := settings.Claim{
		Commit: "0123456789012345678901234567890123456789",
		File:   "settings/all.yaml:3",
		Author: author.Name + " <" + author.Email + ">",
	}
	origin.Ran = settings.Ran("test.ping", nil)
	proof := key.Prove(sender, entry, origin)
	for range n {
		now := time.Now()
		r := wire.ScheduledResult{
			JID:      wire.NewJID(),
			Peel:     sender,
			Entry:    entry,
			Trigger:  wire.TriggerTimer,
			Function: "test.ping",
			Result:   wire.Result{Success: true, Data: "pong", Duration: time.Millisecond},
			Nominal:  now,
			Fired:    now,
			Started:  now,
			Finished: now,
			Commit:   origin.Commit,
			Origin:   origin.File,
			Author:   origin.Author,
			Ran:      origin.Ran,
			Proof:    proof,
			V:        wire.Version,
		}
		data, err := canon.Marshal(r)
		if err != nil {
			return nil, err
		}
		all = append(all, &nats.Msg{Subject: wire.ScheduledOf(r.JID, sender.Wire()), Data: data})
	}
	return all, nil
}

// A storedReport is a report and the acknowledgements of its two copies.
type storedReport struct {
	report jetstream.Msg
	copies [2]jetstream.PubAckFuture
}

// storeReports sends as many reports as waitingReports to their stream, stores a record and a return for each, as fast
// as the bus takes them, and returns how many a second were stored.
func (b *bus) storeReports(ctx context.Context, role grants.Role) (float64, error) {
	n := reportsFor(b.r.o.Peels)
	messages, err := reports(n, &settings.ProofKey{})
	if err != nil {
		return 0, err
	}
	nc, err := b.trusted().Connect(role, sender.Wire())
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	consumer, err := b.js.CreateConsumer(ctx,
		wire.StreamJobEvents, jetstream.ConsumerConfig{
			FilterSubject: wire.AllScheduled,
			AckPolicy:     jetstream.AckExplicitPolicy,
		})
	if err != nil {
		return 0, err
	}
	watch, copied := stopwatch(), make(chan storedReport, n)
	for _, m := range messages {
		if err := nc.PublishMsg(m); err != nil {
			return 0, err
		}
	}
	consuming, err := consumer.Consume(func(m jetstream.Msg) { copied <- b.copyReport(m) })
	if err != nil {
		return 0, err
	}
	defer consuming.Stop()
	for range n {
		if err := awaitCopies(ctx, copied); err != nil {
			return 0, err
		}
	}
	took, _ := watch()
	return float64(n) / took.Seconds(), nil
}

// copyReport sends both copies of a report, each to a key that must not exist.
func (b *bus) copyReport(m jetstream.Msg) (s storedReport) {
	s.report = m
	jid := string(wire.NewJID())
	for i, key := range []string{
		wire.BucketJobs + "." + jid, wire.BucketJobReturns + "." + jid + "." + string(sender),
	} {
		// nil: it could not be sent
		s.copies[i], _ = b.js.PublishAsync("$KV."+key, m.Data(), jetstream.WithExpectLastSequencePerSubject(0))
	}
	return s
}

// awaitCopies waits for both copies of the next report and acknowledges it.
func awaitCopies(ctx context.Context, copied <-chan storedReport) error {
	var s storedReport
	select {
	case s = <-copied:
	case <-time.After(worker.WaitLimit):
		return fmt.Errorf("no report came for %v", worker.WaitLimit)
	}
	for _, copied := range s.copies {
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
	return s.report.Ack()
}
