package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// metaRetryOf names, in the metadata of a job, the one whose work it does again.
const metaRetryOf = "retry_of"

// onJob is a command that does something with the one job it names.
func (a *app) onJob(use, short string, do func(context.Context, *api.Client, wire.JID) error) *cobra.Command {
	return &cobra.Command{
		Use:   use + " <jid>",
		Short: short,
		Args:  words("job ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			jid, err := wire.ParseJID(args[0])
			if err != nil {
				return usageError("%w", err)
			}
			return a.withClient(func(client *api.Client) error { return do(cmd.Context(), client, jid) })
		},
	}
}

func (a *app) jobActiveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "active",
		Short: "List the jobs that have not ended, newest first",
		Args:  words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(client *api.Client) error {
				active, err := client.JobActive(cmd.Context())
				if err != nil {
					return err
				}
				if more := active.Total - len(active.Jobs); more > 0 {
					fmt.Fprintf(a.errOut, "%d more are not listed\n", more)
				}
				return a.showJobs(active.Jobs)
			})
		},
	}
}

func (a *app) jobCancelCommand() *cobra.Command {
	return a.onJob("cancel", "Stop a job: what waits is not started, what runs is ended", a.cancelJob)
}

func (a *app) cancelJob(ctx context.Context, client *api.Client, jid wire.JID) error {
	j, err := client.JobCancel(ctx, jid)
	if err != nil {
		return err
	}
	return a.print(j, []string{string(jid)}, func() error {
		_, err := fmt.Fprintf(a.out, "job %s is being canceled\n", jid)
		return err
	})
}

func (a *app) jobWatchCommand() *cobra.Command {
	var wait time.Duration
	cmd := a.onJob("watch", "Print what the peels return to a job, from its beginning to its end",
		func(ctx context.Context, client *api.Client, jid wire.JID) error {
			if wait < 0 {
				return usageError("cannot wait for %s", wait)
			}
			return a.watchJob(ctx, client, jid, wait)
		})
	cmd.Long = cmd.Short + `.

It ends with the exit code that the dispatch itself would have ended with. Any number may watch one job.`
	waitFlag(cmd.Flags(), &wait)
	return cmd
}

func (a *app) watchJob(ctx context.Context, client *api.Client, jid wire.JID, wait time.Duration) error {
	j, err := client.JobShow(ctx, jid)
	if err != nil {
		return err
	}
	spec := job.Spec{JID: jid, Function: j.Function}
	for row, err := range client.Rows(ctx, jid) {
		if err != nil {
			return err
		}
		spec.Targets = append(spec.Targets, row.Peel)
	}
	follower, err := client.Watch(jid)
	if err != nil {
		return err
	}
	defer follower.Close()
	return a.follow(ctx, client, follower, spec, wait)
}

func (a *app) jobReturnsCommand() *cobra.Command {
	var only string
	cmd := a.onJob("returns", "List the targets of a job, each with what became of it",
		func(ctx context.Context, client *api.Client, jid wire.JID) error {
			pick, err := rowFilter(only)
			if err != nil {
				return err
			}
			return a.listReturns(ctx, client, jid, pick)
		})
	onlyFlag(cmd, &only)
	return cmd
}

func (a *app) listReturns(ctx context.Context, client *api.Client, jid wire.JID, pick func(job.RowState) bool) error {
	out := []outcome{}
	t := table{header: []string{"PEEL", "STATUS", "DURATION", "ERROR"}}
	for row, err := range client.Rows(ctx, jid) {
		if err != nil {
			return err
		}
		if !pick(row.State) {
			continue
		}
		o := outcomeOf(row)
		out = append(out, o)
		took := ""
		if row.Return != nil {
			took = o.Duration.Round(time.Millisecond).String()
		}
		t.add(string(row.Peel), string(row.State), took, o.Error)
	}
	return a.show(out, t)
}

func (a *app) jobRetryCommand() *cobra.Command {
	var only string
	cmd := a.onJob("retry", "Run a job that has ended again, on the targets that failed or did not answer",
		func(ctx context.Context, client *api.Client, jid wire.JID) error {
			if err := a.dispatching.checkWait(); err != nil {
				return err
			}
			pick, err := rowFilter(only)
			if err != nil {
				return err
			}
			spec, err := retrySpec(ctx, client, jid, pick)
			if err != nil {
				return err
			}
			return a.runJob(ctx, client, spec)
		})
	onlyFlag(cmd, &only)
	cmd.Flags().BoolVar(&a.dispatching.async, "async", false, "print the new job's ID and do not wait")
	waitFlag(cmd.Flags(), &a.dispatching.wait)
	return cmd
}

