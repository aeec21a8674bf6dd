package console_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// toolsOf says by which tools assistants send each request of the API. A request that is not here is sent by none.
var toolsOf = map[string][]string{
	"agent.record":     {"each"},
	"alert.list":       {"fleet_status"},
	"approval.list":    {"approvals"},
	"audit.list":       {"audit_search"},
	"coverage.explain": {"why"},
	"coverage.list":    {"fleet_status", "coverage"},
	"coverage.show":    {"next_fires"},
	"entry.show":       {"blame"},
	"hold.add":         {"dispatch", "pause"},
	"job.dispatch":     {"dispatch", "pause"},
	"job.groups":       {"job_groups"},
	"job.returns":      {"job_get"},
	"job.show":         {"job_get"},
	"load.show":        {"load"},
	"now.show":         {"problems"},
	"peel.show":        {"peel_get"},
	"schedule.add":     {"plan_change", "propose_change"},
	"schedule.disable": {"plan_change", "propose_change"},
	"schedule.enable":  {"plan_change", "propose_change"},
	"schedule.file":    {"entry_file"},
	"schedule.list":    {"entries"},
	"schedule.remove":  {"plan_change", "propose_change"},
	"schedule.replace": {"plan_change", "propose_change"},
	"sync.history":     {"sync_history"},
	"sync.commit":      {"sync_commit"},
	"sync.status":      {"fleet_status"},
	"target.explain":   {"explain"},
	"target.resolve":   {"target_preview", "dispatch", "pause"},
}

// A toolCall is a call of a tool. Together they send every request of [toolsOf].
type toolCall struct {
	tool string
	args map[string]any
}

// toolCalls returns the calls that each person makes. dispatch and pause are on one peel, and then on more than the
// limit.
func toolCalls(jid wire.JID) []toolCall {
	one, two := []target.PeelID{"web-01"}, []target.PeelID{"web-01", "web-02"}
	on := func(expr string, peels []target.PeelID, more map[string]any) map[string]any {
		more["target"], more["hash"], more["expect"], more["reason"] = expr, audit.PeelsHash(peels), len(peels), "r"
		return more
	}
	ping := func() map[string]any { return map[string]any{"function": "test.ping"} }
	rest := func() map[string]any { return map[string]any{"entry": "hello", "for": "1h"} }
	all := []toolCall{
		{"fleet_status", nil},
		{"entries", nil},
		{"next_fires", map[string]any{"entry": "hello"}},
		{"explain", map[string]any{"target": "web-01"}},
		{"coverage", nil},
		{"why", map[string]any{"peel": "web-01", "entry": "hello"}},
		{"problems", nil},
		{"approvals", nil},
		{"load", nil},
		{"job_groups", map[string]any{"jid": jid}},
		{"peel_get", map[string]any{"peel": "web-01"}},
		{"job_get", map[string]any{"jid": jid}},
		{"sync_history", nil},
		{"sync_commit", map[string]any{"revision": "0000"}},
		{"blame", map[string]any{"peel": "web-01", "entry": "hello"}},
		{"audit_search", nil},
		{"docs", nil},
		{"entry_file", map[string]any{"entry": "hello"}},
		{"target_preview", map[string]any{"target": "web-01"}},
		{"dispatch", on("web-01", one, ping())},
		{"dispatch", on("web-*", two, ping())},
		{"pause", on("web-01", one, rest())},
		{"pause", on("web-*", two, rest())},
	}
	for _, tool := range []string{"plan_change", "propose_change"} {
		for _, action := range []string{"add", "replace", "remove", "enable", "disable"} {
			args := map[string]any{"action": action, "entry": "hello"}
			if action == "add" {
				args = map[string]any{
					"action": action, "fields": map[string]any{"name": "n", "function": "test.ping", "every": "1h", "target": "*"},
				}
			}
			if tool == "propose_change" {
				args["hash"] = "0"
			}
			all = append(all, toolCall{tool, args})
		}
	}
	return all
}

