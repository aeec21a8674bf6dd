package auth_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func tokens(t *testing.T, b *natstest.Bus) *auth.Tokens {
	t.Helper()
	all, err := auth.OpenTokens(t.Context(), b.JetStream(t))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func create(t *testing.T, all *auth.Tokens, q auth.TokenRequest) (text string) {
	t.Helper()
	text, q.Hash = auth.NewSecret(q.Name)
	if _, err := all.Create(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	return text
}

func read(name string) auth.TokenRequest {
	return auth.TokenRequest{Name: name, Scopes: []auth.Scope{auth.ScopeRead}, TTL: time.Hour}
}

// opens is who the bearer of a token is, or why he is nobody.
func opens(t *testing.T, all *auth.Tokens, text string) (string, error) {
	t.Helper()
	token, err := all.Authenticate(t.Context(), text)
	if err != nil {
		return "", err
	}
	return token.User(), nil
}

func TestATokenOpensUntilItsEnd(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		text := create(t, all, read("ci"))
		if user, err := opens(t, all, text); err != nil || user != "token:ci" {
			t.Errorf("%q, %v", user, err)
		}
		time.Sleep(time.Hour - time.Second)
		if _, err := opens(t, all, text); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if _, err := opens(t, all, text); !errors.Is(err, auth.ErrTokenEnded) {
			t.Errorf("after its end: %v", err)
		}
	})
}

func TestWhatIsNotTheTokenOpensNothing(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		text := create(t, all, read("ci"))
		create(t, all, read("other"))
		secret := text[strings.LastIndexByte(text, '.')+1:]
		wrong, _ := auth.NewSecret("ci")
		for _, guess := range []string{
			"", " ", "zester", "zester.", "zester.ci", "zester.ci.", wrong, text[:len(text)-1], text + "A", text + " ", strings.ToUpper(text),
			"zester.other." + secret, "zester.nobody." + secret, "zester..ci." + secret, "zester.used.ci." + secret, "zester.*." + secret, "zester.>." + secret,
			"Bearer " + text, text + ", " + text, "zester.ci." + strings.Repeat("A", 43), "zester.ci\x00." + secret,
		} {
			if user, err := opens(t, all, guess); !errors.Is(err, auth.ErrTokenUnknown) {
				t.Errorf("%q opens as %q, %v", guess, user, err)
			}
		}
	})
}

// TestAChangeHoldsWithinASecondOnEveryMaster uses the token all the time on a master that did not make the change.
func TestAChangeHoldsWithinASecondOnEveryMaster(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		here, there := tokens(t, b), tokens(t, b)
		first := create(t, here, read("ci"))
		use := func(text string, until func(error) bool) time.Duration {
			t.Helper()
			began := time.Now()
			for !until(errOf(opens(t, there, text))) {
				if time.Since(began) > time.Minute {
					t.Fatal("never")
				}
				time.Sleep(10 * time.Millisecond)
			}
			return time.Since(began)
		}
		use(first, func(err error) bool { return err == nil })
		second, hash := auth.NewSecret("ci")
		if _, err := here.Rotate(t.Context(), auth.TokenRequest{Name: "ci", Hash: hash, TTL: time.Hour}, "bob"); err != nil {
			t.Fatal(err)
		}
		took := use(first, func(err error) bool { return errors.Is(err, auth.ErrTokenUnknown) })
		if took > time.Second {
			t.Errorf("the old secret went on for %v", took)
		}
		use(second, func(err error) bool { return err == nil })
		if _, err := here.Revoke(t.Context(), "ci", "bob"); err != nil {
			t.Fatal(err)
		}
		if took := use(second, func(err error) bool { return errors.Is(err, auth.ErrTokenEnded) }); took > time.Second {
			t.Errorf("the token went on for %v after it was revoked", took)
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

func TestAnOldSecretGoesOnForItsGrace(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		first := create(t, all, read("ci"))
		second, hash := auth.NewSecret("ci")
		if _, err := all.Rotate(t.Context(), auth.TokenRequest{Name: "ci", Hash: hash, TTL: 2 * time.Hour, Grace: time.Minute}, "bob"); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{first, second} {
			if _, err := opens(t, all, text); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if _, err := opens(t, all, first); !errors.Is(err, auth.ErrTokenUnknown) {
			t.Errorf("after the grace: %v", err)
		}
		if _, err := opens(t, all, second); err != nil {
			t.Error(err)
		}
	})
}

func TestABucketThatCannotBeReadIsNotAWrongToken(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		text := create(t, all, read("ci"))
		if _, err := opens(t, all, text); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.Stop(t)
		if _, err := opens(t, all, text); err == nil || errors.Is(err, auth.ErrTokenUnknown) || errors.Is(err, auth.ErrTokenEnded) {
			t.Errorf("without the bus: %v", err)
		}
		b.Start(t)
		time.Sleep(10 * time.Second)
		if _, err := opens(t, all, text); err != nil {
			t.Error(err)
		}
	})
}

