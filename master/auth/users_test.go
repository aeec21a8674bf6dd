package auth_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func authority(t *testing.T, b *natstest.Bus) *auth.Authority {
	t.Helper()
	a, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: b.Keys, JetStream: b.JetStream(t), Update: b.Update})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func users(t *testing.T, b *natstest.Bus) *user.Store {
	t.Helper()
	all, err := user.Open(t.Context(), b.JetStream(t))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// enlist adds a user and returns what a connection needs to be that user's.
func enlist(t *testing.T, b *natstest.Bus, a *auth.Authority, q credential.UserRequest) nats.Option {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	q.Public = key.Public()
	token, u, err := a.Users.Add(t.Context(), q, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if u.State(time.Now()) != "active" || u.Name != q.Name {
		t.Errorf("%+v", u)
	}
	creds, err := key.Creds(token)
	if err != nil {
		t.Fatal(err)
	}
	return nats.UserCredentialBytes(creds)
}

// join connects with a credential; lost is closed when the connection has ended for good.
func join(t *testing.T, b *natstest.Bus, name string, creds nats.Option) (nc *nats.Conn, lost <-chan struct{}, err error) {
	t.Helper()
	ended := make(chan struct{})
	nc, err = nats.Connect(b.URL(), nats.InProcessServer(b), creds, nats.CustomInboxPrefix(grants.RoleOperator.Inbox(name)), nats.NoReconnect(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ClosedHandler(func(*nats.Conn) { close(ended) }))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, ended, err
}

func TestARevokedUserIsCutOffAtOnceAndForGood(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		bob := enlist(t, b, a, credential.UserRequest{Name: "bob", Role: grants.RoleOperator})
		other := enlist(t, b, a, credential.UserRequest{Name: "ada", Role: grants.RoleOperator})
		_, lost, err := join(t, b, "bob", bob)
		if err != nil {
			t.Fatal(err)
		}
		stays, _, err := join(t, b, "ada", other)
		if err != nil {
			t.Fatal(err)
		}
		u, err := a.Users.Revoke(t.Context(), "bob", "ann")
		if err != nil || u.RevokedBy != "ann" || u.State(time.Now()) != "revoked" {
			t.Fatal(u, err)
		}
		synctest.Wait()
		select {
		case <-lost:
		default:
			t.Error("the connection goes on")
		}
		if !stays.IsConnected() {
			t.Error("another operator's connection was cut, too")
		}
		refused := func(when string) {
			t.Helper()
			if _, _, err := join(t, b, "bob", bob); err == nil {
				t.Errorf("%s he is let in", when)
			}
		}
		refused("a moment later")
		b.Restart(t)
		refused("by a server that was started again")
		b.Keys = open(t, b.Keys.Dir())
		b.Restart(t)
		refused("by a server of another process")
		if _, _, err := join(t, b, "ada", other); err != nil {
			t.Errorf("who was not revoked: %v", err)
		}
	})
}

// A copy of the keys that does not know of a revocation must not take it back.
func TestAnAuthorityLearnsWhatAnotherHasRevoked(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		here := authority(t, b)
		bob := enlist(t, b, here, credential.UserRequest{Name: "bob", Role: grants.RoleOperator})
		eve := enlist(t, b, here, credential.UserRequest{Name: "eve", Role: grants.RoleOperator})
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(b.Keys.Dir())); err != nil {
			t.Fatal(err)
		}
		private(t, dir)
		there, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: open(t, dir), JetStream: b.JetStream(t), Update: b.Update})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := here.Users.Revoke(t.Context(), "bob", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := there.Users.Revoke(t.Context(), "eve", "ann"); err != nil {
			t.Fatal(err)
		}
		for name, creds := range map[string]nats.Option{"bob": bob, "eve": eve} {
			if _, _, err := join(t, b, name, creds); err == nil {
				t.Errorf("%s is let in", name)
			}
		}
	})
}

