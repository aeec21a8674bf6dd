package login_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/login/logintest"
)

const site = "https://zester.example.com"

// ann is a person of the provider.
func ann() map[string]any {
	return map[string]any{
		"sub": "1001", "email": "ann.smith@example.com", "email_verified": true, "groups": []string{"staff", "ops"},
		"sid": "s1",
	}
}

// start returns a provider with the person ann, and the master's side of it.
func start(t *testing.T) (*logintest.Provider, *login.Provider) {
	t.Helper()
	at := logintest.Start(t)
	at.Person(ann())
	return restart(t, at)
}

// restart returns the side of a master that has not asked the provider yet.
func restart(t *testing.T, at *logintest.Provider) (*logintest.Provider, *login.Provider) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(logintest.Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := login.New(login.Options{
		Issuer: at.URL, ClientID: logintest.ClientID, SecretFile: secret, URL: site,
		Roles: []login.Rule{{Group: "ops", Role: grants.RoleOperator}, {Group: "staff", Role: grants.RoleAuditor}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return at, p
}

// visit goes to the provider as a browser does, and returns the query with which it comes back.
func visit(t *testing.T, to string) url.Values {
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
	if at := back.Scheme + "://" + back.Host + back.Path; at != site+login.CallbackPath {
		t.Fatalf("the provider leads to %s", at)
	}
	return back.Query()
}

// begin returns an attempt that the cookie of a browser has carried, and the answer of the provider to it.
func begin(t *testing.T, p *login.Provider) (*login.Attempt, url.Values) {
	t.Helper()
	to, a, err := p.Begin(t.Context(), "/jobs")
	if err != nil {
		t.Fatal(err)
	}
	back := visit(t, to)
	if a, err = login.AttemptOf(a.Cookie()); err != nil {
		t.Fatal(err)
	}
	return a, back
}

func TestAPersonLogsIn(t *testing.T) {
	at, p := start(t)
	for name, rotate := range map[string]func(){"RSA": at.RotateRSA, "EC": at.RotateEC} {
		rotate() // also after the keys were read once
		a, back := begin(t, p)
		person, err := p.Finish(t.Context(), a, back)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if person.Name != "ann_smith_example_com" || person.Subject != "1001" || person.SID != "s1" ||
			person.Role != grants.RoleOperator || strings.Join(person.Groups, " ") != "ops staff" || a.Next != "/jobs" {
			t.Errorf("%s: %+v", name, person)
		}
	}
}

func TestTheFirstGroupGivesTheRole(t *testing.T) {
	at, p := start(t)
	for name, row := range map[string]struct {
		groups any
		role   grants.Role
		err    string
	}{
		"one group as text": {"staff", grants.RoleAuditor, ""},
		"the second group":  {[]string{"x", "staff"}, grants.RoleAuditor, ""},
		"no group":          {nil, "", "none of the 0 groups of ann.smith@example.com may log in"},
		"another group":     {[]string{"guests"}, "", "none of the 1 groups"},
		"no list":           {map[string]any{"ops": true}, "", "the claim groups: it is no list of names"},
		"ten thousand":      {make([]string, 10_000), "", "it has 10000 groups, 1000 are possible"},
		"too many":          {make([]string, 1001), "", "it has 1001 groups, 1000 are possible"},
		"too long":          {[]string{"ops", strings.Repeat("x", 257)}, "", "a group has 257 bytes"},
	} {
		claims := ann()
		claims["groups"] = row.groups
		if row.groups == nil {
			delete(claims, "groups")
		}
		at.Person(claims)
		a, back := begin(t, p)
		person, err := p.Finish(t.Context(), a, back)
		switch {
		case row.err == "" && (err != nil || person.Role != row.role):
			t.Errorf("%s: %+v, %v", name, person, err)
		case row.err != "" && (!errors.Is(err, grants.ErrNotAllowed) || !strings.Contains(err.Error(), row.err)):
			t.Errorf("%s: %v, want %q", name, err, row.err)
		}
	}
}

// A token that departs from what the standard asks for in one claim logs nobody in.
func TestTokensThatAreRefused(t *testing.T) {
	at, p := start(t)
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for name, change := range map[string]func(map[string]any){
		"another issuer":         func(c map[string]any) { c["iss"] = "https://evil.example.com" },
		"another audience":       func(c map[string]any) { c["aud"] = "wiki" },
		"two, for another":       func(c map[string]any) { c["aud"], c["azp"] = []string{"zester", "wiki"}, "wiki" },
		"two, for nobody":        func(c map[string]any) { c["aud"] = []string{"zester", "wiki"} },
		"another nonce":          func(c map[string]any) { c["nonce"] = "x" },
		"no nonce":               func(c map[string]any) { delete(c, "nonce") },
		"expired":                func(c map[string]any) { c["exp"] = in(-time.Second) },
		"issued a day ago":       func(c map[string]any) { c["iat"] = in(-25 * time.Hour) },
		"issued at no time":      func(c map[string]any) { delete(c, "iat") },
		"a subject with a NUL":   func(c map[string]any) { c["sub"] = "1001\x00" },
		"a session with lines":   func(c map[string]any) { c["sid"] = "s1\ns2" },
		"no end":                 func(c map[string]any) { delete(c, "exp") },
		"of the future":          func(c map[string]any) { c["iat"] = in(6 * time.Minute) },
		"valid later":            func(c map[string]any) { c["nbf"] = in(6 * time.Minute) },
		"nobody":                 func(c map[string]any) { delete(c, "sub") },
		"a subject that is long": func(c map[string]any) { c["sub"] = strings.Repeat("x", 256) },
	} {
		at.Fail(logintest.Faults{Change: change})
		a, back := begin(t, p)
		if person, err := p.Finish(t.Context(), a, back); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%s: %+v, %v", name, person, err)
		}
	}
	for name, change := range map[string]func(map[string]any){
		"no address":          func(c map[string]any) { delete(c, "email") },
		"not verified":        func(c map[string]any) { c["email_verified"] = false },
		"a name that is long": func(c map[string]any) { c["email"] = strings.Repeat("x", 65) },
	} {
		at.Fail(logintest.Faults{Change: change})
		a, back := begin(t, p)
		if person, err := p.Finish(t.Context(), a, back); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("%s: %+v, %v", name, person, err)
		}
	}
	for _, skew := range []time.Duration{-4 * time.Minute, 4 * time.Minute} {
		at.Fail(logintest.Faults{Change: func(c map[string]any) { c["iat"], c["nbf"] = in(skew), in(skew) }})
		a, back := begin(t, p)
		if _, err := p.Finish(t.Context(), a, back); err != nil {
			t.Errorf("a clock that is %v ahead: %v", skew, err)
		}
	}
	for _, algorithm := range []string{"none", "HS256", "RS384"} {
		at.Fail(logintest.Faults{Algorithm: algorithm})
		a, back := begin(t, p)
		if _, err := p.Finish(t.Context(), a, back); !errors.Is(err, login.ErrRefused) {
			t.Errorf("a token with the algorithm %s: %v", algorithm, err)
		}
	}
}

func TestAnswersOfBrowsersThatAreRefused(t *testing.T) {
	_, p := start(t)
	a, back := begin(t, p)
	other, otherBack := begin(t, p)
	for name, row := range map[string]struct {
		attempt login.Attempt
		answer  url.Values
	}{
		"another browser's answer": {*a, otherBack},
		"no state":                 {*a, url.Values{"code": back["code"]}},
		"no code":                  {*a, url.Values{"state": back["state"]}},
		"an error":                 {*a, url.Values{"state": back["state"], "error": {"access_denied"}}},
		"a guessed code":           {*a, url.Values{"state": back["state"], "code": {"x"}}},
		"another login's code":     {*a, url.Values{"state": back["state"], "code": otherBack["code"]}},
		"too late": {
			login.Attempt{State: a.State, Nonce: a.Nonce, Verifier: a.Verifier, Ends: time.Now()}, back,
		},
		"another verifier": {
			login.Attempt{State: a.State, Nonce: a.Nonce, Verifier: other.Verifier, Ends: a.Ends}, back,
		},
	} {
		if _, err := p.Finish(t.Context(), &row.attempt, row.answer); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}

	a, back = begin(t, p)
	if _, err := p.Finish(t.Context(), a, back); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Finish(t.Context(), a, back); !errors.Is(err, login.ErrRefused) {
		t.Errorf("the code is taken twice: %v", err)
	}
}

func TestAProviderThatDoesNotAnswerWell(t *testing.T) {
	for name, row := range map[string]struct {
		faults logintest.Faults
		want   string
	}{
		"it hangs":                   {logintest.Faults{Hang: true}, "context deadline exceeded"},
		"it shows a page":            {logintest.Faults{HTML: true}, "text/html"},
		"it leads elsewhere":         {logintest.Faults{Redirect: "http://id.example.com/"}, "the provider sends masters elsewhere"},
		"its document is huge":       {logintest.Faults{Huge: true}, "the answer has more than 262144 bytes"},
		"it has another name":        {logintest.Faults{Issuer: "https://id.example.com"}, "issuer"},
		"its endpoint is not secure": {logintest.Faults{AuthURL: "http://id.example.com/"}, "want https"},
	} {
		at, p := start(t)
		at.Fail(row.faults)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, _, err := p.Begin(ctx, "/")
		cancel()
		if row.faults.Hang {
			at.CloseClientConnections()
		}
		if !errors.Is(err, login.ErrAway) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
		at.Fail(logintest.Faults{})
		if _, _, err := p.Begin(t.Context(), "/"); err != nil {
			t.Errorf("%s, and then no more: %v", name, err)
		}
	}
}

// Its other endpoints answer no better: for the code of a browser, for its keys, and for the code of a device.
func TestEndpointsThatDoNotAnswerWell(t *testing.T) {
	for what, f := range map[string]logintest.Faults{
		"it hangs":           {Hang: true},
		"it is huge":         {Huge: true},
		"it shows a page":    {HTML: true},
		"it leads elsewhere": {Redirect: "http://id.example.com/"},
	} {
		for _, path := range []string{"/token", "/keys"} {
			at, p := start(t)
			a, back := begin(t, p)
			f.Path = path
			at.Fail(f)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if !f.Hang {
				ctx = t.Context()
			}
			person, err := p.Finish(ctx, a, back)
			cancel()
			if !errors.Is(err, login.ErrAway) || len(err.Error()) > 500 {
				t.Errorf("%s, %s: %+v, %v", path, what, person, err)
			}
			at.Fail(logintest.Faults{})
			at.CloseClientConnections() // which ends the request that hangs
			a, back = begin(t, p)
			_, err = p.Finish(t.Context(), a, back)
			if f.Hang && errors.Is(err, login.ErrAway) { // it waited for the keys that the login before had asked for
				a, back = begin(t, p)
				_, err = p.Finish(t.Context(), a, back)
			}
			if err != nil {
				t.Errorf("%s, %s, and then no more: %v", path, what, err)
			}
		}
		for _, path := range []string{"/device", "/token"} {
			at, p := start(t)
			d, err := p.BeginDevice(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at.Decide("")
			f.Path = path
			at.Fail(f)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			if !f.Hang {
				ctx = t.Context()
			}
			if path == "/device" {
				_, err = p.BeginDevice(ctx)
			} else {
				_, _, err = p.FinishDevice(ctx, d.Secret)
			}
			cancel()
			if !errors.Is(err, login.ErrAway) || len(err.Error()) > 500 {
				t.Errorf("a device at %s, %s: %v", path, what, err)
			}
		}
	}
}

// A token has one digest in all of its encodings: who has it cannot use it twice.
func TestATokenHasOneDigest(t *testing.T) {
	at, p := start(t)
	for _, rotate := range []func(){at.RotateRSA, at.RotateEC} {
		rotate()
		claims := ann()
		now := time.Now().Unix()
		claims["iss"], claims["aud"], claims["iat"], claims["exp"] = at.URL, logintest.ClientID, now, now+60
		text := at.Sign(claims)
		first, err := p.Verify(t.Context(), text, "")
		if err != nil {
			t.Fatal(err)
		}
		claims["jti"] = "2"
		second, err := p.Verify(t.Context(), at.Sign(claims), "")
		if err != nil || second.Token == first.Token {
			t.Errorf("two tokens have the digest %s: %v", first.Token, err)
		}
		parts := strings.Split(text, ".")
		last := text[len(text)-1]
		padded := strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", last)
		for what, other := range map[string]string{
			"bits that nobody reads": text[:len(text)-1] + string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[padded|1]),
			"lines in the claims":    parts[0] + "." + parts[1][:4] + "\n" + parts[1][4:] + "." + parts[2],
			"lines in the signature": text + "\r\n",
		} {
			again, err := p.Verify(t.Context(), other, "")
			if err == nil && again.Token != first.Token {
				t.Errorf("%s: the token has another digest", what)
			}
		}
	}
}

// A provider that hangs takes each login the time of one answer, also if many people log in at once.
func TestLoginsDoNotWaitForOneAnotherAtAProviderThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := login.New(login.Options{
			Issuer: "https://id.example.com", ClientID: "zester", URL: site,
			Roles:     []login.Rule{{Group: "ops", Role: grants.RoleOperator}},
			Transport: hangs{},
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, _, err := p.Begin(t.Context(), "/"); !errors.Is(err, login.ErrAway) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the last login waited for %v", took)
		}
	})
}

