package rest_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/rest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A route is one of the API, and which scopes open it. OWN stands for a job that the asking token made, else for
// another's; NEW for one that runs.
type route struct {
	method, path string
	scopes       []credential.Scope
	body         any
}

var (
	read, run  = credential.ScopeRead, credential.ScopeDispatch
	order      = []credential.Scope{credential.ScopeSync}
	aDispatch  = object{"target": "web-01", "function": "test.ping"}
	everyRoute = []route{
		{"POST", "/api/v1/jobs", []credential.Scope{run}, aDispatch},
		{"GET", "/api/v1/jobs", []credential.Scope{read}, nil},
		{"GET", "/api/v1/jobs/{jid}", []credential.Scope{read}, nil},
		{"GET", "/api/v1/jobs/{jid}/returns", []credential.Scope{read}, nil},
		{"GET", "/api/v1/jobs/{jid}/groups", []credential.Scope{read}, nil},
		{"GET", "/api/v1/jobs/{jid}/events", []credential.Scope{read}, nil},
		{"POST", "/api/v1/jobs/{jid}/cancel", nil, nil},
		{"GET", "/api/v1/peels", []credential.Scope{read}, nil},
		{"GET", "/api/v1/peels/{id}", []credential.Scope{read}, nil},
		{"GET", "/api/v1/targets?expr=*", []credential.Scope{read}, nil},
		{"GET", "/api/v1/coverage", []credential.Scope{read}, nil},
		{"GET", "/api/v1/problems", []credential.Scope{read}, nil},
		{"GET", "/api/v1/timeline/hours", []credential.Scope{read}, nil},
		{"GET", "/api/v1/load", []credential.Scope{read}, nil},
		{"GET", "/api/v1/now", []credential.Scope{read}, nil},
		{"GET", "/api/v1/approvals", []credential.Scope{read}, nil},
		{"GET", "/api/v1/coverage/{entry}", []credential.Scope{read}, nil},
		{"GET", "/api/v1/coverage/{entry}/why?peel=web-01", []credential.Scope{read}, nil},
		{"GET", "/metrics", []credential.Scope{read, credential.ScopeMetrics}, nil},
		{"GET", "/api/v1/alerts", []credential.Scope{read}, nil},
		{"GET", "/api/v1/alerts/status", []credential.Scope{read}, nil},
		{"POST", "/api/v1/alerts/silences", order, object{"match": "x", "for": "1h", "reason": "r"}},
		{"POST", "/api/v1/alerts/silences/{id}/end", order, nil},
		{"POST", "/api/v1/alerts/receivers/{name}/test", order, nil},
		{"GET", "/api/v1/held", []credential.Scope{read, run}, nil},
		{"GET", "/api/v1/held/{id}", []credential.Scope{read, run}, nil},
		{"POST", "/api/v1/held/{id}/reject", []credential.Scope{run}, nil},
		{"GET", "/api/v1/sync", []credential.Scope{read}, nil},
		{"GET", "/api/v1/sync/peels", []credential.Scope{read}, nil},
		{"GET", "/api/v1/sync/states", []credential.Scope{read}, nil},
		{"GET", "/api/v1/sync/states/groups", []credential.Scope{read}, nil},
		{"GET", "/api/v1/sync/history", []credential.Scope{read}, nil},
		{"GET", "/api/v1/sync/plan", []credential.Scope{read}, nil},
		{"GET", "/api/v1/sync/commits/{revision}", []credential.Scope{read}, nil},
		{"POST", "/api/v1/sync/approve", order, object{"hash": "01234567"}},
		{"POST", "/api/v1/sync/pause", order, nil},
		{"POST", "/api/v1/sync/resume", order, nil},
		{"POST", "/api/v1/sync/pin", order, object{"revision": "0123"}},
		{"POST", "/api/v1/sync/unpin", order, nil},
		{"POST", "/api/v1/sync/retry", order, object{}},
		{"POST", "/api/v1/sync/now", order, nil},
		{"GET", "/api/v1/schedules", []credential.Scope{read, run, credential.ScopeSync}, nil},
		{"POST", "/api/v1/schedules", nil, object{"name": "x", "function": "test.ping", "every": 60_000}},
		{"GET", "/api/v1/schedules/{id}", nil, nil},
		{"DELETE", "/api/v1/schedules/{id}", nil, nil},
		{"POST", "/api/v1/schedules/{id}/pause", nil, nil},
		{"POST", "/api/v1/schedules/{id}/unpause", nil, nil},
		{"POST", "/api/v1/schedules/{id}/run", nil, nil},
	}
	// ownJob are the routes of a job that its own maker may use too.
	ownJob = []route{
		{"GET", "/api/v1/jobs/{jid}", []credential.Scope{read, run}, nil},
		{"GET", "/api/v1/jobs/{jid}/returns", []credential.Scope{read, run}, nil},
		{"GET", "/api/v1/jobs/{jid}/groups", []credential.Scope{read, run}, nil},
		{"GET", "/api/v1/jobs/{jid}/events", []credential.Scope{read, run}, nil},
		{"POST", "/api/v1/jobs/{jid}/cancel", []credential.Scope{run}, nil},
	}
	// open are the routes for which no token is asked. Who enrolls and who sends a hook are judged by something else.
	open = []route{
		{"GET", "/api/v1/openapi.json", nil, nil},
		{"GET", "/healthz", nil, nil},
		{"GET", "/readyz", nil, nil},
		{"POST", "/api/v1/enroll", nil, object{}},
		{"", "/hooks/{name}", nil, nil},
	}
)

