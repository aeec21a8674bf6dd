package session_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/login"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/session"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

var (
	ann     = grants.Caller{User: "ann", Role: grants.RoleOperator}
	eve     = grants.Caller{User: "eve", Role: grants.RoleAuditor}
	firefox = session.Browser{From: "192.0.2.7", Agent: "Firefox"}
)

// A master has the stores of one master.
type master struct {
	*session.Store
	users  *user.Store
	tokens *token.Store
}

func open(t *testing.T, b *natstest.Bus) master {
	t.Helper()
	js := b.JetStream(t)
	users, err := user.Open(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := token.Open(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	all, err := session.Open(t.Context(), js, users, tokens, session.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return master{all, users, tokens}
}

// login logs a caller in by a code.
func (m master) login(t *testing.T, from grants.Caller) (cookie string) {
	t.Helper()
	code, err := m.Code(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	cookie, _, err = m.Redeem(t.Context(), code.Code, firefox)
	if err != nil {
		t.Fatal(err)
	}
	return cookie
}

// opens checks what a cookie opens: the session of user, or want.
func (m master) opens(t *testing.T, cookie, user string, want error) {
	t.Helper()
	n, err := m.Authenticate(t.Context(), cookie, true)
	if !errors.Is(err, want) {
		t.Errorf("the cookie gets %v, want %v", err, want)
	} else if err == nil && n.User != user {
		t.Errorf("the session is of %s, want %s", n.User, user)
	}
}

// TestARequestThatIsNotNotedIsLogged seals the bucket: its session goes on, and somebody learns why it ends early.
func TestARequestThatIsNotNotedIsLogged(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		js := b.JetStream(t)
		var logged bytes.Buffer
		all, err := session.Open(t.Context(), js, m.users, m.tokens, session.Options{
			Log: slog.New(slog.NewTextHandler(&logged, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		cookie := m.login(t, ann)
		stream, err := js.Stream(t.Context(), "KV_"+wire.BucketSessions)
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		c.Sealed = true
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := all.Authenticate(t.Context(), cookie, true); err != nil {
			t.Fatal(err)
		}
		if text := logged.String(); !strings.Contains(text, "last request of a session not stored") ||
			!strings.Contains(text, "user=ann") || strings.Contains(text, cookie) {
			t.Errorf("the log says %q", text)
		}
	})
}

func TestACodeOpensOneSessionWithinAMinute(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		code, err := m.Code(t.Context(), ann)
		if err != nil {
			t.Fatal(err)
		}
		var opened, refused int
		var mu sync.Mutex
		var browsers sync.WaitGroup
		for range 8 {
			browsers.Go(func() {
				_, n, err := m.Redeem(t.Context(), code.Code, firefox)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && n.User == "ann" && n.Role == grants.RoleOperator:
					opened++
				case errors.Is(err, session.ErrUnknown):
					refused++
				default:
					t.Errorf("%+v, %v", n, err)
				}
			})
		}
		browsers.Wait()
		if opened != 1 || refused != 7 {
			t.Errorf("%d browsers are in, and %d were refused", opened, refused)
		}

		late, err := m.Code(t.Context(), ann)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, _, err := m.Redeem(t.Context(), late.Code, firefox); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("a code of a minute ago: %v", err)
		}
		for _, guess := range []string{"", "ann", "ann.", "ann." + strings.Repeat("A", 43), "*.x", "token:ci.x", code.Code} {
			if _, _, err := m.Redeem(t.Context(), guess, firefox); !errors.Is(err, session.ErrUnknown) {
				t.Errorf("%q: %v", guess, err)
			}
		}
	})
}

func TestALogoutAtTheProviderEndsSessionsOnEveryMaster(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m1, m2 := open(t, b), open(t, b)
		begin := func(m master, user, subject, sid string) string {
			t.Helper()
			at := &credential.Login{Issuer: "https://id.example.com", Subject: subject}
			cookie, _, err := m.ByProvider(t.Context(),
				api.Session{User: user, Role: grants.RoleOperator, Login: at, SID: sid}, firefox)
			if err != nil {
				t.Fatal(err)
			}
			return cookie
		}
		first := begin(m1, "pat", "1", "s1")
		second := begin(m2, "pat", "1", "s2")
		other := begin(m2, "kim", "2", "s3")
		byCode := m1.login(t, ann)
		m2.opens(t, first, "pat", nil)

		end := func(m master, subject, sid, token string, want int, wantErr error) {
			t.Helper()
			ended, err := m.EndAtProvider(t.Context(), session.Logout{
				Of:  credential.Login{Issuer: "https://id.example.com", Subject: subject},
				SID: sid, Token: token, Issued: time.Now(),
			}, nil)
			if len(ended) != want || !errors.Is(err, wantErr) {
				t.Errorf("%d sessions were ended, %v; want %d, %v", len(ended), err, want, wantErr)
			}
			time.Sleep(time.Second)
		}
		end(m1, "", "s1", "j1", 1, nil)
		m2.opens(t, first, "", session.ErrUnknown)
		m2.opens(t, second, "pat", nil)
		end(m2, "", "s1", "j1", 0, session.ErrUnknown) // a copy of the token
		end(m1, "1", "", "j2", 1, nil)
		m2.opens(t, second, "", session.ErrUnknown)
		m1.opens(t, other, "kim", nil)
		m2.opens(t, byCode, "ann", nil)

		unnamed := begin(m1, "pat", "1", "")
		end(m1, "", "s1", "j3", 0, nil)
		m2.opens(t, unnamed, "pat", nil)
		end(m1, "1", "s1", "j4", 1, nil) // it may be the session s1
		m2.opens(t, unnamed, "", session.ErrUnknown)
	})
}

