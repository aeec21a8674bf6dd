package bisect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/bisect"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func at(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }

// commit returns a hash that begins with a letter.
func commit(letter byte) settings.Commit {
	return settings.Commit(strings.Repeat(string(letter), 40))
}

// history returns a run of a peel every ten minutes. A letter names the commit of the runs after it, . is a good run, x a bad one.
func history(peel target.PeelID, text string) (runs []bisect.Run) {
	var of settings.Commit
	for _, sign := range []byte(text) {
		switch sign {
		case '.', 'x':
			started := at(10 * len(runs))
			runs = append(runs, bisect.Run{
				Peel: peel, Started: started, Nominal: started, Good: sign == '.', Commit: of, Author: "Ada <ada@example.com>",
				Job: wire.JID(fmt.Sprintf("%s-%03d", peel, len(runs))),
			})
		default:
			of = commit(sign)
		}
	}
	return runs
}

func went(letter byte, minutes int) status.Attempt {
	return status.Attempt{Commit: commit(letter), Message: "Change " + string(letter), Began: at(minutes)}
}

func TestWhatTheRecordsShow(t *testing.T) {
	thirty := strings.Repeat(".", 30)
	for _, c := range []struct {
		name     string
		runs     []bisect.Run
		attempts []status.Attempt
		verdict  bisect.Verdict
		text     string
	}{
		{
			"all runs fail since the commit", history("db", "a"+thirty+"bxxx"),
			[]status.Attempt{went('b', 295), went('a', -900)},
			bisect.Found, "likely commit bbbbbbbb by Ada (Change b): 3 of 3 runs failed with it, 0 of 30 without",
		},
		{
			"few runs show only the order", history("db", "a...bxxx"),
			[]status.Attempt{went('b', 25)},
			bisect.Found, "possibly commit bbbbbbbb by Ada (Change b): it reached 1 of 1 peel at most 2h before; 3 of 3 runs failed with it, 0 of 3 without",
		},
		{
			"the second commit of two", history("db", "a"+thirty+"b...cxxx"),
			[]status.Attempt{went('b', 295), went('c', 325)},
			bisect.Found, "likely commit cccccccc by Ada (Change c): 3 of 3 runs failed with it, 0 of 33 without",
		},
		{
			"a commit that came in a revision with others", history("db", "a"+thirty+"bxxx"),
			[]status.Attempt{went('r', 292)},
			bisect.Found, "likely commit bbbbbbbb by Ada: 3 of 3 runs failed with it, 0 of 30 without",
		},
		{
			"a new entry that has never run well", history("db", "bxxx"),
			[]status.Attempt{went('b', -5)},
			bisect.Found, "possibly commit bbbbbbbb by Ada (Change b): it reached 1 of 1 peel at most 2h before; 3 of 3 runs failed with it, 0 of 0 without",
		},
		{
			"it began without a commit", history("db", "a"+thirty+"xxx"),
			[]status.Attempt{went('r', 295)},
			bisect.NoCommit, "no commit explains it: the entry was not changed between the last good and the first bad run",
		},
		{
			"the commit came in the middle of the failures", history("db", "a"+thirty+"xxbxx"),
			[]status.Attempt{went('b', 315)},
			bisect.NoCommit, "no commit explains it: it began before bbbbbbbb reached 1 of 1 peel",
		},
		{
			"the commit was there for a day", history("db", "a.b"+strings.Repeat(".", 144)+"xxx"),
			[]status.Attempt{went('b', 5)},
			bisect.NoCommit, "no commit explains it: bbbbbbbb had been on 1 of 1 peel for up to 24h5m before",
		},
		{"before the records", history("db", "axxx"), nil, bisect.Before, "it has failed since the oldest record on 1 of 1 peel: it began to fail before"},
		{
			"runs fail and succeed in turns", history("db", "a.x.xb.x.x"),
			[]status.Attempt{went('b', 35)},
			bisect.Flapping, "it fails and succeeds in turns on 1 of 1 peel (4 good and 4 bad runs): no commit divides them",
		},
		{
			"and the newest succeeded", history("db", "a.x.xb.x.x."),
			[]status.Attempt{went('b', 35)},
			bisect.Flapping, "it fails and succeeds in turns on 1 of 1 peel (5 good and 4 bad runs): no commit divides them",
		},
		{
			"an earlier failure does not hide the commit", history("db", "a"+thirty+"x"+thirty+"b"+strings.Repeat("x", 5)),
			[]status.Attempt{went('b', 605)},
			bisect.Found, "likely commit bbbbbbbb by Ada (Change b): 5 of 5 runs failed with it, 1 of 61 without",
		},
		{"all is well", history("db", "a..b.."), nil, bisect.Well, "all recorded runs succeeded: 4 runs"},
		{"all is well again", history("db", "a..xx.b.."), nil, bisect.Well, "it does not fail now: 2 of 7 runs failed, and the newest succeeded on each peel"},
		{
			"other peels with the commit are well",
			append(append(append(append(history("a", "a...bxx"), history("b", "a...b..")...), history("c", "a...b..")...), history("d", "a...b..")...), history("e", "a...b..")...),
			[]status.Attempt{went('b', 25)},
			bisect.NoCommit, "no commit explains it: 4 of 5 peels with bbbbbbbb are well",
		},
		{"entries of peel.yaml have no commit", history("db", "...xxx"), nil, bisect.NoCommit, "no commit explains it: the entry was not changed between the last good and the first bad run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := bisect.Find("backup", c.runs, c.attempts)
			if got.Verdict != c.verdict || got.Text != c.text {
				t.Errorf("%s: %s\nwant %s: %s", got.Verdict, got.Text, c.verdict, c.text)
			}
			if (got.Verdict == bisect.Found) != (got.Cause != nil && got.Cause.Word != cause.None) {
				t.Errorf("%s with the cause %+v", got.Verdict, got.Cause)
			}
		})
	}
}

