package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// covered starts a master that has the keys and follows schedules, and returns a second server of it. Lee is limited to
// web-01.
func (s *system) covered() *apiserver.Server {
	s.t.Helper()
	var o apiserver.Options
	s.master("m1", func(with *apiserver.Options) {
		with.Authority = s.authority(func(context.Context, string) error { return nil })
		with.Within = func(_ context.Context, from grants.Caller) (access.Peels, error) {
			return access.Peels{All: from.User != "lee", IDs: []target.PeelID{"web-01"}}, nil
		}
		table, err := coverage.New(coverage.Options{JetStream: with.JetStream, Fleet: with.Fleet})
		if err != nil {
			s.t.Fatal(err)
		}
		with.Coverage = table
		o = *with
		s.run(table.Run)
	})
	<-o.Coverage.Ready()
	synctest.Wait()
	return apiserver.New(o)
}

// run runs a service until the test ends.
func (s *system) run(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() { cancel(); running.Wait() })
}

// enrolled stores the record of a host, which is in its state since an hour.
func (s *system) enrolled(id target.PeelID, state credential.EnrollState, by string) {
	s.t.Helper()
	e := credential.Enrolled{ID: id, State: state, Public: "UA" + string(id), From: "192.0.2.7"}
	for range 20 {
		e.History = append(e.History, credential.Step{State: state, By: by, Time: time.Now().Add(-time.Hour)})
	}
	data, err := canon.Marshal(e)
	if err != nil {
		s.t.Fatal(err)
	}
	kv, err := s.bus.JetStream(s.t).KeyValue(s.t.Context(), wire.BucketEnroll)
	if err == nil {
		_, err = kv.Create(s.t.Context(), "peel."+id.Wire(), data)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// The records of all hosts exceed a message of the bus. Those who may list them see the one that waits.
func TestWhoSeesTheHostsThatAskToJoin(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		server := s.covered()
		for i := range 100 {
			s.enrolled(target.PeelID(fmt.Sprintf("web-%02d", i)), credential.Accepted, strings.Repeat("x", 1000))
		}
		s.enrolled("db-01", credential.Pending, "host")
		tokens := s.client(grants.RoleOperator, "boss")
		for name, scopes := range map[string][]credential.Scope{
			"reader": {credential.ScopeRead, credential.ScopeSync}, "admin": {credential.ScopeAdmin},
		} {
			q := credential.TokenRequest{Name: name, Scopes: scopes}
			if _, _, err := tokens.TokenCreate(t.Context(), q); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			from grants.Caller
			sees bool
		}{
			{grants.Caller{User: "ann", Role: grants.RoleAuditor}, true},
			{grants.Caller{User: "boss", Role: grants.RoleOperator}, true},
			{grants.Caller{User: "lee", Role: grants.RoleLimited}, false},
			{grants.Caller{User: "token:reader", Via: grants.ViaREST}, false},
			{grants.Caller{User: "token:reader", Role: grants.RoleAuditor, Via: grants.ViaConsole}, false},
			{grants.Caller{User: "token:admin", Via: grants.ViaREST}, true},
		} {
			now, err := server.Now(t.Context(), c.from)
			if err != nil {
				t.Fatal(err)
			}
			all, err := server.Approvals(t.Context(), c.from)
			if err != nil {
				t.Fatal(err)
			}
			for request, waiting := range map[string][]api.Waiting{"now": now.Waiting, "approvals": all.Waiting} {
				is := func(w api.Waiting) bool { return w.Kind == api.WaitingEnroll && w.ID == "db-01" }
				if got := slices.ContainsFunc(waiting, is); got != c.sees || len(waiting) > 1 {
					t.Errorf("%s of %+v: %+v; sees the host: want %v", request, c.from, waiting, c.sees)
				}
			}
		}
	})
}

// What waits names a part of the hosts that ask to join if all exceed a message of the bus, and says so.
func TestWhatWaitsSaysThatMoreHostsAskToJoin(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		server := s.covered()
		for i := range 100 {
			s.enrolled(target.PeelID(fmt.Sprintf("web-%02d", i)), credential.Pending, strings.Repeat("x", 1000))
		}
		all, err := server.Approvals(t.Context(), grants.Caller{User: "boss", Role: grants.RoleOperator})
		if err != nil {
			t.Fatal(err)
		}
		n := len(all.Waiting)
		want := fmt.Sprintf("more hosts ask to join than these %d: zester auth peel list --state pending shows all", n)
		if n == 0 || n == 100 || !slices.Contains(all.Missing, want) {
			t.Errorf("%d hosts wait, missing %q", n, all.Missing)
		}
	})
}

func TestNowSaysWhichServicesDidNotReply(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		server := s.covered()
		ann := grants.Caller{User: "ann", Role: grants.RoleAuditor}
		now, err := server.Now(t.Context(), ann)
		want := []string{
			"no master serves held actions just now", "no reconciler replies: no master runs with a config repo",
		}
		if err != nil || !slices.Equal(now.Missing, want) {
			t.Errorf("%+v, %v; want %q missing", now, err, want)
		}

		gone := grants.Caller{User: "token:gone", Via: grants.ViaREST}
		if now, err = server.Now(t.Context(), gone); err != nil || len(now.Missing) != 3 ||
			!strings.Contains(now.Missing[2], "no such token: gone") {
			t.Errorf("%+v, %v", now, err)
		}
	})
}
