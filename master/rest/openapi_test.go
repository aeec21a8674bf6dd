package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// document is what the tests need of OpenAPI.
type document struct {
	OpenAPI string                          `json:"openapi"`
	Paths   map[string]map[string]operation `json:"paths"`
	schemas map[string]any
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct{ Schema any }
	}
	Security []map[string][]string
	Tags     []string
}

func (s *system) document() document {
	s.t.Helper()
	a := s.ask("", "GET", "/api/v1/openapi.json", nil)
	if kind := a.header.Get("Content-Type"); kind != "application/openapi+json" {
		s.t.Errorf("it is %s", kind)
	}
	d := want[document](s.t, a, 200)
	whole := want[map[string]any](s.t, a, 200)
	d.schemas = whole["components"].(object)["schemas"].(object)
	return d
}

// Generators of clients need an address, and name what they make by the tags.
func TestTheDocumentHasWhatGeneratorsAskFor(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		whole := want[object](t, s.ask("", "GET", "/api/v1/openapi.json", nil), 200)
		for part, want := range map[string]string{
			"servers": `[{"description":"the master that sent this document","url":"/"}]`,
			"info": `{"description":"Run functions on peels, and see what they return.",` +
				`"license":{"identifier":"Apache-2.0","name":"Apache License 2.0"},"title":"zester","version":"1"}`,
		} {
			if got, err := json.Marshal(whole[part]); err != nil || string(got) != want {
				t.Errorf("%s is %s, %v", part, got, err)
			}
		}
		listed := map[string]bool{}
		for _, tag := range whole["tags"].([]any) {
			listed[tag.(object)["name"].(string)] = true
		}
		d := s.document()
		for path, operations := range d.Paths {
			for method, op := range operations {
				if len(op.Tags) != 1 || !strings.HasPrefix(path, "/api/v1/"+op.Tags[0]) || !listed[op.Tags[0]] {
					t.Errorf("%s %s has the tags %q", method, path, op.Tags)
				}
			}
		}
		for name, fields := range map[string][]string{
			"Job": {"status"}, "Row": {"state"}, "HoldAction": {"kind", "state"}, "SyncPeel": {"state"},
		} {
			for _, field := range fields {
				if d.schemas[name].(object)["properties"].(object)[field].(object)["enum"] == nil {
					t.Errorf("the document does not name the words of %s of %s", field, name)
				}
			}
		}
	})
}

// A client need not ask whether a list is there. That the document is right is checked by every request of these tests.
func TestNoListIsNull(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for name, schema := range s.document().schemas {
			if text, err := json.Marshal(schema); err != nil || strings.Contains(string(text), `"null"`) {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		}
		s.hold()
		s.lead("m2")
		s.leadAlerts()
		admin := s.admin()
		for _, r := range everyRoute { // of a fleet without peels
			if r.method == "GET" && !strings.Contains(r.path, "/events") {
				s.ask(admin, r.method, r.path, nil)
				time.Sleep(time.Second) // as many as a token may ask
			}
		}
	})
}

func TestAnAnswerOfAServiceHasAllItsLists(t *testing.T) {
	for want, answer := range map[string]any{
		`{"actions":[]}`:        &api.HoldPage{},
		`{"Raw":null}`:          &struct{ Raw json.RawMessage }{},
		`"conditions":[]`:       &status.Sync{},
		`"groups":[{"peels":[]`: &status.Plan{Change: &status.Change{Groups: []status.Group{{}}}},
	} {
		rest.FillLists(answer)
		if text, err := json.Marshal(answer); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s, want %s in it: %v", text, want, err)
		}
	}
}

// TestTheDocumentTellsEveryRouteAndItsScopes compares it with the table that the deny matrix tries.
func TestTheDocumentTellsEveryRouteAndItsScopes(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d := s.document()
		if !strings.HasPrefix(d.OpenAPI, "3.1.") {
			t.Errorf("it is OpenAPI %s", d.OpenAPI)
		}
		told := map[string][]string{}
		for path, operations := range d.Paths {
			for method, op := range operations {
				for _, alternative := range op.Security {
					told[strings.ToUpper(method)+" "+path] = append(told[strings.ToUpper(method)+" "+path], alternative["token"]...)
				}
			}
		}
		tried := map[string][]string{}
		for _, r := range slices.Concat(everyRoute, ownJob) {
			path, _, _ := strings.Cut(r.path, "?")
			key := r.method + " " + path
			if path == "/metrics" {
				continue
			}
			for _, scope := range append(slices.Clone(r.scopes), credential.ScopeAdmin) {
				if !slices.Contains(tried[key], string(scope)) {
					tried[key] = append(tried[key], string(scope))
				}
			}
		}
		for _, routes := range []map[string][]string{told, tried} {
			for key := range routes {
				slices.Sort(routes[key])
			}
		}
		if !maps.EqualFunc(told, tried, slices.Equal[[]string]) {
			t.Errorf("told:  %v\ntried: %v", told, tried)
		}
	})
}

