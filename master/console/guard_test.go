package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// everybody are the sessions that are tried, in the order of the columns of the tables below.
var everybody = []string{"nobody", "eve", "lee", "ann", "ci"}

// gets has the expected status of each page as nobody, an auditor, a limited operator, an operator and a token.
var gets = []struct {
	path string
	want [5]int
}{
	{"/peels", [5]int{303, 200, 200, 200, 200}},
	{"/peels?target=web-01", [5]int{303, 200, 200, 200, 200}},
	{"/peels?target=web-01+and", [5]int{303, 400, 400, 400, 400}},
	{"/peels/web-01", [5]int{303, 200, 200, 200, 200}},
	{"/peels/nothing", [5]int{303, 404, 404, 404, 404}},
	{"/states", [5]int{303, 200, 200, 200, 200}},
	{"/states?by=host&cursor=web-01", [5]int{303, 200, 200, 200, 200}},
	{"/states?by=hosts", [5]int{303, 400, 400, 400, 400}},
	{"/states/apply?state=motd&result=failed", [5]int{303, 403, 400, 400, 400}},
	{"/jobs/2abcdefghijklmnopqrstuvwxyz/retry", [5]int{303, 403, 404, 404, 404}},
	{"/jobs", [5]int{303, 200, 200, 200, 200}},
	{"/jobs?who=schedules", [5]int{303, 200, 200, 200, 200}},
	{"/jobs?status=odd", [5]int{303, 400, 400, 400, 400}},
	{"/jobs/new", [5]int{303, 403, 200, 200, 200}},
	{"/jobs/new?target=web-01&function=test.ping", [5]int{303, 403, 200, 200, 200}},
	{"/jobs/new?target=web-01&function=state.highstate", [5]int{303, 403, 200, 200, 200}},
	{"/jobs/nothing", [5]int{303, 404, 404, 404, 404}},
	{"/jobs/2abcdefghijklmnopqrstuvwxyz", [5]int{303, 404, 404, 404, 404}},
	{"/commits", [5]int{303, 200, 200, 200, 200}},
	{"/commits/0000000", [5]int{303, 404, 404, 404, 404}},
	{"/sync/pause", [5]int{303, 403, 403, 200, 403}},
	{"/system", [5]int{303, 200, 200, 200, 200}},
	{"/system/access", [5]int{303, 200, 200, 200, 200}},
	{"/system/audit", [5]int{303, 200, 403, 200, 200}},
	{"/system/audit?before=x", [5]int{303, 400, 400, 400, 400}},
	{"/system/access/tokens/ci/revoke", [5]int{303, 403, 403, 200, 403}},
	{"/system/access/sessions/x/end", [5]int{303, 200, 200, 200, 200}},
	{"/me", [5]int{303, 200, 200, 200, 200}},
	{"/nothing", [5]int{303, 404, 404, 404, 404}},
	{"/login", [5]int{200, 200, 200, 200, 200}},
}

