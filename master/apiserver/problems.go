package apiserver

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

const (
	problemCauses = 10              // problems of an answer that get a cause
	causeKept     = 5 * time.Second // how long a cause is kept while its problem does not change
	aheadHours    = 12
)

// A causeKey is a problem whose cause is kept.
type causeKey struct {
	kind  verdict.Kind
	entry string
	peels int
	since time.Time
}

// findings keeps causes for a short time: each takes the runs of all peels that have the entry.
type findings struct {
	mu   sync.Mutex
	kept map[causeKey]keptFinding
}

type keptFinding struct {
	finding cause.Finding
	until   time.Time
}

// of returns the cause of a problem. Callers wait for each other, so that one problem is computed once.
func (f *findings) of(table *coverage.Table, g *coverage.Group, now time.Time) cause.Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := causeKey{g.Kind, g.Entry, g.Peels, g.Since}
	if have, known := f.kept[key]; known && now.Before(have.until) {
		return have.finding
	}
	for key, have := range f.kept {
		if !now.Before(have.until) {
			delete(f.kept, key)
		}
	}
	found := table.Cause(g.Kind, g.Entry)
	if f.kept == nil {
		f.kept = map[causeKey]keptFinding{}
	}
	f.kept[key] = keptFinding{found, now.Add(causeKept)}
	return found
}

// Problems returns what is wrong now with the peels within the limits of the caller.
func (s *Server) Problems(ctx context.Context, from grants.Caller, q api.ProblemsRequest) (*api.Problems, error) {
	peels, err := s.coveredFor(ctx, from, q.Target)
	if err != nil {
		return nil, err
	}
	wrong, err := s.o.Coverage.Wrong(peels)
	if err != nil {
		return nil, err
	}
	isLimited, err := s.isLimited(ctx, from)
	if err != nil {
		return nil, err
	}
	a := &api.Problems{Master: s.o.ID, Now: time.Now().UTC(), Problems: []api.Problem{}}
	a.By, a.Well, a.Peels = wrong.Peels, wrong.Well, wrong.Well
	for _, n := range wrong.Peels {
		a.Peels += n
	}
	a.Reporting = a.Peels - wrong.Peels[verdict.NotReporting]
	a.More = max(0, len(wrong.Groups)-api.MaxProblems)
	for i := range wrong.Groups[:len(wrong.Groups)-a.More] {
		g := &wrong.Groups[i]
		p := api.Problem{
			Class: g.Kind, Entry: g.Entry, ByHand: g.ByHand,
			Peels: g.Peels, Since: g.Since, Text: g.Text, Names: g.Sample,
		}
		if i < problemCauses && !isLimited && g.Kind != verdict.Disagrees && g.Kind != verdict.Paused {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			found := s.findings.of(s.o.Coverage, g, a.Now)
			p.Finding = &found
		}
		a.Problems = append(a.Problems, p)
	}
	return a, nil
}

// isLimited reports whether a caller may not see all peels.
func (s *Server) isLimited(ctx context.Context, from grants.Caller) (bool, error) {
	peels, err := s.within(ctx, from)
	return !peels.All, err
}

// Timeline returns what should have run and did, hour by hour, on the peels within the limits of the caller.
func (s *Server) Timeline(ctx context.Context, from grants.Caller, q api.TimelineRequest) (*api.Timeline, error) {
	if q.Entry != "" && !grants.IsGlob(q.Entry) {
		return nil, fmt.Errorf("%w: %.100q is no glob for entries, such as backup*", errInvalid, q.Entry)
	}
	if len(q.Entries) > api.MaxTimelineEntries {
		return nil, fmt.Errorf("%w: %d entries, the limit is %d", errInvalid, len(q.Entries), api.MaxTimelineEntries)
	}
	peels, err := s.coveredFor(ctx, from, q.Target)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	a := &api.Timeline{Master: s.o.ID, Now: now, Ahead: []api.TimelineAhead{}}
	query := coverage.Query{Peels: peels, Since: q.Since, Entry: func(name string) bool {
		matched, _ := path.Match(q.Entry, name)
		return matched || q.Entry == ""
	}}
	if query.Since.IsZero() {
		query.Since = now.Add(-coverageDefault)
	}
	a.From = query.Since.UTC().Truncate(time.Hour)
	if a.Hours, a.Unread, err = s.hours(ctx, query); err != nil {
		return nil, err
	}
	if peels == nil {
		for _, h := range s.o.Coverage.Ahead(aheadHours, query.Entry) {
			a.Ahead = append(a.Ahead, api.TimelineAhead{At: h.Hour, Expected: h.Expected})
		}
	}
	for _, entry := range slices.Compact(slices.Sorted(slices.Values(q.Entries))) {
		if a.Entries == nil {
			a.Entries = map[string][]api.TimelineHour{}
		}
		query.Entry = func(name string) bool { return name == entry }
		if a.Entries[entry], _, err = s.hours(ctx, query); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (s *Server) hours(ctx context.Context, q coverage.Query) (list []api.TimelineHour, unread []time.Time, err error) {
	sums, unread, err := s.o.Coverage.Hours(ctx, q)
	for _, h := range sums {
		list = append(list, api.TimelineHour{At: h.Hour, Counts: h.Counts})
	}
	return list, unread, err
}
