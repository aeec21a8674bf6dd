package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-c01c3da5/zester/cmd/zester/guide"
	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// newMCPFleet starts a fleet whose master serves assistants, and returns the address of its REST API.
func newMCPFleet(t *testing.T) (*fleet, string) {
	t.Helper()
	at := make(chan string, 1)
	f, err := startFleet(t.TempDir(), func(f *fleet) error {
		f.rest = master.REST{Listen: "127.0.0.1:0", MCP: &mcp.Options{Act: true, Limit: 1, Guide: guide.Pages}}
		f.log = slog.New(restAddress{slog.DiscardHandler, at})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.stop(); err != nil {
			t.Error(err)
		}
	})
	return f, "https://" + <-at
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

// web returns a client that trusts the master.
func (f *fleet) web(t *testing.T, token string) *http.Client {
	t.Helper()
	ca, err := os.ReadFile(f.ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: bearer{transport, token}}
}

// token makes a token with scopes.
func (f *fleet) token(t *testing.T, name string, scopes ...string) string {
	t.Helper()
	return strings.TrimSpace(f.printed(t, "auth", "token", "create", name, "--scope", strings.Join(scopes, ",")))
}

// assistantAt is the client of the SDK over HTTP.
func (f *fleet) assistantAt(t *testing.T, url, token string) *assistant {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "robot", Version: "7"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: f.web(t, token), MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return &assistant{t, session}
}

// TestScopesOfATokenSayWhichToolsItMayCall tries tools of each kind over HTTP with tokens of each scope.
func TestScopesOfATokenSayWhichToolsItMayCall(t *testing.T) {
	t.Parallel()
	f, url := newMCPFleet(t)
	one := audit.PeelsHash([]target.PeelID{"web-01"})
	two := audit.PeelsHash([]target.PeelID{"web-01", "web-02"})
	ping := object{"target": "web-01", "hash": one, "expect": 1, "function": "test.ping", "reason": "r"}
	tokens := map[string]*assistant{}
	for _, scope := range []string{"read", "dispatch", "admin"} {
		tokens[scope] = f.assistantAt(t, url, f.token(t, scope, scope))
	}
	// A token of this purpose alone has the tools of its other scope here, and one of another purpose none.
	for _, scope := range []string{"read", "dispatch"} {
		only := f.printed(t, "auth", "token", "create", "only-"+scope, "--only", "mcp", "--scope", scope)
		tokens["mcp-"+scope] = f.assistantAt(t, url, strings.TrimSpace(only))
	}
	metrics := f.web(t, strings.TrimSpace(f.printed(t, "auth", "token", "create", "prometheus", "--only", "metrics")))
	for path, want := range map[string]int{"/mcp": http.StatusForbidden, "/metrics": http.StatusOK} {
		method := map[string]string{"/mcp": http.MethodPost, "/metrics": http.MethodGet}[path]
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		a, err := metrics.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _ = a.Body.Close(); a.StatusCode != want {
			t.Errorf("a token for metrics gets %d at %s", a.StatusCode, path)
		}
	}
	for _, c := range []struct {
		tool string
		args object
		may  string // the scopes
	}{
		{"fleet_status", nil, "read admin"},
		{"coverage", nil, "read admin"},
		{"problems", nil, "read admin"},
		{"approvals", nil, "read admin"},
		{"load", nil, "read admin"},
		{"peel_get", object{"peel": "web-01"}, "read admin"},
		{"why", object{"peel": "web-01", "entry": "hello"}, "read admin"},
		{"audit_search", nil, "read admin"},
		{"explain", object{"cron": "* * * * *"}, "read admin"},
		{"docs", object{"page": "repo"}, "read admin"},
		{"target_preview", object{"target": "*"}, "dispatch admin"},
		{"dispatch", ping, "dispatch admin"},
		{"dispatch", object{"target": "web-*", "hash": two, "expect": 2, "function": "test.ping", "reason": "r"}, "dispatch admin"},
		{"pause", object{"target": "web-01", "hash": one, "expect": 1, "entry": "hello", "for": "1h", "reason": "r"}, "dispatch admin"},
	} {
		for scope, a := range tokens {
			text, failed := a.call(c.tool, c.args)
			if may := slices.Contains(strings.Fields(c.may), strings.TrimPrefix(scope, "mcp-")); failed == may {
				t.Errorf("%s with the scope %s: failed %v: %s", c.tool, scope, failed, text)
			}
		}
	}
	if text, failed := tokens["read"].call("plan_change", object{"action": "disable", "entry": "hello"}); !failed || !strings.Contains(text, "there is no tool") {
		t.Errorf("plan_change with the scope read: %s", text)
	}
	log := f.printed(t, "audit", "list", "--user", "token:dispatch", "-o", "json")
	for _, want := range []string{`"action": "agent.call"`, `"action": "job.dispatch"`, `"action": "hold.add"`, `"agent": "robot 7"`, `"result": "refused"`} {
		if !strings.Contains(log, want) {
			t.Errorf("%s is not in %s", want, log)
		}
	}
}

func TestARevokedTokenAndHostileRequestsAreRefusedOverHTTP(t *testing.T) {
	t.Parallel()
	f, url := newMCPFleet(t)
	token := f.token(t, "ci", "read")
	a := f.assistantAt(t, url, token)
	if text, failed := a.call("coverage", nil); failed {
		t.Fatal(text)
	}
	call := func(body string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"explain","arguments":` + body + `}}`
	}
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	for name, c := range map[string]struct {
		body, origin string
		status       int
	}{
		"well":            {call(`{"cron":"* * * * *"}`), "", 200},
		"of this site":    {call(`{"cron":"* * * * *"}`), url, 200},
		"of another site": {call(`{}`), "https://evil.example", 403},
		"too large":       {call(`{"cron":"` + strings.Repeat("x", 1<<20) + `"}`), "", 413},
		"too deep":        {call(deep), "", 400},
		"no JSON":         {"{", "", 400},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/mcp", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		answer, err := f.web(t, token).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.status {
			t.Errorf("%s: %d %.300s", name, answer.StatusCode, text)
		}
	}
	f.printed(t, "auth", "token", "revoke", "ci")
	if r, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: "coverage"}); err == nil {
		t.Errorf("a revoked token: %+v", r)
	}
}
