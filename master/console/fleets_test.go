//go:build ui

package console_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// How many clicks the pages may take from Now to the cause, and from the cause to the way back.
const (
	toCause = 2
	toBack  = 3
)

// TestBrowserFindsTheCause breaks a fleet in three ways, and walks from Now to the cause and the way back as somebody
// does who has never seen the pages: each click is on what the page before shows.
func TestBrowserFindsTheCause(t *testing.T) {
	c := startChrome(t)
	t.Run("a host changed by hand", func(t *testing.T) { byHand(t, c) })
	t.Run("a site that is cut off", func(t *testing.T) { cutOff(t, c) })
	t.Run("a bad commit in wave 2", func(t *testing.T) { badCommit(t, c) })
	t.Run("a gate that waits", func(t *testing.T) { closedGate(t, c) })
}

// A walk counts the clicks and the time of somebody who looks for a cause.
type walk struct {
	*tab
	began  time.Time
	clicks int
}

// night opens Now once it says what is wrong.
func night(t *testing.T, c chrome, f *fleet, state string) *walk {
	t.Helper()
	b := c.tab(t, f, looks[0], nil)
	b.login("ann", looks[0])
	b.until(`document.querySelector("[data-testid=verdict]")?.dataset.state === "` + state + `"`)
	b.picture("night-" + strings.ReplaceAll(strings.ToLower(filepath.Base(t.Name())), "_", "-"))
	return &walk{tab: b, began: time.Now()}
}

// click clicks the first of some elements, and waits for a page.
func (w *walk) click(selector, page string) {
	w.t.Helper()
	w.clicks++
	w.run(chromedp.Click(chromedp.CSS(selector)))
	w.arrive(page)
}

// says holds that an element has a text.
func (w *walk) says(selector, want string) {
	w.t.Helper()
	got := eval[string](w.tab, `(document.querySelector(`+"`"+selector+"`"+`)?.textContent ?? "").replace(/\s+/g, " ").trim()`)
	if !strings.Contains(got, want) {
		w.t.Errorf("%s says %q, want %q", selector, got, want)
	}
}

// ends holds how many clicks were needed, and begins to count anew.
func (w *walk) ends(what string, most int) {
	w.t.Helper()
	w.t.Logf("%s: %d clicks, %.1f s", what, w.clicks, time.Since(w.began).Seconds())
	if w.clicks > most {
		w.t.Errorf("%s takes %d clicks, want at most %d", what, w.clicks, most)
	}
	w.picture("night-" + strings.ReplaceAll(what, " ", "-") + "-" + eval[string](w.tab, `document.body.dataset.testid`))
	w.clicks, w.began = 0, time.Now()
}

// well waits until Now says that all is as it should be.
func (w *walk) well() {
	w.t.Helper()
	w.open("/")
	w.until(`document.querySelector("[data-testid=verdict]")?.dataset.state === "ok"`)
}

// byHand walks to what somebody has edited.
func byHand(t *testing.T, c chrome) {
	f, path := edited(t)
	w := night(t, c, f, "late")
	w.says("h1", "1 host was changed by hand")
	w.says("[data-testid=problem-cause]", "A hand, not a commit")
	w.click("[data-testid=verdict] h1 a", "states")
	w.says("h1", "1 host was changed by hand")
	w.says("[data-testid=state-group]", "motd")
	w.says("[data-testid=state-group]", "changed by hand")
	w.says("[data-testid=state-group]", "web-01")
	w.ends("the cause by hand", toCause)

	w.click("[data-testid=act-apply]", "job-new")
	w.says("[data-testid=preview]", "web-01")
	w.click("[data-testid=confirm-go]", "job")
	w.ends("the way back by hand", toBack)
	f.hasStates(t, status.HostClean)
	w.well()
	if text, err := os.ReadFile(path); err != nil || string(text) != "ours\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
}

// split is a fleet with a cut cable between two hosts and the bus.
func split(t *testing.T) (f *fleet, site *cable) {
	t.Helper()
	f = newFleetOf(t, repo, "web-01", "harbor-01", "harbor-02")
	f.repo = f.work.Dir()
	site = newCable(t)
	f.dial["harbor-01"], f.dial["harbor-02"] = site.url(), site.url()
	f.plug = site.plug
	f.start(t)
	f.until(t, "a run of each peel", func(ctx context.Context) bool {
		c, err := api.CoverageList.Ask(ctx, f.local, api.CoverageRequest{})
		return err == nil && len(c.Rows) == 1 && c.Rows[0].Ran == 3
	})
	site.cut()
	f.problems(t, "two silent peels", func(p *api.Problems) bool { return p.By[verdict.NotReporting] == 2 })
	return f, site
}

