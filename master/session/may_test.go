package session_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/session"
	"github.com/seed-c01c3da5/zester/peel/wire"
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

// TestASessionOfATokenMayWhatRESTOpens compares, for each request and scope, a session of a token with the scopes of the
// route, which the deny matrix of package rest tries.
func TestASessionOfATokenMayWhatRESTOpens(t *testing.T) {
	compared := 0
	for _, row := range api.Verbs() {
		noun, verb, _ := strings.Cut(row, ".")
		route := api.RouteOf(noun, verb)
		for _, scope := range []credential.Scope{
			credential.ScopeRead, credential.ScopeDispatch, credential.ScopeSync, credential.ScopeAdmin,
		} {
			got := session.May(&api.Session{User: "token:ci", Scopes: []credential.Scope{scope}}, noun, verb)
			switch {
			case route == nil && !wire.Reads(verb) && scope != credential.ScopeAdmin && row != "session.end":
				if got {
					t.Errorf("%s has no route, and the scope %s opens it in the console", row, scope)
				}
				continue
			case route == nil:
				continue // a page of the console, which an auditor sees
			}
			compared++
			want := scope == credential.ScopeAdmin || slices.Contains(route.Scopes, scope)
			switch {
			case verb == "approve": // over REST, a program names the hash of the plan that it has judged
				want = false
			case wire.Reads(verb) && scope == credential.ScopeDispatch: // over REST, of jobs and actions of the token alone
				want = false
			}
			if got != want {
				t.Errorf("the scope %s opens %s: %v in the console, %v over REST", scope, row, got, want)
			}
		}
	}
	if compared < 100 {
		t.Errorf("%d pairs of a route and a scope", compared)
	}
}
