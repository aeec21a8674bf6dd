package page_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// hoursUntilNow are the hours of a day in which n runs were expected each.
func hoursUntilNow(n uint64) (list []api.TimelineHour) {
	for i := range 25 {
		at := now.Truncate(time.Hour).Add(time.Duration(i-24) * time.Hour)
		list = append(list, api.TimelineHour{At: at, Counts: verdict.Counts{Expected: n, Ran: n}})
	}
	return list
}

// aTimeline is a day in which the last hours failed.
func aTimeline(entries ...string) *api.Timeline {
	t := &api.Timeline{Master: "m1", Now: now, From: now.Add(-24 * time.Hour), Hours: hoursUntilNow(66_000), Entries: map[string][]api.TimelineHour{}}
	t.Hours[23].Failed, t.Hours[24].Failed = 231, 124
	for i := range 12 {
		t.Ahead = append(t.Ahead, api.TimelineAhead{At: now.Truncate(time.Hour).Add(time.Duration(i+1) * time.Hour), Expected: 66_000})
	}
	for _, e := range entries {
		t.Entries[e] = hoursUntilNow(10)
	}
	return t
}

// badNow is a fleet in which a commit makes an entry fail.
func badNow() *view.Now {
	finding := &cause.Finding{Word: cause.Likely, Commit: "4e1f9c7a0", Text: "likely commit 4e1f9c7a: 396 of 396 runs fail with it, 0 of 4650 without"}
	fleet := &api.Tally{
		Peels: 10_000, Reporting: 9_943, Well: 9_901, By: map[verdict.Kind]int{verdict.Failed: 38, verdict.NotReporting: 57, verdict.Missed: 4},
	}
	v := &view.Now{Now: &api.Now{
		State: api.FleetFail, Fleet: fleet,
		Problems: []api.Problem{
			{Class: verdict.Failed, Entry: "price_sync", Peels: 38, Since: now.Add(-100 * time.Minute), Text: "exit status 1", Names: []target.PeelID{"pos-0412", "pos-0433"}, Finding: finding},
			{Class: verdict.Missed, Entry: "backup", Peels: 4, Since: now.Add(-12 * time.Hour), Text: "the peel was down"},
			{Class: verdict.NotReporting, Peels: 57, Since: now.Add(-41 * time.Minute), Text: "it is offline"},
		},
		Day:     api.Extra[api.Timeline]{Value: aTimeline()},
		Alerts:  api.Extra[api.AlertsAnswer]{Value: &api.AlertsAnswer{Alerts: []api.Alert{{Rule: "failed", Subject: "price_sync", State: api.AlertFiring, Troubles: []verdict.Kind{verdict.Failed}, Peels: 38, Names: []target.PeelID{"pos-0412"}, Since: now.Add(-90 * time.Minute)}}}},
		Waiting: []api.Waiting{{Kind: api.WaitingGate, Commit: "4e1f9c7a0", What: "The gate after wave canary", More: "38 peels fail"}},
	}}
	v.History = api.Extra[status.History]{Value: &status.History{Attempts: []status.Attempt{{Commit: "4e1f9c7a0", Began: now.Add(-2 * time.Hour)}, {Commit: "77aa0f2b1", Outcome: status.OutcomeRejected, Began: now.Add(-4 * time.Hour)}}}}
	v.Audit = api.Extra[audit.Page]{Value: &audit.Page{Entries: []audit.Entry{{Time: now.Add(-3 * time.Minute), User: "ada", Action: "job.dispatch", Target: "edge-*", Result: "ok"}}}}
	return v
}