// private gives a copied key directory the modes that it must have.
func private(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestARevocationThatTheServerMissedIsMadeUpFor has the server away, and not told, when somebody is revoked.
func TestARevocationThatTheServerMissedIsMadeUpFor(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var fails bool
		a, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{
			Keys: b.Keys, JetStream: b.JetStream(t), Update: func(ctx context.Context, account string) error {
				if fails {
					return errors.New("no answer")
				}
				return b.Update(ctx, account)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"bob", "eve"} { // of eve the server has the account of her role already
			creds := enlist(t, b, a, credential.UserRequest{Name: name, Role: grants.RoleOperator})
			_, lost, err := join(t, b, name, creds)
			if err != nil {
				t.Fatal(err)
			}
			fails = true
			if _, err := a.Users.Revoke(t.Context(), name, "ann"); err == nil || !strings.Contains(err.Error(), "no answer") {
				t.Errorf("%s is revoked without a word to the server: %v", name, err)
			}
			if err := users(t, b).Allow(t.Context(), grants.Caller{User: name}, access.On{Function: "test.ping"}, nil); !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%s may dispatch: %v", name, err)
			}
			fails = false
			if _, err := a.Users.Revoke(t.Context(), name, "ann"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			select {
			case <-lost:
			default:
				t.Errorf("the connection of %s goes on", name)
			}
		}
	})
}

func TestRunBringsRevocationsToTheServer(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		told := make(chan string, 10)
		options := func(update func(context.Context, string) error) auth.AuthorityOptions {
			return auth.AuthorityOptions{Keys: b.Keys, JetStream: b.JetStream(t), Update: update}
		}
		deaf, err := auth.NewAuthority(t.Context(), options(func(context.Context, string) error { return errors.New("no answer") }))
		if err != nil {
			t.Fatal(err)
		}
		bob := enlist(t, b, deaf, credential.UserRequest{Name: "bob", Role: grants.RoleOperator})
		_, lost, err := join(t, b, "bob", bob)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deaf.Users.Revoke(t.Context(), "bob", "ann"); err == nil {
			t.Fatal("the server was told")
		}
		a, err := auth.NewAuthority(t.Context(), options(func(ctx context.Context, account string) error {
			told <- account
			return b.Update(ctx, account)
		}))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		<-lost
		time.Sleep(10 * time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(told); n != 1 {
			t.Errorf("the server was told %d times", n)
		}
	})
}

