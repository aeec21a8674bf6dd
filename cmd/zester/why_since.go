package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/bisect"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// maxRuns bounds the records of one entry that are read, the newest first.
const maxRuns = 20_000

const sinceWhenManual = `--since-when instead shows after which commit the entry began to fail, on all
peels of a target. It reads the recorded runs and does not run the entry: each
run has already tested the commit that last changed the entry at that time.

A commit is named if the entry began to fail within 2 hours, or two of its
periods, after it, on at least 80 % of the peels with failures. It is likely if
every one of these peels had it before, and ten times as many runs failed with
it as without, or none of 30 runs or more failed without it. Else it is
possible. If runs fail and succeed in turns, or other peels with the commit are
well, it says so and names none.

The records have the runs of entries with return_job, for 7 days. With
return_job: failures they have the failed ones only. Of another entry, it asks
the peels: they know the commits of its newest 10 runs, and the outcomes of
those in 7 days. That runs schedule.history and schedule.fires as jobs.

--since-when -o json:
  {"entry": …, "verdict": "commit" or "no_commit" or "flapping" or "before"
                          or "well",
   "text": …,                         for people
   "cause": {"cause": "likely" or "possible" or "none", "commit": …, "with":
             {"runs": …, "failed": …}, "without": …, …},
   "last_good": {"peel": …, "started": …, "job": …, "commit": …},
   "first_bad": …,                    as last_good
   "between": [{"commit": …, "since": …, …}, …],
                                      revisions that went out between the two
   "commits": [{"commit": …, "good": runs, "bad": …, "peels": …, …}, …],
   "peels": [{"peel": …, "good": …, "bad": …, "changes": …, "since": …}, …],
   "from": …, "until": …}             of the oldest and the newest run`

// sinceWhen prints after which commit an entry began to fail on the peels of a target.
func (a *app) sinceWhen(ctx context.Context, client *api.Client, expr, entry string) error {
	peels, err := selected(ctx, client, expr)
	if err != nil {
		return err
	}
	runs, err := a.recordedRuns(ctx, client, entry, peels)
	if err != nil {
		return err
	}
	if len(runs) == 0 {
		ask := job.Spec{TargetExpr: expr, Targets: peels, Args: map[string]any{"entry": entry}}
		if runs, err = rememberedRuns(ctx, client, ask); err != nil {
			return fmt.Errorf("no run of %q is recorded, and the peels cannot be asked: %w", entry, err)
		}
	}
	if len(runs) == 0 {
		return &failure{
			code: exitFailed, err: fmt.Errorf("no run of %q is known on %s", entry, some(peels)),
			hint: "runs of entries with return_job are recorded for 7 days, and peels know the runs of others: " +
				"zester coverage --entry NAME --by peel shows who has the entry",
		}
	}
	tried, err := attempts(ctx, client)
	if err != nil {
		fmt.Fprintln(a.errOut, "warning: the revisions that went out are not known:", plain(err.Error()))
	}
	return a.showBisect(bisect.Find(entry, runs, tried))
}

// selected returns the peels of an expression. Auditors may ask for them too.
func selected(ctx context.Context, client *api.Client, expr string) (ids []target.PeelID, err error) {
	peels, err := client.Peels(ctx, expr)
	if err != nil {
		return nil, err
	}
	if len(peels) == 0 {
		return nil, nobodyMatches(expr)
	}
	for _, p := range peels {
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// recordedRuns returns the records of the runs of an entry on some peels, newest first, at most maxRuns.
func (a *app) recordedRuns(ctx context.Context, client *api.Client, entry string,
	peels []target.PeelID,
) (runs []bisect.Run, err error) {
	wanted := map[target.PeelID]bool{}
	for _, id := range peels {
		wanted[id] = true
	}
	q := job.Query{Schedule: entry, Limit: 500}
	if len(peels) == 1 {
		q.Target = peels[0]
	}
	for {
		page, err := api.JobList.Ask(ctx, client, q)
		if err != nil {
			return nil, err
		}
		for _, j := range page.Jobs {
			if r, ok := recordedRun(&j); ok && wanted[r.Peel] {
				runs = append(runs, r)
			}
		}
		if page.Next == "" {
			return runs, nil
		}
		if len(runs) >= maxRuns {
			fmt.Fprintf(a.errOut, "warning: only the newest %d runs were read\n", len(runs))
			return runs, nil
		}
		q.Cursor = page.Next
	}
}

// recordedRun returns the run of a record; ok is false for a job that is not the run of a schedule.
func recordedRun(j *job.Job) (r bisect.Run, ok bool) {
	if !j.Scheduled() || len(j.Targets) != 1 || !j.Status.Final() {
		return r, false
	}
	r = bisect.Run{
		Peel:    j.Targets[0],
		Started: j.Created,
		Job:     j.JID,
		Commit:  settings.Commit(j.Metadata[job.MetaCommit]),
		Good:    j.Status == job.Complete,
		Author:  j.Metadata[job.MetaAuthor],
		File:    j.Metadata[job.MetaFile],
	}
	if nominal, err := time.Parse(time.RFC3339Nano, j.Metadata[job.MetaNominal]); err == nil {
		r.Nominal = nominal
	}
	return r, true
}

func (a *app) showBisect(r *bisect.Result) error {
	names := []string{}
	if r.Verdict == bisect.Found {
		names = append(names, string(r.Cause.Commit))
	}
	return a.print(r, names, func() error { return a.bisectText(r) })
}

func (a *app) bisectText(r *bisect.Result) error {
	facts := table{rows: [][]string{{"entry:", r.Entry}, {"finding:", r.Text}}}
	if r.LastGood != nil {
		facts.add("last good run:", runLine(r.LastGood))
	}
	if r.FirstBad != nil {
		facts.add("first bad run:", runLine(r.FirstBad))
	}
	for i, c := range r.Between {
		if i == maxBetween {
			facts.add("", fmt.Sprintf("and %d more", len(r.Between)-i))
			break
		}
		facts.add("went out between:", strings.TrimSpace(c.Commit.Short()+" "+c.Message)+", "+when(c.Since))
	}
	runs := 0
	for _, p := range r.Peels {
		runs += p.Good + p.Bad
	}
	facts.add("records:", fmt.Sprintf("%s of %s, from %s to %s", count(runs, "run"), count(len(r.Peels), "peel"),
		when(r.From), when(r.Until)))
	if err := facts.print(a.out, screen{bare: a.noHeaders}); err != nil {
		return err
	}
	commits := table{
		header: []string{"COMMIT", "FIRST RUN", "LAST RUN", "GOOD", "BAD", "PEELS", "AUTHOR", "FILE"},
		narrow: []string{"AUTHOR", "FILE"}, drop: []string{"FILE", "AUTHOR", "LAST RUN"},
	}
	for _, c := range slices.Backward(r.Commits) {
		author, _, _ := strings.Cut(c.Author, " <")
		commits.add(c.Commit.Short(), clock(c.First), clock(c.Last), fmt.Sprint(c.Good), fmt.Sprint(c.Bad),
			fmt.Sprint(c.Peels), author, c.File)
	}
	fmt.Fprintln(a.out)
	return a.printTable(commits)
}

// maxBetween bounds the revisions between the last good and the first bad run that people read.
const maxBetween = 5

func runLine(r *bisect.Run) string {
	text := when(r.Started) + " on " + string(r.Peel)
	if r.Job != "" {
		text += ", job " + string(r.Job)
	}
	return text
}
