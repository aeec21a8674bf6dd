package mcp

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule/cron"
	"github.com/seed-c01c3da5/zester/settings/schedule/phrase"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// addRead adds the tools that change nothing.
func (s *server) addRead() {
	read := credential.ScopeRead
	add(s, read, "fleet_status",
		"Show the state of the fleet: the revision in force and its conditions, how many peels have applied it, "+
			"what became of scheduled runs in the last day, and the alerts that last.", s.fleetStatus)
	add(s, read, "entries",
		"List schedule entries of the config repo: timing in English, function, next run, file and line.", s.entries)
	add(s, read, "next_fires", "Show when a schedule entry runs next on each peel, and its state there.",
		s.nextFires)
	add(s, read, "explain",
		"Explain a target expression (which peels it selects), a cron expression, or an English timing. "+
			"Give exactly one of them.", s.explain)
	add(s, read, "coverage",
		"Count the expected runs of schedule entries by what became of them: ran, failed, late, skipped, "+
			"missed, unknown.",
		s.coverage)
	add(s, read, "why",
		"Say what became of one scheduled run on one peel, or why there was none, with the facts that prove it.", s.why)
	add(s, read, "problems",
		"List what is wrong with the fleet now, the worst first, with the commit that it followed.", s.problems)
	add(s, read, "approvals", "List what waits for a decision of a person, the oldest first. No tool decides.",
		s.approvals)
	add(s, read, "load", "Count the runs that schedules will start, by the hour, with the worst minute.", s.load)
	add(s, read, "job_groups", "Show the different results of a job, equal ones once with their peels.", s.jobGroups)
	add(s, read, "peel_get",
		"Show a peel: its entries with their problems, states, settings, last report, facts and newest jobs.",
		s.peelGet)
	add(s, read, "job_get", "Show a job and what its peels returned.", s.jobGet)
	add(s, read, "sync_history",
		"List the revisions of the config repo that were sent to the fleet, newest first, with their outcome.",
		s.syncHistory)
	add(s, read, "sync_commit",
		"Show what a revision changed: its files, its entries and states field by field, on which peels, and the load.",
		s.syncCommit)
	add(s, read, "blame", "Show the commit that last changed a schedule entry or state of a peel.", s.blame)
	add(s, read, "audit_search", "Search the audit log: who did what, newest first.", s.auditSearch)
	add(s, read, "docs", "Read a page of the guide of zester. Without a page, list them.", s.docs)
}

// none are the arguments of a tool that has none.
type none struct{}

// fleetStatus asks several services. What one cannot say does not hide the others.
func (s *server) fleetStatus(ctx context.Context, _ call, _ none) (*reply, error) {
	data, failures := map[string]any{}, 0
	part := func(name string, v any, err error) {
		if data[name] = v; err != nil {
			data[name] = "not known: " + err.Error()
			failures++
		}
	}
	sync, err := api.SyncStatus.Ask(ctx, s, api.None{})
	part("sync", sync, err)
	c, err := api.CoverageList.Ask(ctx, s, api.CoverageRequest{})
	if err == nil {
		part("scheduled_runs", map[string]any{
			"since":     c.From,
			"peels":     c.Peels,
			"reporting": c.Reporting,
			"total":     c.Total,
		}, nil)
	} else {
		part("scheduled_runs", nil, err)
	}
	alerts, err := api.AlertList.Ask(ctx, s, api.AlertsRequest{})
	part("alerts", alerts, err)
	if failures == len(data) {
		return nil, fmt.Errorf("nothing is known of the fleet: %w", err)
	}
	return &reply{data: data}, nil
}

type entriesIn struct {
	Entry  string `json:"entry,omitempty" jsonschema:"number or name of one entry; without it all are listed"`
	Offset int    `json:"offset,omitempty" jsonschema:"leave out as many entries"`
}

const entriesEach = 50

func (s *server) entries(ctx context.Context, _ call, in entriesIn) (*reply, error) {
	page, err := api.ScheduleList.Ask(ctx,
		s, api.ScheduleQuery{Ref: in.Entry, Offset: max(in.Offset, 0), Limit: entriesEach})
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("%d entries in all.", page.Total)
	if page.Next != "" {
		said += fmt.Sprintf(" More follow: offset %d.", max(in.Offset, 0)+len(page.Schedules))
	}
	return &reply{said: said, data: page.Schedules}, nil
}

type entryIn struct {
	Entry  string `json:"entry" jsonschema:"name of the schedule entry"`
	Target string `json:"target,omitempty" jsonschema:"target expression, such as web-* or G@os:debian; without it all peels"`
}