// pattern is how the route is entered in a mux.
func (r route) pattern() string {
	path, _, _ := strings.Cut(r.path, "?")
	return strings.TrimSpace(r.method + " " + path)
}

// TestEveryRouteIsDecided has no route come without a decision who may use it, which the deny matrix tries.
func TestEveryRouteIsDecided(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		server, err := rest.New(rest.Options{Listen: "127.0.0.1:0", TLS: certificate(t), Hooks: http.NotFoundHandler()})
		if err != nil {
			t.Fatal(err)
		}
		decided := map[string]bool{}
		for _, r := range slices.Concat(everyRoute, open) {
			decided[r.pattern()] = true
		}
		there := map[string]bool{}
		for _, pattern := range server.Patterns(s.backend) {
			there[pattern] = true
			if !decided[pattern] {
				t.Errorf("there is a route %s, and nobody has decided who may use it", pattern)
			}
		}
		for pattern := range decided {
			if !there[pattern] {
				t.Errorf("it is decided who may use the route %s, which is not there", pattern)
			}
		}
		// What is in the document only is a route, too.
		for path, operations := range s.document().Paths {
			for method := range operations {
				if pattern := strings.ToUpper(method) + " " + path; !there[pattern] {
					t.Errorf("the document tells of %s, which is not there", pattern)
				}
			}
		}
	})
}

func TestOpenRoutesTellNothingAndNeedNoToken(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		admin := s.admin()
		s.peel("web-01", target.Facts{"role": "secret-role"}, nil)
		for _, r := range open {
			if r.method == "" {
				continue // of the webhooks' own handler
			}
			for _, token := range []string{"", "zester.nobody.guess", admin} {
				a := s.ask(token, r.method, r.path, r.body)
				if a.status == 401 || a.status == 403 || a.status == 429 {
					t.Errorf("%s is refused with %d", r.pattern(), a.status)
				}
				if text := string(a.body); strings.Contains(text, "web-01") || strings.Contains(text, "secret-role") {
					t.Errorf("%s tells %s", r.pattern(), text)
				}
			}
		}
	})
}

