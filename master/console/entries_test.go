package console_test

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// actionGets has the expected status of the forms of actions as in gets.
var actionGets = []struct {
	path string
	want [5]int
}{
	{"/entries/hello/run", [5]int{303, 403, 200, 200, 200}},
	{"/entries/hello/pause?target=web-01", [5]int{303, 403, 200, 200, 200}},
	{"/entries/hello/resume", [5]int{303, 403, 200, 200, 200}},
	{"/entries/hello/skip", [5]int{303, 403, 200, 200, 200}},
	{"/entries/nothing/run", [5]int{303, 403, 404, 404, 404}},
	{"/entries/hello/run?target=web-01+and", [5]int{303, 403, 400, 400, 400}},
	{"/entries/new", [5]int{303, 403, 403, 200, 403}},
	{"/entries/hello/edit", [5]int{303, 403, 403, 200, 403}},
	{"/entries/hello/remove", [5]int{303, 403, 403, 200, 403}},
	{"/entries/nothing/edit", [5]int{303, 403, 403, 404, 403}},
	{"/entries/nothing/remove", [5]int{303, 403, 403, 404, 403}},
	{"/alerts/silence", [5]int{303, 403, 403, 200, 403}},
	{"/alerts/silence?match=failed", [5]int{303, 403, 403, 200, 403}},
	{"/alerts/silences/nothing/end", [5]int{303, 403, 403, 404, 403}},
	{"/alerts/receivers/nothing/test", [5]int{303, 403, 403, 404, 403}},
	{"/peels/web-01/decommission", [5]int{303, 403, 403, 200, 403}},
	{"/peels/web-99/decommission", [5]int{303, 403, 403, 404, 403}},
	{"/peels/web-01/wipe", [5]int{303, 403, 403, 200, 403}},
	{"/peels/web-99/wipe", [5]int{303, 403, 403, 404, 403}},
	{"/system/access/users/eve/revoke", [5]int{303, 403, 403, 200, 403}},
	{"/system/access/users/nobody/revoke", [5]int{303, 403, 403, 404, 403}},
	{"/system/access/tokens/new", [5]int{303, 403, 403, 200, 403}},
	{"/system/access/join/new", [5]int{303, 403, 403, 200, 403}},
	{"/system/access/join/nothing/revoke", [5]int{303, 403, 403, 404, 403}},
}

func TestActions(t *testing.T) {
	f := aWritableFleet(t)
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
		for _, g := range actionGets {
			if got := b.get(g.path); got.status != g.want[column] {
				t.Errorf("%s as %s: %d, want %d\n%s", g.path, name, got.status, g.want[column], got.body)
			}
			if g.want[column] != http.StatusForbidden {
				continue
			}
			if got := b.post(g.path, url.Values{}); got.status != http.StatusForbidden {
				t.Errorf("POST %s as %s: %d\n%s", g.path, name, got.status, got.body)
			}
		}
	}
	t.Run("a pause of an entry", func(t *testing.T) { aPauseOfAnEntry(t, f) })
	t.Run("a silence", func(t *testing.T) { aSilence(t, f) })
	t.Run("secrets that are shown once", func(t *testing.T) { shownOnce(t, f) })
	t.Run("commits", func(t *testing.T) { commitsOfEntries(t, f) })
	t.Run("ends", func(t *testing.T) { endsOfAccess(t, f) })
}

// sent returns the fields of a form as it was shown, with some filled in.
func (a answer) sent(t *testing.T, filled url.Values, shown ...string) url.Values {
	t.Helper()
	for _, name := range shown {
		filled.Set(name, a.field(t, name))
	}
	return filled
}

