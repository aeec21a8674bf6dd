// Package reconciler brings the revisions of a config repo to the peels: it follows one branch, compiles each revision
// for the fleet, publishes the documents that changed, and follows which peel has applied them.
//
// Call [New] and then [Reconciler.Run], in each master. The master that holds the lease leads; the others wait. A term
// is one leadership session. It starts from the record and the documents on the bus, never from memory.
//
//	source    goroutine: polls, watches and fetches the branch    ──▶ event ─┐
//	control   requests of people: each order a pure function      ──▶ order ─┤
//	worker    goroutine for one task: verify, read, compile,      ──▶ result─┼─▶ loop: state ─ decide ─▶ action
//	          compare, blame, write documents                                │    │             write the record,
//	fleet     facts and keys have changed                         ──▶ ───────┤    │             or begin a task
//	progress  reports of peels about settings and runs            ──▶ ───────┘    └─▶ conditions ─▶ status
//
// Read package decide first: a pure function returns the next action, and why. loop.go carries it out: it writes the
// record, by compare-and-set, or begins a task of package worker, and then waits for the next event, which events.go
// handles. The status is computed from the same state. term.go starts everything.
//
// Guarantees:
//   - The loop never waits for the network, the disk or a compile. An order is in force after one write of the record.
//     A task that no longer fits the record is canceled and its result dropped, except for documents that it has
//     written.
//   - Only the loop writes the record. The record names a revision before its first document is written, so the next
//     leader continues from there.
//   - The whole revision is compiled before its first document is written. After any failure, of the network or of one
//     entry, the revision in force stays for all peels, also for peels that appear or change meanwhile. A failed read
//     removes nothing from a peel.
//   - A revision that is over the limits, or that rewrites history, waits for the approval of its plan. The plan is
//     made again when the fleet changes, and an approval of an older plan lets nothing out.
//   - What new facts of peels would take is held to the same limits, together with what they took within a day. Beyond
//     them, the peels keep their settings until a person approves the change, or the facts are as before.
//   - If revisions name waves, package rollout decides which peels get the revision and when it is rolled back. The
//     first revision of a fleet goes out at once, as there is none to roll back to.
//   - Every state in which the fleet does not follow the branch has a reason, in decide and in the conditions.
//   - What the guard has judged is in the record: settings that facts give after that, also before the documents of a
//     revision are written and after a take-over, are a change of their own for the guard.
//   - Secrets are decrypted only in memory. Documents hold them sealed to one peel each.
//
// Known gaps: the condition HistoryRewritten is lost when another master takes the lead. A write of the record whose
// acknowledgement is lost ends the term; the next one begins from the stored record. If the facts of a peel change
// after a revision was judged and before its document is written, the guard for facts counts all that the document
// takes from the peel, also what the revision takes. Facts are not compared with the targets of the former plan, so
// that a target which loses all its peels counts by the settings that leave their last peel. A member of a failed wave
// gets the revision in force for its new facts, whatever they take.
package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/pulls"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/sops"
)

// A master that follows another source than the fleet holds the lease for yieldAfter, so that people can adopt the
// fleet, and tries again after yieldPause: a master whose source fits tries at least once in it.
const (
	yieldAfter = 50 * time.Second
	yieldPause = 6 * time.Second
)

var errOtherSource = errors.New("the fleet follows another source than this master, which gives the lease back")

// Options say which repo to follow and how.
type Options struct {
	Repo  gitrepo.Options
	Owner string        // names this master in the lease; unique
	Poll  time.Duration // interval at which the branch is read, ± 10 %; 0: 30 s
	// Identities are files of age identities that decrypt the repo's secrets. They are read again after every attempt
	// to read the branch, so that keys are rotated without a restart.
	Identities []string
	History    History // empty: HistoryApprove
	// MayAllow names the signers, by principal or fingerprint, whose Zester-Allow line counts if commits have to be
	// signed. If empty, the line of every trusted signer counts.
	MayAllow []string
	// fingerprint of the key that signs commits of this master, whose Zester-Allow line never counts; may be empty
	OwnKey  string
	Notify  []*notify.Place // get notifications about revisions
	Pulls   []*pulls.Commenter
	Metrics *service.Metrics // of requests; nil: nothing is counted
	Log     *slog.Logger
}

