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
	expr := words[0]
	if _, known := wire.LookupFunction(expr); known {
		expr = "*"
	} else if words = words[1:]; len(words) == 0 {
		return &failure{
			code: exitUsage, err: fmt.Errorf("no function to run on %q", expr),
			hint: "zester '<target>' <module.function>; zester --help shows the commands",
		}
	}
	id, args, err := parseArguments(words[1:])
	if err != nil {
		return err
	}
	client, err := a.client()
	if err != nil {
		return err
	}
	defer client.Close()
	peels, err := a.resolve(cmd.Context(), client, expr)
	if err != nil {
		return err
	}
	return a.runJob(cmd.Context(), client, job.Spec{
		JID: wire.NewJID(), Function: words[0], StateID: id, Args: args,
		Targets: peels, TargetExpr: expr, Timeout: a.dispatching.timeout,
	})
}

// resolve returns the peels of an expression, at least one.
func (a *app) resolve(ctx context.Context, client *api.Client, expr string) ([]target.PeelID, error) {
	resolved, err := client.Resolve(ctx, expr)
	if err != nil {
		return nil, err
	}
	for _, id := range resolved.Unknown {
		fmt.Fprintf(a.errOut, "no peel %s is known\n", id)
	}
	if len(resolved.Peels) == 0 {
		return nil, &failure{code: exitNoTarget, err: fmt.Errorf("no peel matches %q", expr), hint: "zester peel list shows all peels"}
	}
	if n := len(resolved.Offline); n > 0 {
		fmt.Fprintf(a.errOut, "%d of %d peels are offline: %s\n", n, len(resolved.Peels), some(resolved.Offline))
	}
	return resolved.Peels, nil
}

// some names the first peels of a list.
func some(ids []target.PeelID) string {
	const most = 5
	var names []string
	for _, id := range ids[:min(len(ids), most)] {
		names = append(names, string(id))
	}
	if len(ids) > most {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// runJob dispatches and, unless it is not to wait, prints what comes back.
func (a *app) runJob(ctx context.Context, client *api.Client, spec job.Spec) error {
	if a.dispatching.async {
		j, err := client.Dispatch(ctx, spec)
		if err != nil {
			return err
		}
		if a.output == "table" || a.output == "name" {
			fmt.Fprintln(a.out, j.JID)
			return nil
		}
		return a.encode(j)
	}
	follower, err := client.Follow(spec.JID, spec.Targets)
	if err != nil {
		return err
	}
	defer follower.Close()
	if _, err := client.Dispatch(ctx, spec); err != nil {
		return err
	}
	fmt.Fprintf(a.errOut, "job %s on %d peels\n", spec.JID, len(spec.Targets))
	report := newReport(a, spec)
	for event, err := range follower.Events(ctx) {
		if errors.Is(err, context.Canceled) {
			return &failure{code: exitInterrupted, err: errors.New("interrupted, the job goes on"), hint: "zester job show " + string(spec.JID)}
		}
		if err != nil {
			return err
		}
		report.take(event)
	}
	return report.end()
}
