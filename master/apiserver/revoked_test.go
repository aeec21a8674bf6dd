package apiserver_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestARevokedPersonWhoIsStillConnectedMakesNoToken stores the revocation of a person whom the bus has not cut off yet.
func TestARevokedPersonWhoIsStillConnectedMakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var o apiserver.Options
		s.master("m1", func(with *apiserver.Options) {
			var err error
			with.Authority, err = auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: s.bus.Keys, JetStream: with.JetStream, Update: s.bus.Update})
			if err != nil {
				t.Fatal(err)
			}
			o = *with
		})
		mallory, ada := s.client(grants.RoleOperator, "mallory"), s.client(grants.RoleOperator, "ada")
		scopes := []credential.Scope{credential.ScopeRead}
		for _, name := range []string{"before", "rotated"} {
			if _, _, err := ada.TokenCreate(t.Context(), credential.TokenRequest{Name: name, Scopes: scopes}); err != nil {
				t.Fatal(err)
			}
		}
		js, err := jetstream.New(s.bus.Conn(t, grants.RoleMaster, "m2"))
		if err != nil {
			t.Fatal(err)
		}
		users, err := js.KeyValue(t.Context(), "users")
		if err != nil {
			t.Fatal(err)
		}
		put := func(u credential.User) {
			t.Helper()
			data, err := canon.Marshal(u)
			if err == nil {
				_, err = users.Put(t.Context(), u.Name, data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		put(credential.User{Name: "mallory", Role: grants.RoleOperator})
		// Masters have read the person's record just now, and take it for current.
		if _, err := api.TokenList.Ask(t.Context(), mallory, api.NamesRequest{}); err != nil {
			t.Fatal(err)
		}
		put(credential.User{Name: "mallory", Role: grants.RoleOperator, Revoked: time.Now()})
		if _, _, err := mallory.TokenCreate(t.Context(), credential.TokenRequest{Name: "late", Scopes: scopes}); err == nil || !strings.Contains(err.Error(), "mallory was revoked") {
			t.Errorf("creates a token: %v", err)
		}
		if _, _, err := mallory.TokenRotate(t.Context(), credential.TokenRequest{Name: "rotated"}); err == nil || !strings.Contains(err.Error(), "mallory was revoked") {
			t.Errorf("rotates a token: %v", err)
		}
		if _, _, err := mallory.JoinCreate(t.Context(), credential.JoinRequest{Name: "late", Peel: "*", Uses: 5, TTL: time.Hour}); err == nil || !strings.Contains(err.Error(), "mallory was revoked") {
			t.Errorf("creates a join token: %v", err)
		}
		if joins, err := o.Authority.Hosts.JoinTokens(t.Context()); err != nil || slices.ContainsFunc(joins, func(j credential.JoinToken) bool { return j.Uses > 0 }) {
			t.Errorf("join tokens: %+v, %v", joins, err)
		}
		if creds, _, err := mallory.UserAdd(t.Context(), credential.UserRequest{Name: "second", Role: grants.RoleOperator}); err == nil || len(creds) > 0 || !strings.Contains(err.Error(), "mallory was revoked") {
			t.Errorf("adds a user: %v", err)
		}
		if all, err := o.Authority.Users.List(t.Context()); err != nil || slices.ContainsFunc(all, func(u credential.User) bool { return u.Name == "second" && u.Revoked.IsZero() }) {
			t.Errorf("users: %+v, %v", all, err)
		}
		tokens, err := o.Tokens.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var inForce []string
		for _, token := range tokens {
			if token.Revoked.IsZero() {
				inForce = append(inForce, token.Name)
			}
		}
		if !slices.Equal(inForce, []string{"before"}) {
			t.Errorf("in force: %v", inForce)
		}
	})
}

func TestTheOpenJobsOfARevokedTokenAreCanceled(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var submit *dispatch.Dispatcher
		var store *job.Store
		s.master("m1", func(with *apiserver.Options) { submit, store = with.Dispatch, with.Store })
		ada := s.client(grants.RoleOperator, "ada")
		for _, name := range []string{"ci", "other"} {
			if _, _, err := ada.TokenCreate(t.Context(), credential.TokenRequest{Name: name, Scopes: []credential.Scope{credential.ScopeDispatch}}); err != nil {
				t.Fatal(err)
			}
		}
		jobs := map[string]wire.JID{}
		for _, user := range []string{"token:ci", "token:other", "ci"} {
			spec := job.Spec{JID: wire.NewJID(), Function: "test.ping", Targets: []target.PeelID{"away"}, TargetExpr: "away", Timeout: time.Minute, WhenOnline: time.Hour}
			if _, err := submit.Submit(t.Context(), spec, user); err != nil {
				t.Fatal(err)
			}
			jobs[user] = spec.JID
		}
		ended, err := api.TokenRevoke.Ask(t.Context(), ada, api.TokenName{Name: "ci"})
		if err != nil || !slices.Equal(ended.Jobs, []wire.JID{jobs["token:ci"]}) {
			t.Fatalf("%+v, %v; want %v", ended, err, jobs)
		}
		time.Sleep(2 * time.Minute)
		for user, jid := range jobs {
			j, err := store.Get(t.Context(), jid)
			if err != nil || (j.Status == job.Canceled) != (user == "token:ci") {
				t.Errorf("%s: %+v, %v", user, j, err)
			}
		}
	})
}
