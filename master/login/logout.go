package login

import (
	"context"
	"fmt"
	"time"
)

// An Ending is the content of a logout token. It names a person, a session at the provider, or both.
type Ending struct {
	ID      string // of the token, to recognize it when it comes again
	Subject string
	SID     string
	Issued  time.Time
}

// Logout reads a logout token of the provider (OpenID Connect Back-Channel Logout 1.0).
func (p *Provider) Logout(ctx context.Context, text string) (*Ending, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	token, err := d.verifier.VerifyLogout(p.with(ctx), text)
	if err != nil {
		return nil, unverified(err)
	}
	now := time.Now()
	switch {
	case token.TokenID == "" || len(token.TokenID) > 255:
		return nil, fmt.Errorf("%w: the logout token has no ID of 1 to 255 bytes", ErrRefused)
	case token.IssuedAt.Before(now.Add(-maxLogout)) || token.IssuedAt.After(now.Add(maxSkew)):
		return nil, fmt.Errorf("%w: the logout token was issued at %s", ErrRefused,
			token.IssuedAt.UTC().Format(time.RFC3339))
	case token.Subject == "" && token.SessionID == "":
		return nil, fmt.Errorf("%w: the logout token names nobody", ErrRefused)
	}
	return &Ending{ID: token.TokenID, Subject: token.Subject, SID: token.SessionID, Issued: token.IssuedAt}, nil
}