// TestALogoutThatFailedHalfwayCanBeSentAgain has the bus refuse to remove sessions for a while.
func TestALogoutThatFailedHalfwayCanBeSentAgain(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		at := credential.Login{Issuer: "https://id.example.com", Subject: "1"}
		logout := session.Logout{Of: at, Token: "j1", Issued: time.Now()}
		begin := func() string {
			cookie, _, err := m.ByProvider(t.Context(), api.Session{User: "pat", Role: grants.RoleOperator, Login: &at}, firefox)
			if err != nil {
				t.Fatal(err)
			}
			return cookie
		}
		removable := func(is bool) {
			js := b.JetStream(t)
			stream, err := js.Stream(t.Context(), "KV_"+wire.BucketSessions)
			if err != nil {
				t.Fatal(err)
			}
			c := stream.CachedInfo().Config
			c.AllowRollup = is
			if _, err := js.UpdateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}

		first := begin()
		removable(false)
		if ended, err := m.EndAtProvider(t.Context(), logout, nil); err == nil || len(ended) != 0 {
			t.Fatalf("%d sessions were ended, %v", len(ended), err)
		}
		removable(true)
		time.Sleep(2 * time.Minute)
		later := begin()
		if ended, err := m.EndAtProvider(t.Context(), logout, nil); err != nil || len(ended) != 1 {
			t.Errorf("sent again: %d sessions were ended, %v", len(ended), err)
		}
		time.Sleep(time.Second)
		m.opens(t, first, "", session.ErrUnknown)
		m.opens(t, later, "pat", nil)
	})
}

// TestATokenOfAProviderMakesOneCredential uses a token at two masters, after a restart of the bus, and on a full bus.
func TestATokenOfAProviderMakesOneCredential(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		first, second := open(t, b), open(t, b)
		if err := errors.Join(first.Spend(t.Context(), "a"), second.Spend(t.Context(), "b")); err != nil {
			t.Fatal(err)
		}
		refused := func(when string, m master) {
			t.Helper()
			for _, digest := range []string{"a", "b"} {
				if err := m.Spend(t.Context(), digest); !errors.Is(err, grants.ErrNotAllowed) || !errors.Is(err, session.ErrUnknown) {
					t.Errorf("%s, the token is used again: %v", when, err)
				}
			}
		}
		refused("at once", first)
		refused("at another master", second)
		b.Restart(t)
		refused("after a restart", open(t, b))
		time.Sleep(login.MaxAge)
		refused("when masters take it no more", first)

		js := b.JetStream(t)
		stream, err := js.Stream(t.Context(), "KV_"+wire.BucketSessions)
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		c.MaxBytes = 1
		if _, err := js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if err := first.Spend(t.Context(), "c"); err == nil || errors.Is(err, session.ErrUnknown) {
			t.Errorf("a use that is not stored: %v", err)
		}
	})
}

func TestANameOfAProviderBelongsToItsFirstPerson(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		pat := credential.Login{Issuer: "https://id.example.com", Subject: "1"}
		for _, step := range []struct {
			what string
			name string
			role grants.Role
			at   credential.Login
			ok   bool
		}{
			{"the first login", "pat", grants.RoleAuditor, pat, true},
			{"another subject", "pat", grants.RoleAuditor, credential.Login{Issuer: pat.Issuer, Subject: "2"}, false},
			{"another issuer", "pat", grants.RoleAuditor, credential.Login{Issuer: "https://x", Subject: "1"}, false},
			{"another role", "pat", grants.RoleOperator, pat, true},
			{"a name that no credential has", "p.t", grants.RoleOperator, pat, false},
			{"the operator of a master's host", credential.LocalUser, grants.RoleOperator, pat, false},
		} {
			known := user.Known{Name: step.name, Role: step.role, Groups: []string{string(step.role)}, At: step.at}
			err := m.users.Bind(t.Context(), known)
			if (err == nil) != step.ok || !step.ok && !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%s: %v", step.what, err)
			}
		}
		all, err := m.users.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Role != grants.RoleOperator || all[0].CreatedBy != pat.Issuer ||
			len(all[0].Groups) != 1 || all[0].Groups[0] != "operator" {
			t.Errorf("the people are %+v, %v", all, err)
		}
	})
}

