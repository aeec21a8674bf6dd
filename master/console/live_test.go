//go:build ui

package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// liveParts holds that tabs of one browser have one stream, and that parts of pages follow what happens.
func liveParts(t *testing.T, c chrome, f *fleet) {
	last := c.tab(t, f, looks[0], nil)
	last.login("eve", looks[0])
	last.open("/login") // which has no stream
	first := c.tab(t, f, looks[0], last)
	tabs := []*tab{first, c.tab(t, f, looks[0], last), last}
	for _, b := range tabs {
		b.open("/system/audit")
		b.until(`document.querySelector("[data-live=yes]")`)
	}
	if n := streamsOf(tabs...); n != 1 {
		t.Errorf("three tabs have %d streams, want 1", n)
	}

	order(t, f, api.SyncPause)
	for _, b := range tabs {
		b.until(newest("sync.pause"))
	}
	hidden := tabs[1]
	hide(hidden, true)
	hidden.takeAsked()
	order(t, f, api.SyncResume)
	tabs[2].until(newest("sync.resume"))
	if asked := hidden.takeAsked(); len(asked) > 0 {
		t.Errorf("a hidden tab asks for %q", asked)
	}
	hide(hidden, false)
	hidden.until(newest("sync.resume"))

	inUse := tabs[2]
	inUse.run(chromedp.Focus(chromedp.CSS(`[data-part=audit] .scroll`)))
	order(t, f, api.SyncPause)
	inUse.until(`document.querySelector("[data-testid=new]")`)
	if !eval[bool](inUse, newest("sync.resume")) {
		t.Error("a part with the focus was replaced")
	}
	inUse.run(chromedp.Click(testID("new")))
	inUse.until(newest("sync.pause"))

	first.close()
	order(t, f, api.SyncResume)
	for _, b := range tabs[1:] {
		b.until(newest("sync.resume"))
	}
	if n := streamsOf(tabs[1:]...); n != 1 {
		t.Errorf("two tabs have %d streams after the tab with the stream was closed, want 1", n)
	}
	for _, b := range tabs[1:] {
		if faults := b.takeFaults(); len(faults) > 0 {
			t.Errorf("faults: %q", faults)
		}
	}
}

// staleSince holds that a page says since when it heard nothing, and that it is live again after the next word. Another
// tab keeps the stream from being opened, as one that the browser has frozen does: a page that hears something while its
// clock is ahead would believe that it heard it then.
func staleSince(t *testing.T, c chrome, f *fleet) {
	frozen := c.tab(t, f, looks[0], nil)
	frozen.login("eve", looks[0])
	frozen.open("/login") // which has no stream
	eval[chromedp.Void](frozen, `new Promise((held) => navigator.locks.request("zester-live", () => {
		held();
		return new Promise((thawed) => { window.thaw = thawed; });
	}))`, chromedp.EvalAwaitPromise)

	b := c.tab(t, f, looks[0], frozen)
	b.open("/")
	eval[chromedp.Void](b, `window.times = [Date.now()]; undefined`)
	eval[chromedp.Void](frozen, `new BroadcastChannel("zester-live").postMessage({parts: {}})`)
	b.until(`document.querySelector("[data-live=yes]")`)
	eval[chromedp.Void](b, `times.push(Date.now()); window.clock = Date.now; Date.now = () => clock() + 36000; undefined`)
	b.until(`times.some((at) => document.querySelector("[data-testid=live]").textContent.includes(
		"Stale since " + new Date(at).toTimeString().slice(0, 5)))`)
	b.picture("stale-" + looks[0].String())
	eval[chromedp.Void](frozen, `thaw()`)
	b.until(`document.querySelector("[data-live=yes]")`)
	if faults := b.takeFaults(); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}

// newest is an expression that is true once the first line of the audit log has an action.
func newest(action string) string {
	return `document.querySelector("[data-part=audit] tbody tr").textContent.includes("` + action + `")`
}

// hide makes a page believe that its tab is hidden, or visible again.
func hide(b *tab, hidden bool) {
	eval[chromedp.Void](b, fmt.Sprintf(
		`Object.defineProperty(document, "hidden", {value: %v, configurable: true}); document.dispatchEvent(new Event("visibilitychange"))`, hidden))
}

// streamsOf returns how many streams tabs have opened since their last navigation.
func streamsOf(tabs ...*tab) (n int) {
	for _, b := range tabs {
		for _, path := range b.askedSinceOpened() {
			if path == "/events" {
				n++
			}
		}
	}
	return n
}

