package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// choose applies --subset and --expect to the peels that the target selects.
func (d *dispatching) choose(peels []target.PeelID, seeded bool) ([]target.PeelID, error) {
	if d.subset > 0 && d.subset < len(peels) {
		seed := d.seed
		if !seeded {
			seed = rand.Uint64()
		}
		order := rand.New(rand.NewPCG(seed, 0)).Perm(len(peels))
		some := make([]target.PeelID, d.subset)
		for i := range some {
			some[i] = peels[order[i]]
		}
		slices.Sort(some)
		peels = some
	}
	if d.expect > 0 && len(peels) != d.expect {
		return nil, &failure{
			code: exitCanceled,
			err:  fmt.Errorf("%s selected, --expect is %d: nothing was run", count(len(peels), "peel"), d.expect),
			hint: "--dry-run prints the peels",
		}
	}
	return peels, nil
}

// dispatch runs `zester <target> <function> [id] [key=value …]`.
func (a *app) dispatch(cmd *cobra.Command, words []string) error {
	if len(words) == 0 {
		return cmd.Help()
	}
	spec, err := a.spec(cmd, words)
	if err != nil {
		return err
	}
	return a.withClient(func(client *api.Client) error {
		return hinted(a.dispatchTo(cmd, client, words, spec), api.CodeDenied, hintOperator)
	})
}

// hintOperator is the hint for a credential that may not run functions.
const hintOperator = "running functions needs the credential of an operator, an auditor only reads: " +
	"zester auth user add NAME makes one"

// dispatchTo resolves the target of a job and runs it.
func (a *app) dispatchTo(cmd *cobra.Command, client *api.Client, words []string, spec job.Spec) error {
	if err := a.refusePeelAfter(cmd.Context(), client, words); err != nil {
		return err
	}
	peels, err := a.targets(cmd.Context(), client, spec.TargetExpr)
	if err != nil {
		return err
	}
	if spec.Targets, err = a.dispatching.choose(peels, cmd.Flags().Changed("seed")); err != nil {
		return err
	}
	switch {
	case a.dispatching.dryRun:
		err = a.showSelection(spec.TargetExpr, spec.Targets)
	case a.dispatching.direct:
		err = a.runDirect(cmd.Context(), client, spec)
	default:
		err = a.runJob(cmd.Context(), client, spec)
	}
	return a.countUnknown(err)
}

// countUnknown adds the peels that a target names and nobody knows to the failure of a command. They count as peels
// that did not answer, because a script would take a mistyped name for success.
func (a *app) countUnknown(err error) error {
	if len(a.dispatching.unknown) == 0 {
		return err
	}
	if err == nil {
		return &failure{code: exitSomeSilent}
	}
	if f, ok := errors.AsType[*failure](err); ok && f.code == exitSomeFailed {
		f.code = exitBoth
	}
	return err
}

// targets returns the peels of an expression. With --direct, IDs need no master.
func (a *app) targets(ctx context.Context, client *api.Client, expr string) ([]target.PeelID, error) {
	if ids := named(expr); a.dispatching.direct && len(ids) > 0 {
		return ids, nil
	}
	return a.resolve(ctx, client, expr)
}

// fill sets the fields of a job that flags determine.
func (d *dispatching) fill(spec *job.Spec) (err error) {
	spec.Timeout, spec.WhenOnline = d.timeoutOf(spec.Function), d.whenOnline
	if d.reason != "" {
		spec.Metadata = withPair(spec.Metadata, job.MetaReason, d.reason)
	}
	if d.test {
		spec.Args = withPair(spec.Args, "test", any(true))
	}
	if err := d.secrets.ask(spec); err != nil {
		return err
	}
	spec.Batch, err = d.batches(len(spec.Targets))
	return err
}