func TestEachPageAsEverybody(t *testing.T) {
	f := theFleet(t)
	for column, name := range everybody {
		b := f.browse(t)
		if name != "nobody" {
			b = f.login(t, name)
		}
		for _, g := range gets {
			if got := b.get(g.path); got.status != g.want[column] {
				t.Errorf("%s as %s: %d, want %d\n%s", g.path, name, got.status, g.want[column], got.body)
			}
		}
	}
	t.Run("the list of peels", func(t *testing.T) {
		got := f.login(t, "eve").get("/peels")
		got.has(t, `data-testid="page-peels"`, `data-id="web-01"`, "<h1>2 peels</h1>", `aria-current="page"`)
		f.login(t, "eve").get("/peels?format=json").has(t, `"id":"web-02"`)
		if part := f.login(t, "eve").get("/peels?part=peels"); strings.Contains(part.body, "<html") || !strings.Contains(part.body, "web-01") {
			t.Errorf("the part: %s", part.body)
		}
	})
	t.Run("search", func(t *testing.T) {
		for q, want := range map[string]string{
			"web-01": "/peels/web-01", "2abcdefghijklmnopqrstuvwxyz": "/jobs/2abcdefghijklmnopqrstuvwxyz",
			"web-*": "/peels?target=web-%2A", "": "/peels?target=",
		} {
			if at := f.login(t, "eve").get("/search?q=" + url.QueryEscape(q)).header.Get("Location"); at != want {
				t.Errorf("%q leads to %s, want %s", q, at, want)
			}
		}
	})
	t.Run("orders", func(t *testing.T) { eachOrder(t, f) })
	t.Run("a job", func(t *testing.T) { aJob(t, f) })
	t.Run("a long result", func(t *testing.T) { aLongResult(t, f) })
	t.Run("a pause", func(t *testing.T) { aPause(t, f) })
	t.Run("requests of other sites", func(t *testing.T) { otherSites(t, f) })
	t.Run("break-glass", func(t *testing.T) { breakGlass(t, f) })
	t.Run("logins", func(t *testing.T) { logins(t, f) })
	t.Run("streams", func(t *testing.T) { streams(t, f) })
	t.Run("headers", func(t *testing.T) { headers(t, f) })
	t.Run("ends", func(t *testing.T) { ends(t, f) })
	t.Run("guesses", func(t *testing.T) { guesses(t, f) })
}

