package session

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

func TestRolesOfScopes(t *testing.T) {
	for want, scopes := range map[grants.Role][]credential.Scope{
		grants.RoleOperator: {credential.ScopeDispatch, credential.ScopeAdmin},
		grants.RoleLimited:  {credential.ScopeRead, credential.ScopeDispatch},
		grants.RoleAuditor:  {credential.ScopeSync, credential.ScopeRead},
	} {
		if got := RoleOf(scopes); got != want {
			t.Errorf("%q: %s, want %s", scopes, got, want)
		}
	}
	for role, want := range map[grants.Role]bool{
		grants.RoleOperator: true, grants.RoleDirect: true, grants.RoleLimited: false, grants.RoleAuditor: false,
	} {
		if IsOperator(role) != want {
			t.Errorf("%s ends the sessions of others: %v", role, !want)
		}
	}
}

func TestTimesOfSessions(t *testing.T) {
	for _, c := range []struct {
		options Options
		ok      bool
	}{
		{Options{}, true},
		{Options{Idle: minIdle}, true},
		{Options{Idle: minIdle - 1}, false},
		{Options{Idle: -time.Hour}, false},
		{Options{Lifetime: maxLifetime}, true},
		{Options{Lifetime: maxLifetime + 1}, false},
		{Options{Lifetime: -1}, false},
	} {
		if err := c.options.Check(); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.options, err)
		}
	}
}