// hangs is a provider that never answers.
type hangs struct{}

func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestLogoutTokens(t *testing.T) {
	at, p := start(t)
	e, err := p.Logout(t.Context(), at.LogoutToken("1001", map[string]any{"sid": "s1", "jti": "j1"}))
	if err != nil || time.Since(e.Issued) > time.Minute {
		t.Fatalf("%+v, %v", e, err)
	}
	e.Issued = time.Time{}
	if *e != (login.Ending{ID: "j1", Subject: "1001", SID: "s1"}) {
		t.Errorf("%+v", e)
	}
	past := time.Now().Add(-6 * time.Minute).Unix()
	for name, claims := range map[string]map[string]any{
		"another issuer":   {"iss": "https://evil.example.com"},
		"another audience": {"aud": "wiki"},
		"a nonce":          {"nonce": "x"},
		"no event":         {"events": map[string]any{}},
		"no ID":            {"jti": nil},
		"nobody":           {"sub": nil},
		"expired":          {"exp": past},
		"old":              {"iat": past},
	} {
		if _, err := p.Logout(t.Context(), at.LogoutToken("1001", claims)); !errors.Is(err, login.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	at.Fail(logintest.Faults{Algorithm: "none"})
	if _, err := p.Logout(t.Context(), at.LogoutToken("1001", nil)); !errors.Is(err, login.ErrRefused) {
		t.Errorf("no signature: %v", err)
	}
	stranger := logintest.Start(t)
	forged := stranger.LogoutToken("1001", map[string]any{"iss": at.URL})
	if _, err := p.Logout(t.Context(), forged); !errors.Is(err, login.ErrRefused) {
		t.Errorf("the key of another provider: %v", err)
	}

	at.Fail(logintest.Faults{})
	at.RotateRSA()
	token := at.LogoutToken("1001", nil)
	at.Close()
	if _, err := p.Logout(t.Context(), token); !errors.Is(err, login.ErrAway) {
		t.Errorf("the provider goes away before its keys are read: %v", err)
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	good := login.Options{
		Issuer: "https://id.example.com", ClientID: "zester", URL: site,
		Roles: []login.Rule{{Group: "ops", Role: grants.RoleOperator}},
	}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*login.Options){
		"want a URL such as":              func(o *login.Options) { o.Issuer = "id.example.com" },
		"over http everybody on the way":  func(o *login.Options) { o.Issuer = "http://id.example.com" },
		"without the client_id":           func(o *login.Options) { o.ClientID = "" },
		"without console.url":             func(o *login.Options) { o.URL = "" },
		"without roles":                   func(o *login.Options) { o.Roles = nil },
		"a group has 1 to 256 bytes":      func(o *login.Options) { o.Roles = []login.Rule{{Role: grants.RoleOperator}} },
		`the group "x" the role "direct"`: func(o *login.Options) { o.Roles = []login.Rule{{Group: "x", Role: "direct"}} },
	} {
		o := good
		change(&o)
		if _, err := login.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzAttempt reads what a browser may send as its cookie.
func FuzzAttempt(f *testing.F) {
	f.Add("")
	f.Add((&login.Attempt{State: strings.Repeat("s", 43), Nonce: strings.Repeat("n", 43), Verifier: strings.Repeat("v", 43)}).Cookie())
	f.Fuzz(func(t *testing.T, cookie string) {
		a, err := login.AttemptOf(cookie)
		if err != nil {
			return
		}
		if _, err := login.AttemptOf(a.Cookie()); err != nil {
			t.Errorf("%q is read once and not again: %v", cookie, err)
		}
	})
}