func TestUsersThatCannotBeMade(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		enlist(t, b, a, credential.UserRequest{Name: "taken", Role: grants.RoleOperator})
		enlist(t, b, a, credential.UserRequest{Name: "gone", Role: grants.RoleOperator})
		if _, err := a.Users.Revoke(t.Context(), "gone", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := keystore.Register(b.Keys.Dir(), keystore.Entry{Role: grants.RoleAuditor, ID: "offline", Keys: []credential.Key{{Public: "Uoffline", Issued: time.Now()}}}, false); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			want   error
			text   string
			change func(*credential.UserRequest)
		}{
			{user.ErrExists, "taken", func(q *credential.UserRequest) { q.Name = "taken" }},
			{user.ErrExists, "offline", func(q *credential.UserRequest) { q.Name = "offline" }},
			{user.ErrExists, "gone", func(q *credential.UserRequest) { q.Name = "gone" }},
			{user.ErrExists, "gone was revoked", func(q *credential.UserRequest) { q.Name, q.Again = "gone", true }},
			{user.ErrNotFound, "nobody", func(q *credential.UserRequest) { q.Name, q.Again = "nobody", true }},
			{user.ErrInvalid, "data directory", func(q *credential.UserRequest) { q.Name = "local" }},
			{user.ErrInvalid, "1 to 64", func(q *credential.UserRequest) { q.Name = "" }},
			{user.ErrInvalid, `'*'`, func(q *credential.UserRequest) { q.Name = "*" }},
			{user.ErrInvalid, `'.'`, func(q *credential.UserRequest) { q.Name = "a.b" }},
			{user.ErrInvalid, "public key", func(q *credential.UserRequest) { q.Public = "" }},
			{user.ErrInvalid, `"master"`, func(q *credential.UserRequest) { q.Role = grants.RoleMaster }},
			{user.ErrInvalid, `"peel"`, func(q *credential.UserRequest) { q.Role = grants.RolePeel }},
			{user.ErrInvalid, "-1s", func(q *credential.UserRequest) { q.TTL = -time.Second }},
			{user.ErrInvalid, "only read", func(q *credential.UserRequest) { q.Role, q.Limits.Target = grants.RoleAuditor, "*" }},
			{user.ErrInvalid, "only masters check limits", func(q *credential.UserRequest) { q.Role, q.Limits.Target = grants.RoleDirect, "*" }},
			{user.ErrInvalid, `"[a"`, func(q *credential.UserRequest) { q.Limits.Functions = []string{"[a"} }},
		} {
			key, err := credential.MakeKey()
			if err != nil {
				t.Fatal(err)
			}
			q := credential.UserRequest{Name: "new", Role: grants.RoleOperator, Public: key.Public()}
			c.change(&q)
			if _, _, err := a.Users.Add(t.Context(), q, "ann"); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %v %q", err, c.want, c.text)
			}
		}
		all, err := a.Users.List(t.Context())
		if err != nil || len(all) != 3 {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

func TestOneIssuedBesideTheKeysIsListedAndRevoked(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		key, err := credential.MakeKey()
		if err != nil {
			t.Fatal(err)
		}
		issue := keystore.Entry{Role: grants.RoleOperator, ID: "ada", Keys: []credential.Key{{Public: key.Public(), Issued: time.Now()}}}
		if _, err := keystore.Register(b.Keys.Dir(), issue, false); err != nil {
			t.Fatal(err)
		}
		token, err := b.Keys.Issue(grants.RoleOperator, "ada", key.Public(), 0)
		if err != nil {
			t.Fatal(err)
		}
		creds, err := key.Creds(token)
		if err != nil {
			t.Fatal(err)
		}
		_, lost, err := join(t, b, "ada", nats.UserCredentialBytes(creds))
		if err != nil {
			t.Fatal(err)
		}
		a := authority(t, b)
		if all, err := a.Users.List(t.Context()); err != nil || len(all) != 1 || all[0].Name != "ada" {
			t.Errorf("%+v, %v", all, err)
		}
		if _, err := a.Users.Revoke(t.Context(), "ada", "ann"); err != nil {
			t.Fatal(err)
		}
		<-lost
		if _, err := keystore.Register(b.Keys.Dir(), issue, true); !errors.Is(err, keystore.ErrRevoked) {
			t.Errorf("the name is given again: %v", err)
		}
	})
}

func TestAnotherCredentialKeepsRoleAndLimits(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		limits := grants.Limits{Functions: []string{"test.*"}}
		first := enlist(t, b, a, credential.UserRequest{Name: "lee", Role: grants.RoleOperator, Limits: limits, TTL: time.Hour})
		second := enlist(t, b, a, credential.UserRequest{Name: "lee", Role: grants.RoleOperator, TTL: 2 * time.Hour, Again: true})
		for what, creds := range map[string]nats.Option{"first": first, "second": second} {
			nc, _, err := join(t, b, "lee", creds)
			if err != nil {
				t.Fatal(what, err)
			}
			if asker := ask(t, b, nc, "lee"); asker.Role != grants.RoleLimited {
				t.Errorf("the %s is of %+v", what, asker)
			}
		}
		if err := users(t, b).Allow(t.Context(), grants.Caller{User: "lee"}, access.On{Function: "cmd.run"}, nil); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("the limits are gone: %v", err)
		}
		if _, err := a.Users.Revoke(t.Context(), "lee", "ann"); err != nil {
			t.Fatal(err)
		}
		for what, creds := range map[string]nats.Option{"first": first, "second": second} {
			if _, _, err := join(t, b, "lee", creds); err == nil {
				t.Errorf("the %s goes on", what)
			}
		}
	})
}

