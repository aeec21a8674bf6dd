package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Other commands also show the verdicts of the last day. They wait no longer than this for them.
const (
	troubleTime = day
	troubleWait = 3 * time.Second
)

// scheduleTroubles counts peels by the problem in their schedules.
type scheduleTroubles struct {
	of                   map[target.PeelID]string
	failed, missed, away int // peels
	peels                int // with a schedule
	// peels whose clock, zone, document or disk is not what masters expect, with the reason
	disagree []string
	short    []string // peels whose reports lack fires of the last day, with the time since which they have all
	err      error    // why it is not known
}

// troublesOf asks the masters for the verdicts on the fires of each peel.
func troublesOf(ctx context.Context, client *api.Client) scheduleTroubles {
	ctx, cancel := context.WithTimeout(ctx, troubleWait)
	defer cancel()
	c, err := client.Coverage(ctx, api.CoverageRequest{Since: time.Now().Add(-troubleTime), ByPeel: true})
	if err != nil {
		return scheduleTroubles{err: err}
	}
	return troublesIn(c.Rows, time.Now().Add(-troubleTime))
}

// troublesIn counts the problems in rows of peels with the fires since a time.
func troublesIn(rows []api.CoverageRow, since time.Time) scheduleTroubles {
	t := scheduleTroubles{of: map[target.PeelID]string{}, peels: len(rows)}
	for _, r := range rows {
		var wrong []string
		if r.Disagrees != "" {
			t.disagree = append(t.disagree, fmt.Sprintf("%s: %s", r.Peel, cut(r.Disagrees, errorShown)))
		}
		if r.From.After(since) {
			t.short = append(t.short, fmt.Sprintf("%s: since %s", r.Peel, when(r.From)))
		}
		if r.NotReporting {
			t.away++
			wrong = append(wrong, "not reporting")
		}
		if r.Missed > 0 {
			t.missed++
			wrong = append(wrong, fmt.Sprintf("%d missed", r.Missed))
		}
		if r.Failed > 0 {
			t.failed++
			wrong = append(wrong, fmt.Sprintf("%d failed", r.Failed))
		}
		if len(wrong) > 0 {
			t.of[r.Peel] = strings.Join(wrong, ", ")
		}
	}
	return t
}

// String returns the counts for people. It is empty without problems.
func (t scheduleTroubles) String() string {
	if t.err != nil {
		return "not known: " + t.err.Error()
	}
	var wrong []string
	for _, w := range []struct {
		what string
		n    int
	}{{"fires missed", t.missed}, {"runs failed", t.failed}, {"no report", t.away}} {
		if w.n > 0 {
			wrong = append(wrong, fmt.Sprintf("%s on %s", w.what, count(w.n, "peel")))
		}
	}
	if len(wrong) == 0 {
		return ""
	}
	return strings.Join(wrong, ", ") + " in the last day"
}

// troubleManual describes the column that [app.withTroubles] adds.
const troubleManual = `

SCHEDULE is what zester coverage says of the last day: fires that were missed,
runs that failed, or that the peel does not report. It is left out if nothing is
wrong, or if masters do not know.`

// withTroubles adds the column SCHEDULE to a table of peels if one has a problem. The first column has the peels' IDs.
func (a *app) withTroubles(ctx context.Context, client *api.Client, list table) table {
	if a.output == formJSON || len(list.rows) == 0 {
		return list
	}
	return troublesOf(ctx, client).addTo(list)
}

func (t scheduleTroubles) addTo(list table) table {
	if len(t.of) == 0 {
		return list
	}
	list.header = append(list.header, "SCHEDULE")
	for i, row := range list.rows {
		list.rows[i] = append(row, t.of[target.PeelID(row[0])])
	}
	list.narrow = append(list.narrow, "SCHEDULE")
	return list
}

// schedules reports problems in the schedules of peels.
func (d *doctor) schedules(ctx context.Context, client *api.Client) {
	t := troublesOf(ctx, client)
	if text := t.String(); text != "" {
		d.found("schedules", warning, "zester coverage --by peel names the peels, zester why shows one fire", "%s",
			text)
	}
	d.disagree(&t)
}

// disagree shows the first peels whose fires masters cannot judge as their settings say, or that would lose what they
// tell of them, and those that tell of less than a day.
func (d *doctor) disagree(t *scheduleTroubles) {
	for _, found := range []struct {
		peels      []string
		what, hint string
	}{
		{t.disagree, "disagree", "zester coverage --by peel -o json has all of them"},
		{t.short, "report less than the fires of a day", "its starts and set clocks are too many, or its entries: " +
			"zester schedule fires PEEL ENTRY asks the peel itself"},
	} {
		if len(found.peels) == 0 {
			continue
		}
		text := strings.Join(found.peels[:min(len(found.peels), errorsShown)], "; ")
		if more := len(found.peels) - errorsShown; more > 0 {
			text += fmt.Sprintf("; and %s", count(more, "more peel"))
		}
		d.found("schedules", warning, found.hint, "%d of %d %s: %s", len(found.peels), t.peels, found.what, text)
	}
}