// TestDenyMatrix tries each scope on each route, on jobs of others and on those that the token made.
func TestDenyMatrix(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.peel("web-01", nil, nil)
		s.lead("m1")
		s.writes(s.t.TempDir())
		s.leadAlerts()
		s.hold()
		admin := s.admin()
		other := s.dispatch(admin, object{"target": "web-01", "function": "test.ping", "timeout": "1s"})
		time.Sleep(30 * time.Second)
		for i, scopes := range [][]credential.Scope{{read}, {run}, {read, run}, order, {credential.ScopeSync, run}, {credential.ScopeAdmin}, {credential.ScopeMetrics}} {
			text := s.token(credential.TokenRequest{Name: fmt.Sprintf("t%d", i), Scopes: scopes})
			has := func(r route) bool {
				return slices.Contains(scopes, credential.ScopeAdmin) || slices.ContainsFunc(r.scopes, func(s credential.Scope) bool { return slices.Contains(scopes, s) })
			}
			try := func(r route, jid wire.JID) {
				t.Helper()
				a := s.ask(text, r.method, strings.NewReplacer("{jid}", string(jid), "{id}", "nothing").Replace(r.path), r.body)
				if !has(r) && scopes[0] == credential.ScopeMetrics {
					refused(t, a, 403, "the token opens /metrics alone")
				} else if !has(r) {
					refused(t, a, 403, "the token lacks the scope")
				} else if a.status == 401 || a.status == 403 || a.status == 429 || a.status >= 500 {
					t.Errorf("%v: %s %s: %d %s", scopes, r.method, r.path, a.status, a.body)
				}
				time.Sleep(time.Second)
			}
			for _, r := range everyRoute {
				try(r, other)
			}
			if !slices.Contains(scopes, run) {
				continue
			}
			own := s.dispatch(text, object{"target": "web-01", "function": "test.ping", "timeout": "1s"})
			time.Sleep(30 * time.Second)
			for _, r := range ownJob {
				try(r, own)
			}
		}
	})
}

// TestNobodyComesInWithoutAToken tries everything that is no token that opens.
func TestNobodyComesInWithoutAToken(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		ran := false
		s.peel("web-01", nil, func(*nats.Conn, wire.Request) { ran = true })
		admin := s.admin()
		expired := s.token(credential.TokenRequest{Name: "expired", Scopes: []credential.Scope{credential.ScopeAdmin}, TTL: time.Minute})
		revoked := s.token(credential.TokenRequest{Name: "revoked", Scopes: []credential.Scope{credential.ScopeAdmin}})
		if _, err := s.tokens.Revoke(t.Context(), "revoked", "ann"); err != nil {
			t.Fatal(err)
		}
		wrong, _ := credential.NewSecret("admin")
		time.Sleep(time.Minute)
		for name, header := range map[string][]string{
			"none": nil, "empty": {""}, "no scheme": {admin}, "basic": {"Basic " + admin}, "no token": {"Bearer"}, "blank": {"Bearer "},
			"wrong": {"Bearer " + wrong}, "expired": {"Bearer " + expired}, "revoked": {"Bearer " + revoked}, "two": {"Bearer " + admin, "Bearer " + wrong},
			"two in one": {"Bearer " + admin + ", Bearer " + admin}, "space before": {" Bearer  " + admin},
		} {
			for i, r := range everyRoute {
				s.from = fmt.Sprintf("198.51.100.%d:1", i) // each address guesses once
				s.client.CloseIdleConnections()
				var body io.Reader
				if r.body != nil {
					body = strings.NewReader(`{"target":"*","function":"test.ping"}`)
				}
				req, err := http.NewRequestWithContext(t.Context(), r.method, "http://master"+strings.ReplaceAll(r.path, "{jid}", string(wire.NewJID())), body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header["Authorization"] = header
				a := s.do(req)
				if a.status != 401 {
					t.Errorf("%s: %s %s", name, r.method, r.path)
				}
				refused(t, a, 401, "token")
				if challenge := a.header.Get("Www-Authenticate"); !strings.HasPrefix(challenge, "Bearer ") || (header != nil) != strings.Contains(challenge, "invalid_token") {
					t.Errorf("%s: the challenge is %q", name, challenge)
				}
			}
			time.Sleep(10 * time.Minute)
		}
		synctest.Wait()
		if ran {
			t.Error("something was run")
		}
		if len(s.log.with(wrong[len(wrong)-20:])) > 0 {
			t.Error("a token is in the log")
		}
	})
}

