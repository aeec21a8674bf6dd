package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// How many requests are answered. Guesses are unknown tokens from one address, which for IPv6 is a network of 64 bits;
// past the limit they are refused with 429.
const (
	requestsPerSecond = 20
	requestsAtOnce    = 40
	guessesAtOnce     = 10
	guessEvery        = 6 * time.Second
)

// A guard authorizes requests.
type guard struct {
	tokens  *token.Store
	check   func(context.Context, grants.Caller, access.Verb) error
	whole   func(context.Context, grants.Caller, access.Verb) error
	log     *slog.Logger
	audit   *audit.Log // nil: nothing is kept
	guesses *bounds.Limiter[netip.Prefix]
	asked   *bounds.Limiter[string] // by the token's name
}

func newGuard(b Backend, log *slog.Logger) *guard {
	return &guard{
		tokens: b.Tokens, check: b.Check, whole: b.CheckWhole, audit: b.Audit, log: log,
		guesses: bounds.NewLimiter[netip.Prefix](rate.Every(guessEvery), guessesAtOnce),
		asked:   bounds.NewLimiter[string](requestsPerSecond, requestsAtOnce),
	}
}

// A denial is why a request is refused.
type denial struct {
	status int
	detail string
	header http.Header // nil: none
}

// admit returns the token of a request if it has one of the scopes. The token is checked before anything is limited, so
// that wrong tokens never lock out a valid one from the same address.
func (g *guard) admit(r *http.Request, scopes []credential.Scope) (*credential.Token, *denial) {
	text, given := bounds.Bearer(r)
	if !given {
		return nil, &denial{
			http.StatusUnauthorized, "a bearer token is needed in the header Authorization",
			http.Header{"Www-Authenticate": {`Bearer realm="zester"`}},
		}
	}
	t, err := g.tokens.Authenticate(r.Context(), text)
	switch {
	case errors.Is(err, token.ErrUnknown), errors.Is(err, token.ErrEnded):
		return nil, g.refuse(r, err)
	case err != nil:
		g.log.Warn("token not read", "request", requestOf(r.Context()), "err", err)
		return nil, &denial{http.StatusServiceUnavailable, "tokens cannot be checked now", retryAfter(1)}
	}
	if !g.asked.Allow(t.Name) {
		return nil, &denial{
			http.StatusTooManyRequests,
			"the token is limited to " + strconv.Itoa(requestsPerSecond) + " requests a second", retryAfter(1),
		}
	}
	if only := t.Purpose(); only != "" && !slices.Contains(scopes, only) {
		return nil, g.forbid(r, t, fmt.Sprintf("the token opens /%s alone: it has the scope %s", only, only))
	}
	if !slices.ContainsFunc(scopes, t.Has) {
		return nil, g.forbid(r, t, "the token lacks the scope "+anyOf(scopes))
	}
	return t, nil
}

// forbid denies a request with a valid token. What would have changed something is in the audit log.
func (g *guard) forbid(r *http.Request, t *credential.Token, why string) *denial {
	g.log.Warn("token lacks the scope", "request", requestOf(r.Context()), "user", t.User(), "path", r.URL.Path)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		g.refused(r, grants.Caller{User: t.User(), From: host, Via: grants.ViaREST}, why)
	}
	return &denial{http.StatusForbidden, why, nil}
}

// refused writes an entry about a request that was refused before it reached a service.
func (g *guard) refused(r *http.Request, from grants.Caller, why string) {
	e := audit.Entry{Action: "rest." + strings.ToLower(r.Method), Target: r.URL.Path}
	g.audit.Write(r.Context(), e.Ended(errors.New(why), true).By(from))
}

// refuse denies a request whose token is not valid. An unknown token takes one of the guesses of its address; with none
// left the answer is 429, and the log gets no line, so that guessing costs one hash and one read. A token that has
// ended is no guess.
func (g *guard) refuse(r *http.Request, err error) *denial {
	if errors.Is(err, token.ErrUnknown) && !g.guesses.Allow(bounds.Source(r.RemoteAddr)) {
		return &denial{
			http.StatusTooManyRequests, "the token is unknown, and too many unknown tokens came from your address",
			retryAfter(int(guessEvery / time.Second)),
		}
	}
	g.log.Warn("token refused", "request", requestOf(r.Context()), "from", r.RemoteAddr, "path", r.URL.Path, "err", err)
	return &denial{
		http.StatusUnauthorized, err.Error(),
		http.Header{"Www-Authenticate": {`Bearer realm="zester", error="invalid_token"`}},
	}
}

func anyOf(scopes []credential.Scope) string {
	var names []string
	for _, s := range scopes {
		names = append(names, string(s))
	}
	return strings.Join(names, " or ")
}

