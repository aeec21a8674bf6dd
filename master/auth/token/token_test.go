package token_test

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

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func tokens(t *testing.T, b *natstest.Bus) *token.Store {
	t.Helper()
	all, err := token.Open(t.Context(), b.JetStream(t))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func create(t *testing.T, all *token.Store, q credential.TokenRequest) (text string) {
	t.Helper()
	text, q.Hash = credential.NewSecret(q.Name)
	if _, err := all.Create(t.Context(), q, "ann"); err != nil {
		t.Fatal(err)
	}
	return text
}

func read(name string) credential.TokenRequest {
	return credential.TokenRequest{Name: name, Scopes: []credential.Scope{credential.ScopeRead}, TTL: time.Hour}
}

// opens is who the bearer of a token is, or why he is nobody.
func opens(t *testing.T, all *token.Store, text string) (string, error) {
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
		if _, err := opens(t, all, text); !errors.Is(err, token.ErrEnded) {
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
		wrong, _ := credential.NewSecret("ci")
		for _, guess := range []string{
			"", " ", "zester", "zester.", "zester.ci", "zester.ci.", wrong, text[:len(text)-1], text + "A", text + " ", strings.ToUpper(text),
			"zester.other." + secret, "zester.nobody." + secret, "zester..ci." + secret, "zester.used.ci." + secret, "zester.*." + secret, "zester.>." + secret,
			"Bearer " + text, text + ", " + text, "zester.ci." + strings.Repeat("A", 43), "zester.ci\x00." + secret,
		} {
			if user, err := opens(t, all, guess); !errors.Is(err, token.ErrUnknown) {
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
		second, hash := credential.NewSecret("ci")
		if _, err := here.Rotate(t.Context(), credential.TokenRequest{Name: "ci", Hash: hash, TTL: time.Hour}, "bob"); err != nil {
			t.Fatal(err)
		}
		took := use(first, func(err error) bool { return errors.Is(err, token.ErrUnknown) })
		if took > time.Second {
			t.Errorf("the old secret went on for %v", took)
		}
		use(second, func(err error) bool { return err == nil })
		if _, err := here.Revoke(t.Context(), "ci", "bob"); err != nil {
			t.Fatal(err)
		}
		if took := use(second, func(err error) bool { return errors.Is(err, token.ErrEnded) }); took > time.Second {
			t.Errorf("the token went on for %v after it was revoked", took)
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

func TestAnOldSecretGoesOnForItsGrace(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := tokens(t, b)
		first := create(t, all, read("ci"))
		second, hash := credential.NewSecret("ci")
		if _, err := all.Rotate(t.Context(), credential.TokenRequest{Name: "ci", Hash: hash, TTL: 2 * time.Hour, Grace: time.Minute}, "bob"); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{first, second} {
			if _, err := opens(t, all, text); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		if _, err := opens(t, all, first); !errors.Is(err, token.ErrUnknown) {
			t.Errorf("after the grace: %v", err)
		}
		if _, err := opens(t, all, second); err != nil {
			t.Error(err)
		}
		makers, err := all.Makers(t.Context(), "ci")
		if recent, errRecent := all.RecentMakers(t.Context(), "ci"); errors.Join(err, errRecent) != nil ||
			!slices.Equal(makers, []string{"ann", "bob"}) || !slices.Equal(recent, makers) {
			t.Errorf("behind the token are %v, lately %v", makers, recent)
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
		if _, err := opens(t, all, text); err == nil || errors.Is(err, token.ErrUnknown) || errors.Is(err, token.ErrEnded) {
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
		create(t, all, credential.TokenRequest{
			Name: "used", Scopes: []credential.Scope{credential.ScopeDispatch}, Limits: grants.Limits{Target: "web-*", Functions: []string{"test.*"}},
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

// A use that the bus does not store for a while is stored with the next one.
func TestAMarkThatIsNotStoredIsTriedAgain(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all, js := tokens(t, b), b.JetStream(t)
		text := create(t, all, read("ci"))
		limit := func(bytes int32) {
			t.Helper()
			s, err := js.Stream(t.Context(), "KV_tokens")
			if err != nil {
				t.Fatal(err)
			}
			c := s.CachedInfo().Config
			c.MaxMsgSize = bytes
			if _, err := js.UpdateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		used := func() time.Time {
			t.Helper()
			if _, err := opens(t, all, text); err != nil {
				t.Fatal(err)
			}
			list, err := all.List(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatal(list, err)
			}
			return list[0].LastUsed
		}
		limit(1)
		if at := used(); !at.IsZero() {
			t.Fatalf("the use of %s is stored", at)
		}
		limit(-1)
		time.Sleep(time.Minute)
		if at := used(); at.IsZero() {
			t.Error("the next use is not stored")
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
		dispatch := []credential.Scope{credential.ScopeDispatch}
		for _, c := range []struct {
			want   error
			text   string
			change func(*credential.TokenRequest)
		}{
			{token.ErrExists, "taken", func(q *credential.TokenRequest) { q.Name = "taken" }},
			{token.ErrInvalid, "1 to 64", func(q *credential.TokenRequest) { q.Name = "" }},
			{token.ErrInvalid, "1 to 64", func(q *credential.TokenRequest) { q.Name = "a.b" }},
			{token.ErrInvalid, "1 to 64", func(q *credential.TokenRequest) { q.Name = "*" }},
			{token.ErrInvalid, "1 to 64", func(q *credential.TokenRequest) { q.Name = strings.Repeat("a", 65) }},
			{token.ErrInvalid, "1 to 64", func(q *credential.TokenRequest) { q.Name = "ü" }},
			{token.ErrInvalid, "no hash", func(q *credential.TokenRequest) { q.Hash = credential.Hash{} }},
			{token.ErrInvalid, "no scope", func(q *credential.TokenRequest) { q.Scopes = nil }},
			{token.ErrInvalid, `"root"`, func(q *credential.TokenRequest) { q.Scopes = []credential.Scope{"root"} }},
			{token.ErrInvalid, "-1s", func(q *credential.TokenRequest) { q.TTL = -time.Second }},
			{token.ErrInvalid, "scope dispatch", func(q *credential.TokenRequest) { q.Limits.Target = "web-*" }},
			{token.ErrInvalid, "without admin", func(q *credential.TokenRequest) {
				q.Limits.Target, q.Scopes = "web-*", []credential.Scope{credential.ScopeDispatch, credential.ScopeAdmin}
			}},
			{token.ErrInvalid, "without admin and sync", func(q *credential.TokenRequest) {
				q.Limits.Target, q.Scopes = "web-*", []credential.Scope{credential.ScopeDispatch, credential.ScopeSync}
			}},
			{token.ErrInvalid, `"[a"`, func(q *credential.TokenRequest) { q.Limits.Functions, q.Scopes = []string{"[a"}, dispatch }},
			{token.ErrInvalid, `""`, func(q *credential.TokenRequest) { q.Limits.Functions, q.Scopes = []string{""}, dispatch }},
			{token.ErrInvalid, "64", func(q *credential.TokenRequest) { q.Limits.Functions, q.Scopes = make([]string, 65), dispatch }},
		} {
			q := read("new")
			_, q.Hash = credential.NewSecret(q.Name)
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
		text, hash := credential.NewSecret("ci")
		if _, err := all.Rotate(t.Context(), credential.TokenRequest{Name: "ci", Hash: hash}, "ann"); !errors.Is(err, token.ErrInvalid) {
			t.Errorf("rotated: %v", err)
		}
		if _, err := opens(t, all, text); !errors.Is(err, token.ErrUnknown) {
			t.Errorf("opened: %v", err)
		}
		admin := read("root")
		admin.Scopes = []credential.Scope{credential.ScopeAdmin}
		create(t, all, admin)
		if _, err := all.Revoke(t.Context(), "root", "bob"); err != nil {
			t.Fatal(err)
		}
		all.Forget()
		_, has := all.Has(t.Context(), "root", credential.ScopeDispatch)
		_, limits := all.Limits(t.Context(), "root")
		_, makers := all.RecentMakers(t.Context(), "root")
		for i, err := range []error{
			has, limits, makers, all.CheckNotRevoked(t.Context(), "root"),
			all.Allow(t.Context(), "root", "test.ping", nil, nil),
		} {
			if !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("question %d about a revoked token of the scope admin: %v", i, err)
			}
		}
		for _, name := range []string{"nobody", "used"} {
			if _, err := all.Revoke(t.Context(), name, "bob"); !errors.Is(err, token.ErrNotFound) {
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
						text, hash := credential.NewSecret(name)
						if _, err := here.Rotate(t.Context(), credential.TokenRequest{Name: name, Hash: hash, Grace: time.Hour}, "ann"); err != nil {
							if t.Context().Err() == nil && !errors.Is(err, token.ErrInvalid) {
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
		create(t, all, credential.TokenRequest{Name: "ci", Scopes: []credential.Scope{credential.ScopeDispatch}, Limits: limits, TTL: time.Hour})
		create(t, all, credential.TokenRequest{Name: "admin", Scopes: []credential.Scope{credential.ScopeAdmin}})
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
		selects := func(context.Context, string) ([]target.PeelID, error) { return web, nil }
		err := c.limits.Evaluate(t.Context(), "ci", c.function, c.targets, selects)
		if (err != nil) != (c.refused != "") || err != nil && (!errors.Is(err, grants.ErrNotAllowed) || !strings.Contains(err.Error(), c.refused)) {
			t.Errorf("%+v, %s on %v: %v", c.limits, c.function, c.targets, err)
		}
	}
}

func TestScopesIncludeNoOtherButAdminAll(t *testing.T) {
	all := []credential.Scope{credential.ScopeRead, credential.ScopeDispatch, credential.ScopeSync, credential.ScopeAdmin}
	for _, has := range all {
		one := credential.Token{Scopes: []credential.Scope{has}}
		for _, want := range all {
			if got := one.Has(want); got != (has == want || has == credential.ScopeAdmin) {
				t.Errorf("%s gives %s: %v", has, want, got)
			}
		}
	}
	if slices.ContainsFunc(all, (&credential.Token{}).Has) {
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
	all, err := token.Open(f.Context(), js)
	if err != nil {
		f.Fatal(err)
	}
	q := read("ci")
	var text string
	text, q.Hash = credential.NewSecret("ci")
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
		if _, err := all.Authenticate(context.Background(), guess); !errors.Is(err, token.ErrUnknown) {
			t.Errorf("%q: %v", guess, err)
		}
	})
}
