package page_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a-h/templ"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var update = page.Update

var now = time.Date(2026, 11, 24, 14, 32, 0, 0, time.UTC)

// render returns a component as HTML, at a fixed time.
func render(t *testing.T, c templ.Component) string {
	t.Helper()
	var out bytes.Buffer
	env := page.Env{Now: now, May: func(string, string) bool { return true }, CSS: "/assets/0/console.css", JS: "/assets/0/console.js", Icons: "/assets/0/icons.svg", Mark: "/assets/0/favicon.svg"}
	if err := c.Render(page.With(context.Background(), env), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// golden compares a component with its file in testdata. Each tag there begins a line.
func golden(t *testing.T, name string, c templ.Component) {
	t.Helper()
	got := strings.ReplaceAll(render(t, c), "><", ">\n<") + "\n"
	file := filepath.Join("testdata", name+".html")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not as in testdata; go test -update writes it:\n%s", name, got)
	}
}

func TestPages(t *testing.T) {
	frame := page.Frame{Name: "peels", Nav: "peels", Title: "Peels", Fleet: "shops", User: "ada", Role: "operator", Keys: true}
	peels := &view.Peels{Total: 2, Rows: []api.Peel{
		{ID: "web-01", Online: true, LastSeen: now.Add(-4 * time.Second), State: status.Applied, Commit: "4e1f9c7a0"},
		{ID: "web-02", LastSeen: now.Add(-3 * time.Hour), Worst: &api.PeelProblem{Class: verdict.Failed, Entry: "backup"}},
	}}
	states := &view.States{
		Counts: status.HostCounts{status.HostClean: 8, status.HostDrifted: 1, status.HostFailed: 1},
		Peels: []status.States{
			{Peel: "web-01", State: status.HostDrifted, Test: true, Time: now.Add(-time.Hour), Commit: "4e1f9c7a0", Results: []status.StateResult{
				{State: "motd", Result: "would_change", Cause: "drift"},
				{State: "a", Result: "would_change"},
				{State: "b", Result: "would_change"},
				{State: "c", Result: "would_change"},
			}},
			{Peel: "web-02", State: status.HostFailed, Time: now, Results: []status.StateResult{{State: "nginx", Result: "failed", Error: "<b>no"}}},
			{Peel: "web-03", State: status.HostNever},
		},
		Next: "web-03",
	}
	for name, c := range map[string]templ.Component{
		"states":        page.States(states),
		"states-empty":  page.States(&view.States{}),
		"states-groups": page.States(&view.States{Counts: states.Counts, Groups: stateGroups("<b>no")}),
		"layout":        page.Layout(frame),
		"peels":         page.Peels(peels, true),
		"peels-empty":   page.Peels(&view.Peels{}, false),
		"login":         page.Login(page.SignIn{Fleet: "shops", Next: "/jobs", Refused: "It is not known."}),
		"login-at":      page.Login(page.SignIn{Fleet: "shops", Provider: "/login/oidc?next=%2F"}),
		"part-error":    page.Region(page.Part{Name: "jobs", Heading: "Jobs", Error: "the bus is away", Request: "Q7", Stale: now}),
		"part-empty":    page.Region(page.Part{Name: "jobs", Heading: "Jobs", Empty: "Jobs are listed here.", Command: "zester '*' test.ping"}),
		"peel":          page.Peel(aPeel("<b>no"), true),
		"peel-bare":     page.Peel(&api.PeelDetail{Peel: api.Peel{ID: "web-01"}, Lacks: map[string]string{api.PartEntries: "not allowed to know its entries"}}, false),
		"page-problem":  page.Problem(frame, "There is no such thing", "no job has this ID", "Q7"),
	} {
		t.Run(name, func(t *testing.T) { golden(t, name, c) })
	}
}

// TestTextsStayText holds that nothing that people, hosts or programs write becomes part of a page.
func TestTextsStayText(t *testing.T) {
	const evil = `"><script>alert(1)</script><!--part x-->` + "'\x1b[31m\u202e"
	frame := page.Frame{Name: "peels", Title: evil, Fleet: evil, User: evil, Role: evil, Banner: evil, Crumbs: []page.Link{{Text: evil, Href: "javascript:alert(1)"}}}
	states := &view.States{
		Counts: status.HostCounts{status.HostClean: 8, status.HostDrifted: 1, status.HostFailed: 1},
		Peels: []status.States{
			{Peel: "web-01", State: status.HostDrifted, Test: true, Time: now.Add(-time.Hour), Commit: "4e1f9c7a0", Results: []status.StateResult{
				{State: "motd", Result: "would_change", Cause: "drift"},
				{State: "a", Result: "would_change"},
				{State: "b", Result: "would_change"},
				{State: "c", Result: "would_change"},
			}},
			{Peel: "web-02", State: status.HostFailed, Time: now, Results: []status.StateResult{{State: "nginx", Result: "failed", Error: "<b>no"}}},
			{Peel: "web-03", State: status.HostNever},
		},
		Next: "web-03",
	}
	for name, c := range map[string]templ.Component{
		"states":        page.States(states),
		"states-empty":  page.States(&view.States{}),
		"layout":        page.Layout(frame),
		"states-groups": page.States(&view.States{Groups: stateGroups(evil)}),
		"login":         page.Login(page.SignIn{Fleet: evil, Next: evil, Refused: evil}),
		"peels":         page.Peels(&view.Peels{Target: evil, Total: 1, Lacks: evil, Rows: []api.Peel{{ID: evil, Commit: evil, Worst: &api.PeelProblem{Class: evil, Entry: evil}}}}, true),
		"problem":       page.Problem(frame, evil, evil, evil),
		"again":         page.Again(evil),
		"confirm": page.Confirm(page.Form{
			Title: evil, Diff: evil, What: [][2]string{{evil, evil}}, Claim: [][2]string{{evil, evil}}, Seen: evil, Typed: evil,
			Back: evil, Refused: evil, Command: evil, Button: evil, Other: &page.Link{Text: evil, Href: "javascript:alert(1)"},
			Fields: []page.Field{{Name: evil, Label: evil, Value: evil, Hint: evil}, {Name: evil, Value: evil, Kind: "lines"}},
		}),
		"job":     page.Job(&view.Job{Job: evilJob(evil), ReturnGroups: &api.ReturnGroups{Groups: []api.ReturnGroup{{ID: evil, Total: 9, Lines: []string{evil}, Peels: []target.PeelID{evil}}}}}, true),
		"jobs":    page.Jobs(&view.Jobs{Who: evil, Jobs: []job.Job{evilJob(evil)}}, true),
		"peel":    page.Peel(aPeel(evil), true),
		"commits": page.Commits(&view.Commits{Attempts: []status.Attempt{{Commit: evil, Author: evil, Message: evil, Reason: evil}}}, all),
		"audit": page.Audit(&view.Audit{
			Query: audit.Query{User: evil, Action: evil},
			Page:  audit.Page{Entries: []audit.Entry{{User: evil, From: evil, Action: evil, Target: evil, Args: evil, Reason: evil}}},
		}),
		"me": page.Me(&api.Session{User: evil}, api.Extra[api.SessionsAnswer]{Value: &api.SessionsAnswer{Sessions: []api.Session{{ID: evil, User: evil, From: evil, Agent: evil}}}}, "", true),
	} {
		got := render(t, c)
		for _, refused := range []string{"<script>", "javascript:", "<!--part x"} {
			if strings.Contains(got, refused) {
				t.Errorf("%s has %q:\n%s", name, refused, got)
			}
		}
	}
	if got := page.Visible("a\tb\n\x1b[31m\u202e\x00"); got != "a\tb\n"+`\x1b[31m\u202e\x00` {
		t.Errorf("%q", got)
	}
}

func all(string, string) bool { return true }

// evilJob has a text wherever people, programs and hosts can write.
func evilJob(evil string) job.Job {
	j := job.Job{Target: evil, User: evil}
	j.Function, j.StateID, j.JID = evil, evil, wire.JID(evil)
	j.Args = map[string]any{evil: evil}
	j.Metadata = map[string]string{job.MetaReason: evil, job.MetaAgent: evil}
	return j
}

// aPeel has a text wherever people, commits and the host can write.
func aPeel(text string) *api.PeelDetail {
	result := status.StateResult{State: text, Result: "failed", Error: text}
	return &api.PeelDetail{
		Peel: api.Peel{
			ID: "web-01", Online: true, LastSeen: now.Add(-4 * time.Second), Commit: "4e1f9c7a0", State: status.Applied,
			Key: "x25519", Facts: target.Facts{"os": "Debian 12", text: text},
			Worst: &api.PeelProblem{Class: verdict.Failed, Entry: text},
		},
		Entries: api.PeelEntries{Total: 120, Rows: []api.PeelEntry{
			{
				CoverageRow: api.CoverageRow{Entry: text, State: "active", Error: text, Counts: verdict.Counts{Expected: 147, Ran: 147, Failed: 3}, Next: now.Add(10 * time.Minute)},
				When:        "every 10 minutes", Ended: now.Add(-8 * time.Minute), Problem: &api.PeelProblem{Class: verdict.Failed, Entry: text},
			},
			{CoverageRow: api.CoverageRow{Entry: "patch", State: "paused_manual", Why: text}, When: text, Local: true},
			{CoverageRow: api.CoverageRow{Entry: "disk_check", State: "active", Counts: verdict.Counts{Expected: 49, Ran: 49}}, Running: true, Started: now},
		}},
		States: &status.States{State: status.HostFailed, Time: now, Counts: map[string]int{"unchanged": 30}, Results: []status.StateResult{result}},
		Settings: api.PeelSettings{Commit: "4e1f9c7a0", Generation: 88_402, Total: 230, Rows: []api.PeelSetting{
			{Key: "schedule:" + text, Value: text, Origin: &settings.Origin{File: text, Line: 3, Commit: "4e1f9c7a0"}},
			{Key: "region", Value: `"east"`},
		}},
		Report: &api.PeelReport{
			Peel:        status.Peel{Reported: now, Errors: []string{text}, Reload: status.Reload{Kept: 5, Changed: 1}, MissingContents: 2},
			ClockOffset: -3 * time.Second, Schedule: now,
		},
		Jobs: []job.Job{evilJob(text)},
		Ends: now.Add(75 * 24 * time.Hour), Joined: now.Add(-15 * 24 * time.Hour),
	}
}

// TestThePageOfAPeelIsBounded shows the longest reply.
func TestThePageOfAPeelIsBounded(t *testing.T) {
	long := strings.Repeat("x", api.MaxPeelValue)
	d := aPeel(long[:64])
	d.Entries.Rows[0].When, d.Entries.Rows[0].Error, d.Settings.Rows[0].Value, d.States.Results[0].Error = long, long, long, long
	for len(d.Entries.Rows) < api.MaxPeelRows {
		d.Entries.Rows = append(d.Entries.Rows, d.Entries.Rows[0])
	}
	for len(d.Settings.Rows) < api.MaxPeelRows {
		d.Settings.Rows = append(d.Settings.Rows, d.Settings.Rows[0])
	}
	for len(d.States.Results) < 50 {
		d.States.Results = append(d.States.Results, d.States.Results[0])
	}
	for len(d.Jobs) < api.MaxPeelJobs {
		d.Jobs = append(d.Jobs, d.Jobs[0])
	}
	if n := len(render(t, page.Peel(d, true))); n > 100<<10 {
		t.Errorf("%d bytes", n)
	}
}

// TestListsAreBounded counts the elements of the longest lists, each row of which says all that a row can say.
func TestListsAreBounded(t *testing.T) {
	job, peel := evilJob("x"), api.Peel{ID: "web-01", Online: true, State: status.Failed, Commit: "4e1f9c7a0", LastSeen: now}
	job.Status, job.TargetCount = "failed", 3
	peel.Worst = &api.PeelProblem{Class: verdict.Failed, Entry: "backup"}
	entry := audit.Entry{User: "ada", BreakGlass: true, Action: "sync.pin", Result: audit.Failed, Reason: "no", Time: now}
	attempt := status.Attempt{Commit: "4e1f9c7a0", Outcome: "failed", Reason: "no", Message: "x", Began: now}
	host := status.States{Peel: "web-01", State: status.HostFailed, Test: true, Time: now, Commit: "4e1f9c7a0"}
	frame := page.Frame{Crumbs: []page.Link{{Text: "a", Href: "/"}}, Banner: "b", Keys: true, Counts: map[string]page.Count{}}
	for _, word := range []string{"now", "alerts", "jobs", "approvals", "commits"} {
		frame.Counts[word] = page.Count{Text: "3", Kind: "bad"}
	}
	around := render(t, page.Layout(frame))
	for name, c := range map[string]templ.Component{
		"jobs":    page.Jobs(&view.Jobs{Jobs: slices.Repeat(one(job), view.Rows), Next: "x"}, true),
		"peels":   page.Peels(&view.Peels{Rows: slices.Repeat(one(peel), view.Rows), Total: 10_000, Next: "x", Lacks: "x"}, true),
		"audit":   page.Audit(&view.Audit{Page: audit.Page{Entries: slices.Repeat(one(entry), view.Rows)}}),
		"commits": page.Commits(&view.Commits{Attempts: slices.Repeat(one(attempt), view.Rows)}, all),
		"states":  page.States(&view.States{Counts: status.HostCounts{status.HostFailed: 9}, Peels: slices.Repeat(one(host), view.Rows), Next: "x"}),
		"entry":   page.Entry(anEntry(view.Rows)),
	} {
		html := around + render(t, c)
		if n := strings.Count(html, "<") - strings.Count(html, "</") - strings.Count(html, "<!--"); n > 1500 {
			t.Errorf("%s has %d elements", name, n)
		}
	}
}

func one[T any](v T) []T { return []T{v} }

// stateGroups has a text wherever a host can write.
func stateGroups(text string) *status.StateGroups {
	return &status.StateGroups{Left: 3, Groups: []status.StateGroup{
		{
			StateResult: status.StateResult{State: text, Result: "failed", Error: text},
			Count:       40, Peels: []target.PeelID{target.PeelID(text), "web-02", "web-03", "web-04"},
		},
		{
			StateResult: status.StateResult{State: "motd", Result: "would_change", Cause: "drift"},
			Count:       1, Peels: []target.PeelID{"web-01"},
		},
	}}
}

func TestNumbersAreReadable(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := page.Number(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	if page.Plural(1, "peel") != "1 peel" || page.Plural(2000, "peel") != "2,000 peels" {
		t.Error("plural")
	}
}
