package mcp

import (
	"context"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-c01c3da5/zester/master/rest/bounds"
)

// Bounds of requests over HTTP.
const (
	maxBody      = 1 << 20 // bytes
	maxCalls     = 64      // at the same time
	maxCallsEach = 8       // of one owner
)

type optionsKey struct{}

// Handler serves assistants over streamable HTTP. options returns those of a request whose token was checked, and the
// name of the token. There are no sessions: each request stands alone and may go to any master, so a token that was
// revoked ends at once. A request that a browser makes for a page of another site is refused.
func Handler(options func(*http.Request) (o Options, owner string)) http.Handler {
	calls, acted := bounds.NewCounter(maxCalls), newActed()
	h := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		return New(r.Context().Value(optionsKey{}).(Options))
	}, &sdk.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true,
	})
	return http.NewCrossOriginProtection().Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o, owner := options(r)
		o.owner, o.acted = owner, acted
		slot := bounds.Slot{Key: owner, Most: maxCallsEach}
		if !calls.Enter(slot) {
			http.Error(w, "too many calls of assistants at once", http.StatusTooManyRequests)
			return
		}
		defer calls.Leave(slot)
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), optionsKey{}, o)))
	}))
}