func aPageOfLanes(n int) *view.Timeline {
	v := &view.Timeline{Query: view.TimelineQuery{Span: "24h"}, Total: n, All: api.Coverage{Peels: 10_000}}
	var names []string
	for i := range n {
		name := fmt.Sprintf("entry-with-a-name-%03d", i)
		names = append(names, name)
		v.All.Rows = append(v.All.Rows, api.CoverageRow{Entry: name, Peels: 10_000, Counts: verdict.Counts{Expected: 240, Ran: 240}})
	}
	v.All.Rows[0].Failed = 3
	v.Rows = v.All.Rows[:min(n, api.MaxTimelineEntries)]
	v.Hours = aTimeline(names...)
	v.Hours.Entries[names[0]][24].Failed = 3
	v.Load.Value = aLoad()
	return v
}

// openLanes is a timeline on which the worst peels of the first entry have lanes.
func openLanes() *view.Timeline {
	v := aPageOfLanes(2)
	v.Query.Open = v.Rows[0].Entry
	v.Worst = []api.CoverageRow{
		{Peel: "pos-0412", Counts: verdict.Counts{Expected: 24, Ran: 24, Failed: 3}},
		{Peel: "pos-0433", NotReporting: true, Counts: verdict.Counts{Expected: 24, Ran: 20, Missed: 1, Unknown: 3}},
	}
	return v
}

// aLoad is a week with a busy hour each night.
func aLoad() *api.Load {
	l := &api.Load{Master: "m1", From: now.Truncate(time.Hour), Peels: 10_000}
	for i := range 7 * 24 {
		h := api.LoadHour{At: l.From.Add(time.Duration(i) * time.Hour), Runs: 66_000}
		if h.At.Hour() == 0 {
			h.Runs = 94_000
		}
		l.Hours = append(l.Hours, h)
	}
	l.Worst = api.LoadMinute{At: l.From.Add(10 * time.Hour), Runs: 1904, Entries: []api.LoadEntry{{Entry: "backup", Runs: 1900}}}
	return l
}

func anEntry(rows int) *view.Entry {
	v := &view.Entry{
		Name: "price_sync", Hours: api.Extra[api.Timeline]{Value: aTimeline("price_sync")}, Problems: badNow().Problems[:1], Coverage: &api.Coverage{Coming: []time.Time{now.Add(time.Hour), now.Add(2 * time.Hour)}, ComingOn: "pos-0000"},
		Blame: api.Extra[api.Blamed]{Value: &api.Blamed{Origin: settings.Origin{Commit: "4e1f9c7a0", Author: "Ada <ada@example.com>"}}},
	}
	for i := range rows {
		v.Coverage.Rows = append(v.Coverage.Rows, api.CoverageRow{
			Peel: target.PeelID(fmt.Sprintf("pos-%04d", i)), Counts: verdict.Counts{Expected: 147, Ran: 147, Failed: uint64(i % 2)},
			Error: strings.Repeat("e", i%2*20), Next: now.Add(time.Hour),
		})
	}
	return v
}

// aRollout is a commit whose first wave has passed its gate, and whose second one soaks.
func aRollout() *view.Commit {
	waves := []status.Wave{
		{Name: "canary", Gate: "manual", ApprovedBy: "ben", Soak: 10 * time.Minute, Changes: 6200, Peels: 10, Applied: 10, Began: now.Add(-2 * time.Hour), Passed: now.Add(-time.Hour)},
		{Name: "quarter", Gate: "manual", Changes: 6200, Peels: 1550, Applied: 1503, Failing: 38, MaxFailures: 77, Began: now.Add(-30 * time.Minute), Passed: now.Add(-5 * time.Minute)},
		{Name: "all"},
	}
	return &view.Commit{
		Attempt: status.Attempt{Commit: "4e1f9c7a0", Message: "price_sync: stream the catalogue", Author: "Ada", Outcome: status.OutcomeProgressing, Began: now.Add(-2 * time.Hour)},
		Rollout: &status.Rollout{Commit: "4e1f9c7a0", Wave: 2, Waves: 3, Name: "quarter", State: "gate", Reason: "it waits"},
		Waves:   waves,
		Change:  api.Extra[status.CommitChange]{Value: aChange("price_sync")},
		Runs: []api.CoverageRow{
			{Entry: "price_sync", Peels: 6200, Counts: verdict.Counts{Expected: 9300, Ran: 9262, Failed: 38}},
			{Entry: "catalogue_gc", Peels: 6200},
		},
	}
}

