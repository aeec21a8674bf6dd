package console_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/console"
	"github.com/seed-c01c3da5/zester/master/console/view"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/login/logintest"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// webTeam is a role of the group web.
const webTeam = `groups: [web]
allow:
  - {verbs: [read, target.resolve, job.cancel]}
  - {verbs: [job.dispatch], target: web-01, functions: [test.*]}
`

// fourEyes has some requests wait for a second person.
const fourEyes = `two_persons:
  - {verbs: [job.dispatch, token.create, join.create, sync.approve, sync.now]}
`

// TestEachDoorAsksTheSameRules compares what pages let people do with what the rules say, and holds that what needs two
// persons waits whatever door it came by.
func TestEachDoorAsksTheSameRules(t *testing.T) {
	at := logintest.Start(t)
	at.Fail(logintest.Faults{NoSecret: true})
	at.Person(map[string]any{"sub": "7", "email": "pia", "groups": []string{"staff", "web"}, "sid": "s7"})
	p, err := login.New(login.Options{
		Issuer: at.URL, ClientID: logintest.ClientID, URL: "https://" + named,
		Roles: []login.Rule{{Group: "ops", Role: grants.RoleOperator}, {Group: "web", Role: grants.RoleMember}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t)
	f.repo, f.at = f.work.Dir(), p
	f.start(t)
	f.setRole(t, "web-team", webTeam)
	creds, _, err := f.local.UserAdd(t.Context(), credential.UserRequest{Name: "mia", Role: grants.RoleMember, Roles: []string{"web-team"}})
	if err != nil {
		t.Fatal(err)
	}
	f.people["mia"], f.people[credential.LocalUser] = f.connect(t, creds), f.local

	t.Run("pages", func(t *testing.T) { pagesAgree(t, f) })
	t.Run("who may", func(t *testing.T) { whoMay(t, f) })
	t.Run("many people", func(t *testing.T) { manyPeople(t, f) })
	t.Run("a person of a provider", func(t *testing.T) { aPureMember(t, f) })
	t.Run("two persons", func(t *testing.T) { twoPersons(t, f) })
}

func (f *fleet) setRole(t *testing.T, name, text string) {
	t.Helper()
	if _, err := api.RoleSet.Ask(t.Context(), f.local, credential.RoleRequest{Name: name, Text: text}); err != nil {
		t.Fatal(err)
	}
}

// may reports what the rules say about a request of a person.
func (f *fleet) may(t *testing.T, name, verb string) bool {
	t.Helper()
	q := api.AccessRequest{Name: name, Verb: verb}
	if q.Dispatches() {
		q.Target, q.Function = "web-01", "test.ping"
	}
	a, err := api.UserExplain.Ask(t.Context(), f.local, q)
	if err != nil {
		t.Fatal(err)
	}
	return a.Allowed
}

// somewhere fills in a pattern of a page.
func somewhere(pattern string) string {
	return strings.NewReplacer(
		"GET ", "", "{sha}", "0000000", "{id}", "web-01", "{jid}", "20260101000000000000", "{name}", "nothing", "{entry}", "hello", "{$}", "",
	).Replace(pattern)
}

// pagesAgree tries each page and order as each person.
func pagesAgree(t *testing.T, f *fleet) {
	refused, tried := 0, 0
	for _, name := range []string{"eve", "lee", "mia", "ann", credential.LocalUser} {
		b := f.login(t, name)
		for _, r := range console.Requests() {
			path, verb := somewhere(r[0]), r[1]+"."+r[2]
			if r[1] == "" || strings.Contains(path, "{") {
				continue
			}
			tried++
			got := b.get(path)
			for got.status == http.StatusTooManyRequests {
				f.until(t, "another request", func(_ context.Context) bool { got = b.get(path); return got.status != http.StatusTooManyRequests })
			}
			if want := f.may(t, name, verb); (got.status != http.StatusForbidden) != want {
				t.Errorf("%s as %s: %d, and the rules say of %s: %v", path, name, got.status, verb, want)
			}
			if got.status == http.StatusForbidden {
				refused++
			}
		}
	}
	if refused < 50 || tried-refused < 100 {
		t.Errorf("%d of %d are refused: the cases are of one kind", refused, tried)
	}
}

// whoMay holds that the page about access shows the rules as written, and answers with the rule that decides.
func whoMay(t *testing.T, f *fleet) {
	operator, member := f.login(t, "ann"), f.login(t, "mia")
	const rules = "functions: [test.*]}"
	got := operator.get("/system/access")
	got.has(t, "<b>web-team</b></a>: 2 allow, 0 deny, 0 ask for two persons · groups web", ">web-team</td>")
	if strings.Contains(got.body, rules) {
		t.Error("the rules of a role are shown, and nobody asked for them")
	}
	operator.get("/system/access?role=web-team").has(t, rules)

	ask := func(b *browser, fields ...string) answer {
		q := url.Values{}
		for i := 0; i < len(fields); i += 2 {
			q.Set(fields[i], fields[i+1])
		}
		return b.get("/system/access?" + q.Encode())
	}
	permitted := []string{"verb", "job.dispatch", "on", "web-01", "function", "test.ping"}
	for _, row := range []struct {
		what string
		by   *browser
		ask  []string
		want []string
	}{
		{"a job that a rule allows", operator, append([]string{"name", "mia"}, permitted...), []string{"</svg>yes", "the role web-team, allow[1]"}},
		{"a function that no rule allows", operator, []string{"name", "mia", "verb", "job.dispatch", "on", "web-01", "function", "cmd.run", "args", "command=id"}, []string{"</svg>no", "the function cmd.run is none of"}},
		{"everybody who may", operator, permitted, []string{"<td>mia</td>", "<td>ann</td>", "the role operator"}},
		{"a verb that does not exist", operator, []string{"verb", "job.dispach"}, []string{`there is no verb &#34;job.dispach&#34;`, "job.dispatch"}},
		{"an argument that cannot be read", operator, append([]string{"args", "x={"}, permitted...), []string{"cannot read the argument x"}},
		{"a person without rights to ask about others, about ann", member, append([]string{"name", "ann"}, permitted...), []string{"may ask about mia alone"}},
		{"the same about itself", member, permitted, []string{"</svg>yes", "the role web-team, allow[1]"}},
		{"a file", operator, []string{"name", "mia", "verb", "schedule.remove", "on", "settings/web/cron.yaml"}, []string{"</svg>no"}},
	} {
		t.Run(row.what, func(t *testing.T) { ask(row.by, row.ask...).has(t, row.want...) })
	}
}

// manyPeople holds that the page about access shows the first people, and leads to the others.
func manyPeople(t *testing.T, f *fleet) {
	for i := range view.Rows {
		q := credential.UserRequest{Name: fmt.Sprintf("zz%03d", i), Role: grants.RoleAuditor}
		if _, _, err := f.local.UserAdd(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	b := f.login(t, "ann")
	first := b.get("/system/access")
	next := regexp.MustCompile(`/system/access\?people=(zz\d+)`).FindStringSubmatch(first.body)
	if next == nil || strings.Contains(first.body, "<td>zz099</td>") || !strings.Contains(first.body, "<td>"+next[1]+"</td>") {
		t.Fatalf("the first page leads on by %q:\n%s", next, first.body)
	}
	second := b.get(next[0])
	second.has(t, "<td>zz099</td>")
	if strings.Contains(second.body, "<td>"+next[1]+"</td>") {
		t.Error("the second page repeats the last of the first")
	}
}

// aPureMember holds that a person whom nobody has entered has the power of the groups at the provider, and loses it with
// the role.
func aPureMember(t *testing.T, f *fleet) {
	b := f.browse(t)
	if got := b.atName(b.visit("/jobs")); got.status != http.StatusOK {
		t.Fatalf("the login: %d\n%s", got.status, got.body)
	}
	get := func(path string) answer { return b.send(http.MethodGet, path, nil, map[string]string{"Host": named}) }
	for path, want := range map[string]int{
		"/peels/web-01": 200, "/peels/web-02": 404, "/jobs/new": 200, "/system/access/tokens/new": 403, "/system/audit": 403,
	} {
		if got := get(path); got.status != want {
			t.Errorf("%s: %d, want %d", path, got.status, want)
		}
	}
	f.setRole(t, "web-team", strings.Replace(webTeam, "groups: [web]\n", "", 1))
	f.until(t, "the end of the power", func(context.Context) bool { return get("/jobs/new").status == http.StatusForbidden })
	f.setRole(t, "web-team", webTeam)
}

// twoPersons holds what waits for a second person.
func twoPersons(t *testing.T, f *fleet) {
	orders, _, err := f.local.TokenCreate(t.Context(), credential.TokenRequest{Name: "orders", Scopes: []credential.Scope{credential.ScopeSync, credential.ScopeRead}})
	if err != nil {
		t.Fatal(err)
	}
	f.setRole(t, "four-eyes", fourEyes)
	n := 0
	for what, ask := range map[string]func(context.Context) error{ // services that read the rules each for itself
		"the reconciler": func(ctx context.Context) error {
			_, err := api.SyncNow.Ask(ctx, f.people["ann"], api.None{})
			return err
		},
		"the API": func(ctx context.Context) error {
			n++
			q := credential.TokenRequest{Name: fmt.Sprintf("t%d", n), Scopes: []credential.Scope{credential.ScopeRead}}
			_, _, err := f.people["ann"].TokenCreate(ctx, q)
			return err
		},
		"jobs": func(ctx context.Context) error {
			_, err := api.JobDispatch.Ask(ctx, f.people["ann"], job.Spec{
				JID: wire.NewJID(), Function: "test.ping", TargetExpr: "web-01", Targets: []target.PeelID{"web-01"}, Timeout: time.Minute,
			})
			return err
		},
	} {
		f.until(t, "the rules in "+what, func(ctx context.Context) bool {
			_, waits := api.HeldAs(ask(ctx))
			return waits
		})
	}

	for _, try := range []struct{ token, path, body string }{
		{f.token, "/jobs", `{"target": "web-01", "function": "test.ping"}`},
		{orders, "/sync/now", ``},
	} {
		got := f.rest(t, try.token, http.MethodPost, "/api/v1"+try.path, try.body)
		place := got.header.Get("Location")
		if got.status != http.StatusAccepted || !strings.HasPrefix(place, "/api/v1/held/") {
			t.Errorf("%s over REST: %d at %q\n%s", try.path, got.status, place, got.body)
			continue
		}
		f.rest(t, try.token, http.MethodGet, place, "").has(t, `"open"`)
	}

	ann := f.login(t, "ann")
	got := ann.post("/sync/now", url.Values{})
	if got.status != http.StatusAccepted {
		t.Errorf("the form of ann: %d", got.status)
	}
	got.has(t, "It waits for a second person", "zester approvals")
	ann.get("/approvals").has(t, "sync.now")
	for path, form := range map[string]url.Values{
		"/system/access/tokens/new": {"name": {"lost"}, "scopes": {"read"}, "ttl": {"1d"}},
		"/system/access/join/new":   {"name": {"lost"}, "peel": {"x-*"}, "uses": {"1"}, "ttl": {"1h"}},
	} {
		got := ann.post(path, form)
		if got.status != http.StatusConflict {
			t.Errorf("%s: %d", path, got.status)
		}
		got.has(t, "a page cannot wait for one", "token create")
	}
	held, err := api.HoldList.Ask(t.Context(), f.people["ann"], api.HoldQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range held.Actions {
		if strings.HasSuffix(a.Verb, ".create") && a.State == api.HoldOpen && strings.Contains(string(a.Data), "lost") {
			t.Errorf("%s waits, and its secret is lost", a.Verb)
		}
	}
}

// rest sends a request with a token.
func (f *fleet) rest(t *testing.T, token, method, path, body string) answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "https://"+f.address+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true // each client has connections of its own, and an address has a bounded number
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := natstest.HTTPS(t, f.ca()).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := text.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, text.String()}
}
