package rest

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
)

// How many requests are answered. Guesses are unknown tokens from one address, which for IPv6 is a network of 64 bits; past
// the limit they are refused with 429.
const (
	requestsPerSecond = 20
	requestsAtOnce    = 40
	guessesAtOnce     = 10
	guessEvery        = 6 * time.Second
)

// A guard decides who may ask.
type guard struct {
	tokens  *token.Store
	log     *slog.Logger
	guesses *limiter[netip.Prefix]
	asked   *limiter[string] // by the token's name
}

func newGuard(tokens *token.Store, log *slog.Logger) *guard {
	return &guard{
		tokens: tokens, log: log,
		guesses: newLimiter[netip.Prefix](rate.Every(guessEvery), guessesAtOnce),
		asked:   newLimiter[string](requestsPerSecond, requestsAtOnce),
	}
}

// A denial is why somebody may not ask.
type denial struct {
	status int
	detail string
	header http.Header // nil: none
}

// admit returns the token of a request that has one of the scopes. The token is checked before anything is limited, so that
// wrong tokens never lock out a valid one from the same address.
func (g *guard) admit(r *http.Request, scopes []credential.Scope) (*credential.Token, *denial) {
	text, given := bearer(r)
	if !given {
		return nil, &denial{http.StatusUnauthorized, "this needs one bearer token in the header Authorization", http.Header{"Www-Authenticate": {`Bearer realm="zester"`}}}
	}
	t, err := g.tokens.Authenticate(r.Context(), text)
	switch {
	case errors.Is(err, token.ErrUnknown), errors.Is(err, token.ErrEnded):
		return nil, g.refuse(r, err)
	case err != nil:
		g.log.Warn("token not read", "request", requestOf(r.Context()), "err", err)
		return nil, &denial{http.StatusServiceUnavailable, "tokens cannot be checked just now", retryAfter(1)}
	}
	if !g.asked.of(t.Name).Allow() {
		return nil, &denial{http.StatusTooManyRequests, "the token asks too often: " + strconv.Itoa(requestsPerSecond) + " requests a second are allowed", retryAfter(1)}
	}
	if !slices.ContainsFunc(scopes, t.Has) {
		g.log.Warn("token lacks the scope", "request", requestOf(r.Context()), "user", t.User(), "path", r.URL.Path)
		return nil, &denial{http.StatusForbidden, "the token has not the scope " + anyOf(scopes), nil}
	}
	return t, nil
}

// refuse denies a request whose token is not valid. An unknown token takes one of the guesses of its address; with none left
// the answer is 429, and the log gets no line, so that guessing costs one hash and one read. A token that has ended is no
// guess.
func (g *guard) refuse(r *http.Request, err error) *denial {
	if errors.Is(err, token.ErrUnknown) && !g.guesses.of(source(r.RemoteAddr)).Allow() {
		return &denial{http.StatusTooManyRequests, "the token is not known, and too many unknown tokens came from your address", retryAfter(int(guessEvery / time.Second))}
	}
	g.log.Warn("token refused", "request", requestOf(r.Context()), "from", r.RemoteAddr, "path", r.URL.Path, "err", err)
	return &denial{http.StatusUnauthorized, err.Error(), http.Header{"Www-Authenticate": {`Bearer realm="zester", error="invalid_token"`}}}
}

func anyOf(scopes []credential.Scope) string {
	var names []string
	for _, s := range scopes {
		names = append(names, string(s))
	}
	return strings.Join(names, " or ")
}

// bearer is the one token that a request gives; given is false where it gives none at all.
func bearer(r *http.Request) (text string, given bool) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", false
	}
	scheme, text, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return "", true
	}
	return text, true
}

// source returns the network that a remote address HOST:PORT belongs to: 32 bits of IPv4 or 64 bits of IPv6. Headers in
// which proxies name another address are not read, because anybody can write them.
func source(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 64
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 32
	}
	network, _ := ip.Prefix(bits)
	return network
}

// middleware lets a request to its operation if the operation's scopes allow it, and bounds its time.
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
	ctx = huma.WithValue(ctx, tokenKey{}, token)
	ctx = huma.WithValue(ctx, remoteKey{}, r.RemoteAddr)
	if ctx.Operation().OperationID != eventsID {
		limited, cancel := context.WithTimeout(ctx.Context(), answerTime)
		defer cancel()
		ctx = huma.WithContext(ctx, limited)
	}
	next(ctx)
}

// protect is middleware for a handler that is no operation.
func (g *guard) protect(scope credential.Scope, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, denied := g.admit(r, []credential.Scope{scope}); denied != nil {
			denied.write(w)
			return
		}
		trust(r.Context(), w)
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
)

// callerOf returns the caller of a request that was admitted.
func callerOf(ctx context.Context) grants.Caller {
	host, _, _ := net.SplitHostPort(remoteOf(ctx))
	return grants.Caller{User: tokenOf(ctx).User(), From: host}
}

// remoteOf returns the HOST:PORT that an admitted request came from.
func remoteOf(ctx context.Context) string {
	remote, _ := ctx.Value(remoteKey{}).(string)
	return remote
}

// tokenOf is the token of a request that was admitted.
func tokenOf(ctx context.Context) *credential.Token { return ctx.Value(tokenKey{}).(*credential.Token) }

func withRequest(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

func requestOf(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// requestID is the one that the asker chose, or else a random one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	plain := func(b rune) bool {
		return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '-' || b == '_' || b == '.'
	}
	if id == "" || len(id) > 64 || strings.ContainsFunc(id, func(b rune) bool { return !plain(b) }) {
		return rand.Text()
	}
	return id
}
