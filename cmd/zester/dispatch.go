package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// dispatching holds the flags of a dispatch.
type dispatching struct {
	timeout, wait, whenOnline time.Duration
	async, dryRun             bool
	batch, reason             string
	maxFailures               int
	expect, subset            int
	seed                      uint64
}

func (a *app) dispatchFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&a.dispatching.timeout, "timeout", job.DefaultTimeout, "wait this long for the peels' returns")
	fs.BoolVar(&a.dispatching.async, "async", false, "print the job's ID and do not wait")
	waitFlag(fs, &a.dispatching.wait)
}

// narrowFlags are the flags that only a function typed as such takes.
func (a *app) narrowFlags(fs *pflag.FlagSet) {
	fs.StringVar(&a.dispatching.batch, "batch", "", "have at most `N` peels, or N% of them, work at a time")
	fs.IntVar(&a.dispatching.maxFailures, "max-failures", 0, "with --batch: send to no more peels after `N` without success")
	fs.DurationVar(&a.dispatching.whenOnline, "when-online", 0, "keep the request so long for peels that are away")
	fs.IntVar(&a.dispatching.expect, "expect", 0, "dispatch only if the target is exactly `N` peels")
	fs.IntVar(&a.dispatching.subset, "subset", 0, "dispatch to `N` of the peels, drawn by chance")
	fs.Uint64Var(&a.dispatching.seed, "seed", 0, "with --subset: the same `SEED` draws the same peels")
	fs.StringVar(&a.dispatching.reason, "reason", "", "`WHY`, for the record of the job")
	fs.BoolVar(&a.dispatching.dryRun, "dry-run", false, "print the peels and dispatch nothing")
}

func waitFlag(fs *pflag.FlagSet, wait *time.Duration) {
	fs.DurationVar(wait, "wait", 0, "stop waiting after this time; the job goes on")
}

// dispatch runs `zester <target> <function> [id] [key=value …]`.
func (a *app) dispatch(cmd *cobra.Command, words []string) error {
	if len(words) == 0 {
		return cmd.Help()
	}
	if err := a.dispatching.check(cmd.Flags()); err != nil {
		return err
	}
	spec, err := a.spec(cmd, words)
	if err != nil {
		return err
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if spec.Targets, err = a.resolve(cmd.Context(), client, spec.TargetExpr); err != nil {
		return err
	}
	if err := a.dispatching.narrow(&spec); err != nil {
		return err
	}
	if a.dispatching.dryRun {
		return a.printTargets(spec)
	}
	return a.runJob(cmd.Context(), client, spec)
}

// spec reads what was typed, all but the peels that are meant. Whether there is such a function is for the peels to
// say, which may be newer than this program.
func (a *app) spec(cmd *cobra.Command, words []string) (job.Spec, error) {
	spec := job.Spec{JID: wire.NewJID(), TargetExpr: words[0], Timeout: a.dispatching.timeout}
	if _, known := wire.LookupFunction(words[0]); known {
		spec.TargetExpr = "*"
	} else if words = words[1:]; len(words) == 0 {
		return spec, usageError("there is no function to run on %q%s", spec.TargetExpr, strictyaml.Suggest(spec.TargetExpr, firstWords(cmd)))
	}
	if spec.Function = words[0]; !strings.Contains(spec.Function, ".") {
		return spec, usageError("cannot run %q on %q: a function is module.function%s",
			spec.Function, spec.TargetExpr, strictyaml.Suggest(spec.TargetExpr, commandNames(cmd)))
	}
	if spec.Timeout < job.MinTimeout || spec.Timeout > job.MaxTimeout {
		return spec, usageError("cannot wait for %s: --timeout is between %s and %s", spec.Timeout, job.MinTimeout, job.MaxTimeout)
	}
	err := a.dispatching.checkWait()
	if err != nil {
		return spec, err
	}
	spec.StateID, spec.Args, err = parseArguments(words[1:])
	return spec, err
}

// firstWords are all that can be typed first but targets.
func firstWords(cmd *cobra.Command) []string {
	names := commandNames(cmd)
	for _, f := range wire.Functions() {
		names = append(names, f.Name)
	}
	return names
}

// resolve returns the peels of an expression, at least one.
func (a *app) resolve(ctx context.Context, client *api.Client, expr string) ([]target.PeelID, error) {
	resolved, err := client.Resolve(ctx, expr)
	if err != nil {
		return nil, err
	}
	a.warnUnknown(resolved.Unknown)
	if len(resolved.Peels) == 0 {
		return nil, &failure{code: exitNoTarget, err: fmt.Errorf("no peel matches %q", expr), hint: "zester peel list shows all peels"}
	}
	if n := len(resolved.Offline); n > 0 {
		fmt.Fprintf(a.errOut, "%d of %s offline: %s\n", n, count(len(resolved.Peels), "peel"), some(resolved.Offline))
	}
	return resolved.Peels, nil
}

// warnUnknown says which IDs of a target are those of no peel.
func (a *app) warnUnknown(ids []target.PeelID) {
	if len(ids) > 0 {
		fmt.Fprintln(a.errOut, "not known:", plain(some(ids)))
	}
}

// some names the first peels of a list.
func some(ids []target.PeelID) string {
	const most = 5
	names := make([]string, min(len(ids), most))
	for i := range names {
		names[i] = string(ids[i])
	}
	list := strings.Join(names, ", ")
	if more := len(ids) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", list, more)
	}
	return list
}

// runJob dispatches and, unless it is not to wait, prints what comes back.
func (a *app) runJob(ctx context.Context, client *api.Client, spec job.Spec) error {
	if a.dispatching.async {
		j, err := client.Dispatch(ctx, spec)
		if err != nil {
			return err
		}
		return a.print(j, []string{string(j.JID)}, func() error {
			_, err := fmt.Fprintln(a.out, j.JID)
			return err
		})
	}
	follower, err := client.Follow(spec.JID, spec.Targets)
	if err != nil {
		return err
	}
	defer follower.Close()
	if _, err := client.Dispatch(ctx, spec); err != nil {
		return err
	}
	fmt.Fprintf(a.errOut, "job %s on %s\n", spec.JID, count(len(spec.Targets), "peel"))
	return a.follow(ctx, client, follower, spec, a.dispatching.wait)
}
