package page_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// says returns the texts of a part of a page without its tags.
func says(html string) string {
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(html, " ")
	return strings.Join(strings.Fields(text), " ")
}

// has fails a test for each text that a page lacks.
func has(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in:\n%s", w, got)
		}
	}
}

// lacks fails a test for each text that a page has.
func lacks(t *testing.T, got string, refused ...string) {
	t.Helper()
	for _, r := range refused {
		if strings.Contains(got, r) {
			t.Errorf("%q in:\n%s", r, got)
		}
	}
}

// TestAJobOnAClassNamesThePeelsShown: the list of a class leads to a job on its peels and on no others.
func TestAJobOnAClassNamesThePeelsShown(t *testing.T) {
	v := &view.Peels{Class: verdict.NotReporting, Total: 2, Rows: []api.Peel{{ID: "web-01"}, {ID: "web-02"}}}
	has(t, render(t, page.Peels(v, true)), `href="/jobs/new?target=L%40web-01%2Cweb-02"`, "Run something on them…")
	v.Total = 250
	has(t, render(t, page.Peels(v, true)), `href="/jobs/new?target=L%40web-01%2Cweb-02"`, "Run something on these 2…")
	v.Rows, v.Total = nil, 0
	lacks(t, render(t, page.Peels(v, true)), "/jobs/new")
	has(t, render(t, page.Peels(&view.Peels{Target: "web-*", Total: 9}, true)), `target=web-%2A"`)
}

// pinnedNow is a fleet that a person has pinned.
func pinnedNow() *view.Now {
	const message = "to 8b02d6e1 by ann at 2026-11-24T09:45:00Z: new commits wait for zester sync unpin"
	at := time.Date(2026, 11, 24, 9, 45, 0, 0, time.UTC)
	v := &view.Now{Now: &api.Now{State: api.FleetOk, Problems: []api.Problem{
		{Class: verdict.Held, Since: at, Text: message},
	}}}
	v.Alerts.Error = "too slow"
	v.Sync.Value = &status.Sync{
		Holds:      status.Holds{Pinned: &status.Pin{Commit: "8b02d6e11", By: "ann", Time: at}},
		Conditions: []status.Condition{{Type: status.Suspended, Status: true, Reason: "Pinned", Message: message}},
	}
	return v
}

func TestNowSaysThatTheFleetIsPinned(t *testing.T) {
	v := pinnedNow()
	got := render(t, page.Now(v, "Q7"))
	has(t, got, `href="/commits/8b02d6e11"`)
	has(t, says(got), "The fleet is pinned to 8b02d6e1 by ann since 09:45 ; new commits wait until the pin ends")
	lacks(t, says(got), "No commit explains it", "waits for a person", "The newest commit")

	v.Sync.Value.Conditions[0].Message = "by ann: new commits wait for zester sync resume"
	has(t, says(render(t, page.Now(v, "Q7"))), "The newest commit waits for a person")
}

// TestACommitThatWasLeftIsNoCure: the page of a commit from which a person went back does not offer it as the way back.
func TestACommitThatWasLeftIsNoCure(t *testing.T) {
	history := &view.Commits{Attempts: []status.Attempt{
		{Commit: "8b02d6e11", Outcome: status.OutcomeApplied, By: "ann"},
		{Commit: "4e1f9c7a0", Outcome: status.OutcomeSuperseded, Reason: "by 8b02d6e1", Stored: true},
		{Commit: "8b02d6e11", Outcome: status.OutcomeApplied, Stored: true},
	}}
	v := &view.Commit{Attempt: history.Attempts[1], Back: history.Back(1), Runs: []api.CoverageRow{
		{Entry: "price", Counts: verdict.Counts{Expected: 4, Ran: 4, Failed: 3}},
	}}
	got := render(t, page.CommitPage(v, all, "Q7"))
	has(t, says(got), "ann went back from 4e1f9c7a to 8b02d6e1", "reason ann went back to 8b02d6e1",
		"Send it out again… 3 runs of what it changed failed since the hour in which it came")
	lacks(t, got, "Go back to it", `small hard`)
	has(t, says(render(t, page.Commits(history, all))), "ann went back to 8b02d6e1")

	if got := history.Back(2); got != nil {
		t.Errorf("nobody went back from the first commit: %+v", got)
	}
	golden(t, "commit-left", page.CommitPage(v, all, "Q7"))

	old := &view.Commit{Attempt: history.Attempts[2]}
	has(t, render(t, page.CommitPage(old, all, "Q7")), "Go back to it", "small hard")
}