// aPauseOfAnEntry pauses an entry where it is, and resumes it.
func aPauseOfAnEntry(t *testing.T, f *fleet) {
	ann := f.login(t, "ann")
	ann.get("/entries/hello").has(t, `href="/entries/hello/pause"`, `data-testid="act-run"`)
	if got := f.login(t, "eve").get("/entries/hello"); strings.Contains(got.body, "act-run") {
		t.Error("an auditor is offered a run")
	}
	form := ann.get("/entries/hello/pause")
	form.has(t, "Pause hello on 2 peels?", "web-01, web-02", "zester schedule pause &#39;*&#39; hello")
	other := form.sent(t, url.Values{"target": {"web-01"}}, "seen", "jid")
	if got := ann.post("/entries/hello/pause", other); got.status != http.StatusConflict {
		t.Errorf("another target than was shown: %d\n%s", got.status, got.body)
	}
	filled := form.sent(t, url.Values{"for": {"2h"}, "reason": {"a new disk"}}, "seen", "jid")
	got := ann.post("/entries/hello/pause", filled)
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/jobs/"+filled.Get("jid") {
		t.Fatalf("%d %s\n%s", got.status, got.header.Get("Location"), got.body)
	}
	f.ends(t, wire.JID(filled.Get("jid")), job.Complete)
	if again := ann.post("/entries/hello/pause", filled); again.status != http.StatusSeeOther {
		t.Errorf("twice: %d\n%s", again.status, again.body)
	}
	form = ann.get("/entries/hello/resume")
	filled = form.sent(t, url.Values{}, "seen", "jid")
	if got := ann.post("/entries/hello/resume", filled); got.status != http.StatusSeeOther {
		t.Errorf("%d\n%s", got.status, got.body)
	}
	f.ends(t, wire.JID(filled.Get("jid")), job.Complete)

	lee := f.login(t, "lee")
	filled = lee.get("/entries/hello/run").sent(t, url.Values{}, "seen", "jid")
	if got := lee.post("/entries/hello/run", filled); got.status != http.StatusForbidden {
		t.Errorf("beyond the limits: %d\n%s", got.status, got.body)
	}
}

// ends waits for the end of a job.
func (f *fleet) ends(t *testing.T, jid wire.JID, want job.Status) {
	t.Helper()
	var now job.Status
	f.until(t, "the end of a job", func(ctx context.Context) bool {
		j, err := api.JobShow.Ask(ctx, f.local, api.JobRequest{JID: jid})
		if err == nil {
			now = j.Status
		}
		return now.Final()
	})
	if now != want {
		t.Errorf("the job is %s, want %s", now, want)
	}
}