// TestEveryStatusInTheDocumentIsGiven has each route answer with each status that the document tells of it, and with no
// other, and holds the answers against their schemas.
func TestEveryStatusInTheDocumentIsGiven(t *testing.T) {
	repo := serveRepo(t)
	bubble(t, func(t *testing.T, s *system) {
		d := s.document()
		given := map[string]map[string]bool{}
		check := func(method, path string, a answer) {
			t.Helper()
			key, status := method+" "+path, strconv.Itoa(a.status)
			r, ok := d.Paths[path][strings.ToLower(method)].Responses[status]
			if !ok {
				t.Errorf("%s gives %s, of which the document does not tell: %s", key, status, a.body)
				return
			}
			if given[key] == nil {
				given[key] = map[string]bool{}
			}
			given[key][status] = true
			kind, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
			content, ok := r.Content[kind]
			if ok != (a.status != 204) {
				t.Errorf("%s, %s: the document does not tell of %q", key, status, kind)
			}
			if kind != "application/json" && kind != "application/problem+json" {
				return
			}
			var body any
			if err := json.Unmarshal(a.body, &body); err != nil {
				t.Errorf("%s: %v", key, err)
			}
			for _, wrong := range d.differs(content.Schema, body, "body") {
				t.Errorf("%s, %s: %s", key, status, wrong)
			}
		}
		s.provokeSync(check, repo)
		s.provokeSchedules(check)
		s.provokeAlerts(check)
		s.provokeHeld(check)
		s.provoke(check)
		for path, operations := range d.Paths {
			for method, op := range operations {
				for status := range op.Responses {
					if key := strings.ToUpper(method) + " " + path; !given[key][status] {
						t.Errorf("%s was never answered with %s", key, status)
					}
				}
			}
		}
	})
}

