package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth"
)

// TestWhatARevokedPersonMakesMeanwhileIsEnded has requests arrive between the record of a revocation and the end of the
// person's connections.
func TestWhatARevokedPersonMakesMeanwhileIsEnded(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		authority, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{
			Keys: s.bus.Keys, JetStream: s.bus.JetStream(t), Update: func(context.Context, string) error { return nil }, // which leaves connections open
		})
		if err != nil {
			t.Fatal(err)
		}
		s.master("m1", func(o *api.ServerOptions) { o.Authority = authority })
		boss, mallory := s.client(auth.RoleOperator, "boss"), s.client(auth.RoleOperator, "mallory")
		if _, _, err := boss.UserAdd(t.Context(), auth.UserRequest{Name: "mallory", Role: auth.RoleOperator, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		token := func(name string) auth.TokenRequest {
			return auth.TokenRequest{Name: name, Scopes: []auth.Scope{auth.ScopeRead}, TTL: time.Hour}
		}
		if _, _, err := boss.TokenCreate(t.Context(), token("bosses")); err != nil {
			t.Fatal(err)
		}
		if _, err := authority.RevokeUser(t.Context(), "mallory", "boss"); err != nil {
			t.Fatal(err)
		}
		for what, f := range map[string]func() error{
			"a token":              func() error { _, _, err := mallory.TokenCreate(t.Context(), token("late")); return err },
			"a token's new secret": func() error { _, _, err := mallory.TokenRotate(t.Context(), token("bosses")); return err },
			"a user": func() error {
				_, _, err := mallory.UserAdd(t.Context(), auth.UserRequest{Name: "friend", Role: auth.RoleOperator, TTL: time.Hour})
				return err
			},
			"a join token": func() error {
				_, _, err := mallory.JoinCreate(t.Context(), auth.JoinRequest{Name: "late", Peel: "*", Uses: 1, TTL: time.Hour})
				return err
			},
		} {
			t.Log(what)
			wantCode(t, f(), api.CodeForbidden)
		}
		tokens, err := boss.TokenList(t.Context())
		if err != nil || len(tokens) != 2 || tokens[0].Revoked.IsZero() || tokens[1].Revoked.IsZero() {
			t.Errorf("%+v, %v", tokens, err)
		}
		users, err := boss.UserList(t.Context())
		if err != nil || len(users) != 2 || users[0].Name != "friend" || users[0].Revoked.IsZero() {
			t.Errorf("%+v, %v", users, err)
		}
		joins, err := authority.JoinTokens(t.Context())
		if err != nil || len(joins) > 0 && joins[0].Uses > 0 {
			t.Errorf("%+v, %v", joins, err)
		}
	})
}
