package console_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/login/logintest"
)

// visit goes from the console to the provider and back as a browser does, and returns the path with which it comes back.
func (b *browser) visit(next string) string {
	b.t.Helper()
	sent := b.send(http.MethodGet, "/login/oidc?next="+url.QueryEscape(next), nil, map[string]string{"Host": named})
	if sent.status != http.StatusSeeOther {
		b.t.Fatalf("no way to the provider: %d\n%s", sent.status, sent.body)
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	a, err := client.Get(sent.header.Get("Location"))
	if err != nil {
		b.t.Fatal(err)
	}
	_ = a.Body.Close()
	path, ok := strings.CutPrefix(a.Header.Get("Location"), "https://"+named)
	if !ok {
		b.t.Fatalf("the provider leads to %s", a.Header.Get("Location"))
	}
	return path
}

// atName sends a request to the name of the console, as one to which another site has led.
func (b *browser) atName(path string) answer {
	b.t.Helper()
	return b.send(http.MethodGet, path, nil, map[string]string{"Host": named, "Sec-Fetch-Site": "cross-site"})
}

// me opens the page of the session at the name of the console, for which the browser has the cookie.
func (b *browser) me() answer {
	b.t.Helper()
	return b.send(http.MethodGet, "/me", nil, map[string]string{"Host": named})
}

func TestPeopleLogInAtAProvider(t *testing.T) {
	at := logintest.Start(t)
	at.Fail(logintest.Faults{NoSecret: true})
	ann := map[string]any{"sub": "1001", "email": "ann.smith@example.com", "groups": []string{"ops"}, "sid": "s1"}
	at.Person(ann)
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
	const name = "ann_smith_example_com"

	// in returns a browser in which the person of the provider is logged in.
	in := func() *browser {
		b := f.browse(t)
		got := b.atName(b.visit("/jobs"))
		if got.status != http.StatusOK || !strings.Contains(got.body, `content="0;url=/jobs"`) {
			t.Fatalf("the login: %d\n%s", got.status, got.body)
		}
		return b
	}
	is := func(b *browser, want string) {
		t.Helper()
		got := b.me()
		if want == "" && got.status != http.StatusSeeOther || want != "" && !strings.Contains(got.body, want) {
			t.Errorf("/me: %d, want the session of %q", got.status, want)
		}
	}
	logout := func(token string) int {
		return f.browse(t).send(http.MethodPost, "/login/logout", url.Values{"logout_token": {token}},
			map[string]string{"Host": named}).status
	}

	t.Run("the login", func(t *testing.T) {
		if got := f.browse(t).get("/login"); !strings.Contains(got.body, `href="https://`+named+`/login/oidc?next=%2F"`) {
			t.Errorf("the page of logins has no way to the provider:\n%s", got.body)
		}
		is(in(), name)
		all, err := api.SessionList.Ask(t.Context(), f.local, api.None{})
		if err != nil || len(all.Sessions) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		if s := all.Sessions[0]; s.Role != grants.RoleOperator || s.Groups != nil ||
			s.Login.Subject != "1001" || s.SID != "s1" {
			t.Errorf("the session is %+v", s)
		}
		entries, err := api.AuditList.Ask(t.Context(), f.local, audit.Query{User: name})
		if err != nil || len(entries.Entries) != 1 || !strings.Contains(entries.Entries[0].Args, at.URL) {
			t.Errorf("the audit log has %+v, %v", entries, err)
		}
	})

	t.Run("what does not log in", func(t *testing.T) {
		b := f.browse(t)
		path := b.visit("/jobs")
		if got := f.browse(t).atName(path); got.status != http.StatusUnprocessableEntity {
			t.Errorf("another browser with the link: %d", got.status)
		}
		if got := b.atName(strings.Replace(path, "state=", "state=x", 1)); got.status != http.StatusUnprocessableEntity {
			t.Errorf("another state: %d", got.status)
		}
		if got := b.atName(path); got.status != http.StatusUnprocessableEntity {
			t.Errorf("again, after the try has removed the cookie: %d", got.status)
		}
		is(b, "")

		for what, person := range map[string]map[string]any{
			"another subject with the name": {"sub": "1002", "email": "ann.smith@example.com", "groups": "ops"},
			"the name of a credential":      {"sub": "1003", "email": "eve", "groups": "ops"},
			"the operator of the host":      {"sub": "1004", "email": "local", "groups": "ops"},
			"no group with a role":          {"sub": "1005", "email": "bob@example.com", "groups": "guests"},
		} {
			at.Person(person)
			b := f.browse(t)
			if got := b.atName(b.visit("/")); got.status != http.StatusUnprocessableEntity {
				t.Errorf("%s: %d", what, got.status)
			}
			is(b, "")
		}
		at.Person(ann)
	})

	t.Run("the logout at the provider", func(t *testing.T) {
		first := in()
		token := at.LogoutToken("1001", map[string]any{"sid": "s1"})
		other := at.LogoutToken("1001", map[string]any{"sid": "s2"})
		for what, row := range map[string]struct {
			token string
			want  int
		}{"no token": {"", 400}, "another session": {other, 200}} {
			if got := logout(row.token); got != row.want {
				t.Errorf("%s: %d", what, got)
			}
		}
		is(first, name)
		if got := logout(token); got != http.StatusOK {
			t.Errorf("the logout: %d", got)
		}
		f.until(t, "the end of the session", func(context.Context) bool {
			return first.me().status == http.StatusSeeOther
		})
		ends, err := api.AuditList.Ask(t.Context(), f.local, audit.Query{User: name, Action: "session.end"})
		if err != nil || len(ends.Entries) == 0 || !strings.Contains(ends.Entries[0].Args, at.URL) {
			t.Errorf("the audit log has the ends %+v, %v", ends, err)
		}
		second := in()
		if got := logout(token); got != http.StatusBadRequest {
			t.Errorf("the same logout again: %d", got)
		}
		is(second, name)

		for i := range 100 {
			if got := logout(at.LogoutToken("1009", nil)); got != http.StatusOK {
				t.Fatalf("the logout %d of another person: %d", i, got)
			}
		}
	})

	t.Run("the revocation", func(t *testing.T) {
		b := in()
		if _, err := api.UserRevoke.Ask(t.Context(), f.local, api.RevokeRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
		f.until(t, "the end of the session", func(context.Context) bool { return b.me().status == http.StatusSeeOther })
		again := f.browse(t)
		if got := again.atName(again.visit("/")); got.status != http.StatusUnprocessableEntity {
			t.Errorf("a login of somebody who was revoked: %d", got.status)
		}
	})

	t.Run("the provider is away", func(t *testing.T) {
		at.CloseClientConnections()
		b := f.browse(t)
		path := b.visit("/")
		at.Close()
		if got := b.atName(path); got.status != http.StatusServiceUnavailable {
			t.Errorf("%d\n%s", got.status, got.body)
		}
	})

	t.Run("a flood of logins", func(t *testing.T) {
		b := f.browse(t)
		var got answer
		for range 200 {
			if got = b.atName("/login/callback?state=x&code=x"); strings.Contains(got.body, "too many logins") {
				break
			}
		}
		if got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") != "1" {
			t.Errorf("200 logins of an address: %d\n%s", got.status, got.body)
		}
	})
}