func TestOnlyPeopleGetCodes(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		for _, from := range []grants.Caller{
			{User: "web-1", Role: grants.RolePeel},
			{User: "m1", Role: grants.RoleMaster},
			{User: "site", Role: grants.RoleSite},
			{User: "token:ci"},
			{User: "token:ci", Role: grants.RoleOperator},
			{User: "ann"},
			{User: "lee", Role: grants.RoleLimited}, // whose limits are not known
		} {
			if _, err := m.Code(t.Context(), from); !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%+v: %v", from, err)
			}
		}
	})
}

func TestASessionEndsWithoutRequestsAndAfterItsLifetime(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		idle, busy := m.login(t, ann), m.login(t, ann)
		for i := range 12 * 4 {
			m.opens(t, busy, "ann", nil)
			// A page that refreshes itself is no activity.
			_, _ = m.Authenticate(t.Context(), idle, false)
			time.Sleep(15 * time.Minute)
			if i == 1 { // long before its lifetime is over
				m.opens(t, idle, "", session.ErrEnded)
			}
		}
		m.opens(t, idle, "", session.ErrEnded)
		m.opens(t, busy, "", session.ErrEnded)
		m.opens(t, "guess", "", session.ErrUnknown)
		m.opens(t, strings.Repeat("A", 43), "", session.ErrUnknown)
	})
}

func TestAnEndHoldsOnAnotherMasterWithinASecond(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m, other := open(t, b), open(t, b)
		keys, err := keystore.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		one, two := m.login(t, ann), m.login(t, ann)
		tokens, people := tokenSession(t, m), m.login(t, eve)
		for cookie, user := range map[string]string{one: "ann", two: "ann", tokens: "token:ci", people: "eve"} {
			other.opens(t, cookie, user, nil)
		}

		if err := m.Logout(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		other.opens(t, one, "", session.ErrUnknown)
		other.opens(t, two, "ann", nil)

		if _, err := m.End(t.Context(), ann, api.SessionEndRequest{User: "ann"}); err != nil {
			t.Fatal(err)
		}
		if _, err := m.tokens.Revoke(t.Context(), "ci", "ann"); err != nil {
			t.Fatal(err)
		}
		d := user.Directory{Store: m.users, Keys: keys, Push: func(context.Context) error { return nil }}
		key, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		public, err := key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		q := credential.UserRequest{Name: "eve", Role: grants.RoleAuditor, Public: public}
		if _, _, err := d.Add(t.Context(), q, "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Revoke(t.Context(), "eve", "ann"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		other.opens(t, two, "", session.ErrUnknown)
		other.opens(t, tokens, "", session.ErrEnded)
		other.opens(t, people, "", session.ErrEnded)
	})
}

// A master that hears of a change forgets what it has read, and sees the change at once.
func TestAnEndHoldsAtOnceWhereRecordsAreForgotten(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m, other := open(t, b), open(t, b)
		one, tokens := m.login(t, ann), tokenSession(t, m)
		other.opens(t, one, "ann", nil)
		other.opens(t, tokens, "token:ci", nil)
		if err := m.Logout(t.Context(), one); err != nil {
			t.Fatal(err)
		}
		if _, err := m.tokens.Revoke(t.Context(), "ci", "ann"); err != nil {
			t.Fatal(err)
		}
		other.opens(t, one, "ann", nil) // as it was read less than 400 ms ago
		other.opens(t, tokens, "token:ci", nil)
		other.Forget()
		other.opens(t, one, "", session.ErrUnknown)
		other.opens(t, tokens, "", session.ErrEnded)
	})
}

// TestASessionOfATokenEndsWithTheMakerOfTheToken: the record of the token stays in force, as if a list had lacked it.
func TestASessionOfATokenEndsWithTheMakerOfTheToken(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m, other := open(t, b), open(t, b)
		keys, err := keystore.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		d := user.Directory{Store: m.users, Keys: keys, Push: func(context.Context) error { return nil }}
		for name, by := range map[string]string{"mallory": "boss", "ann": "mallory"} {
			made, err := credential.MakeKey()
			if err != nil {
				t.Fatal(err)
			}
			q := credential.UserRequest{Name: name, Role: grants.RoleOperator, Public: made.Public()}
			if _, _, err := d.Add(t.Context(), q, by); err != nil {
				t.Fatal(err)
			}
		}
		cookie := tokenSession(t, m) // ann makes the token
		other.opens(t, cookie, "token:ci", nil)
		if _, err := d.RevokeAll(t.Context(), "mallory", "boss"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		other.opens(t, cookie, "", session.ErrEnded)

		text, hash := credential.NewSecret("late")
		q := credential.TokenRequest{Name: "late", Hash: hash, Scopes: []credential.Scope{credential.ScopeRead}}
		if _, err := m.tokens.Create(t.Context(), q, "ann"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := other.ByToken(t.Context(), text, firefox); !errors.Is(err, session.ErrEnded) {
			t.Errorf("a login with a token of somebody who has ended: %v", err)
		}
	})
}

