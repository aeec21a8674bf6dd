//go:build ui

package console_test

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/seed-c01c3da5/zester/master/api"
)

// rollBack goes from Now to an older commit, pins the fleet to it and ends the pin, with the keyboard alone.
func rollBack(t *testing.T, c chrome, f *fleet, l look) {
	history, err := api.SyncHistory.Ask(t.Context(), f.local, api.None{})
	if err != nil {
		t.Fatal(err)
	}
	older, newest := history.Attempts[len(history.Attempts)-1].Commit, history.Attempts[0].Commit
	b := c.tab(t, f, l, nil)
	b.login("ann", l)

	b.press(testID("nav-commits"))
	b.arrive("commits")
	b.press(chromedp.CSS(`[data-sha="` + string(older) + `"] a`))
	b.arrive("commit")
	b.press(testID("act-pin"))
	b.arrive("commit-pin")
	b.focus(testID("confirm-text"))
	b.run(chromedp.KeyEvent(string(older[:8]) + kb.Enter))
	b.arrive("commits")
	if title := eval[string](b, `document.querySelector("h1").textContent`); title != "The fleet is pinned to "+string(older[:8]) {
		t.Errorf("after the pin: %s", title)
	}
	f.until(t, "the older commit in force", func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && s.Pinned != nil && s.LastGood.Commit == older
	})

	b.press(testID("act-unpin"))
	b.arrive("sync-unpin")
	b.focus(testID("confirm-text"))
	b.run(chromedp.KeyEvent(string(newest[:8])))
	b.press(testID("confirm-go"))
	b.arrive("commits")
	f.until(t, "the newest commit in force", func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && s.Pinned == nil && s.LastGood.Commit != older
	})
	if faults := b.takeFaults(); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
}

// arrive waits for a page.
func (b *tab) arrive(name string) {
	b.t.Helper()
	b.run(chromedp.WaitReady(testID("page-" + name)))
	// chromedp.Poll asks again at an animation frame, which never calls back where scripts are off.
	for eval[string](b, "document.readyState") != "complete" {
	}
}

// press moves the focus to an element, and presses Enter.
func (b *tab) press(element chromedp.CSS) {
	b.t.Helper()
	b.focus(element)
	b.run(chromedp.KeyEvent(kb.Enter))
}

// focus presses Tab until an element has the focus, which has to be visible on each element on the way.
func (b *tab) focus(element chromedp.CSS) {
	b.t.Helper()
	const most = 100 // elements before it
	for range most {
		b.run(chromedp.KeyEvent(kb.Tab))
		if !eval[bool](b, `(e => e === document.body || getComputedStyle(e.closest(".search") ?? e).outlineStyle !== "none")(document.activeElement)`) {
			b.t.Errorf("the focus cannot be seen on %s", eval[string](b, `document.activeElement.outerHTML`))
		}
		if eval[bool](b, `document.activeElement.matches(`+"`"+string(element)+"`"+`)`) {
			return
		}
	}
	b.t.Fatalf("%s is not reached by Tab", element)
}
