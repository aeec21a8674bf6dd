package reconciler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/metrics"
	"github.com/seed-c01c3da5/zester/reconciler/notify"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/blame"
	"github.com/seed-c01c3da5/zester/reconciler/progress"
	"github.com/seed-c01c3da5/zester/reconciler/publish"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target/feed"
)

// A term is one time of holding the lease. One goroutine owns it; what others read is in its board.
type term struct {
	r        *Reconciler
	nc       *nats.Conn
	js       jetstream.JetStream
	rollout  jetstream.KeyValue
	records  *record.Store
	store    *settings.Store
	fleet    *feed.Feed
	board    *board
	progress *progress.Progress
	ordered  atomic.Pointer[notify.Order] // the last order of a person

	repo     *gitrepo.Repo
	compiler *plan.Compiler
	blamer   *blame.Blamer

	moved   <-chan struct{} // the local repo may have changed; nil for a remote
	hints   chan struct{}   // somebody has heard that the branch moved
	changed <-chan struct{} // the fleet has
	news    chan struct{}   // peels have reported something
	asks    chan *ask
	minute  <-chan time.Time

	archive  *archive.Archive
	archived map[settings.Commit]gitrepo.Commit // opened from the archive, because the repo lacks them

	published  *publish.Published
	last       record.Record
	rolling    *rolling // the rollout under way, nil if this term has not gone on with it
	good       *archive.Revision
	head       gitrepo.Hash   // the newest commit that is at hand
	tried      gitrepo.Hash   // the newest commit that was judged, whether it is good or not
	distrusted gitrepo.Hash   // the head, if its signature was refused: the keys may change
	stale      bool           // the fleet may lack what the revision in force says
	frozen     *status.Freeze // the head, if a freeze holds it
	planned    planBase       // of the plan that waits for approval
	fleetMoves uint64         // number of changes of the fleet

	judged atomic.Pointer[judged] // the plan that the guard looked at last

	failures  int       // attempts in a row
	notBefore time.Time // what the remote asked for
}

// serve is a term: from what is stored it goes on until ctx ends or another leads.
func (r *Reconciler) serve(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, fleet *feed.Feed, checkLease func() error) (err error) {
	t, err := r.newTerm(ctx, nc, js, fleet, checkLease)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.repo.Close()) }()
	t.moved = t.repo.Watch(ctx)
	return t.run(ctx)
}

// newTerm reads what earlier terms have left. The caller closes the term's repo. checkLease returns an error when this master
// may not lead.
func (r *Reconciler) newTerm(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, fleet *feed.Feed, checkLease func() error) (t *term, err error) {
	t = &term{
		r: r, nc: nc, js: js, fleet: fleet, store: settings.NewStore(js), compiler: plan.NewCompiler(),
		archived: map[settings.Commit]gitrepo.Commit{},
		hints:    make(chan struct{}, 1), news: make(chan struct{}, 1), asks: make(chan *ask), stale: true, changed: fleet.Watch(ctx),
	}
	if t.rollout, err = js.KeyValue(ctx, record.Bucket); err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", record.Bucket, err)
	}
	if t.archive, err = archive.Open(ctx, js, r.log); err != nil {
		return nil, err
	}
	if t.repo, err = gitrepo.Open(r.o.Repo); err != nil {
		return nil, err
	}
	t.board = newBoard(status.Sync{Repo: t.repo.URL(), Branch: r.branch(), Path: r.o.Repo.Path, Owner: r.o.Owner})
	t.progress = progress.New(fleet, t.news, r.log)
	t.blamer = blame.New(t.history())
	t.compiler.UseRing(r.ring)
	if err := t.load(ctx, checkLease); err != nil {
		return nil, errors.Join(err, t.repo.Close())
	}
	return t, nil
}

func (t *term) run(ctx context.Context) error {
	hints, err := t.hear() // before the first attempt, so that no hint falls between
	if err != nil {
		return err
	}
	defer func() { _ = hints.Unsubscribe() }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.progress.Run(ctx, t.js) })
	g.Go(func() error { return t.archive.Run(ctx) })
	g.Go(func() error { return t.answer(ctx) })
	g.Go(func() error { return t.r.metrics.Run(ctx, t.view) })
	g.Go(func() error { return t.tell(ctx) })
	for _, c := range t.r.o.Pulls {
		g.Go(func() error { return c.Run(ctx, t.nc, t.fleet.Index(), t.rollout) })
	}
	g.Go(func() error { return t.loop(ctx) })
	return g.Wait()
}

func (r *Reconciler) branch() string {
	if r.o.Repo.Branch == "" {
		return "main"
	}
	return r.o.Repo.Branch
}

// load reads what earlier terms have left.
func (t *term) load(ctx context.Context, checkLease func() error) (err error) {
	t.records = record.NewStore(t.rollout, t.r.o.Owner, record.NewSource(t.repo.URL(), t.r.branch(), t.r.o.Repo.Path))
	if t.last, err = t.records.Read(ctx); err != nil {
		return err
	}
	t.published, err = publish.Load(ctx, publish.Options{
		JetStream: t.js, Rollout: t.rollout, Fleet: t.fleet, Blamer: t.blamer, Sealer: t.r.sealer, CheckLease: checkLease,
	})
	if err != nil {
		return err
	}
	t.board.remember(t.last.History)
	t.last.Generation = max(t.last.Generation, t.published.Generation())
	return nil
}

