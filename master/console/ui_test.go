//go:build ui

package console_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
)

// sights are all pages of the fleet of the tests. COMMIT is its first commit, JID a job.
var sights = []sight{
	{"/", "now", "verdict part strip problems* peel-grid audit-tail"},
	{"/timeline", "timeline", "target lanes lane"},
	{"/entries/hello", "entry", "strip coverage-row"},
	{"/entries/hello/why?peel=web-01", "why", "why-verdict why-answer facts"},
	{"/commits", "commits", "commit"},
	{"/commits/COMMIT", "commit", "part"},
	{"/commits/COMMIT/pin", "commit-pin", "confirm confirm-text confirm-go"},
	{"/peels", "peels", "peel total"},
	{"/peels/web-01", "peel", "part entry-row settings report facts"},
	{"/states", "states", "part"},
	{"/jobs?who=all", "jobs", "job act-dispatch"},
	{"/jobs/JID", "job", "return-group"},
	{"/jobs/new?target=*&function=test.ping", "job-new", "preview preview-count confirm-go"},
	{"/alerts", "alerts", "part"},
	{"/approvals", "approvals", "part"},
	{"/system", "system", "part"},
	{"/system/access?verb=job.list", "access", "part may"},
	{"/system/audit", "audit", "part"},
	{"/me", "me", "part"},
}

var pictures = flag.String("pictures", "", "folder for pictures of all pages, empty: none are made")

