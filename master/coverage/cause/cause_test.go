package cause_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// at returns a time so many minutes after noon.
func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// ran returns the tallies of runs every ten minutes from noon on: . is a run that succeeded, x one that failed, _ none.
func ran(results string) (tallies []cause.Tally) {
	for i, result := range results {
		if result == '_' {
			continue
		}
		t := cause.Tally{From: at(10 * i), Until: at(10 * i), Runs: 1}
		if result == 'x' {
			t.Failed = 1
		}
		tallies = append(tallies, t)
	}
	return tallies
}

// peel returns a peel whose problem began with the first failure of its runs.
func peel(id target.PeelID, results string) cause.Peel {
	p := cause.Peel{ID: id, Runs: ran(results)}
	for i, result := range results {
		if result == 'x' {
			p.Onset = at(10 * i)
			break
		}
	}
	return p
}

const (
	origin = settings.Commit("9b1c8f0e2d3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c")
	older  = settings.Commit("4f2a9c1d7e0b3a8f6c5d4e3f2a1b0c9d8e7f6a5b")
)

// reached returns a commit that changed the entry and reached peels so many minutes after noon.
func reached(hash settings.Commit, minutes map[target.PeelID]int) cause.Commit {
	c := cause.Commit{Hash: hash, Changed: true, Reached: map[target.PeelID]time.Time{}}
	for id, m := range minutes {
		c.Reached[id] = at(m)
	}
	return c
}

type minutes = map[target.PeelID]int

func TestTheCauseOfAProblem(t *testing.T) {
	thirty := strings.Repeat(".", 30)
	untouched := reached(origin, minutes{"a": 295})
	untouched.Changed = false
	for _, c := range []struct {
		name    string
		peels   []cause.Peel
		period  time.Duration
		commits []cause.Commit
		word    cause.Word
		commit  settings.Commit
		text    string
	}{
		{
			"all runs fail since the commit, none of many before",
			[]cause.Peel{peel("a", thirty+"xxx")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 295})},
			cause.Likely, origin, "likely commit 9b1c8f0e: 3 of 3 runs failed with it, 0 of 30 without",
		},
		{
			"few runs before tell little",
			[]cause.Peel{peel("a", strings.Repeat(".", 29)+"xxx")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 285})},
			cause.Possible, origin, "possibly commit 9b1c8f0e: it reached 1 of 1 peel at most 2h before; 3 of 3 runs failed with it, 0 of 29 without",
		},
		{
			"the runs of other peels count, with and without it",
			[]cause.Peel{peel("a", "...xxx"), peel("b", strings.Repeat(".", 27))},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 25})},
			cause.Likely, origin, "likely commit 9b1c8f0e: 3 of 3 runs failed with it, 0 of 30 without",
		},
		{
			"ten times as many runs fail with it",
			[]cause.Peel{{ID: "a", Onset: at(100), Runs: []cause.Tally{{From: at(0), Until: at(90), Runs: 100, Failed: 5}, {From: at(100), Until: at(200), Runs: 10, Failed: 5}}}},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 95})},
			cause.Likely, origin, "likely commit 9b1c8f0e: 5 of 10 runs failed with it, 5 of 100 without",
		},
		{
			"nine times as many are chance",
			[]cause.Peel{{ID: "a", Onset: at(100), Runs: []cause.Tally{{From: at(0), Until: at(90), Runs: 100, Failed: 10}, {From: at(100), Until: at(200), Runs: 10, Failed: 9}}}},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 95})},
			cause.Possible, origin, "possibly commit 9b1c8f0e: it reached 1 of 1 peel at most 2h before; 9 of 10 runs failed with it, 10 of 100 without",
		},
		{
			"a tally in which the commit came is left out",
			[]cause.Peel{{ID: "a", Onset: at(100), Runs: []cause.Tally{{From: at(0), Until: at(89), Runs: 30}, {From: at(90), Until: at(99), Runs: 1000, Failed: 7}, {From: at(100), Until: at(200), Runs: 10, Failed: 9}}}},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 95})},
			cause.Likely, origin, "likely commit 9b1c8f0e: 9 of 10 runs failed with it, 0 of 30 without",
		},

		{
			"the problem began before the commit",
			[]cause.Peel{peel("a", thirty+"xxx")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 301})},
			cause.None, origin, "no commit explains it: it began before 9b1c8f0e reached 1 of 1 peel",
		},
		{
			"it came with the first run after the commit",
			[]cause.Peel{peel("a", thirty+"xxx")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 300})},
			cause.Likely, origin, "likely commit 9b1c8f0e: 3 of 3 runs failed with it, 0 of 30 without",
		},
		{
			"the commit was there for long",
			[]cause.Peel{peel("a", thirty+"xxx")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 179})},
			cause.None, origin, "no commit explains it: 9b1c8f0e had been on 1 of 1 peel for up to 2h1m before",
		},
		{
			"two periods are longer than two hours",
			[]cause.Peel{peel("a", thirty+"xxx")},
			24 * time.Hour,
			[]cause.Commit{reached(origin, minutes{"a": 179})},
			cause.Possible, origin, "possibly commit 9b1c8f0e: it reached 1 of 1 peel at most 48h before; 3 of 15 runs failed with it, 0 of 18 without",
		},
		{
			"the commit did not change the entry",
			[]cause.Peel{peel("a", thirty+"xxx")},
			0,
			[]cause.Commit{untouched},
			cause.None, origin, "no commit explains it: 9b1c8f0e did not change backup",
		},
		{
			"other peels with the commit are well",
			[]cause.Peel{peel("a", thirty+"xxx"), peel("b", thirty+"..."), peel("c", thirty+"..."), peel("d", thirty+"..."), peel("e", thirty+"...")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 295, "b": 295, "c": 295, "d": 295, "e": 295})},
			cause.None, origin, "no commit explains it: 4 of 5 peels with 9b1c8f0e are well",
		},
		{
			"other peels have not run since the commit",
			[]cause.Peel{peel("a", thirty+"xxx"), peel("b", thirty), peel("c", thirty), peel("d", thirty), peel("e", thirty)},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 295, "b": 295, "c": 295, "d": 295, "e": 295})},
			cause.Likely, origin, "likely commit 9b1c8f0e: 3 of 3 runs failed with it, 0 of 150 without",
		},
		{
			"one peel of five failed before: the times agree for most",
			[]cause.Peel{peel("a", thirty+"x"), peel("b", thirty+"x"), peel("c", thirty+"x"), peel("d", thirty+"x"), peel("e", "x")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 295, "b": 295, "c": 295, "d": 295, "e": 295})},
			cause.Possible, origin, "possibly commit 9b1c8f0e: it reached 4 of 5 peels at most 2h before; 4 of 4 runs failed with it, 1 of 121 without",
		},
		{
			"one peel of four failed before: that is too many",
			[]cause.Peel{peel("a", thirty+"x"), peel("b", thirty+"x"), peel("c", thirty+"x"), peel("e", "x")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 295, "b": 295, "c": 295, "e": 295})},
			cause.None, origin, "no commit explains it: it began before 9b1c8f0e reached 1 of 4 peels",
		},
		{
			"it fails also where the commit is not",
			[]cause.Peel{peel("a", thirty+"xx"), peel("b", thirty+"xx")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 295})},
			cause.None, origin, "no commit explains it: 9b1c8f0e is not known to have reached 1 of 2 peels",
		},
		{
			"an older commit is likely, the newer one came later",
			[]cause.Peel{peel("a", thirty+"xxx")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 315}), reached(older, minutes{"a": 295})},
			cause.Likely, older, "likely commit 4f2a9c1d: 3 of 3 runs failed with it, 0 of 30 without",
		},
		{
			"of two possible ones the first",
			[]cause.Peel{peel("a", "..x")},
			0,
			[]cause.Commit{reached(origin, minutes{"a": 15}), reached(older, minutes{"a": 5})},
			cause.Possible, origin, "possibly commit 9b1c8f0e: it reached 1 of 1 peel at most 2h before; 1 of 1 run failed with it, 0 of 2 without",
		},
		{
			"a commit that reached only peels that are well",
			[]cause.Peel{peel("a", thirty+"xxx"), peel("b", thirty)},
			0,
			[]cause.Commit{reached(origin, minutes{"b": 295})},
			cause.None, "", "no commit explains it: none is known that reached the peels before",
		},
		{"no commit is known", []cause.Peel{peel("a", "..x")}, 0, nil, cause.None, "", "no commit explains it: none is known that reached the peels before"},
		{"nothing is wrong", []cause.Peel{peel("a", "...")}, 0, []cause.Commit{reached(origin, minutes{"a": 5})}, cause.None, "", "there is no problem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := cause.Of(cause.Problem{Entry: "backup", Period: c.period, Peels: c.peels}, c.commits)
			if got.Word != c.word || got.Commit != c.commit || got.Text != c.text {
				t.Errorf("%s %.8s\n%s\nwant %s %.8s\n%s", got.Word, got.Commit, got.Text, c.word, c.commit, c.text)
			}
		})
	}
}

