package join_test

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/peel/ledger"
)

// overWire returns runs as a master reads them.
func overWire(t *testing.T, runs ...ledger.Run) []ledger.Run {
	t.Helper()
	list, err := ledger.ParseRuns(ledger.AppendRuns(nil, runs))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// An entry that waits 1 minute after each run lists a run each 200 s until 2027. Each gap is too long, and none of those
// to come is missed.
func TestFiresToComeAreNotMissed(t *testing.T) {
	now := day.Add(48 * time.Hour)
	m := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: day})
	begins := []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: now.Add(-2 * time.Hour)}}
	runs := ledger.Run{
		Fire: ledger.Fire{Era: 1, Nominal: now.Add(-10 * time.Hour), Outcome: ledger.Ran},
		Step: 200 * time.Second, Count: 200_000,
	}
	e := join.Entry{Plan: plan(t, fields{"interval": "1m"}), IsActive: true, From: day, Marks: begins, Fires: overWire(t, runs)}
	missed := 0
	join.New(m, now, now, nil).Join(&e, func(s join.Span) {
		if s.Verdict == join.Missed {
			missed += s.Count()
		}
		if s.Last().After(now.Add(join.Tolerance)) || s.Verdict == join.Missed && s.At().Before(begins[0].At) {
			t.Fatalf("%s %s has a verdict", s.At(), s.Verdict)
		}
	})
	if missed < 34 || missed > 36 {
		t.Errorf("%d missed in two hours, want one each 200 s", missed)
	}
}

// A peel gives each second of two days as missed, in each of 64 eras in each of 200 entries. It takes 8 KB to say.
func TestManyMissedFiresAreJoinedAtOnce(t *testing.T) {
	now := day.Add(48 * time.Hour)
	var m ledger.Marks
	var runs []ledger.Run
	for i := range ledger.MaxMarks {
		at := now.Add(time.Duration(i-70) * time.Minute)
		m = m.Add(ledger.Mark{Kind: ledger.Starts, Old: at.Add(-20 * time.Second), At: at})
		missed := ledger.Fire{Era: uint32(i + 1), Class: ledger.Start, Nominal: now.Add(-46 * time.Hour), Outcome: ledger.Missed}
		runs = append(runs, ledger.Run{Fire: missed, Step: time.Second, Count: 46 * 3600})
	}
	r, e := join.New(m, now, now, nil), join.Entry{Fires: overWire(t, runs...)}
	start := time.Now()
	for range 200 {
		missed := uint64(0)
		for _, h := range r.Hours(&e, nil) {
			missed += h.Missed
		}
		// Each era knows of its own seconds, and of the 20 s before it and before each earlier one.
		want := uint64(0)
		for i := range ledger.MaxMarks {
			want += uint64(60*(70-i) + 20*(i+1) - 1)
		}
		if missed != want {
			t.Fatalf("%d missed, want %d", missed, want)
		}
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A peel lists more reasons in an hour than there are.
func TestReasonsOfAnHourAreBounded(t *testing.T) {
	now := day.Add(12 * time.Hour)
	m := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: day})
	reasons := []ledger.Reason{
		ledger.Runs, ledger.Splay, ledger.Held, ledger.Waits, ledger.Owed, ledger.AlreadyRunning, ledger.QueueFull, ledger.Superseded,
		ledger.CircuitOpen, ledger.NeedsUnmet, ledger.SkippedOnce, ledger.MaxRuns, ledger.Paused, ledger.Disabled, ledger.Removed,
	}
	var runs []ledger.Run
	for i, why := range reasons {
		for j, outcome := range []ledger.Outcome{ledger.Skipped, ledger.Missed} {
			f := ledger.Fire{Era: 1, Nominal: now.Add(time.Duration(10*i+j-1800) * time.Second), Outcome: outcome, Why: why}
			runs = append(runs, ledger.Run{Fire: f, Count: 1})
		}
	}
	e := join.Entry{Fires: overWire(t, runs...)}
	hours := join.New(m, now, now, nil).Hours(&e, nil)
	if len(hours) != 1 || hours[0].Skipped != 15 || hours[0].Missed != 15 || len(hours[0].Reasons) > 18 {
		t.Errorf("%+v", hours)
	}
	sum := uint64(0)
	for _, reason := range hours[0].Reasons {
		sum += reason.N
	}
	if sum != 30 {
		t.Errorf("the reasons are of %d fires", sum)
	}
}

// Of an entry with an interval the list has the number of an old hour.
func TestAllFiresOfAnHourCountWithoutAPlan(t *testing.T) {
	now := day.Add(48 * time.Hour)
	m := ledger.Marks{}.Add(ledger.Mark{Kind: ledger.Starts, At: day})
	ran := ledger.Fire{Era: 1, Nominal: now.Add(-10 * time.Hour), Outcome: ledger.Ran}
	e := join.Entry{
		Plan: plan(t, fields{"interval": "10s"}), IsActive: true, From: day,
		Fires: overWire(t, ledger.Run{Fire: ran, Step: 3590 * time.Second, Count: 360, Hour: true}),
		Marks: []ledger.Mark{{Kind: ledger.Begins, Era: 1, At: day}},
	}
	got := uint64(0)
	for _, h := range join.New(m, now, now, nil).Hours(&e, nil) {
		got += h.Ran
	}
	if got != 360 {
		t.Errorf("%d ran, want 360", got)
	}
}
