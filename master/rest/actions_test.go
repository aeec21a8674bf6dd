package rest_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/hold"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// hold has another master serve held actions of a fleet of one peel.
func (s *system) hold() {
	s.t.Helper()
	js, err := jetstream.New(s.bus.Conn(s.t, grants.RoleMaster, "m4"))
	if err != nil {
		s.t.Fatal(err)
	}
	jobs, err := job.NewStore(s.t.Context(), js)
	if err != nil {
		s.t.Fatal(err)
	}
	service := hold.New(hold.Options{
		JetStream: js, Jobs: jobs,
		Select: func(context.Context, grants.Caller, string) ([]target.PeelID, error) {
			return []target.PeelID{"web-01"}, nil
		},
		Allow: func(ctx context.Context, from grants.Caller, spec *job.Spec) error {
			name, _ := credential.TokenNameOf(from.User)
			return s.tokens.Allow(ctx, name, spec.Function, spec.Targets, nil)
		},
		CheckNotRevoked: func(context.Context, string) error { return nil },
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = service.Run(ctx) })
	s.t.Cleanup(func() { cancel(); running.Wait() })
	synctest.Wait()
}

// asksFor stores an action in the name of a token, as the tools of assistants do.
func (s *system) asksFor(token, reason string) (*api.HoldAction, error) {
	s.t.Helper()
	q := api.HoldAddRequest{
		Kind: api.HoldDispatch, Target: "web-01", Hash: audit.PeelsHash([]target.PeelID{"web-01"}), Module: "cmd.run", Args: map[string]any{"command": "reboot"},
		Reason: reason, Agent: "helper 1.2",
	}
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	return api.HoldAdd.Ask(ctx, s.backend.Questions.For(grants.Caller{User: "token:" + token}), q)
}

const rejectHeld = "/api/v1/held/{id}/reject"

// provokeHeld asks in every way that has an answer of its own.
func (s *system) provokeHeld(check func(method, path string, a answer)) {
	s.t.Helper()
	s.hold()
	helper := s.token(credential.TokenRequest{Name: "helper", Scopes: []credential.Scope{run}})
	a, err := s.asksFor("helper", "a new kernel")
	if err != nil {
		s.t.Fatal(err)
	}
	show := "/api/v1/held/" + string(a.ID)
	check("GET", "/api/v1/held", s.ask(helper, "GET", "/api/v1/held", nil))
	check("GET", "/api/v1/held/{id}", s.ask(helper, "GET", show, nil))
	unknown := "/api/v1/held/" + string(wire.NewJID())
	check("GET", "/api/v1/held/{id}", s.ask(helper, "GET", unknown, nil))
	for range 2 {
		check("POST", rejectHeld, s.ask(helper, "POST", show+"/reject", nil))
	}
	check("POST", rejectHeld, s.ask(helper, "POST", unknown+"/reject", nil))
}

func TestATokenSeesAndWithdrawsItsOwnActions(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.hold()
		helper := s.token(credential.TokenRequest{Name: "helper", Scopes: []credential.Scope{run}})
		other := s.token(credential.TokenRequest{Name: "other", Scopes: []credential.Scope{credential.ScopeAdmin}})
		a, err := s.asksFor("helper", "a new kernel")
		if err != nil {
			t.Fatal(err)
		}
		show := "/api/v1/held/" + string(a.ID)
		page := want[api.HoldPage](t, s.ask(helper, "GET", "/api/v1/held", nil), 200)
		if len(page.Actions) != 1 || page.Actions[0].ID != a.ID || page.Actions[0].By != "token:helper" || page.Actions[0].State != api.HoldOpen {
			t.Errorf("%+v", page)
		}
		if got := want[api.HoldShown](t, s.ask(helper, "GET", show, nil), 200); got.Args["command"] != "reboot" || len(got.Names) != 1 {
			t.Errorf("%+v", got)
		}
		if page := want[api.HoldPage](t, s.ask(other, "GET", "/api/v1/held?all=true", nil), 200); len(page.Actions) != 0 {
			t.Errorf("another token sees %+v", page)
		}
		refused(t, s.ask(other, "GET", show, nil), 404, "there is no held action")
		refused(t, s.ask(other, "POST", show+"/reject", nil), 404, "there is no held action")
		refused(t, s.ask(helper, "POST", show+"/approve", nil), 404, "no such route")
		if got := want[api.HoldAction](t, s.ask(helper, "POST", show+"/reject", nil), 200); got.State != api.HoldRejected || got.DecidedBy != "token:helper" {
			t.Errorf("%+v", got)
		}
		if page := want[api.HoldPage](t, s.ask(helper, "GET", "/api/v1/held", nil), 200); len(page.Actions) != 0 {
			t.Errorf("%+v", page)
		}
		if page := want[api.HoldPage](t, s.ask(helper, "GET", "/api/v1/held?all=true", nil), 200); len(page.Actions) != 1 {
			t.Errorf("%+v", page)
		}
		refused(t, s.ask(helper, "POST", show+"/reject", nil), 409, "was rejected by token:helper")
		s.token(credential.TokenRequest{Name: "viewer", Scopes: []credential.Scope{read}})
		if _, err := s.asksFor("viewer", "a new kernel"); api.CodeOf(err) != api.CodeForbidden || !strings.Contains(err.Error(), "lacks the scope dispatch") {
			t.Errorf("a token that only reads asked for an action: %v", err)
		}
	})
}