// aChange is what a commit changed; name is an entry.
func aChange(name string) *status.CommitChange {
	return &status.CommitChange{
		Commit: "4e1f9c7a0", Base: "8b02d6e11",
		Change: &status.Change{
			Peels: 6200, Before: 80_000, Added: 6200, Changed: 6200, More: 2,
			Groups: []status.Group{{Peels: []target.PeelID{"pos-0001", "pos-0002"}, Count: 6200, Added: []string{"catalogue_gc"}, Changed: []string{name}}},
		},
		Load:   &status.LoadChange{Before: 148_000, After: 154_200, WorstBefore: 1904, WorstAfter: 1904},
		Files:  []status.FileChange{{Path: "settings/pos/price.yaml", Added: 7, Removed: 2}},
		Blocks: []status.Block{{Peels: []target.PeelID{"pos-0001"}, Count: 6200, Lines: []string{"~ " + name + "  settings/pos/price.yaml:3", "-     splay: \"2m\"", "+     splay: \"4m\""}}},
	}
}

// TestTheRibbonClimbsByWaves: a commit that was taken back falls to no peel at its end.
func TestTheRibbonClimbsByWaves(t *testing.T) {
	v := badNow()
	k := aRollout()
	a := &v.History.Value.Attempts[0]
	a.Steps = k.Waves
	a.Outcome = status.OutcomeRolledBack
	a.Ended = now.Add(-time.Minute)
	var got []string
	for _, d := range page.DayOf(t.Context(), v).Commits {
		if d.Name == string(a.Commit[:8]) {
			for _, s := range d.Steps {
				got = append(got, fmt.Sprintf("%s %.4f", now.Sub(s.At), s.Share))
			}
		}
	}
	if want := "2h0m0s 0.0016, 30m0s 0.2500, 1m0s 0.0000"; strings.Join(got, ", ") != want {
		t.Errorf("the steps of the commit: %q, want %q", got, want)
	}
}

func TestTheNavigationCounts(t *testing.T) {
	n := badNow().Now
	n.Sync.Value = &status.Sync{Rollout: &status.Rollout{}, HostCounts: status.HostCounts{status.HostFailed: 2, status.HostDrifted: 21}}
	got := fmt.Sprint(page.Counts(n, &api.ActiveJobs{Total: 2}))
	const want = "map[alerts:{1 firing bad} approvals:{1 wait due} commits:{1 goes out } jobs:{2 run } peels:{10,000 } states:{23 differ }]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := page.Counts(&api.Now{}, nil); len(got) != 0 {
		t.Errorf("a fleet that is not known has %v", got)
	}
}

