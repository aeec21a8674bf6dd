package master

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/alert"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Alerts are the options of alerts. Give all masters the same.
type Alerts struct {
	Receivers []*notify.Receiver    // with different names
	Pings     []*notify.PingService // services that watch runs; no name is also in Receivers
	Alive     *notify.ReceiverCall  // dead man's switch, called each minute while all is well; nil: there is none
}

// isPinged reports whether a service watches the runs of an entry.
func (a *Alerts) isPinged(entry string) bool {
	return slices.ContainsFunc(a.Pings, func(s *notify.PingService) bool { return s.Has(entry) })
}

// alerts returns the engine that sends alerts while this master leads them.
func (s *services) alerts() *alert.Engine {
	m := s.m
	return alert.New(alert.Options{
		Conn:      s.nc,
		Fleet:     s.fleet,
		Owner:     m.o.ID,
		Receivers: m.o.Alerts.Receivers,
		Pings:     m.o.Alerts.Pings,
		Alive:     m.o.Alerts.Alive,
		Problems:  s.table.Problems,
		Health:    s.table.Feed,
		Runs:      s.table.Runs,
		Cause:     s.table.Cause,
		Output:    s.outputOf,
		Stored:    s.stored.Err,
		Within:    s.judge.reach().Of,
		Audit:     s.audit,
		Log:       m.log,
		Metrics:   m.o.Metrics,
	})
}

// recentJobs is how many records of an entry are read to find a run that no person asked for.
const recentJobs = 5

// outputOf returns the end of what the newest run of an entry on a peel printed, if it failed. It is empty if the run
// has no record yet, or none at all, because its entry has no return_job.
func (s *services) outputOf(ctx context.Context, entry string, peel target.PeelID) (notify.Output, error) {
	run, known := s.table.LastRun(entry, peel)
	if !known || !run.Failed {
		return notify.Output{}, nil
	}
	o, err := s.recordedOutput(ctx, entry, peel)
	if err != nil || !isOutputOf(o, run) {
		return notify.Output{}, err
	}
	return o, nil
}

// isOutputOf reports whether an output is of a run, and not of one before it: the run may have no record, or none yet.
func isOutputOf(o notify.Output, run verdict.Run) bool {
	return !o.Ended.Before(run.Ended.Truncate(time.Second))
}

// recordedOutput returns the end of what the newest run with a record printed. It is empty if there is no record, or if
// that run succeeded. Runs by hand do not count.
func (s *services) recordedOutput(ctx context.Context, entry string, peel target.PeelID) (o notify.Output, err error) {
	page, err := s.jobs.List(ctx, job.Query{Schedule: entry, Target: peel, Limit: recentJobs})
	if err != nil {
		return o, err
	}
	for i := range page.Jobs {
		j := &page.Jobs[i]
		if wire.Trigger(j.Metadata[job.MetaTrigger]) == wire.TriggerManual {
			continue
		}
		if j.Status == job.Complete {
			return o, nil
		}
		rows, err := s.jobs.Rows(ctx, j.JID, "")
		if err != nil {
			return o, err
		}
		for _, row := range rows.Rows {
			if row.Peel == peel && row.Return != nil {
				o.Peel = peel
				o.Lines, o.IsCut = notify.OutputOf(row.Return.Data)
				if o.Ended, err = time.Parse(time.RFC3339, j.Metadata[job.MetaFinished]); err != nil {
					return notify.Output{}, fmt.Errorf("cannot read when job %s ended: %w", j.JID, err)
				}
			}
		}
		return o, nil
	}
	return o, nil
}