// picture writes a picture of the whole page, if -pictures asks for it.
func (b *tab) picture(name string) {
	b.t.Helper()
	if *pictures == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// everywhere are the values of data-testid of all pages.
const everywhere = "nav-now nav-timeline nav-commits nav-peels nav-states nav-jobs nav-alerts nav-approvals nav-system live who search"

// TestBrowser looks at all pages with a real browser.
func TestBrowser(t *testing.T) {
	c := startChrome(t)
	f := theFleet(t)
	f.until(t, "a report of each peel", func(ctx context.Context) bool {
		p, err := api.ProblemList.Ask(ctx, f.local, api.ProblemsRequest{})
		return err == nil && p.Well == 2
	})
	f.until(t, "a master that leads the alerts", func(ctx context.Context) bool {
		_, err := api.AlertList.Ask(ctx, f.local, api.AlertsRequest{})
		return err == nil
	})
	if axeCore(t) == "" {
		t.Log("axe-core is left out: AXE names no file")
	}
	at := f.places(t)
	for _, l := range looks {
		t.Run(l.String(), func(t *testing.T) {
			b := c.tab(t, f, l, nil)
			b.login("ann", l)
			for _, s := range sights {
				b.look(s, at.Replace(s.path), l)
			}
		})
	}
	f.commit(t, "Say hello louder", "  louder:\n    module: test.echo\n    args: {text: HELLO}\n    interval: 1h\n")
	t.Run("a roll-back with the keyboard", func(t *testing.T) { rollBack(t, c, f, looks[0]) })
	t.Run("a roll-back without scripts", func(t *testing.T) {
		rollBack(t, c, f, look{width: 390, noScript: true})
	})
	t.Run("an alert on a phone", func(t *testing.T) { firingOnAPhone(t, c, f) })
	t.Run("live", func(t *testing.T) { liveParts(t, c, f) })
	t.Run("stale", func(t *testing.T) { staleSince(t, c, f) })
	t.Run("keys", func(t *testing.T) { keys(t, c, f) })
	t.Run("a fleet that fails while one looks on", func(t *testing.T) { lookingOn(t, c, f) })
}

// firingOnAPhone holds that the badge of alerts that fire is in sight on a narrow screen, on whatever page.
func firingOnAPhone(t *testing.T, c chrome, f *fleet) {
	l := look{width: 390}
	b := c.tab(t, f, l, nil)
	b.login("ann", l)
	b.open("/system")
	const badge = `(() => {
		const a = document.querySelector("[data-testid=nav-alerts]");
		a.querySelector(".count")?.remove();
		a.insertAdjacentHTML("beforeend", '<span class="count bad">3 firing</span>');
		return Math.ceil(a.lastElementChild.getBoundingClientRect().right);
	})()`
	if right := eval[int64](b, badge); right <= 0 || right > l.width {
		t.Errorf("the badge ends at %d px of %d", right, l.width)
	}
}

// commit adds entries to the settings of all peels, and waits until the commit is in force.
func (f *fleet) commit(t *testing.T, message, entries string) string {
	t.Helper()
	all := append(slices.Clone(repo["settings/all.yaml"].Data), entries...)
	commit, err := f.work.Commit(message, map[string][]byte{"settings/all.yaml": all}, ada)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := api.SyncNow.Ask(t.Context(), f.local, api.None{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "the commit in force", func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && string(s.LastGood.Commit) == commit.String()
	})
	return commit.String()
}

// places names the things that paths of sights have.
func (f *fleet) places(t *testing.T) *strings.Replacer {
	t.Helper()
	var jid string
	f.until(t, "a job", func(ctx context.Context) bool {
		page, err := api.JobList.Ask(ctx, f.local, job.Query{})
		if err != nil || len(page.Jobs) == 0 {
			return false
		}
		jid = string(page.Jobs[0].JID)
		return true
	})
	history, err := api.SyncHistory.Ask(t.Context(), f.local, api.None{})
	if err != nil || len(history.Attempts) == 0 {
		t.Fatalf("no commit: %v", err)
	}
	return strings.NewReplacer("COMMIT", string(history.Attempts[0].Commit), "JID", jid)
}

// look opens a page and holds what is true of each.
func (b *tab) look(s sight, path string, l look) {
	b.t.Helper()
	b.open(path)
	if name := eval[string](b, `document.body.dataset.testid`); name != "page-"+s.name {
		b.t.Errorf("%s is %s, want page-%s", path, name, s.name)
	}
	ids := eval[[]string](b, `[...document.querySelectorAll("[data-testid]")].map((e) => e.dataset.testid)`)
	for _, id := range strings.Fields(everywhere + " " + s.ids) {
		if id, optional := strings.CutSuffix(id, "*"); !optional && !slices.Contains(ids, id) {
			b.t.Errorf("%s has no data-testid=%s", path, id)
		}
	}
	if wide := eval[int64](b, `document.documentElement.scrollWidth`); wide > l.width {
		b.t.Errorf("%s is %d px wide on a screen of %d px: %s", path, wide, l.width, b.widest())
	}
	if n := eval[int](b, `document.querySelectorAll("h1").length`); n != 1 {
		b.t.Errorf("%s has %d headlines", path, n)
	}
	if faults := b.takeFaults(); len(faults) > 0 {
		b.t.Errorf("%s: %q", path, faults)
	}
	b.picture(s.name + "-" + l.String())
	if axe := axeCore(b.t); axe != "" {
		eval[chromedp.Void](b, axe)
		for _, violation := range eval[[]string](b, axeRun, chromedp.EvalAwaitPromise) {
			b.t.Errorf("%s: axe-core: %s", path, violation)
		}
	}
}

// axeRun is one line for each violation, with the first elements.
const axeRun = `axe.run(document, {resultTypes: ["violations"]}).then((r) => r.violations.map((v) =>
	v.id + " (" + v.help + "): " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " +
	n.any.concat(n.all).map((c) => c.message).join(" ")).join(" | ")))`

// axeCore returns the script whose file the variable AXE names: axe.min.js of the package axe-core of npm, under its own
// license (MPL-2.0). It is empty without the variable.
func axeCore(t *testing.T) string {
	t.Helper()
	file := os.Getenv("AXE")
	if file == "" {
		return ""
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// widest names elements that are wider than the screen.
func (b *tab) widest() string {
	b.t.Helper()
	return eval[string](b, `[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
		.slice(0, 5).map((e) => e.tagName + "." + e.className).join(" ")`)
}
