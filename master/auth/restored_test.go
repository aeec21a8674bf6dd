package auth_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A copyOf is an older copy of a bucket.
type copyOf struct {
	kv   jetstream.KeyValue
	then map[string][]byte
}

func copyBucket(t *testing.T, b *natstest.Bus, name string) copyOf {
	t.Helper()
	c := copyOf{kv: bucket(t, b.JetStream(t), name), then: map[string][]byte{}}
	for _, key := range c.keys(t) {
		e, err := c.kv.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		c.then[key] = e.Value()
	}
	return c
}

func (c *copyOf) keys(t *testing.T) (all []string) {
	t.Helper()
	list, err := c.kv.ListKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key := range list.Keys() {
		all = append(all, key)
	}
	return all
}

// restore brings the bucket back to what it was.
func (c *copyOf) restore(t *testing.T) {
	t.Helper()
	for _, key := range c.keys(t) {
		if err := c.kv.Purge(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	for key, value := range c.then {
		if _, err := c.kv.Put(t.Context(), key, value); err != nil {
			t.Fatal(err)
		}
	}
}

// issueBesideKeys registers a key as zester auth issue does.
func issueBesideKeys(t *testing.T, b *natstest.Bus, role grants.Role, name string) credential.Key {
	t.Helper()
	made, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	key := credential.Key{Public: made.Public(), Issued: time.Now(), Expires: time.Now().Add(24 * time.Hour)}
	if _, err := keystore.Register(b.Keys.Dir(), keystore.Entry{Role: role, ID: name, Keys: []credential.Key{key}}, true); err != nil {
		t.Fatal(err)
	}
	return key
}

func TestTheKeysRevokeAgainWhatAnOlderCopyOfTheBusHasActive(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		bob := enlist(t, b, a, credential.UserRequest{Name: "bob", Role: grants.RoleOperator})
		ada := enlist(t, b, a, credential.UserRequest{Name: "ada", Role: grants.RoleOperator})
		accept := func(h *host) {
			if _, _, err := a.Hosts.Enroll(t.Context(), h.request("")); err == nil {
				t.Fatal("a host was let in without an approval")
			}
			if _, err := a.Hosts.Approve(t.Context(), h.id, h.public, "ada"); err != nil {
				t.Fatal(err)
			}
		}
		accept(newHost(t, "web-01"))
		accept(newHost(t, "web-02"))
		// The host web-03 is revoked, set up anew, and accepted with another key.
		first := newHost(t, "web-03")
		second := newHost(t, "web-03")
		accept(first)
		issueBesideKeys(t, b, grants.RoleMaster, "m9")
		issueBesideKeys(t, b, grants.RoleSite, "berlin")
		people, hosts := copyBucket(t, b, wire.BucketUsers), copyBucket(t, b, wire.BucketEnroll)

		if _, err := a.Users.Revoke(t.Context(), "bob", "ada"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Hosts.Revoke(t.Context(), "web-01", "ada"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Hosts.Revoke(t.Context(), "web-03", "ada"); err != nil {
			t.Fatal(err)
		}
		accept(second)
		if _, err := a.Hosts.RevokeMaster(t.Context(), "m9", "ada"); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Hosts.RevokeSite(t.Context(), "berlin", "ada"); err != nil {
			t.Fatal(err)
		}
		again := authority(t, b)
		go func() { _ = again.Run(t.Context()) }()
		time.Sleep(time.Minute)
		fresh := issueBesideKeys(t, b, grants.RoleMaster, "m9") // the name is given to another process

		b.Restart(t)
		people.restore(t)
		hosts.restore(t)
		later := authority(t, b)
		go func() { _ = later.Run(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()

		if err := users(t, b).CheckNotRevoked(t.Context(), "bob"); err == nil {
			t.Error("bob is active")
		}
		if err := users(t, b).CheckNotRevoked(t.Context(), "ada"); err != nil {
			t.Error(err)
		}
		all, err := later.Users.List(t.Context())
		if err != nil || len(all) != 2 || all[1].RevokedBy != "the keys of the master" {
			t.Errorf("%+v, %v", all, err)
		}
		if _, _, err := join(t, b, "bob", bob); err == nil {
			t.Error("bob is let in")
		}
		if _, _, err := join(t, b, "ada", ada); err != nil {
			t.Error(err)
		}
		peels, err := later.Hosts.List(t.Context())
		if err != nil || len(peels) != 3 {
			t.Errorf("%+v, %v", peels, err)
		}
		for _, e := range peels {
			if (e.State == credential.Accepted) != (e.ID == "web-02") {
				t.Errorf("%s is %s", e.ID, e.State)
			}
		}
		revoked := b.Keys.Revoked(grants.RolePeel)
		if _, ended := revoked[first.public]; !ended {
			t.Error("the key of the host that was revoked is valid")
		}
		if _, ended := revoked[second.public]; ended {
			t.Error("the key with which the host joined again is revoked")
		}
		masters, err := later.Hosts.EndedMasters(t.Context())
		if _, ended := masters[fresh.Public]; err != nil || len(masters) != 1 || ended {
			t.Errorf("%v, %v", masters, err)
		}
		if sites, err := later.Hosts.EndedSites(t.Context()); err != nil || len(sites) != 1 {
			t.Errorf("%v, %v", sites, err)
		}
	})
}

// TestWhatARevokedPersonMadeStaysOutAfterARestore restores people and tokens from before a revocation that ended what
// the person made. A list had missed a token and a friend of the friend, so the mark of the revocation alone ends them.
func TestWhatARevokedPersonMadeStaysOutAfterARestore(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		enlist(t, b, a, credential.UserRequest{Name: "mallory", Role: grants.RoleOperator})
		key := func(name, by string) string {
			made, err := credential.MakeKey()
			if err != nil {
				t.Fatal(err)
			}
			q := credential.UserRequest{Name: name, Role: grants.RoleOperator, Public: made.Public()}
			if _, _, err := a.Users.Add(t.Context(), q, by); err != nil {
				t.Fatal(err)
			}
			return made.Public()
		}
		friend, far := key("friend", "mallory"), key("far", "friend")
		people := copyBucket(t, b, wire.BucketUsers)
		if _, err := a.Users.RevokeAll(t.Context(), "mallory", "ann"); err != nil {
			t.Fatal(err)
		}

		b.Restart(t)
		people.restore(t)
		later := authority(t, b)
		go func() { _ = later.Run(t.Context()) }()
		time.Sleep(time.Minute)
		synctest.Wait()

		for _, name := range []string{"mallory", "friend", "far"} {
			err := users(t, b).CheckNotRevoked(t.Context(), name)
			made := users(t, b).CheckMaker(t.Context(), name)
			if err == nil || made == nil {
				t.Errorf("%s is active: %v; what %[1]s made is in force: %v", name, err, made)
			}
		}
		ended := b.Keys.Revoked(grants.RoleOperator)
		for _, public := range []string{friend, far} {
			if _, ends := ended[public]; !ends {
				t.Errorf("the bus accepts %s", public)
			}
		}
	})
}
