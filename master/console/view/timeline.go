package view

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A TimelineQuery says which lanes a timeline has.
type TimelineQuery struct {
	Target string
	Entry  string // glob
	Span   string // 6h, 24h, 7d or 35d; empty: 24h
	Sort   string // trouble or name; empty: trouble
	Skip   int    // lanes of the pages before
	Open   string // the entry whose worst peels have lanes below it; empty: none
}

// Spans are the spans of a timeline, the shortest first.
var Spans = []string{"6h", "24h", "7d", "35d"}

var spanOf = map[string]time.Duration{
	"6h": 6 * time.Hour, "24h": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "35d": 35 * 24 * time.Hour,
}

// Timeline is what should have run, entry by entry.
type Timeline struct {
	Query TimelineQuery       `json:"-"`
	Hours *api.Timeline       `json:"timeline"`
	Load  api.Extra[api.Load] `json:"load"`    // of the next seven days
	Rows  []api.CoverageRow   `json:"entries"` // of this page
	Total int                 `json:"total"`
	Next  int                 `json:"-"` // lanes before the next page; 0: this is the last
	All   api.Coverage        `json:"-"`
	Worst []api.CoverageRow   `json:"worst,omitempty"` // the entry that is open, on its worst peels
}

// WorstPeels is how many lanes of peels a timeline has.
const WorstPeels = 20

// worstOf returns an entry on the peels with the most trouble.
func worstOf(ctx context.Context, by api.Asker, q api.CoverageEntryRequest) (rows []api.CoverageRow, err error) {
	for {
		page, err := api.CoverageShow.Ask(ctx, by, q)
		if err != nil {
			return nil, err
		}
		rows = append(rows, page.Rows...)
		sorting.Stable(rows, byTrouble)
		rows = rows[:min(WorstPeels, len(rows))]
		if q.Cursor = page.Next; q.Cursor == "" {
			return rows, nil
		}
	}
}

// byTrouble orders rows, those with the most trouble first.
func byTrouble(a, b api.CoverageRow) int {
	return cmp.Or(
		cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Missed, a.Missed), cmp.Compare(b.Unknown, a.Unknown),
	)
}

// TimelineOf returns a page of lanes.
func TimelineOf(ctx context.Context, by api.Asker, q TimelineQuery) (*Timeline, error) {
	if spanOf[q.Span] == 0 {
		q.Span = "24h"
	}
	since := time.Now().Add(-spanOf[q.Span])
	all, err := api.CoverageList.Ask(ctx, by, api.CoverageRequest{Target: q.Target, Entry: q.Entry, Since: since})
	if err != nil {
		return nil, err
	}
	v := &Timeline{Query: q, Total: len(all.Rows), All: *all}
	if q.Sort != "name" {
		sorting.Stable(all.Rows, byTrouble)
	}
	first := min(max(q.Skip, 0), len(all.Rows))
	v.Rows = all.Rows[first:min(first+api.MaxTimelineEntries, len(all.Rows))]
	if first+len(v.Rows) < len(all.Rows) {
		v.Next = first + len(v.Rows)
	}
	request := api.TimelineRequest{Target: q.Target, Entry: q.Entry, Since: since}
	for _, r := range v.Rows {
		request.Entries = append(request.Entries, r.Entry)
	}
	if v.Hours, err = api.TimelineShow.Ask(ctx, by, request); err != nil {
		return nil, err
	}
	if slices.Contains(request.Entries, q.Open) {
		worst := api.CoverageEntryRequest{Entry: q.Open, Target: q.Target, Since: since}
		if v.Worst, err = worstOf(ctx, by, worst); err != nil {
			return nil, err
		}
	}
	v.Load = api.LoadShow.Extra(ctx, by, api.LoadRequest{Target: q.Target, Entry: q.Entry})
	return v, nil
}

