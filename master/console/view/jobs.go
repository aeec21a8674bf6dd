package view

import (
	"context"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Jobs is a list of jobs, the newest first.
type Jobs struct {
	Who    string                    `json:"who"` // people, schedules or all
	Status job.Status                `json:"status,omitempty"`
	Jobs   []job.Job                 `json:"jobs"`
	Next   wire.JID                  `json:"next,omitempty"`
	Active api.Extra[api.ActiveJobs] `json:"-"`
}

// JobsOf returns the jobs of people, of schedules or all, after a cursor.
func JobsOf(ctx context.Context, by api.Asker, who string, q job.Query) (*Jobs, error) {
	q.Limit = Rows
	q.Asked = who != "all" && who != "schedules"
	page, err := api.JobList.Ask(ctx, by, q)
	if err != nil {
		return nil, err
	}
	v := &Jobs{
		Who: who, Status: q.Status, Jobs: page.Jobs, Active: api.JobActive.Extra(ctx, by, api.None{}), Next: page.Next,
	}
	if who == "schedules" {
		v.Jobs = slices.DeleteFunc(v.Jobs, func(j job.Job) bool {
			return j.Metadata[job.MetaSource] != job.SourceSchedule
		})
	}
	return v, nil
}

// Job is one job with the results of its targets.
type Job struct {
	*api.ReturnGroups
	Job job.Job `json:"job"` // with its arguments
}

// JobOf returns a job.
func JobOf(ctx context.Context, by api.Asker, q api.ReturnGroupsRequest) (*Job, error) {
	j, err := api.JobShow.Ask(ctx, by, api.JobRequest{JID: q.JID})
	if err != nil {
		return nil, err
	}
	groups, err := api.JobGroups.Ask(ctx, by, q)
	if err != nil {
		return nil, err
	}
	return &Job{ReturnGroups: groups, Job: *j}, nil
}

// Unsuccessful returns the targets of a job that has ended on which it did not succeed.
func Unsuccessful(ctx context.Context, by api.Asker, jid wire.JID) (peels []target.PeelID, err error) {
	for q := (api.JobRequest{JID: jid}); ; {
		page, err := api.JobReturns.Ask(ctx, by, q)
		if err != nil {
			return nil, err
		}
		for _, r := range page.Rows {
			if r.State != job.RowOK {
				peels = append(peels, r.Peel)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return peels, nil
		}
	}
}

// jobEvery is how often [Returned] asks for the job.
const jobEvery = 250 * time.Millisecond

// Returned waits until a job of one peel has ended, and returns what the peel answered; nil: nothing.
func Returned(ctx context.Context, by api.Asker, jid wire.JID) (*wire.Return, error) {
	for {
		j, err := api.JobShow.Ask(ctx, by, api.JobRequest{JID: jid})
		if err != nil {
			return nil, err
		}
		if j.Status.Final() {
			break
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(jobEvery):
		}
	}
	page, err := api.JobReturns.Ask(ctx, by, api.JobRequest{JID: jid})
	if err != nil || len(page.Rows) == 0 {
		return nil, err
	}
	return page.Rows[0].Return, nil
}

// A Preview is what a dispatch would run on.
type Preview struct {
	Target  string          `json:"target"`
	Parsed  string          `json:"parsed"`
	Total   int             `json:"total"`
	Peels   []target.PeelID `json:"peels"` // all of them
	Offline []target.PeelID `json:"offline,omitempty"`
}

// PreviewOf resolves a target expression.
func PreviewOf(ctx context.Context, by api.Asker, expr string) (*Preview, error) {
	explained, err := api.TargetExplain.Ask(ctx, by, api.ExplainRequest{Expr: expr})
	if err != nil {
		return nil, err
	}
	v := &Preview{Target: expr, Parsed: explained.Parsed}
	for q := (api.ResolveRequest{Expr: expr}); ; {
		page, err := api.TargetResolve.Ask(ctx, by, q)
		if err != nil {
			return nil, err
		}
		v.Peels = append(v.Peels, page.Peels...)
		v.Offline = append(v.Offline, page.Offline...)
		if q.Cursor = page.Next; q.Cursor == "" {
			v.Total = len(v.Peels)
			return v, nil
		}
	}
}