// TestACommitThatWasPassedIsNoWayBack: a person went back from C to A. B, between them, offers no way back.
// What became of an attempt ends where its commit goes out again.
func TestACommitThatWasPassedIsNoWayBack(t *testing.T) {
	history := &view.Commits{Attempts: []status.Attempt{
		{Commit: "8b02d6e11", Outcome: status.OutcomeApplied, By: "ann"},
		{Commit: "4e1f9c7a0", Outcome: status.OutcomeSuperseded, Reason: "by 8b02d6e1", Stored: true},
		{Commit: "c60d31f25", Outcome: status.OutcomeSuperseded, Reason: "by 4e1f9c7a", Stored: true},
		{Commit: "8b02d6e11", Outcome: status.OutcomeApplied, Stored: true},
	}}
	v := &view.Commit{Attempt: history.Attempts[2], Back: history.Back(2)}
	got := render(t, page.CommitPage(v, all, "Q7"))
	has(t, says(got), "ann went back from 4e1f9c7a to 8b02d6e1, past c60d31f2", "reason by 4e1f9c7a", "Send it out again…")
	lacks(t, got, "Go back to it", `small hard`)

	history.Attempts = []status.Attempt{
		{Commit: "8b02d6e11", By: "bob"}, {Commit: "4e1f9c7a0", By: "ann"}, {Commit: "4e1f9c7a0"}, {Commit: "8b02d6e11"},
	}
	for i, want := range []string{"", "bob to 8b02d6e11", "", ""} {
		got := ""
		if back := history.Back(i); back != nil {
			got = back.By + " to " + string(back.To)
		}
		if got != want {
			t.Errorf("attempt %d: %q, want %q", i, got, want)
		}
	}
}

// TestAWaveSaysWhatItWaitsFor: each wave that is not over says what it waits for and until when, and each gate who opened
// it and why, or who keeps what they run until somebody does.
func TestAWaveSaysWhatItWaitsFor(t *testing.T) {
	v := aRollout()
	v.Attempt.Approvals = []status.Approval{{What: "gate canary", By: "ben", Reason: "totals equal", Time: now.Add(-time.Hour)}}
	got := says(render(t, page.CommitPage(v, all, "Q7")))
	has(t, got, "Opened by ben at 13:32 : totals equal",
		"Wave quarter has passed, and a person decides. Until then 4,650 of 6,200 peels to change keep what they run.",
		"waits for wave quarter and its gate")
	lacks(t, got, "Opens for a person")

	v.Rollout.State, v.Rollout.Reason, v.Rollout.Until = "soaks", "1,503 of 1,550 peels are watched", now.Add(10*time.Minute)
	got = says(render(t, page.CommitPage(v, all, "Q7")))
	has(t, got, "1,503 of 1,550 peels are watched, until 14:42", "Opens for a person once wave quarter has passed")

	v.Waves[1].Gate = ""
	got = says(render(t, page.CommitPage(v, all, "Q7")))
	has(t, got, "waits for wave quarter")
	lacks(t, got, "and its gate")

	v.Rollout, v.Waves[1].Gate = nil, "manual"
	got = says(render(t, page.CommitPage(v, all, "Q7")))
	has(t, got, "Nobody opened it.")
	lacks(t, got, "waits for wave")
}

// TestACommitSaysWhatIsWorstAndWhoHasIt: the headline names what fails since a commit came. Each count names its total,
// because a wave, the fleet and an entry have different ones while a peel is away.
func TestACommitSaysWhatIsWorstAndWhoHasIt(t *testing.T) {
	v := aRollout()
	v.Problems = []api.Problem{{Class: verdict.Failed, Entry: "price_sync", Peels: 38, Finding: &cause.Finding{Word: cause.Likely, Commit: "4e1f9c7a0"}}}
	got := says(render(t, page.CommitPage(v, all, "Q7")))
	has(t, got, "4e1f9c7a waits at the gate after wave quarter, 2 of 3; price_sync fails on 38 peels", "1,503 of its 1,550 peels applied",
		"1,550 of 6,200 peels to change", "9,262 of 9,300 ran, on 6,200 peels with the entry",
		"since the hour in which it came, with or without it")

	v.Rollout, v.InForce = nil, true
	v.Counts = &status.Counts{Peels: 3, Applied: 1, Offline: 1, Failed: 1}
	got = says(render(t, page.CommitPage(v, all, "Q7")))
	has(t, got, "is in force on 1 of 3 peels; price_sync fails on 38 peels", "1 of 3 have it, 1 offline, 1 failed",
		"with or without it")
	v.Counts = &status.Counts{Peels: 3, Applied: 3}
	lacks(t, says(render(t, page.CommitPage(v, all, "Q7"))), "with or without it", "have it,")
}

