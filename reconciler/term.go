package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target/feed"
)

// A term is one time of holding the lease. One goroutine owns it; what others read is in its board.
type term struct {
	r        *Reconciler
	nc       *nats.Conn
	rollout  jetstream.KeyValue
	groups   map[string][]string // the node groups that this term has published, nil before
	store    *settings.Store
	fleet    *feed.Feed
	board    *board
	progress *progress

	repo     *gitrepo.Repo
	compiler *plan.Compiler
	blamer   *plan.Blamer

	moved   <-chan struct{} // the local repo may have changed; nil for a remote
	changed <-chan struct{} // the fleet has
	asks    chan chan<- struct{}

	heads    settings.Heads
	last     record
	revision uint64 // of the record
	good     *gitrepo.Snapshot
	blocked  gitrepo.Hash // a commit that the guard has stopped stays so, however the fleet changes
	tried    gitrepo.Hash // the newest commit that was compiled, whether it is good or not
	failures int          // attempts in a row
}

// serve is a term: from what is stored it goes on until ctx ends or another leads.
func (r *Reconciler) serve(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, fleet *feed.Feed) (err error) {
	t := &term{
		r: r, nc: nc, fleet: fleet, store: settings.NewStore(js), compiler: plan.NewCompiler(),
		asks: make(chan chan<- struct{}), changed: fleet.Watch(ctx),
	}
	if t.rollout, err = js.KeyValue(ctx, rolloutBucket); err != nil {
		return fmt.Errorf("cannot open the bucket %s: %w", rolloutBucket, err)
	}
	if t.repo, err = gitrepo.Open(r.o.Repo); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.repo.Close()) }()
	t.board = newBoard(status.Sync{Repo: t.repo.URL(), Branch: r.branch(), Path: r.o.Repo.Path, Owner: r.o.Owner})
	t.progress = newProgress(fleet, r.log)
	t.blamer = plan.NewBlamer(t.history())
	if err := t.load(ctx); err != nil {
		return err
	}
	t.moved = t.repo.Watch(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.progress.follow(ctx, js) })
	g.Go(func() error { return t.answer(ctx) })
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
func (t *term) load(ctx context.Context) (err error) {
	if t.last, t.revision, err = readRecord(ctx, t.rollout); err != nil {
		return err
	}
	if t.heads, err = t.store.Load(ctx); err != nil {
		return err
	}
	t.last.Generation = max(t.last.Generation, t.newestGeneration())
	return nil
}

func (t *term) newestGeneration() (newest uint64) {
	for _, h := range t.heads {
		newest = max(newest, h.Generation)
	}
	return newest
}

func (t *term) loop(ctx context.Context) error {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		asked, err := t.wait(ctx, due.C)
		if err != nil {
			return err
		}
		err = t.attempt(ctx)
		if isConflict(err) {
			return err // another leads
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		for _, done := range asked {
			close(done)
		}
		due.Reset(t.next(err))
	}
}

// attempt brings the fleet to where the branch is, as far as that is possible: a newer revision that is good, else the
// last good one for peels that are new or have changed. Its error is one that trying again may mend; that a revision
// is refused is none.
func (t *term) attempt(ctx context.Context) error {
	t.board.set(status.Condition{Type: status.Reconciling, Status: true, Reason: "Attempt"})
	defer t.board.clear(status.Reconciling)
	head, err := t.repo.Resolve(ctx)
	if err == nil {
		t.board.clear(status.FetchFailed, status.Stalled)
		t.board.observe(head)
		if head != t.tried && head != t.blocked {
			err = t.advance(ctx, head)
		}
	}
	switch {
	case isConflict(err) || ctx.Err() != nil:
		return err
	case err != nil:
		t.fail(err)
	case t.good != nil && t.good.Commit.Hash == head:
		return nil
	}
	return errors.Join(err, t.retarget(ctx))
}

// fail shows why the branch could not be brought to the fleet.
func (t *term) fail(err error) {
	c := status.Condition{Type: status.FetchFailed, Status: true, Reason: "Failed", Message: err.Error()}
	if e, ok := errors.AsType[*gitrepo.Error](err); ok {
		c.Reason = string(e.Reason)
		if e.Reason.Stalled() {
			t.board.set(status.Condition{Type: status.Stalled, Status: true, Reason: c.Reason, Message: c.Message})
		}
	}
	t.board.set(c)
	t.r.log.Warn("branch not read", "reason", c.Reason, "err", err)
}

