package rest

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

type coverageInput struct {
	Target string    `query:"target" maxLength:"65536" doc:"Expression that selects the peels; absent: all."`
	Entry  string    `query:"entry" maxLength:"256" doc:"Glob of the entries; absent: all."`
	Since  time.Time `query:"since" doc:"Fires since this hour of UTC, up to 35 days ago; absent: a day ago."`
	By     string    `query:"by" enum:"entry,peel" default:"entry" doc:"A row for each entry, or for each peel."`
	Cursor string    `query:"cursor" maxLength:"256" doc:"The entry or peel of the last row of the page before."`
}

type coverageOutput struct{ Body api.Coverage }

func (r *routes) coverage(ctx context.Context, in *coverageInput) (*coverageOutput, error) {
	c, err := r.Questions.Coverage(ctx, callerOf(ctx), api.CoverageRequest{
		Target: in.Target, Entry: in.Entry, Since: in.Since, ByPeel: in.By == "peel", After: in.Cursor,
	})
	if err != nil {
		return nil, answerError(err)
	}
	return &coverageOutput{*c}, nil
}

type coverageEntryInput struct {
	Entry  string        `path:"entry" maxLength:"256" doc:"Name of an entry."`
	Target string        `query:"target" maxLength:"65536" doc:"Expression that selects the peels; absent: all."`
	Since  time.Time     `query:"since" doc:"Fires since this hour of UTC, up to 35 days ago; absent: a day ago."`
	Cursor target.PeelID `query:"cursor" maxLength:"128" doc:"The peel of the last row of the page before."`
}

func (r *routes) coverageEntry(ctx context.Context, in *coverageEntryInput) (*coverageOutput, error) {
	c, err := r.Questions.CoverageEntry(ctx,
		callerOf(ctx), api.CoverageEntryRequest{Entry: in.Entry, Target: in.Target, Since: in.Since, After: in.Cursor})
	if err != nil {
		return nil, answerError(err)
	}
	return &coverageOutput{*c}, nil
}

type problemsInput struct {
	Target string `query:"target" maxLength:"65536" doc:"Expression that selects the peels; absent: all."`
}

type problemsOutput struct{ Body api.Problems }

func (r *routes) problems(ctx context.Context, in *problemsInput) (*problemsOutput, error) {
	p, err := r.Questions.Problems(ctx, callerOf(ctx), api.ProblemsRequest{Target: in.Target})
	if err != nil {
		return nil, answerError(err)
	}
	return &problemsOutput{*p}, nil
}

type timelineInput struct {
	Target string    `query:"target" maxLength:"65536" doc:"Expression that selects the peels; absent: all."`
	Entry  string    `query:"entry" maxLength:"256" doc:"Glob of the entries; absent: all."`
	Since  time.Time `query:"since" doc:"Fires since this hour of UTC, up to 35 days ago; absent: a day ago."`
}

type timelineOutput struct{ Body api.Timeline }

func (r *routes) timeline(ctx context.Context, in *timelineInput) (*timelineOutput, error) {
	q := api.TimelineRequest{Target: in.Target, Entry: in.Entry, Since: in.Since}
	t, err := r.Questions.Timeline(ctx, callerOf(ctx), q)
	if err != nil {
		return nil, answerError(err)
	}
	return &timelineOutput{*t}, nil
}
