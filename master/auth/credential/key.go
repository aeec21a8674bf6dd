// Package credential has the types of credentials that masters and their clients exchange: people, peels that enroll,
// tokens, keys. A client makes the secret half itself, with [MakeKey] or [NewSecret], and sends masters the public half
// or the hash.
//
// The packages keystore, user, token and enroll own the stored state; nothing here reads or writes any.
package credential

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// A Key is a public key for which a credential was made.
type Key struct {
	Public  string    `json:"public"`
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires,omitzero"` // zero: it does not
	By      string    `json:"by,omitempty"`     // user who requested it; empty if it was made beside the masters' keys
	// Until is the latest end of a credential of zester login; zero: it is none.
	Until time.Time `json:"until,omitzero"`
	SID   string    `json:"sid,omitempty"` // session of the login at the provider; empty: it does not say
}

// OfLogin reports whether the credential is one of zester login.
func (k *Key) OfLogin() bool { return !k.Until.IsZero() }

// Current returns the keys whose credentials have not expired.
func Current(keys []Key, now time.Time) (left []Key) {
	for _, k := range keys {
		if k.Expires.IsZero() || k.Expires.After(now) {
			left = append(left, k)
		}
	}
	return left
}

// Merge returns the keys of two lists, each once. A key that is in both expires at the later time: one list lacks a
// renewal.
func Merge(keys, more []Key) []Key {
	keys = slices.Clone(keys)
	for _, k := range more {
		i := slices.IndexFunc(keys, func(other Key) bool { return other.Public == k.Public })
		if i < 0 {
			keys = append(keys, k)
			continue
		}
		keys[i].Expires = later(keys[i].Expires, k.Expires)
	}
	return keys
}

// later returns the later of two ends; zero is never.
func later(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && a.After(b) {
		return a
	}
	return b
}

// Ends returns the end of the credentials of keys that were revoked at a time, by public key.
func Ends(keys []Key, at time.Time) map[string]End {
	ends := map[string]End{}
	for _, k := range keys {
		ends[k.Public] = End{At: at, Expires: k.Expires}
	}
	return ends
}

// An End is when the credentials of a key were revoked.
type End struct {
	At time.Time `json:"at"`
	// Expires is when the last of them would have expired; the End can be forgotten then. Zero: never.
	Expires time.Time `json:"expires,omitzero"`
	// Role is the role of a person's credential; empty: the role that the person has now.
	Role grants.Role `json:"role,omitempty"`
}

// Lasts returns e with the later Expires of e and other, and whether that changed e.
func (e End) Lasts(other End) (longer End, changed bool) {
	end := later(e.Expires, other.Expires)
	changed = !end.Equal(e.Expires)
	e.Expires = end
	return e, changed
}

// A NewKey is a new key of a user. Its secret half leaves the process only in a credential.
type NewKey struct{ pair nkeys.KeyPair }

// MakeKey makes a key for a user.
func MakeKey() (NewKey, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return NewKey{}, fmt.Errorf("cannot make a key: %w", err)
	}
	return NewKey{pair}, nil
}

// Public returns the public half.
func (k NewKey) Public() string {
	public, err := k.pair.PublicKey()
	if err != nil {
		panic(err) // it was made by MakeKey, and Creds not called yet
	}
	return public
}

// Sign signs the nonce of a server, which proves the possession of the key.
func (k NewKey) Sign(nonce []byte) ([]byte, error) { return k.pair.Sign(nonce) }

// Creds returns the key and the JWT that was signed for it in the form of a .creds file, which is a secret, and forgets
// the key.
func (k NewKey) Creds(token string) ([]byte, error) {
	defer k.pair.Wipe()
	seed, err := k.pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("cannot write a credential: %w", err)
	}
	creds, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return nil, fmt.Errorf("cannot write a credential: %w", err)
	}
	return creds, nil
}

// A Rotation describes the last change of the signing keys. The secrets of the former keys are deleted.
type Rotation struct {
	Generation int                    `json:"generation"` // number of rotations
	At         time.Time              `json:"at"`
	Former     map[grants.Role]string `json:"former,omitempty"` // public keys that servers still accept
}

// A Held is a credential of the bus that a party has.
type Held struct {
	Role    grants.Role `json:"role"`
	Name    string      `json:"name"`
	Expires time.Time   `json:"expires,omitzero"` // zero: it does not
	// Renews reports whether the party gets the next one by itself, also after this one has expired: a peel that
	// enrolled.
	Renews bool `json:"renews,omitempty"`
}
