package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/bisect"
	"github.com/seed-c01c3da5/zester/cmd/zester/horizon"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// The screens in testdata are what the commands print that look for causes and look ahead.
func TestCommandsThatLookAheadOnTerminalsOfThreeWidths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a bubble begins at a fixed time
		for _, columns := range []int{80, 120, 200} {
			var got bytes.Buffer
			a := &app{out: &got, errOut: &got, output: formTable, columns: columns, colour: "never"}
			for _, c := range []shown{
				{"doctor --cut-off", func() error { return a.showHorizon(exampleHorizon(t, time.Now().UTC())) }},
				{"why 'db-*' backup --since-when", func() error { return a.showBisect(exampleBisect(time.Now().UTC())) }},
			} {
				fmt.Fprintf(&got, "$ zester %s\n", c.name)
				if err := c.show(); err != nil {
					t.Errorf("zester %s: %v", c.name, err)
				}
				fmt.Fprintln(&got)
			}
			for line := range strings.Lines(got.String()) {
				if n := len([]rune(line)) - 1; n > columns && !strings.Contains(line, ": ") {
					t.Errorf("on %d columns a line takes %d: %s", columns, n, line)
				}
			}
			compareGolden(t, fmt.Sprintf("testdata/screens/ahead%d.txt", columns), got.Bytes())
		}
	})
}

// exampleBisect is an entry that runs every hour on two peels, and fails on both since a commit.
func exampleBisect(now time.Time) *bisect.Result {
	var runs []bisect.Run
	for i := range 40 {
		for _, id := range []target.PeelID{"db-01", "db-02"} {
			started := now.Add(time.Duration(i-40) * time.Hour)
			r := bisect.Run{
				Peel: id, Started: started, Nominal: started, Job: wire.JID(fmt.Sprintf("3MSR6mQUmZMKIsPhEiWO1y%s", id)), Good: true,
				Commit: oldCommit, Author: "Lee <lee@example.com>", File: "settings/db/backup.yaml:7",
			}
			if i > 36 {
				r.Commit, r.Author, r.Good = newCommit, "Ada Operator <ada@example.com>", false
			}
			runs = append(runs, r)
		}
	}
	return bisect.Find("backup", runs, []status.Attempt{
		{Commit: newCommit, Author: "Ada Operator <ada@example.com>", Message: "Back up the database at night", Began: now.Add(-210 * time.Minute)},
	})
}

// exampleHorizon is a fleet of three peels: one has not got the newest settings, one lacks the contents of a file.
func exampleHorizon(t *testing.T, now time.Time) *horizon.Horizon {
	t.Helper()
	entry := func(name, module string, interval, life time.Duration) *schedule.Entry {
		e := schedule.New(name)
		e.Module, e.Clock.Interval.Duration = module, interval
		if life > 0 {
			e.Life.Until = now.Add(life)
		}
		return e
	}
	peel := func(id target.PeelID, digest settings.Digest, missing int) status.Peel {
		return status.Peel{Peel: id, Digest: digest, Wanted: "new", Commit: newCommit, Reported: now, MissingContents: missing}
	}
	old := peel("db-01", "old", 0)
	old.Commit, old.Since = oldCommit, now.Add(-time.Hour)
	h, err := horizon.Look(horizon.Fleet{
		Cut: now, Zone: time.UTC, Peels: []status.Peel{old, peel("web-01", "new", 0), peel("web-02", "new", 1)},
		Schedules: map[settings.Digest]schedule.Set{"new": {
			"backup": entry("backup", "cmd.run", 12*time.Hour, 0), "highstate": entry("highstate", "state.highstate", time.Hour, 0),
			"migrate": entry("migrate", "cmd.run", 6*time.Hour, 40*time.Hour),
		}},
		Credentials: []credential.Held{
			{Role: grants.RolePeel, Name: "web-01", Expires: now.Add(29 * day), Renews: true},
			{Role: grants.RolePeel, Name: "db-01", Expires: now.Add(50 * time.Hour)},
			{Role: grants.RoleOperator, Name: "ada"},
		},
		Sync: &status.Sync{LastGood: status.Revision{Commit: newCommit}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}