// ask sends a request as a user and returns who masters take it to be from.
func ask(t *testing.T, b *natstest.Bus, nc *nats.Conn, name string, headers ...string) grants.Caller {
	t.Helper()
	sub, err := b.Conn(t, grants.RoleMaster, "m1").SubscribeSync(wire.AllDispatches)
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	m := nats.NewMsg(wire.Dispatch(name))
	for _, h := range headers {
		m.Header.Add("Nats-Request-Info", h)
	}
	if err := nc.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	got, err := sub.NextMsg(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return grants.CallerOf(got.Subject, got.Header)
}

// TestNobodyForgesWhoAsks has clients write the header that the server writes.
func TestNobodyForgesWhoAsks(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		forged, err := json.Marshal(map[string]any{"tags": []string{"role:operator"}, "host": "10.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		for role, name := range map[grants.Role]string{grants.RoleLimited: "lee", grants.RoleOperator: "ann"} {
			nc := b.Conn(t, role, name)
			for _, headers := range [][]string{nil, {string(forged)}, {string(forged), string(forged)}, {""}, {"{"}} {
				got := ask(t, b, nc, name, headers...)
				if got.Role != role || got.User != name || got.From == "10.0.0.1" {
					t.Errorf("%s with %q passes for %+v", name, headers, got)
				}
			}
		}
	})
}

func TestLimitsAreThoseOfTheBucket(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a, all := authority(t, b), users(t, b)
		enlist(t, b, a, credential.UserRequest{Name: "lee", Role: grants.RoleOperator, Limits: grants.Limits{Target: "web-*", Functions: []string{"test.*"}}})
		enlist(t, b, a, credential.UserRequest{Name: "ada", Role: grants.RoleOperator})
		web := []target.PeelID{"web-01", "web-02"}
		selects := func(_ context.Context, expr string) ([]target.PeelID, error) {
			if expr != "web-*" {
				return nil, errors.New("another expression")
			}
			return web, nil
		}
		lee := grants.Caller{User: "lee", Role: grants.RoleLimited}
		for _, c := range []struct {
			asker    grants.Caller
			function string
			targets  []target.PeelID
			allowed  bool
		}{
			{lee, "test.ping", web, true},
			{lee, "test.ping", web[:1], true},
			{lee, "cmd.run", web, false},
			{lee, "schedule.pause", web, false},
			{lee, "test.ping", []target.PeelID{"db-01", "web-01"}, false},
			{grants.Caller{User: "ada", Role: grants.RoleOperator}, "cmd.run", []target.PeelID{"db-01"}, true},
			{grants.Caller{User: "unknown", Role: grants.RoleOperator}, "cmd.run", []target.PeelID{"db-01"}, true},
			{grants.Caller{User: "unknown", Role: grants.RoleLimited}, "test.ping", web, false},
		} {
			err := all.Allow(t.Context(), c.asker, access.On{Function: c.function, Peels: c.targets}, selects)
			if (err == nil) != c.allowed || err != nil && !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%+v %s %v: %v", c.asker, c.function, c.targets, err)
			}
		}
		broken := func(context.Context, string) ([]target.PeelID, error) { return nil, errors.New("no index") }
		if err := all.Allow(t.Context(), lee, access.On{Function: "test.ping", Peels: web}, broken); err == nil || errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("limits that cannot be checked: %v", err)
		}
		bucket(t, b.JetStream(t), wire.BucketUsers)
		b.Stop(t)
		time.Sleep(time.Second)
		if err := all.Allow(t.Context(), grants.Caller{User: "ada", Role: grants.RoleOperator}, access.On{Function: "test.ping", Peels: web}, selects); err == nil || errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("a bucket that cannot be read: %v", err)
		}
		b.Start(t)
	})
}

func TestThePermissionToSeeSecretsIsGivenByName(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a, all := authority(t, b), users(t, b)
		enlist(t, b, a, credential.UserRequest{Name: "sue", Role: grants.RoleOperator, Secrets: true})
		enlist(t, b, a, credential.UserRequest{Name: "ada", Role: grants.RoleOperator})
		for user, allowed := range map[string]bool{"sue": true, "ada": false, credential.LocalUser: false, "unknown": false} {
			err := all.AllowSecrets(t.Context(), grants.Caller{User: user, Role: grants.RoleOperator})
			if (err == nil) != allowed || err != nil && !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%s: %v", user, err)
			}
		}
		if _, _, err := a.Users.Add(t.Context(), credential.UserRequest{Name: "eve", Role: grants.RoleAuditor, Secrets: true}, "ada"); !errors.Is(err, user.ErrInvalid) {
			t.Errorf("an auditor with the permission: %v", err)
		}
		b.Stop(t)
		time.Sleep(time.Second)
		if err := all.AllowSecrets(t.Context(), grants.Caller{User: "sue", Role: grants.RoleOperator}); err == nil || errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("a bucket that cannot be read: %v", err)
		}
		b.Start(t)
	})
}

