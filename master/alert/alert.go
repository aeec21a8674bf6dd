// Package alert tells people and their tools what is worth waking somebody for: troubles of schedule entries, of peels and of
// revisions, by the rules of zester.yaml. Call [New] and then [Engine.Run], in each master.
//
// The master that holds the lease leads the alerts; the others wait. Every 5 seconds it compares the problems with the alerts,
// see package rules, writes the alerts that changed to the bucket alerts, and then sends the messages that receivers lack,
// see package receiver. Each receiver has a goroutine; one that cannot be reached is tried again after growing pauses of up to
// 5 min, or after the pause that it asks for, and nobody else waits for it. A chat or mailbox gets 10 messages at once and then one in
// 30 s, with all that has happened since.
//
// Guarantees: an alert is stored before it is sent, and that it was sent is stored before the next message of it. So nothing is lost
// when a master dies, and at most the messages that were on their way are sent again, with the same identifiers. No alert about peels
// begins or ends while the reports of peels are not known, and none about revisions while the reconciler does not reply. What peels
// report cannot cause more than a bounded number of alerts. A silence has an end and ends by itself.
//
// Known gap: a master that dies after a chat has taken a message and before that was stored sends it once more.
package alert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/alert/ping"
	"github.com/seed-c01c3da5/zester/master/alert/receiver"
	"github.com/seed-c01c3da5/zester/master/auditlog"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/feed"
	"github.com/seed-c01c3da5/zester/master/lease"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	leaseTask = "alerts" // in the bucket leases
	kvName    = "alerts" // holds alert.<hash of the ID>, silence.<ID> and ping.<service>
	leadAgain = time.Second
	stepEvery = 5 * time.Second
)

// Options configure an [Engine]. Receivers, Pings, Alive, Audit and Log may be zero, all others are required.
type Options struct {
	Conn      *nats.Conn           // of a master
	Fleet     *feed.Feed           // which runs
	Owner     string               // names this master; unique
	Receivers []*receiver.Receiver // each with a name of its own
	Pings     []*ping.Service      // told of runs; no name is that of a receiver
	Alive     *receiver.Call       // called each minute while all is well
	// Problems returns the problems of all peels at once, and Health how far they are known.
	Problems func() []verdict.Problem
	Health   func() verdict.Health
	// Runs returns the newest runs of entries, by entry and peel. It is called only if there are Pings.
	Runs func(match func(entry string) bool) []verdict.Run
	// Cause returns which commit explains a problem of an entry; without an entry, of whole peels.
	Cause  func(kind verdict.Kind, entry string) cause.Finding
	Stored func() error // why the bus stores nothing now
	// Within returns the peels within the limits of a caller, sorted; all is true if they have no limit.
	Within func(ctx context.Context, from grants.Caller) (peels []target.PeelID, all bool, err error)
	Audit  *auditlog.Log
	Log    *slog.Logger
}

// An Engine sends alerts whenever its master leads them.
type Engine struct{ o Options }

// New returns an engine; it starts nothing.
func New(o Options) *Engine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{o}
}

// Run leads the alerts whenever this master holds the lease, until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	js, err := jetstream.New(e.o.Conn)
	if err != nil {
		return err
	}
	leases, err := js.KeyValue(ctx, "leases")
	if err != nil {
		return fmt.Errorf("cannot open the bucket leases: %w", err)
	}
	l := lease.New(leases, leaseTask, e.o.Owner, e.o.Log)
	for {
		revision, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		err = l.Serve(ctx, revision, func(ctx context.Context) error { return e.lead(ctx, js, l.Check) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, context.Canceled) {
			e.o.Log.Warn("this master no longer leads the alerts", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(leadAgain):
		}
	}
}
