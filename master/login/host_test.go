package login_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/login/logintest"
)

// answerOf goes to the provider as a browser does, and returns where it is led and with what.
func answerOf(t *testing.T, to string) (at string, q url.Values) {
	t.Helper()
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a, err := client.Get(to)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	back, err := a.Location()
	if err != nil {
		t.Fatalf("the provider answers %s", a.Status)
	}
	return back.Scheme + "://" + back.Host + back.Path, back.Query()
}

func TestALoginOnAHostIsForOneKey(t *testing.T) {
	_, p := start(t)
	to, a, err := p.BeginOn(t.Context(), 4711, "UKEY")
	if err != nil {
		t.Fatal(err)
	}
	at, q := answerOf(t, to)
	if at != "http://127.0.0.1:4711/login/callback" {
		t.Errorf("the provider leads to %s", at)
	}
	if a, err = login.AttemptOf(a.Cookie()); err != nil {
		t.Fatal(err)
	}
	token, person, err := p.FinishOn(t.Context(), a, q)
	if err != nil || person.Name != "ann_smith_example_com" || person.Role != grants.RoleOperator || person.SID != "s1" {
		t.Fatalf("%+v, %v", person, err)
	}
	if _, _, err := p.FinishOn(t.Context(), a, q); !errors.Is(err, login.ErrRefused) {
		t.Errorf("the code is taken twice: %v", err)
	}
	if again, err := p.Verify(t.Context(), token, login.NonceOf("UKEY")); err != nil || again.Name != person.Name {
		t.Errorf("another master: %+v, %v", again, err)
	}
	for name, nonce := range map[string]string{"another key": login.NonceOf("UOTHER"), "a device": ""} {
		if _, err := p.Verify(t.Context(), token, nonce); !errors.Is(err, login.ErrRefused) {
			t.Errorf("the token is taken for %s: %v", name, err)
		}
	}

	// The answer to a login of the console is none to a login on a host, and the other way round.
	console, back := begin(t, p)
	for name, row := range map[string]struct {
		attempt *login.Attempt
		answer  url.Values
	}{
		"another state":             {a, back},
		"a code for another client": {&login.Attempt{State: a.State, Nonce: a.Nonce, Verifier: console.Verifier, Ends: a.Ends}, url.Values{"state": {a.State}, "code": back["code"]}},
	} {
		if _, _, err := p.FinishOn(t.Context(), row.attempt, row.answer); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALoginByACode(t *testing.T) {
	at, p := start(t)
	begin := func() *login.Device {
		t.Helper()
		d, err := p.BeginDevice(t.Context())
		if err != nil || d.Code != "WDJB-MJHT" || d.URL != at.URL+"/enter" || d.Interval.Seconds() != 1 {
			t.Fatalf("%+v, %v", d, err)
		}
		return d
	}
	d := begin()
	for says, want := range map[string]error{
		"authorization_pending": login.ErrPending, "slow_down": login.ErrSlowDown, "access_denied": grants.ErrNotAllowed,
		"expired_token": login.ErrRefused, "invalid_request": login.ErrRefused,
	} {
		at.Decide(says)
		if _, _, err := p.FinishDevice(t.Context(), d.Secret); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", says, err, want)
		}
	}
	if _, _, err := p.FinishDevice(t.Context(), "guessed"); !errors.Is(err, login.ErrRefused) {
		t.Errorf("a guessed secret: %v", err)
	}
	at.Decide("")
	token, person, err := p.FinishDevice(t.Context(), d.Secret)
	if err != nil || person.Name != "ann_smith_example_com" {
		t.Fatalf("%+v, %v", person, err)
	}
	if _, _, err := p.FinishDevice(t.Context(), d.Secret); !errors.Is(err, login.ErrRefused) {
		t.Errorf("the secret is taken twice: %v", err)
	}
	if _, err := p.Verify(t.Context(), token, login.NonceOf("UKEY")); !errors.Is(err, login.ErrRefused) {
		t.Errorf("the token is taken as one of a browser: %v", err)
	}

	d = begin()
	at.Decide("")
	at.Fail(logintest.Faults{Change: func(c map[string]any) { c["aud"] = "wiki" }})
	if _, _, err := p.FinishDevice(t.Context(), d.Secret); !errors.Is(err, login.ErrRefused) {
		t.Errorf("a token for another client: %v", err)
	}
	at.Fail(logintest.Faults{NoDevices: true})
	_, p = restart(t, at)
	if _, err := p.BeginDevice(t.Context()); !errors.Is(err, login.ErrNoDevices) {
		t.Errorf("a provider without devices: %v", err)
	}
}