// otherSites holds that no other site can act by a session, and that a link of another site arrives.
func otherSites(t *testing.T, f *fleet) {
	b := f.login(t, "ann")
	for i, try := range []struct {
		method string
		header map[string]string
		want   int
	}{
		{"GET", map[string]string{"Host": "evil.example"}, http.StatusMisdirectedRequest},
		{"GET", map[string]string{"Host": f.address}, http.StatusOK},
		{"POST", map[string]string{"Sec-Fetch-Site": "cross-site"}, http.StatusForbidden},
		{"POST", map[string]string{"Sec-Fetch-Site": "same-site"}, http.StatusForbidden},
		{"POST", map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
		{"POST", map[string]string{"Origin": "null"}, http.StatusForbidden},
		{"POST", nil, http.StatusForbidden},
		{"GET", map[string]string{"Authorization": "Bearer " + f.token}, http.StatusUnauthorized},
		{"PUT", map[string]string{"Sec-Fetch-Site": "same-origin"}, http.StatusMethodNotAllowed},
	} {
		path := "/peels"
		if try.method == http.MethodPost {
			path = "/logout"
		}
		if got := b.send(try.method, path, url.Values{}, try.header); got.status != try.want {
			t.Errorf("%d: %s with %v: %d, want %d", i, try.method, try.header, got.status, try.want)
		}
	}
	if got := b.get("/api/v1/peels"); got.status != http.StatusUnauthorized {
		t.Errorf("the cookie opens the API: %d", got.status)
	}

	link := map[string]string{"Sec-Fetch-Site": "cross-site"}
	first := f.browse(t).send("GET", "/peels?target=web-01", nil, link)
	if first.status != http.StatusOK {
		t.Errorf("a link of another site: %d", first.status)
	}
	first.has(t, `http-equiv="refresh"`, `content="0;url=/peels?again=1&amp;target=web-01"`)
	if again := f.browse(t).send("GET", "/peels?again=1&target=web-01", nil, link); again.status != http.StatusSeeOther {
		t.Errorf("the second time: %d", again.status)
	}
}

// breakGlass holds that the credential of the master's host is marked on pages and in the audit log.
func breakGlass(t *testing.T, f *fleet) {
	b := f.browse(t)
	code := url.Values{"code": {f.code(t, f.local).Code}}
	if got := b.post("/login", code); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	b.get("/peels").has(t, "which is for emergencies")
	b.get("/system/audit?user=local&action=session.begin").has(t, "break-glass")
	if got := f.browse(t).post("/login", code); got.status != http.StatusUnprocessableEntity {
		t.Errorf("the code a second time: %d", got.status)
	}
}

func logins(t *testing.T, f *fleet) {
	b := f.browse(t)
	got := b.get("/peels?target=web-01")
	if at := got.header.Get("Location"); at != "/login?next=%2Fpeels%3Ftarget%3Dweb-01" {
		t.Errorf("nobody is led to %s", at)
	}
	b.get(got.header.Get("Location")).has(t, `name="next" value="/peels?target=web-01"`)
	for next, want := range map[string]string{
		"/jobs": "/jobs", "": "/", "//evil.example/": "/", "https://evil.example": "/", `/\evil.example`: "/", "jobs": "/",
		"/\tjobs": "/", "/%2f/evil.example": "/%2f/evil.example",
	} {
		got := b.post("/login", url.Values{"token": {f.token}, "next": {next}})
		if at := got.header.Get("Location"); got.status != http.StatusSeeOther || at != want {
			t.Errorf("next %q leads to %q, %d", next, at, got.status)
		}
	}

	code := f.code(t, f.people["ann"]).Code
	one, two := f.browse(t), f.browse(t)
	if got := one.post("/login", url.Values{"code": {code}}); got.status != http.StatusSeeOther {
		t.Errorf("the code: %d", got.status)
	}
	if got := two.post("/login", url.Values{"code": {code}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("the code once more: %d", got.status)
	}

	// A cookie that somebody else has put into the browser is not the session after a login.
	planted := f.login(t, "eve").cookie()
	victim := f.browse(t)
	victim.plant(planted)
	if got := victim.post("/login", url.Values{"code": {f.code(t, f.people["ann"]).Code}}); got.status != http.StatusSeeOther {
		t.Errorf("login: %d", got.status)
	}
	if victim.cookie() == planted {
		t.Error("the session after a login has the cookie from before it")
	}
	thief := f.browse(t)
	thief.plant(planted)
	thief.lockedOut("the session of the planted cookie")
}

func headers(t *testing.T, f *fleet) {
	b := f.login(t, "ann")
	for _, path := range []string{"/peels", "/login", "/nothing", "/assets/x/y"} {
		got := b.get(path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
				"form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got.header.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, got.header.Get(name))
			}
		}
		for _, refused := range []string{"style=", "<style", "onclick", "<script>"} {
			if strings.Contains(got.body, refused) {
				t.Errorf("%s has %s", path, refused)
			}
		}
	}
	set := f.browse(t).post("/login", url.Values{"token": {f.token}}).header.Get("Set-Cookie")
	for _, want := range []string{"__Host-zester=", "HttpOnly", "Secure", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(set, want) {
			t.Errorf("the cookie lacks %s: %s", want, set)
		}
	}
}

// ends holds that an end of sessions holds within a second.
func ends(t *testing.T, f *fleet) {
	b := f.login(t, "eve")
	if _, err := api.SessionEnd.Ask(t.Context(), f.people["eve"], api.SessionEndRequest{User: "eve"}); err != nil {
		t.Fatal(err)
	}
	other := f.login(t, "eve")
	if got := other.post("/logout", url.Values{}); got.status != http.StatusSeeOther {
		t.Errorf("logout: %d", got.status)
	}
	text, _, err := f.local.TokenCreate(t.Context(), credential.TokenRequest{Name: "short", Scopes: []credential.Scope{credential.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	short := f.browse(t)
	short.post("/login", url.Values{"token": {text}})
	if got := short.get("/peels"); got.status != http.StatusOK {
		t.Errorf("the token's session: %d", got.status)
	}
	if _, err := api.TokenRevoke.Ask(t.Context(), f.local, api.TokenName{Name: "short"}); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*browser{"ended": b, "logged out": other, "revoked": short} {
		b.lockedOut(name)
	}
}

// lockedOut waits until a session has ended.
func (b *browser) lockedOut(which string) {
	b.t.Helper()
	b.f.until(b.t, "the end of the session: "+which, func(context.Context) bool {
		return b.get("/peels").status == http.StatusSeeOther
	})
}

// guesses is the last, as it uses up the guesses of the address.
func guesses(t *testing.T, f *fleet) {
	b := f.login(t, "ann")
	guess := f.browse(t)
	last := 0
	for range 30 {
		last = guess.post("/login", url.Values{"token": {"zester.ci." + strings.Repeat("x", 43)}}).status
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("the thirtieth guess: %d", last)
	}
	if got := b.get("/peels"); got.status != http.StatusOK {
		t.Errorf("a session of the same address: %d", got.status)
	}
}

func (b *browser) cookie() string {
	u := &url.URL{Scheme: "https", Host: b.f.address, Path: "/"}
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == "__Host-zester" {
			return c.Value
		}
	}
	return ""
}

func (b *browser) plant(value string) {
	u := &url.URL{Scheme: "https", Host: b.f.address, Path: "/"}
	b.client.Jar.SetCookies(u, []*http.Cookie{{Name: "__Host-zester", Value: value, Path: "/", Secure: true}})
}

// memberGets and memberPosts have the expected status for somebody whose rules allow reading, a pause of the sync, and
// test.* on one peel.
var memberGets = map[string]int{
	"/": 200, "/peels": 200, "/commits": 200, "/system": 200, "/sync/pause": 200, "/sync/now": 403, "/jobs/new": 200,
	"/alerts/silence": 403, "/peels/web-01/decommission": 403, "/peels/web-01/wipe": 403, "/entries/new": 403,
	"/system/access/tokens/new": 403,
}

var memberPosts = map[string]int{
	"/sync/pause": 303, "/sync/now": 403, "/sync/resume": 403, "/peels/web-01/wipe": 403, "/system/access/tokens/new": 403,
}

// TestPagesOfferWhatTheRulesAllow: pages of somebody with rules of their own have those actions alone that the rules
// allow, and a changed rule counts for the next page.
func TestPagesOfferWhatTheRulesAllow(t *testing.T) {
	f := theFleet(t)
	const text = "allow:\n  - verbs: [read, sync.pause]\n  - {verbs: [job.dispatch], functions: ['test.*'], target: web-01}\n"
	role := credential.RoleRequest{Name: "night", File: "night.yaml", Text: text}
	if _, err := api.RoleSet.Ask(t.Context(), f.local, role); err != nil {
		t.Fatal(err)
	}
	q := credential.UserRequest{Name: "mia", Role: grants.RoleMember, Roles: []string{"night"}}
	creds, _, err := f.local.UserAdd(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	f.people["mia"] = f.connect(t, creds)
	mia := f.login(t, "mia")
	for path, want := range memberGets {
		if got := mia.get(path); got.status != want {
			t.Errorf("%s: %d, want %d\n%s", path, got.status, want, got.body)
		}
	}
	for path, want := range memberPosts {
		if got := mia.post(path, url.Values{}); got.status != want {
			t.Errorf("POST %s: %d, want %d\n%s", path, got.status, want, got.body)
		}
	}
	commits := mia.get("/commits")
	commits.has(t, "the sync is paused")
	if strings.Contains(commits.body, `href="/sync/resume"`) || strings.Contains(commits.body, `href="/sync/now"`) {
		t.Errorf("the page offers what the rules refuse:\n%s", commits.body)
	}

	role.Text = "allow: [{verbs: [read, sync.resume]}]\n"
	if _, err := api.RoleSet.Ask(t.Context(), f.local, role); err != nil {
		t.Fatal(err)
	}
	f.until(t, "the other rules", func(context.Context) bool {
		return strings.Contains(mia.get("/commits").body, `href="/sync/resume"`) && mia.get("/jobs/new").status == http.StatusForbidden
	})
}
