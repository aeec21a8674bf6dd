package credential

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// An Own is the credential of this process, read from a .creds file. Make it with [ReadOwn].
type Own struct {
	Name    string
	Issued  time.Time
	Expires time.Time // zero: it does not

	text   []byte
	token  string
	public string
	key    nkeys.KeyPair
}

// ReadOwn reads the content of a .creds file.
func ReadOwn(text []byte) (*Own, error) {
	o := &Own{text: text}
	var err error
	if o.token, err = nkeys.ParseDecoratedJWT(text); err != nil {
		return nil, fmt.Errorf("cannot read the credential: %w", err)
	}
	if o.key, err = nkeys.ParseDecoratedUserNKey(text); err != nil {
		return nil, fmt.Errorf("cannot read the key of the credential: %w", err)
	}
	if o.public, err = o.key.PublicKey(); err != nil {
		return nil, err
	}
	c, err := jwt.DecodeUserClaims(o.token)
	if err != nil {
		return nil, fmt.Errorf("cannot read the credential: %w", err)
	}
	o.Name, o.Issued = c.Name, time.Unix(c.IssuedAt, 0)
	if c.Expires != 0 {
		o.Expires = time.Unix(c.Expires, 0)
	}
	return o, nil
}

// Text returns the content of the file.
func (o *Own) Text() []byte { return o.text }

// Public returns the public half of the key.
func (o *Own) Public() string { return o.public }

// A Renewal is a request for a new JWT for the key of a JWT that has not ended.
type Renewal struct {
	Token string `json:"token"` // the JWT
	Proof []byte `json:"proof"` // [RenewalText], signed with the key
}

// A Renewed is the reply to a [Renewal].
type Renewed struct {
	Token string `json:"token"`
}

// RenewalText returns what a party signs to prove that it has the key of a JWT. A copied request yields a JWT, which is
// useless without the key.
func RenewalText(token string) []byte { return []byte("zester renew 1\n" + token + "\n") }

// Renewal returns the request to renew the credential.
func (o *Own) Renewal() (Renewal, error) {
	proof, err := o.key.Sign(RenewalText(o.token))
	return Renewal{Token: o.token, Proof: proof}, err
}

// Renew returns the content of the .creds file with the JWT of a reply in place of the former one. The JWT must be for
// the same key and name, and not end before it.
func (o *Own) Renew(r Renewed) ([]byte, error) {
	c, err := jwt.DecodeUserClaims(r.Token)
	if err != nil {
		return nil, fmt.Errorf("cannot read the new credential: %w", err)
	}
	if c.Subject != o.public || c.Name != o.Name || c.Expires < o.Expires.Unix() {
		return nil, errors.New("the new credential is not a renewal of this one")
	}
	return bytes.Replace(o.text, []byte(o.token), []byte(r.Token), 1), nil
}
