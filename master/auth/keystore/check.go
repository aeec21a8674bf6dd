package keystore

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// Signed is what a JWT says that was signed by these keys.
type Signed struct {
	Name    string
	Public  string
	Issued  time.Time
	Expires time.Time // zero: it does not end
}

// Check reads a JWT that has not ended and was signed for a party of a role by a key that servers accept now. It does
// not know what was revoked.
func (k *Keys) Check(role grants.Role, token string) (s Signed, err error) {
	c, err := jwt.DecodeUserClaims(token) // which checks the signature
	if err != nil {
		return s, fmt.Errorf("cannot read the credential: %w", err)
	}
	k.mu.Lock()
	signer, known := k.signers[role]
	former := k.rotation.Former[role]
	k.mu.Unlock()
	if !known {
		return s, fmt.Errorf("cannot check a credential of the unknown role %q", role)
	}
	current, err := signer.PublicKey()
	if err != nil {
		return s, err
	}
	if c.Issuer != current && (former == "" || c.Issuer != former) || c.IssuerAccount != k.accounts[role.Account()] {
		return s, fmt.Errorf("it is no credential of a %s that these keys signed", role)
	}
	s = Signed{Name: c.Name, Public: c.Subject, Issued: time.Unix(c.IssuedAt, 0)}
	if c.Expires != 0 {
		s.Expires = time.Unix(c.Expires, 0)
	}
	if !s.Expires.IsZero() && !s.Expires.After(time.Now()) {
		return s, errors.New("the credential has ended")
	}
	return s, nil
}

// CheckRenewal returns the credential that a request proves to come from. Its party has the role.
func (k *Keys) CheckRenewal(role grants.Role, q credential.Renewal) (had Signed, err error) {
	if had, err = k.Check(role, q.Token); err != nil {
		return had, err
	}
	key, err := nkeys.FromPublicKey(had.Public)
	if err != nil {
		return had, err
	}
	if err := key.Verify(credential.RenewalText(q.Token), q.Proof); err != nil {
		return had, errors.New("the proof was not signed with the key of the credential")
	}
	if had.Expires.IsZero() {
		return had, errors.New("the credential has no end")
	}
	return had, nil
}