func TestPagesAboutRuns(t *testing.T) {
	well := &api.Now{State: api.FleetOk, Fleet: &api.Tally{Peels: 2, Well: 2}, Day: api.Extra[api.Timeline]{Error: "too slow"}, Alerts: api.Extra[api.AlertsAnswer]{Error: "too slow"}}
	for name, c := range map[string]templ.Component{
		"now":         page.Now(badNow(), "Q7"),
		"now-well":    page.Now(&view.Now{Now: well}, "Q7"),
		"now-unknown": page.Now(&view.Now{Now: &api.Now{State: api.FleetUnknown, Doubt: "no master leads", Day: well.Day, Alerts: well.Alerts, Missing: []string{"no master serves held actions just now"}}}, "Q7"),
		"timeline":    page.Timeline(openLanes(), "Q7"),
		"entry":       page.Entry(anEntry(3)),
		"why":         page.Why(&api.WhyAnswer{Peel: "db-12", Entry: "backup", Verdict: "missed", Text: "It was due at 02:30.", Facts: []api.WhyFact{{About: "timing", Text: "daily at 02:30", Source: "document"}}, Unread: []string{"the audit log"}}),
		"commit-lost": page.CommitPage(&view.Commit{
			Attempt: status.Attempt{Commit: "4e1f9c7a0", Outcome: status.OutcomeApplied, Began: now},
			Change:  api.Extra[status.CommitChange]{Value: &status.CommitChange{Commit: "4e1f9c7a0", Lacks: "neither the clone of the repo nor the bus has the files of 4e1f9c7 any more"}},
		}, func(string, string) bool { return true }, "Q7"),
		"commit":      page.CommitPage(aRollout(), func(string, string) bool { return true }, "Q7"),
		"alerts-none": page.Alerts(&view.Alerts{AlertsAnswer: &api.AlertsAnswer{}, Status: api.Extra[api.AlertStatus]{Value: &api.AlertStatus{}}}, "Q7"),
		"alerts":      page.Alerts(&view.Alerts{AlertsAnswer: badNow().Alerts.Value, Problems: badNow().Problems, Status: api.Extra[api.AlertStatus]{Value: &api.AlertStatus{Receivers: []api.Receiver{{Name: "oncall", Provider: "webhook"}}}}}, "Q7"),
		"approvals":   page.Approvals(&api.Approvals{Waiting: badNow().Waiting, Missing: []string{"held actions: too slow"}}),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, c) })
	}
}

// The pages of 10,000 peels with 20 entries each have at most 100 lines and 40 lanes. The bounds are those of the budget.
func TestPagesOfALargeFleetStaySmall(t *testing.T) {
	bad := badNow()
	for i := range 100 {
		p := bad.Problems[i%3]
		p.Entry = fmt.Sprintf("entry-%02d", i)
		bad.Problems = append(bad.Problems, p)
	}
	for name, c := range map[string]templ.Component{
		"now": page.Now(bad, "Q7"), "timeline": page.Timeline(aPageOfLanes(200), "Q7"), "entry": page.Entry(anEntry(100)),
	} {
		got := render(t, c)
		nodes := strings.Count(got, "<") - strings.Count(got, "</")
		t.Logf("%s: %d bytes, %d nodes", name, len(got), nodes)
		if len(got) > 100<<10 || nodes > 1500 {
			t.Errorf("%s has %d bytes and %d nodes", name, len(got), nodes)
		}
	}
}

func TestTextsOfRunsStayText(t *testing.T) {
	const evil = `"><script>alert(1)</script><!--part x-->` + "'\x1b[31m\u202e"
	v := badNow()
	for i := range v.Problems {
		v.Problems[i].Entry, v.Problems[i].Text = evil, evil
	}
	v.Problems[0].Finding.Text, v.Problems[0].Finding.Commit = evil, settings.Commit(evil[:40])
	v.History.Value.Attempts[0].Commit = evil
	v.Waiting[0].What, v.Waiting[0].More, v.Waiting[0].Commit, v.Doubt = evil, evil, evil, evil
	lanes := aPageOfLanes(2)
	lanes.Rows[0].Entry, lanes.Query.Target = evil, evil[:40]
	commit := aRollout()
	commit.Change.Value = aChange(evil)
	commit.Change.Value.Files[0].Path, commit.Change.Value.Lacks = evil, ""
	commit.Runs[0].Entry, commit.Attempt.Author, commit.Waves[0].Name = evil, evil, evil
	v.Alerts.Value.Alerts[0].Subject, v.Alerts.Value.Alerts[0].Names = evil, []target.PeelID{evil}
	for name, c := range map[string]templ.Component{
		"now": page.Now(v, evil), "timeline": page.Timeline(lanes, evil),
		"commit": page.CommitPage(commit, func(string, string) bool { return true }, evil),
	} {
		got := render(t, c)
		for _, refused := range []string{"<script>", "javascript:", "<!--part x", " style=", "\x1b"} {
			if i := strings.Index(got, refused); i >= 0 {
				t.Errorf("%s has %q in %q", name, refused, got[max(0, i-80):i])
			}
		}
	}
}
