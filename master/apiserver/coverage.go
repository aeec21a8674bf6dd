package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/service"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	coverageInPage  = 400 // rows; one with the longest names and texts takes 1 KiB
	coverageCauses  = 10  // rows of a page with a cause: each takes the runs of all peels
	coverageDefault = 24 * time.Hour
)

func (s *Server) coverageVerbs() []service.Verb {
	return []service.Verb{
		handleFrom(api.CoverageList, s.Coverage),
		handleFrom(api.CoverageShow, s.CoverageEntry),
		handle(api.CoverageStatus, s.coverageStatus),
		handleFrom(api.ProblemList, s.Problems),
		handleFrom(api.TimelineShow, s.Timeline),
		handleFrom(api.LoadShow, s.load).In(s.forecasts),
	}
}

// coverageStatus returns how far this master knows the reports of peels.
func (s *Server) coverageStatus(context.Context, api.None) (*verdict.Health, error) {
	health := s.o.Coverage.Health()
	return &health, nil
}

// Coverage returns a page of what happened to the fires of schedules, on the peels within the limits of the caller.
func (s *Server) Coverage(ctx context.Context, from grants.Caller, q api.CoverageRequest) (*api.Coverage, error) {
	if q.Entry != "" && !grants.IsGlob(q.Entry) {
		return nil, fmt.Errorf("%w: %.100q is no glob for entries, such as backup*", errInvalid, q.Entry)
	}
	query := coverage.Query{Since: q.Since, Key: "glob " + q.Entry, Entry: func(name string) bool {
		matched, _ := path.Match(q.Entry, name)
		return matched || q.Entry == ""
	}}
	if q.ByPeel {
		query.By = coverage.ByPeel
	}
	a, err := s.coverage(ctx, from, q.Target, query, q.Cursor)
	if err == nil && !q.ByPeel {
		err = s.addCauses(ctx, from, a.Rows)
	}
	return a, err
}

// addCauses adds which commits explain the problems of entries, to the first rows with problems. What a cause counts is
// of all peels, so callers with limits get none.
func (s *Server) addCauses(ctx context.Context, from grants.Caller, rows []api.CoverageRow) error {
	if isLimited, err := s.isLimited(ctx, from); err != nil || isLimited {
		return err
	}
	found := 0
	for i := range rows {
		r := &rows[i]
		if r.Failed+r.Missed == 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.Failed > 0 {
			r.Finding = s.cause(verdict.Failed, r.Entry)
		}
		if r.Missed > 0 && r.Finding == nil {
			r.Finding = s.cause(verdict.Missed, r.Entry)
		}
		if r.Finding != nil {
			r.Cause = r.Finding.Text
		}
		if found++; found == coverageCauses {
			break
		}
	}
	return nil
}

// cause returns which commit explains a problem of an entry; nil if there is no commit to name.
func (s *Server) cause(kind verdict.Kind, entry string) *cause.Finding {
	if f := s.o.Coverage.Cause(kind, entry); f.Commit != "" {
		return &f
	}
	return nil
}

// CoverageEntry returns a page of what happened to the fires of one entry on each peel within the limits of the caller.
func (s *Server) CoverageEntry(ctx context.Context, from grants.Caller,
	q api.CoverageEntryRequest,
) (*api.Coverage, error) {
	query := coverage.Query{
		Since: q.Since,
		Entry: func(name string) bool { return name == q.Entry },
		Key:   "name " + q.Entry,
		By:    coverage.ByPeelAndEntry,
	}
	a, err := s.coverage(ctx, from, q.Target, query, q.Cursor)
	if err == nil && len(a.Rows) == 0 && q.Cursor == "" {
		return nil, fmt.Errorf("%w: no selected peel has the entry %.256q", errNoEntry, q.Entry)
	}
	if err == nil && q.Cursor == "" {
		s.addComing(a, q.Entry)
	}
	return a, err
}

