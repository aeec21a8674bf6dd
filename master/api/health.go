package api

import (
	"crypto/x509"
	"errors"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// Health is the state of one master's host and of the bus.
type Health struct {
	Time    time.Time      `json:"time"` // by the clock of its host
	Version string         `json:"version"`
	Streams []bucket.Usage `json:"streams"`
	Led     bool           `json:"led,omitempty"` // a master leads the settings service, or did less than 15 s ago
	Audit   audit.Status   `json:"audit"`
	// Unreadable are the keys of people and tokens whose records cannot be decoded.
	Unreadable []string  `json:"unreadable,omitempty"`
	Console    ConsoleAt `json:"console,omitzero"`
	Storage    string    `json:"storage,omitempty"` // why the bus stores nothing now; empty: it does
}

// Certificate returns the certificate of the server, nil if the connection is not encrypted.
func (c *Client) Certificate() *x509.Certificate {
	state, err := c.nc.TLSConnectionState()
	if err != nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
}

// CredentialEnds returns the name in a .creds file and when the credential ends; zero: never.
func CredentialEnds(creds []byte) (user string, ends time.Time, err error) {
	claims, err := userClaims(creds)
	if err != nil {
		return "", ends, err
	}
	if claims.Expires > 0 {
		ends = time.Unix(claims.Expires, 0)
	}
	return claims.Name, ends, nil
}

// userClaims reads a credential. The bus verifies it; the client needs only its name and dates.
func userClaims(creds []byte) (*jwt.UserClaims, error) {
	token, err := jwt.ParseDecoratedJWT(creds)
	if err != nil {
		return nil, err
	}
	claims, err := jwt.DecodeUserClaims(token)
	if err == nil && claims.Name == "" {
		err = errors.New("it has no name")
	}
	return claims, err
}