func tokenSession(t *testing.T, m master) (cookie string) {
	t.Helper()
	text, hash := credential.NewSecret("ci")
	q := credential.TokenRequest{Name: "ci", Hash: hash, Scopes: []credential.Scope{credential.ScopeDispatch}}
	if _, err := m.tokens.Create(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	cookie, n, err := m.ByToken(t.Context(), text, firefox)
	if err != nil {
		t.Fatal(err)
	}
	if n.User != "token:ci" || n.Role != grants.RoleLimited {
		t.Errorf("%+v", n)
	}
	return cookie
}

func TestATokenOfAPurposeOpensNoSession(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		for name, scopes := range map[string][]credential.Scope{
			"prometheus": {credential.ScopeMetrics},
			"robot":      {credential.ScopeMCP, credential.ScopeRead, credential.ScopeDispatch},
		} {
			text, hash := credential.NewSecret(name)
			q := credential.TokenRequest{Name: name, Hash: hash, Scopes: scopes}
			if _, err := m.tokens.Create(t.Context(), q, "ann"); err != nil {
				t.Fatal(err)
			}
			if cookie, _, err := m.ByToken(t.Context(), text, firefox); !errors.Is(err, grants.ErrNotAllowed) || cookie != "" {
				t.Errorf("a session with the token %s: %v", name, err)
			}
		}
	})
}

func TestAUserHasTwentySessions(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		first := m.login(t, ann)
		for range 20 {
			time.Sleep(time.Second)
			m.login(t, ann)
		}
		all, err := m.List(t.Context(), "ann")
		if err != nil || len(all) != 20 {
			t.Errorf("%d sessions, %v", len(all), err)
		}
		time.Sleep(time.Second)
		m.opens(t, first, "", session.ErrUnknown)
	})
}

func TestOnlyOperatorsEndSessionsOfOthers(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		m.login(t, ann)
		m.login(t, eve)
		all, err := m.List(t.Context(), "ann")
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		byID, byUser := api.SessionEndRequest{ID: all[0].ID}, api.SessionEndRequest{User: "ann"}
		admin := grants.Caller{User: "token:ci", Role: grants.RoleOperator}
		for i, try := range []struct {
			from grants.Caller
			q    api.SessionEndRequest
			want error
		}{
			{eve, byUser, grants.ErrNotAllowed},
			{eve, byID, session.ErrNotFound},
			{admin, byUser, grants.ErrNotAllowed},
			{eve, api.SessionEndRequest{User: "eve"}, nil},
			{ann, byID, nil},
			{ann, byID, session.ErrNotFound},
		} {
			if _, err := m.End(t.Context(), try.from, try.q); !errors.Is(err, try.want) {
				t.Errorf("%d: %v, want %v", i, err, try.want)
			}
		}
	})
}

func TestTheBucketHasNoCookie(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m := open(t, b)
		code, err := m.Code(t.Context(), ann)
		if err != nil {
			t.Fatal(err)
		}
		kv, err := b.JetStream(t).KeyValue(t.Context(), "sessions")
		if err != nil {
			t.Fatal(err)
		}
		contents := func() (text string) {
			keys, err := kv.Keys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range keys {
				e, err := kv.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				text += fmt.Sprintf("%s %s\n", key, e.Value())
			}
			return text
		}
		if _, random, _ := strings.Cut(code.Code, "."); strings.Contains(contents(), random) {
			t.Error("the bucket has the code")
		}
		cookie, _, err := m.Redeem(t.Context(), code.Code, firefox)
		if err != nil {
			t.Fatal(err)
		}
		if stored := contents(); strings.Contains(stored, cookie) || !strings.Contains(stored, "session.") {
			t.Errorf("the bucket has %s", stored)
		}
	})
}

// FuzzCookies holds that no text but a cookie opens a session.
func FuzzCookies(f *testing.F) {
	b := natstest.Listen(f)
	js := b.JetStream(f)
	all, err := session.Open(f.Context(), js, nil, nil, session.Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("")
	f.Add(strings.Repeat("A", 43))
	f.Fuzz(func(t *testing.T, cookie string) {
		if _, err := all.Authenticate(t.Context(), cookie, true); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("%q: %v", cookie, err)
		}
		if _, _, err := all.Redeem(t.Context(), cookie, firefox); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("%q: %v", cookie, err)
		}
	})
}