// Entry is one entry: its day, and what became of it on each peel.
type Entry struct {
	Name     string                  `json:"entry"`
	Hours    api.Extra[api.Timeline] `json:"timeline"`
	Problems []api.Problem           `json:"problems"`
	Doubt    string                  `json:"doubt,omitempty"` // why the problems are not known
	Total    int                     `json:"total"`
	Coverage *api.Coverage           `json:"coverage"`
	Blame    api.Extra[api.Blamed]   `json:"-"`
	Next     target.PeelID           `json:"next,omitempty"` // cursor of the next page
}

// EntryOf returns an entry with a page of its peels, by name.
func EntryOf(ctx context.Context, by api.Asker, name string, after target.PeelID) (*Entry, error) {
	c, err := api.CoverageShow.Ask(ctx, by, api.CoverageEntryRequest{Entry: name, Cursor: string(after)})
	if err != nil {
		return nil, err
	}
	v := &Entry{Name: name, Coverage: c, Total: len(c.Rows), Problems: []api.Problem{}}
	if len(c.Rows) > Rows {
		c.Rows = c.Rows[:Rows]
		c.Next = string(c.Rows[Rows-1].Peel)
	}
	v.Next = target.PeelID(c.Next)
	v.Hours = api.TimelineShow.Extra(ctx, by, api.TimelineRequest{Entries: []string{name}})
	if len(c.Rows) > 0 {
		v.Blame = api.EntryShow.Extra(ctx, by, api.BlameRequest{Peel: c.Rows[0].Peel, Entry: name})
	}
	p := api.ProblemList.Extra(ctx, by, api.ProblemsRequest{})
	if v.Doubt = p.Error; p.Value != nil {
		for _, one := range p.Value.Problems {
			if one.Entry == name {
				v.Problems = append(v.Problems, one)
			}
		}
	}
	return v, nil
}

// WhyOf returns what became of one fire.
func WhyOf(ctx context.Context, by api.Asker, q api.WhyRequest) (*api.WhyAnswer, error) {
	return api.CoverageExplain.Ask(ctx, by, q)
}

// Alerts are the alerts, silences and receivers.
type Alerts struct {
	*api.AlertsAnswer
	Status   api.Extra[api.AlertStatus] `json:"status"`
	Problems []api.Problem              `json:"-"` // what is wrong now, for the commits of alerts
}

// AlertsOf returns all alerts of the last day.
func AlertsOf(ctx context.Context, by api.Asker) (*Alerts, error) {
	a, err := api.AlertList.Ask(ctx, by, api.AlertsRequest{Ended: true})
	if err != nil {
		return nil, err
	}
	order := []string{api.AlertFiring, api.AlertWaiting, api.AlertEnded}
	sorting.Stable(a.Alerts, func(x, y api.Alert) int {
		return cmp.Or(cmp.Compare(slices.Index(order, x.State), slices.Index(order, y.State)), y.Since.Compare(x.Since))
	})
	v := &Alerts{AlertsAnswer: a, Status: api.AlertReceivers.Extra(ctx, by, api.None{})}
	if p := api.ProblemList.Extra(ctx, by, api.ProblemsRequest{}).Value; p != nil {
		v.Problems = p.Problems
	}
	return v, nil
}

// EntryPeels returns the peels of a target, all for an empty one, that have an entry.
func EntryPeels(ctx context.Context, by api.Asker, entry, expr string) (peels []target.PeelID, err error) {
	q := api.CoverageEntryRequest{Entry: entry, Target: expr}
	for {
		page, err := api.CoverageShow.Ask(ctx, by, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Rows {
			peels = append(peels, page.Rows[i].Peel)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			slices.Sort(peels)
			return peels, nil
		}
	}
}

// Silenced returns the IDs of the alerts of the last day that a silence would keep from being sent.
func Silenced(ctx context.Context, by api.Asker, match string) (ids []string, err error) {
	all, err := api.AlertList.Ask(ctx, by, api.AlertsRequest{Ended: true})
	if err != nil {
		return nil, err
	}
	for i := range all.Alerts {
		if a := &all.Alerts[i]; api.SilenceMatches(match, a.ID, a.Rule, a.Subject) {
			ids = append(ids, a.ID)
		}
	}
	return ids, nil
}
