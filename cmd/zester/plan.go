package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/reconciler/plan/revision"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const planManual = `plan compares two revisions of a config repo as the fleet would see them, and says what a merge will do: which
entries of which peels come, change and go, when they fire next, and what that makes of the load. Nothing is changed.

  zester plan --facts peels.yaml                              what is not committed yet
  zester plan --base origin/main --head HEAD                  a branch, for the live fleet
  zester plan --base origin/main -o markdown > comment.md     for a pull request
  zester plan --path prod --base main --head staging          one of several fleets that a repo serves by folder

--base and --head are names as git rev-parse reads them; the base is HEAD if it is not given. The head is the working tree
if it is not given: the commit that git add -A and git commit would make of it. --path is the --path of zester-master.
Where the base does not compile, the fleet has what was there before: the newest commit before it that does is taken.
With on_error: isolate that holds for each peel by itself.
--facts names the file of the peels, as target eval --file reads it; without it the live fleet is asked for its peels
and their facts.

-o markdown is a comment for a pull request of at most 60,000 bytes; it begins with <!-- zester plan -->, so that it can
be found and replaced. -o json is:

  {"version": 1,
   "path": …,                       of the fleet's files, if --path names it
   "base": {"name": …, "commit": …, "subject": …}, "head": …,
   "errors": ["path:line:column: …", …], "refused": true,     only of a head that is wrong
   "peels": …,                      of the fleet
   "touched": [peel, …], "emptied": [peel, …], "behind": [peel, …],
   "hash": …, "blocked": …, "release": …,   what zester sync approve takes, why it is needed, and what else lets it out
   "safety": {"limits": {"change": percent, "remove": …, "peels": …},      of both sides the stricter; 101 is off
              "waves": [{"name": …, "peels": …, "target": …, "reach": peels, "soak": …, "max_failures": …, "gate": …, "deadline": …}, …],
              "freeze": {"reason": …, "until": time, "peels": [peel, …]}},   if one holds at the time of the merge
   "totals": {"before": …, "added": …, "changed": …, "removed": …, "timers_reset": …, "runs_at_once": …},
   "changes": [{"peels": […], "entry": …, "action": "add" or "change" or "remove",
                "fields": {NAME: {"before": …, "after": …}, …}, "resets_timer": …,
                "next": {"before": [time, …], "after": [time, …]}, "origin": "file:line"}, …],
   "settings": [{"peels": […], "key": …, "before": …, "after": …}, …],
   "warnings": ["path:line:column: …", …], "new_warnings": …,   so many of them, the first, are not at the base
   "load": {"from": …, "before": {"runs": …, "runs_per_hour": …, "worst": {"at": …, "runs": …}}, "after": …}}

Values whose names, or names above them, hold passw, passphrase, secret, token, credential, api_key or private_key, and
values that are encrypted, are numbered and not shown: (secret 1). Equal ones have one number. Command lines are shown.
examples/schema/plan.json is the JSON Schema of all that.

The load is what is expected of the whole fleet in the 24 hours after the merge.

The plan also says how the change would go out: the limits, the waves with the number of peels that they reach, gates, and a
freeze that holds at the time of the merge (--from). Of the base and the head the stricter rule counts, as in a master.

