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
	"github.com/seed-c01c3da5/zester/reconciler/propose"
	"github.com/seed-c01c3da5/zester/settings/target"
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
		if plans := strings.HasSuffix(tool.Name, "_change") || tool.Name == "entry_file"; tool.Annotations.ReadOnlyHint == plans || *tool.Annotations.DestructiveHint || tool.Description == "" {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
	if want := []string{"approvals", "audit_search", "blame", "coverage", "docs", "entries", "entry_file", "explain", "fleet_status", "job_get", "job_groups", "load", "next_fires", "peel_get", "plan_change", "problems", "propose_change", "sync_commit", "sync_history", "why"}; !slices.Equal(names, want) {
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
		{"job_groups", object{"jid": "1"}, "not a job ID"},
		{"peel_get", object{"peel": "web-99"}, "has never told its facts"},
		{"load", object{"for": "8d"}, "want 1h to 7d"},
		{"coverage", object{"since": "1000d"}, "kept for 35d"},
		{"coverage", object{"since": "-1h"}, "length of time"},
		{"entries", object{"offset": -1e18}, ""},
		{"explain", object{"cron": "* * * * *", "when": "daily"}, "exactly one"},
		{"explain", object{"expression": "daily"}, "the arguments of explain are: target, cron, when"},
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

// previewed returns the hash of the peels that a target selects.
func (a *assistant) previewed(expr string) string {
	a.t.Helper()
	text, failed := a.call("target_preview", object{"target": expr})
	m := regexp.MustCompile(`hash: ([0-9a-f]{64})`).FindStringSubmatch(text)
	if failed || m == nil {
		a.t.Fatal(text)
	}
	return m[1]
}

func TestAnAssistantActsWithinItsLimitAndWhatIsBeyondWaitsForAPerson(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	a := f.assistant(t, "--allow", "dispatch", "--limit", "1")
	byAgent := func() string {
		return f.printed(t, "audit", "list", "--action", "job.dispatch", "--result", "done", "-o", "json")
	}
	one, two := a.previewed("web-01"), a.previewed("web-*")
	ping := func(expr, hash string, expect int) object {
		return object{"target": expr, "hash": hash, "expect": expect, "function": "test.ping", "reason": "to see"}
	}
	for name, args := range map[string]object{
		"the hash of others":   ping("web-01", two, 1),
		"the number of others": ping("web-01", one, 2),
		"a target of others":   ping("db-01", one, 1),
		"no peel":              ping("nobody", one, 1),
		"secrets":              {"target": "web-01", "hash": one, "expect": 1, "function": "settings.get", "args": object{"key": "a", "secrets_to": "age1"}, "reason": "r"},
		"no reason":            {"target": "web-01", "hash": one, "expect": 1, "function": "test.ping", "reason": " "},
		"a reason of lines":    {"target": "web-01", "hash": one, "expect": 1, "function": "test.ping", "reason": "a\nb"},
		"no function":          {"target": "web-01", "hash": one, "expect": 1, "function": "test.pnig", "reason": "r"},
	} {
		if text, failed := a.call("dispatch", args); !failed {
			t.Errorf("%s: %s", name, text)
		}
	}
	if jobs := byAgent(); strings.Contains(jobs, "robot") {
		t.Errorf("refused calls have made jobs: %s", jobs)
	}
	text, failed := a.call("dispatch", ping("web-01", one, 1))
	m := regexp.MustCompile(`^Job (\w{27}) runs on 1 peels`).FindStringSubmatch(text)
	if failed || m == nil {
		t.Fatal(text)
	}
	if err := f.until(t.Context(), `(?s)"status": "complete"`, "job", "show", m[1], "-o", "json"); err != nil {
		t.Error(err)
	}
	if text, failed = a.call("job_get", object{"jid": m[1]}); failed || !strings.Contains(data(t, text), `"reason":"to see"`) || !strings.Contains(text, `"agent":"robot 7"`) {
		t.Error(text)
	}
	if text, failed = a.call("job_groups", object{"jid": m[1]}); failed || !strings.Contains(text, "1 different results of 1 targets.") {
		t.Errorf("job_groups: %s", text)
	}
	if text, failed = a.call("job_get", object{"jid": m[1], "cursor": "web-01"}); failed || !strings.Contains(text, "with 1 targets. 0 of them follow.") {
		t.Errorf("after the last peel: %s", text)
	}

	other := a.previewed("web-02")
	if text, failed := a.call("dispatch", ping("web-02", other, 1)); failed || !strings.HasPrefix(text, "Nothing was done: assistants may act on at most 1 peels in an hour.") {
		t.Errorf("a second peel within the hour: %s", text)
	}
	text, failed = a.call("dispatch", ping("web-*", two, 2))
	h := regexp.MustCompile(`^Nothing was done: .* on 2 peels .*: zester approve (\w{27})$`).FindStringSubmatch(text)
	if failed || h == nil {
		t.Fatal(text)
	}
	pause := object{"target": "web-01", "hash": one, "expect": 1, "entry": "hello", "for": "2h", "reason": "new disk"}
	if text, failed := a.call("pause", pause); failed {
		t.Error(text)
	}
	if err := f.until(t.Context(), `paused_manual`, "schedule", "list", "web-01", "-o", "json"); err != nil {
		t.Error(err)
	}
	pause["for"] = "0s"
	if text, failed := a.call("pause", pause); !failed {
		t.Errorf("a pause without an end: %s", text)
	}
	if jobs := byAgent(); strings.Count(jobs, `"agent": "robot 7"`) != 2 {
		t.Errorf("the jobs are %s", jobs)
	}
	if out := f.printed(t, "approve", h[1], "--yes"); !strings.Contains(out, "web-02") {
		t.Errorf("approve: %s", out)
	}
	if jobs := byAgent(); strings.Count(jobs, `"agent": "robot 7"`) != 3 {
		t.Errorf("the jobs after the approval are %s", jobs)
	}
}

// TestEachRoleMayUseItsToolsAlone tries each tool with the credential of each role. The server that runs them allows all.
func TestEachRoleMayUseItsToolsAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("many processes")
	}
	t.Parallel()
	f, err := startWriter(t, propose.Direct)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := f.credentials(dir); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{"operator": nil, "limited": {"--limit-target", "web-01", "--limit-function", "test.*"}} {
		f.printed(t, append([]string{"auth", "user", "add", name, "--out", filepath.Join(dir, name+".creds")}, args...)...)
	}
	web := audit.PeelsHash([]target.PeelID{"web-01"})
	change := object{"action": "disable", "entry": "hello"}
	for _, c := range []struct {
		tool string
		args object
		may  string // the roles
	}{
		{"fleet_status", nil, "operator direct limited auditor"},
		{"entries", nil, "operator direct auditor"},
		{"next_fires", object{"entry": "hello"}, "operator direct limited auditor"},
		{"explain", object{"target": "*"}, "operator direct limited auditor"},
		{"explain", object{"target": "I@a:b"}, "operator direct auditor"},
		{"coverage", nil, "operator direct limited auditor"},
		{"why", object{"peel": "web-01", "entry": "hello"}, "operator direct limited auditor"},
		{"why", object{"peel": "web-02", "entry": "hello"}, "operator direct auditor"},
		{"problems", nil, "operator direct limited auditor"},
		{"approvals", nil, "operator direct limited auditor"},
		{"load", object{"entry": "hello", "for": "1h"}, "operator direct limited auditor"},
		{"peel_get", object{"peel": "web-01"}, "operator direct limited auditor"},
		{"sync_history", nil, "operator direct limited auditor"},
		{"blame", object{"peel": "web-01", "entry": "hello"}, "operator direct limited auditor"},
		{"audit_search", nil, "operator direct auditor"},
		{"docs", nil, "operator direct limited auditor"},
		{"entry_file", object{"entry": "hello"}, "operator direct"},
		{"plan_change", change, "operator direct"},
		{"target_preview", object{"target": "web-01"}, "operator direct limited"},
		{"dispatch", object{"target": "web-01", "hash": web, "expect": 1, "function": "test.ping", "reason": "r"}, "operator direct limited"},
		{"dispatch", object{"target": "web-01", "hash": web, "expect": 1, "function": "cmd.run", "id": "true", "reason": "r"}, "operator direct"},
		{"pause", object{"target": "web-01", "hash": web, "expect": 1, "entry": "hello", "for": "1h", "reason": "r"}, "operator direct"},
	} {
		for _, role := range []string{"operator", "direct", "limited", "auditor"} {
			a := f.assistant(t, "--allow", "dispatch", "--url", f.url, "--creds", filepath.Join(dir, role+".creds"))
			text, failed := a.call(c.tool, c.args)
			if may := slices.Contains(strings.Fields(c.may), role); failed == may {
				t.Errorf("%s of %s %v: failed %v: %s", c.tool, role, c.args, failed, text)
			}
		}
	}
}

