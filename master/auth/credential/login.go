package credential

import (
	"errors"
	"time"

	"github.com/nats-io/nkeys"
)

const (
	// LoginLife is how long a credential of zester login is valid, and how long one that was renewed.
	LoginLife = 8 * time.Hour
	// LoginTime is how long after the login such a credential is renewed.
	LoginTime = 24 * time.Hour
)

// maxIDToken bounds the text of an ID token, which may name 1,000 groups, in bytes.
const maxIDToken = 256 << 10

// A LoginRequest requests a credential for a person whom a provider of OpenID Connect has logged in. A master sends it
// in the name of the person.
type LoginRequest struct {
	Public  string `json:"public"`   // the public half of the person's key
	Proof   []byte `json:"proof"`    // [LoginText], signed with the key
	IDToken string `json:"id_token"` // of the provider
	// Device reports whether the person has entered a code at another device. Such a token has no nonce.
	Device bool `json:"device,omitempty"`
}

// LoginText returns what a person signs to prove that the person has a key. Without the proof somebody could log in
// with the key of another person, whose credential would end with the login.
func LoginText(public string) []byte { return []byte("zester login 1\n" + public + "\n") }

// Check returns an error if the request is not valid.
func (q *LoginRequest) Check() error {
	key, err := nkeys.FromPublicKey(q.Public)
	switch {
	case err != nil || !nkeys.IsValidPublicUserKey(q.Public):
		return errors.New("the public key is not the key of a user")
	case key.Verify(LoginText(q.Public), q.Proof) != nil:
		return errors.New("the request does not prove that it comes from who has the key")
	case q.IDToken == "" || len(q.IDToken) > maxIDToken:
		return errors.New("the ID token of the provider is missing, or too long")
	}
	return nil
}

// LoggedIn is the reply to a [LoginRequest].
type LoggedIn struct {
	JWT string `json:"jwt"`
	CA  []byte `json:"ca,omitempty"` // certificates of the bus in PEM; empty: those of the system
}

// A LogoutRequest ends the credential of a login of the caller.
type LogoutRequest struct {
	Public string `json:"public"` // its key
}

// LoggedOut is the reply to a [LogoutRequest].
type LoggedOut struct {
	Ended bool `json:"ended"` // false: it had ended before, or is of no login
}
