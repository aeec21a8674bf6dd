package console

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/master/session"
)

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request) {
	c.signIn(w, r, http.StatusOK, local(r.URL.Query().Get("next")), "")
}

// signIn writes the login page.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request, status int, next, refused string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	s := page.SignIn{Fleet: c.o.Fleet, Theme: theme(r), Next: next, Refused: refused}
	if c.o.Login != nil {
		s.Provider = c.o.Login.BeginURL(next)
	}
	_ = page.Login(s).Render(page.With(r.Context(), c.env()), w)
}

// login begins a session by a code or by a token. A wrong one takes one of the guesses of its address; with none left,
// every login from there is refused, but sessions go on.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	next := local(r.FormValue("next"))
	b := session.Browser{From: c.address(r), Agent: r.UserAgent()}
	var cookie string
	var s *api.Session
	var err error
	if code := r.FormValue("code"); code != "" {
		cookie, s, err = c.o.Sessions.Redeem(r.Context(), code, b)
	} else {
		cookie, s, err = c.o.Sessions.ByToken(r.Context(), r.FormValue("token"), b)
	}
	if err != nil {
		c.refuseLogin(w, r, next, err)
		return
	}

	begun := audit.Entry{Action: "session.begin", Target: s.ID}
	c.record(r, grants.Caller{User: s.User, Role: s.Role}, begun.Ended(nil, false))
	if s.BreakGlass {
		c.o.Log.Warn("the credential of a master's data directory opened the console", "user", s.User, "from", s.From)
	}
	if old := cookieOf(r); old != "" {
		_ = c.o.Sessions.Logout(r.Context(), old) // it ends by itself later
	}
	setCookie(w, r, cookie)
	http.Redirect(w, r, next, http.StatusSeeOther)
}

const tooMany = "Too many wrong logins came from your address: wait a minute."

func (c *Console) refuseLogin(w http.ResponseWriter, r *http.Request, next string, err error) {
	request := w.Header().Get("X-Request-Id")
	switch {
	case errors.Is(err, session.ErrUnknown):
		if !c.guesses.Allow(bounds.Source(net.JoinHostPort(c.address(r), "0"))) {
			w.Header().Set("Retry-After", strconv.Itoa(int(guessEvery/time.Second)))
			c.signIn(w, r, http.StatusTooManyRequests, next, tooMany)
			return
		}
		c.o.Log.Warn("login refused", "request", request, "from", c.address(r), "err", err)
		const unknown = "The code or token is not known. A code holds for a minute, once."
		c.signIn(w, r, http.StatusUnprocessableEntity, next, unknown)
	case errors.Is(err, session.ErrEnded):
		c.signIn(w, r, http.StatusUnprocessableEntity, next, "The token has expired or was revoked.")
	case errors.Is(err, login.ErrRefused):
		if !c.guesses.Allow(bounds.Source(net.JoinHostPort(c.address(r), "0"))) {
			w.Header().Set("Retry-After", strconv.Itoa(int(guessEvery/time.Second)))
			c.signIn(w, r, http.StatusTooManyRequests, next, tooMany)
			return
		}
		c.o.Log.Warn("login refused", "request", request, "from", c.address(r), "err", err)
		c.signIn(w, r, http.StatusUnprocessableEntity, next, err.Error())
	case errors.Is(err, login.ErrAway):
		c.o.Log.Warn("login not checked", "request", request, "err", err)
		const away = "The provider of logins does not answer: try again, or use a code or a token."
		c.signIn(w, r, http.StatusServiceUnavailable, next, away)
	case errors.Is(err, grants.ErrNotAllowed):
		c.signIn(w, r, http.StatusUnprocessableEntity, next, err.Error())
	default:
		c.o.Log.Warn("login not checked", "request", request, "err", err)
		c.signIn(w, r, http.StatusServiceUnavailable, next, "Logins cannot be checked now: the bus does not answer.")
	}
}

// logout ends the session of the request.
func (c *Console) logout(v *visit) {
	if err := c.o.Sessions.Logout(v.r.Context(), cookieOf(v.r)); err != nil {
		c.fail(v, route{name: "me"}, err)
		return
	}
	c.record(v.r, c.caller(v), audit.Entry{Action: "session.end", Target: v.session.ID}.Ended(nil, false))
	setCookie(v.w, v.r, "")
	http.Redirect(v.w, v.r, "/login", http.StatusSeeOther)
}

// record writes an entry about what the console does itself. Other orders are recorded by the services that carry them
// out.
func (c *Console) record(r *http.Request, by grants.Caller, e audit.Entry) {
	by.From, by.Via = c.address(r), grants.ViaConsole
	c.o.Audit.Write(r.Context(), e.By(by))
}
