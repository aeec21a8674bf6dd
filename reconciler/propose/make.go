package propose

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/forge"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/push"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/edit"
	"github.com/seed-c01c3da5/zester/reconciler/plan/lint"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
)

// An intent is a change to make on the newest commit of the branch, and again if others push meanwhile.
type intent struct {
	user string
	of   access.Verb
	by   []grants.Caller // who all have to be allowed to change the files; nil: nobody asked for it
	// wait returns an error if a change of some files waits for a second person; nil: it never does.
	wait    func(ctx context.Context, files ...string) error
	request []byte // what tells this request from others of the user: its key or itself
	propose bool
	dry     bool   // it is only checked
	added   bool   // it is a new entry
	unasked bool   // it is the master's own, and nobody asked for it
	title   string // of the commit
	body    string
	on      func(*edit.Repo) (edited, error)
}

// edited is a change of one revision.
type edited struct {
	entry string
	files map[string][]byte
	done  *plan.DeclaredEntry // not nil if the revision has the change already
}

// errLost: each push lost the race with those of others.
var errLost = errors.New("others pushed to the branch")

// make commits a change on the newest commit of the branch. If others push meanwhile, it tries again.
func (on *session) make(ctx context.Context, w intent) (*api.ScheduleChanged, error) {
	for try := 1; ; try++ {
		out, err := on.try(ctx, w)
		if !errors.Is(err, push.ErrMoved) {
			return out, err
		}
		if try == tries {
			return nil, refuse("409", "%w %d times in the meantime; ask again", errLost, tries)
		}
	}
}

func (on *session) try(ctx context.Context, w intent) (*api.ScheduleChanged, error) {
	accepted, err := on.accepted(ctx) // read first, as nothing newer than the head may be in it
	if err != nil {
		return nil, err
	}
	head, repo, err := on.writer.read(ctx)
	if err == nil {
		err = on.checkHead(head, accepted, w.unasked)
	}
	if err != nil {
		return nil, err
	}
	change, err := on.change(ctx, w, repo)
	if err != nil {
		return nil, err
	}
	if change.done != nil {
		return on.describe(change.done, head.Commit.Hash.String()), nil
	}
	result, err := on.check(repo, change.files)
	if err == nil && w.added {
		err = checkFuture(result.ByName(change.entry))
	}
	if err != nil {
		return nil, err
	}
	if on.o.Mode == Off || w.dry {
		text, err := patch(repo.With(nil), on.writer.path, change.files)
		if err != nil {
			return nil, err
		}
		out := &api.ScheduleChanged{Entry: change.entry, Patch: text, Dry: w.dry}
		if w.dry {
			out.Commit = head.Commit.Hash.String()
		}
		return out, nil
	}
	if on.o.Check != nil && !w.unasked {
		if err := on.o.Check(ctx, on.js, w.user); err != nil {
			return nil, refuse("403", "%w", err)
		}
	}
	c := push.Change{
		Files:   on.writer.inRepo(change.files),
		Author:  on.author(w.user),
		Message: strings.TrimSpace("schedules: "+w.title+"\n\n"+w.body) + "\n",
	}
	if removed := gone(repo, result); len(removed) > 0 {
		c.Intend = func(ctx context.Context, commit gitrepo.Hash) error {
			return record.NoteRemoval(ctx, on.store, settings.Commit(commit.String()), removed)
		}
	}
	out := &api.ScheduleChanged{Entry: change.entry, Branch: on.o.Branch, Proposed: on.o.Mode == Propose || w.propose}
	if e := result.ByName(change.entry); len(e) == 1 {
		out.File, out.Next = e[0].Pos.File, next(e[0].Entry)
	}
	if !out.Proposed {
		commit, err := on.writer.pusher.Commit(ctx, head, c)
		if err != nil {
			return nil, pushError(err)
		}
		out.Commit = commit.String()
		return out, nil
	}
	if err := on.proposeOn(ctx, head, w, c, out); err != nil {
		return nil, err
	}
	return out, nil
}

// change returns the change of a revision, if all who asked for it may change its files.
func (on *session) change(ctx context.Context, w intent, repo *edit.Repo) (edited, error) {
	change, err := w.on(repo)
	if err != nil {
		return change, err
	}
	files := slices.Sorted(maps.Keys(change.files))
	if change.done != nil {
		files = append(files, change.done.Pos.File)
	}
	err = on.mayUse(ctx, w.by, w.of, files...)
	if err == nil && w.wait != nil && !w.dry && change.done == nil {
		err = w.wait(ctx, files...)
	}
	return change, err
}

// mayUse returns [grants.ErrNotAllowed] if some callers may not change or show files by a request of a verb.
func (on *session) mayUse(ctx context.Context, by []grants.Caller, verb access.Verb, files ...string) error {
	for _, from := range by {
		if err := on.reach.CheckFiles(ctx, from, verb, files...); err != nil {
			return err
		}
	}
	return nil
}

