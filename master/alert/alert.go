// Package alert sends alerts about schedule entries, peels and revisions to chats, mailboxes, pagers and other
// receivers, by the rules of zester.yaml. Call [New] and then [Engine.Run], in each master.
//
// One master at a time holds the lease of the alerts and sends them; the others wait. Every 5 s it compares the present
// problems with the alerts (package rules) and writes the alerts that changed to the bucket alerts. Then it sends each
// receiver the messages that are due (package notify), and pings the services that watch runs (package notify). Each
// receiver has a goroutine, so a slow one delays no other. If a receiver cannot be reached, the master waits before it
// tries again: a second at first, up to 5 min after more failures, or as long as the receiver asks. A chat or mailbox
// gets 10 messages at once, and then one every 30 s with everything since the last.
//
// Guarantees: an alert is stored before it is sent, and the fact that it was sent is stored before its next message is
// sent. If a master dies, no message is lost; a message that was being sent is sent again with the same identifier.
// Alerts about peels neither begin nor end while the reports of peels are unknown, and alerts about revisions neither
// begin nor end while the reconciler does not reply. The number of alerts is bounded whatever peels report. Every
// silence has an end.
//
// Known gap: chats and mailboxes ignore identifiers, and so does a service for its pings. If a master dies after such a
// receiver has accepted a message and before that is stored, the receiver gets the message twice.
package alert

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	leaseTask = "alerts" // in the bucket leases
	stepEvery = 5 * time.Second
)

// Options configure an [Engine]. Receivers, Pings, Alive, Audit and Log may be zero, all others are required.
type Options struct {
	Conn      *nats.Conn            // a master's connection to the bus
	Fleet     *fleet.Fleet          // the caller runs it
	Owner     string                // unique name of this master
	Receivers []*notify.Receiver    // with different names
	Pings     []*notify.PingService // services that watch runs; no name is also in Receivers
	Alive     *notify.ReceiverCall  // dead man's switch: it is called each minute while all is well
	// Problems returns the present problems of all peels. Health says whether they are complete and up to date.
	Problems func() []verdict.Problem
	Health   func() verdict.Health
	// Runs returns the newest runs of entries, by entry and peel. It is called only if there are Pings.
	Runs func(match func(entry string) bool) []verdict.Run
	// Cause returns the commit that explains the problems of a kind with an entry, or with whole peels if entry is
	// empty.
	Cause func(kind verdict.Kind, entry string) cause.Finding
	// Output returns the end of what the newest run of an entry on a peel printed if it failed. It may be nil. The
	// goroutines of receivers call it.
	Output func(ctx context.Context, entry string, peel target.PeelID) (notify.Output, error)
	Stored func() error // returns an error while the bus stores nothing
	// Within returns the peels about which a caller may read.
	Within  func(ctx context.Context, from grants.Caller) (access.Peels, error)
	Audit   *audit.Log
	Metrics *service.Metrics // of requests; nil: nothing is counted
	Log     *slog.Logger
}

// An Engine sends the alerts while its master holds the lease of the alerts.
type Engine struct{ o Options }

// New returns an engine. It does not start it.
func New(o Options) *Engine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{o}
}

// Run waits for the lease and sends alerts while it holds it, until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	js, err := jetstream.New(e.o.Conn)
	if err != nil {
		return err
	}
	return bus.Lead(ctx, js, bus.Task{Name: leaseTask, Owner: e.o.Owner, Log: e.o.Log},
		func(ctx context.Context, check func() error) error { return e.lead(ctx, js, check) })
}
