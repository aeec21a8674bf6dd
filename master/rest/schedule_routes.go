// File schedule_routes.go serves the routes /api/v1/schedules, which add, list, pause, run and remove schedule entries
// of the config repo. Call [registerSchedules].
//
// Changes are requests to the service of package reconciler/propose, on this master or another; they are commits in the
// name of the token. What happened to an entry comes from the newest reports of its peels, by the table of package
// coverage: peels report within 5 s when a run of an entry that a request made begins or ends, and on other entries
// when their state changes, or every 10 minutes. Pausing and running are jobs on the peels that have the entry.
//
// Known gap: a run that began within 5 s may be missing in the run facts, so that its entry can be removed; the run
// goes on.

package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	maxWait    = 30 * time.Second // as long as any request may take
	waitEvery  = time.Second
	perPage    = 50
	maxPerPage = 200
	jobTime    = 30 * time.Second
)

// scheduleOptions are what the routes use.
type scheduleOptions struct {
	Coverage  *coverage.Table
	Over      func(*api.Route) huma.Operation
	IsAdmin   func(context.Context) bool
	api.Asker // asks in the name of the caller
	// Submit dispatches a job in the name of the caller and writes the audit log.
	Submit func(ctx context.Context, spec job.Spec) (*job.Job, error)
	// Returns reads the targets of a job and what they returned.
	Returns func(ctx context.Context, jid wire.JID) (*job.RowsPage, error)
}

// listVerb is what the rules must allow who lists entries, also where the list is empty for the token.
const listVerb = "schedule.list"

// registerSchedules adds the routes.
func registerSchedules(a huma.API, o scheduleOptions) {
	register(a, o.Over(&api.Route{
		Path: "GET /schedules", ID: "list-schedules", Verb: listVerb,
		Summary: "List the schedule entries of the config repo; empty without the scope admin",
		Scopes:  []credential.Scope{credential.ScopeRead, credential.ScopeDispatch, credential.ScopeSync},
	}), o.list)
	register(a, o.Over(&api.Route{
		Path: "POST /schedules", ID: "add-schedule", Summary: "Add a schedule entry to the config repo",
		Codes: []int{409, 408, 413, 415},
	}), o.add)
	register(a, o.Over(&api.Route{
		Path: "GET /schedules/{id}", ID: "show-schedule", Summary: "Show a schedule entry, by its number or name",
		Verb: listVerb, Codes: []int{404},
	}), o.show)
	register(a, o.Over(&api.Route{
		Path: "DELETE /schedules/{id}", ID: "remove-schedule",
		Summary: "Remove a schedule entry from the config repo", Codes: []int{404, 409},
	}), o.remove)
	register(a, o.Over(&api.Route{
		Path: "POST /schedules/{id}/pause", ID: "pause-schedule",
		Summary: "Pause a schedule entry on its peels, or in the config repo", Codes: []int{409, 404},
	}), o.pause)
	register(a, o.Over(&api.Route{
		Path: "POST /schedules/{id}/unpause", ID: "unpause-schedule", Summary: "End a pause", Codes: []int{409, 404},
	}), o.unpause)
	register(a, o.Over(&api.Route{
		Path: "POST /schedules/{id}/run", ID: "run-schedule", Summary: "Run a schedule entry now on its peels",
		Codes: []int{409, 404},
	}), o.run)
}

// scheduleProblem converts an error of a service of masters.
func scheduleProblem(err error) error {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	switch api.CodeOf(err) {
	case api.CodeInvalid:
		return huma.Error400BadRequest(text)
	case api.CodeForbidden, api.CodeDenied:
		return huma.Error403Forbidden(text)
	case api.CodeNotFound:
		return huma.Error404NotFound(text)
	case api.CodeConflict:
		return huma.Error409Conflict(text)
	}
	return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(text), http.Header{"Retry-After": {"5"}})
}

// A Schedule is one schedule entry. Times are milliseconds since the Unix epoch.
type Schedule struct {
	ID          int    `json:"id,omitempty" doc:"Number of an entry that a request made."`
	Name        string `json:"name" doc:"As requested, or the entry's name."`
	Entry       string `json:"entry" doc:"Name of the entry in the settings."`
	Type        string `json:"schedule_type" enum:"cron,every,at,after,needs"`
	Cron        string `json:"cron_expr,omitempty"`
	Interval    int64  `json:"interval_ms,omitempty"`
	At          int64  `json:"at,omitempty"`
	Meaning     string `json:"meaning" doc:"The timing in English."`
	Function    string `json:"function"`
	Prompt      string `json:"prompt,omitempty"`
	Model       string `json:"model,omitempty"`
	Enabled     bool   `json:"enabled" doc:"False if the repo disables the entry, or it is paused on all of its peels."`
	NextRun     int64  `json:"next_run,omitempty"`
	CreatedAt   int64  `json:"created_at,omitempty"`
	UserUUID    string `json:"user_uuid,omitempty" doc:"Who made the entry."`
	Origin      string `json:"origin" doc:"FILE:LINE@COMMIT of the entry."`
	ManagedBy   string `json:"managed_by" enum:"api,git"`
	DeleteAfter bool   `json:"delete_after_run,omitempty"`
	RunFacts
}

