package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func (a *app) jobCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "job", Short: "See jobs and what came of them", Args: cobra.NoArgs, RunE: needsCommand}
	cmd.AddCommand(a.jobListCommand(), a.jobShowCommand())
	return cmd
}

// needsCommand is run where a word is missing.
func needsCommand(cmd *cobra.Command, _ []string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	return usageError("zester %s needs a command: %s", cmd.Name(), strings.Join(names, ", "))
}

func (a *app) jobListCommand() *cobra.Command {
	var q job.Query
	var limit int
	var status string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first: those that people asked for, and runs of schedules with return_job",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Status = job.Status(status); status != "" && !q.Status.Known() {
				return usageError("unknown status %q", status)
			}
			if limit < 1 {
				return usageError("cannot list %d jobs", limit)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			return a.listJobs(cmd, client, q, limit)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Function, "function", "", "only jobs of the `FUNCTION`")
	flags.StringVar(&q.User, "user", "", "only jobs of the `USER`")
	flags.StringVar(&status, "status", "", "only jobs with the `STATUS`")
	flags.StringVar((*string)(&q.Target), "target", "", "only jobs that ran on the `PEEL`")
	flags.StringVar(&q.Schedule, "schedule", "", "only runs of the schedule `ENTRY`")
	flags.StringVar(&q.Commit, "commit", "", "only runs of entries that the `COMMIT` last changed")
	flags.IntVar(&limit, "limit", 20, "list `N` jobs at most")
	return cmd
}

func (a *app) listJobs(cmd *cobra.Command, client *api.Client, q job.Query, limit int) error {
	jobs := []job.Job{}
	for {
		q.Limit = limit - len(jobs)
		page, err := client.JobList(cmd.Context(), q)
		if err != nil {
			return err
		}
		jobs = append(jobs, page.Jobs...)
		if !page.More || len(jobs) >= limit {
			break
		}
		q.Before = page.Next
	}
	t := table{header: []string{"JID", "CREATED", "FUNCTION", "TARGET", "STATUS", "OK", "USER", "ENTRY"}}
	for _, j := range jobs {
		t.add(string(j.JID), when(j.Created), j.Function, targetOf(&j), string(j.Status),
			fmt.Sprintf("%d/%d", j.SuccessCount, j.TargetCount), j.User, j.Metadata[job.MetaSchedule])
	}
	return a.show(jobs, t)
}

// targetOf is what a list shows as the target: what was asked for, or the one peel.
func targetOf(j *job.Job) string {
	if j.TargetExpr != "" {
		return j.TargetExpr
	}
	return some(j.Targets)
}

// shown is what `job show` prints as data.
type shown struct {
	job.Job
	Returns []outcome `json:"returns"`
}

func (a *app) jobShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show <jid>",
		Short: "Show a job: who asked for it or which commit made it run, and what each peel returned",
		Args:  exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			jid, err := wire.ParseJID(args[0])
			if err != nil {
				return usageError("%v", err)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			defer client.Close()
			j, err := client.JobShow(cmd.Context(), jid)
			if err != nil {
				return err
			}
			out := shown{Job: *j, Returns: []outcome{}}
			for row, err := range client.Rows(cmd.Context(), jid) {
				if err != nil {
					return err
				}
				out.Returns = append(out.Returns, outcomeOf(row))
			}
			if a.output != "table" {
				return a.encode(out)
			}
			a.describe(&out)
			return nil
		},
	}
}

// describe prints a job for people.
func (a *app) describe(s *shown) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-10s %s\n", name+":", plain(value))
		}
	}
	line("job", string(s.JID))
	line("function", strings.TrimSpace(s.Function+" "+s.StateID))
	for _, key := range slices.Sorted(maps.Keys(s.Args)) {
		line("  "+key, strings.TrimSpace(body(s.Args[key])))
	}
	line("target", targetOf(&s.Job))
	line("status", string(s.Status))
	line("user", s.User)
	line("created", when(s.Created))
	for _, key := range []string{job.MetaSchedule, job.MetaTrigger, job.MetaCommit, job.MetaFile, job.MetaAuthor, job.MetaNominal, job.MetaFailedReason} {
		line(key, s.Metadata[key])
	}
	for _, o := range s.Returns {
		if o.Status == job.RowOK || o.Status == job.RowFailed {
			r := wire.Result{Success: o.Status == job.RowOK, Data: o.Data, Error: o.Error}
			fmt.Fprint(a.out, section(o.Peel, &r))
			continue
		}
		fmt.Fprintf(a.out, "%s:\n    %s\n", o.Peel, o.Status)
	}
}

// exactly refuses any other number of arguments as wrong usage.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError("%d arguments, want: %s", len(args), cmd.UseLine())
		}
		return nil
	}
}
