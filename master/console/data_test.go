package console_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// dataGets has the expected status of each page as in gets.
var dataGets = []struct {
	path string
	want [5]int
	has  string // as an auditor
}{
	{"/", [5]int{303, 200, 200, 200, 200}, `data-testid="verdict"`},
	{"/timeline", [5]int{303, 200, 200, 200, 200}, `data-entry="hello"`},
	{"/timeline?span=35d&sort=name&target=web-01", [5]int{303, 200, 200, 200, 200}, `data-testid="heat"`},
	{"/timeline?target=web-01+and", [5]int{303, 400, 400, 400, 400}, ""},
	{"/entries/hello", [5]int{303, 200, 200, 200, 200}, `data-testid="coverage-row"`},
	{"/entries/nothing", [5]int{303, 404, 404, 404, 404}, ""},
	{"/entries/hello/why?peel=web-01", [5]int{303, 200, 200, 200, 200}, `data-testid="why-answer"`},
	{"/entries/hello/why?peel=web-99", [5]int{303, 404, 403, 404, 404}, ""},
	{"/alerts", [5]int{303, 200, 200, 200, 200}, `data-testid="page-alerts"`},
	{"/approvals", [5]int{303, 200, 200, 200, 200}, `data-testid="page-approvals"`},
	{"/?format=json", [5]int{401, 200, 200, 200, 200}, `"state":`},
}

func TestPagesAboutRuns(t *testing.T) {
	f := theFleet(t)
	f.until(t, "a report of each peel", func(ctx context.Context) bool {
		p, err := api.ProblemList.Ask(ctx, f.local, api.ProblemsRequest{})
		return err == nil && p.Well == 2
	})
	f.until(t, "a master that leads the alerts", func(ctx context.Context) bool {
		_, err := api.AlertList.Ask(ctx, f.local, api.AlertsRequest{})
		return err == nil
	})
	for column, name := range everybody {
		b := f.browse(t)
		if name != "nobody" {
			b = f.login(t, name)
		}
		for _, g := range dataGets {
			got := b.get(g.path)
			if got.status != g.want[column] {
				t.Errorf("%s as %s: %d, want %d\n%s", g.path, name, got.status, g.want[column], got.body)
			}
			if name == "eve" {
				got.has(t, g.has)
			}
		}
	}
	t.Run("a peel", func(t *testing.T) { aPeel(t, f) })
	t.Run("a fleet that fails while one looks on", func(t *testing.T) { failing(t, f) })
}

// aPeel holds what the page of a peel shows to whom.
func aPeel(t *testing.T, f *fleet) {
	const entry, origin = `data-testid="entry-row" data-entry="hello"`, "settings/all.yaml:2"
	f.until(t, "a run of each peel", func(ctx context.Context) bool {
		c, err := api.CoverageShow.Ask(ctx, f.local, api.CoverageEntryRequest{Entry: "hello"})
		return err == nil && len(c.Rows) == 2 && !c.Rows[0].LastSuccess.IsZero() && !c.Rows[1].LastSuccess.IsZero()
	})
	for _, name := range []string{"ann", "eve"} {
		f.login(t, name).get("/peels/web-01").has(t, "<h1>web-01 runs as it should</h1>", entry, "every hour", "schedule:hello", origin,
			"entries: 1 started", "right, to the second", "/entries/hello/why?peel=web-01")
	}
	lee := f.login(t, "lee")
	within, outside := lee.get("/peels/web-01"), lee.get("/peels/web-02")
	within.has(t, entry, "a caller with limits reads none")
	outside.has(t, "There is no such thing")
	for _, got := range []answer{within, outside} {
		if strings.Contains(got.body, origin) || strings.Contains(got.body, "every hour") {
			t.Errorf("a person with limits sees settings:\n%s", got.body)
		}
	}
	if strings.Contains(outside.body, entry) {
		t.Errorf("a person with limits sees entries outside:\n%s", outside.body)
	}
	d, err := api.PeelShow.Ask(t.Context(), f.people["ann"], api.PeelRequest{Peel: "web-01"})
	if err != nil || d.Report == nil || d.Report.Schedule.IsZero() || d.Entries.Total != 1 || len(d.Jobs) == 0 || len(d.Lacks) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// failing holds that the verdict of an open page names a commit within 3 s after a master knows that runs fail.
func failing(t *testing.T, f *fleet) {
	b := f.login(t, "eve")
	b.get("/").has(t, `data-state="ok"`, "All 2 peels do what Git says", `<span class="count ">2</span>`)
	bad := []byte(string(repo["settings/all.yaml"].Data) + "  sync:\n    module: cmd.run\n    args: {command: exit 1}\n    interval: 2s\n")
	commit, err := f.work.Commit("Sync prices", map[string][]byte{"settings/all.yaml": bad}, ada)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.SyncNow.Ask(t.Context(), f.local, api.None{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	defer func() {
		if t.Failed() {
			s, err := api.SyncStatus.Ask(context.Background(), f.local, api.None{})
			t.Logf("%+v, %v", s, err)
		}
	}()
	f.until(t, "a problem", func(ctx context.Context) bool {
		p, err := api.ProblemList.Ask(ctx, f.local, api.ProblemsRequest{})
		return err == nil && len(p.Problems) > 0 && p.Problems[0].Class == verdict.Failed
	})
	known := time.Now()
	var got answer
	f.until(t, "a verdict with the commit", func(context.Context) bool {
		got = b.get("/?part=verdict")
		return got.status == http.StatusOK && strings.Contains(got.body, `data-testid="suspect"`)
	})
	got.has(t, `data-state="fail"`, "/commits/"+commit.String(), "sync")
	t.Logf("known %v after the commit was read, on the page %v later", known.Sub(began), time.Since(known))
	if d := time.Since(known); d > 3*time.Second {
		t.Errorf("the page names the commit %v after a master knows of the failures", d)
	}
}
