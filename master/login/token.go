package login

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// MaxAge bounds how long ago an ID token was issued, whatever the provider says about its end. Whoever notes for longer
// which tokens were used knows all that can come again.
const MaxAge = 24 * time.Hour

// Verify returns the person of an ID token with a nonce; empty: it must have none. The errors are those of
// [Provider.Finish].
func (p *Provider) Verify(ctx context.Context, idToken, nonce string) (*Person, error) {
	d, err := p.discover(ctx)
	if err != nil {
		return nil, err
	}
	token, err := d.verifier.Verify(p.with(ctx), idToken)
	if err != nil {
		return nil, unverified(err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(nonce)) != 1 {
		return nil, fmt.Errorf("%w: the ID token is of another login", ErrRefused)
	}
	if token.IssuedAt.After(time.Now().Add(maxSkew)) {
		return nil, fmt.Errorf("%w: the ID token was issued at %s, which is in the future: compare the clocks",
			ErrRefused, token.IssuedAt.UTC().Format(time.RFC3339))
	}
	if token.IssuedAt.Before(time.Now().Add(-MaxAge)) {
		return nil, fmt.Errorf("%w: the ID token was issued at %s, more than %v ago", ErrRefused,
			token.IssuedAt.UTC().Format(time.RFC3339), MaxAge)
	}
	person, err := p.person(token)
	if err != nil {
		return nil, err
	}
	person.Token, err = digestOf(idToken)
	return person, err
}

// digestOf returns the digest of the claims of a token. The text of a token has many encodings, and its signature may
// have two forms, so neither tells whether the token has come before.
func digestOf(idToken string) (string, error) {
	_, text, _ := strings.Cut(idToken, ".")
	text, _, _ = strings.Cut(text, ".")
	claims, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return "", fmt.Errorf("%w: the ID token has no claims: %w", ErrRefused, err)
	}
	sum := sha256.Sum256(claims)
	return hex.EncodeToString(sum[:]), nil
}

// unverified returns [ErrAway] if the keys of the provider could not be read, else [ErrRefused]. The library says the
// former by the text alone.
func unverified(err error) error {
	if strings.HasPrefix(err.Error(), "failed to verify signature: fetching keys ") {
		return fmt.Errorf("%w: %.300s", ErrAway, err.Error())
	}
	return fmt.Errorf("%w: %.300s", ErrRefused, err.Error())
}

// person reads the claims of a token.
func (p *Provider) person(token *oidc.IDToken) (*Person, error) {
	var claims struct {
		Party    string `json:"azp"`
		SID      string `json:"sid"`
		Verified *bool  `json:"email_verified"`
	}
	all := map[string]json.RawMessage{}
	if err := errors.Join(token.Claims(&claims), token.Claims(&all)); err != nil {
		return nil, fmt.Errorf("%w: %.300s", ErrRefused, err.Error())
	}
	switch {
	case len(token.Audience) > 1 && claims.Party != p.o.ClientID:
		return nil, fmt.Errorf("%w: the ID token is for %q", ErrRefused, claims.Party)
	case token.Subject == "" || len(token.Subject) > 255 || len(claims.SID) > 255:
		return nil, fmt.Errorf("%w: the ID token has no subject of 1 to 255 bytes", ErrRefused)
	case strings.ContainsFunc(token.Subject+claims.SID, unicode.IsControl):
		return nil, fmt.Errorf("%w: the subject of the ID token has control characters", ErrRefused)
	case p.userClaim() == "email" && claims.Verified != nil && !*claims.Verified:
		return nil, fmt.Errorf("%w: the provider has not verified the address", grants.ErrNotAllowed)
	}

	var name string
	if json.Unmarshal(all[p.userClaim()], &name) != nil || name == "" || len(name) > maxName {
		return nil, fmt.Errorf("%w: the ID token has no claim %s of 1 to %d bytes", grants.ErrNotAllowed, p.userClaim(),
			maxName)
	}
	groups, err := groupsOf(all[p.groupsClaim()])
	if err != nil {
		return nil, fmt.Errorf("%w: the claim %s: %w", grants.ErrNotAllowed, p.groupsClaim(), err)
	}
	person := &Person{Name: NameOf(name), Subject: token.Subject, SID: claims.SID, Groups: groups}
	for _, r := range p.o.Roles {
		if slices.Contains(groups, r.Group) {
			person.Role = r.Role
			return person, nil
		}
	}
	return nil, fmt.Errorf("%w: none of the %d groups of %s may log in", grants.ErrNotAllowed, len(groups), name)
}

// NameOf returns the name on the bus for the name that a provider gives a person: what cannot be in it becomes '_'.
func NameOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r == '-') {
			return r
		}
		return '_'
	}, name)
}

// groupsOf reads a claim with a list of groups, or with one.
func groupsOf(claim json.RawMessage) ([]string, error) {
	if claim == nil {
		return nil, nil
	}
	var groups []string
	var one string
	if json.Unmarshal(claim, &one) == nil {
		groups = []string{one}
	} else if err := json.Unmarshal(claim, &groups); err != nil {
		return nil, errors.New("it is no list of names")
	}
	if len(groups) > maxGroups {
		return nil, fmt.Errorf("it has %d groups, %d are possible", len(groups), maxGroups)
	}
	for _, g := range groups {
		if len(g) > maxGroup {
			return nil, fmt.Errorf("a group has %d bytes, %d are possible", len(g), maxGroup)
		}
	}
	slices.Sort(groups)
	return slices.Compact(groups), nil
}
