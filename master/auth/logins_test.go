package auth_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// A visitor is a person of a provider.
type visitor struct {
	user.Known
	sid string
}

func pat(role grants.Role, sid string) visitor {
	at := credential.Login{Issuer: "https://id.example.com", Subject: "1"}
	return visitor{user.Known{Name: "pat", Role: role, Groups: []string{"ops"}, At: at}, sid}
}

// login returns the credential of a new login.
func login(t *testing.T, a *auth.Authority, v visitor) *credential.Own {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	token, err := a.Users.Login(t.Context(), v.Known, key.Public(), v.sid)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.Creds(token)
	if err != nil {
		t.Fatal(err)
	}
	own, err := credential.ReadOwn(text)
	if err != nil {
		t.Fatal(err)
	}
	return own
}

// connects reports whether the bus takes a credential, and returns what ends with the connection.
func connects(t *testing.T, b *natstest.Bus, own *credential.Own) (lost <-chan struct{}, ok bool) {
	t.Helper()
	_, lost, err := join(t, b, own.Name, nats.UserCredentialBytes(own.Text()))
	return lost, err == nil
}

func isOver(lost <-chan struct{}) bool {
	select {
	case <-lost:
		return true
	default:
		return false
	}
}

func run(t *testing.T, a *auth.Authority) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestALoginLastsADayAndIsRenewedByItsKeyAlone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		own := login(t, a, pat(grants.RoleAuditor, "s1"))
		from := grants.Caller{User: "pat", Role: grants.RoleAuditor}
		if left := time.Until(own.Expires); left != credential.LoginLife {
			t.Errorf("the credential is valid for %v", left)
		}
		if _, ok := connects(t, b, own); !ok {
			t.Error("the bus refuses it")
		}
		began := time.Now()
		for _, row := range []struct{ after, ends time.Duration }{{5, 13}, {12, 20}, {19, 24}} {
			time.Sleep(time.Until(began.Add(row.after * time.Hour)))
			r, err := a.Users.Renew(t.Context(), from, renewalOf(t, own))
			if err != nil {
				t.Fatal(row.after, err)
			}
			text, err := own.Renew(*r)
			if err != nil {
				t.Fatal(err)
			}
			if own, err = credential.ReadOwn(text); err != nil {
				t.Fatal(err)
			}
			if ends := own.Expires.Sub(began); ends != row.ends*time.Hour {
				t.Errorf("after %d h it is renewed until %v after the login", row.after, ends)
			}
		}
		time.Sleep(4 * time.Hour)
		if _, err := a.Users.Renew(t.Context(), from, renewalOf(t, own)); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("renewed beyond a day: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if _, ok := connects(t, b, own); ok {
			t.Error("the bus takes it after a day")
		}
	})
}

func TestALoginEndsByLogoutByRevocationAndByAnotherRole(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		run(t, a)
		v := pat(grants.RoleOperator, "s1")
		ends := func(what string, own *credential.Own, end func() error) {
			t.Helper()
			lost, ok := connects(t, b, own)
			if !ok {
				t.Fatalf("%s: the bus refuses the credential", what)
			}
			if err := end(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			time.Sleep(900 * time.Millisecond)
			if _, again := connects(t, b, own); !isOver(lost) || again {
				t.Errorf("%s: the connection is over: %v; it connects again: %v", what, isOver(lost), again)
			}
		}

		first, second := login(t, a, v), login(t, a, v)
		stays, _ := connects(t, b, second)
		ends("its logout", first, func() error {
			ended, err := a.Users.Logout(t.Context(), "pat", first.Public())
			if !ended {
				t.Error("nothing was ended")
			}
			return err
		})
		if isOver(stays) {
			t.Error("the logout has ended another login of the person")
		}
		from := grants.Caller{User: "pat", Role: grants.RoleOperator}
		if _, err := a.Users.Renew(t.Context(), from, renewalOf(t, first)); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("a login that has ended is renewed: %v", err)
		}
		ends("a login in another role", second, func() error {
			auditor := login(t, a, pat(grants.RoleAuditor, "s2"))
			if _, ok := connects(t, b, auditor); !ok {
				t.Error("the bus refuses the login in the new role")
			}
			return nil
		})
		back := login(t, a, v)
		ends("the revocation", back, func() error {
			_, err := a.Users.Revoke(t.Context(), "pat", "ann")
			return err
		})
		key, err := credential.MakeKey()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Users.Login(t.Context(), v.Known, key.Public(), ""); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("a person who was revoked logs in: %v", err)
		}
	})
}

func TestLoginsThatAreRefused(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		enlist(t, b, a, credential.UserRequest{Name: "bob", Role: grants.RoleOperator})
		own := login(t, a, pat(grants.RoleOperator, ""))
		other := pat(grants.RoleOperator, "")
		other.At.Subject = "2"
		named := pat(grants.RoleOperator, "")
		named.Name = "bob"
		fresh, err := credential.MakeKey()
		if err != nil {
			t.Fatal(err)
		}
		for what, row := range map[string]struct {
			known  user.Known
			public string
		}{
			"another subject with the name": {other.Known, fresh.Public()},
			"the name of a credential":      {named.Known, fresh.Public()},
			"a key of another login":        {pat(grants.RoleOperator, "").Known, own.Public()},
		} {
			if _, err := a.Users.Login(t.Context(), row.known, row.public, ""); err == nil {
				t.Errorf("%s is logged in", what)
			}
		}
		if ended, err := a.Users.Logout(t.Context(), "bob", own.Public()); ended || err != nil {
			t.Errorf("a person ends the login of another one: %v, %v", ended, err)
		}
		for range 40 {
			login(t, a, pat(grants.RoleOperator, ""))
		}
		u, err := a.Users.Find(t.Context(), "pat")
		if err != nil || len(credential.Current(u.Keys, time.Now()))-len(u.Ended) > 16 {
			t.Errorf("after 40 logins there are %d keys and %d ended ones, %v", len(u.Keys), len(u.Ended), err)
		}
	})
}

func TestALoginProvesItsKey(t *testing.T) {
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	other, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	proof, err := key.Sign(credential.LoginText(key.Public()))
	if err != nil {
		t.Fatal(err)
	}
	for what, row := range map[string]struct {
		q  credential.LoginRequest
		ok bool
	}{
		"the own key":     {credential.LoginRequest{Public: key.Public(), Proof: proof, IDToken: "x"}, true},
		"another key":     {credential.LoginRequest{Public: other.Public(), Proof: proof, IDToken: "x"}, false},
		"no proof":        {credential.LoginRequest{Public: key.Public(), IDToken: "x"}, false},
		"no ID token":     {credential.LoginRequest{Public: key.Public(), Proof: proof}, false},
		"no key":          {credential.LoginRequest{Proof: proof, IDToken: "x"}, false},
		"another keytype": {credential.LoginRequest{Public: "A" + key.Public()[1:], Proof: proof, IDToken: "x"}, false},
	} {
		if err := row.q.Check(); (err == nil) != row.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}