func (s *server) nextFires(ctx context.Context, _ call, in entryIn) (*reply, error) {
	c, err := api.CoverageShow.Ask(ctx, s, api.CoverageEntryRequest{Entry: in.Entry, Target: in.Target})
	if err != nil {
		return nil, err
	}
	type fire struct {
		Peel  target.PeelID `json:"peel"`
		Next  time.Time     `json:"next,omitzero"`
		State string        `json:"state,omitempty"`
		Why   string        `json:"why,omitempty"`
	}
	fires := make([]fire, len(c.Rows))
	for i, r := range c.Rows {
		fires[i] = fire{r.Peel, r.Next, r.State, r.Why}
	}
	sorting.Stable(fires, func(a, b fire) int { return a.Next.Compare(b.Next) })
	return &reply{said: pageOf(len(fires), c.Next != ""), data: fires}, nil
}

// pageOf says how many rows there are.
func pageOf(n int, more bool) string {
	if more {
		return fmt.Sprintf("The first %d rows; give a narrower target to see others.", n)
	}
	return fmt.Sprintf("%d rows.", n)
}

type explainIn struct {
	Target string `json:"target,omitempty" jsonschema:"target expression"`
	Cron   string `json:"cron,omitempty" jsonschema:"cron expression, such as 0 3 * * mon"`
	When   string `json:"when,omitempty" jsonschema:"timing in English, such as every monday at 9am"`
}

func (s *server) explain(ctx context.Context, _ call, in explainIn) (*reply, error) {
	given := 0
	for _, text := range []string{in.Target, in.Cron, in.When} {
		if text != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, fmt.Errorf("%d things to explain: give exactly one of target, cron and when", given)
	case in.Cron != "":
		e, zone, err := cron.Parse(in.Cron)
		if err != nil {
			return nil, err
		}
		return &reply{data: map[string]string{"cron": in.Cron, "meaning": e.English(), "zone": zone}}, nil
	case in.When != "":
		found, err := phrase.Parse(in.When)
		if err != nil {
			return nil, err
		}
		return &reply{data: found}, nil
	}
	e, err := api.TargetExplain.Ask(ctx, s, api.ExplainRequest{Expr: in.Target})
	if err != nil {
		return nil, err
	}
	return &reply{said: fmt.Sprintf("The fleet has %d peels.", e.Total), data: e}, nil
}

type coverageIn struct {
	Entry  string `json:"entry,omitempty" jsonschema:"glob for the names of entries; without it all"`
	Target string `json:"target,omitempty" jsonschema:"target expression; without it all peels"`
	Since  string `json:"since,omitempty" jsonschema:"how long ago the count begins, such as 12h or 7d; without it 1d"`
	ByPeel bool   `json:"by_peel,omitempty" jsonschema:"a row for each peel, in place of each entry"`
}

// longest is how long masters keep verdicts.
const longest = 35 * 24 * time.Hour

// ago returns the instant that is a length of time ago. Without a length it is zero.
func ago(length string) (time.Time, error) {
	if length == "" {
		return time.Time{}, nil
	}
	d, err := strictyaml.ParseDuration(length)
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("since is %.40q: it is a length of time such as 12h or 7d", length)
	}
	return time.Now().Add(-d), nil
}

func (s *server) coverage(ctx context.Context, _ call, in coverageIn) (*reply, error) {
	since, err := ago(in.Since)
	if err != nil {
		return nil, err
	}
	if !since.IsZero() && time.Since(since) > longest {
		return nil, fmt.Errorf("since is %s: verdicts are kept for 35d", in.Since)
	}
	c, err := api.CoverageList.Ask(ctx,
		s, api.CoverageRequest{Target: in.Target, Entry: in.Entry, Since: since, ByPeel: in.ByPeel})
	if err != nil {
		return nil, err
	}
	return &reply{said: pageOf(len(c.Rows), c.Next != ""), data: c}, nil
}

type whyIn struct {
	Peel  target.PeelID `json:"peel"`
	Entry string        `json:"entry"`
	Time  string        `json:"time,omitempty" jsonschema:"when the run was due, such as 2026-11-23T02:30:00Z or 02:30; without it the last"`
}

func (s *server) why(ctx context.Context, _ call, in whyIn) (*reply, error) {
	a, err := api.CoverageExplain.Ask(ctx, s, api.WhyRequest{Peel: in.Peel, Entry: in.Entry, Time: in.Time})
	if err != nil {
		return nil, err
	}
	return &reply{data: a}, nil
}

