package api

import (
	"context"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A CoverageRequest requests a page of what happened to the fires of schedules.
type CoverageRequest struct {
	Target string    `json:"target,omitempty"` // expression; empty: all peels
	Entry  string    `json:"entry,omitempty"`  // glob; empty: all entries
	Since  time.Time `json:"since,omitzero"`   // the whole hour of UTC counts; zero: a day ago
	ByPeel bool      `json:"by_peel,omitempty"`
	Cursor string    `json:"cursor,omitempty"`
}

// A CoverageEntryRequest requests a page of what happened to the fires of one entry on each peel.
type CoverageEntryRequest struct {
	Entry  string    `json:"entry" path:"entry" maxLength:"256" doc:"Name of an entry."`
	Target string    `json:"target,omitempty" query:"target" maxLength:"65536" doc:"An expression; absent: all peels."`
	Since  time.Time `json:"since,omitzero" query:"since" doc:"An hour of UTC, up to 35 days ago; absent: a day ago."`
	Cursor string    `json:"cursor,omitempty" query:"cursor" maxLength:"128" doc:"The next of the page before."`
}

// A Coverage says what happened to the fires of schedules.
type Coverage struct {
	Master    string    `json:"master"` // whose table it is from
	From      time.Time `json:"from"`   // the fires since this hour
	Now       time.Time `json:"now"`    // by the clock of the master
	Peels     int       `json:"peels"`  // with a schedule, of the selected ones
	Reporting int       `json:"reporting"`
	// Silent is how many peels of all pages do not report, of rows about peels: what they do is unknown.
	Silent int            `json:"silent,omitempty"`
	Rows   []CoverageRow  `json:"rows"`
	Total  verdict.Counts `json:"total"` // of all pages
	// Unread are hours of UTC whose stored counts the master cannot read: they are damaged, or a newer version wrote
	// them. What the master does not know from reports is not in the rows.
	Unread []time.Time `json:"unread,omitempty"`
	// Next is the cursor of the next page; empty on the last.
	Next string `json:"next,omitempty"`
	// Coming are the next fires of the entry on the peel ComingOn, at most ten: by its document, windows and zone,
	// without splay. The first page about one entry has them.
	Coming   []time.Time   `json:"coming,omitempty"`
	ComingOn target.PeelID `json:"coming_on,omitempty"`
}

// A CoverageRow has the verdicts on the fires of an entry, of a peel, or of one entry on one peel.
type CoverageRow struct {
	Entry string        `json:"entry,omitempty"`
	Peel  target.PeelID `json:"peel,omitempty"`
	Peels int           `json:"peels,omitempty"` // that have the entry now
	verdict.Counts
	NotReporting bool `json:"not_reporting,omitempty"` // the peel is away, or its report is overdue
	// Disagrees says of a row by peel what is not as masters expect: its clock, zone, document or disk, or the timing
	// of an entry.
	Disagrees string `json:"disagrees,omitempty"`
	// From says of a row by peel that its newest report lacks fires before this time; absent: it goes back 48 hours.
	From time.Time `json:"from,omitzero"`
	// Cause says which commit explains that runs of the entry fail or are missed now, or why the one that seems to does
	// not. Only rows of an entry have it, for callers without limits.
	Cause string `json:"cause,omitempty"`
	// Finding is the same as a record: the commit, and the runs with and without it.
	Finding *cause.Finding `json:"finding,omitempty"`
	// Took is how long the runs of an entry took, on all hosts of the row, since these count. Rows by peel have none,
	// nor have rows by entry of a request without a target.
	Took ledger.Took `json:"took,omitzero"`

	// The rest is of one entry on one peel.
	// active, disabled, paused_manual, paused_errors, paused_invalid, exhausted
	State       string    `json:"state,omitempty"`
	Why         string    `json:"why,omitempty"`   // of the state
	Error       string    `json:"error,omitempty"` // head of the error of the last run
	Next        time.Time `json:"next,omitzero"`
	LastSuccess time.Time `json:"last_success,omitzero"`
}

// Coverage returns what happened to the fires of schedules, all pages of it.
func (c *Client) Coverage(ctx context.Context, q CoverageRequest) (*Coverage, error) {
	return allRows(func(cursor string) (*Coverage, error) {
		q.Cursor = cursor
		return CoverageList.Ask(ctx, c, q)
	})
}

// CoverageEntry returns what happened to the fires of one entry on each peel.
func (c *Client) CoverageEntry(ctx context.Context, q CoverageEntryRequest) (*Coverage, error) {
	return allRows(func(cursor string) (*Coverage, error) {
		q.Cursor = cursor
		return CoverageShow.Ask(ctx, c, q)
	})
}

// allRows joins the pages that follow each other.
func allRows(page func(cursor string) (*Coverage, error)) (*Coverage, error) {
	all, err := page("")
	if err != nil {
		return nil, err
	}
	for all.Next != "" {
		next, err := page(all.Next)
		if err != nil {
			return nil, err
		}
		next.Rows = append(all.Rows, next.Rows...)
		all = next
	}
	return all, nil
}
