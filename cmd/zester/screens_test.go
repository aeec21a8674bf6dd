package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var update = flag.Bool("update", false, "write the screens in testdata")

// The screens in testdata are what ten commands print on terminals of 80, 120 and 200 columns.
func TestTenCommandsOnTerminalsOfThreeWidths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a bubble begins at a fixed time
		for _, columns := range []int{80, 120, 200} {
			var got bytes.Buffer
			a := &app{out: &got, errOut: &got, output: formTable, columns: columns, colour: "never"}
			for _, c := range screens(a, time.Now().UTC()) {
				fmt.Fprintf(&got, "$ zester %s\n", c.name)
				if err := c.show(); err != nil {
					t.Errorf("zester %s: %v", c.name, err)
				}
				fmt.Fprintln(&got)
			}
			for line := range strings.Lines(got.String()) {
				if n := len([]rune(line)) - 1; n > columns && !strings.Contains(line, "hint: ") {
					t.Errorf("on %d columns a line takes %d: %s", columns, n, line)
				}
			}
			compareGolden(t, fmt.Sprintf("testdata/screens/%d.txt", columns), got.Bytes())
		}
	})
}

// -o wide adds columns to these tables, and cuts nothing on a narrow terminal.
func TestWideTablesHaveMoreColumns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all bytes.Buffer
		print := func(form form, columns int, c int) string {
			var got bytes.Buffer
			a := &app{out: &got, errOut: &got, output: form, columns: columns, colour: "never"}
			if err := append(screens(a, time.Now().UTC()), moreTables(a, time.Now().UTC())...)[c].show(); err != nil {
				t.Error(err)
			}
			return got.String()
		}
		for i, c := range append(screens(&app{}, time.Now().UTC()), moreTables(&app{}, time.Now().UTC())...) {
			if slices.Contains([]string{"sync status", "job show last", "doctor"}, c.name) {
				continue
			}
			wide := print(formWide, 80, i)
			header := func(text string) int {
				for line := range strings.Lines(text) {
					if fields := strings.Fields(line); len(fields) > 1 {
						return len(fields)
					}
				}
				return 0
			}
			if table := print(formTable, 0, i); header(wide) <= header(table) {
				t.Errorf("zester %s -o wide has no more columns than\n%s", c.name, table)
			}
			fmt.Fprintf(&all, "$ zester %s -o wide\n%s\n", c.name, wide)
		}
		compareGolden(t, "testdata/screens/wide.txt", all.Bytes())
	})
}

// moreTables are tables with columns of -o wide that are not in screens.
func moreTables(a *app, now time.Time) []shown {
	return []shown{
		{"auth user list", func() error {
			return a.printTable(usersTable([]credential.User{{Name: "lee", Role: grants.RoleLimited, Created: now, CreatedBy: "ada", Keys: make([]credential.Key, 2), Revoked: now, RevokedBy: "ada"}}))
		}},
		{"auth token list", func() error {
			return a.printTable(tokensTable([]credential.Token{{Name: "ci", Scopes: []credential.Scope{credential.ScopeRead}, Created: now, CreatedBy: "ada", Rotated: now}}))
		}},
	}
}

func TestStatesHaveColoursOnATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		a := &app{out: &got, errOut: &got, output: formTable, columns: 120, colour: "always"}
		for _, c := range screens(a, time.Now().UTC())[:5] {
			fmt.Fprintf(&got, "$ zester %s --color always\n", c.name)
			if err := c.show(); err != nil {
				t.Errorf("zester %s: %v", c.name, err)
			}
		}
		compareGolden(t, "testdata/screens/colours.txt", []byte(strings.ReplaceAll(got.String(), "\x1b", `\e`)))
	})
	t.Run("none elsewhere", func(t *testing.T) {
		for _, a := range []app{{colour: "auto"}, {colour: "never", columns: 80}} {
			if a.colours() {
				t.Errorf("--color %s on %d columns", a.colour, a.columns)
			}
		}
		t.Setenv("NO_COLOR", "1")
		if (&app{colour: "auto", columns: 80}).colours() || !(&app{colour: "always"}).colours() {
			t.Error("NO_COLOR does not count, or counts more than --color always")
		}
	})
}

func compareGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what is printed; -update writes it anew:\n%s", file, got)
	}
}

// A shown is a command and how it prints the example answer.
type shown struct {
	name string
	show func() error
}

