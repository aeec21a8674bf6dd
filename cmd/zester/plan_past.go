package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/reconciler/plan/backtest"
	"github.com/seed-c01c3da5/zester/reconciler/plan/review"
)

// testPast adds what the changed entries would have done in the past to a review.
func (a *app) testPast(ctx context.Context, r *review.Review, p *planning, length time.Duration) error {
	past := backtest.Past{
		From:      p.o.From.Add(-length),
		Until:     p.o.From,
		Zone:      p.o.Zone,
		Durations: map[string]backtest.Durations{},
	}
	if names := r.Measured(p.after); len(names) > 0 {
		if err := a.withClient(func(client *api.Client) error {
			return a.measure(ctx, client, names, &past)
		}); err != nil {
			return err
		}
	}
	return r.Test(p.before, p.after, past)
}

// measure sets the durations of entries, from the records of their runs that succeeded, and since when there are
// records. It reads at most maxRuns records, the newest first. Entries without records have what their peels have
// counted.
func (a *app) measure(ctx context.Context, client *api.Client, names []string, past *backtest.Past) error {
	took := map[string][]time.Duration{}
	for _, name := range names {
		took[name] = nil
	}
	q := job.Query{Limit: 500}
	if len(names) == 1 {
		q.Schedule = names[0]
	}
	for read := 0; ; {
		page, err := api.JobList.Ask(ctx, client, q)
		if err != nil {
			return err
		}
		for _, j := range page.Jobs {
			if !j.Scheduled() || j.Created.Before(past.From) || j.Created.After(past.Until) {
				continue
			}
			past.Recorded = j.Created
			if d, ok := runTime(&j); ok && j.Status == job.Complete {
				if runs, wanted := took[j.Metadata[job.MetaSchedule]]; wanted {
					took[j.Metadata[job.MetaSchedule]] = append(runs, d)
				}
			}
		}
		if read += len(page.Jobs); read >= maxRuns && page.Next != "" {
			fmt.Fprintf(a.errOut, "warning: durations are of the newest %d records alone\n", read)
			break
		}
		if page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	for name, runs := range took {
		past.Durations[name] = backtest.DurationsOf(runs)
	}
	return countedRuns(ctx, client, past.Durations)
}

// countedRuns sets the durations of entries without records to what peels have counted.
func countedRuns(ctx context.Context, client *api.Client, durations map[string]backtest.Durations) error {
	lacks := func(entry string) bool {
		d, wanted := durations[entry]
		return wanted && d.Runs == 0
	}
	if !slices.ContainsFunc(slices.Collect(maps.Keys(durations)), lacks) {
		return nil
	}
	c, err := client.Coverage(ctx, api.CoverageRequest{Target: "*", Since: time.Now()})
	if err != nil {
		return err
	}
	for i := range c.Rows {
		took := &c.Rows[i].Took
		if took.Runs == 0 || !lacks(c.Rows[i].Entry) {
			continue
		}
		durations[c.Rows[i].Entry] = backtest.Durations{
			Runs: int(min(took.Runs, math.MaxInt32)), Median: took.AtMost(50), P95: took.AtMost(95), Counted: true,
		}
	}
	return nil
}
