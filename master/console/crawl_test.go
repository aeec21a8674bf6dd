package console_test

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// markedBy returns a text that would break out of an attribute, a text and a comment of a page. The name of its writer
// ends it, so that a test can see which of the texts a page has shown.
func markedBy(writer string) string { return `"'--><zx onload=x>` + writer }

// A crawler reads all pages that lead to each other, and each part of them.
type crawler struct {
	*browser
	seen    map[string]bool // paths
	writers map[string]bool // whose texts some page has shown
	ids     map[string]bool // values of data-testid
}

// crawl reads a page, and all pages that it leads to.
func (c *crawler) crawl(paths ...string) {
	c.t.Helper()
	for len(paths) > 0 {
		path := paths[0]
		paths = paths[1:]
		if c.seen[path] || strings.HasPrefix(path, "/assets/") || path == "/events" {
			continue
		}
		c.seen[path] = true
		got := c.patient(path)
		if got.status >= http.StatusInternalServerError {
			c.t.Errorf("%s: %d\n%s", path, got.status, got.body)
		}
		links, parts := c.check(path, got.body)
		paths = append(paths, links...)
		if len(parts) > 0 && !strings.Contains(path, "part=") {
			query := "?"
			if strings.Contains(path, "?") {
				query = "&"
			}
			paths = append(paths, path+query+"part="+strings.Join(parts, ","))
		}
	}
}

// patient reads a page, once more for as long as the session has sent too many requests.
func (c *crawler) patient(path string) answer {
	c.t.Helper()
	for {
		got := c.get(path)
		if got.status != http.StatusTooManyRequests {
			return got
		}
		select {
		case <-c.t.Context().Done():
			return got
		case <-time.After(time.Second):
		}
	}
}

// check reports everything in a page that a marked text has made, and returns its links and parts.
func (c *crawler) check(path, body string) (links, parts []string) {
	c.t.Helper()
	for _, raw := range []string{"<zx", `"'--`, "\x1b"} {
		if i := strings.Index(body, raw); i >= 0 {
			c.t.Errorf("%s has %q as it was written: …%q", path, raw, body[max(0, i-120):min(len(body), i+80)])
		}
	}
	for z := html.NewTokenizer(strings.NewReader(body)); z.Next() != html.ErrorToken; {
		token := z.Token()
		c.note(token.Data)
		for _, a := range token.Attr {
			c.note(a.Val)
			scheme, _, _ := strings.Cut(a.Val, ":")
			switch {
			case strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.Contains(a.Key, "zx"):
				c.t.Errorf("%s has the attribute %s=%q", path, a.Key, a.Val)
			case (a.Key == "href" || a.Key == "action") && strings.EqualFold(strings.TrimSpace(scheme), "javascript"):
				c.t.Errorf("%s leads to %q", path, a.Val)
			case a.Key == "href" && strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "//"):
				links = append(links, a.Val)
			case a.Key == "data-testid":
				c.ids[a.Val] = true
			case a.Key == "data-part":
				parts = append(parts, a.Val)
			}
		}
	}
	return links, parts
}

// note notes the writers of marked texts.
func (c *crawler) note(text string) {
	for _, after := range strings.Split(text, "onload=x")[1:] {
		after = strings.TrimPrefix(after, ">") // Git allows none in the name of an author
		end := strings.IndexFunc(after, func(r rune) bool { return r < 'a' || r > 'z' })
		if end < 0 {
			end = len(after)
		}
		c.writers[after[:end]] = true
	}
}

// A commit, its author, the peels, an assistant and people write HTML into the texts that they choose. The test opens
// each page of the fleet, and finds none of it as HTML.
func TestNothingThatOthersWriteBecomesPartOfAPage(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads text")
	}
	f := theFleet(t)
	writers := f.mark(t)
	c := &crawler{browser: f.login(t, "ann"), seen: map[string]bool{}, writers: map[string]bool{}, ids: map[string]bool{}}
	marked := url.QueryEscape(markedBy("query"))
	c.crawl("/", "/timeline", "/commits", "/peels", "/states", "/jobs", "/jobs?who=all", "/alerts", "/approvals", "/system",
		"/system/access", "/system/audit", "/me", "/login", "/nothing"+marked, "/peels?target="+marked, "/peels?class="+marked,
		"/timeline?target="+marked, "/timeline?entry="+marked, "/search?q="+marked, "/jobs?status="+marked, "/jobs?cursor="+marked,
		"/jobs/new?target="+marked+"&function="+marked+"&args="+marked+"&batch="+marked, "/entries/"+marked, "/commits/"+marked,
		"/entries/new?name="+marked+"&target="+marked+"&function="+marked+"&schedule="+marked, "/system/audit?user="+marked,
		"/entries/hello/why?peel="+marked+"&time="+marked, "/alerts/silence?match="+marked, "/login?next="+marked,
		"/entries/marked", "/entries/hello/pause?target="+marked)
	if len(c.seen) < 100 {
		t.Errorf("only %d pages and parts: %v", len(c.seen), c.seen)
	}
	t.Logf("%d pages and parts", len(c.seen))
	for _, w := range append(writers, "query") {
		if !c.writers[w] {
			t.Errorf("no page has shown the text of %s", w)
		}
	}
	c.hasTestIDs(t)
	// A host is put back by the file that has the state, and the form says so.
	back := regexp.MustCompile(`href="(/states/apply\?[^"]*state=marked[^"&]*)"`).FindStringSubmatch(c.patient("/states").body)
	if back == nil {
		t.Fatal("no way back leads from the state that fails")
	}
	c.patient(html.UnescapeString(back[1])).has(t, "Run state.apply on 2 peels?",
		"the states of settings/all.yaml run, with what they require, and no others", `<code>zester L@web-01,web-02 state.apply all</code>`)
	c.patient("/states/apply?state=&result=").has(t, "Run state.highstate on 2 peels?", "all states of these hosts run")
}

