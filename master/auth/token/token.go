// Package token has the bearer tokens of the REST API. Call [Open] and then [Store.Authenticate] for each request.
//
// The text of a token is made where it is used ([NewSecret]). Masters and the bucket tokens have its hash, its scopes
// and its [grants.Limits].
//
// Guarantees: a revocation or rotation holds on every master within half a second; a bucket that cannot be read opens
// nothing; a revoked token stays revoked, and its name is not given again; [Store.CheckNotRevoked] sees every
// revocation that was stored before.
//
// Known gap: the time of the last use is lost if the bucket cannot be written at that moment.
package token

import (
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
)

// secrets are the hashes that open a token.
type secrets struct {
	Hash     credential.Hash `json:"hash"`
	Old      credential.Hash `json:"old,omitzero"` // the one before a rotation
	OldUntil time.Time       `json:"old_until,omitzero"`
}

// opens takes the same time whatever the hash has in common with those it is compared to.
func (s *secrets) opens(h credential.Hash, now time.Time) bool {
	current, old := s.Hash.Equal(h), s.Old.Equal(h)
	return current || old && now.Before(s.OldUntil)
}