func TestTheGuideNamesEveryRoute(t *testing.T) {
	text, err := os.ReadFile("../../cmd/zester/guide/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, routes, _ := strings.Cut(string(text), "\n## Routes\n")
	routes, _, _ = strings.Cut(routes, "\n## ")
	bubble(t, func(t *testing.T, s *system) {
		for path := range s.document().Paths {
			for part := range strings.SplitSeq(strings.TrimPrefix(path, "/api/v1/"), "/") {
				if !strings.HasPrefix(part, "{") && !strings.Contains(routes, "/"+part) {
					t.Errorf("the table of routes has no /%s of %s", part, path)
				}
			}
		}
	})
}

// provoke asks in every way that has an answer of its own.
func (s *system) provoke(check func(method, path string, a answer)) {
	const jobs, jobPath, entry = "/api/v1/jobs", "/api/v1/jobs/{jid}", "/api/v1/coverage/{entry}"
	s.peel("web-01", nil, echo("web-01"))
	s.peel("web-02", nil, func(nc *nats.Conn, r wire.Request) { ack(nc, "web-02", r) })
	admin, reader := s.token(credential.TokenRequest{Name: "chief", Scopes: []credential.Scope{credential.ScopeAdmin}}), s.reader()
	runner := s.token(credential.TokenRequest{Name: "runner", Scopes: []credential.Scope{run}})
	orders := s.token(credential.TokenRequest{Name: "orders", Scopes: order})
	ended := s.dispatch(admin, object{"target": "web-01", "function": "test.echo", "args": object{"text": "a"}})
	running := s.dispatch(admin, object{"target": "*", "function": "test.ping", "timeout": "1h"})
	time.Sleep(5 * time.Second)
	at := func(path string, jid wire.JID) string {
		return strings.Replace(path, "{jid}", string(jid), 1)
	}
	good := object{"target": "web-01", "function": "test.ping", "batch": object{"size": 1}, "metadata": object{"k": "v"}}
	check("POST", jobs, s.ask(admin, "POST", jobs, good))
	check("POST", jobs, s.ask(admin, "POST", jobs, "{"))
	check("POST", jobs, s.ask(admin, "POST", jobs, object{"target": "*", "function": "test.ping", "expect": 9}))
	check("POST", jobs, s.ask(admin, "POST", jobs, strings.Repeat(" ", 2<<20)))
	check("POST", jobs, s.slowBody(admin, jobs))
	check("POST", jobs, s.otherType(admin, jobs))
	for _, path := range []string{jobPath, jobPath + "/returns", jobPath + "/groups"} {
		check("GET", path, s.ask(reader, "GET", at(path, ended), nil))
		check("GET", path, s.ask(reader, "GET", at(path, running), nil))
		check("GET", path, s.ask(reader, "GET", at(path, wire.NewJID()), nil))
	}
	events := jobPath + "/events"
	check("GET", events, s.ask(reader, "GET", at(events, ended), nil))
	check("GET", events, s.resumed(reader, ended, s.lastEvent(reader, ended)))
	check("GET", events, s.ask(reader, "GET", at(events, wire.NewJID()), nil))
	cancel := jobPath + "/cancel"
	check("POST", cancel, s.ask(admin, "POST", at(cancel, running), nil))
	check("POST", cancel, s.ask(admin, "POST", at(cancel, ended), nil))
	check("POST", cancel, s.ask(admin, "POST", at(cancel, wire.NewJID()), nil))
	s.schedule("web-01", "backup")
	for _, path := range []string{
		jobs, "/api/v1/peels", "/api/v1/targets", "/api/v1/coverage", "/api/v1/problems", "/api/v1/timeline/hours",
		"/api/v1/load", "/api/v1/now", "/api/v1/approvals",
	} {
		ask := path
		if path == "/api/v1/targets" {
			ask += "?expr=L@web-01,web-09"
		}
		check("GET", path, s.ask(reader, "GET", ask, nil))
	}
	check("GET", entry, s.ask(reader, "GET", "/api/v1/coverage/backup", nil))
	check("GET", entry, s.ask(reader, "GET", "/api/v1/coverage/none", nil))
	check("GET", "/api/v1/peels/{id}", s.ask(reader, "GET", "/api/v1/peels/web-01", nil))
	check("GET", "/api/v1/peels/{id}", s.ask(reader, "GET", "/api/v1/peels/db-09", nil))
	why := "/api/v1/coverage/{entry}/why"
	s.give("web-01", map[string]any{"schedule": map[string]any{"backup": map[string]any{"module": "test.ping", "cron": "30 2 * * *"}}})
	for _, question := range []string{"backup/why?peel=web-01", "backup/why?peel=web-01&time=noon", "bakcup/why?peel=web-01", "backup/why?peel=web-09"} {
		check("GET", why, s.ask(reader, "GET", "/api/v1/coverage/"+question, nil))
	}
	all := []struct{ method, path, denied string }{
		{"GET", "/api/v1/coverage", runner},
		{"GET", "/api/v1/problems", runner},
		{"GET", "/api/v1/timeline/hours", runner},
		{"GET", "/api/v1/load", runner},
		{"GET", "/api/v1/now", runner},
		{"GET", "/api/v1/approvals", runner},
		{"GET", entry, runner},
		{"POST", jobs, reader},
		{"GET", jobs, runner},
		{"GET", jobPath, runner},
		{"GET", jobPath + "/returns", runner},
		{"GET", jobPath + "/groups", runner},
		{"GET", events, runner},
		{"POST", cancel, runner},
		{"GET", "/api/v1/peels", runner},
		{"GET", "/api/v1/peels/{id}", runner},
		{"GET", "/api/v1/targets", runner},
		{"GET", why, runner},
		{"GET", "/api/v1/sync", runner},
		{"GET", "/api/v1/sync/peels", runner},
		{"GET", "/api/v1/sync/states", runner},
		{"GET", "/api/v1/sync/states/groups", runner},
		{"GET", "/api/v1/sync/history", runner},
		{"GET", "/api/v1/sync/plan", runner},
		{"GET", "/api/v1/sync/commits/{revision}", runner},
		{"POST", "/api/v1/sync/approve", runner},
		{"POST", "/api/v1/sync/pause", runner},
		{"POST", "/api/v1/sync/resume", runner},
		{"POST", "/api/v1/sync/pin", runner},
		{"POST", "/api/v1/sync/unpin", runner},
		{"POST", "/api/v1/sync/retry", runner},
		{"POST", "/api/v1/sync/now", runner},
		{"POST", "/api/v1/schedules", runner},
		{"GET", "/api/v1/schedules", runner}, // not denied: its list is empty
		{"GET", "/api/v1/schedules/{id}", runner},
		{"DELETE", "/api/v1/schedules/{id}", runner},
		{"POST", "/api/v1/schedules/{id}/pause", runner},
		{"POST", "/api/v1/schedules/{id}/unpause", runner},
		{"POST", "/api/v1/schedules/{id}/run", runner},
		{"GET", "/api/v1/held", orders},
		{"GET", "/api/v1/held/{id}", orders},
		{"POST", rejectHeld, orders},
		{"GET", "/api/v1/alerts", runner},
		{"GET", "/api/v1/alerts/status", runner},
		{"POST", "/api/v1/alerts/silences", runner},
		{"POST", "/api/v1/alerts/silences/{id}/end", runner},
		{"POST", "/api/v1/alerts/receivers/{name}/test", runner},
	}
	ask := func(token, method, path, query string) answer {
		var body any
		switch {
		case path == jobs && method == "POST":
			body = good
		case strings.HasSuffix(path, "/approve"):
			body = object{"hash": "01234567"}
		case strings.HasSuffix(path, "/silences"):
			body = object{"match": "x", "for": "1h", "reason": "r"}
		case strings.HasSuffix(path, "/pin"):
			body = object{"revision": "0123"}
		case path == "/api/v1/schedules" && method == "POST":
			body = object{"name": "other", "function": "test.ping", "every": 60_000, "target": "*"}
		}
		path = strings.Replace(strings.Replace(path, "{id}", "by-hand", 1), "{revision}", "0123abcd", 1)
		return s.ask(token, method, at(path, ended)+query, body)
	}
	for _, r := range all {
		time.Sleep(time.Minute)
		query := ""
		switch r.path {
		case "/api/v1/targets":
			query = "?expr=*"
		case why:
			query = "?peel=web-01"
		}
		check(r.method, r.path, ask("", r.method, r.path, query))
		check(r.method, r.path, ask(r.denied, r.method, r.path, query))
		check(r.method, r.path, ask(admin, r.method, r.path, "?nonsense=1"))
		for s.ask(admin, "GET", "/api/v1/peels", nil).status != 429 {
		}
		check(r.method, r.path, ask(admin, r.method, r.path, query))
	}
	time.Sleep(time.Minute)
	s.bus.Stop(s.t)
	for _, r := range all {
		check(r.method, r.path, ask(admin, r.method, r.path, ""))
	}
	s.bus.Start(s.t)
	time.Sleep(10 * time.Second)
}

// request asks with further headers.
func (s *system) request(method, path, token string, header map[string]string, body io.Reader) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, "http://master"+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	return s.do(req)
}

