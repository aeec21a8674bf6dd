package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// describePeel prints a peel for people.
func (a *app) describePeel(d *api.PeelDetail) error {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(a.out, "%-11s %s\n", name+":", plain(value))
		}
	}
	line("peel", string(d.ID))
	line("online", presence(&d.Peel))
	if !d.LastSeen.IsZero() {
		line("last seen", fmt.Sprintf("%s, %s ago", clock(d.LastSeen), age(time.Since(d.LastSeen))))
	}
	if d.Commit != "" {
		line("runs", fmt.Sprintf("%s, %s", d.Commit.Short(), d.State))
	}
	if w := d.Worst; w != nil {
		line("problem", strings.TrimSpace(fmt.Sprintf("%s %s: %s, since %s", w.Class, w.Entry, w.Text, clock(w.Since))))
	}
	describeReport(d.Report, line)
	if s := d.States; s != nil {
		line("states", string(s.State)+stateRunAt(s))
	}
	if !d.Joined.IsZero() {
		line("joined", clock(d.Joined))
	}
	if !d.Ends.IsZero() {
		line("credential", "ends "+clock(d.Ends))
	}
	if d.Settings.Total > 0 {
		line("settings", fmt.Sprintf("%d, of commit %s; -o yaml prints them", d.Settings.Total,
			d.Settings.Commit.Short()))
	}
	for _, part := range slices.Sorted(maps.Keys(d.Lacks)) {
		line("left out", part+": "+d.Lacks[part])
	}
	if err := a.peelTables(d); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "\nfacts:")
	return encodeYAML(a.out, d.Facts)
}

// describeReport prints what a peel last reported.
func describeReport(r *api.PeelReport, line func(name, value string)) {
	if r == nil {
		return
	}
	if !r.Reported.IsZero() {
		line("reload", fmt.Sprintf("%d kept, %d changed, %d started, %d stopped, reported %s", r.Kept, r.Changed,
			r.Started, r.Stopped, clock(r.Reported)))
	}
	if !r.Schedule.IsZero() {
		text := "right, to the second"
		if d := r.ClockOffset; d.Abs() > time.Second {
			text = d.Abs().String() + map[bool]string{true: " ahead", false: " behind"}[d > 0]
		}
		line("clock", text+", by the report of "+clock(r.Schedule))
	}
	for _, text := range r.Errors {
		line("error", text)
	}
}

// stateRunAt returns when the states of a peel were run; empty: they were not.
func stateRunAt(s *status.States) string {
	switch {
	case s.Time.IsZero():
		return ""
	case s.Test:
		return ", by a test at " + clock(s.Time)
	}
	return ", by the run at " + clock(s.Time)
}

// peelTables prints the entries of a peel, its states that are not as Git says, and its newest jobs.
func (a *app) peelTables(d *api.PeelDetail) error {
	entries := table{
		header: []string{"ENTRY", "STATE", "RAN", "EXPECTED", "LAST RUN", "NEXT", "PROBLEM", "WHEN"},
		narrow: []string{"PROBLEM", "WHEN"}, states: []string{"STATE"},
	}
	for i := range d.Entries.Rows {
		e := &d.Entries.Rows[i]
		problem := ""
		if e.Problem != nil {
			problem = string(e.Problem.Class) + ": " + cmp.Or(e.Error, e.Problem.Text)
		}
		entries.add(e.Entry, e.State, fmt.Sprint(e.Ran), fmt.Sprint(e.Expected), clock(e.Ended), clock(e.Next), problem,
			e.When)
	}
	states := table{header: []string{"STATE", "RESULT", "CAUSE", "ERROR"}, narrow: []string{"ERROR"}}
	if d.States != nil {
		for _, r := range d.States.Results {
			states.add(r.State, r.Result, r.Cause, r.Error)
		}
	}
	jobs := table{header: []string{"JID", "FUNCTION", "STATUS", "BY", "CREATED"}, narrow: []string{"FUNCTION"}}
	for i := range d.Jobs {
		j := &d.Jobs[i]
		jobs.add(string(j.JID), j.Function, string(j.Status), j.User, clock(j.Created))
	}
	for _, t := range []table{entries, states, jobs} {
		if len(t.rows) == 0 {
			continue
		}
		fmt.Fprintln(a.out)
		if err := a.printTable(t); err != nil {
			return err
		}
	}
	if left := d.Entries.Total - len(d.Entries.Rows); left > 0 {
		fmt.Fprintf(a.out, "\nand %d more entries, which -o yaml prints\n", left)
	}
	return nil
}