// A recorder notes how each request of a person ended.
type recorder struct {
	api.Asker

	mu    sync.Mutex
	ended map[string]error
}

func (r *recorder) Ask(ctx context.Context, noun, verb string, question, answer any) error {
	err := r.Asker.Ask(ctx, noun, verb, question, answer)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended[noun+"."+verb] = err
	return err
}

// taken returns what was noted since the last call.
func (r *recorder) taken() map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ended := r.ended
	r.ended = map[string]error{}
	return ended
}

// assistantOf returns the assistant of a person, as zester mcp serves it, with what it asks for.
func (f *fleet) assistantOf(t *testing.T, name string) (*sdk.ClientSession, *recorder) {
	t.Helper()
	asks := &recorder{Asker: f.people[name], ended: map[string]error{}}
	server := mcp.New(mcp.Options{
		Asker: asks, Act: true, Limit: 1, Guide: guidePages,
		Resolve: func(ctx context.Context, expr string) ([]target.PeelID, error) {
			page, err := api.TargetResolve.Ask(ctx, asks, api.ResolveRequest{Expr: expr})
			if err != nil {
				return nil, err
			}
			return page.Peels, nil
		},
		Dispatch: func(ctx context.Context, spec job.Spec) (*job.Job, error) {
			return api.JobDispatch.Ask(ctx, asks, spec)
		},
	})
	here, there := sdk.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), here, nil); err != nil {
		t.Fatal(err)
	}
	return connected(t, there), asks
}

func connected(t *testing.T, by sdk.Transport) *sdk.ClientSession {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "robot"}, nil).Connect(t.Context(), by, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// callTool calls a tool and returns its text.
func callTool(t *testing.T, s *sdk.ClientSession, c toolCall) (text string, failed bool) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: c.tool, Arguments: c.args})
	if err != nil {
		t.Fatalf("%s: %v", c.tool, err)
	}
	return r.Content[0].(*sdk.TextContent).Text, r.IsError
}

