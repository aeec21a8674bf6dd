package apiserver_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

func TestCallsOfAssistantsAreRecordedAndBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var log *audit.Log
		s.master("m1", func(o *apiserver.Options) {
			log = audit.OpenLog(o.JetStream, slog.New(slog.DiscardHandler))
			o.Audit = log
		})
		ann, bob := s.client(grants.RoleAuditor, "ann"), s.client(grants.RoleLimited, "bob")
		record := func(c *api.Client, q audit.Call) api.Code {
			return api.CodeOf(c.Ask(t.Context(), "agent", "record", q, &struct{}{}))
		}
		good := audit.Call{Tool: "why", Args: `{"entry":"e"}`, Agent: "robot 7"}
		for i := range 600 {
			if code := record(ann, good); code != "" {
				t.Fatalf("call %d: %v", i, code)
			}
		}
		if code := record(ann, good); code != api.CodeConflict {
			t.Errorf("call 601: %v", code)
		}
		if code := record(bob, audit.Call{Tool: "dispatch", Agent: "robot 7", Refused: "no"}); code != "" {
			t.Errorf("another user: %v", code)
		}
		time.Sleep(7 * time.Second)
		if code := record(ann, good); code != "" {
			t.Errorf("6 s later: %v", code)
		}
		for name, q := range map[string]audit.Call{
			"no tool":         {Agent: "a"},
			"two lines":       {Tool: "a\nb", Agent: "a"},
			"no agent":        {Tool: "a"},
			"a long agent":    {Tool: "a", Agent: strings.Repeat("a", 101)},
			"turned around":   {Tool: "a", Agent: "a\u202eb"},
			"no UTF-8":        {Tool: "a", Agent: "a\xff"},
			"large arguments": {Tool: "a", Agent: "a", Args: strings.Repeat("a", 1025)},
			"a long reason":   {Tool: "a", Agent: "a", Refused: strings.Repeat("a", 1025)},
		} {
			if code := record(bob, q); code != api.CodeInvalid {
				t.Errorf("%s: %v", name, code)
			}
		}
		page, err := log.List(t.Context(), audit.Query{Limit: 500})
		if err != nil {
			t.Fatal(err)
		}
		e := page.Entries[1]
		if e.User != "bob" || e.Action != "agent.call" || e.Target != "dispatch" || e.Agent != "robot 7" || e.Result != audit.Refused || e.Reason != "no" {
			t.Errorf("%+v", e)
		}
		if e = page.Entries[0]; e.User != "ann" || e.Args != good.Args || e.Result != audit.Asked || page.Entries[2].User != "ann" {
			t.Errorf("%+v", e)
		}
	})
}

func TestACallThatIsNotInTheLogIsNotCarriedOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var log *audit.Log
		s.master("m1", func(o *apiserver.Options) {
			log = audit.OpenLog(o.JetStream, slog.New(slog.DiscardHandler))
			o.Audit = log
		})
		ann := s.client(grants.RoleAuditor, "ann")
		record := func() error {
			return ann.Ask(t.Context(), "agent", "record", audit.Call{Tool: "why", Agent: "robot 7"}, &struct{}{})
		}
		if err := record(); err != nil {
			t.Fatal(err)
		}
		for range 1100 { // as many as are kept of one user
			log.Write(t.Context(), audit.Entry{Action: "agent.call", User: "ann", Result: audit.Asked})
		}
		if err := record(); api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), "not in the audit log") {
			t.Errorf("a call that is left out may be carried out: %v", err)
		}
	})
}

func FuzzNamesOfAssistants(f *testing.F) {
	f.Add("claude-code", "2.1")
	f.Add("\x00\u202e", "\xff\n")
	f.Add(strings.Repeat("ä", 80), "")
	f.Fuzz(func(t *testing.T, name, version string) {
		c := audit.Call{Tool: audit.ToolName(name), Agent: audit.AgentName(name, version)}
		if _, err := c.Entry(); err != nil {
			t.Errorf("%q %q: %+v: %v", name, version, c, err)
		}
	})
}
