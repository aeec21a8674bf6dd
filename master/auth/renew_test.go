package auth_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// person issues a credential and returns its owner's view of it.
func person(t *testing.T, users *user.Directory, q credential.UserRequest) *credential.Own {
	t.Helper()
	key, err := credential.MakeKey()
	if err != nil {
		t.Fatal(err)
	}
	q.Public = key.Public()
	token, _, err := users.Add(t.Context(), q, "ann")
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

func renewalOf(t *testing.T, own *credential.Own) credential.Renewal {
	t.Helper()
	q, err := own.Renewal()
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestAPersonRenewsTheOwnCredentialAlone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		const day = 24 * time.Hour
		users := authority(t, b).Users
		bob := person(t, users, credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: 90 * day})
		eve := person(t, users, credential.UserRequest{Name: "eve", Role: grants.RoleAuditor, TTL: 90 * day})
		old := person(t, users, credential.UserRequest{Name: "old", Role: grants.RoleOperator, TTL: 91 * day})
		endless := person(t, users, credential.UserRequest{Name: "endless", Role: grants.RoleOperator})
		ends := person(t, users, credential.UserRequest{Name: "ends", Role: grants.RoleOperator, TTL: 30 * time.Hour})
		asEnds := grants.Caller{User: "ends", Role: grants.RoleOperator}
		asBob := grants.Caller{User: "bob", Role: grants.RoleOperator}
		asOld := grants.Caller{User: "old", Role: grants.RoleOperator}
		time.Sleep(20 * time.Hour)

		renewed, err := users.Renew(t.Context(), asBob, renewalOf(t, bob))
		if err != nil {
			t.Fatal(err)
		}
		text, err := bob.Renew(*renewed)
		if err != nil {
			t.Fatal(err)
		}
		next, err := credential.ReadOwn(text)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(next.Expires); left != 90*day {
			t.Errorf("the renewed credential is valid for %v, want 90 days", left)
		}

		forged := renewalOf(t, bob)
		forged.Proof = renewalOf(t, eve).Proof
		for name, row := range map[string]struct {
			from grants.Caller
			q    credential.Renewal
		}{
			"somebody else's":     {asBob, renewalOf(t, eve)},
			"another role":        {grants.Caller{User: "bob", Role: grants.RoleDirect}, renewalOf(t, bob)},
			"no proof of the key": {asBob, forged},
			"no end":              {grants.Caller{User: "endless", Role: grants.RoleOperator}, renewalOf(t, endless)},
			"would end sooner":    {asOld, renewalOf(t, old)},
		} {
			if _, err := users.Renew(t.Context(), row.from, row.q); !errors.Is(err, user.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", name, err)
			}
		}
		asPeel := grants.Caller{User: "bob", Role: grants.RolePeel}
		if _, err := users.Renew(t.Context(), asPeel, renewalOf(t, bob)); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("a peel renews the credential of a person: %v", err)
		}

		// A credential of 91 days that has less than 90 left gets 90 days.
		time.Sleep(11 * time.Hour)
		renewed, err = users.Renew(t.Context(), asOld, renewalOf(t, old))
		if err != nil {
			t.Fatal(err)
		}
		if text, err = old.Renew(*renewed); err != nil {
			t.Fatal(err)
		}
		if next, err = credential.ReadOwn(text); err != nil || time.Until(next.Expires) != 90*day {
			t.Errorf("the renewed credential of 91 days ends at %v: %v", next.Expires, err)
		}
		if _, err := users.Renew(t.Context(), asEnds, renewalOf(t, ends)); !errors.Is(err, user.ErrInvalid) {
			t.Errorf("a credential that has ended: %v, want ErrInvalid", err)
		}
	})
}

func TestARevokedPersonDoesNotRenew(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		users := authority(t, b).Users
		asBob := grants.Caller{User: "bob", Role: grants.RoleOperator}
		bob := person(t, users, credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: credential.UserLife})
		other := person(t, users,
			credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: credential.UserLife, Again: true})
		if err := users.StoreEnded(t.Context(), "bob", "ann"); err != nil { // both, which ann requested
			t.Fatal(err)
		}
		if _, err := users.Renew(t.Context(), asBob, renewalOf(t, other)); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("a revoked key: %v, want ErrNotAllowed", err)
		}
		if _, err := users.Revoke(t.Context(), "bob", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, err := users.Renew(t.Context(), asBob, renewalOf(t, bob)); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("a revoked person: %v, want ErrNotAllowed", err)
		}
	})
}