// TestLocalIsBreakGlassBesideOperators holds when the credential of a master's data directory is used in place of one of
// a person.
func TestLocalIsBreakGlassBesideOperators(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a, all := authority(t, b), users(t, b)
		local := grants.Caller{User: credential.LocalUser, Role: grants.RoleOperator}
		is := func(when string, want bool) {
			t.Helper()
			if got := all.IsBreakGlass(t.Context(), local, ""); got != want {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		is("nobody", false)
		enlist(t, b, a, credential.UserRequest{Name: "ada", Role: grants.RoleAuditor})
		enlist(t, b, a, credential.UserRequest{Name: "lee", Role: grants.RoleOperator, Limits: grants.Limits{Target: "web-*"}})
		is("nobody else may do everything", false)
		enlist(t, b, a, credential.UserRequest{Name: "ben", Role: grants.RoleOperator, TTL: time.Hour})
		is("an operator", true)
		if all.IsBreakGlass(t.Context(), grants.Caller{User: "ben", Role: grants.RoleOperator}, "") {
			t.Error("the operator breaks glass")
		}
		if all.IsBreakGlass(t.Context(), grants.Caller{User: credential.LocalUser}, "") {
			t.Error("a master whose name is local breaks glass")
		}
		time.Sleep(2 * time.Hour)
		is("the credential of the operator has expired", false)
		enlist(t, b, a, credential.UserRequest{Name: "dan", Role: grants.RoleDirect})
		is("one with the role direct", true)
		if _, err := a.Users.Revoke(t.Context(), "dan", "ann"); err != nil {
			t.Fatal(err)
		}
		is("who was revoked", false)
		login := user.Known{Name: "olga", Role: grants.RoleOperator, At: credential.Login{Issuer: "https://i.example", Subject: "1"}}
		if err := all.Bind(t.Context(), login); err != nil {
			t.Fatal(err)
		}
		is("an operator of a provider", true)
		if err := all.Bind(t.Context(), user.Known{Name: "olga", Role: grants.RoleAuditor, At: login.At}); err != nil {
			t.Fatal(err)
		}
		is("who is one no more", false)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if !all.IsBreakGlass(ended, local, "") {
			t.Error("what cannot be read is no proof that there is nobody")
		}
	})
}

// TestWhoMakesTheFirstOperatorBreaksNoGlass holds that nobody could have used the credential that a request has made.
func TestWhoMakesTheFirstOperatorBreaksNoGlass(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a, all := authority(t, b), users(t, b)
		local := grants.Caller{User: credential.LocalUser, Role: grants.RoleOperator}
		add := func(name string, again bool) {
			t.Helper()
			key, err := credential.MakeKey()
			if err != nil {
				t.Fatal(err)
			}
			q := credential.UserRequest{Name: name, Role: grants.RoleOperator, Public: key.Public(), Again: again}
			if _, _, err := a.Users.Add(t.Context(), q, credential.LocalUser); err != nil {
				t.Fatal(err)
			}
		}
		is := func(when, made string, want bool) {
			t.Helper()
			if got := all.IsBreakGlass(t.Context(), local, made); got != want {
				t.Errorf("%s: %v, want %v", when, got, want)
			}
		}
		add("ada", false)
		is("it has made the first operator", "ada", false)
		is("something else after that", "", true)
		is("it names somebody else", "bob", true)
		add("ada", true)
		is("another credential for the first operator", "ada", true)
		add("bob", false)
		is("it has made the second operator", "bob", true)
	})
}
