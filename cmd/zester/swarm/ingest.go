package swarm

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// sender is a peel that is no other's simulation: it reports runs that were never made, as fast as the bus takes them.
const sender target.PeelID = "sim-sender"

// Reports that it sends.
const (
	fewReports  = 1000
	manyReports = 20_000
)

// ingest counts how fast reports become records that nobody had to run anything for.
func (f *fleet) ingest(ctx context.Context, b baseline) error {
	nc, err := f.speak(sender)
	if err != nil {
		return err
	}
	defer nc.Close()
	rollout, err := f.js.KeyValue(ctx, natsd.BucketRollout)
	if err != nil {
		return err
	}
	key, err := settings.LoadProofKey(ctx, rollout)
	if err != nil {
		return err
	}
	n := reportsOf(f.r.o.Peels)
	messages, err := reports(n, &key)
	if err != nil {
		return err
	}
	before, watch := f.messages(ctx, "KV_"+natsd.BucketJobReturns), stopwatch()
	for _, m := range messages {
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	if err := f.until(ctx, "reports", before+int64(n), func() int64 { return f.messages(ctx, "KV_"+natsd.BucketJobReturns) }); err != nil {
		return err
	}
	took, used := watch()
	f.r.figure(waiting, "1/s", float64(n)/took.Seconds(), b.taken)
	f.r.figure("processor time of "+f.r.side()+" for one", "ms", used.Seconds()*1000/float64(n), 0)
	return nil
}

// reportsOf is how many reports are sent for a fleet of so many peels.
func reportsOf(peels int) int { return min(max(10*peels, fewReports), manyReports) }

// speak connects as a peel.
func (f *fleet) speak(id target.PeelID) (*nats.Conn, error) {
	keys, err := keystore.Open(f.r.keys("master"))
	if err != nil {
		return nil, err
	}
	creds, err := keys.Creds(grants.RolePeel, id.Wire(), 0)
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(f.info.URL, append(orders{CA: f.info.CA}.options(creds), nats.CustomInboxPrefix(wire.Inbox(id.Wire())))...)
	if err != nil {
		return nil, fmt.Errorf("cannot reach the bus at %s: %w", f.info.URL, err)
	}
	return nc, nil
}

// reports returns the reports of n runs of test.ping, with a proof of their origin.
func reports(n int, key *settings.ProofKey) (all []*nats.Msg, err error) {
	const entry = "probe"
	origin := settings.Claim{Commit: "0123456789012345678901234567890123456789", File: "settings/all.yaml:3", Author: author.Name + " <" + author.Email + ">"}
	proof := key.Prove(sender, entry, origin)
	for range n {
		now := time.Now()
		r := wire.ScheduledResult{
			JID: wire.NewJID(), Peel: sender, Entry: entry, Trigger: wire.TriggerTimer, Function: "test.ping",
			Result:  wire.Result{Success: true, Data: "pong", Duration: time.Millisecond},
			Nominal: now, Fired: now, Started: now, Finished: now,
			Commit: origin.Commit, Origin: origin.File, Author: origin.Author, Proof: proof, V: wire.Version,
		}
		data, err := canon.Marshal(r)
		if err != nil {
			return nil, err
		}
		all = append(all, &nats.Msg{Subject: wire.ScheduledOf(r.JID, sender.Wire()), Data: data})
	}
	return all, nil
}