// cutOff walks to the peels that do not report.
func cutOff(t *testing.T, c chrome) {
	f, site := split(t)
	w := night(t, c, f, "late")
	w.says("h1", "2 peels do not report")
	w.says("[data-testid=problem-cause]", "No commit explains it")
	w.says("[data-testid=problem]", "their schedules go on")
	w.click("[data-testid=verdict] h1 a", "peels")
	w.says("[data-testid=page-peels] tbody", "harbor-01")
	w.says("[data-testid=page-peels] tbody", "harbor-02")
	w.says("[data-testid=meanwhile]", "A peel that is cut off keeps to its last settings")
	w.says("[data-testid=meanwhile]", "Look at the network between these hosts and the bus first")
	w.ends("the cause of a site that is cut off", toCause)

	site.mend() // by somebody at the site: no page can
	f.problems(t, "all peels again", func(p *api.Problems) bool { return p.Well == 3 })
	w.well()
	w.ends("the way back of a site that is cut off", toBack)
}

// spoiled is a fleet on which a commit has passed its first wave, and fails on the hosts of the second.
func spoiled(t *testing.T) (f *fleet, good, bad string) {
	t.Helper()
	entry := func(text string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("schedule:\n  price: {module: cmd.run, args: {command: " + text + "}, interval: 1s, return_job: true}\n")}
	}
	f = newFleetOf(t, fstest.MapFS{
		"top.yaml":           {Data: []byte("base:\n  'web-*': [web]\n  'shop-*': [shop]\n")},
		"zester.yaml":        {Data: []byte("waves: [{name: canary, peels: 'web-*'}, {name: shops, peels: 100%, max_failures: 2, soak: 1h}]\n")},
		"settings/web.yaml":  entry("'true'"),
		"settings/shop.yaml": entry("'true'"),
	}, "web-01", "shop-01", "shop-02")
	f.repo = f.work.Dir()
	f.start(t)
	good = f.inForce(t)
	f.problems(t, "no problem", func(p *api.Problems) bool { return p.Well == 3 })
	commit, err := f.work.Commit("Read the new price list", map[string][]byte{
		"settings/web.yaml": entry("'true # new list'").Data, "settings/shop.yaml": entry("'exit 4 # new list'").Data,
	}, ada)
	if err != nil {
		t.Fatal(err)
	}
	order(t, f, api.SyncNow)
	f.problems(t, "failures in wave 2", func(p *api.Problems) bool {
		return p.By[verdict.Failed] == 2 && p.Problems[0].Finding != nil && p.Problems[0].Finding.Commit != ""
	})

	f.until(t, "failures that the rollout counts", func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && s.Rollout != nil && len(s.Rollout.Steps) == 2 && s.Rollout.Steps[1].Failing == 2
	})
	return f, good, commit.String()
}

// badCommit walks to the commit.
func badCommit(t *testing.T, c chrome) {
	f, good, bad := spoiled(t)
	w := night(t, c, f, "fail")
	w.says("h1", "price fails on 2 peels")
	w.says("h1", "and commit "+bad[:8]+" is the")
	w.click("[data-testid=suspect]", "commit")
	w.says("h1", bad[:8]+" goes out: wave 2 of 2")
	w.says("[data-part=waves]", "2 of at most 2 failures")
	w.says("[data-part=problems]", "price fails on 2 peels")
	w.says("[data-part=problems]", "exit status 4")
	w.ends("the cause of a bad commit", toCause)

	w.click("[data-testid=act-back]", "commit-pin")
	w.says("h1", "Go back to "+good[:8]+"?")
	w.run(chromedp.SendKeys(testID("confirm-text"), good[:8]))
	w.click("[data-testid=confirm-go]", "commits")
	w.says("h1", "The fleet is pinned to "+good[:8])
	w.ends("the way back of a bad commit", toBack)
	f.problems(t, "no failure", func(p *api.Problems) bool { return p.By[verdict.Failed] == 0 })
	w.open("/")
	w.says("h1", "The fleet is pinned to "+good[:8]+" by ann since")
	w.says("h1", "new commits wait until the pin ends")
	w.open("/sync/unpin")
	w.says("[data-testid=known]", "goes out"+bad[:8])
	w.says("[data-testid=known]", "Read the new price list")
	w.says("[data-testid=known]", "of what it changed failed")
	w.open("/commits/" + bad)
	w.says("[data-testid=act-pin]", "Send it out again…")
	w.says("[data-testid=commit-verdict]", "ann went back to "+good[:8])
	w.picture("night-after-the-way-back")
}

