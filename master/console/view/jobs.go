package view

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/sorting"
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
	v := &Jobs{
		Who: who, Status: q.Status, Jobs: page.Jobs, Active: ask(ctx, by, api.JobActive, api.None{}), Next: page.Next,
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
	Job    job.Job  `json:"job"`
	Groups []Result `json:"groups"`
	Rows   int      `json:"rows"` // targets that Groups are made of
	More   bool     `json:"more"` // there are further targets
	// Left is how many further groups there are: a page has at most [Rows].
	Left int `json:"left,omitempty"`
}

// A Result is an equal result of some targets.
type Result struct {
	ID    string          `json:"id"` // names the result in the job
	State job.RowState    `json:"state"`
	From  int             `json:"from,omitempty"` // index of the first of Lines
	Lines []string        `json:"lines,omitempty"`
	Total int             `json:"total,omitempty"` // lines
	Peels []target.PeelID `json:"peels"`
}

// resultID is how many bytes of a digest are the ID of a result.
const resultID = 8

// MaxLines is how many lines of results a page has.
const MaxLines = 500

// A Window selects lines of results. The zero value selects the first lines of all results.
type Window struct {
	Result string // its ID; empty: all results
	From   int    // its first line that is shown, from 0
}

// JobOf returns a job. Its groups are made of the first thousand of its targets.
func JobOf(ctx context.Context, by api.Asker, jid wire.JID, w Window) (*Job, error) {
	j, err := api.JobShow.Ask(ctx, by, api.JobRequest{JID: jid})
	if err != nil {
		return nil, err
	}
	page, err := api.JobReturns.Ask(ctx, by, api.JobRequest{JID: jid})
	if err != nil {
		return nil, err
	}
	v := &Job{Job: *j, Rows: len(page.Rows), More: page.Next != ""}
	v.Groups, v.Left = within(groups(page.Rows), w)
	return v, nil
}

// within returns the groups and lines of a window, and how many groups it leaves out. Together they have at most
// [MaxLines] lines.
func within(all []Result, w Window) (shown []Result, left int) {
	if w.Result != "" {
		all = slices.DeleteFunc(all, func(r Result) bool { return r.ID != w.Result })
	}
	if left = max(0, len(all)-Rows); left > 0 {
		all = all[:Rows]
	}
	room := MaxLines
	for i := range all {
		r := &all[i]
		if w.Result != "" {
			r.From = min(max(0, w.From), len(r.Lines))
		}
		r.Lines = r.Lines[r.From:]
		r.Lines = r.Lines[:min(room, len(r.Lines))]
		room -= len(r.Lines)
	}
	return all, left
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
			sum := sha256.Sum256([]byte(key))
			all = append(all, Result{
				ID: hex.EncodeToString(sum[:resultID]), State: r.State, Lines: lines, Total: len(lines),
			})
		}
		all[at].Peels = append(all[at].Peels, r.Peel)
	}
	sorting.Stable(all, func(a, b Result) int {
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
