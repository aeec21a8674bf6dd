package console

import (
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/console/page"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/rest/bounds"
	"github.com/seed-c01c3da5/zester/master/session"
)

// logoutPath is where the provider sends logout tokens: its back-channel logout URI is the URL of the console with it.
const logoutPath = "/login/logout"

// attemptCookie holds a [login.Attempt]. It is SameSite=Lax: browsers also send it when the provider leads back.
const attemptCookie = "__Host-zester_login"

func setAttempt(w http.ResponseWriter, a *login.Attempt) {
	cookie := http.Cookie{
		Name: attemptCookie, Path: "/", MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	}
	if a != nil {
		cookie.Value = a.Cookie()
		cookie.MaxAge = int(time.Until(a.Ends) / time.Second)
	}
	http.SetCookie(w, &cookie)
}

// slowly bounds how often an address has masters send requests to the provider.
func (c *Console) slowly(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !c.logins.Allow(bounds.Source(net.JoinHostPort(c.address(r), "0"))) {
			w.Header().Set("Retry-After", "1")
			c.plain(w, r, http.StatusTooManyRequests, "too many logins came from your address: wait a second")
			return
		}
		serve(w, r)
	}
}

// beginLogin sends a browser to the provider.
func (c *Console) beginLogin(w http.ResponseWriter, r *http.Request) {
	next := local(r.URL.Query().Get("next"))
	to, a, err := c.o.Login.Begin(r.Context(), next)
	if err != nil {
		c.refuseLogin(w, r, next, err)
		return
	}
	setAttempt(w, a)
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// endLogin begins a session for a browser that comes back from the provider. The answer is a page that leads on:
// browsers leave the new cookie out of a redirect that another site has begun.
func (c *Console) endLogin(w http.ResponseWriter, r *http.Request) {
	setAttempt(w, nil)
	a, err := attemptOf(r)
	if err != nil {
		c.refuseLogin(w, r, "/", err)
		return
	}
	next := local(a.Next)
	cookie, s, err := c.sessionOf(r, a)
	if err != nil {
		c.refuseLogin(w, r, next, err)
		return
	}

	begun := audit.Entry{Action: "session.begin", Target: s.ID, Args: "issuer=" + c.o.Login.Issuer()}
	c.record(r, grants.Caller{User: s.User, Role: s.Role}, begun.Ended(nil, false))
	setCookie(w, r, cookie)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Again(next).Render(r.Context(), w)
}

func attemptOf(r *http.Request) (*login.Attempt, error) {
	cookie, err := r.Cookie(attemptCookie)
	if err != nil {
		cookie = &http.Cookie{}
	}
	return login.AttemptOf(cookie.Value)
}

func (c *Console) sessionOf(r *http.Request, a *login.Attempt) (cookie string, s *api.Session, err error) {
	p, err := c.o.Login.Finish(r.Context(), a, r.URL.Query())
	if err != nil {
		return "", nil, err
	}
	return c.o.Sessions.ByProvider(r.Context(), api.Session{
		User: p.Name, Role: p.Role, Groups: p.Groups, SID: p.SID,
		Login: &credential.Login{Issuer: c.o.Login.Issuer(), Subject: p.Subject},
	}, session.Browser{From: c.address(r), Agent: r.UserAgent()})
}

// providerLogout ends the sessions that a logout token of the provider names. The token is the proof, so it needs
// neither a session nor an origin. Only tokens that are refused count as logins of their address: a provider may end
// many sessions at once.
func (c *Console) providerLogout(w http.ResponseWriter, r *http.Request) {
	if !c.logins.Left(bounds.Source(net.JoinHostPort(c.address(r), "0"))) {
		w.Header().Set("Retry-After", "1")
		writeProblem(w, http.StatusTooManyRequests, "too many wrong logout tokens came from here: wait a second")
		return
	}
	ended, err := c.endNamed(r)
	switch {
	case errors.Is(err, login.ErrRefused), errors.Is(err, session.ErrUnknown):
		c.logins.Allow(bounds.Source(net.JoinHostPort(c.address(r), "0")))
		c.o.Log.Warn("logout of the provider refused", "from", c.address(r), "err", err)
		writeProblem(w, http.StatusBadRequest, "the logout token is not valid, or was used before")
	case err != nil:
		c.o.Log.Warn("logout of the provider not carried out", "from", c.address(r), "err", err)
		writeProblem(w, http.StatusServiceUnavailable, "the logout cannot be carried out now: send it again")
	default:
		c.o.Log.Info("the provider ended sessions", "ended", len(ended))
		w.WriteHeader(http.StatusOK)
	}
}

func (c *Console) endNamed(r *http.Request) (ended []api.Session, err error) {
	e, err := c.o.Login.Logout(r.Context(), r.PostFormValue("logout_token"))
	if err != nil {
		return nil, err
	}
	ended, err = c.o.Sessions.EndAtProvider(r.Context(), session.Logout{
		Of:  credential.Login{Issuer: c.o.Login.Issuer(), Subject: e.Subject},
		SID: e.SID, Token: e.ID, Issued: e.Issued,
	}, func(u *credential.User, public string) error {
		ask := c.o.For(grants.Caller{User: u.Name, Role: u.Role, From: c.address(r), Via: grants.ViaConsole})
		_, err := api.UserLogout.Ask(r.Context(), ask, credential.LogoutRequest{Public: public})
		return err
	})
	for _, s := range ended {
		end := audit.Entry{Action: "session.end", Target: s.ID, Args: "issuer=" + c.o.Login.Issuer()}
		c.record(r, grants.Caller{User: s.User, Role: s.Role}, end.Ended(nil, false))
	}
	return ended, err
}