func TestTheListTellsWhoAndWhenAndNoSecret(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		text := create(t, all, read("ci"))
		create(t, all, auth.TokenRequest{
			Name: "used", Scopes: []auth.Scope{auth.ScopeDispatch}, Limits: grants.Limits{Target: "web-*", Functions: []string{"test.*"}},
		})
		time.Sleep(30 * time.Minute)
		began := time.Now()
		if _, err := opens(t, all, text); err != nil {
			t.Fatal(err)
		}
		if _, err := all.Revoke(t.Context(), "used", "bob"); err != nil {
			t.Fatal(err)
		}
		list, err := all.List(t.Context())
		if err != nil || len(list) != 2 {
			t.Fatal(list, err)
		}
		ci, used := list[0], list[1]
		if ci.Name != "ci" || ci.CreatedBy != "ann" || ci.State(time.Now()) != "active" || began.Sub(ci.LastUsed).Abs() > time.Second {
			t.Errorf("%+v", ci)
		}
		if used.RevokedBy != "bob" || used.State(time.Now()) != "revoked" || !used.LastUsed.IsZero() || used.Limits.Target != "web-*" {
			t.Errorf("%+v", used)
		}
		if !used.Expires.IsZero() || ci.Expires.Sub(ci.Created) != time.Hour {
			t.Errorf("ends: %v and %v", ci.Expires, used.Expires)
		}
	})
}

// TestOneWriteMarksManyUses also holds that a use is marked again later.
func TestOneWriteMarksManyUses(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		text := create(t, all, read("ci"))
		stored := func() uint64 {
			s, err := b.JetStream(t).Stream(t.Context(), "KV_tokens")
			if err != nil {
				t.Fatal(err)
			}
			return s.CachedInfo().State.LastSeq
		}
		before := stored()
		for range 100 {
			if _, err := opens(t, all, text); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := stored() - before; n != 1 {
			t.Errorf("%d writes in 100 s", n)
		}
		time.Sleep(10 * time.Minute)
		if _, err := opens(t, all, text); err != nil || stored()-before != 2 {
			t.Errorf("%d writes after 11 min, %v", stored()-before, err)
		}
	})
}

func TestTheBucketHoldsNoSecret(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		text := create(t, tokens(t, b), read("ci"))
		secret := text[strings.LastIndexByte(text, '.')+1:]
		kv, err := b.JetStream(t).KeyValue(t.Context(), "tokens")
		if err != nil {
			t.Fatal(err)
		}
		entry, err := kv.Get(t.Context(), "ci")
		if err != nil {
			t.Fatal(err)
		}
		for n := 8; n < len(secret); n++ {
			if bytes.Contains(entry.Value(), []byte(secret[n-8:n])) {
				t.Fatalf("it holds %q", secret[n-8:n])
			}
		}
	})
}

