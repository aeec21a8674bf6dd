package main

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// longestCoverage is how long masters keep verdicts.
const longestCoverage = 35 * day

// A coverageQuery holds the flags of zester coverage.
type coverageQuery struct {
	target, entry, by string
	since             time.Duration
}

func (a *app) coverageCommand() *cobra.Command {
	q := coverageQuery{}
	cmd := &cobra.Command{
		Use:   "coverage [TARGET]",
		Short: "Show what became of every fire of every schedule",
		Long: `coverage shows for each schedule entry how many fires were expected, and what
became of them, on all peels or those of a target.

ran: the run has ended; failed, late and overran are part of ran. skipped: a
rule or an operator kept it from running. missed: it did not start in time: the
peel was down, suspended or too slow, or does not account for it. unknown: the
peel is away, or its clock or settings are not what masters expect; when it
reports again, it says what happened. unexpected: runs that Git does not ask
for. Whole hours of UTC are counted, by the nominal times of fires.

Below the table it says which commit explains the failures of an entry, as
likely or possible, or why the one that seems to does not; zester why
--since-when shows the runs.

--by peel adds the entries of each peel up; with the name of one entry it shows
the entry on each peel, with its state. Below the table it then names the peels
whose clock, zone, settings or timing are not what masters expect: their fires
are not compared with the plan. A master that has not read all reports gives no
verdicts. The exit code is 2 if a fire was missed or a run failed.`,
		Args: atMost(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				q.target = args[0]
			}
			if err := q.check(); err != nil {
				return err
			}
			return a.withClient(func(client *api.Client) error { return a.showCoverage(cmd.Context(), client, q) })
		},
	}
	cmd.Flags().StringVar(&q.entry, "entry", "", "only entries that match the `GLOB`")
	cmd.Flags().StringVar(&q.by, "by", "entry", "a row for each `KIND`: entry or peel")
	durationVar(cmd.Flags(), &q.since, "since", day, "fires of the last `TIME`, such as 12h or 7d, at most 35d")
	return cmd
}

func (q *coverageQuery) check() error {
	if q.by != "entry" && q.by != "peel" {
		return usageError("there are no rows for each %q: --by is entry or peel", q.by)
	}
	if q.since <= 0 || q.since > longestCoverage {
		return usageError("cannot count the fires of the last %s: --since is more than 0, and at most 35d", q.since)
	}
	if _, err := path.Match(q.entry, ""); err != nil {
		return usageError("cannot match entries with %q: it is no glob such as backup*", q.entry)
	}
	return nil
}