func TestATokenRunsOnlyWithinItsLimits(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var mu sync.Mutex
		var ran []target.PeelID
		note := func(id target.PeelID) {
			mu.Lock()
			defer mu.Unlock()
			ran = append(ran, id)
		}
		for _, id := range []target.PeelID{"db-01", "web-01", "web-02"} {
			s.peel(id, target.Facts{"role": string(id[:2])}, func(nc *nats.Conn, r wire.Request) { note(id); echo(id)(nc, r) })
		}
		limited := s.token(credential.TokenRequest{
			Name: "limited", Scopes: []credential.Scope{run}, Limits: grants.Limits{Target: "web-* and not web-09", Functions: []string{"test.*", "sys.doc"}},
		})
		for _, c := range []struct{ target, function, refused string }{
			{"web-01", "test.ping", ""},
			{"web-*", "sys.doc", ""},
			{"G@role:we", "test.ping", ""},
			{"*", "test.ping", "1 of 3 targets, the first of them db-01"},
			{"L@web-01,db-01", "test.ping", "db-01"},
			{"not web-*", "test.ping", "db-01"},
			{"web-01", "cmd.run", "cmd.run"},
			{"web-01", "sys.docs", "sys.docs"},
		} {
			a := s.ask(limited, "POST", "/api/v1/jobs", object{"target": c.target, "function": c.function})
			if c.refused == "" {
				want[job.Job](t, a, 202)
			} else {
				refused(t, a, 403, c.refused)
			}
			time.Sleep(5 * time.Second)
		}
		mu.Lock()
		slices.Sort(ran)
		if want := []target.PeelID{"web-01", "web-01", "web-01", "web-02", "web-02"}; !slices.Equal(ran, want) {
			t.Errorf("%v ran something, want %v", ran, want)
		}
		mu.Unlock()
		if len(s.log.with("job refused", "token:limited", "cmd.run")) != 1 {
			t.Errorf("%q", s.log.with("job refused"))
		}
		// The functions in the context of a prompt are within the limits too.
		asker := s.token(credential.TokenRequest{Name: "asker", Scopes: []credential.Scope{run}, Limits: grants.Limits{Functions: []string{"prompt.run", "facts.*"}}})
		for function, refusal := range map[string]string{"facts.items": "", "settings.items": "settings.items"} {
			args := object{"prompt": "Well?", "context": []any{object{"function": function}}}
			a := s.ask(asker, "POST", "/api/v1/jobs", object{"target": "web-01", "function": "prompt.run", "args": args})
			if refusal == "" {
				want[job.Job](t, a, 202)
			} else {
				refused(t, a, 403, refusal)
			}
		}
		// A new peel that matches is within, and a limit that cannot be evaluated lets nothing through.
		s.peel("web-03", nil, echo("web-03"))
		want[job.Job](t, s.ask(limited, "POST", "/api/v1/jobs", object{"target": "web-03", "function": "test.ping"}), 202)
		broken := s.token(credential.TokenRequest{Name: "broken", Scopes: []credential.Scope{run}, Limits: grants.Limits{Target: "N@gone"}})
		refused(t, s.ask(broken, "POST", "/api/v1/jobs", object{"target": "web-03", "function": "test.ping"}), 503, "the limits of the token")
	})
}

// TestWrongTokensLockOutNoValidOne guesses from one address, which for IPv6 is a network of 64 bits, until guesses are
// refused unread, and asks with a valid token from there in between.
func TestWrongTokensLockOutNoValidOne(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		from := func(address string) {
			s.from = address
			s.client.CloseIdleConnections()
			synctest.Wait()
		}
		guess := func() answer {
			wrong, _ := credential.NewSecret("reader")
			return s.ask(wrong, "GET", "/api/v1/peels", nil)
		}
		valid := func(path string) {
			t.Helper()
			if a := s.ask(reader, "GET", path, nil); a.status != 200 {
				t.Errorf("a valid token from %s, %s: %d %s", s.from, path, a.status, a.body)
			}
		}
		for i := range 10 {
			from(fmt.Sprintf("[2001:db8::%d]:4000", i+1))
			refused(t, guess(), 401, "not known")
			valid("/api/v1/peels")
		}
		for range 10 {
			a := guess()
			refused(t, a, 429, "unknown tokens")
			if a.header.Get("Retry-After") != "6" {
				t.Errorf("try again after %q", a.header.Get("Retry-After"))
			}
			valid("/api/v1/peels")
			valid("/metrics")
		}
		if n := len(s.log.with("token refused")); n != 10 {
			t.Errorf("20 guesses wrote %d lines into the log, want one for each of the 10 that were within the limit", n)
		}
		from("[2001:db8:0:1::1]:4000")
		refused(t, guess(), 401, "not known")
		from("[2001:db8::1]:4000")
		time.Sleep(6 * time.Second)
		refused(t, guess(), 401, "not known")
		refused(t, guess(), 429, "unknown tokens")
		valid("/api/v1/peels")
	})
}