// retrySpec is the job that does again what the named one, which has ended, did not do.
func retrySpec(ctx context.Context, client *api.Client, jid wire.JID, pick func(job.RowState) bool) (job.Spec, error) {
	j, err := client.JobShow(ctx, jid)
	if err != nil {
		return job.Spec{}, err
	}
	if !j.Status.Final() {
		return job.Spec{}, &failure{
			code: exitFailed, err: fmt.Errorf("cannot retry job %s: it is %s", jid, j.Status),
			hint: "zester job watch " + string(jid) + " waits for its end",
		}
	}
	spec := job.Spec{
		JID: wire.NewJID(), Function: j.Function, Args: j.Args, StateID: j.StateID, TargetExpr: j.TargetExpr,
		Timeout: j.Timeout, Batch: j.Batch, Metadata: map[string]string{metaRetryOf: string(jid)},
	}
	for row, err := range client.Rows(ctx, jid) {
		if err != nil {
			return job.Spec{}, err
		}
		if row.State != job.RowOK && pick(row.State) {
			spec.Targets = append(spec.Targets, row.Peel)
		}
	}
	if len(spec.Targets) == 0 {
		return job.Spec{}, &failure{code: exitNoTarget, err: fmt.Errorf("nothing of job %s is left to retry", jid)}
	}
	return spec, nil
}

func onlyFlag(cmd *cobra.Command, only *string) {
	cmd.Flags().StringVar(only, "only", "", "only targets that are `STATE`: failed or missing")
}

// rowFilter reads --only: failed are the peels that answered without success, missing those that did not answer.
func rowFilter(only string) (func(job.RowState) bool, error) {
	switch only {
	case "":
		return func(job.RowState) bool { return true }, nil
	case "failed":
		return failedRow, nil
	case "missing":
		return silentRow, nil
	}
	return nil, usageError("cannot show only %q: --only is failed or missing", only)
}

func failedRow(s job.RowState) bool { return s == job.RowFailed || s == job.RowRejected }

func silentRow(s job.RowState) bool {
	switch s {
	case job.RowMissing, job.RowUnreachable, job.RowCanceled, job.RowSkipped:
		return true
	}
	return false
}

// follow prints what the follower hears until the job ends, for as long as wait unless that is zero.
func (a *app) follow(ctx context.Context, client *api.Client, follower *api.Follower, spec job.Spec, wait time.Duration) error {
	if wait > 0 {
		waiting, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		return a.followUntil(waiting, client, follower, spec)
	}
	return a.followUntil(ctx, client, follower, spec)
}

func (a *app) followUntil(ctx context.Context, client *api.Client, follower *api.Follower, spec job.Spec) error {
	report := newReport(a, spec)
	for event, err := range follower.Events(ctx) {
		if err != nil {
			report.progress.clear()
			return a.detached(spec.JID, err)
		}
		report.take(event)
	}
	states, err := statesOf(ctx, client, report)
	if err != nil {
		return a.detached(spec.JID, err)
	}
	return report.end(states)
}

// statesOf reads what became of the targets that have not returned, if there are any.
func statesOf(ctx context.Context, client *api.Client, r *report) (map[target.PeelID]job.RowState, error) {
	if len(r.returns) == len(r.spec.Targets) {
		return nil, nil
	}
	states := map[target.PeelID]job.RowState{}
	for row, err := range client.Rows(ctx, r.spec.JID) {
		if err != nil {
			return nil, err
		}
		if r.returns[row.Peel] == nil && row.Return == nil {
			states[row.Peel] = row.State
		}
	}
	return states, nil
}

// detached is the failure of losing sight of a job that goes on.
func (a *app) detached(jid wire.JID, err error) error {
	f := failureOf(err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.code, f.err = exitStillRuns, fmt.Errorf("job %s still runs", jid)
	case f.code == exitInterrupted:
		f.err = errors.New("interrupted, the job goes on")
	}
	f.hint = "zester job watch " + string(jid) + " watches on"
	return f
}
