package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/plan/backtest"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule/window"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const planManual = `plan compares two revisions of a config repo and shows what a merge will do to
the fleet: the schedule entries and states that each peel gains, loses or has
changed, the next fires of entries, the contents of files, and the load. It
lists what states will delete, which services will react, and states that are
taken out: what these made stays on the host. It changes nothing.

  zester plan --facts peels.yaml              what is not committed yet
  zester plan --base origin/main --head HEAD  a branch, for the live fleet
  zester plan --base origin/main -o markdown  a comment for a pull request
  zester plan --path prod --base main         one of the fleets that a repo
                                              serves by folder

--backtest 30d also computes what the changed entries would have done in the
last 30 days, with the durations of recorded runs: fires that come while the run
before is in flight, fires in blackouts, other entries of the peel that run at
the same time, and the load by the minute. Runs of entries with return_job are
recorded, for 7 days; it says for how many. Of other entries it takes what their
peels have counted of all their runs, which is about right. It asks the live
fleet, also with --facts.

--base and --head are revisions as for git rev-parse. The default base is HEAD.
The default head is the working tree: the commit that git add -A and git commit
would make of it. --path is the --path of zester-master. If the base does not
compile, plan compares with the newest earlier commit that does, because the
fleet keeps that one; with on_error: isolate it does so for each peel. --facts
names the file of the peels, in the format of target eval --file; without it the
peels and facts are those of the live fleet.

-o markdown prints a comment for a pull request of at most 60,000 bytes. It
begins with <!-- zester plan -->, so that a program can find and replace it. -o
json prints:

  {"version": 1,
   "path": …,                                  --path
   "base": {"name": …, "commit": …, "subject": …}, "head": …,
   "errors": ["path:line:column: …", …],       mistakes of the head
   "refused": true,                            if the head is refused
   "peels": …,                                 number of peels in the fleet
   "touched": [peel, …], "emptied": [peel, …], "behind": [peel, …],
   "hash": …,                                  for zester sync approve
   "blocked": …,                               why it needs an approval
   "release": …,                               what else lets it go out
   "safety": {
     "limits": {"change": percent, "remove": …, "peels": …},
                                               101 is off
     "weakens": [rule, …],                     rules of the base that weaken
     "waves": [{"name": …, "peels": …, "target": …, "reach": peels,
                "soak": …, "max_failures": …, "gate": …, "deadline": …}, …],
     "freeze": {"reason": …, "until": time, "peels": [peel, …]}},
   "totals": {"before": …, "added": …, "changed": …, "removed": …,
              "timers_reset": …, "runs_at_once": …, "states_added": …,
              "states_changed": …, "states_removed": …},
   "changes": [{
     "peels": […], "entry": …, "action": "add" or "change" or "remove",
     "fields": {NAME: {"before": …, "after": …}, …}, "resets_timer": …,
     "next": {"before": [time, …], "after": [time, …]},
     "origin": "file:line"}, …],
   "states": [{
     "peels": […], "state": …, "function": …, "action": as of changes,
     "fields": as of changes, "origin": "file:line",
     "contents": [{"path": …, "diff": [line, …]}, …]}, …],
   "effects": [{"peels": […], "state": …, "text": …,
                "kind": "removal" or "reaction" or "left"}, …],
   "settings": [{"peels": […], "key": …, "before": …, "after": …}, …],
   "warnings": ["path:line:column: …", …],
   "new_warnings": …,                          the first N are not at the base
   "load": {"from": …,
            "before": {"runs": …, "runs_per_hour": …,
                       "worst": {"at": …, "runs": …}},
            "after": …},
   "backtest": {                               with --backtest
     "from": …, "until": …,
     "recorded": time,                         of the oldest record
     "entries": [{"entry": …, "peels": …, "fires_before": …, "fires": …,
                  "recorded_runs": …, "median_seconds": …, "p95_seconds": …,
                  "overlaps": fires, "if_running": …, "outside": fires,
                  "blackout": fires, "into": runs,
                  "beside": [{"entry": …, "fires": …}, …]}, …],
     "more": …,                                changes that were not tested
     "load": {"before": {"starts": …, "starts_at": …, "in_flight": …,
                         "in_flight_at": …}, "after": …}}}

/usr/share/zester/schema/plan.json is its JSON Schema. Encrypted values are not
printed, nor values below a name that looks secret, such as password, auth-
token, apiKey or credentials: plan prints (secret 1), with the same number for
equal values. It does print command lines. In the contents of files it omits
lines with such a name. It compares contents of up to 64 KiB and prints at most
400 lines of each.

"load" is the expected number of runs of the whole fleet in the 24 hours after
the merge. "safety" says how the change would go out: limits, waves with the
number of peels in each, gates, and a freeze that holds at the time of the merge
(--from). These rules are those of the base, as in a master: a change of rules
holds from the next commit on. A head that weakens a rule waits for approval,
and "weakens" names each such rule.

Exit codes:
    0  nothing changes
    1  the head has mistakes, also isolated ones
    2  there are changes
    3  a guard would block the changes`

