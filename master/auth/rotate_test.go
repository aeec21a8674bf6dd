package auth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestSigningKeysAreRotatedWithoutAnOutage(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		ctx := t.Context()
		go func() { _ = a.Run(ctx) }()
		token := joinToken(t, a, credential.JoinRequest{Name: "all", Peel: "*", Uses: 9, TTL: time.Hour})
		renewed, away := newHost(t, "web-01"), newHost(t, "web-02")
		old, oldAway := renewed.ask(t, a, token, nil), away.ask(t, a, token, nil)
		stays, cut, err := renewed.connect(t, b, old)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if r, err := a.RotateKeys(t.Context()); err != nil || r.Generation != 1 {
			t.Fatal(r, err)
		}
		time.Sleep(time.Second)
		select {
		case <-cut:
			t.Error("the rotation cut a connection")
		default:
		}
		if _, err := a.RotateKeys(t.Context()); !errors.Is(err, keystore.ErrFormer) {
			t.Errorf("rotated twice: %v", err)
		}
		fresh := renewed.ask(t, a, "", nil)
		all := func(when string, credentials map[string]bool) {
			t.Helper()
			for text, good := range credentials {
				h := renewed
				if text == oldAway {
					h = away
				}
				nc, _, err := h.connect(t, b, text)
				if (err == nil) != good {
					t.Errorf("%s: %v", when, err)
				}
				if err == nil {
					nc.Close()
				}
			}
		}
		all("both are valid", map[string]bool{old: true, oldAway: true, fresh: true})
		b.Keys = open(t, b.Keys.Dir())
		b.Restart(t)
		all("after a restart, too", map[string]bool{old: true, oldAway: true, fresh: true})
		if _, err := a.RetireKeys(t.Context(), false); !errors.Is(err, auth.ErrBehind) {
			t.Errorf("who was not renewed is locked out: %v", err)
		}
		if stays.IsConnected() {
			t.Error("the restart has left a connection")
		}
		if _, cut, err = renewed.connect(t, b, old); err != nil {
			t.Fatal(err)
		}
		newest := away.ask(t, a, "", nil)
		if _, err := a.RetireKeys(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		select {
		case <-cut:
		default:
			t.Error("a connection with the former goes on")
		}
		all("the former is at its end", map[string]bool{old: false, oldAway: false, fresh: true})
		if _, _, err := away.connect(t, b, newest); err != nil {
			t.Error(err)
		}
		b.Keys = open(t, b.Keys.Dir())
		b.Restart(t)
		all("after a restart", map[string]bool{old: false, fresh: true})
		time.Sleep(time.Minute) // for the connections that come back
	})
}

// A master whose keys are a copy of before the rotation must not bring the former back.
func TestACopyOfFormerKeysChangesNothing(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		here := authority(t, b)
		bob := enlist(t, b, here, credential.UserRequest{Name: "bob", Role: grants.RoleOperator})
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(b.Keys.Dir())); err != nil {
			t.Fatal(err)
		}
		private(t, dir)
		there, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: open(t, dir), JetStream: b.JetStream(t), Update: b.Update})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		go func() { _ = here.Run(ctx) }()
		if _, err := here.RotateKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		ada := enlist(t, b, here, credential.UserRequest{Name: "ada", Role: grants.RoleOperator})
		if _, err := there.Users.Revoke(t.Context(), "bob", "ann"); !errors.Is(err, auth.ErrStale) {
			t.Errorf("the copy told the server: %v", err)
		}
		if _, err := there.RotateKeys(t.Context()); !errors.Is(err, auth.ErrStale) {
			t.Errorf("the copy is rotated: %v", err)
		}
		time.Sleep(time.Minute)
		for name, good := range map[string]bool{"ada": true, "bob": false} {
			creds := map[string]nats.Option{"ada": ada, "bob": bob}[name]
			if _, _, err := join(t, b, name, creds); (err == nil) != good {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// A server elsewhere keeps the accounts that an earlier version gave it, and their permissions.
func TestServersGetThePermissionsOfANewVersionOnce(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		file := filepath.Join(b.Keys.Dir(), "rotation.json")
		start := func() (updated int) {
			a, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: open(t, b.Keys.Dir()), JetStream: b.JetStream(t), Update: func(context.Context, string) error {
				updated++
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- a.Run(ctx) }()
			time.Sleep(time.Second)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			return updated
		}
		if n := start(); n != 0 {
			t.Errorf("keys of this version: %d accounts were updated", n)
		}
		for name, former := range map[string]string{"a version that noted nothing": "{}", "another version": `{"grants":"00"}`} {
			if err := os.WriteFile(file, []byte(former), 0o600); err != nil {
				t.Fatal(err)
			}
			if want := len(grants.Roles()); start() != want {
				t.Errorf("%s: not all %d accounts were updated", name, want)
			}
			if n := start(); n != 0 {
				t.Errorf("%s, the second start: %d accounts were updated", name, n)
			}
		}
	})
}