// closedGate looks at a rollout that waits for a person.
func closedGate(t *testing.T, c chrome) {
	settings := func(text string) []byte {
		return []byte("schedule:\n  hello: {module: test.echo, args: {text: " + text + "}, interval: 1h}\n")
	}
	f := newFleetOf(t, fstest.MapFS{
		"top.yaml":          {Data: []byte("base: {'*': [all]}\n")},
		"zester.yaml":       {Data: []byte("waves: [{name: canary, peels: 'web-*', gate: manual}, {name: shops, peels: 100%}]\n")},
		"settings/all.yaml": {Data: settings("hello")},
	}, "web-01", "shop-01", "shop-02")
	f.repo = f.work.Dir()
	f.start(t)
	f.inForce(t)
	commit, err := f.work.Commit("Say hello louder", map[string][]byte{"settings/all.yaml": settings("HELLO")}, ada)
	if err != nil {
		t.Fatal(err)
	}
	order(t, f, api.SyncNow)
	f.until(t, "a gate", func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && s.Rollout != nil && s.Rollout.State == "gate"
	})
	for _, l := range looks {
		b := c.tab(t, f, l, nil)
		b.login("ann", l)
		b.picture("gate-now-" + l.String())
		b.open("/commits/" + commit.String())
		b.picture("gate-commit-" + l.String())
		if n := eval[int](b, `document.querySelectorAll("[data-testid=gate][data-state=closed] [data-testid=act-gate]").length`); n != 1 {
			t.Errorf("%s: %d gates can be opened", l, n)
		}
		b.open("/commits/" + commit.String() + "/gate")
		b.picture("gate-open-" + l.String())
		b.close()
	}
}

var stranger = flag.String("console.stranger", "", "folder for links to three fleets in trouble, which run until the test is interrupted")

// TestAStrangerLooks keeps the three fleets running for somebody who has never seen the pages. Each file of the folder is
// a link that logs in as an operator, which is new twice a minute because its code is valid for a minute.
func TestAStrangerLooks(t *testing.T) {
	if *stranger == "" {
		t.Skip("-console.stranger names no folder")
	}
	first, _, _ := spoiled(t)
	second, _ := split(t)
	third, _ := edited(t)
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	defer stop()
	for {
		for i, f := range []*fleet{first, second, third} {
			link := "https://" + f.address + "/login#" + f.code(t, f.people["ann"]).Code + "\n"
			file := filepath.Join(*stranger, fmt.Sprintf("fleet-%d", i+1))
			if err := os.WriteFile(file, []byte(link), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(30 * time.Second):
		}
	}
}

// A cable passes connections on to the bus, until it is cut.
type cable struct {
	listener net.Listener

	mu    sync.Mutex // guards what follows
	to    string
	isCut bool
	ends  []net.Conn
}

func newCable(t *testing.T) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k := &cable{listener: l}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wait.Go(func() { k.pass(conn) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); k.cut(); wait.Wait() })
	return k
}

func (k *cable) url() string { return "tls://" + k.listener.Addr().String() }

// plug says where the bus is.
func (k *cable) plug(bus string) {
	u, err := url.Parse(bus)
	if err != nil {
		panic(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.to = u.Host
}

// pass joins a connection with one of its own to the bus, until one of both ends.
func (k *cable) pass(near net.Conn) {
	defer near.Close()
	k.mu.Lock()
	to, isCut := k.to, k.isCut
	k.mu.Unlock()
	if isCut {
		return
	}
	far, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer far.Close()
	k.mu.Lock()
	k.ends = append(k.ends, near, far)
	k.mu.Unlock()
	go func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	}()
	_, _ = io.Copy(near, far)
}

func (k *cable) cut() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = true
	for _, end := range k.ends {
		_ = end.Close()
	}
	k.ends = nil
}

func (k *cable) mend() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.isCut = false
}