func TestTheEdgeBetweenGoodAndBadRuns(t *testing.T) {
	runs := append(history("b", "a..xbxx"), history("a", "a....bx")...)
	got := bisect.Find("backup", runs, []status.Attempt{went('b', 35), went('r', 15), went('q', 5)})
	if got.LastGood == nil || got.LastGood.Job != "b-001" || got.FirstBad == nil || got.FirstBad.Job != "b-002" {
		t.Errorf("from %+v to %+v", got.LastGood, got.FirstBad)
	}
	if len(got.Between) != 1 || got.Between[0].Commit != commit('r') {
		t.Errorf("between: %+v", got.Between)
	}
	if !got.From.Equal(at(0)) || !got.Until.Equal(at(40)) {
		t.Errorf("from %s until %s", got.From, got.Until)
	}
	if len(got.Commits) != 2 || got.Commits[0].Good != 6 || got.Commits[0].Bad != 1 || got.Commits[0].Peels != 2 || got.Commits[1].Bad != 3 || !got.Commits[1].First.Equal(at(30)) {
		t.Errorf("commits: %+v", got.Commits)
	}
	if p := got.Peels; len(p) != 2 || p[0].Peel != "a" || !p[0].Since.Equal(at(40)) || !p[1].Since.Equal(at(20)) || p[1].Good != 2 || p[1].Bad != 3 || p[1].Changes != 1 {
		t.Errorf("peels: %+v", p)
	}
}

// The order in which records are read makes no difference.
func TestRecordsComeInAnyOrder(t *testing.T) {
	runs, attempts := history("db", "a...bxxx"), []status.Attempt{went('b', 25), went('a', -5)}
	want := bisect.Find("backup", runs, attempts)
	for i, j := 0, len(runs)-1; i < j; i, j = i+1, j-1 {
		runs[i], runs[j] = runs[j], runs[i]
	}
	attempts[0], attempts[1] = attempts[1], attempts[0]
	if got := bisect.Find("backup", runs, attempts); got.Text != want.Text || got.Verdict != bisect.Found {
		t.Errorf("%s, want %s", got.Text, want.Text)
	}
}
