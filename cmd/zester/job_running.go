package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) jobActiveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "active", Short: "List the jobs that have not ended, newest first", Args: words(),
		RunE: a.online(func(cmd *cobra.Command, client *api.Client, _ []string) error {
			active, err := api.JobActive.Ask(cmd.Context(), client, api.None{})
			if err != nil {
				return err
			}
			if more := active.Total - len(active.Jobs); more > 0 && len(active.Jobs) > 0 {
				fmt.Fprintf(a.errOut, "the newest %d of %s\n", len(active.Jobs), count(active.Total, "job"))
			}
			return a.showJobs(active.Jobs)
		}),
	}
}

func (a *app) jobWatchCommand() *cobra.Command {
	cmd := a.onJob("watch", "Watch a job until it ends",
		`watch prints each return of a job once: first those that have come, then each
new one. Its exit code is that of the dispatch. Any number of people may watch a
job.`,
		func(ctx context.Context, client *api.Client, jid wire.JID) error {
			j, err := api.JobShow.Ask(ctx, client, api.JobRequest{JID: jid})
			if err != nil {
				return err
			}
			if j.Status.Final() {
				a.dispatching.wait = 0 // the job has ended
			}
			follower, err := client.Watch(jid)
			if err != nil {
				return err
			}
			defer follower.Close()
			return a.follow(ctx, client, follower, newReport(a, jid, j.Function, j.TargetCount))
		})
	durationVar(cmd.Flags(), &a.dispatching.wait, "wait", 0,
		"stop watching after `TIME` (default: at the end of the job)")
	a.dispatching.viewing.flags(cmd.Flags())
	return checked(cmd, a.dispatching.checkCounts)
}

func (a *app) jobCancelCommand() *cobra.Command {
	return a.onJob("cancel", "Stop a job on all peels",
		`cancel stops the running processes of a job, with SIGTERM and 5 s later SIGKILL;
peels that have not started do not start. It returns when the request is
recorded; the job ends soon after. After a timeout processes may still run:
cancel stops them on the peels that have not returned. The exit code is 1 if the
job has ended with all its returns, or if somebody else has canceled it.`,
		func(ctx context.Context, client *api.Client, jid wire.JID) error {
			j, err := api.JobCancel.Ask(ctx, client, api.JobRequest{JID: jid})
			if err != nil {
				return err
			}
			return a.print(j, []string{string(j.JID)}, func() error {
				text := "is being canceled"
				if j.Status.Final() {
					text = fmt.Sprintf("had ended (%s), its peels that have not returned are told to stop", j.Status)
				}
				_, err := fmt.Fprintf(a.out, "job %s %s\n", j.JID, text)
				return err
			})
		})
}

func (a *app) jobRetryCommand() *cobra.Command {
	cmd := a.onJob("retry", "Repeat a job on the peels that failed or were missing",
		`retry dispatches a new job: the same function with the same arguments, on the
peels that did not succeed, or with --only on those that failed or those that
were missing. The job must have ended. Its target expression is not evaluated
again.`,
		func(ctx context.Context, client *api.Client, jid wire.JID) error {
			spec, err := a.again(ctx, client, jid)
			if err != nil {
				return err
			}
			a.dispatching.only = "" // --only has chosen the peels; all their returns are printed
			return a.runJob(ctx, client, spec)
		})
	a.dispatching.flags(cmd.Flags())
	return checked(cmd, a.dispatching.check)
}

// checked makes a command check its flags before it asks a master.
func checked(cmd *cobra.Command, check func(changed func(string) bool) error) *cobra.Command {
	do := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := check(cmd.Flags().Changed); err != nil {
			return err
		}
		return do(cmd, args)
	}
	return cmd
}

// again returns the job that repeats another one on the peels that did not succeed.
func (a *app) again(ctx context.Context, client *api.Client, jid wire.JID) (job.Spec, error) {
	j, err := api.JobShow.Ask(ctx, client, api.JobRequest{JID: jid})
	if err != nil {
		return job.Spec{}, err
	}
	if !j.Status.Final() {
		return job.Spec{}, &failure{
			code: exitFailed,
			err:  fmt.Errorf("cannot retry job %s: it is %s", jid, j.Status),
			hint: "zester job cancel " + string(jid) + " stops it",
		}
	}
	var targets []target.PeelID
	for row, err := range client.Rows(ctx, jid) {
		if err != nil {
			return job.Spec{}, err
		}
		if row.State != job.RowOK && a.dispatching.only.shows(row.State) {
			targets = append(targets, row.Peel)
		}
	}
	if len(targets) == 0 {
		return job.Spec{}, &failure{
			code: exitNoTarget,
			err:  fmt.Errorf("cannot retry job %s: no peel failed or was missing", jid),
			hint: "zester job returns " + string(jid) + " shows what they returned",
		}
	}
	return job.Spec{
		JID:        wire.NewJID(),
		Function:   j.Function,
		StateID:    j.StateID,
		Args:       j.Args,
		Targets:    targets,
		TargetExpr: j.TargetExpr,
		Metadata:   map[string]string{metaRetryOf: string(jid)},
	}, nil
}