// TestAnAssistantProposesAndNeverChangesTheBranch has a master that writes to the branch if it is asked to.
func TestAnAssistantProposesAndNeverChangesTheBranch(t *testing.T) {
	t.Parallel()
	f, err := startWriter(t, propose.Direct)
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", f.repo.URL}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	head, a := git("rev-parse", "main"), f.assistant(t)
	text, failed := a.call("entry_file", object{"entry": "hello"})
	was := regexp.MustCompile(`^was: (\w{64})`).FindStringSubmatch(text)
	var file struct{ Text string }
	if err := json.Unmarshal([]byte(data(t, text)), &file); failed || err != nil || was == nil {
		t.Fatal(text)
	}
	hash := regexp.MustCompile(`hash: (\w{64})`)
	for i, change := range []object{
		{"action": "add", "fields": object{"name": "tidy up", "function": "test.ping", "cron": "0 4 * * *", "target": "web-*"}},
		{"action": "disable", "entry": "hello", "reason": "too loud"},
		{"action": "replace", "entry": "hello", "was": was[1], "text": "# louder\n" + file.Text},
	} {
		text, failed := a.call("plan_change", change)
		m := hash.FindStringSubmatch(text)
		if failed || m == nil || !strings.Contains(data(t, text), "diff --git") {
			t.Fatal(text)
		}
		if n := strings.Count(git("branch", "--list", "zester/*"), "zester/"); n != i {
			t.Errorf("a plan made a branch: there are %d", n)
		}
		change["hash"] = strings.Repeat("0", 64)
		if text, failed := a.call("propose_change", change); !failed {
			t.Errorf("with the hash of another plan: %s", text)
		}
		change["hash"] = m[1]
		if text, failed := a.call("propose_change", change); failed || !strings.Contains(text, "Proposed. ") || !strings.Contains(text, "/pull") {
			t.Errorf("%v: %s", change, text)
		}
		if n := strings.Count(git("branch", "--list", "zester/*"), "zester/"); n != i+1 {
			t.Errorf("%v: there are %d branches", change, n)
		}
	}
	for _, change := range []object{
		{"action": "add", "fields": object{"name": "x", "function": "test.ping", "cron": "0 25 * * *", "target": "web-*"}},
		{"action": "add"},
		{"action": "burn", "entry": "hello"},
		{"action": "remove", "entry": "nothing"},
	} {
		if text, failed := a.call("plan_change", change); !failed {
			t.Errorf("%v: %s", change, text)
		}
	}
	if now := git("rev-parse", "main"); now != head {
		t.Error("the branch in force has moved")
	}
	if out := f.printed(t, "audit", "list", "--action", "schedule", "--result", "done", "-o", "json"); strings.Count(out, `"action"`) != 3 {
		t.Errorf("plans are recorded as changes: %s", out)
	}
}

// TestARevokedUserIsOutInAnOpenSession revokes a person whose assistant is connected.
func TestARevokedUserIsOutInAnOpenSession(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	creds := filepath.Join(t.TempDir(), "mia.creds")
	f.printed(t, "auth", "user", "add", "mia", "--out", creds)
	a := f.assistant(t, "--url", f.url, "--creds", creds)
	if text, failed := a.call("coverage", nil); failed {
		t.Fatal(text)
	}
	f.printed(t, "auth", "user", "revoke", "mia")
	if text, failed := a.call("coverage", nil); !failed {
		t.Error(text)
	}
}
