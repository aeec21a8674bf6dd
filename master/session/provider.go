package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// clockSkew is how far the clock of a provider may be behind this master's: a logout ends the sessions that began up to
// so much after it.
const clockSkew = time.Minute

// A Logout is what a logout token of a provider says. It names a person, a session at the provider, or both.
type Logout struct {
	Of     credential.Login // its Subject is empty if the token names a session alone
	SID    string           // the session at the provider; empty: all of the person
	Token  string           // the ID of the token
	Issued time.Time
}

// ends reports whether the logout ends a login that began at a time. One of the person without an SID may be the one
// that the token names.
func (l *Logout) ends(of *credential.Login, sid string, began time.Time) bool {
	switch {
	case of == nil, of.Issuer != l.Of.Issuer, began.After(l.Issued.Add(clockSkew)):
		return false
	case l.Of.Subject != "" && of.Subject != l.Of.Subject:
		return false
	case l.SID == "", sid == "":
		return l.Of.Subject != ""
	}
	return sid == l.SID
}

// EndAtProvider ends the sessions that a logout names and returns them, also with an error. endKey ends the credential
// of a login of a person, which a master with the keys does. The error is [ErrUnknown] if the token has come before and
// was carried out, so that a copy of it ends no later session. A logout that failed can be sent again.
func (s *Store) EndAtProvider(
	ctx context.Context, l Logout, endKey func(u *credential.User, public string) error,
) (ended []api.Session, err error) {
	carriedOut := logoutPrefix + keyOf(l.Of.Issuer+" "+l.Token)
	switch _, err := s.kv.Get(ctx, carriedOut); {
	case err == nil:
		return nil, ErrUnknown
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return nil, fmt.Errorf("cannot read whether the logout was carried out: %w", err)
	}

	all, err := s.of(ctx, "")
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		if !l.ends(k.session.Login, k.session.SID, k.session.Began) {
			continue
		}
		if err := s.end(ctx, k.key); err != nil {
			return ended, err
		}
		ended = append(ended, k.session)
	}

	people, err := s.users.List(ctx)
	if err != nil {
		return ended, err
	}
	for i := range people {
		for _, k := range credential.Current(people[i].Keys, time.Now()) {
			if !k.OfLogin() || !l.ends(people[i].Login, k.SID, k.Issued) {
				continue
			}
			if err := endKey(&people[i], k.Public); err != nil {
				return ended, err
			}
		}
	}

	_, err = s.kv.Create(ctx, carriedOut, nil)
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) { // a copy came at the same time
		return ended, fmt.Errorf("cannot store that the logout was carried out: %w", err)
	}
	return ended, nil
}

// Spend notes that an ID token with a digest has made a credential. The error is [ErrUnknown] if it has made one
// before. Masters refuse a token that was issued 24 hours ago, before the bucket forgets it.
func (s *Store) Spend(ctx context.Context, digest string) error {
	_, err := s.kv.Create(ctx, spentPrefix+digest, nil)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("%w: the ID token: %w", grants.ErrNotAllowed, ErrUnknown)
	}
	if err != nil {
		return fmt.Errorf("cannot store that the ID token was used: %w", err)
	}
	return nil
}