func aSilence(t *testing.T, f *fleet) {
	ann := f.login(t, "ann")
	ann.get("/alerts").has(t, `href="/alerts/silence"`)
	ann.get("/alerts/silence?match=hello").has(t, "no alert of the last day matches", "zester alert silence hello")
	filled := url.Values{"match": {"hello"}, "for": {"soon"}, "reason": {"it moves"}}
	got := ann.post("/alerts/silence", filled)
	if got.status != http.StatusUnprocessableEntity {
		t.Errorf("soon: %d", got.status)
	}
	got.has(t, "how long", `value="it moves"`)
	filled.Set("for", "2h")
	if got := ann.post("/alerts/silence", filled); got.status != http.StatusSeeOther {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	got = ann.get("/alerts")
	got.has(t, "it moves", "by ann")
	end := regexp.MustCompile(`href="(/alerts/silences/[^"]*/end)"`).FindStringSubmatch(got.body)
	if end == nil {
		t.Fatalf("no link to its end:\n%s", got.body)
	}
	ann.get(end[1]).has(t, "End the silence of hello?")
	if got := ann.post(end[1], url.Values{}); got.status != http.StatusSeeOther {
		t.Errorf("%d\n%s", got.status, got.body)
	}
}

// shownOnce holds that a secret is in one answer and in no other.
func shownOnce(t *testing.T, f *fleet) {
	ann := f.login(t, "ann")
	filled := url.Values{"name": {"board"}, "scopes": {"read"}, "ttl": {"1d"}}
	got := ann.post("/system/access/tokens/new", filled)
	token := regexp.MustCompile(`zester\.board\.[\w-]{43}`).FindString(got.body)
	if got.status != http.StatusOK || token == "" {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	ann.get("/system/access").has(t, "board")
	if got := ann.get("/system/access"); strings.Contains(got.body, token) {
		t.Error("the list shows the token")
	}
	if got := f.browse(t).post("/login", url.Values{"token": {token}}); got.status != http.StatusSeeOther {
		t.Errorf("the token does not log in: %d", got.status)
	}
	if got := ann.post("/system/access/tokens/new", filled); got.status != http.StatusConflict && got.status != http.StatusUnprocessableEntity {
		t.Errorf("twice: %d", got.status)
	}
	filled = url.Values{"name": {"rack"}, "peel": {"rack-*"}, "uses": {"many"}, "ttl": {"1h"}}
	if got := ann.post("/system/access/join/new", filled); got.status != http.StatusUnprocessableEntity {
		t.Errorf("many: %d", got.status)
	}
	filled.Set("uses", "3")
	got = ann.post("/system/access/join/new", filled)
	if got.status != http.StatusOK {
		t.Fatalf("%d\n%s", got.status, got.body)
	}
	got.has(t, "The code rack is made", "rack.")
	ann.get("/system/access").has(t, "rack-*", "3 hosts", `href="/system/access/join/rack/revoke"`)
}

func endsOfAccess(t *testing.T, f *fleet) {
	ann := f.login(t, "ann")
	lee := f.login(t, "lee")
	code := url.Values{"name": {"webs"}, "peel": {"web-*"}, "uses": {"1"}, "ttl": {"1h"}}
	if got := ann.post("/system/access/join/new", code); got.status != http.StatusOK {
		t.Errorf("a code for web-*: %d\n%s", got.status, got.body)
	}
	if got := ann.post("/peels/web-02/decommission", url.Values{"typed": {"other"}}); got.status != http.StatusUnprocessableEntity {
		t.Errorf("the removal with another name: %d", got.status)
	}
	got := ann.post("/peels/web-02/decommission", url.Values{"typed": {"web-02"}})
	if got.status != http.StatusOK {
		t.Errorf("the removal of a peel: %d", got.status)
	}
	got.has(t, "web-02 is removed", "the code webs still lets a host join as web-02", `href="/system/access"`)
	for path, typed := range map[string]string{
		"/system/access/join/rack/revoke": "rack",
		"/system/access/users/lee/revoke": "lee",
		"/system/access/join/webs/revoke": "webs",
	} {
		if got := ann.post(path, url.Values{"typed": {"other"}}); got.status != http.StatusUnprocessableEntity {
			t.Errorf("%s with another name: %d", path, got.status)
		}
		if got := ann.post(path, url.Values{"typed": {typed}}); got.status != http.StatusSeeOther {
			t.Errorf("%s: %d\n%s", path, got.status, got.body)
		}
	}
	wipes(t, f, ann)
	f.until(t, "the end of a session of a person who was revoked", func(context.Context) bool {
		return lee.get("/peels").status == http.StatusSeeOther
	})
	if got := ann.get("/peels/web-02/decommission"); got.status != http.StatusNotFound {
		t.Errorf("a peel that was removed: %d", got.status)
	}
}

// wipes has a peel delete its data before it is removed. The removal of a peel whose ID no code admits shows nothing.
func wipes(t *testing.T, f *fleet, ann *browser) {
	const at = "/peels/web-01/wipe"
	shown := ann.get(at)
	shown.has(t, "its credential is as it was", "zester peel remove --wipe web-01")
	form := url.Values{"jid": {shown.field(t, "jid")}, "typed": {"other"}}
	if got := ann.post(at, form); got.status != http.StatusUnprocessableEntity {
		t.Errorf("with another name: %d", got.status)
	}
	form.Set("typed", "web-01")
	if got := ann.post(at, form); got.status != http.StatusSeeOther || got.header.Get("Location") != "/peels" {
		t.Errorf("%d\n%s", got.status, got.body)
	}
	ann.get("/jobs/"+form.Get("jid")).has(t, "peel.wipe", "1 peel ok")
	ann.get("/system/audit?user=ann").has(t, "enroll.revoke", "sync.remove", "job.dispatch")
	f.until(t, "the end of the peel's data", func(context.Context) bool {
		left, err := os.ReadDir(filepath.Join(f.dir, "web-01"))
		return err != nil || len(left) <= 1 // what says that the host was removed
	})
}