func (s *system) slowBody(token, path string) answer {
	never, w := io.Pipe()
	defer w.Close()
	return s.request("POST", path, token, map[string]string{"Content-Type": "application/json"}, never)
}

func (s *system) otherType(token, path string) answer {
	return s.request("POST", path, token, map[string]string{"Content-Type": "application/xml"}, strings.NewReader("<job/>"))
}

func (s *system) lastEvent(token string, jid wire.JID) (id string) {
	events, _, _ := s.follow(token, jid, "")
	_, id = all(events)
	return id
}

func (s *system) resumed(token string, jid wire.JID, last string) answer {
	return s.request("GET", "/api/v1/jobs/"+string(jid)+"/events", token, map[string]string{"Last-Event-ID": last}, nil)
}

// differs tells where a value is not what a schema says.
func (d *document) differs(schema, value any, at string) (wrong []string) {
	s, _ := schema.(object)
	if ref, ok := s["$ref"].(string); ok {
		return d.differs(d.schemas[ref[strings.LastIndexByte(ref, '/')+1:]], value, at)
	}
	kind := "null"
	switch v := value.(type) {
	case map[string]any:
		kind = "object"
		properties, _ := s["properties"].(object)
		for name, inner := range v {
			if p, ok := properties[name]; ok {
				wrong = append(wrong, d.differs(p, inner, at+"."+name)...)
			} else if s["additionalProperties"] == false {
				wrong = append(wrong, at+"."+name+" is not in the document")
			}
		}
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				wrong = append(wrong, fmt.Sprintf("%s.%s is missing", at, name))
			}
		}
	case []any:
		kind = "array"
		for i, inner := range v {
			wrong = append(wrong, d.differs(s["items"], inner, fmt.Sprintf("%s[%d]", at, i))...)
		}
	case string:
		kind = "string"
		if words, ok := s["enum"].([]any); ok && !slices.Contains(words, value) {
			wrong = append(wrong, fmt.Sprintf("%s is %s, not one of %v", at, v, words))
		}
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
	}
	if types := fmt.Sprint(s["type"]); s["type"] != nil && !strings.Contains(types, kind) && (kind != "number" || !strings.Contains(types, "integer")) {
		wrong = append(wrong, fmt.Sprintf("%s is %s, not %s", at, kind, types))
	}
	return wrong
}
