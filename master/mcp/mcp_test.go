package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/fstest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var tools = []string{
	"fleet_status", "entries", "next_fires", "explain", "coverage", "why", "problems", "approvals", "load", "job_groups", "peel_get", "job_get", "sync_history", "sync_commit", "blame", "audit_search", "docs",
	"entry_file", "plan_change", "propose_change", "target_preview", "dispatch", "pause",
}

// gone is a bus that carries nothing but calls to the audit log.
type gone struct{}

func (gone) Ask(_ context.Context, noun, _ string, _, _ any) error {
	if noun == "agent" {
		return nil
	}
	return errors.New("the bus is gone")
}

// FuzzArguments calls tools with any arguments while the bus is gone for all but the audit log. Each call has a result, and no job is
// dispatched, because no target selects a peel.
func FuzzArguments(f *testing.F) {
	for i, args := range []string{
		`{}`, `{"entry":"e"}`, `{"cron":"* * * * *"}`, `{"when":"daily"}`, `{"jid":"2abcdefghijklmnopqrstuvwxyz"}`, `[]`, `null`, `{"a":{}}`,
		`{"action":"add","fields":{"name":"n","function":"test.ping","every":1.5}}`, `{"page":"../x"}`,
		`{"target":"*","hash":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","expect":0,"function":"test.ping","reason":"r"}`,
	} {
		f.Add(uint8(i), args)
	}
	server := mcp.New(mcp.Options{
		Act: true, Guide: fstest.MapFS{"repo.md": {Data: []byte("# Repo")}},
		Asker:    gone{},
		Resolve:  func(context.Context, string) ([]target.PeelID, error) { return nil, nil },
		Dispatch: func(context.Context, job.Spec) (*job.Job, error) { panic("a job without peels") },
	})
	here, there := sdk.NewInMemoryTransports()
	if _, err := server.Connect(f.Context(), here, nil); err != nil {
		f.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "fuzz"}, nil).Connect(f.Context(), there, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tool uint8, args string) {
		if !json.Valid([]byte(args)) {
			t.Skip()
		}
		r, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: tools[int(tool)%len(tools)], Arguments: json.RawMessage(args)})
		if err != nil || len(r.Content) != 1 {
			t.Errorf("%s: %+v, %v", args, r, err)
		}
	})
}

// The server announces nothing that it never sends. Results are texts for a model, so no tool promises a schema of them.
func TestTheServerAnnouncesWhatItDoes(t *testing.T) {
	server := mcp.New(mcp.Options{Act: true, Guide: fstest.MapFS{"repo.md": {Data: []byte("# Repo")}}, Asker: gone{}})
	here, there := sdk.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), here, nil); err != nil {
		t.Fatal(err)
	}
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil).Connect(t.Context(), there, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	c := client.InitializeResult().Capabilities
	if c.Tools == nil || c.Tools.ListChanged || c.Prompts != nil || c.Resources != nil || c.Completions != nil {
		t.Errorf("it announces %+v, tools %+v", c, c.Tools)
	}
	list, err := client.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) < 10 {
		t.Fatalf("%d tools, %v", len(list.Tools), err)
	}
	for _, tool := range list.Tools {
		if tool.OutputSchema != nil || tool.InputSchema == nil || tool.Annotations == nil {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
}