const (
	oldCommit = settings.Commit("4f2a9c1d7e0b3a8f6c5d4e3f2a1b0c9d8e7f6a5b")
	newCommit = settings.Commit("9b1c8f0e2d3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c")
)

// screens are the ten most used commands. The fleet has four peels: one is behind, one is offline.
func screens(a *app, now time.Time) []shown {
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	jobs, rows := exampleJobs(now)
	applied := status.Peel{Peel: "web-01", State: status.Applied, Online: true, Commit: newCommit, Reload: status.Reload{Started: 1, Changed: 2, Kept: 7}}
	behind := status.Peel{Peel: "web-02", State: status.Pending, Online: true, Commit: oldCommit, Since: ago(185 * time.Second), Reload: status.Reload{Kept: 10}}
	failing := status.Peel{
		Peel: "db-01", State: status.Failed, Online: true, Stale: true, Since: ago(100 * day), PausedErrors: []string{"backup"},
		Errors: []string{"cannot use settings/db/backup.yaml:12:5: the zone Europe/Lundon is not known on this host"},
	}
	peels := []api.Peel{
		{ID: "db-01", Online: true, LastSeen: ago(12 * time.Second), PendingKey: "UB", Key: "UA"},
		{ID: "mail-01", Unknown: true},
		{ID: "web-01", Online: true, LastSeen: ago(8 * time.Second)},
		{ID: "web-02", LastSeen: ago(100 * day)},
	}
	for i := range peels {
		peels[i].Facts = target.Facts{"zester_version": "v1.4.0", "os": "debian", "os_version": "13.1", "ipv4": []any{"10.1.2.3"}}
	}
	last := status.Revision{Commit: newCommit, Message: "Back up the database at night", Author: "Ada Operator <ada@example.com>", Time: ago(3 * time.Hour)}
	last.Since = ago(2*time.Hour + 48*time.Minute)
	sync := status.Sync{
		Repo: "https://git.example.com/ops/fleet.git", Branch: "main", Path: ".", LastGood: last,
		Counts: status.Counts{Peels: 4, Applied: 1, Pending: 1, Failed: 1, Offline: 1},
	}
	key := "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
	d := doctor{a: a, now: now}
	d.found("bus", sound, "", "answers after 3ms")
	d.ending("credential", "belongs to ada", now.Add(72*time.Hour), hintCredential)
	d.found("peel IDs", broken, "give one of the two hosts another ID: both run every job", "two processes are connected as web-02")
	return []shown{
		{"job list", func() error { return a.showJobs(jobs) }},
		{"peel list", func() error { return a.printTable(peelsTable(peels, nil)) }},
		{"sync peels", func() error { return a.printTable(syncPeelsTable([]status.Peel{failing, applied, behind})) }},
		{"state status", func() error {
			return a.showStates([]status.States{
				{Peel: "db-01", State: status.HostDrifted, Commit: newCommit, Test: true, Time: ago(20 * time.Minute), Counts: map[string]int{"unchanged": 11, "would_change": 1}, Results: []status.StateResult{{State: "/etc/sysctl.d/10-db.conf", Result: "would_change", Cause: "drift"}}},
				{Peel: "mail-01", State: status.HostNever},
				{Peel: "web-01", State: status.HostClean, Commit: newCommit, Time: ago(9 * time.Minute), Counts: map[string]int{"unchanged": 30}},
				{Peel: "web-02", State: status.HostFailed, Commit: newCommit, Time: ago(12 * time.Minute), Counts: map[string]int{"unchanged": 28, "failed": 1, "skipped": 1}, Results: []status.StateResult{{State: "nginx", Result: "failed", Cause: "intended", Error: "Job for nginx.service failed: bind: address already in use"}}},
			})
		}},
		{"sync history", func() error {
			return a.printTable(historyTable([]status.Attempt{
				{Commit: newCommit, Author: "Ada Operator", Message: "Back up the database at night", Outcome: status.OutcomeApplied, Began: ago(time.Hour), Ended: ago(59 * time.Minute), Stored: true, Approvals: []status.Approval{{What: "gate first", By: "eve", Reason: "looks well"}}},
				{Commit: oldCommit, Author: "Lee", Message: "Remove the old cron jobs", Outcome: status.OutcomeRolledBack, Began: ago(50 * time.Hour), Ended: ago(49 * time.Hour), Reason: "wave first: 2 of 3 peels failed"},
			}))
		}},
		{"sync status", func() error { return a.showSync(&sync) }},
		{"schedule list '*'", func() error {
			(&report{a: a, function: "schedule.list"}).printText(job.Row{Peel: "db-01", State: job.RowOK, Return: &wire.Return{Result: wire.Result{Success: true, Data: exampleEntries(now)}}})
			return nil
		}},
		{"job show last", func() error {
			a.describe(&jobs[1])
			for _, row := range rows {
				(&report{a: a, function: "cmd.run"}).printText(row)
			}
			return nil
		}},
		{"audit list", func() error {
			return a.printTable(auditTable([]audit.Entry{
				{Time: ago(time.Minute), User: "ada", From: "10.0.0.7", Action: "job.dispatch", Function: "cmd.run", Args: `command="systemctl restart nginx"`, Target: "web-*", EntryPeels: audit.EntryPeels{Peels: []string{"web-01", "web-02"}}, Count: 2, Result: audit.Done, JID: jobs[1].JID},
				{Time: ago(26 * time.Hour), User: "token:ci", From: "10.0.0.9", Action: "sync.approve", Target: "0f3c9b77", Result: audit.Refused, Reason: "the token lacks the scope sync"},
			}))
		}},
		{"auth peel list", func() error {
			return a.printTable(enrolledTable([]credential.Enrolled{
				{ID: "db-01", State: credential.Accepted, Public: key, From: "10.1.2.3", Expires: now.Add(29 * day), History: []credential.Step{{By: "token:tour", Time: ago(3 * time.Hour)}}},
				{ID: "web-02", State: credential.Pending, Public: key, From: "10.1.2.4", History: []credential.Step{{By: "the host", Time: ago(2 * day)}}, Conflicting: &credential.ConflictingKey{Public: key, From: "10.9.9.9", Time: ago(time.Hour)}},
			}))
		}},
		{"doctor", d.print},
	}
}