// isOneEntry reports whether the rows are one entry on each peel.
func (q *coverageQuery) isOneEntry() bool {
	return q.by == "peel" && q.entry != "" && !strings.ContainsAny(q.entry, `*?[\`)
}

func (a *app) showCoverage(ctx context.Context, client *api.Client, q coverageQuery) error {
	since := time.Now().Add(-q.since)
	var c *api.Coverage
	var err error
	if q.isOneEntry() {
		c, err = client.CoverageEntry(ctx, api.CoverageEntryRequest{Target: q.target, Entry: q.entry, Since: since})
	} else {
		c, err = client.Coverage(ctx, api.CoverageRequest{
			Target: q.target,
			Entry:  q.entry,
			Since:  since,
			ByPeel: q.by == "peel",
		})
	}
	if err != nil {
		return err
	}
	if len(c.Rows) == 0 && q.target != "" {
		if _, err := a.resolve(ctx, client, q.target); err != nil {
			return err
		}
	}
	if len(c.Rows) == 0 && q.entry != "" {
		return noSuchEntry(ctx, client, q)
	}
	if err := a.printCoverage(c, q); err != nil {
		return err
	}
	if c.Total.Missed > 0 || c.Total.Failed > 0 {
		return &failure{code: exitSomeFailed}
	}
	return nil
}

// noSuchEntry returns the failure of a command about entries that no selected peel has. It suggests one that they have.
func noSuchEntry(ctx context.Context, client *api.Client, q coverageQuery) error {
	f := &failure{
		code: exitNoTarget,
		err:  fmt.Errorf("no selected peel has the entry %q", q.entry),
		hint: "zester coverage lists the entries",
	}
	all, err := client.Coverage(ctx, api.CoverageRequest{Target: q.target, Since: time.Now().Add(-q.since)})
	if err != nil {
		return f
	}
	var names []string
	for _, r := range all.Rows {
		names = append(names, r.Entry)
	}
	f.err = fmt.Errorf("%w%s", f.err, strictyaml.Suggest(q.entry, names))
	return f
}

// printCoverage prints the verdicts, and for people whose they are.
func (a *app) printCoverage(c *api.Coverage, q coverageQuery) error {
	names := make([]string, len(c.Rows))
	for i, r := range c.Rows {
		if names[i] = r.Entry; q.by == "peel" {
			names[i] = string(r.Peel)
		}
	}
	return a.print(c, names, func() error {
		if len(c.Rows) == 0 {
			fmt.Fprintln(a.out, "no selected peel has a schedule entry")
			return nil
		}
		if err := a.printTable(coverageTable(c.Rows, q)); err != nil {
			return err
		}
		for _, r := range c.Rows {
			if r.Cause != "" {
				fmt.Fprintf(a.out, "%s: %s\n", plain(r.Entry), plain(r.Cause))
			}
			if r.Disagrees != "" {
				const line = "%s disagrees with Git or the master: %s\n"
				fmt.Fprintf(a.out, line, plain(string(r.Peel)), plain(r.Disagrees))
			}
		}
		fmt.Fprintln(a.out, coverageSource(c))
		return nil
	})
}

// coverageSource says which table the verdicts are from, and what they lack.
func coverageSource(c *api.Coverage) string {
	text := fmt.Sprintf("fires since %s, by the table of master %s", clock(c.From), plain(c.Master))
	if away := c.Peels - c.Reporting; away > 0 {
		text += fmt.Sprintf("\n%d of %s not report: their fires are unknown until they do", away,
			count(c.Peels, "peel")+does(away))
	} else {
		text += ": all peels report"
	}
	if n := len(c.Unread); n > 0 {
		text += fmt.Sprintf(
			"\nnot complete: the master cannot read the stored counts of %s from %s on;\n"+
				"they are damaged, or a newer version wrote them",
			count(n, "hour"), clock(c.Unread[0]),
		)
	}
	return text
}

// does is the verb after "1 of 5 peels".
func does(n int) string {
	if n == 1 {
		return " does"
	}
	return " do"
}

// coverageTable is the table of verdicts. Zeros are left empty, so that what is wrong can be seen.
func coverageTable(rows []api.CoverageRow, q coverageQuery) table {
	t := table{
		header: []string{
			"ENTRY", "PEELS", "STATE", "EXPECTED", "RAN", "FAILED", "LATE", "SKIPPED", "MISSED", "UNKNOWN", "OVERRAN",
			"UNEXPECTED", "LAST SUCCESS", "WHY",
		},
		wide:   []string{"OVERRAN", "UNEXPECTED", "LAST SUCCESS", "WHY"},
		narrow: []string{"ENTRY", "PEEL"},
		drop:   []string{"LATE", "SKIPPED"},
		states: []string{"STATE"},
	}
	left := []string{"STATE", "LAST SUCCESS", "WHY"}
	if q.by == "peel" {
		t.header[0], left = "PEEL", append(left, "PEELS")
	}
	if q.isOneEntry() {
		left = []string{"PEELS"}
	}
	for _, r := range rows {
		state, name := r.State, r.Entry
		if r.NotReporting {
			state = "not_reporting"
		}
		if q.by == "peel" {
			name = string(r.Peel)
		}
		why := r.Error
		if r.Why != "" {
			why = r.Why
		}
		t.add(append(append([]string{name, strconv.Itoa(r.Peels), state}, counts(r)...), clock(r.LastSuccess), why)...)
	}
	t.remove(left...)
	return t
}

// counts are the cells of verdicts; without fires they are empty.
func counts(c api.CoverageRow) (cells []string) {
	for i, n := range []uint64{
		c.Expected, c.Ran, c.Failed, c.Late, c.Skipped, c.Missed, c.Unknown, c.Overran, c.Unexpected,
	} {
		if cells = append(cells, ""); n > 0 || i == 0 {
			cells[i] = strconv.FormatUint(n, 10)
		}
	}
	return cells
}
