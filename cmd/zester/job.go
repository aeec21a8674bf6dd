package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (a *app) jobCommand() *cobra.Command {
	return group("job", "Show jobs and what peels returned, cancel and retry them",
		a.jobListCommand(), a.jobActiveCommand(), a.jobShowCommand(), a.jobReturnsCommand(), a.jobWatchCommand(),
		a.jobCancelCommand(), a.jobRetryCommand(), a.jobVerifyCommand())
}

// statuses lists every status for messages.
var statuses = fmt.Sprintf("%s, %s, %s, %s, %s, %s, %s or %s", job.Pending, job.Claimed, job.Running, job.Complete,
	job.Partial,
	job.Timeout, job.Failed, job.Canceled)

func (a *app) jobListCommand() *cobra.Command {
	var q job.Query
	var limit int
	var status string
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List jobs and reported runs of schedules, newest first",
		Long: `list shows the jobs of people and programs, and runs of schedule entries with
return_job. It leaves out jobs that only read, such as those of schedule list
and sync diff, unless --all or --function is given. On a narrow terminal it
shortens job IDs; commands accept the beginning of a job ID.`,
		Args: words(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Status = job.Status(status); status != "" && !q.Status.Known() {
				return usageError("no job has the status %q: it is %s", status, statuses)
			}
			q.NoReads = !all && q.Function == ""
			if limit < 1 {
				return usageError("cannot list %d jobs: --limit is 1 or more", limit)
			}
			if q.Target != "" {
				if _, err := target.ParsePeelID(string(q.Target)); err != nil {
					return usageError("cannot list the jobs of a peel: %w", err)
				}
			}
			return a.withClient(func(client *api.Client) error { return a.listJobs(cmd, client, q, limit) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Function, "function", "", "only jobs of the `FUNCTION`")
	flags.StringVar(&q.User, "user", "", "only jobs of the `USER`")
	flags.StringVar(&status, "status", "", "only jobs with the `STATUS`: "+statuses)
	flags.StringVar((*string)(&q.Target), "target", "", "only jobs that ran on the `PEEL`")
	flags.StringVar(&q.Schedule, "schedule", "", "only runs of the schedule `ENTRY`")
	flags.StringVar(&q.Commit, "commit", "", "only runs of entries that the `COMMIT` last changed")
	flags.BoolVar(&q.Asked, "asked", false, "only jobs that people and programs started, no runs of schedules")
	flags.BoolVar(&all, "all", false, "also jobs that only read")
	flags.IntVar(&limit, "limit", 20, "at most `N` jobs")
	return cmd
}

func (a *app) listJobs(cmd *cobra.Command, client *api.Client, q job.Query, limit int) error {
	jobs := []job.Job{}
	for {
		q.Limit = limit - len(jobs)
		page, err := api.JobList.Ask(cmd.Context(), client, q)
		if err != nil {
			return err
		}
		jobs = append(jobs, page.Jobs...)
		if page.Next == "" || len(jobs) >= limit {
			break
		}
		q.Cursor = page.Next
	}
	return a.showJobs(jobs)
}

func (a *app) showJobs(jobs []job.Job) error {
	return a.show(jobs, jobsTable(jobs))
}

// shortJID is the length of a shortened job ID in characters. The first six are the second of the job.
const shortJID = 9

// jobsTable returns a table of jobs, with the column ENTRY if there are runs of schedules.
func jobsTable(jobs []job.Job) table {
	t := table{
		header: []string{"JID", "CREATED", "FUNCTION", "TARGET", "STATUS", "OK", "USER"},
		narrow: []string{"FUNCTION", "TARGET", "ENTRY"},
		drop:   []string{"USER", "ENTRY", "CREATED"},
		short:  shortJID,
		states: []string{"STATUS"},
		wide:   []string{"OWNER", "UPDATED", "TOOK", "RETURNED", "REASON"},
	}
	scheduled := slices.ContainsFunc(jobs, func(j job.Job) bool { return j.Scheduled() })
	if scheduled {
		t.header = append(t.header, "ENTRY")
	}
	t.header = append(t.header, t.wide...)
	for _, j := range jobs {
		cells := []string{
			string(j.JID), clock(j.Created), j.Function, j.Target, string(j.Status),
			fmt.Sprintf("%d/%d", j.SuccessCount, j.TargetCount), j.User,
		}
		if scheduled {
			cells = append(cells, j.Metadata[job.MetaSchedule])
		}
		t.add(append(cells, j.Owner, clock(j.Updated), took(&j), fmt.Sprintf("%d/%d", j.ReturnCount, j.TargetCount),
			j.Metadata[job.MetaReason])...)
	}
	return t
}

// took returns how long a job, or the run of a schedule, lasted; empty for a job that has not ended.
func took(j *job.Job) string {
	if !j.Status.Final() {
		return ""
	}
	if j.Scheduled() {
		d, ok := runTime(j)
		if !ok {
			return ""
		}
		return duration(d.Round(time.Millisecond))
	}
	return duration(j.Updated.Sub(j.Created).Round(time.Millisecond))
}

// runTime returns how long the run of a schedule lasted; ok is false if its record does not say.
func runTime(j *job.Job) (d time.Duration, ok bool) {
	begun, err := time.Parse(time.RFC3339Nano, j.Metadata[job.MetaStarted])
	ended, badEnd := time.Parse(time.RFC3339Nano, j.Metadata[job.MetaFinished])
	return ended.Sub(begun), err == nil && badEnd == nil && !ended.Before(begun)
}

// onJob returns a command with a job as its argument: its ID, the beginning of the ID, or "last".
func (a *app) onJob(use, short, long string, do func(context.Context, *api.Client, wire.JID) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " JID", Short: short, Long: long, Args: words("job ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkJobWord(args[0]); err != nil {
				return err
			}
			return a.withClient(func(client *api.Client) error {
				jid, err := findJob(cmd.Context(), client, args[0])
				if err == nil {
					err = do(cmd.Context(), client, jid)
				}
				return hinted(err, api.CodeNotFound, "zester job list --all shows the jobs of the last 7 days")
			})
		},
	}
}