Exit codes: 0 nothing changes, 1 the head has mistakes, also isolated ones, 2 there are changes, 3 a guard would hold them
back.`

// planForm is a value of -o of plan, which can write a comment as well.
type planForm struct {
	*form
	markdown bool
}

func (f *planForm) Set(s string) error {
	f.markdown = s == "markdown"
	switch s {
	case "markdown", "text":
		return nil
	}
	if err := f.form.Set(s); err != nil {
		return fmt.Errorf("%w, text or markdown", err)
	}
	return nil
}

// planFlags are what plan is asked for.
type planFlags struct {
	form                          planForm
	repo, path, base, head, facts string
	zone, from, peelConfig        string
}

func (a *app) planCommand() *cobra.Command {
	f := planFlags{form: planForm{form: &a.output}}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a change of the config repo will do to the fleet",
		Long:  planManual,
		Args:  words(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.plan(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.VarP(&f.form, "output", "o", "output `FORMAT`: text, markdown, json, yaml or name (the peels that change)")
	flags.Lookup("output").DefValue = "text"
	flags.StringVar(&f.repo, "repo", ".", "`DIR` of the config repo, also below the top of a repository")
	flags.StringVar(&f.path, "path", "", "`DIR` below the repo with the files of the fleet, as --path of zester-master")
	flags.StringVar(&f.base, "base", "HEAD", "`REVISION` to compare with")
	flags.StringVar(&f.head, "head", "", "`REVISION` with the change (default: the working tree)")
	flags.StringVar(&f.facts, "facts", "", "`FILE` with the peels and their facts (default: the live fleet)")
	flags.StringVar(&f.peelConfig, "peel-config", "", "`FILE` peel.yaml, to warn of entries that the repo replaces")
	flags.StringVar(&f.from, "from", "", "`INSTANT` of the merge, such as 2026-06-01T09:00:00+01:00 (default: now)")
	flags.StringVar(&f.zone, "zone", "", "IANA `ZONE` of entries that name none (default: that of this host)")
	return cmd
}

// options returns what the flags say of the comparison.
func (f planFlags) options() (o review.Options, err error) {
	o = review.Options{Path: f.path, From: time.Now()}
	if o.Static, err = staticEntries(f.peelConfig); err != nil {
		return o, err
	}
	if f.from != "" {
		if o.From, err = instant("from", f.from); err != nil {
			return o, err
		}
	}
	if f.zone != "" {
		o.Zone, err = window.Zone(f.zone)
	}
	return o, err
}

func (a *app) plan(ctx context.Context, f planFlags) (err error) {
	collectSeldom()
	o, err := f.options()
	if err != nil {
		return err
	}
	c, err := gitrepo.OpenCheckout(f.repo, f.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	p := planning{checkout: c, compiler: plan.NewCompiler(), dir: f.repo, o: o}
	var reading errgroup.Group
	reading.Go(func() (err error) { p.fleet, err = a.fleet(ctx, f.facts); return err })
	p.readAhead(f.base)
	if err := reading.Wait(); err != nil {
		return err
	}
	r, err := p.review(ctx, f.base, f.head)
	if err != nil {
		return err
	}
	if f.facts == "" {
		p.compareFleet(a.inForce(ctx))
	}
	if p.fleet.Len() == 0 {
		p.note("there are no peels for which anything could change")
	}
	for _, note := range p.notes {
		fmt.Fprintln(a.errOut, "warning:", plain(note))
	}
	if err := a.showPlan(r, f.form.markdown); err != nil {
		return err
	}
	return verdict(r, p.hint)
}

// verdict is the exit code of a review, with what to do about a head that is refused.
func verdict(r *review.Review, hint string) error {
	switch {
	case r.Refused || len(r.Errors) > 0: // isolated mistakes are mistakes
		return &failure{code: exitFailed, hint: hint}
	case r.Blocked != "":
		return &failure{code: exitSomeSilent}
	case !r.Empty():
		return &failure{code: exitSomeFailed}
	}
	return nil
}

// fleet returns the peels with their facts: of a file, or of the live fleet if that is empty.
func (a *app) fleet(ctx context.Context, file string) (*peelindex.Index, error) {
	if file != "" {
		return readIndex(file)
	}
	client, err := a.client()
	if f, ok := errors.AsType[*failure](err); ok {
		f.hint = "--facts FILE names the peels where no master can be asked; else " + f.hint
	}
	if err != nil {
		return nil, err
	}
	defer client.Close()
	peels, err := client.PeelsWithFacts(ctx, "")
	if err != nil {
		return nil, err
	}
	index := peelindex.New()
	for _, p := range peels {
		index.Put(p.ID, p.Facts)
	}
	return index, nil
}

// inForce is the revision that the live fleet was given, empty if nobody says so.
func (a *app) inForce(ctx context.Context) settings.Commit {
	client, err := a.client()
	if err != nil {
		return ""
	}
	defer client.Close()
	s, err := client.SyncStatus(ctx)
	if err != nil {
		return ""
	}
	return s.LastGood.Commit
}

// planning compares revisions of one checkout.
type planning struct {
	checkout *gitrepo.Checkout
	compiler *plan.Compiler
	fleet    *peelindex.Index
	dir      string
	o        review.Options
	notes    []string // for people
	hint     string   // what to do about a head that is refused
}

func (p *planning) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// readAhead reads the files of the base while the fleet is read. An error is reported when the files are needed.
func (p *planning) readAhead(base string) {
	at, err := p.checkout.Revision(base)
	if err != nil {
		return
	}
	if snapshot, err := p.checkout.Snapshot(at); err == nil {
		_ = p.compiler.Read(snapshot.Tree)
	}
}

func (p *planning) review(ctx context.Context, base, head string) (*review.Review, error) {
	before, err := p.base(base)
	if err != nil {
		return nil, err
	}
	after, err := p.head(ctx, head)
	if refused, ok := revision.Refusal(err); ok {
		p.hint = topHint(refused, p.o.Path)
		return review.Refuse(refused, p.o), nil
	}
	if err != nil {
		return nil, err
	}
	return review.Make(before, after, p.o)
}

// base compiles what the fleet has at the revision of a name.
func (p *planning) base(name string) (*plan.Plan, error) {
	p.o.Base = review.Revision{Name: name}
	at, err := p.checkout.Revision(name)
	if errors.Is(err, gitrepo.ErrNoCommit) {
		p.noteEmptyBase(name)
		return p.compile(embed.FS{})
	}
	if err != nil {
		return nil, err
	}
	made, err := revision.Compile(p.checkout, p.compiler, p.fleet, at)
	if err != nil {
		return nil, fmt.Errorf("cannot compare with %s: %w", name, err)
	}
	switch c := made.Commit; c.Hash {
	case gitrepo.Hash{}:
		p.o.Base.Commit = at.String()
		p.noteEmptyBase(name)
	case at:
		p.o.Base = nameCommit(name, c)
	default:
		p.o.Base = nameCommit(name, c)
		p.note("%s does not compile, so the fleet keeps what was there before: compared with %s", name, c.Hash.String()[:8])
	}
	return made.Plan, nil
}

func (p *planning) noteEmptyBase(name string) {
	p.note("neither %s nor a commit before it compiles: compared with a fleet without settings", name)
}

func (p *planning) head(ctx context.Context, name string) (*plan.Plan, error) {
	if name == "" {
		if p.checkout.Bare() {
			return nil, fmt.Errorf("cannot compare the working tree: %s has none; --head names a revision", p.dir)
		}
		p.o.Head = review.Revision{Name: "working tree"}
	} else {
		p.o.Head = review.Revision{Name: name}
	}
	s, err := snapshot(ctx, p.checkout, name)
	if err != nil {
		return nil, err
	}
	if name != "" {
		p.o.Head, p.o.Message = nameCommit(name, s.Commit), s.Commit.Message
		p.compareHistory(name, s.Commit.Hash)
	}
	return p.compile(s.Tree)
}

func (p *planning) compile(tree fs.FS) (*plan.Plan, error) { return p.compiler.Compile(tree, p.fleet) }

// compareHistory notes that the head lacks what the base has: it would look as if the change took that away.
func (p *planning) compareHistory(name string, head gitrepo.Hash) {
	base, err := gitrepo.ParseHash(p.o.Base.Commit)
	if err != nil {
		return
	}
	if ok, err := p.checkout.IsAncestor(base, head); err == nil && !ok && len(p.notes) == 0 {
		p.note("%s is not based on %s: what it lacks of it is shown as taken away", name, p.o.Base.Name)
	}
}

// compareFleet notes that the live fleet runs something else than the base.
func (p *planning) compareFleet(c settings.Commit) {
	if c != "" && string(c) != p.o.Base.Commit {
		p.note("the fleet runs %s, and %s is another revision: --base %[1]s compares with what the fleet runs", c.Short(), p.o.Base.Name)
	}
}

func nameCommit(name string, c gitrepo.Commit) review.Revision {
	return review.Revision{Name: name, Commit: c.Hash.String(), Subject: c.Subject()}
}