func TestTokensThatCannotBeMade(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		create(t, all, read("taken"))
		if _, err := all.Revoke(t.Context(), "taken", "bob"); err != nil {
			t.Fatal(err)
		}
		dispatch := []auth.Scope{auth.ScopeDispatch}
		for _, c := range []struct {
			want   error
			text   string
			change func(*auth.TokenRequest)
		}{
			{auth.ErrTokenExists, "taken", func(q *auth.TokenRequest) { q.Name = "taken" }},
			{auth.ErrTokenInvalid, "1 to 64", func(q *auth.TokenRequest) { q.Name = "" }},
			{auth.ErrTokenInvalid, "1 to 64", func(q *auth.TokenRequest) { q.Name = "a.b" }},
			{auth.ErrTokenInvalid, "1 to 64", func(q *auth.TokenRequest) { q.Name = "*" }},
			{auth.ErrTokenInvalid, "1 to 64", func(q *auth.TokenRequest) { q.Name = strings.Repeat("a", 65) }},
			{auth.ErrTokenInvalid, "1 to 64", func(q *auth.TokenRequest) { q.Name = "ü" }},
			{auth.ErrTokenInvalid, "no hash", func(q *auth.TokenRequest) { q.Hash = auth.Hash{} }},
			{auth.ErrTokenInvalid, "no scope", func(q *auth.TokenRequest) { q.Scopes = nil }},
			{auth.ErrTokenInvalid, `"root"`, func(q *auth.TokenRequest) { q.Scopes = []auth.Scope{"root"} }},
			{auth.ErrTokenInvalid, "-1s", func(q *auth.TokenRequest) { q.TTL = -time.Second }},
			{auth.ErrTokenInvalid, "scope dispatch", func(q *auth.TokenRequest) { q.Limits.Target = "web-*" }},
			{auth.ErrTokenInvalid, "without admin", func(q *auth.TokenRequest) {
				q.Limits.Target, q.Scopes = "web-*", []auth.Scope{auth.ScopeDispatch, auth.ScopeAdmin}
			}},
			{auth.ErrTokenInvalid, "without admin and sync", func(q *auth.TokenRequest) {
				q.Limits.Target, q.Scopes = "web-*", []auth.Scope{auth.ScopeDispatch, auth.ScopeSync}
			}},
			{auth.ErrTokenInvalid, `"[a"`, func(q *auth.TokenRequest) { q.Limits.Functions, q.Scopes = []string{"[a"}, dispatch }},
			{auth.ErrTokenInvalid, `""`, func(q *auth.TokenRequest) { q.Limits.Functions, q.Scopes = []string{""}, dispatch }},
			{auth.ErrTokenInvalid, "64", func(q *auth.TokenRequest) { q.Limits.Functions, q.Scopes = make([]string, 65), dispatch }},
		} {
			q := read("new")
			_, q.Hash = auth.NewSecret(q.Name)
			c.change(&q)
			if _, err := all.Create(t.Context(), q, "ann"); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %q", err, c.text)
			}
		}
		if list, err := all.List(t.Context()); err != nil || len(list) != 1 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestARevokedTokenStaysSo(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		create(t, all, read("ci"))
		if _, err := all.Revoke(t.Context(), "ci", "bob"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		again, err := all.Revoke(t.Context(), "ci", "eve")
		if err != nil || again.RevokedBy != "bob" || time.Since(again.Revoked) < time.Minute {
			t.Errorf("%+v, %v", again, err)
		}
		text, hash := auth.NewSecret("ci")
		if _, err := all.Rotate(t.Context(), auth.TokenRequest{Name: "ci", Hash: hash}, "ann"); !errors.Is(err, auth.ErrTokenInvalid) {
			t.Errorf("rotated: %v", err)
		}
		if _, err := opens(t, all, text); !errors.Is(err, auth.ErrTokenUnknown) {
			t.Errorf("opened: %v", err)
		}
		for _, name := range []string{"nobody", "used"} {
			if _, err := all.Revoke(t.Context(), name, "bob"); !errors.Is(err, auth.ErrNoToken) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestARevocationWinsOverRotations rotates a token on one master all the time while another revokes it.
func TestARevocationWinsOverRotations(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		here, there := tokens(t, b), tokens(t, b)
		var texts []string
		for i := range 20 {
			name := fmt.Sprintf("ci%d", i)
			texts = append(texts, create(t, here, read(name)))
			var rotating sync.WaitGroup
			rotated := make(chan string, 100_000)
			for range 4 {
				rotating.Go(func() {
					for {
						text, hash := auth.NewSecret(name)
						if _, err := here.Rotate(t.Context(), auth.TokenRequest{Name: name, Hash: hash, Grace: time.Hour}, "ann"); err != nil {
							if t.Context().Err() == nil && !errors.Is(err, auth.ErrTokenInvalid) {
								t.Errorf("a rotation failed: %v", err)
							}
							return
						}
						rotated <- text
					}
				})
			}
			texts = append(texts, <-rotated)
			if _, err := there.Revoke(t.Context(), name, "bob"); err != nil {
				t.Fatalf("the revocation failed: %v", err) // which ends the rotations
			}
			rotating.Wait()
			close(rotated)
			for text := range rotated {
				texts = append(texts, text)
			}
		}
		time.Sleep(time.Second)
		list, err := there.List(t.Context())
		if err != nil || len(list) != 20 {
			t.Fatal(list, err)
		}
		for _, token := range list {
			if token.State(time.Now()) != "revoked" || token.RevokedBy != "bob" {
				t.Errorf("%s is %s", token.Name, token.State(time.Now()))
			}
		}
		for _, text := range texts {
			if _, err := opens(t, here, text); err == nil {
				t.Error("a revoked token opens")
			}
		}
	})
}

// TestATokenIsJudgedByNameAsItIsNow is about requests that are sent after the one that had the token's text.
func TestATokenIsJudgedByNameAsItIsNow(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		limits := grants.Limits{Target: "web-*", Functions: []string{"test.*"}}
		create(t, all, auth.TokenRequest{Name: "ci", Scopes: []auth.Scope{auth.ScopeDispatch}, Limits: limits, TTL: time.Hour})
		create(t, all, auth.TokenRequest{Name: "admin", Scopes: []auth.Scope{auth.ScopeAdmin}})
		create(t, all, read("reader"))
		allow := func(name, function string, targets ...target.PeelID) error {
			return all.Allow(t.Context(), name, function, targets, func(context.Context, string) ([]target.PeelID, error) {
				return []target.PeelID{"web-01"}, nil
			})
		}
		for _, refused := range []error{
			allow("nobody", "test.ping", "web-01"), allow("reader", "test.ping", "web-01"), allow("ci", "cmd.run", "web-01"), allow("ci", "test.ping", "db-01", "web-01"),
		} {
			if !errors.Is(refused, grants.ErrNotAllowed) {
				t.Errorf("%v", refused)
			}
		}
		if outside, ok := errors.AsType[*grants.OutsideError](allow("ci", "test.ping", "db-01", "web-01")); !ok || !outside.Has("db-01") || outside.Has("web-01") {
			t.Errorf("%v", outside)
		}
		if err := errors.Join(allow("ci", "test.ping", "web-01"), allow("admin", "cmd.run", "db-01")); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Hour) // its requests were made before it expired
		if err := allow("ci", "test.ping", "web-01"); err != nil {
			t.Error(err)
		}
		if _, err := all.Revoke(t.Context(), "ci", "bob"); err != nil {
			t.Fatal(err)
		}
		if err := allow("ci", "test.ping", "web-01"); !errors.Is(err, grants.ErrNotAllowed) || !strings.Contains(err.Error(), "the token ci was revoked") {
			t.Errorf("%v", err)
		}
	})
}