func (a *app) jobShowCommand() *cobra.Command {
	return a.onJob("show", "Show a job, who or what started it, and the returns", "",
		func(ctx context.Context, client *api.Client, jid wire.JID) error {
			j, err := api.JobShow.Ask(ctx, client, api.JobRequest{JID: jid})
			if err != nil {
				return err
			}
			switch a.output {
			case formName:
				_, err := fmt.Fprintln(a.out, j.JID)
				return err
			case formTable, formWide:
				a.describe(j)
			}
			return a.printRows(ctx, client, j, *j, "returns")
		})
}

func (a *app) jobReturnsCommand() *cobra.Command {
	cmd := a.onJob("returns", "Show what the peels of a job returned", "",
		func(ctx context.Context, client *api.Client, jid wire.JID) error {
			j, err := api.JobShow.Ask(ctx, client, api.JobRequest{JID: jid})
			if err != nil {
				return err
			}
			return a.printRows(ctx, client, j, answer{JID: jid, Status: j.Status}, "targets")
		})
	a.dispatching.viewing.flags(cmd.Flags())
	return cmd
}

// printRows prints the targets of a job in their present state. As data they are a list after the fields of head.
func (a *app) printRows(ctx context.Context, client *api.Client, j *job.Job, head any, field string) error {
	list := listing{a: a, head: head, field: field}
	r := report{a: a, function: j.Function}
	for row, err := range client.Rows(ctx, j.JID) {
		if err != nil {
			return err
		}
		if !a.dispatching.only.shows(row.State) {
			continue
		}
		if err := list.add(outcomeOf(row)); err != nil {
			return err
		}
		if a.output != formTable && a.output != formWide {
			continue
		}
		r.printText(row)
	}
	r.printGroups()
	return list.end()
}

// unanswered holds the text that is printed for a peel without a return.
var unanswered = map[job.RowState]string{
	job.RowWaiting:     "no answer yet",
	job.RowUnreachable: "no answer yet, the peel is offline",
	job.RowMissing:     "no answer",
	job.RowSkipped:     "not asked, the job ended before",
}

// describe prints the fields of a job for people.
func (a *app) describe(j *job.Job) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-10s %s\n", name+":", plain(value))
		}
	}
	line("job", string(j.JID))
	line("function", strings.TrimSpace(j.Function+" "+j.StateID))
	for _, key := range slices.Sorted(maps.Keys(j.Args)) {
		line("  "+key, strings.TrimSpace(body(j.Args[key])))
	}
	line("target", j.Target)
	line("status", string(j.Status))
	line("targets", fmt.Sprintf("%d, %d returned, %d succeeded", j.TargetCount, j.ReturnCount, j.SuccessCount))
	line("user", j.User)
	line("owner", j.Owner)
	line("created", when(j.Created))
	line("updated", when(j.Updated))
	if !j.Status.Final() {
		line("deadline", when(j.Deadline))
	}
	line("took", took(j))
	line("reason", j.Metadata[job.MetaReason])
	line("asked by", j.Metadata[job.MetaAskedBy])
	line("action", j.Metadata[job.MetaHeld])
	line("agent", claimed(j.Metadata[job.MetaAgent]))
	line("retry of", j.Metadata[metaRetryOf])
	if j.Cancel != nil {
		line("canceled", strings.TrimSuffix(fmt.Sprintf("by %s, %s: %s", j.Cancel.By, when(j.Cancel.Time),
			j.Cancel.Reason), ": "))
	}
	for _, key := range []string{
		job.MetaSchedule, job.MetaTrigger, job.MetaCommit, job.MetaFile, job.MetaAuthor, job.MetaNominal,
		job.MetaFailedReason,
	} {
		line(strings.ReplaceAll(key, "_", " "), j.Metadata[key])
	}
}
