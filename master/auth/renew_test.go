package auth_test

import (
	"errors"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
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
		bob := person(t, users, credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: 30 * time.Hour})
		eve := person(t, users, credential.UserRequest{Name: "eve", Role: grants.RoleAuditor, TTL: 30 * time.Hour})
		old := person(t, users, credential.UserRequest{Name: "old", Role: grants.RoleOperator, TTL: 91 * day})
		endless := person(t, users, credential.UserRequest{Name: "endless", Role: grants.RoleOperator})
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
		if left := next.Expires.Sub(time.Now()); left != 30*time.Hour {
			t.Errorf("the renewed credential is valid for %v, want 30 hours", left)
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
		if next, err = credential.ReadOwn(text); err != nil || next.Expires.Sub(time.Now()) != 90*day {
			t.Errorf("the renewed credential of 91 days ends at %v: %v", next.Expires, err)
		}
		if _, err := users.Renew(t.Context(), asBob, renewalOf(t, bob)); !errors.Is(err, user.ErrInvalid) {
			t.Errorf("a credential that has ended: %v, want ErrInvalid", err)
		}
	})
}

func TestARevokedPersonDoesNotRenew(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		users := authority(t, b).Users
		asBob := grants.Caller{User: "bob", Role: grants.RoleOperator}
		bob := person(t, users, credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: time.Hour})
		other := person(t, users,
			credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: time.Hour, Again: true})
		if err := users.RevokeKeys(t.Context(), "bob", "ann"); err != nil { // both, which ann requested
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
		bob := person(t, users, credential.UserRequest{Name: "bob", Role: grants.RoleOperator, TTL: 10 * time.Hour})
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
			if left := end.Expires.Sub(time.Now()); left < 9*time.Hour {
				t.Errorf("the revocation of %s can be forgotten after %v", key, left)
			}
		}
		if len(ends[grants.RoleOperator]) != 1 {
			t.Errorf("%d keys are revoked, want 1", len(ends[grants.RoleOperator]))
		}
	})
}