func (t *term) loop(ctx context.Context) error {
	defer t.endRolling()
	due := time.NewTimer(0) // the branch is to be asked
	defer due.Stop()
	again := time.NewTimer(0) // what could not be published is to be
	defer again.Stop()
	again.Stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	t.minute = minute.C
	for {
		w, err := t.wait(ctx, due.C, again.C)
		if err != nil {
			return err
		}
		told := w.obey(ctx)
		branch := w.branch && !t.leftAlone(w)
		if branch {
			err = t.attempt(ctx)
		} else {
			err = t.reconcile(ctx)
		}
		if err = errors.Join(told, err); isConflict(err) {
			return err // another leads
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.answer()
		switch {
		case branch:
			due.Reset(t.next(err))
		case w.branch:
			due.Reset(time.Until(t.notBefore))
		case err != nil:
			again.Reset(publishAgain + rand.N(publishAgain))
		}
		if (t.last.Rollout != nil || t.frozen != nil) && (err == nil || branch) {
			again.Reset(lookEvery) // waves go on while the repo is away
		}
	}
}

// leftAlone reports whether the remote does not want to be asked yet, and tells those who want it to be.
func (t *term) leftAlone(w *wake) bool {
	if !time.Now().Before(t.notBefore) {
		return false
	}
	for i, a := range w.asked {
		if a.branch && a.do == nil {
			w.failed[i] = record.Refuse("cannot ask for the branch before %s: the remote wants to be left alone until then", stamp(t.notBefore))
		}
	}
	return true
}

// attempt asks for the branch and brings the fleet to where it is, as far as that is possible. Its error is one that
// trying again may mend; that a revision is refused is none.
func (t *term) attempt(ctx context.Context) error {
	t.board.set(status.Condition{Type: status.Reconciling, Status: true, Reason: "Attempt"})
	defer t.board.clear(status.Reconciling)
	t.readRing()
	began := time.Now()
	err := t.fetch(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	t.r.metrics.Attempted()
	t.took(metrics.Fetch, began)
	if err != nil {
		t.fail(err)
	}
	return errors.Join(err, t.reconcile(ctx))
}

// fetch has the newest commit of the branch at hand when it returns without an error.
func (t *term) fetch(ctx context.Context) error {
	head, err := t.repo.Resolve(ctx)
	if err != nil {
		return err
	}
	t.board.clear(status.FetchFailed, status.Stalled)
	t.board.observe(head)
	if head == t.head {
		t.trustAgain(head)
		return nil
	}
	if err := t.repo.Fetch(ctx, head); err != nil {
		return err
	}
	t.head = head
	return nil
}

// reconcile brings the fleet to the newest revision at hand that is good, and the one in force to peels that are new or
// have changed. It asks nothing of the remote, so that facts may change as often as they like.
func (t *term) reconcile(ctx context.Context) error {
	err := t.unpinIfNewer(ctx)
	if err == nil {
		err = t.endApproval(ctx)
	}
	if err != nil {
		return err
	}
	err = t.follow(ctx)
	if err == nil && t.stale && t.last.Rollout == nil {
		err = t.retarget(ctx)
	}
	if err == nil && t.last.Rollout != nil {
		err = t.roll(ctx)
	}
	if err == nil {
		err = t.planAgain(ctx)
	}
	if err == nil || isConflict(err) || ctx.Err() != nil {
		return err
	}
	if e, ok := errors.AsType[*gitrepo.Error](err); ok {
		if e.Reason == gitrepo.StoreDamaged {
			t.head = gitrepo.Hash{} // has it fetched again, which mends the store
		}
		t.fail(err)
		return errors.Join(err, t.retargetIfStale(ctx))
	}
	t.board.unready(err)
	t.r.metrics.Failed("PublishFailed")
	t.r.log.Warn("revision not brought to all peels", "err", err)
	return err
}

// follow brings the pinned revision to the fleet, or else the newest unless something holds it back.
func (t *term) follow(ctx context.Context) error {
	t.board.suspend(&t.last)
	t.board.setOrClear(skippedHead(&t.last, t.newestCommit()))
	if f := t.frozen; f != nil && (string(f.Commit) != t.head.String() || !f.Until.IsZero() && !time.Now().Before(f.Until)) {
		t.thaw()
	}
	switch b := t.last.Blocked; {
	case t.last.Pinned != nil:
		return t.hold(ctx, t.last.Pinned.Commit)
	case t.head.IsZero() || t.head == t.tried || t.skip(t.head):
	case b != nil: // planAgain judges it
		t.board.block(b)
		t.tried = t.head
	case t.last.Suspended == nil || t.last.Commit == t.newestCommit():
		return t.advance(ctx, t.head)
	}
	return nil
}

// retargetIfStale serves the fleet while the store of the repo is in trouble.
func (t *term) retargetIfStale(ctx context.Context) error {
	if !t.stale {
		return nil
	}
	retarget := t.retarget
	if t.last.Rollout != nil {
		retarget = t.respread
	}
	err := retarget(ctx)
	if err != nil && ctx.Err() == nil && !isConflict(err) {
		t.board.unready(err)
	}
	return err
}

// fail shows why the branch could not be brought to the fleet.
func (t *term) fail(err error) {
	c := status.Condition{Type: status.FetchFailed, Status: true, Reason: "Failed", Message: err.Error()}
	if e, ok := errors.AsType[*gitrepo.Error](err); ok {
		c.Reason = string(e.Reason)
		if e.Reason.Stalled() {
			t.board.set(status.Condition{Type: status.Stalled, Status: true, Reason: c.Reason, Message: c.Message})
		} else {
			t.board.clear(status.Stalled)
		}
	}
	t.board.set(c)
	t.r.metrics.Failed(c.Reason)
	t.r.log.Warn("branch not read", "reason", c.Reason, "err", err)
}
