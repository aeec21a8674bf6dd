package main

import (
	"context"
	"errors"
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
	timeout time.Duration
	async   bool
}

func (a *app) dispatchFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&a.dispatching.timeout, "timeout", job.DefaultTimeout, "wait this long for the peels' returns")
	fs.BoolVar(&a.dispatching.async, "async", false, "print the job's ID and do not wait")
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
	client, err := a.client()
	if err != nil {
		return err
	}
	defer client.Close()
	if spec.Targets, err = a.resolve(cmd.Context(), client, spec.TargetExpr); err != nil {
		return err
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
	var err error
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
	report := newReport(a, spec)
	for event, err := range follower.Events(ctx) {
		if err != nil {
			report.progress.clear()
			return a.detached(spec.JID, err)
		}
		report.take(event)
	}
	return report.end()
}

// detached is the failure of losing sight of a job that goes on.
func (a *app) detached(jid wire.JID, err error) error {
	f := failureOf(err)
	if f.code == exitInterrupted {
		f.err = errors.New("interrupted, the job goes on")
	}
	f.hint = "zester job show " + string(jid) + " tells what became of it"
	return f
}