// TestACommitNamesThePeelsThatLackIt: and says that it does not know what fails.
func TestACommitNamesThePeelsThatLackIt(t *testing.T) {
	v := aRollout()
	v.Rollout, v.InForce, v.Counts, v.Doubt = nil, true, &status.Counts{Peels: 400, Applied: 190, Offline: 10}, "too slow"
	v.Behind.Value = &status.SyncPeelsPage{Next: "pos-0002", Peels: []status.Peel{
		{Peel: "pos-0001", State: status.Offline, Commit: "8b02d6e11", Since: now.Add(-time.Hour)},
		{Peel: "pos-0002", State: status.Failed, Errors: []string{"no such timezone"}},
	}}
	got := render(t, page.CommitPage(v, all, "Q7"))
	has(t, says(got), "not known", "pos-0001 offline 8b02d6e1 1 h ago pos-0002 failed", "no such timezone 2 of 210 peels")
	has(t, got, `href="/commits/4e1f9c7a0?cursor=pos-0002"`)
	v.Behind = api.Extra[status.SyncPeelsPage]{Error: "the leader is away"}
	has(t, says(render(t, page.CommitPage(v, all, "Q7"))), "How it went out", "the leader is away")
}

// TestAnEntryThatFailedTodayAndRunsAgainSaysBoth holds that no headline is better than the day below it.
func TestAnEntryThatFailedTodayAndRunsAgainSaysBoth(t *testing.T) {
	v := anEntry(0)
	v.Problems = nil
	hours := v.Hours.Value.Entries[v.Name]
	for i := range hours {
		hours[i].Failed = 0
	}
	has(t, render(t, page.Entry(v)), "price_sync runs as it should</h1>")
	hours[0].Failed, hours[1].Failed = 50, 4
	has(t, render(t, page.Entry(v)), "price_sync runs as it should now; 54 runs failed in the last 24 hours")
}

// TestSilenceIsNoHealth: what does not report is unknown.
func TestSilenceIsNoHealth(t *testing.T) {
	p := aPeel("exit status 1")
	p.Worst, p.States.State = nil, status.HostClean
	for i := range p.Entries.Rows {
		p.Entries.Rows[i].Problem = nil
	}
	has(t, says(render(t, page.Peel(p, true))), "runs as it should", "as it should", "states: as Git says", "well")
	p.Online = false
	got := says(render(t, page.Peel(p, true)))
	has(t, got, "web-01 is offline", "ran 4e1f9c7", "not reporting")
	lacks(t, got, "as it should", "states: as Git says", "well")
	p.State, p.States.State = status.Pending, status.HostFailed
	has(t, says(render(t, page.Peel(p, true))), "newer settings wait", "states: fail")
	p.Online, p.State, p.States, p.Report = true, "", nil, nil
	has(t, says(render(t, page.Peel(p, true))), "web-01 is online")

	v := anEntry(0)
	v.Problems, v.Coverage.Silent = nil, 2
	has(t, render(t, page.Entry(v)), "price_sync is unknown on 2 peels that do not report</h1>")
	v.Doubt = "too slow"
	has(t, render(t, page.Entry(v)), "It is not known how price_sync runs: too slow</h1>")
}

// TestNoNextTimeHasPassed: a page that is made late lists the times ahead alone, those within two minutes with seconds.
func TestNoNextTimeHasPassed(t *testing.T) {
	v := anEntry(0)
	v.Coverage.Coming = []time.Time{now.Add(-time.Hour), now.Add(-time.Second), now.Add(90 * time.Second), now.Add(time.Hour)}
	v.Coverage.Rows = []api.CoverageRow{{Peel: "pos-0001", Next: now.Add(-time.Minute)}, {Peel: "pos-0002", Next: now.Add(time.Minute)}}
	got := render(t, page.Entry(v))
	has(t, says(got), "Next 2", "14:33:30 15:32:00", "not known yet", "14:33:00")
	lacks(t, got, ">14:31", ">13:32")
	v.Coverage.Coming = v.Coverage.Coming[:2]
	lacks(t, render(t, page.Entry(v)), `data-testid="next"`)

	p := aPeel("exit status 1")
	for i := range p.Entries.Rows {
		p.Entries.Rows[i].Next = now.Add(-time.Minute)
	}
	has(t, render(t, page.Peel(p, true)), "not known yet")
	lacks(t, render(t, page.Peel(p, true)), ">14:31<")
}

// TestOneIsWrittenAsOne: the words after a number follow it.
func TestOneIsWrittenAsOne(t *testing.T) {
	one := &view.Now{Now: &api.Now{State: api.FleetOk, Fleet: &api.Tally{Peels: 1, Well: 1}, Alerts: api.Extra[api.AlertsAnswer]{Error: "too slow"}}}
	has(t, says(render(t, page.Now(one, "Q7"))), "The only peel does what Git says")
	states := &view.States{Counts: status.HostCounts{status.HostClean: 1}, Groups: stateGroups("no")}
	has(t, says(render(t, page.States(states))), "How 1 host with states compares with what Git wants")
	form := page.NewJob{Preview: &view.Preview{Total: 1, Peels: []target.PeelID{"web-01"}}}
	got := says(render(t, page.Dispatch(form)))
	has(t, got, "1 peel web-01", "write a function")
	lacks(t, got, "1 peels", "Run on")
	has(t, says(render(t, page.Now(badNow(), "Q7"))), "it is offline. What they did is known")
}
