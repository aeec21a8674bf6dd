package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/login"
)

// noProvider says what people do who have no provider of logins.
const noProvider = "this fleet has no provider of logins: console.oidc of master.yaml names one. Without it an " +
	"operator makes a credential with zester auth user add, and zester auth user renew renews it"

// loginOnHost answers a step of zester login. It keeps nothing between two steps, so any master answers each. Browsers
// have no business here.
func (c *Console) loginOnHost(w http.ResponseWriter, r *http.Request) {
	var step api.LoginStep
	switch {
	case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
		writeProblem(w, http.StatusForbidden, "this is for zester login, not for browsers")
		return
	case c.o.Login == nil:
		writeProblem(w, http.StatusNotFound, noProvider)
		return
	case json.NewDecoder(r.Body).Decode(&step) != nil:
		writeProblem(w, http.StatusBadRequest, "the request is not that of zester login")
		return
	}

	next, err := c.nextOnHost(r, &step)
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(next)
	case errors.Is(err, login.ErrNoDevices):
		writeProblem(w, http.StatusNotImplemented, err.Error())
	case errors.Is(err, login.ErrAway):
		c.o.Log.Warn("login on a host failed", "from", c.address(r), "err", err)
		writeProblem(w, http.StatusBadGateway, login.ErrAway.Error())
	case errors.Is(err, login.ErrRefused), errors.Is(err, grants.ErrNotAllowed), api.CodeOf(err) == api.CodeForbidden:
		c.o.Log.Warn("login on a host refused", "from", c.address(r), "err", err)
		writeProblem(w, http.StatusForbidden, err.Error())
	default:
		c.o.Log.Warn("login on a host failed", "from", c.address(r), "err", err)
		writeProblem(w, http.StatusServiceUnavailable, "the login cannot be carried out now: "+err.Error())
	}
}

// nextOnHost carries out a step.
func (c *Console) nextOnHost(r *http.Request, step *api.LoginStep) (next *api.LoginNext, err error) {
	next = &api.LoginNext{}
	var idToken string
	var p *login.Person
	switch at := c.o.Login; {
	case step.Attempt != "":
		a, bad := login.AttemptOf(step.Attempt)
		if bad != nil {
			return nil, bad
		}
		idToken, p, err = at.FinishOn(r.Context(), a, url.Values{
			"code": {step.Code}, "state": {step.State}, "error": {step.Refusal},
		})
	case step.Device != "":
		idToken, p, err = at.FinishDevice(r.Context(), step.Device)
		if errors.Is(err, login.ErrPending) {
			return &api.LoginNext{Pending: true, SlowDown: errors.Is(err, login.ErrSlowDown)}, nil
		}
	case step.Port != 0:
		to, a, err := at.BeginOn(r.Context(), step.Port, step.Public)
		if err != nil {
			return nil, err
		}
		return &api.LoginNext{URL: to, State: a.State, Attempt: a.Cookie()}, nil
	default:
		d, err := at.BeginDevice(r.Context())
		if err != nil {
			return nil, err
		}
		to := d.Whole
		if to == "" {
			to = d.URL
		}
		return &api.LoginNext{URL: to, UserCode: d.Code, Device: d.Secret, Ends: d.Ends, Wait: d.Interval}, nil
	}
	if err != nil {
		return nil, err
	}

	ask := c.o.For(grants.Caller{User: p.Name, Role: p.Role, From: c.address(r), Via: grants.ViaConsole})
	made, err := api.UserLogin.Ask(r.Context(), ask, credential.LoginRequest{
		Public: step.Public, Proof: step.Proof, IDToken: idToken, Device: step.Device != "",
	})
	if err != nil {
		return nil, err
	}
	next.User, next.LoggedIn = p.Name, *made
	return next, nil
}