// order sends an order without parameters.
func order[Q any](t *testing.T, f *fleet, e api.Endpoint[Q, status.Sync]) {
	t.Helper()
	var q Q
	if _, err := e.Ask(t.Context(), f.local, q); err != nil {
		t.Fatal(err)
	}
}

// keys holds what keys do, and that they do nothing while somebody types.
func keys(t *testing.T, c chrome, f *fleet) {
	b := c.tab(t, f, looks[0], nil)
	b.login("ann", looks[0])
	for _, step := range []struct{ keys, page string }{
		{"gp", "peels"},
		{"gt", "timeline"},
		{"gc", "commits"},
		{"gs", "states"},
		{"gj", "jobs"},
		{"ga", "alerts"},
		{"gr", "approvals"},
		{"gy", "system"},
		{"gn", "now"},
		{"gp", "peels"},
		{"j" + kb.Enter, "peel"},
	} {
		b.run(chromedp.KeyEvent(step.keys))
		b.arrive(step.page)
	}
	b.open("/peels")
	b.run(chromedp.KeyEvent("jjk"))
	if at := eval[string](b, `document.activeElement.textContent`); at != "web-01" {
		t.Errorf("j, j and k lead to %q, want web-01", at)
	}
	b.run(chromedp.KeyEvent("/"))
	eval[string](b, `document.activeElement.value = ""`) // the protocol types / although its default is prevented
	b.run(chromedp.KeyEvent("gt?jweb-02"))
	if typed := eval[string](b, `document.getElementById("q").value`); typed != "gt?jweb-02" {
		t.Errorf("the search has %q", typed)
	}
	b.run(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("?"), chromedp.WaitVisible(testID("keys")))
	b.run(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotPresent(testID("keys")))
	b.open("/sync/pause")
	b.run(chromedp.KeyEvent(kb.Escape))
	b.arrive("commits")
	if faults := b.takeFaults(); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}

// lookingOn holds that a page that somebody looks at names the commit within 3 s after a master knows of the failures.
func lookingOn(t *testing.T, c chrome, f *fleet) {
	b := c.tab(t, f, looks[0], nil)
	b.login("eve", looks[0])
	b.until(`document.querySelector("[data-live=yes]")`)
	commit := f.commit(t, "Sync prices", "  sync:\n    module: cmd.run\n    args: {command: exit 1}\n    interval: 2s\n")
	f.until(t, "a problem", func(ctx context.Context) bool {
		p, err := api.ProblemList.Ask(ctx, f.local, api.ProblemsRequest{})
		return err == nil && len(p.Problems) > 0 && p.Problems[0].Class == verdict.Failed
	})
	known := time.Now()
	b.run(chromedp.WaitReady(testID("suspect")))
	took := time.Since(known)
	t.Logf("the page names the commit after %v", took)
	if took > 3*time.Second {
		t.Errorf("the page names the commit %v after a master knows of the failures", took)
	}
	if at := eval[string](b, `document.querySelector("[data-testid=suspect]").textContent`); !strings.HasPrefix(commit, at) {
		t.Errorf("the page names %s, want %s", at, commit)
	}
	if state := eval[string](b, `document.querySelector("[data-testid=verdict]").dataset.state`); state != "fail" {
		t.Errorf("the verdict is %s", state)
	}
	f.inTrouble(t, c)
}

// inTrouble looks at the pages of a fleet in trouble.
func (f *fleet) inTrouble(t *testing.T, c chrome) {
	at := f.places(t)
	held, err := api.HoldAdd.Ask(t.Context(), f.people["lee"], api.HoldAddRequest{
		Kind: api.HoldDispatch, Target: "web-01", Hash: audit.PeelsHash([]target.PeelID{"web-01"}), Module: "test.echo",
		Args: map[string]any{"text": "prices"}, Reason: "sync cannot end while the prices are locked", Agent: "night helper",
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range looks {
		b := c.tab(t, f, l, nil)
		b.login("ann", l)
		for _, s := range []sight{
			{"/", "now", "verdict suspect problem"},
			{"/entries/sync", "entry", "problem coverage-row"},
			{"/timeline", "timeline", "lane"},
			{"/commits", "commits", "commit"},
			{"/jobs?who=all", "jobs", "job"},
			{"/alerts", "alerts", "alert act-silence"},
			{"/approvals", "approvals", "approval act-decide"},
			{"/approvals/held/" + string(held.ID) + "/approve", "held-approve", "claim known confirm-go"},
		} {
			b.look(s, at.Replace(s.path), l)
		}
	}
}