func exampleJobs(now time.Time) ([]job.Job, []job.Row) {
	at := func(jid wire.JID, function, expr string, s job.Status, ok, all int, back time.Duration) job.Job {
		return job.Job{
			Spec:   job.Spec{JID: jid, Function: function, Args: map[string]any{"command": "systemctl restart nginx"}},
			Status: s, Totals: job.Totals{SuccessCount: ok, ReturnCount: ok}, Target: expr, TargetCount: all, User: "ada", Owner: "m1", Created: now.Add(-back), Updated: now.Add(-back / 2),
		}
	}
	running := at("3MSR6mQUmZMKIsPhEiWO1ynYOra", "cmd.run", "web-*", job.Running, 0, 2, 90*time.Second)
	partial := at("3MSQ0aPkT1v9yQx0L2m8bWc7dEf", "cmd.run", "G@os:debian and not L@web-01,web-02,mail-01", job.Partial, 11, 12, 26*time.Hour)
	nightly := at("3MSPzzYkT1v9yQx0L2m8bWc7dEg", "cmd.run", "db-01", job.Failed, 0, 1, 20*time.Hour)
	nightly.User, nightly.Targets = "peel:db-01", []target.PeelID{"db-01"}
	nightly.Metadata = map[string]string{job.MetaSource: job.SourceSchedule, job.MetaSchedule: "nightly-backup"}
	failed := wire.Result{Data: map[string]any{"stdout": "", "stderr": "Job for nginx.service failed.\n"}, Error: "exit status 1"}
	rows := []job.Row{
		{Peel: "web-01", State: job.RowOK, Return: &wire.Return{Result: wire.Result{Success: true, Data: "done"}}},
		{Peel: "web-02", State: job.RowFailed, Return: &wire.Return{Result: failed}},
		{Peel: "mail-01", State: job.RowMissing},
	}
	return []job.Job{running, partial, nightly}, rows
}

func exampleEntries(now time.Time) map[string]any {
	entry := func(state, why, timing string, runs, failures int) map[string]any {
		return map[string]any{
			"state": state, "why": why, "timing": timing, "next_fire": now.Add(5 * time.Hour), "started": now.Add(-19 * time.Hour), "runs": runs, "failures": failures,
			"breaker_state": "closed", "origin": "settings/db/backup.yaml:7", "commit": string(newCommit), "author": "Ada Operator <ada@example.com>",
		}
	}
	return map[string]any{
		"backup": entry("paused_errors", "3 runs in a row failed", "every day at 02:30, in Europe/London, at most one at a time", 120, 3),
		"tidy":   entry("active", "", "every 15 minutes", 4711, 0),
	}
}