// The end of a renewed credential is the end that a revocation remembers: else it could be forgotten too early.
func TestARevocationCoversTheRenewedCredential(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		users := authority(t, b).Users
		bob := person(t, users, credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: credential.UserLife})
		time.Sleep(5 * time.Hour)
		asBob := grants.Caller{User: "bob", Role: grants.RoleOperator}
		if _, err := users.Renew(t.Context(), asBob, renewalOf(t, bob)); err != nil {
			t.Fatal(err)
		}
		if _, err := users.Revoke(t.Context(), "bob", "ann"); err != nil {
			t.Fatal(err)
		}
		ends, err := users.Ended(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for key, end := range ends[grants.RoleOperator] {
			if left := time.Until(end.Expires); left < credential.UserLife-time.Hour {
				t.Errorf("the revocation of %s can be forgotten after %v", key, left)
			}
		}
		if len(ends[grants.RoleOperator]) != 1 {
			t.Errorf("%d keys are revoked, want 1", len(ends[grants.RoleOperator]))
		}
	})
}

// A short life was chosen by the person who issued the credential.
func TestACredentialForLessThan90DaysIsNotRenewed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		users := authority(t, b).Users
		bob := person(t, users, credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: 8 * time.Hour})
		_, err := users.Renew(t.Context(), grants.Caller{User: "bob", Role: grants.RoleOperator}, renewalOf(t, bob))
		if !errors.Is(err, grants.ErrNotAllowed) || !strings.Contains(err.Error(), "ask who issued it") {
			t.Errorf("a credential for 8 hours is renewed: %v", err)
		}
	})
}

// The register has no limits, so they are lost with the bucket.
func TestAPersonWhoseLimitsAreLostIsAllowedNothing(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		people := copyBucket(t, b, wire.BucketUsers)
		users := authority(t, b).Users
		lee := person(t, users, credential.UserRequest{
			Name:   "lee",
			Role:   grants.RoleOperator,
			Limits: grants.Limits{Functions: []string{"test.*"}},
			TTL:    credential.UserLife,
		})
		people.restore(t)
		asLee := grants.Caller{User: "lee", Role: grants.RoleLimited}
		refused := func(when string) {
			t.Helper()
			time.Sleep(time.Second)
			if _, err := users.Renew(t.Context(), asLee, renewalOf(t, lee)); !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%s: lee renews: %v", when, err)
			}
			if err := users.Store.Allow(t.Context(), asLee, access.On{Function: "cmd.run"}, nil); !errors.Is(err, grants.ErrNotAllowed) {
				t.Errorf("%s: lee runs cmd.run: %v", when, err)
			}
		}
		refused("without a record")
		if err := users.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		refused("with a record of the register")
	})
}

func TestARevocationAfterARestoreCoversTheRenewedCredential(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		users := authority(t, b).Users
		bob := person(t, users,
			credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: credential.UserLife})
		people := copyBucket(t, b, wire.BucketUsers)
		time.Sleep(24 * time.Hour)
		asBob := grants.Caller{User: "bob", Role: grants.RoleOperator}
		if _, err := users.Renew(t.Context(), asBob, renewalOf(t, bob)); err != nil {
			t.Fatal(err)
		}
		people.restore(t)
		if _, err := users.Revoke(t.Context(), "bob", "ann"); err != nil {
			t.Fatal(err)
		}
		ends := b.Keys.Revoked(grants.RoleOperator)
		for key, end := range ends {
			if left := time.Until(end.Expires); left < credential.UserLife-time.Hour {
				t.Errorf("the revocation of %s can be forgotten after %v", key, left)
			}
		}
		if len(ends) != 1 {
			t.Errorf("%d keys are revoked, want 1", len(ends))
		}
	})
}

func TestNoPersonOfAProviderGetsANameThatTheRegisterHas(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		a := authority(t, b)
		issueBesideKeys(t, b, grants.RoleOperator, "ada")
		late := issueBesideKeys(t, b, grants.RoleOperator, "kim")
		bind := func(name string) error {
			return a.Users.Store.Bind(t.Context(), user.Known{
				Name: name, Role: grants.RoleAuditor, At: credential.Login{Issuer: "https://id", Subject: name},
			})
		}
		// kim logs in before a master with the keys has published the name.
		if err := bind("kim"); err != nil {
			t.Fatal(err)
		}
		go func() { _ = a.Run(t.Context()) }()
		time.Sleep(time.Second)
		if err := bind("ada"); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("a person of the provider is ada: %v", err)
		}
		if _, err := a.Users.Revoke(t.Context(), "kim", "ann"); err != nil {
			t.Fatal(err)
		}
		if _, ended := b.Keys.Revoked(grants.RoleOperator)[late.Public]; !ended {
			t.Error("the credential of the operator kim is not revoked in the account of operators")
		}
	})
}
