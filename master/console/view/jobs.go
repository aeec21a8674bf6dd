package view

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Jobs is a list of jobs, the newest first.
type Jobs struct {
	Who    string                `json:"who"` // people, schedules or all
	Status job.Status            `json:"status,omitempty"`
	Jobs   []job.Job             `json:"jobs"`
	Next   wire.JID              `json:"next,omitempty"`
	Active Extra[api.ActiveJobs] `json:"-"`
}

// JobsOf returns the jobs of people, of schedules or all, after a cursor.
func JobsOf(ctx context.Context, by api.Asker, who string, q job.Query) (*Jobs, error) {
	q.Limit = Rows
	q.Asked = who != "all" && who != "schedules"
	page, err := api.JobList.Ask(ctx, by, q)
	if err != nil {
		return nil, err
	}
	v := &Jobs{Who: who, Status: q.Status, Jobs: page.Jobs, Active: ask(ctx, by, api.JobActive, api.None{})}
	if who == "schedules" {
		v.Jobs = slices.DeleteFunc(v.Jobs, func(j job.Job) bool {
			return j.Metadata[job.MetaSource] != job.SourceSchedule
		})
	}
	if page.More {
		v.Next = page.Next
	}
	return v, nil
}

// Job is one job with the results of its targets.
type Job struct {
	Job    job.Job  `json:"job"`
	Groups []Result `json:"groups"`
	Rows   int      `json:"rows"` // targets that Groups are made of
	More   bool     `json:"more"` // there are further targets
}

// A Result is an equal result of some targets.
type Result struct {
	State job.RowState    `json:"state"`
	Lines []string        `json:"lines,omitempty"`
	Cut   int             `json:"cut,omitempty"` // lines that were left out
	Peels []target.PeelID `json:"peels"`
}

// maxLines is how many lines of a result a page has.
const maxLines = 500

// JobOf returns a job. Its groups are made of the first thousand of its targets.
func JobOf(ctx context.Context, by api.Asker, jid wire.JID) (*Job, error) {
	j, err := api.JobShow.Ask(ctx, by, api.JobRequest{JID: jid})
	if err != nil {
		return nil, err
	}
	page, err := api.JobReturns.Ask(ctx, by, api.JobRequest{JID: jid})
	if err != nil {
		return nil, err
	}
	return &Job{Job: *j, Groups: groups(page.Rows), Rows: len(page.Rows), More: page.More}, nil
}

// groups puts equal results together: failures first, then the larger groups.
func groups(rows []job.Row) []Result {
	byText := map[string]int{}
	all := []Result{}
	for _, r := range rows {
		lines := linesOf(r)
		key := string(r.State) + "\x00" + strings.Join(lines, "\n")
		at, known := byText[key]
		if !known {
			at = len(all)
			byText[key] = at
			g := Result{State: r.State, Lines: lines}
			if len(lines) > maxLines {
				g.Lines, g.Cut = lines[:maxLines], len(lines)-maxLines
			}
			all = append(all, g)
		}
		all[at].Peels = append(all[at].Peels, r.Peel)
	}
	slices.SortStableFunc(all, func(a, b Result) int {
		if a.failed() != b.failed() {
			if a.failed() {
				return -1
			}
			return 1
		}
		return len(b.Peels) - len(a.Peels)
	})
	return all
}

func (r Result) failed() bool { return r.State != job.RowOK && r.State != job.RowWaiting }

// linesOf returns what a target returned, as lines: its error, and its data.
func linesOf(r job.Row) []string {
	if r.Return == nil {
		return nil
	}
	var lines []string
	if r.Return.Error != "" {
		lines = strings.Split(r.Return.Error, "\n")
	}
	switch data := r.Return.Data.(type) {
	case nil:
	case string:
		lines = append(lines, strings.Split(strings.TrimRight(data, "\n"), "\n")...)
	default:
		text, err := json.MarshalIndent(data, "", "  ")
		if err == nil {
			lines = append(lines, strings.Split(string(text), "\n")...)
		}
	}
	return lines
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
	for q := (api.ResolveRequest{Expr: expr}); ; q.After = v.Peels[len(v.Peels)-1] {
		page, err := api.TargetResolve.Ask(ctx, by, q)
		if err != nil {
			return nil, err
		}
		v.Peels = append(v.Peels, page.Peels...)
		v.Offline = append(v.Offline, page.Offline...)
		if !page.More || len(page.Peels) == 0 {
			v.Total = len(v.Peels)
			return v, nil
		}
	}
}