// TestEachToolAsksTheSameRules compares every request that an assistant of each kind of person sends with what the
// rules say about the person, and what tokens reach over HTTP with what their makers may do.
func TestEachToolAsksTheSameRules(t *testing.T) {
	f := newFleet(t)
	f.repo = f.work.Dir()
	f.start(t)
	f.setRole(t, "web-team", webTeam)
	f.setRole(t, "narrow", narrow)
	f.setRole(t, "blind", "people: [dot]\ndeny: [{verbs: [read], target: web-02}]\n")
	for _, q := range []credential.UserRequest{
		{Name: "mia", Role: grants.RoleMember, Roles: []string{"web-team"}},
		{Name: "nil", Role: grants.RoleMember},
		{Name: "deb", Role: grants.RoleOperator},
		{Name: "dot", Role: grants.RoleOperator},
	} {
		creds, _, err := f.local.UserAdd(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		f.people[q.Name] = f.connect(t, creds)
	}
	f.people[credential.LocalUser] = f.local
	f.until(t, "the roles in all services", func(ctx context.Context) bool { // each reads them for itself
		_, sync := api.SyncStatus.Ask(ctx, f.people["mia"], api.None{})
		_, jobs := api.JobList.Ask(ctx, f.people["mia"], job.Query{})
		_, entries := api.ScheduleList.Ask(ctx, f.people["deb"], api.ScheduleQuery{})
		_, alerts := api.AlertList.Ask(ctx, f.people["deb"], api.AlertsRequest{})
		return sync == nil && jobs == nil && api.CodeOf(entries) == api.CodeForbidden && api.CodeOf(alerts) == api.CodeForbidden
	})
	jid := wire.NewJID()
	_, err := api.JobDispatch.Ask(t.Context(), f.local, job.Spec{
		JID: jid, Function: "test.ping", TargetExpr: "web-01", Targets: []target.PeelID{"web-01"}, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Run("people", func(t *testing.T) { toolsOfPeople(t, f, jid) })
	tokens := map[string]string{}
	for _, name := range []string{"ann", "deb", "dot"} {
		text, _, err := f.people[name].TokenCreate(t.Context(), credential.TokenRequest{
			Name: "of-" + name, Scopes: []credential.Scope{credential.ScopeAdmin},
		})
		if err != nil {
			t.Fatal(err)
		}
		tokens[name] = text
	}
	t.Run("tokens at tools", func(t *testing.T) { toolsOfTokens(t, f, tokens, jid) })
	t.Run("tokens at routes", func(t *testing.T) { routesOfTokens(t, f, tokens) })
}

// narrow takes something away from operators: from deb requests and a peel, from dot what a peel shows.
const narrow = `people: [deb]
deny:
  - {verbs: [audit.list, sync.history, coverage.explain, coverage.status, "alert.*", peel.list, sync.now, job.cancel, "schedule.*", target.resolve]}
  - {verbs: [job.dispatch], target: web-02}
`

// toolsOfPeople holds for each request of each tool that it ends as the rules say.
func toolsOfPeople(t *testing.T, f *fleet, jid wire.JID) {
	sent := map[string][]string{}
	for _, name := range []string{"nil", "mia", "lee", "eve", "deb", "ann", credential.LocalUser} {
		session, asks := f.assistantOf(t, name)
		calls := toolCalls(jid)
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range tools.Tools {
			if !slices.ContainsFunc(calls, func(c toolCall) bool { return c.tool == tool.Name }) {
				t.Fatalf("nobody has decided about the tool %s", tool.Name)
			}
		}
		refused := 0
		for _, c := range calls {
			text, failed := callTool(t, session, c)
			for verb, err := range asks.taken() {
				tool := c.tool
				if verb == "agent.record" {
					tool = "each"
				}
				if !slices.Contains(sent[verb], tool) {
					sent[verb] = append(sent[verb], tool)
				}
				isForbidden := api.CodeOf(err) == api.CodeForbidden || api.CodeOf(err) == api.CodeDenied
				want := f.may(t, name, verb)
				if verb == "job.dispatch" && c.args["entry"] != nil {
					want = name != "mia" && name != "lee" && name != "eve" && name != "nil" // schedule.pause, which f.may does not ask about
				}
				if isForbidden == want {
					t.Errorf("%s as %s: %s ended with %v, and the rules say %v", c.tool, name, verb, err, want)
				}
				if isForbidden {
					refused++
					if !failed && c.tool != "fleet_status" {
						t.Errorf("%s as %s says %s although %s is refused", c.tool, name, text, verb)
					}
				}
			}
		}
		if isNarrow := name != "ann" && name != credential.LocalUser; (refused > 0) != isNarrow {
			t.Errorf("%d requests of %s were refused", refused, name)
		}
	}
	for verb, tools := range sent {
		for _, tool := range tools {
			if !slices.Contains(toolsOf[verb], tool) {
				t.Errorf("%s sends %s, and nobody has decided that", tool, verb)
			}
		}
	}
	for verb, tools := range toolsOf {
		if !slices.Contains(api.Verbs(), verb) {
			t.Errorf("there is no request %s", verb)
		}
		for _, tool := range tools {
			if !slices.Contains(sent[verb], tool) {
				t.Errorf("%s never sends %s", tool, verb)
			}
		}
	}
}

// overHTTP returns an assistant with a token.
func (f *fleet) overHTTP(t *testing.T, token string) *sdk.ClientSession {
	t.Helper()
	client := f.browse(t).client
	client.Transport = bearer{client.Transport, token}
	return connected(t, &sdk.StreamableClientTransport{Endpoint: "https://" + f.address + "/mcp", HTTPClient: client, MaxRetries: -1})
}

// A bearer adds a token to requests.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// toolsOfTokens holds that a token of the scope admin reaches over HTTP what its maker reaches, and that tokens of one
// purpose have the tools of their scopes.
func toolsOfTokens(t *testing.T, f *fleet, tokens map[string]string, jid wire.JID) {
	isRefused := func(text string) bool { return strings.Contains(text, "not allowed") }
	for maker, token := range tokens {
		own, _ := f.assistantOf(t, maker)
		its := f.overHTTP(t, token)
		differ := 0
		for _, c := range toolCalls(jid) {
			want, _ := callTool(t, own, c)
			got, _ := callTool(t, its, c)
			if isRefused(got) != isRefused(want) {
				t.Errorf("%s with the token of %s: %s\nand as %s: %s", c.tool, maker, got, maker, want)
			}
			if isRefused(got) {
				differ++
			}
		}
		if (differ > 0) != (maker != "ann") {
			t.Errorf("%d calls with the token of %s are refused", differ, maker)
		}
	}
	for scope, want := range map[credential.Scope][]string{
		credential.ScopeRead:     {"fleet_status", "audit_search"},
		credential.ScopeDispatch: {"target_preview", "dispatch", "pause"},
	} {
		text, _, err := f.local.TokenCreate(t.Context(), credential.TokenRequest{
			Name: "mcp-" + string(scope), Scopes: []credential.Scope{credential.ScopeMCP, scope},
		})
		if err != nil {
			t.Fatal(err)
		}
		session := f.overHTTP(t, text)
		for _, c := range toolCalls(jid) {
			got, _ := callTool(t, session, c)
			has := slices.Contains(want, c.tool) || scope == credential.ScopeRead && !slices.Contains([]string{
				"target_preview", "dispatch", "pause", "entry_file", "plan_change", "propose_change",
			}, c.tool)
			if isAbsent := strings.HasPrefix(got, "there is no tool"); isAbsent == has {
				t.Errorf("%s with --only mcp and %s: %s", c.tool, scope, got)
			}
		}
		if a := f.rest(t, text, http.MethodGet, "/api/v1/peels", ""); a.status != http.StatusForbidden {
			t.Errorf("a token for /mcp alone gets %d of /peels", a.status)
		}
	}
	for _, scope := range []credential.Scope{credential.ScopeMetrics, credential.ScopeSync} {
		text, _, err := f.local.TokenCreate(t.Context(), credential.TokenRequest{
			Name: "only-" + string(scope), Scopes: []credential.Scope{scope},
		})
		if err != nil {
			t.Fatal(err)
		}
		if a := f.rest(t, text, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`); a.status != http.StatusForbidden {
			t.Errorf("a token of the scope %s gets %d of /mcp", scope, a.status)
		}
	}
}

// routesOfTokens tries each route with the token of each maker: it is refused if the maker may not send the request.
func routesOfTokens(t *testing.T, f *fleet, tokens map[string]string) {
	bodies := map[string]string{
		"job.dispatch":  `{"target": "web-01", "function": "test.ping"}`,
		"sync.approve":  `{"hash": "0123456789"}`,
		"sync.pin":      `{"revision": "0123456"}`,
		"sync.retry":    `{}`,
		"alert.silence": `{"match": "x", "for": "1h", "reason": "r"}`,
	}
	for maker, token := range tokens {
		refused := 0
		for _, verb := range api.Verbs() {
			noun, what, _ := strings.Cut(verb, ".")
			route := api.RouteOf(noun, what)
			if route == nil {
				continue
			}
			method, path, _ := strings.Cut(route.Path, " ")
			path = "/api/v1" + somewhere(path)
			path += map[string]string{"target.resolve": "?expr=*", "coverage.explain": "?peel=web-01"}[verb]
			a := f.answered(t, token, method, path, bodies[verb])
			if want := f.may(t, maker, verb); (a.status != http.StatusForbidden) != want {
				t.Errorf("%s with the token of %s: %d %s, and the rules say %v", route.Path, maker, a.status, a.body, want)
			}
			if a.status == http.StatusForbidden {
				refused++
			}
		}
		if maker == "deb" && refused < 8 || maker == "ann" && refused != 0 {
			t.Errorf("%d routes are refused to the token of %s", refused, maker)
		}
	}
	otherRoutes(t, f, tokens)
	for maker, want := range map[string]int{"ann": http.StatusAccepted, "deb": http.StatusForbidden, "dot": http.StatusBadRequest} {
		a := f.answered(t, tokens[maker], http.MethodPost, "/api/v1/jobs", `{"target": "web-02", "function": "test.ping"}`)
		if a.status != want {
			t.Errorf("a job on web-02 with the token of %s: %d %s", maker, a.status, a.body)
		}
	}
	for maker, want := range map[string]int{"ann": http.StatusOK, "deb": http.StatusOK, "dot": http.StatusNotFound} {
		if a := f.answered(t, tokens[maker], http.MethodGet, "/api/v1/peels/web-02", ""); a.status != want {
			t.Errorf("web-02 with the token of %s: %d", maker, a.status)
		}
	}
}

// routesBy has the request of masters that the rules decide about at each route that is of no single request.
var routesBy = map[string]string{
	"GET /metrics":                 "coverage.status",
	"GET /schedules":               "schedule.list",
	"GET /schedules/{id}":          "schedule.list",
	"POST /schedules":              "schedule.add",
	"DELETE /schedules/{id}":       "schedule.list", // to find it, as for the next ones
	"POST /schedules/{id}/pause":   "schedule.list",
	"POST /schedules/{id}/unpause": "schedule.list",
	"POST /schedules/{id}/run":     "schedule.list",
	"GET /jobs/{jid}/events":       "job.returns",
}

// otherRoutes tries each route of the document that routesOfTokens has not tried, and the metrics, with tokens of the
// scope admin and with tokens that read. No route is left out.
func otherRoutes(t *testing.T, f *fleet, tokens map[string]string) {
	known := map[string]bool{"GET /metrics": true}
	for _, verb := range api.Verbs() {
		noun, what, _ := strings.Cut(verb, ".")
		if route := api.RouteOf(noun, what); route != nil {
			known[route.Path] = true
		}
	}
	var doc struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	text := f.answered(t, tokens["ann"], http.MethodGet, "/api/v1/openapi.json", "").body
	if err := json.Unmarshal([]byte(text), &doc); err != nil || len(doc.Paths) < 20 {
		t.Fatal(err, text)
	}
	for path, methods := range doc.Paths {
		for method := range methods {
			route := strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/api/v1")
			if !known[route] && routesBy[route] == "" {
				t.Errorf("nobody has decided which rules are about %s", route)
			}
		}
	}
	refused := 0
	for maker, token := range tokens {
		reads, _, err := f.people[maker].TokenCreate(t.Context(), credential.TokenRequest{
			Name: "read-of-" + maker, Scopes: []credential.Scope{credential.ScopeRead},
		})
		if err != nil {
			t.Fatal(err)
		}
		for route, verb := range routesBy {
			method, path, _ := strings.Cut(route, " ")
			if path = somewhere(path); path != "/metrics" {
				path = "/api/v1" + path
			}
			for _, with := range []string{token, reads} {
				if with == reads && method != http.MethodGet || with == reads && strings.Contains(route, "{id}") {
					continue // the scope is not enough
				}
				body := ""
				if route == "POST /schedules" {
					body = `{"name": "n", "every": "1h", "function": "test.ping", "target": "*"}`
				}
				a := f.answered(t, with, method, path, body)
				if want := f.may(t, maker, verb); (a.status != http.StatusForbidden) != want {
					t.Errorf("%s of %s: %d %s, and the rules say of %s: %v", route, maker, a.status, a.body, verb, want)
				}
				if a.status == http.StatusForbidden {
					refused++
				}
			}
		}
	}
	if refused < 10 {
		t.Errorf("%d are refused: the cases are of one kind", refused)
	}
}

// answered is [fleet.rest], again while the token has sent too many requests.
func (f *fleet) answered(t *testing.T, token, method, path, body string) (a answer) {
	t.Helper()
	f.until(t, "another request", func(context.Context) bool {
		a = f.rest(t, token, method, path, body)
		return a.status != http.StatusTooManyRequests
	})
	return a
}
