package rest

import (
	"context"
	"net/http"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/mcp"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// assistants serves /mcp. The tools that a request may call depend on the scopes of its token.
func (r *routes) assistants() http.Handler {
	scopes := []credential.Scope{
		credential.ScopeRead, credential.ScopeDispatch, credential.ScopeAdmin, credential.ScopeMCP,
	}
	return r.guard.protect(scopes, "", mcp.Handler(func(q *http.Request) (o mcp.Options, owner string) {
		t, from := tokenOf(q.Context()), callerOf(q.Context())
		from.Via = grants.ViaMCP
		o = *r.s.o.MCP
		o.Has, o.Dispatch = t.Has, r.submitter(t, from)
		o.Asker = r.Questions.For(from)
		o.Resolve = func(ctx context.Context, expr string) ([]target.PeelID, error) {
			if err := r.Check(ctx, from, access.Verb(api.TargetResolve.HTTP.Verb)); err != nil {
				return nil, err
			}
			return r.Questions.SelectFor(ctx, from, expr)
		}
		return o, t.Name
	}))
}
