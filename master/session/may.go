package session

import (
	"slices"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// credentials are the nouns of requests that make or end credentials. Sessions of tokens only read them.
var credentials = []string{"user", "token", "enroll", "join", "site", "master", "auth"}

// May reports whether a session may send masters the request of a noun and a verb: what the bus lets the role of its
// person do, and for a token what one of its scopes says. No token approves anything, replaces a key of a peel, makes
// the fleet follow another repo, or makes credentials. Any session sees and ends the sessions of its user.
func May(s *api.Session, noun, verb string) bool {
	switch {
	case noun == "session" && (verb == "list" || verb == "end"):
		return true
	case s.Scopes == nil:
		return grants.May(s.Role, noun, verb)
	case verb == "approve", verb == "adopt", verb == "rekey", noun == "session":
		return false
	case slices.Contains(credentials, noun) && !wire.Reads(verb):
		return false
	}
	return slices.ContainsFunc(s.Scopes, func(scope credential.Scope) bool {
		return grants.May(roleFor(scope, noun, verb), noun, verb)
	})
}

// roleFor returns the role as which the bearer of a scope sends a request; "": not at all.
func roleFor(scope credential.Scope, noun, verb string) grants.Role {
	switch scope {
	case credential.ScopeAdmin:
		return grants.RoleOperator
	case credential.ScopeDispatch:
		return grants.RoleLimited
	case credential.ScopeSync:
		if noun == "sync" || noun == "alert" {
			return grants.RoleOperator
		}
	case credential.ScopeRead:
		if wire.Reads(verb) {
			return grants.RoleAuditor
		}
	}
	return ""
}