// RunFacts is what the reports of an entry's peels say.
type RunFacts struct {
	Peels             int    `json:"peels" doc:"Peels that report the entry."`
	LastRun           int64  `json:"last_run,omitempty" doc:"The newest run on any peel."`
	LastResult        string `json:"last_result,omitempty" doc:"ok, or the error of the newest run that failed last on its peel."`
	ConsecutiveErrors uint64 `json:"consecutive_errors" doc:"The most on any peel."`
	Running           int    `json:"running,omitempty" doc:"Peels with a run in flight."`
	State             string `json:"state,omitempty" doc:"paused_invalid if a peel cannot run the entry."`
	Why               string `json:"why,omitempty" doc:"Why it cannot."`
}

// Page is a page of schedule entries.
type Page struct {
	Items   []Schedule `json:"items"`
	Total   int        `json:"total"`
	Page    int        `json:"page"`
	PerPage int        `json:"per_page"`
	Next    string     `json:"next,omitempty" doc:"The cursor of the next page; absent on the last."`
}

type (
	pageOutput        = output[Page]
	oneOutput         = output[Schedule]
	scheduleListInput struct {
		Page    int `query:"page" minimum:"1" maximum:"100000" default:"1"`
		PerPage int `query:"per_page" minimum:"1" maximum:"200" default:"50"`
		// Cursor is better than Page while entries come and go: no entry is listed twice or left out.
		Cursor string `query:"cursor" maxLength:"2000" doc:"The next of the page before, instead of page."`
	}
	idInput struct {
		ID string `path:"id" maxLength:"128" doc:"Number or entry name."`
	}
)

func (o scheduleOptions) list(ctx context.Context, in *scheduleListInput) (*pageOutput, error) {
	out := &pageOutput{
		Body: Page{Items: []Schedule{}, Page: max(in.Page, 1), PerPage: min(max(in.PerPage, 1), maxPerPage)},
	}
	if !o.IsAdmin(ctx) {
		return out, nil
	}
	q := api.ScheduleQuery{Cursor: in.Cursor, Offset: (out.Body.Page - 1) * out.Body.PerPage, Limit: out.Body.PerPage}
	page, err := api.ScheduleList.Ask(ctx, o, q)
	if err != nil {
		return nil, scheduleProblem(err)
	}
	facts, err := o.facts(page.Schedules)
	if err != nil {
		return nil, scheduleProblem(err)
	}
	out.Body.Total = page.Total
	out.Body.Next = page.Next
	for i := range page.Schedules {
		out.Body.Items = append(out.Body.Items, shown(&page.Schedules[i], facts[page.Schedules[i].Entry]))
	}
	return out, nil
}

func (o scheduleOptions) show(ctx context.Context, in *idInput) (*oneOutput, error) {
	s, f, err := o.find(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &oneOutput{shown(s, f)}, nil
}

// validID reports whether a text is a number or the name of an entry.
func validID(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-'
	})
}

// find returns one entry and what its peels report.
func (o scheduleOptions) find(ctx context.Context, id string) (*api.Schedule, *facts, error) {
	if n, err := strconv.Atoi(id); !validID(id) || err == nil && n < 1 {
		return nil, nil, huma.Error400BadRequest(fmt.Sprintf("%.100q is neither the number nor the name of a schedule",
			id))
	}
	page, err := api.ScheduleList.Ask(ctx, o, api.ScheduleQuery{Ref: id})
	if err != nil {
		return nil, nil, scheduleProblem(err)
	}
	if len(page.Schedules) != 1 {
		return nil, nil, scheduleProblem(errors.New("the reply has no schedule"))
	}
	all, err := o.facts(page.Schedules)
	if err != nil {
		return nil, nil, scheduleProblem(err)
	}
	return &page.Schedules[0], all[page.Schedules[0].Entry], nil
}

// facts is what the peels of an entry report.
type facts struct {
	RunFacts
	peels  []target.PeelID
	paused int
	next   time.Time
	usable int // peels that can run it
	// invalid says why a peel cannot run the entry.
	invalid string
}

