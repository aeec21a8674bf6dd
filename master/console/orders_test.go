package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// posts has the expected status of each order, without the text that confirms it where one is needed.
var posts = []struct {
	path string
	want [5]int
}{
	{"/sync/unpin", [5]int{401, 403, 403, 409, 403}}, // nothing is pinned
	{"/sync/resume", [5]int{401, 403, 403, 409, 403}},
	{"/commits/0000000/pin", [5]int{401, 403, 403, 404, 403}},
	{"/commits/0000000/retry", [5]int{401, 403, 403, 404, 403}},
	{"/jobs/2abcdefghijklmnopqrstuvwxyz/cancel", [5]int{401, 403, 404, 404, 404}},
	{"/jobs/new", [5]int{401, 403, 422, 422, 422}},
	{"/system/access/tokens/ci/revoke", [5]int{401, 403, 403, 422, 403}},
	{"/system/access/sessions/x/end", [5]int{401, 404, 404, 404, 404}},
	{"/peels", [5]int{405, 405, 405, 405, 405}},
}

func eachOrder(t *testing.T, f *fleet) {
	for column, name := range everybody {
		b := f.browse(t)
		if name != "nobody" {
			b = f.login(t, name)
		}
		for _, p := range posts {
			if got := b.post(p.path, url.Values{}); got.status != p.want[column] {
				t.Errorf("%s as %s: %d, want %d\n%s", p.path, name, got.status, p.want[column], got.body)
			}
		}
	}

	// What a role may not do is in the audit log, with the way it came.
	page, err := api.AuditList.Ask(t.Context(), f.local, audit.Query{User: "eve", Action: "sync.resume"})
	if err != nil || len(page.Entries) == 0 {
		t.Fatalf("the audit log has %v, %v", page, err)
	}
	e := page.Entries[0]
	if e.Result != audit.Refused || e.Via != grants.ViaConsole || e.Role != grants.RoleAuditor || e.From != "127.0.0.1" {
		t.Errorf("%+v", e)
	}
}

// aJob runs a job by the forms: the peels that were shown are those on which it runs, once.
func aJob(t *testing.T, f *fleet) {
	b := f.login(t, "ann")
	q := url.Values{"target": {"*"}, "function": {"test.echo"}, "args": {"text=<script>alert(1)</script>"}, "reason": {"a test"}}
	b.get("/jobs/new?target=*").has(t, `data-testid="preview-count">2<`, "web-01", "write a function")
	preview := b.get("/jobs/new?" + q.Encode())
	preview.has(t, `data-testid="preview-count">2<`, "web-01", "web-02", "Type <code>2</code>")
	b.get("/jobs/new?target=web-01&function=state.highstate").has(t, "Bring the host to all its states.")
	form := url.Values{}
	for _, name := range []string{"jid", "peels_hash", "target", "function", "reason"} {
		form.Set(name, preview.field(t, name))
	}
	form.Set("args", q.Get("args"))

	if got := b.post("/jobs/new", form); got.status != http.StatusUnprocessableEntity {
		t.Errorf("without the number: %d", got.status)
	}
	form.Set("typed", "2")
	moved := url.Values{}
	for name := range form {
		moved.Set(name, form.Get(name))
	}
	moved.Set("peels_hash", strings.Repeat("0", 64))
	if got := b.post("/jobs/new", moved); got.status != http.StatusConflict {
		t.Errorf("with other peels than were shown: %d", got.status)
	}
	got := b.post("/jobs/new", form)
	at := got.header.Get("Location")
	if got.status != http.StatusSeeOther || at != "/jobs/"+form.Get("jid") {
		t.Fatalf("%d, to %q:\n%s", got.status, at, got.body)
	}
	if again := b.post("/jobs/new", form); again.status != http.StatusSeeOther || again.header.Get("Location") != at {
		t.Errorf("the same form again: %d, %s", again.status, again.header.Get("Location"))
	}
	f.until(t, "the end of the job", func(context.Context) bool { return strings.Contains(b.get(at).body, "complete") })
	shown := b.get(at)
	shown.has(t, "2 peels ok", "&lt;script&gt;alert(1)&lt;/script&gt;", "“a test”")
	if strings.Contains(shown.body, "<script>alert") {
		t.Error("the output of a program is part of the page")
	}
	b.get("/jobs").has(t, `data-jid="`+form.Get("jid")+`"`)
	if got := b.post(at+"/cancel", url.Values{}); got.status != http.StatusConflict {
		t.Errorf("a cancel after the end: %d", got.status)
	}

	// Limits hold: lee may run test.* on web-01 alone, and learns of no other peel.
	lee := f.login(t, "lee")
	q = url.Values{"target": {"web-*"}, "function": {"facts.items"}}
	lee.get("/jobs/new?"+q.Encode()).has(t, `data-testid="preview-count">1<`)
	preview = lee.get("/jobs/new?target=web-01&function=facts.items")
	form = url.Values{"target": {"web-01"}, "function": q["function"]}
	for _, name := range []string{"jid", "peels_hash"} {
		form.Set(name, preview.field(t, name))
	}
	if got := lee.post("/jobs/new", form); got.status != http.StatusForbidden {
		t.Errorf("beyond the limits: %d\n%s", got.status, got.body)
	}
}

func aPause(t *testing.T, f *fleet) {
	b := f.login(t, "ann")
	b.get("/commits").has(t, `href="/sync/pause"`, "is in force")
	b.get("/sync/pause").has(t, `data-testid="confirm"`, "zester sync pause")
	if got := b.post("/sync/pause", url.Values{}); got.status != http.StatusSeeOther || got.header.Get("Location") != "/commits" {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	b.get("/commits").has(t, `href="/sync/resume"`, "the sync is paused")
	if got := b.post("/sync/resume", url.Values{}); got.status != http.StatusSeeOther {
		t.Errorf("%d\n%s", got.status, got.body)
	}
	s, err := api.SyncStatus.Ask(t.Context(), f.local, api.None{})
	if err != nil || s.Paused != nil {
		t.Errorf("%+v, %v", s, err)
	}
	var sha string
	for _, a := range history(t, f) {
		sha = string(a.Commit)
	}
	b.get("/commits/"+sha[:8]).has(t, `data-testid="commit-verdict"`, "is in force on 2 of 2 peels")

	b.get("/system/audit?user=ann&action=sync").has(t, "sync.pause", "operator, 127.0.0.1, console")
	eve := f.login(t, "eve")
	eve.get("/system/audit?logins=yes").has(t, "session.begin")
	short := eve.get("/system/audit")
	short.has(t, "Without logins.", "sync.pause")
	if strings.Contains(short.body, "session.begin") {
		t.Error("the page of the audit log has logins")
	}
	b.get("/system").has(t, "The masters and their bus are well", "KV_settings")
	b.get("/system/access").has(t, "eve", "ci", "read, dispatch")
	b.get("/me").has(t, `data-testid="session"`, `data-testid="logout-all"`)
	b.post("/me", url.Values{"theme": {"dark"}})
	b.get("/peels").has(t, `data-theme="dark"`, `data-keys="off"`)
}

func history(t *testing.T, f *fleet) []status.Attempt {
	t.Helper()
	h, err := api.SyncHistory.Ask(t.Context(), f.local, api.None{})
	if err != nil {
		t.Fatal(err)
	}
	return h.Attempts
}