// A master may die after it has written new keys, or the end of the former, and before it has told servers and others.
func TestAChangeOfKeysThatNobodyWasToldOfIsMadeUpForAtTheNextStart(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		host := newHost(t, "web-01")
		first := authority(t, b)
		old := host.ask(t, first, joinToken(t, first, credential.JoinRequest{Name: "all", Peel: "*", Uses: 1, TTL: time.Hour}), nil)
		copied := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(copied, os.DirFS(b.Keys.Dir())); err != nil {
			t.Fatal(err)
		}
		private(t, copied)
		js := b.JetStream(t) // by a credential of before
		start := func() *auth.Authority {
			a, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: open(t, b.Keys.Dir()), JetStream: js, Update: b.Update})
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			go func() { _ = a.Run(ctx) }()
			time.Sleep(time.Second)
			return a
		}
		let := func(when, credential string, good bool) {
			t.Helper()
			nc, _, err := host.connect(t, b, credential)
			if (err == nil) != good {
				t.Errorf("%s: %v", when, err)
			}
			if err == nil {
				nc.Close()
			}
		}
		if err := b.Keys.Rotate(); err != nil {
			t.Fatal(err)
		}
		a := start()
		fresh := host.ask(t, a, "", nil)
		let("rotated, the former", old, true)
		let("rotated, a new one", fresh, true)
		stale, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{Keys: open(t, copied), JetStream: js, Update: b.Update})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stale.RotateKeys(t.Context()); !errors.Is(err, auth.ErrStale) {
			t.Errorf("a copy of before does not know: %v", err)
		}
		if open(t, b.Keys.Dir()).Dirty() {
			t.Error("servers are told again at every start")
		}
		if err := b.Keys.Retire(); err != nil {
			t.Fatal(err)
		}
		start()
		let("retired, the former", old, false)
		let("retired, the new one", fresh, true)
		time.Sleep(time.Minute) // for the connections that come back
	})
}

// The credential on the host of a master is replaced although its disk was full when servers got the new keys.
func TestCredentialsOfTheHostAreReplacedOnceTheyCanBe(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var calls, updates atomic.Int32
		a, err := auth.NewAuthority(t.Context(), auth.AuthorityOptions{
			Keys: b.Keys, JetStream: b.JetStream(t),
			Update: func(context.Context, string) error { updates.Add(1); return nil },
			Rotated: func() error {
				if calls.Add(1) < 3 {
					return errors.New("the disk is full")
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		go func() { _ = a.Run(ctx) }()
		time.Sleep(time.Second)
		if _, err := a.RotateKeys(ctx); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if err := a.Users.Push(ctx); err != nil || calls.Load() != 1 {
			t.Errorf("a revocation waits for the disk of this host: %v, called %d times", err, calls.Load())
		}
		time.Sleep(5 * time.Minute)
		if calls.Load() != 3 || int(updates.Load()) != len(grants.Roles()) || b.Keys.Dirty() {
			t.Errorf("called %d times, %d accounts updated, dirty: %v", calls.Load(), updates.Load(), b.Keys.Dirty())
		}
	})
}

// makeSite makes a credential as zester auth issue does, and returns it with its public key.
func makeSite(t *testing.T, k *keystore.Keys, name string) (creds []byte, public string) {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	public = key.Public()
	issue := keystore.Entry{Role: grants.RoleSite, ID: name, Keys: []credential.Key{{Public: public, Issued: time.Now()}}}
	if _, err := keystore.Register(k.Dir(), issue, true); err != nil {
		t.Fatal(err)
	}
	token, err := k.IssueSite(name, public, []target.PeelID{"peel-a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	creds, err = key.Creds(token)
	if err != nil {
		t.Fatal(err)
	}
	return creds, public
}

// A site whose credential would end with the former keys is told, as peels and people are.
func TestKeysAreNotRetiredWhileASiteNeedsThem(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		makeSite(t, b.Keys, "berlin")
		makeSite(t, b.Keys, "bonn")
		time.Sleep(time.Minute)
		if _, err := a.RotateKeys(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Hosts.RevokeSite(t.Context(), "bonn", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.RetireKeys(t.Context(), false); !errors.Is(err, auth.ErrBehind) || !strings.HasSuffix(err.Error(), ": 1, of site berlin") {
			t.Errorf("the former are retired: %v", err)
		}
		makeSite(t, b.Keys, "berlin")
		if _, err := a.RetireKeys(t.Context(), false); err != nil {
			t.Error(err)
		}
	})
}