// facts returns what the newest reports of the peels say about entries.
func (o scheduleOptions) facts(list []api.Schedule) (map[string]*facts, error) {
	all := map[string]*facts{}
	for _, s := range list {
		all[s.Entry] = &facts{}
	}
	if len(list) == 0 || o.Coverage.Health().Peels == 0 {
		return all, nil
	}
	cells, err := o.Coverage.Cells(coverage.Query{
		Entry: func(name string) bool { return all[name] != nil },
		Since: time.Now(),
	})
	if errors.Is(err, coverage.ErrBehind) {
		return nil, &api.Error{
			Code: api.CodeUnavailable,
			Msg:  "the reports of peels are not known now: " + err.Error(),
			Err:  err,
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range cells {
		c := &cells[i]
		f := all[c.Entry]
		if f.peels = append(f.peels, c.Peel); !c.Local && c.State != "" {
			f.add(c)
		}
	}
	return all, nil
}

// stateInvalid is the state of an entry that its peel cannot run. Unpausing does not help.
const stateInvalid = "paused_invalid"

// add adds what one peel reports.
func (f *facts) add(e *coverage.Cell) {
	f.Peels++
	if e.Running {
		f.Running++
	}
	f.ConsecutiveErrors = max(f.ConsecutiveErrors, e.InRow)
	if e.State == stateInvalid {
		f.State, f.invalid = e.State, fmt.Sprintf("%s cannot run %s: %s", e.Peel, e.Entry,
			cmp.Or(e.Why, "it lacks its function or its zone"))
		f.Why = f.invalid
	} else {
		f.usable++
	}
	if strings.HasPrefix(e.State, "paused") {
		f.paused++
	} else if !e.Next.IsZero() && (f.next.IsZero() || e.Next.Before(f.next)) {
		f.next = e.Next
	}
	if e.Started.IsZero() {
		return
	}
	if at := e.Started.UnixMilli(); at > f.LastRun {
		f.LastRun = at
	}
	if e.Error != "" {
		f.LastResult = e.Error
	} else if f.LastResult == "" && !e.Ended.IsZero() {
		f.LastResult = "ok"
	}
}

func shown(s *api.Schedule, f *facts) Schedule {
	out := Schedule{
		ID:          s.ID,
		Name:        s.Name,
		Entry:       s.Entry,
		Type:        s.Type,
		Cron:        s.Cron,
		Interval:    s.Interval,
		At:          millis(s.At),
		Meaning:     s.Meaning,
		Function:    s.Module,
		Prompt:      s.Prompt,
		Model:       s.Model,
		Enabled:     s.Enabled,
		NextRun:     millis(s.Next),
		CreatedAt:   millis(s.Created),
		UserUUID:    s.By,
		Origin:      s.Origin,
		ManagedBy:   s.ManagedBy,
		DeleteAfter: s.Delete,
	}
	if f == nil {
		return out
	}
	out.RunFacts = f.RunFacts
	out.Enabled = out.Enabled && (f.paused == 0 || f.paused < f.Peels)
	switch {
	case !out.Enabled:
		out.NextRun = 0
	case f.next.After(time.Now()): // else that fire is over, and the next report tells the next
		out.NextRun = millis(f.next)
	}
	return out
}

func millis(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// wait returns when the fleet has a commit, or after limit. The commit may be followed by others by then.
func (o scheduleOptions) wait(ctx context.Context, commit string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, min(limit, maxWait))
	defer cancel()
	for asked := false; ; asked = true {
		ask := api.SyncStatus
		if !asked {
			ask = api.SyncNow // reads the branch at once
		}
		s, err := ask.Ask(ctx, o, api.None{})
		if err == nil && string(s.LastGood.Commit) == commit && s.Is(status.Ready) {
			return nil
		}
		if err == nil && string(s.LastAttempted) == commit && s.Blocked != "" {
			return huma.Error409Conflict("the commit " + commit + " was made; " + waits(s))
		}
		select {
		case <-ctx.Done():
			return huma.Error503ServiceUnavailable("the commit " + commit +
				" was made, and the fleet has not applied it yet")
		case <-time.After(waitEvery):
		}
	}
}

// statusTime bounds the question whether a revision waits.
const statusTime = 2 * time.Second

// waiting says which revision waits for approval, and how to let it out; empty if none does, or that is not known.
func (o scheduleOptions) waiting(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	s, err := api.SyncStatus.Ask(ctx, o, api.None{})
	if err != nil || s.Blocked == "" {
		return ""
	}
	return waits(s)
}

func waits(s *status.Sync) string {
	return fmt.Sprintf("revision %s waits for approval, and later commits with it: %s; "+
		"zester sync approve %s lets it out",
		s.LastAttempted.Short(), strings.Join(s.Errors, "; "), status.ShortHash(s.Blocked))
}