// gone returns the names of the entries that requests made and that a change removes.
func gone(before, after *edit.Repo) (names []string) {
	for _, e := range before.Entries {
		if e.Entry.API.ID > 0 && len(after.ByName(e.Entry.Name)) == 0 {
			names = append(names, e.Entry.Name)
		}
	}
	return names
}

// accepted returns the revision in force and the one that goes out in waves.
func (on *session) accepted(ctx context.Context) ([]gitrepo.Hash, error) {
	r, err := record.NewStore(on.rollout, "", record.Source{}).Read(ctx)
	if err != nil {
		return nil, err
	}
	return gitrepo.ParseHashes(r.Sent())
}

// errUnsettled: the newest commit of the branch is not the revision in force.
var errUnsettled = errors.New("the newest commit is not in force yet")

// checkHead returns an error if no change may be made on the newest commit: the fleet would not accept it, or it is not
// in force and nobody asked for the change.
func (on *session) checkHead(head *gitrepo.Snapshot, accepted []gitrepo.Hash, unasked bool) error {
	if unasked && (len(accepted) != 1 || accepted[0] != head.Commit.Hash) {
		return errUnsettled
	}
	err := on.writer.pusher.Verify(head, accepted)
	if e, ok := errors.AsType[*gitrepo.Error](err); ok && (e.Reason == gitrepo.Untrusted || e.Reason.Stalled()) {
		return refuse("409", "the newest commit is not accepted: %w", err)
	}
	return err
}

// proposeOn pushes a change to a branch of its own and opens a pull request. The name of the branch follows from the
// request, so that a repeated request finds the branch and only opens the pull request that the first one could not
// open.
func (on *session) proposeOn(ctx context.Context, head *gitrepo.Snapshot, w intent, c push.Change,
	out *api.ScheduleChanged,
) error {
	sum := sha256.Sum256(append([]byte(w.user+"\x00"), w.request...))
	c.Branch = "zester/" + strings.ReplaceAll(w.title, " ", "-") + "-" + hex.EncodeToString(sum[:5])
	commit, merged, err := on.writer.pusher.Tip(ctx, c.Branch, head)
	if err == nil && merged { // the same change was made before, and was undone since
		c.Branch += "-" + head.Commit.Hash.String()[:8]
		commit, _, err = on.writer.pusher.Tip(ctx, c.Branch, head)
	}
	if err != nil {
		return err
	}
	if out.Repeated = !commit.IsZero(); !out.Repeated {
		if commit, err = on.writer.pusher.Commit(ctx, head, c); err != nil {
			return pushError(err)
		}
	}
	out.Commit, out.Branch = commit.String(), c.Branch
	if on.o.Forge == nil {
		return nil
	}
	out.URL, err = on.o.Forge.OpenPull(ctx, forge.NewPull{
		Branch: c.Branch,
		Into:   on.o.Branch,
		Title:  "schedules: " + w.title,
		Body:   w.about(),
	})
	if err != nil {
		return refuse("503", "branch %s has the commit, but no pull request was opened; the same request opens it: %v",
			c.Branch, err)
	}
	return nil
}

// about is the text of a pull request.
func (w intent) about() string {
	if w.unasked {
		return w.body
	}
	return strings.TrimSpace(w.body + "\n\nRequested by " + w.user + ".")
}

// pushError makes a refusal of the server final.
func pushError(err error) error {
	switch {
	case errors.Is(err, push.ErrMoved):
		return err
	case push.IsRefused(err):
		return refuse("409", "%w", err)
	}
	return err
}

// author returns the person of a user name; a token's name is token:NAME.
func (on *session) author(user string) push.Person {
	return push.Person{Name: user, Email: strings.ReplaceAll(user, ":", "+") + "@" + cmp.Or(on.o.Domain, DefaultDomain)}
}

// check compiles the result for the fleet and returns its entries. The error has the messages of lint; mistakes that
// lint finds in entries that do not change do not count.
func (on *session) check(r *edit.Repo, files map[string][]byte) (*edit.Repo, error) {
	after := r.With(files)
	result, err := edit.Read(after)
	if err != nil {
		return nil, err
	}
	if _, err := plan.NewCompiler().Compile(after, on.fleet.Index()); err != nil {
		return nil, err
	}
	if errs := lint.New(lint.Options{From: time.Now()}).Unknown(r.Changed(result)); len(errs) > 0 {
		return nil, refuse("400", "%w", errs)
	}
	return result, nil
}

// checkFuture refuses a new entry whose times are all over: it would never run, and delete_after_run would never remove
// it.
func checkFuture(made []*plan.DeclaredEntry) error {
	for _, e := range made {
		if n := len(e.Entry.Clock.At); n > 0 && e.Entry.Clock.At[n-1].Before(time.Now()) {
			return refuse("400", "at: %s is over, so the entry would never run",
				e.Entry.Clock.At[n-1].UTC().Format(time.RFC3339))
		}
	}
	return nil
}