// mark has everybody write marked texts, and returns the writers.
func (f *fleet) mark(t *testing.T) []string {
	t.Helper()
	entries := `schedule:
  hello: {module: test.echo, args: {text: hello}, interval: 1h, run_on_start: true, return_job: true}
  marked:
    module: test.fail
    args: {message: ` + yaml(markedBy("failure")) + `}
    interval: 10s
    run_on_start: true
    return_job: true
  states: {module: state.highstate, interval: 5s}
states:
  marked:
    cmd.run: {argv: [cat, ` + yaml("/nowhere/"+markedBy("stateerror")) + `]}
note: ` + yaml(markedBy("setting")) + `
`
	author := worktree.Author{Name: strings.NewReplacer("<", "", ">", "").Replace(markedBy("author")), Email: "ada@example.com"}
	if _, err := f.work.Commit(markedBy("commit"), map[string][]byte{"settings/all.yaml": []byte(entries)}, author); err != nil {
		t.Fatal(err)
	}
	if _, err := api.SyncNow.Ask(t.Context(), f.local, api.None{}); err != nil {
		t.Fatal(err)
	}
	f.until(t, "the marked entry has failed", func(ctx context.Context) bool {
		all, err := api.ProblemList.Ask(ctx, f.local, api.ProblemsRequest{})
		return err == nil && slices.ContainsFunc(all.Problems, func(p api.Problem) bool { return p.Entry == "marked" && p.Peels == 2 })
	})
	f.until(t, "a state has failed with a marked text", func(ctx context.Context) bool {
		s, err := api.SyncStatus.Ask(ctx, f.local, api.None{})
		return err == nil && s.HostCounts[status.HostFailed] == 2
	})
	jid := wire.NewJID()
	_, err := api.JobDispatch.Ask(t.Context(), f.people["ann"], job.Spec{
		JID: jid, Function: "test.echo", Targets: []target.PeelID{"web-01"}, TargetExpr: "web-01",
		Args: map[string]any{"text": markedBy("output")}, Metadata: map[string]string{job.MetaReason: markedBy("reason")},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.ends(t, jid, job.Complete)
	code := url.Values{"code": {f.code(t, f.people["ann"]).Code}}
	login := f.browse(t).send(http.MethodPost, "/login", code, map[string]string{
		"Origin": "https://" + f.address, "Sec-Fetch-Site": "same-origin", "User-Agent": markedBy("browser"),
	})
	if login.status != http.StatusSeeOther {
		t.Fatalf("a login with a marked user agent: %d", login.status)
	}
	_, err = api.HoldAdd.Ask(t.Context(), f.people["lee"], api.HoldAddRequest{
		Kind: api.HoldDispatch, Target: "web-01", Hash: audit.PeelsHash([]target.PeelID{"web-01"}), Module: "test.echo",
		Args: map[string]any{"text": markedBy("claim")}, Reason: markedBy("assistant"), Agent: markedBy("agent"),
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.AlertSilence.Ask(t.Context(), f.people["ann"], api.SilenceRequest{
		Match: markedBy("match"), For: time.Hour, Reason: markedBy("silence"),
	})
	if err != nil {
		t.Fatal(err)
	}
	bad := "schedule: {" + yaml(markedBy("entry")) + ": {module: test.ping, interval: 1h}}\n"
	if _, err := f.work.Commit("Refused", map[string][]byte{"settings/all.yaml": []byte(bad)}, ada); err != nil {
		t.Fatal(err)
	}
	s, err := api.SyncNow.Ask(t.Context(), f.local, api.None{})
	if err != nil || !s.Is(status.CompileFailed) {
		t.Fatalf("the bad commit is not refused: %+v, %v", s, err)
	}
	return []string{"failure", "author", "commit", "output", "reason", "claim", "assistant", "agent", "match", "silence", "entry", "setting", "browser", "fact", "stateerror"}
}

// Names that are no texts have a grammar, so that nobody can mark them: those of peels that ask to join, of people,
// tokens and join tokens, of waves and of states.
func TestNamesHaveNoMarkup(t *testing.T) {
	for name, isGood := range map[string]bool{markedBy("name"): false, "good": true} {
		_, peel := target.ParsePeelID(name)
		waves := map[string]any{"waves": []any{map[string]any{"name": name, "peels": int64(1)}}}
		_, wave := policy.ParsePolicy(strictyaml.FromValue("zester.yaml", waves))
		states := map[string]any{name: map[string]any{"cmd.run": map[string]any{"command": "true"}}}
		_, one := state.Parse(strictyaml.FromValue("all.yaml", states), state.Options{})
		for what, err := range map[string]error{
			"a peel": peel, "a wave": wave, "a state": one, "a token": credential.CheckTokenName(name),
			"an operator": grants.CheckName(grants.RoleOperator, name), "a site": grants.CheckName(grants.RoleSite, name),
		} {
			if (err == nil) != isGood {
				t.Errorf("%s with the name %s: %v", what, name, err)
			}
		}
	}
}

// yaml quotes a text.
func yaml(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