// mostComing is how many of the next fires of an entry a reply has.
const mostComing = 10

// addComing adds the next fires of an entry, on the first peel that has one.
func (s *Server) addComing(a *api.Coverage, entry string) {
	i := slices.IndexFunc(a.Rows, func(r api.CoverageRow) bool { return !r.Next.IsZero() })
	if i < 0 {
		return
	}
	r := &a.Rows[i]
	is := func(name string) bool { return name == entry }
	for zone, groups := range s.o.Coverage.Schedules(map[target.PeelID]bool{r.Peel: true}, is) {
		e := groups[0].Schedule[entry]
		if e == nil {
			return
		}
		timing, err := e.Timing(zone)
		if err != nil {
			return
		}
		a.ComingOn = r.Peel
		from := a.Now
		if timing.FollowsRuns() { // the peel alone knows its last run
			a.Coming, from = []time.Time{r.Next}, r.Next
		}
		for at := range forecast.Fires(e, timing.Seen(from), from, time.Time{}) {
			if len(a.Coming) == mostComing {
				return
			}
			a.Coming = append(a.Coming, at)
		}
	}
}

func (s *Server) coverage(ctx context.Context, from grants.Caller, expr string, q coverage.Query,
	after string,
) (*api.Coverage, error) {
	now := time.Now().UTC()
	if q.Since.IsZero() {
		q.Since = now.Add(-coverageDefault)
	}
	var err error
	if q.Peels, err = s.coveredFor(ctx, from, expr); err != nil {
		return nil, err
	}
	rows, unread, err := s.o.Coverage.Rows(ctx, q)
	if err != nil {
		return nil, err
	}
	a := &api.Coverage{
		Master: s.o.ID,
		From:   q.Since.UTC().Truncate(time.Hour),
		Now:    now,
		Rows:   []api.CoverageRow{},
		Unread: unread,
	}
	a.Peels, a.Reporting = s.o.Coverage.Count(q.Peels)
	key := func(r *coverage.Row) string {
		if q.By == coverage.ByEntry {
			return r.Entry
		}
		return string(r.Peel)
	}
	first := 0
	for i := range rows {
		a.Total.Add(rows[i].Counts)
		if rows[i].Peel != "" {
			a.Silent += rows[i].Absent
		}
		if cmp.Compare(key(rows[i]), after) <= 0 && after != "" {
			first = i + 1
		}
	}
	rows = rows[first:]
	if len(rows) > coverageInPage {
		rows = rows[:coverageInPage]
		a.Next = key(rows[coverageInPage-1])
	}
	for _, r := range rows {
		a.Rows = append(a.Rows, coverageRow(r))
	}
	return a, nil
}

func coverageRow(r *coverage.Row) api.CoverageRow {
	row := api.CoverageRow{
		Entry:        r.Entry,
		Peel:         r.Peel,
		Counts:       r.Counts,
		NotReporting: r.Peel != "" && r.Absent > 0,
		Disagrees:    r.Disagrees,
		Took:         r.Took,
		From:         r.From,
		State:        r.State,
		Why:          r.Why,
		Error:        r.Error,
		Next:         r.Next,
		LastSuccess:  r.Succeeded,
	}
	if r.Peel == "" {
		row.Peels = r.Peels
	}
	return row
}

// coveredFor returns the peels that an expression selects and the caller may see; nil: all.
func (s *Server) coveredFor(ctx context.Context, from grants.Caller, expr string) (map[target.PeelID]bool, error) {
	within, err := s.within(ctx, from)
	if err != nil {
		return nil, err
	}
	ids := within.IDs
	if strings.TrimSpace(expr) != "" {
		if ids, err = s.SelectFor(ctx, from, expr); err != nil {
			return nil, err
		}
	} else if within.All {
		return nil, nil
	}
	peels := make(map[target.PeelID]bool, len(ids))
	for _, id := range ids {
		peels[id] = true
	}
	return peels, nil
}
