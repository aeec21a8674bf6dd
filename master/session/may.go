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
	return slices.ContainsFunc(s.Scopes, func(scope credential.Scope) bool { return opens(scope, noun, verb) })
}

// opens reports whether a scope opens a request in the console. The route of the request decides, if it has one. Over
// REST the scope dispatch also shows the jobs that its token made; pages show the jobs of everybody, and need the scope
// read.
func opens(scope credential.Scope, noun, verb string) bool {
	route := api.RouteOf(noun, verb)
	switch {
	case scope == credential.ScopeAdmin:
		return grants.May(grants.RoleOperator, noun, verb)
	case wire.Reads(verb) && scope != credential.ScopeRead:
		return false
	case route != nil:
		return slices.Contains(route.Scopes, scope)
	}
	return scope == credential.ScopeRead && wire.Reads(verb) && grants.May(grants.RoleAuditor, noun, verb)
}
