package session_test

import (
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/session"
)

func TestTokensDoNotDecide(t *testing.T) {
	for _, row := range []struct {
		scope      credential.Scope // empty: the session of an operator
		noun, verb string
		want       bool
	}{
		{"", "sync", "adopt", true},
		{"", "sync", "approve", true},
		{"", "peel", "rekey", true},
		{credential.ScopeSync, "sync", "adopt", false},
		{credential.ScopeSync, "sync", "approve", false},
		{credential.ScopeSync, "sync", "pause", true},
		{credential.ScopeAdmin, "sync", "adopt", false},
		{credential.ScopeAdmin, "sync", "approve", false},
		{credential.ScopeAdmin, "peel", "rekey", false},
		{credential.ScopeAdmin, "token", "create", false},
		{credential.ScopeAdmin, "token", "list", true},
		{credential.ScopeAdmin, "sync", "pause", true},
	} {
		s := &api.Session{User: "ann", Role: grants.RoleOperator}
		if row.scope != "" {
			s.Scopes = []credential.Scope{row.scope}
		}
		if got := session.May(s, row.noun, row.verb); got != row.want {
			t.Errorf("May of %s.%s with the scope %q: %v, want %v", row.noun, row.verb, row.scope, got, row.want)
		}
	}
}