// planForm is a value of -o of plan, which also has the form markdown.
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

// planFlags holds the flags of plan.
type planFlags struct {
	form                          planForm
	repo, path, base, head, facts string
	zone, from, peelConfig        string
	past                          time.Duration // of --backtest; 0: none
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
	flags.StringVar(&f.repo, "repo", ".", "`DIR` of the config repo, which may be below the top of a repository")
	flags.StringVar(&f.path, "path", "", "`DIR` below the repo with the files of the fleet, as --path of zester-master")
	flags.StringVar(&f.base, "base", "HEAD", "`REVISION` to compare with")
	flags.StringVar(&f.head, "head", "", "`REVISION` with the change (default: the working tree)")
	factsFlag(flags, &f.facts, " (default: the live fleet)")
	flags.StringVar(&f.peelConfig, "peel-config", "", "`FILE` peel.yaml, to warn of entries that the repo replaces")
	fromFlag(flags, &f.from, "of the merge")
	durationVar(flags, &f.past, "backtest", 0,
		"also compute what the changed entries would have done in the last `TIME`")
	zoneFlag(flags, &f.zone)
	return cmd
}

// options returns the options of the comparison.
func (f planFlags) options() (o review.Options, err error) {
	o.Path = f.path
	if f.past != 0 && (f.past < backtest.MinPast || f.past > backtest.MaxPast) {
		return o, usageError("cannot use --backtest %s: it is between %s and %s", duration(f.past),
			duration(backtest.MinPast), duration(backtest.MaxPast))
	}
	if o.Static, err = staticEntries(f.peelConfig); err != nil {
		return o, err
	}
	if o.From, err = fromInstant(f.from); err != nil {
		return o, err
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
	if f.past > 0 && !r.Refused {
		if err := a.testPast(ctx, r, &p, f.past); err != nil {
			return err
		}
	}
	if f.facts == "" {
		p.compareFleet(a.inForce(ctx))
		p.noteOutdated(a.outdated(ctx, p.withStates))
	}
	if p.fleet.Len() == 0 {
		p.note("%s", notChecked(f.facts))
	}
	for _, note := range p.notes {
		fmt.Fprintln(a.errOut, "warning:", plain(note))
	}
	if err := a.showPlan(r, f.form.markdown); err != nil {
		return err
	}
	return verdict(r, p.hint)
}

// verdict returns the failure with the exit code of a review; hint is for a head that is refused.
func verdict(r *review.Review, hint string) error {
	switch {
	case r.Refused || len(r.Errors) > 0: // isolated errors count
		return &failure{code: exitFailed, hint: hint}
	case r.Blocked != "":
		return &failure{code: exitSomeSilent}
	case !r.Empty():
		return &failure{code: exitSomeFailed}
	}
	return nil
}

// notChecked returns the warning about a fleet, or a file of peels, that has none.
func notChecked(file string) string {
	if file == "" {
		return "the fleet has no peels: which hosts get what was not checked"
	}
	e := noPeels(file)
	return file + ": " + e.Msg
}

// fleet returns the peels with their facts: those in file, or the live fleet if file is empty.
func (a *app) fleet(ctx context.Context, file string) (*peelindex.Index, error) {
	if file != "" {
		return readIndex(file)
	}
	client, err := a.client()
	if f, ok := errors.AsType[*failure](err); ok {
		f.hint = "--facts FILE names the peels if there is no master; else " + f.hint
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

// inForce returns the revision in force of the live fleet; empty if no master replies.
func (a *app) inForce(ctx context.Context) settings.Commit {
	client, err := a.client()
	if err != nil {
		return ""
	}
	defer client.Close()
	s, err := api.SyncStatus.Ask(ctx, client, api.None{})
	if err != nil {
		return ""
	}
	return s.LastGood.Commit
}

// outdated returns the peels of a list whose zester-peel does not understand states, none if the live fleet cannot be
// asked.
func (a *app) outdated(ctx context.Context, withStates []target.PeelID) []target.PeelID {
	if len(withStates) == 0 {
		return nil
	}
	client, err := a.client()
	if err != nil {
		return nil
	}
	defer client.Close()
	all, err := client.SyncPeels(ctx)
	if err != nil {
		return nil
	}
	return withoutFeature(all, withStates)
}

// withoutFeature returns the peels of a sorted list whose reports do not say that they understand states. Peels without
// a report are left out.
func withoutFeature(all []status.Peel, withStates []target.PeelID) (peels []target.PeelID) {
	for _, p := range all {
		_, has := slices.BinarySearch(withStates, p.Peel)
		if has && !p.Reported.IsZero() && !slices.Contains(p.Features, wire.FeatureStates) {
			peels = append(peels, p.Peel)
		}
	}
	return peels
}

// planning compares revisions of one checkout.
type planning struct {
	checkout *gitrepo.Checkout
	compiler *plan.Compiler
	fleet    *peelindex.Index
	dir      string
	o        review.Options
	notes    []string // for people
	hint     string   // for a head that is refused

	before, after *plan.Plan      // that were compared; nil if the head is refused
	withStates    []target.PeelID // that have states in the head, sorted
}

func (p *planning) note(format string, args ...any) {
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// readAhead reads the files of the base while the fleet is read. It drops errors: the next reading reports them.
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
	if refused, ok := review.Refusal(err); ok {
		p.hint = topHint(refused, p.o.Path)
		return review.Refuse(refused, p.o), nil
	}
	if err != nil {
		return nil, err
	}
	for id, e := range after.Peels {
		if len(e.States) > 0 {
			p.withStates = append(p.withStates, id)
		}
	}
	slices.Sort(p.withStates)
	p.before, p.after = before, after
	return review.Make(before, after, p.o)
}

// base compiles the revision of a name, or the newest earlier commit that compiles.
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
	made, err := review.Compile(p.checkout, p.compiler, p.fleet, at)
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
		p.note("%s does not compile, so the fleet keeps an earlier commit: compared with %s", name, c.Hash.String()[:8])
	}
	return made.Plan, nil
}

func (p *planning) noteEmptyBase(name string) {
	p.note("neither %s nor an earlier commit compiles: compared with a fleet without settings", name)
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

// compareHistory notes that the head does not contain the base: then the plan shows changes of the base as removed.
func (p *planning) compareHistory(name string, head gitrepo.Hash) {
	base, err := gitrepo.ParseHash(p.o.Base.Commit)
	if err != nil {
		return
	}
	if ok, err := p.checkout.IsAncestor(base, head); err == nil && !ok && len(p.notes) == 0 {
		p.note("%s is not based on %s: the plan shows what it lacks as removed", name, p.o.Base.Name)
	}
}

// compareFleet notes that the live fleet runs another revision than the base.
func (p *planning) compareFleet(c settings.Commit) {
	if c != "" && string(c) != p.o.Base.Commit {
		p.note("the fleet runs %s, and %s is another revision: --base %[1]s compares with what the fleet runs",
			c.Short(), p.o.Base.Name)
	}
}

// noteOutdated notes the peels whose zester-peel does not understand the states that the head gives them.
func (p *planning) noteOutdated(peels []target.PeelID) {
	if len(peels) > 0 {
		p.note("%s; upgrade it first", outdatedLine(peels))
	}
}

func nameCommit(name string, c gitrepo.Commit) review.Revision {
	return review.Revision{Name: name, Commit: c.Hash.String(), Subject: c.Subject()}
}
