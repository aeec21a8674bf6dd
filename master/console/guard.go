package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/master/session"
)

// secure sets the headers of every answer.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Names of cookies. A browser takes the prefix __Host- over TLS alone; a proxy on loopback uses the plain name.
const (
	tlsCookie   = "__Host-zester"
	plainCookie = "zester"
	themeCookie = "zester_theme"
	keysCookie  = "zester_keys"
)

func cookieName(r *http.Request) string {
	if r.TLS != nil {
		return tlsCookie
	}
	return plainCookie
}

func cookieOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// setCookie sets the cookie of a session, or removes it if value is empty. It has no end of its own: the session has.
func setCookie(w http.ResponseWriter, r *http.Request, value string) {
	cookie := http.Cookie{
		Name: cookieName(r), Value: value, Path: "/",
		HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, &cookie)
}

func theme(r *http.Request) string {
	cookie, err := r.Cookie(themeCookie)
	if err != nil || cookie.Value != "light" && cookie.Value != "dark" {
		return ""
	}
	return cookie.Value
}

func keysOn(r *http.Request) bool {
	cookie, err := r.Cookie(keysCookie)
	return err != nil || cookie.Value != "off"
}

// within calls serve with the session of a request. A browser without one is led to the login.
func (c *Console) within(serve func(*visit)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit := pageTime
		if r.Method == http.MethodPost {
			limit = orderTime
		}
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		if v, ok := c.enter(w, r.WithContext(ctx)); ok {
			serve(v)
		}
	}
}

// enter returns the visit of a request with a session. It answers any other request.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) (v *visit, ok bool) {
	v = &visit{w: w, r: r, request: w.Header().Get("X-Request-Id")}
	if _, given := bounds.Bearer(r); given {
		c.plain(w, r, http.StatusUnauthorized, "bearer tokens open /api/v1, and pages are opened by a login")
		return nil, false
	}
	s, err := c.o.Sessions.Authenticate(r.Context(), cookieOf(r), !refreshes(r))
	if err != nil {
		c.turnAway(v, err)
		return nil, false
	}
	bounds.Trust(r.Context())
	if !c.asked.Allow(s.ID) {
		w.Header().Set("Retry-After", "1")
		c.plain(w, r, http.StatusTooManyRequests, "this session has sent too many requests: wait a second")
		return nil, false
	}
	v.session = s
	versions, _ := c.live.Now()
	v.nav = versions.Of("nav")
	by := c.caller(v)
	v.ask = guarded{c.o.For(by), s}
	if c.o.Check != nil && s.Scopes == nil { // scopes of a token are all that is about it
		v.allowed = map[access.Verb]bool{}
		v.check = func(verb access.Verb) error { return c.o.Check(context.WithoutCancel(r.Context()), by, verb) }
	}
	return v, true
}

// caller returns the caller of the requests of a session.
func (c *Console) caller(v *visit) grants.Caller {
	return grants.Caller{User: v.session.User, Role: v.session.Role, From: c.address(v.r), Via: grants.ViaConsole}
}

// refreshes reports whether a page sent a request by itself, which is no activity of its reader.
func refreshes(r *http.Request) bool { return r.URL.Query().Has("part") || r.URL.Path == "/events" }

// turnAway answers a request without a session.
func (c *Console) turnAway(v *visit, err error) {
	known := errors.Is(err, session.ErrUnknown) || errors.Is(err, session.ErrEnded)
	switch {
	case !known:
		c.o.Log.Warn("session not read", "request", v.request, "err", err)
		c.plain(v.w, v.r, http.StatusServiceUnavailable, "logins cannot be checked now: the bus does not answer")
	case !wantsHTML(v.r) || refreshes(v.r):
		c.plain(v.w, v.r, http.StatusUnauthorized, "a login is needed")
	case v.r.Method != http.MethodGet && v.r.Method != http.MethodHead:
		c.signIn(v.w, v.r, http.StatusUnauthorized, "/", "The session has ended. Nothing was done.")
	case v.r.Header.Get("Sec-Fetch-Site") == "cross-site" && cookieOf(v.r) == "" && !v.r.URL.Query().Has("again"):
		again := *v.r.URL
		q := again.Query()
		q.Set("again", "1")
		again.RawQuery = q.Encode()
		v.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = page.Again(again.RequestURI()).Render(v.r.Context(), v.w)
	default:
		http.Redirect(v.w, v.r, "/login?next="+url.QueryEscape(v.r.URL.RequestURI()), http.StatusSeeOther)
	}
}

// local returns a path of this origin to go on to, else the first page.
func local(next string) string {
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(next, "/") {
		return "/"
	}
	if strings.HasPrefix(next, "//") || strings.ContainsFunc(next, func(r rune) bool { return r == '\\' || r < ' ' }) {
		return "/"
	}
	return next
}

// address returns the address of the browser: the last one in X-Forwarded-For that no trusted proxy wrote for another.
func (c *Console) address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		if !c.isProxy(host) {
			break
		}
		from, err := netip.ParseAddr(strings.TrimSpace(hop))
		if err != nil {
			break
		}
		host = from.Unmap().String()
	}
	return host
}

func (c *Console) isProxy(host string) bool {
	from, err := netip.ParseAddr(host)
	return err == nil && slices.ContainsFunc(c.o.Proxies, func(p netip.Prefix) bool { return p.Contains(from.Unmap()) })
}

// plain answers a request that gets no page.
func (c *Console) plain(w http.ResponseWriter, r *http.Request, status int, detail string) {
	if !wantsHTML(r) {
		writeProblem(w, status, detail)
		return
	}
	http.Error(w, detail, status)
}

var _ api.Asker = guarded{}
