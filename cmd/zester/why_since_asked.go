package main

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/bisect"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// runsOf returns the runs of an entry that a peel remembers with their commits.
func runsOf(id target.PeelID, e *scheduler.ListedEntry) (runs []bisect.Run) {
	for i := range e.Last {
		past := &e.Last[i]
		r := bisect.Run{
			Peel: id, Started: past.Started, Nominal: past.Nominal, Job: wire.JID(past.Job),
			Commit: settings.Commit(past.Commit), Good: past.Success,
		}
		if r.Commit == e.Commit {
			r.Author = e.Author
			r.File = e.Origin
		}
		runs = append(runs, r)
	}
	return runs
}

// rememberedRuns asks the targets of spec for the runs of the entry that its arguments name. Peels remember the newest
// ten with their commits, and the outcomes of those before for 7 days. A peel without the entry has no runs.
func rememberedRuns(ctx context.Context, client *api.Client, spec job.Spec) ([]bisect.Run, error) {
	var runs []bisect.Run
	oldest := map[target.PeelID]time.Time{} // nominal time of the first run with its commit
	spec.Function = "schedule.history"
	err := askPeels(ctx, client, spec, func(r *wire.Return) error {
		var e scheduler.ListedEntry
		if !r.Success {
			return nil
		}
		if err := throughJSON(textual(r.Data), &e); err != nil {
			return err
		}
		if len(e.Last) > 0 {
			oldest[r.Peel] = ledger.At(e.Last[0].Nominal)
		}
		runs = append(runs, runsOf(r.Peel, &e)...)
		return nil
	})
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	spec.Function = "schedule.fires"
	err = askPeels(ctx, client, spec, func(r *wire.Return) error {
		var told ledger.Told
		if !r.Success {
			return nil
		}
		if err := throughJSON(textual(r.Data), &told); err != nil {
			return err
		}
		list, err := told.Runs()
		if err != nil {
			return err
		}
		runs = append(runs, runsBefore(r.Peel, list, oldest[r.Peel], maxRuns-len(runs))...)
		return nil
	})
	return runs, err
}

// runsBefore returns the fires of a peel with nominal times before a time that have run, at most most. Their commits
// are not known, and they count as started when they were due.
func runsBefore(id target.PeelID, list []ledger.Run, before time.Time, most int) (runs []bisect.Run) {
	for i := range list {
		f := &list[i]
		isGood := f.Outcome == ledger.Ran
		if f.Hour || !isGood && f.Outcome != ledger.Failed && f.Outcome != ledger.Interrupted {
			continue
		}
		at := f.Nominal
		for n := 0; n < f.Count && at.Before(before) && len(runs) < most; n++ {
			runs = append(runs, bisect.Run{Peel: id, Started: at, Nominal: at, Good: isGood})
			at = at.Add(f.Step)
		}
	}
	return runs
}
