package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-c01c3da5/zester/master/audit"
)

// An assistant is the client of the SDK with zester mcp as its server, a process of its own.
type assistant struct {
	t *testing.T
	*sdk.ClientSession
}

func (f *fleet) assistant(t *testing.T, args ...string) *assistant {
	t.Helper()
	cmd := exec.Command("zester", append([]string{"mcp"}, args...)...)
	cmd.Env = append(os.Environ(), "ZESTER_DATA_DIR="+f.dir, "XDG_CONFIG_HOME="+t.TempDir())
	var complaints strings.Builder
	cmd.Stderr = &complaints
	client := sdk.NewClient(&sdk.Implementation{Name: "robot\u202e", Version: "7\n"}, nil)
	session, err := client.Connect(t.Context(), &sdk.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v: %s", err, &complaints)
	}
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Errorf("zester mcp ended with %v: %s", err, &complaints)
		}
	})
	return &assistant{t, session}
}

// call calls a tool and returns the text of its result.
func (a *assistant) call(tool string, args any) (text string, failed bool) {
	a.t.Helper()
	r, err := a.CallTool(a.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	for _, c := range r.Content {
		text += c.(*sdk.TextContent).Text
	}
	return text, r.IsError
}

// printed returns what a command prints.
func (f *fleet) printed(t *testing.T, args ...string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	if code := run(t.Context(), append([]string{"--data-dir", f.dir}, args...), &out, &errOut); code != exitOK {
		t.Fatalf("zester %v ended with %d: %s", args, code, &errOut)
	}
	return out.String()
}

type object = map[string]any

// marked is what the server says of data: its token is random, and the data is one JSON text.
var marked = regexp.MustCompile(`(?s)Between the two lines with UNTRUSTED (\w{26}) is data of hosts .*\n----- UNTRUSTED (\w{26}) begins\n(.*)\n----- UNTRUSTED (\w{26}) ends\n`)

// data returns the data in a result.
func data(t *testing.T, text string) string {
	t.Helper()
	m := marked.FindStringSubmatch(text)
	if m == nil || m[1] != m[2] || m[1] != m[4] || !json.Valid([]byte(m[3])) {
		t.Fatalf("no data is marked in %s", text)
	}
	return m[3]
}

func TestAnAssistantReadsTheFleetOverStdio(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := f.assistant(t)
	var names []string
	for tool, err := range a.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
		if !tool.Annotations.ReadOnlyHint || tool.Description == "" {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
	if want := []string{"audit_search", "blame", "coverage", "docs", "entries", "explain", "fleet_status", "job_get", "next_fires", "sync_history", "why"}; !slices.Equal(names, want) {
		t.Errorf("the tools are %q", names)
	}
	for _, c := range []struct {
		tool string
		args object
		want string // in the data
	}{
		{"fleet_status", nil, `"applied":4`},
		{"next_fires", object{"entry": "hello", "target": "web-01"}, `"peel":"web-01"`},
		{"explain", object{"target": "web-*"}, `"total":`},
		{"explain", object{"cron": "0 3 * * *"}, `"meaning":"every day at 03:00"`},
		{"explain", object{"when": "every monday at 9am"}, `0 9 * * 1`},
		{"coverage", object{"since": "2h"}, `"reporting":2`},
		{"why", object{"peel": "web-01", "entry": "hello"}, `"verdict":"ran"`},
		{"sync_history", nil, `"The beginning"`},
		{"blame", object{"peel": "web-01", "entry": "hello"}, `Ada <ada`},
		{"audit_search", object{"action": "agent"}, `"agent":"robot 7"`},
	} {
		if text, failed := a.call(c.tool, c.args); failed || !strings.Contains(data(t, text), c.want) {
			t.Errorf("%s %v: %q is not in %s", c.tool, c.args, c.want, text)
		}
	}
	if text, failed := a.call("docs", object{"page": "assistants"}); failed || !strings.HasPrefix(text, "# Assistants") {
		t.Error(text)
	}
	out := f.printed(t, "audit", "list", "--action", "agent.call", "-o", "json")
	var entries []audit.Entry
	if err := json.Unmarshal([]byte(out), &entries); err != nil {
		t.Fatal(err)
	}
	if e := entries[0]; len(entries) != 11 || e.User != "local" || e.Agent != "robot 7" || e.Target != "docs" || e.Args != `{"page":"assistants"}` || e.Result != audit.Asked {
		t.Errorf("%d entries, %+v", len(entries), e)
	}
}

// TestAnAssistantOfAnAuditorReads has a credential that may change nothing.
func TestAnAssistantOfAnAuditorReads(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir := t.TempDir()
	if err := f.credentials(dir); err != nil {
		t.Fatal(err)
	}
	a := f.assistant(t, "--url", f.url, "--creds", filepath.Join(dir, "auditor.creds"))
	if text, failed := a.call("coverage", nil); failed {
		t.Error(text)
	}
	if text, failed := a.call("audit_search", object{"user": "eve"}); failed || !strings.Contains(data(t, text), `"target":"coverage"`) {
		t.Error(text)
	}
}

func TestWhatIsBeyondTheBoundsOfAnAssistantIsAnErrorOfTheTool(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := f.assistant(t)
	deep := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n))
	}
	for _, args := range []any{deep(9000), object{"peel": strings.Repeat("x", 3<<20)}} {
		if _, err := a.CallTool(t.Context(), &sdk.CallToolParams{Name: "why", Arguments: args}); err == nil || !strings.Contains(err.Error(), "too-large-or-too-deep") {
			t.Errorf("%v", err)
		}
	}
	for _, c := range []struct {
		tool string
		args any
		want string
	}{
		{"why", object{"peel": strings.Repeat("x", 1<<20), "entry": "e"}, "the limit is 131072"},
		{"why", deep(40), "nest deeper than 32"},
		{"why", object{"peel": 1, "entry": "e"}, "type"},
		{"why", object{"peel": "web-01"}, "entry"},
		{"why", object{"peel": "web-01", "entry": "hello", "more": 1}, "more"},
		{"why", object{"peel": "../../x", "entry": "hello"}, "peel ID"},
		{"no_such_tool", nil, "there is no tool"},
		{"dispatch", object{"hash": "0"}, "there is no tool"},
		{"job_get", object{"jid": "1"}, "not a job ID"},
		{"coverage", object{"since": "1000d"}, "kept for 35d"},
		{"coverage", object{"since": "-1h"}, "length of time"},
		{"entries", object{"offset": -1e18}, ""},
		{"explain", object{"cron": "* * * * *", "when": "daily"}, "exactly one"},
		{"explain", object{"when": "every blue moon"}, "blue"},
		{"docs", object{"page": "../mcp"}, "the guide has no page"},
	} {
		text, failed := a.call(c.tool, c.args)
		if !failed && c.want != "" || !strings.Contains(text, c.want) {
			t.Errorf("%s: failed %v: %.300s", c.tool, failed, text)
		}
	}
	if text, failed := a.call("coverage", nil); failed {
		t.Errorf("it does not go on: %s", text)
	}
	if out := f.printed(t, "audit", "list", "--action", "agent.call", "--result", "refused", "-o", "json"); strings.Count(out, `"result": "refused"`) != 4 {
		t.Error(out)
	}
}

func TestACanceledCallAndALostBusLeaveTheServerAlive(t *testing.T) {
	t.Parallel()
	f, err := startFleet(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := f.assistant(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.CallTool(ctx, &sdk.CallToolParams{Name: "coverage"}); err == nil {
		t.Error("a canceled call succeeded")
	}
	if text, failed := a.call("coverage", nil); failed {
		t.Error(text)
	}
	if err := f.stop(); err != nil {
		t.Fatal(err)
	}
	if text, failed := a.call("coverage", nil); !failed || !strings.Contains(text, "cannot be recorded") {
		t.Errorf("without a bus: %s", text)
	}
	if err := a.Ping(t.Context(), nil); err != nil {
		t.Errorf("the server has ended: %v", err)
	}
}