// middleware calls an operation if the token of the request has one of its scopes, and bounds the time of the request.
func (g *guard) middleware(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	var scopes []credential.Scope
	for _, alternative := range ctx.Operation().Security {
		for _, scope := range alternative["token"] {
			scopes = append(scopes, credential.Scope(scope))
		}
	}
	token, denied := g.admit(r, scopes)
	if denied != nil {
		denied.write(w)
		return
	}
	trust(ctx.Context(), w)
	recorded := new(atomic.Bool)
	ctx = huma.WithValue(ctx, recordedKey{}, recorded)
	ctx = huma.WithValue(ctx, tokenKey{}, token)
	ctx = huma.WithValue(ctx, remoteKey{}, r.RemoteAddr)
	if ctx.Operation().OperationID != eventsID {
		limited, cancel := context.WithTimeout(ctx.Context(), answerTime)
		defer cancel()
		ctx = huma.WithContext(ctx, limited)
	}
	verb, _ := ctx.Operation().Metadata[verbKey].(string)
	if denied := g.ofMakers(r.WithContext(ctx.Context()), token, access.Verb(verb)); denied != nil {
		denied.write(w)
		return
	}
	next(ctx)
	if status := ctx.Status(); status >= 400 && status < 500 && r.Method != http.MethodGet && !recorded.Load() {
		g.refused(r, callerOf(ctx.Context()), strconv.Itoa(status)+" "+http.StatusText(status))
	}
}

// verbKey is the key of the verb in the metadata of an operation.
const verbKey = "verb"

// ofMakers denies a request with a token that those who made the token may not send, if this master carries it out. The
// service that carries out any other request decides about it.
func (g *guard) ofMakers(r *http.Request, t *credential.Token, verb access.Verb) *denial {
	_, what, _ := strings.Cut(string(verb), ".")
	if !wire.Reads(what) && verb != access.Verb(api.JobCancel.HTTP.Verb) {
		return nil
	}
	err := g.check(r.Context(), callerOf(r.Context()), verb)
	if err == nil && api.Showings()[string(verb)] == api.WholeFleet {
		err = g.whole(r.Context(), callerOf(r.Context()), verb)
	}
	switch {
	case errors.Is(err, grants.ErrNotAllowed):
		return g.forbid(r, t, sentence(err))
	case err != nil:
		g.log.Warn("rules not read", "request", requestOf(r.Context()), "err", err)
		return &denial{http.StatusServiceUnavailable, "what the token may do cannot be checked now", retryAfter(1)}
	}
	return nil
}

// trust gives the rest of a request with a valid token [answerTime], and its connection the times of trusted ones.
func trust(ctx context.Context, w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(answerTime))
	bounds.Trust(ctx)
}

// protect is middleware for a handler outside of the OpenAPI document. verb is what the rules about those who made the
// token have to allow; empty: the services that are asked decide.
func (g *guard) protect(scopes []credential.Scope, verb access.Verb, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, denied := g.admit(r, scopes)
		if denied != nil {
			denied.write(w)
			return
		}
		trust(r.Context(), w)
		ctx := context.WithValue(context.WithValue(r.Context(), tokenKey{}, token), remoteKey{}, r.RemoteAddr)
		r = r.WithContext(ctx)
		if denied := g.ofMakers(r, token, verb); denied != nil {
			denied.write(w)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (d *denial) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), d.header)
	problem(w, d.status, d.detail)
}

type (
	tokenKey   struct{}
	remoteKey  struct{}
	requestKey struct{}
	// recordedKey has an atomic.Bool: the request has an entry in the audit log, or a service that was asked to change
	// something has written one.
	recordedKey struct{}
)

// markRecorded notes that a request needs no further entry in the audit log.
func markRecorded(ctx context.Context) {
	if recorded, ok := ctx.Value(recordedKey{}).(*atomic.Bool); ok {
		recorded.Store(true)
	}
}

// callerOf returns the caller of an admitted request.
func callerOf(ctx context.Context) grants.Caller {
	host, _, _ := net.SplitHostPort(remoteOf(ctx))
	return grants.Caller{User: tokenOf(ctx).User(), From: host, Via: grants.ViaREST}
}

// remoteOf returns the HOST:PORT that an admitted request came from.
func remoteOf(ctx context.Context) string {
	remote, _ := ctx.Value(remoteKey{}).(string)
	return remote
}

// tokenOf returns the token of an admitted request.
func tokenOf(ctx context.Context) *credential.Token { return ctx.Value(tokenKey{}).(*credential.Token) }

func withRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

func requestOf(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}