// refuse shows what is wrong with a revision and remembers that it was tried. An error that says nothing about the
// revision is returned.
func (t *term) refuse(head gitrepo.Hash, err error) error {
	c := status.Condition{Status: true, Message: err.Error(), ObservedRevision: settings.Commit(head.String())}
	var messages []string
	if bad, ok := errors.AsType[*plan.Error](err); ok {
		c.Type, c.Reason, c.Where = status.CompileFailed, string(bad.Reason), bad.Errors[0].Pos.String()
		for _, e := range bad.Errors {
			messages = append(messages, e.Error())
		}
	} else if blocked, ok := errors.AsType[*plan.BlockedError](err); ok {
		t.blocked = head
		c.Type, c.Reason = status.GuardBlocked, "TooManyChanges"
		messages = []string{blocked.Reason}
	} else if e, ok := errors.AsType[*gitrepo.Error](err); ok && e.Reason.Stalled() {
		c.Type, c.Reason = status.CompileFailed, string(e.Reason)
		messages = []string{err.Error()}
	} else {
		return err
	}
	t.tried = head
	t.board.refuse(c, messages)
	t.r.log.Error("revision refused, the last good one stays in force", "commit", head, "reason", c.Reason, "err", err)
	return nil
}

func isConflict(err error) bool {
	_, ok := errors.AsType[*settings.ConflictError](err)
	return ok || errors.Is(err, errOvertaken)
}

// advance fetches and compiles a commit and makes it the one in force if it is good.
func (t *term) advance(ctx context.Context, head gitrepo.Hash) error {
	result, err := t.repo.Fetch(ctx, head)
	if err != nil {
		return err
	}
	if result.Rebuilt != "" {
		t.r.log.Warn("store of the repo made anew", "reason", result.Rebuilt, "detail", result.Detail)
	}
	snapshot, err := t.repo.Snapshot(head)
	if err != nil {
		return t.refuse(head, err)
	}
	p, err := t.compiler.Compile(snapshot.Tree, t.fleet.Index())
	if err != nil {
		return t.refuse(head, err)
	}
	if err := t.guard(ctx, p, head); err != nil {
		return t.refuse(head, err)
	}
	if err := t.noteAncestry(head); err != nil {
		return err
	}
	t.good = snapshot // from here on: what is written in part is finished, never undone
	writes, err := t.publish(ctx, p, snapshot)
	if err != nil {
		return err
	}
	t.tried = head
	t.board.good(snapshot.Commit, t.last.Generation, writes, p.Warnings)
	t.r.log.Info("revision in force", "commit", head, "author", snapshot.Commit.Author, "writes", writes)
	return nil
}

// guard refuses a revision that would change more of what is published than is likely to be meant.
func (t *term) guard(ctx context.Context, p *plan.Plan, head gitrepo.Hash) error {
	if settings.Commit(head.String()) == t.last.Commit {
		return nil // it was let through before, and its writes may be half done
	}
	difference, err := plan.Diff(t.base(ctx), p)
	if err != nil {
		return err
	}
	return difference.Guard()
}

// noteAncestry shows when the branch has moved to a commit that does not come after the last good one.
func (t *term) noteAncestry(head gitrepo.Hash) error {
	if t.last.Commit == "" || string(t.last.Commit) == head.String() {
		return nil
	}
	before, err := gitrepo.ParseHash(string(t.last.Commit))
	if err != nil {
		return nil
	}
	after, err := t.repo.IsAncestor(before, head)
	if e, ok := errors.AsType[*gitrepo.Error](err); ok && e.Reason == gitrepo.RevisionNotFound {
		err = nil // this master has never fetched it
	}
	if err != nil {
		return err
	}
	if after {
		t.board.clear(status.HistoryRewritten)
		return nil
	}
	reason := "ForcePushed"
	if back, err := t.repo.IsAncestor(head, before); err == nil && back {
		reason = "Rewound"
	}
	t.board.set(status.Condition{
		Type: status.HistoryRewritten, Status: true, Reason: reason,
		Message: fmt.Sprintf("the branch moved from %s to %s, which does not come after it", t.last.Commit.Short(), settings.Commit(head.String()).Short()),
	})
	t.r.log.Warn("history of the branch was rewritten", "reason", reason, "from", t.last.Commit, "commit", head)
	return nil
}

// retarget brings the revision in force to peels that are new or whose facts have changed since it was published.
func (t *term) retarget(ctx context.Context) error {
	if t.good == nil {
		if err := t.recall(); err != nil || t.good == nil {
			return err
		}
	}
	p, err := t.compiler.Compile(t.good.Tree, t.fleet.Index())
	if err != nil {
		return fmt.Errorf("cannot bring the revision in force to all peels: %w", err)
	}
	_, err = t.publish(ctx, p, t.good)
	return err
}

// recall opens the revision that an earlier term left in force, if this master's store has it.
func (t *term) recall() error {
	if t.last.Commit == "" {
		return nil
	}
	hash, err := gitrepo.ParseHash(string(t.last.Commit))
	if err != nil {
		return err
	}
	snapshot, err := t.repo.Snapshot(hash)
	if e, ok := errors.AsType[*gitrepo.Error](err); ok && e.Reason == gitrepo.RevisionNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	t.good = snapshot
	t.board.serves(snapshot.Commit, t.last.Generation)
	return nil
}