// TestARevocationOnAnotherMasterIsSeenAtOnce has a master remember a token that another master then revokes.
func TestARevocationOnAnotherMasterIsSeenAtOnce(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		here, there := tokens(t, b), tokens(t, b)
		text := create(t, here, read("ci"))
		if _, err := opens(t, there, text); err != nil {
			t.Fatal(err)
		}
		if err := there.CheckNotRevoked(t.Context(), "ci"); err != nil {
			t.Error(err)
		}
		if _, err := here.Revoke(t.Context(), "ci", "bob"); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"ci", "nobody"} {
			if err := there.CheckNotRevoked(t.Context(), name); !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestLimits(t *testing.T) {
	web := []target.PeelID{"web-01", "web-02", "web-03"}
	for _, c := range []struct {
		limits   grants.Limits
		function string
		targets  []target.PeelID
		refused  string
	}{
		{grants.Limits{}, "cmd.run", []target.PeelID{"db-01"}, ""},
		{grants.Limits{Functions: []string{"test.*", "cmd.run"}}, "cmd.run", []target.PeelID{"db-01"}, ""},
		{grants.Limits{Functions: []string{"test.*"}}, "cmd.run", web, "cmd.run"},
		{grants.Limits{Functions: []string{"test.*"}}, "testing.ping", web, "testing.ping"},
		{grants.Limits{Target: "web-*"}, "cmd.run", web, ""},
		{grants.Limits{Target: "web-*"}, "cmd.run", web[1:2], ""},
		{grants.Limits{Target: "web-*"}, "cmd.run", []target.PeelID{"db-01", "web-01", "web-09"}, "2 of 3 targets, the first of them db-01"},
		{grants.Limits{Target: "web-*", Functions: []string{"cmd.run"}}, "cmd.run", web, ""},
		{grants.Limits{Target: "web-*", Functions: []string{"cmd.run"}}, "test.ping", web, "test.ping"},
	} {
		err := c.limits.Allow(c.function, c.targets, web)
		if (err != nil) != (c.refused != "") || err != nil && (!errors.Is(err, grants.ErrNotAllowed) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%+v, %s on %v: %v", c.limits, c.function, c.targets, err)
		}
	}
}

func TestScopesIncludeNoOtherButAdminAll(t *testing.T) {
	all := []auth.Scope{auth.ScopeRead, auth.ScopeDispatch, auth.ScopeSync, auth.ScopeAdmin}
	for _, has := range all {
		token := auth.Token{Scopes: []auth.Scope{has}}
		for _, want := range all {
			if got := token.Has(want); got != (has == want || has == auth.ScopeAdmin) {
				t.Errorf("%s gives %s: %v", has, want, got)
			}
		}
	}
	if slices.ContainsFunc(all, (&auth.Token{}).Has) {
		t.Error("a token without a scope has one")
	}
}

// FuzzAuthenticate holds that no text but the token's own opens it, and that none makes the bucket do anything odd.
func FuzzAuthenticate(f *testing.F) {
	b := natstest.Listen(f)
	js, err := jetstream.New(b.Conn(f, grants.RoleMaster, "m1"))
	if err != nil {
		f.Fatal(err)
	}
	all, err := auth.OpenTokens(f.Context(), js)
	if err != nil {
		f.Fatal(err)
	}
	q := read("ci")
	var text string
	text, q.Hash = auth.NewSecret("ci")
	if _, err := all.Create(f.Context(), q, "ann"); err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "zester.ci.", "zester.a.b.c", "zester.>." + strings.Repeat("x", 43), text[:len(text)-2] + "__"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, guess string) {
		if guess == text {
			return
		}
		if _, err := all.Authenticate(context.Background(), guess); !errors.Is(err, auth.ErrTokenUnknown) {
			t.Errorf("%q: %v", guess, err)
		}
	})
}