type jobIn struct {
	JID    wire.JID      `json:"jid" jsonschema:"ID of the job"`
	Cursor target.PeelID `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

// maxRows bounds the returns in a result. The bytes are bounded too.
const maxRows = 100

func (s *server) jobGet(ctx context.Context, _ call, in jobIn) (*reply, error) {
	if _, err := wire.ParseJID(string(in.JID)); err != nil {
		return nil, err
	}
	j, err := api.JobShow.Ask(ctx, s, api.JobRequest{JID: in.JID})
	if err != nil {
		return nil, err
	}
	page, err := api.JobReturns.Ask(ctx, s, api.JobRequest{JID: in.JID, Cursor: in.Cursor})
	if err != nil {
		return nil, err
	}
	rows, next := page.Rows, page.Next
	if len(rows) > maxRows {
		rows = rows[:maxRows]
		next = rows[maxRows-1].Peel
	}
	said := fmt.Sprintf("The job is %s, with %d targets. %d of them follow.", j.Status, j.TargetCount, len(rows))
	if next != "" {
		said += fmt.Sprintf(" More follow with the cursor %s.", next)
	}
	j.Targets = nil
	return &reply{said: said, data: map[string]any{"job": j, "returns": rows}}, nil
}

func (s *server) syncHistory(ctx context.Context, _ call, _ none) (*reply, error) {
	h, err := api.SyncHistory.Ask(ctx, s, api.None{})
	if err != nil {
		return nil, err
	}
	return &reply{said: fmt.Sprintf("%d attempts, newest first.", len(h.Attempts)), data: h.Attempts}, nil
}

type commitIn struct {
	Revision string `json:"revision" jsonschema:"the commit, or its first 4 digits or more"`
}

func (s *server) syncCommit(ctx context.Context, _ call, in commitIn) (*reply, error) {
	c, err := api.SyncCommit.Ask(ctx, s, status.CommitRequest{Revision: in.Revision})
	if err != nil {
		return nil, err
	}
	return &reply{said: c.Lacks, data: c}, nil
}

type blameIn struct {
	Peel  target.PeelID `json:"peel"`
	Entry string        `json:"entry" jsonschema:"schedule entry, or state:NAME for a state"`
}

func (s *server) blame(ctx context.Context, _ call, in blameIn) (*reply, error) {
	b, err := api.EntryShow.Ask(ctx, s, api.BlameRequest{Peel: in.Peel, Entry: in.Entry})
	if err != nil {
		return nil, err
	}
	return &reply{data: b}, nil
}

type auditIn struct {
	User   string `json:"user,omitempty"`
	Action string `json:"action,omitempty" jsonschema:"noun.verb such as job.dispatch, or a noun"`
	Target string `json:"target,omitempty" jsonschema:"part of the target, or the ID of a peel"`
	Result string `json:"result,omitempty" jsonschema:"done, refused, failed or asked"`
	Since  string `json:"since,omitempty" jsonschema:"only the last TIME, such as 12h"`
	Before uint64 `json:"before,omitempty" jsonschema:"only entries before this number"`
	Limit  int    `json:"limit,omitempty" jsonschema:"at most so many entries; without it 50"`
}

func (s *server) auditSearch(ctx context.Context, _ call, in auditIn) (*reply, error) {
	since, err := ago(in.Since)
	if err != nil {
		return nil, err
	}
	q := audit.Query{
		User:   in.User,
		Action: in.Action,
		Target: in.Target,
		Result: audit.Result(in.Result),
		Since:  since,
		Before: in.Before,
		Limit:  min(max(in.Limit, 0), 100),
	}
	page, err := api.AuditList.Ask(ctx, s, q)
	if err != nil {
		return nil, err
	}
	said := fmt.Sprintf("%d entries, newest first.", len(page.Entries))
	if page.More {
		said += fmt.Sprintf(" More follow: before %d.", page.Next)
	}
	return &reply{said: said, data: page.Entries}, nil
}

type docsIn struct {
	Page string `json:"page,omitempty"`
}

// docs returns a page of the guide. It is a text of zester itself, which needs no marks.
func (s *server) docs(_ context.Context, _ call, in docsIn) (*reply, error) {
	pages, err := fs.Glob(s.Guide, "*.md")
	if err != nil {
		return nil, err
	}
	for i := range pages {
		pages[i] = strings.TrimSuffix(pages[i], ".md")
	}
	list := strings.Join(pages, ", ")
	if in.Page == "" {
		return &reply{said: "The pages of the guide: " + list}, nil
	}
	if !slices.Contains(pages, in.Page) {
		return nil, fmt.Errorf("the guide has no page %.64q; the pages are %s", in.Page, list)
	}
	text, err := fs.ReadFile(s.Guide, in.Page+".md")
	return &reply{said: string(text)}, err
}
