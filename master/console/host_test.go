package console_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/login/logintest"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// A program is zester login as it speaks to the console.
type program struct {
	t   *testing.T
	f   *fleet
	key credential.NewKey
}

func newProgram(t *testing.T, f *fleet) *program {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	return &program{t, f, key}
}

// ask sends a step, with headers of a browser or without.
func (p *program) ask(step api.LoginStep, headers map[string]string) (status int, next api.LoginNext) {
	p.t.Helper()
	if step.Public == "" {
		step.Public = p.key.Public()
		proof, err := p.key.Sign(credential.LoginText(step.Public))
		if err != nil {
			p.t.Fatal(err)
		}
		step.Proof = proof
	}
	body, err := json.Marshal(step)
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "https://"+p.f.address+api.LoginPath,
		bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	a, err := natstest.HTTPS(p.t, p.f.ca()).Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if a.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &next); err != nil {
			p.t.Fatalf("%v: %s", err, text)
		}
	}
	return a.StatusCode, next
}

// visited begins a login, and returns the step with what the provider sends to the port.
func (p *program) visited() api.LoginStep {
	p.t.Helper()
	status, next := p.ask(api.LoginStep{Port: 4711}, nil)
	if status != http.StatusOK {
		p.t.Fatalf("no login begins: %d", status)
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a, err := client.Get(next.URL)
	if err != nil {
		p.t.Fatal(err)
	}
	_ = a.Body.Close()
	at, err := a.Location()
	if err != nil || at.Host != "127.0.0.1:4711" || at.Query().Get("state") != next.State {
		p.t.Fatalf("the provider leads to %v: %v", at, err)
	}
	return api.LoginStep{Attempt: next.Attempt, Code: at.Query().Get("code"), State: at.Query().Get("state")}
}

// connect returns a client with the credential of a login.
func (p *program) connect(next api.LoginNext) *api.Client {
	p.t.Helper()
	creds, err := p.key.Creds(next.JWT)
	if err != nil {
		p.t.Fatal(err)
	}
	return p.f.connect(p.t, creds)
}

func atProvider(t *testing.T) (*logintest.Provider, *fleet) {
	t.Helper()
	at := logintest.Start(t)
	at.Fail(logintest.Faults{NoSecret: true})
	at.Person(map[string]any{"sub": "1001", "email": "ann.smith@example.com", "groups": []string{"staff"}, "sid": "s1"})
	p, err := login.New(login.Options{
		Issuer: at.URL, ClientID: logintest.ClientID, URL: "https://" + named,
		Roles: []login.Rule{{Group: "ops", Role: grants.RoleOperator}, {Group: "staff", Role: grants.RoleAuditor}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(t)
	f.repo = f.work.Dir()
	f.at = p
	f.start(t)
	return at, f
}

func TestPeopleLogInOnAHost(t *testing.T) {
	at, f := atProvider(t)
	ended := func(c *api.Client) func() bool {
		return func() bool { _, err := api.NowShow.Ask(t.Context(), c, api.None{}); return err != nil }
	}

	t.Run("by a browser", func(t *testing.T) {
		p := newProgram(t, f)
		step := p.visited()
		for what, change := range map[string]func(*api.LoginStep){
			"another state":   func(s *api.LoginStep) { s.State = "x" },
			"a guessed code":  func(s *api.LoginStep) { s.Code = "x" },
			"another attempt": func(s *api.LoginStep) { s.Attempt = newProgram(t, f).visited().Attempt },
		} {
			bad := step
			change(&bad)
			if status, _ := p.ask(bad, nil); status != http.StatusForbidden {
				t.Errorf("%s: %d", what, status)
			}
		}
		if status, _ := p.ask(step, map[string]string{"Origin": "https://evil.example.com"}); status != http.StatusForbidden {
			t.Errorf("a page of another site: %d", status)
		}
		status, next := p.ask(p.visited(), nil)
		if status != http.StatusOK || next.User != "ann_smith_example_com" || !strings.Contains(string(next.CA), "CERTIFICATE") {
			t.Fatalf("%d, %+v", status, next)
		}
		c := p.connect(next)
		if _, err := api.NowShow.Ask(t.Context(), c, api.None{}); err != nil {
			t.Errorf("the person cannot read: %v", err)
		}
		if _, err := api.SyncPause.Ask(t.Context(), c, api.None{}); api.CodeOf(err) != api.CodeDenied && api.CodeOf(err) != api.CodeForbidden {
			t.Errorf("an auditor pauses: %v", err)
		}
	})

	t.Run("with the key of somebody else", func(t *testing.T) {
		p := newProgram(t, f)
		step := p.visited()
		other := newProgram(t, f)
		if status, _ := other.ask(step, nil); status != http.StatusForbidden {
			t.Errorf("the ID token makes a credential for another key: %d", status)
		}
		step = p.visited()
		step.Public = other.key.Public()
		if status, _ := p.ask(step, nil); status == http.StatusOK {
			t.Error("a key without a proof gets a credential")
		}
	})

	t.Run("on the bus nobody asks for a credential", func(t *testing.T) {
		p := newProgram(t, f)
		proof, err := p.key.Sign(credential.LoginText(p.key.Public()))
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range f.people {
			_, err := api.UserLogin.Ask(t.Context(), c, credential.LoginRequest{Public: p.key.Public(), Proof: proof, IDToken: "x"})
			if api.CodeOf(err) != api.CodeForbidden || !strings.Contains(err.Error(), "zester login") {
				t.Errorf("%s: %v", name, err)
			}
		}
	})

	t.Run("by a code", func(t *testing.T) {
		p := newProgram(t, f)
		status, next := p.ask(api.LoginStep{}, nil)
		if status != http.StatusOK || next.UserCode == "" || next.Device == "" {
			t.Fatalf("%d, %+v", status, next)
		}
		step := api.LoginStep{Device: next.Device}
		for _, slow := range []bool{false, true} {
			if slow {
				at.Decide("slow_down")
			}
			if status, next := p.ask(step, nil); status != http.StatusOK || !next.Pending || next.SlowDown != slow {
				t.Errorf("%d, %+v", status, next)
			}
		}
		for _, says := range []string{"access_denied", "expired_token"} {
			at.Decide(says)
			if status, _ := p.ask(step, nil); status != http.StatusForbidden {
				t.Errorf("%s: %d", says, status)
			}
		}
		at.Decide("")
		status, next = p.ask(step, nil)
		if status != http.StatusOK || next.User != "ann_smith_example_com" {
			t.Fatalf("%d, %+v", status, next)
		}
		public := p.key.Public()
		c := p.connect(next)
		if _, err := api.NowShow.Ask(t.Context(), c, api.None{}); err != nil {
			t.Fatal(err)
		}

		own, err := api.UserLogout.Ask(t.Context(), c, credential.LogoutRequest{Public: public})
		if err != nil || !own.Ended {
			t.Errorf("the logout: %+v, %v", own, err)
		}
		f.until(t, "the end of the connection", func(context.Context) bool { return ended(c)() })
	})

	t.Run("by a token that has come before", func(t *testing.T) {
		now := time.Now().Unix()
		at.Fail(logintest.Faults{NoSecret: true, Change: func(c map[string]any) { c["iat"], c["exp"] = now, now+60 }})
		defer at.Fail(logintest.Faults{NoSecret: true})
		for _, want := range []int{http.StatusOK, http.StatusForbidden} {
			p := newProgram(t, f)
			_, next := p.ask(api.LoginStep{}, nil)
			at.Decide("")
			if status, _ := p.ask(api.LoginStep{Device: next.Device}, nil); status != want {
				t.Errorf("the login has the status %d, want %d", status, want)
			}
		}
	})

	t.Run("the logout at the provider", func(t *testing.T) {
		p := newProgram(t, f)
		_, next := p.ask(p.visited(), nil)
		c := p.connect(next)
		logout := func(token string) int {
			return f.browse(t).send(http.MethodPost, "/login/logout", url.Values{"logout_token": {token}},
				map[string]string{"Host": named}).status
		}
		if got := logout(at.LogoutToken("1001", map[string]any{"sid": "s2"})); got != http.StatusOK {
			t.Errorf("another session: %d", got)
		}
		if ended(c)() {
			t.Error("the logout of another session has ended the credential")
		}
		token := at.LogoutToken("1001", map[string]any{"sid": "s1"})
		if got := logout(token); got != http.StatusOK {
			t.Errorf("the logout: %d", got)
		}
		f.until(t, "the end of the connection", func(context.Context) bool { return ended(c)() })
		_, next = newProgram(t, f).ask(newProgram(t, f).visited(), nil)
		if next.JWT != "" {
			t.Error("an ID token for another key")
		}
		again := newProgram(t, f)
		_, next = again.ask(again.visited(), nil)
		if c := again.connect(next); logout(token) != http.StatusBadRequest || ended(c)() {
			t.Error("a copy of the logout token ends a later login")
		}
	})
}

func TestAFleetWithoutAProviderSaysWhatToDo(t *testing.T) {
	f := theFleet(t)
	p := newProgram(t, f)
	if status, _ := p.ask(api.LoginStep{Port: 4711}, nil); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
}