// TestWhoIsMistakenIsNotAGuesser: a token that has ended, and none at all, lock nobody out.
func TestWhoIsMistakenIsNotAGuesser(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		ended := s.token(credential.TokenRequest{Name: "ended", Scopes: []credential.Scope{read}, TTL: time.Minute})
		time.Sleep(time.Minute)
		for range 30 {
			refused(t, s.ask(ended, "GET", "/api/v1/peels", nil), 401, "expired")
			refused(t, s.ask("", "GET", "/api/v1/peels", nil), 401, "bearer token")
		}
		if a := s.ask(reader, "GET", "/api/v1/peels", nil); a.status != 200 {
			t.Errorf("%d", a.status)
		}
	})
}

func TestATokenThatAsksTooOftenWaits(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader, admin := s.reader(), s.admin()
		served := 0
		for range 100 {
			a := s.ask(reader, "GET", "/api/v1/peels", nil)
			if a.status == 200 {
				served++
				continue
			}
			refused(t, a, 429, "20 requests a second")
		}
		if served != 40 {
			t.Errorf("%d were served at once", served)
		}
		if a := s.ask(admin, "GET", "/api/v1/peels", nil); a.status != 200 {
			t.Errorf("another token: %d", a.status)
		}
		time.Sleep(time.Second)
		served = 0
		for range 100 {
			if a := s.ask(reader, "GET", "/api/v1/peels", nil); a.status == 200 {
				served++
			}
		}
		if served != 20 {
			t.Errorf("%d were served after a second", served)
		}
	})
}

func TestWithoutTheBusNothingIsServedAndNobodyLockedOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		reader := s.reader()
		s.bus.Stop(t)
		for range 20 {
			refused(t, s.ask(reader, "GET", "/api/v1/peels", nil), 503, "tokens cannot be checked")
		}
		s.bus.Start(t)
		time.Sleep(10 * time.Second)
		if a := s.ask(reader, "GET", "/api/v1/peels", nil); a.status != 200 {
			t.Errorf("when it is back: %d %s", a.status, a.body)
		}
	})
}

// TestSlowAndLargeRequestsEnd writes requests by hand.
func TestSlowAndLargeRequestsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		admin := s.admin()
		head := "POST /api/v1/jobs HTTP/1.1\r\nHost: master\r\nContent-Type: application/json\r\nAuthorization: Bearer " + admin + "\r\n"
		for _, c := range []struct {
			name, text string
			status     int // 0: the connection is closed without an answer
			within     time.Duration
		}{
			{"half a header", "GET /healthz HTTP/1.1\r\nHost: mas", 0, 6 * time.Second},
			{"half a body", head + "Content-Length: 100\r\n\r\n{\"target\":", 408, 6 * time.Second},
			{"a large header", "GET /healthz HTTP/1.1\r\nHost: master\r\nX-Large: " + strings.Repeat("a", 32<<10) + "\r\n\r\n", 431, time.Second},
			{"a large body", head + "Content-Length: 2000000\r\n\r\n" + strings.Repeat(" ", 1<<20+1), 413, time.Second},
			{"not JSON", strings.Replace(head, "application/json", "text/html", 1) + "Content-Length: 2\r\n\r\n{}", 415, time.Second},
			{"nothing", "", 0, 6 * time.Second},
		} {
			conn, err := s.client.Transport.(*http.Transport).DialContext(t.Context(), "tcp", "master")
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			go func() { _, _ = io.WriteString(conn, c.text) }()
			status := 0
			if resp, err := http.ReadResponse(bufio.NewReader(conn), nil); err == nil {
				status = resp.StatusCode
			}
			if took := time.Since(began); status != c.status || took > c.within {
				t.Errorf("%s: %d after %v, want %d", c.name, status, took, c.status)
			}
			_ = conn.Close()
		}
	})
}