// Peels that went away have no runs to count.
func TestACauseWithoutAnEntryIsAtMostPossible(t *testing.T) {
	p := cause.Problem{Peels: []cause.Peel{{ID: "a", Onset: at(10)}, {ID: "b", Onset: at(12)}, {ID: "c"}}}
	c := cause.Commit{Hash: origin, Author: "Ada <ada@example.com>", Subject: "New firewall", Reached: reached("", minutes{"a": 8, "b": 8}).Reached}
	want := "possibly commit 9b1c8f0e by Ada (New firewall): it reached 2 of 2 peels at most 2h before"
	if got := cause.Of(p, []cause.Commit{c}); got.Word != cause.Possible || got.Text != want {
		t.Errorf("%s: %s", got.Word, got.Text)
	}
	for _, id := range []target.PeelID{"c", "d", "e", "f", "g", "h", "i", "j"} {
		p.Peels = append(p.Peels, cause.Peel{ID: id})
		c.Reached[id] = at(8)
	}
	if got := cause.Of(p, []cause.Commit{c}); got.Word != cause.None || !strings.HasPrefix(got.Text, "no commit explains it: 9 of 11 peels with 9b1c8f0e are well") {
		t.Errorf("%s: %s", got.Word, got.Text)
	}
}

func ExampleOf() {
	failing := cause.Peel{ID: "db-01", Onset: at(305), Runs: append(ran(strings.Repeat(".", 30)), cause.Tally{From: at(305), Until: at(305), Runs: 1, Failed: 1})}
	commit := cause.Commit{Hash: origin, Author: "Ada <ada@example.com>", Changed: true, Reached: map[target.PeelID]time.Time{"db-01": at(300)}}
	f := cause.Of(cause.Problem{Entry: "backup", Peels: []cause.Peel{failing}}, []cause.Commit{commit})
	data, _ := json.Marshal(f)
	fmt.Println(f.Text)
	fmt.Println(string(data))
	// Output:
	// likely commit 9b1c8f0e by Ada: 1 of 1 run failed with it, 0 of 30 without
	// {"cause":"likely","commit":"9b1c8f0e2d3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c","author":"Ada \u003cada@example.com\u003e","with":{"runs":1,"failed":1},"without":{"runs":30,"failed":0},"text":"likely commit 9b1c8f0e by Ada: 1 of 1 run failed with it, 0 of 30 without"}
}