// A Reconciler serves one repo to one fleet.
type Reconciler struct {
	o      Options
	log    *slog.Logger
	bus    atomic.Pointer[nats.Conn] // while it runs
	audit  *audit.Log                // of Run
	ring   *sops.Ring                // as it was read last
	sealer *settings.Sealer

	metrics *Metrics
}

// New checks the options; it neither connects nor reads the repo.
func New(o Options) (*Reconciler, error) {
	repo, err := gitrepo.Open(o.Repo)
	if err != nil {
		return nil, err
	}
	if o.Owner == "" {
		return nil, errors.New("cannot run a reconciler without the name of its master")
	}
	switch o.History {
	case "", HistoryForbid, HistoryApprove, HistoryAllow:
	default:
		return nil, errors.Join(fmt.Errorf("cannot use history: %.64q: it is forbid, approve or allow", o.History),
			repo.Close())
	}
	if len(o.MayAllow) > 0 && o.Repo.Verify == (gitrepo.Trust{}) {
		return nil, errors.Join(
			errors.New(
				"cannot use verify.allow without verify.ssh or verify.openpgp: commits need not be signed, "+
					"so no signer is known",
			), repo.Close(),
		)
	}
	if o.Poll == 0 {
		o.Poll = 30 * time.Second
	}
	if o.Poll < time.Second {
		return nil, fmt.Errorf("cannot poll every %v: 1s is the least", o.Poll)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reconciler{o: o, log: o.Log, metrics: NewMetrics()}
	if r.ring, err = sops.ReadRing(o.Identities...); err != nil {
		return nil, errors.Join(err, repo.Close())
	}
	if r.sealer, err = settings.NewSealer(); err != nil {
		return nil, errors.Join(err, repo.Close())
	}
	return r, repo.Close()
}

// Run serves the fleet whenever this master holds the lease, until ctx ends. The fleet's feed must run.
func (r *Reconciler) Run(ctx context.Context, nc *nats.Conn, fleet *fleet.Fleet) error {
	r.bus.Store(nc)
	defer r.bus.Store(nil)
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	r.audit = audit.OpenLog(js, r.log) // for all terms, because it limits the refusals that it stores of each user
	return r.lead(ctx, js, func(ctx context.Context, checkLease func() error) error {
		return r.serve(ctx, nc, js, fleet, checkLease)
	})
}

// lead runs serve whenever this master holds the lease, until ctx ends. checkLease returns an error once it does not.
func (r *Reconciler) lead(
	ctx context.Context, js jetstream.JetStream, serve func(ctx context.Context, checkLease func() error) error,
) error {
	return bus.Lead(ctx, js, bus.Task{
		Name: "reconciler", Owner: r.o.Owner, Log: r.log,
		Pause: func(err error) time.Duration {
			if errors.Is(err, errOtherSource) {
				return yieldPause
			}
			return time.Second
		},
	}, serve)
}

// Moved reports that the branch may have moved. The master that holds the lease reads it at once, but not before the
// time that the remote named. A new term reads the branch anyway.
func (r *Reconciler) Moved() error {
	const cannot = "cannot pass on that the branch moved"
	nc := r.bus.Load()
	if nc == nil {
		return errors.New(cannot + ": the bus has not been reached yet")
	}
	if err := nc.Publish(wire.BranchMoved, nil); err != nil {
		return fmt.Errorf(cannot+": %w", err)
	}
	return nil
}

// serve is one leadership session.
func (r *Reconciler) serve(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, fleet *fleet.Fleet,
	checkLease func() error,
) (err error) {
	t, err := r.newTerm(ctx, nc, js, fleet, checkLease)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.source.Close()) }()
	return t.run(ctx, t.source.Watch(ctx))
}