// withPair returns a copy of m with one more pair.
func withPair[V any](m map[string]V, key string, value V) map[string]V {
	m = maps.Clone(m)
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

// metaRetryOf is the key of metadata with the job whose failed or missing targets are run again.
const metaRetryOf = "retry_of"

// firstWords returns the words that a command line can begin with, other than targets.
func firstWords(cmd *cobra.Command) []string {
	names := commandNames(cmd)
	for _, f := range catalogue.Functions() {
		names = append(names, f.Name)
	}
	return names
}

// resolve returns the peels of an expression, at least one.
func (a *app) resolve(ctx context.Context, client *api.Client, expr string) ([]target.PeelID, error) {
	resolve := client.Resolve
	if a.dispatching.direct || a.dispatching.dryRun { // nothing else needs a master
		resolve = func(ctx context.Context, expr string) (*api.TargetsPage, error) {
			return a.resolveOnline(ctx, client, expr)
		}
	}
	resolved, err := resolve(ctx, expr)
	if err != nil {
		return nil, err
	}
	a.warnUnknown(resolved.Unknown)
	a.dispatching.unknown = resolved.Unknown
	if len(resolved.Peels) == 0 {
		return nil, nobodyMatches(expr)
	}
	if n := len(resolved.Offline); n > 0 {
		fmt.Fprintf(a.errOut, "%d of %s offline: %s\n", n, count(len(resolved.Peels), "peel"), some(resolved.Offline))
	}
	return resolved.Peels, nil
}

// nobodyMatches returns the failure of an expression that selects no peel.
func nobodyMatches(expr string) error {
	hint := "zester target eval --explain '" + expr + "' shows the peels of each term, zester peel list all peels"
	if isFile(expr) {
		hint = "it is a file of this directory: quote a pattern, as in '*', so that the shell does not replace it"
	}
	return &failure{code: exitNoTarget, err: fmt.Errorf("no peel matches %q", expr), hint: hint}
}

// resolveOnline asks a master to resolve an expression, and if none replies resolves it here, from the facts on the
// bus.
func (a *app) resolveOnline(ctx context.Context, client *api.Client, expr string) (*api.TargetsPage, error) {
	resolved, err := client.Resolve(ctx, expr)
	if api.CodeOf(err) != api.CodeUnavailable {
		return resolved, err
	}
	alone, e := client.ResolveAlone(ctx, expr)
	if e != nil {
		return nil, errors.Join(err, e)
	}
	fmt.Fprintln(
		a.errOut, "no master replies: these are the peels with facts on the bus; it is not known which are online",
	)
	return alone, nil
}

// warnUnknown prints the IDs of a target that no peel has.
func (a *app) warnUnknown(ids []target.PeelID) {
	if len(ids) > 0 {
		fmt.Fprintln(a.errOut, "not known:", plain(some(ids)))
	}
}

// some returns the first five peels, and the number of the others.
func some(ids []target.PeelID) string { return plan.FirstOf(ids, 5) }

// On a terminal, zester asks before a job on this many peels or more.
const (
	manyPeels   = 10  // for a function that changes hosts
	manyReaders = 500 // for a function that only reads
)

// confirm asks before a job on many peels if there is a terminal.
func (a *app) confirm(spec *job.Spec) error {
	many := manyPeels
	if f, _ := catalogue.Lookup(spec.Function); f.ReadOnly {
		many = manyReaders
	}
	if a.dispatching.yes || len(spec.Targets) < many || !a.canAsk() {
		return nil
	}
	question := fmt.Sprintf("run %s on %s: %s?", plain(spec.Function), count(len(spec.Targets), "peel"),
		some(spec.Targets))
	return a.ask(question, &failure{
		code: exitCanceled,
		err:  errors.New("nothing was run"),
		hint: "--yes skips the question",
	})
}

// canAsk reports whether stdin and stderr are terminals, so that a question can be answered.
func (a *app) canAsk() bool { return term.IsTerminal(int(os.Stdin.Fd())) && width(a.errOut) > 0 }

// ask prints a question and returns nil if the answer is yes, else no.
func (a *app) ask(question string, no *failure) error {
	fmt.Fprintf(a.errOut, "%s [y/N] ", question)
	answer, err := bufio.NewReader(io.LimitReader(os.Stdin, 64)).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer == "y" || answer == "yes" {
		return nil
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return no
}

// runJob dispatches a job. Unless --async is set it prints the returns.
func (a *app) runJob(ctx context.Context, client *api.Client, spec job.Spec) error {
	if spec.Metadata[job.MetaHeld] == "" { // else it runs as it was asked for
		if err := a.dispatching.fill(&spec); err != nil {
			return err
		}
	}
	if err := a.confirm(&spec); err != nil {
		return err
	}
	if a.dispatching.async {
		j, err := api.JobDispatch.Ask(ctx, client, spec)
		if err != nil {
			return err
		}
		return a.print(j, []string{string(j.JID)}, func() error {
			_, err := fmt.Fprintln(a.out, j.JID)
			return err
		})
	}
	follower, err := a.start(ctx, client, spec)
	if err != nil {
		return err
	}
	defer follower.Close()
	return a.follow(ctx, client, follower, newReport(a, spec.JID, spec.Function, len(spec.Targets)))
}

// start dispatches a job. The caller closes the follower of its returns.
func (a *app) start(ctx context.Context, client *api.Client, spec job.Spec) (*api.Follower, error) {
	follower, err := client.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(a.errOut, "job %s on %s: %s\n", spec.JID, count(len(spec.Targets), "peel"), some(spec.Targets))
	return follower, nil
}

// follow prints the returns of a job until it ends, --wait is over, or it is interrupted.
func (a *app) follow(ctx context.Context, client *api.Client, follower *api.Follower, r *report) error {
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if a.dispatching.wait > 0 {
		waiting, cancel = context.WithTimeout(ctx, a.dispatching.wait)
	}
	defer cancel()
	for event, err := range follower.Events(waiting) {
		if err == nil {
			err = r.take(event)
		} else if errors.Is(waiting.Err(), context.DeadlineExceeded) {
			err = waiting.Err() // --wait may have interrupted a request
		}
		if err != nil {
			r.progress.clear()
			return a.detached(r.jid, err)
		}
	}
	return r.end(ctx, client)
}

// detached returns the failure of a command that stops watching a running job.
func (a *app) detached(jid wire.JID, err error) error {
	f := failureOf(err)
	switch {
	case f.code == exitInterrupted:
		f.err = errors.New("interrupted, the job goes on")
	case errors.Is(err, context.DeadlineExceeded):
		f.code, f.err = exitStillRuns, fmt.Errorf("the job still runs after %s", a.dispatching.wait)
	}
	f.hint = "zester job watch " + string(jid) + " goes on watching, zester job cancel " + string(jid) + " stops it"
	return f
}
