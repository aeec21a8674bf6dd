package user

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
)

// maxLine bounds the people in a line. Whoever has a longer one may do nothing.
const maxLine = 64

// Line returns a person or token with all who made it, directly or through others. makers returns who made one of them.
// The error is [grants.ErrNotAllowed] if there are more than 64.
func Line(name string, makers func(string) ([]string, error)) ([]string, error) {
	all := []string{name}
	for i := 0; i < len(all); i++ {
		by, err := makers(all[i])
		if err != nil {
			return nil, err
		}
		for _, maker := range by {
			if !slices.Contains(all, maker) {
				all = append(all, maker)
			}
		}
		if len(all) > maxLine {
			return nil, fmt.Errorf("%w: more than %d people made %s, directly or through others", grants.ErrNotAllowed,
				maxLine, name)
		}
	}
	return all, nil
}

// A reading returns the record of a person, or [bucket.ErrAbsent].
type reading func(ctx context.Context, name string) (credential.User, error)

// stored returns a record as the leader of the bucket has it.
func (u *Store) stored(ctx context.Context, name string) (credential.User, error) {
	r, _, err := u.all.Get(ctx, name)
	return r, err
}

// storedOnce returns a reading from the leader of the bucket that reads each record once.
func (u *Store) storedOnce() reading {
	type result struct {
		r   credential.User
		err error
	}
	seen := map[string]result{}
	return func(ctx context.Context, name string) (credential.User, error) {
		one, ok := seen[name]
		if !ok {
			one.r, one.err = u.stored(ctx, name)
			seen[name] = one
		}
		return one.r, one.err
	}
}

// endedBy returns who was revoked with all that they made: a person, or who made the person, directly or through
// others. It is nil if nobody was. A list of what was made may have lacked something when it was ended.
func endedBy(ctx context.Context, r *credential.User, read reading) (by *credential.User, err error) {
	_, err = Line(r.Name, func(name string) ([]string, error) {
		one := *r
		if name != r.Name {
			var err error
			if one, err = read(ctx, name); errors.Is(err, bucket.ErrAbsent) {
				return nil, nil // the credential was made beside the keys
			} else if err != nil {
				return nil, err
			}
		}
		if one.EndsMade {
			by = &one
			return nil, nil
		}
		return slices.DeleteFunc([]string{one.Maker()}, func(by string) bool { return by == "" }), nil
	})
	return by, err
}

// endedMaker is [endedBy] of a name, which may be of no person.
func endedMaker(ctx context.Context, name string, read reading) (by *credential.User, err error) {
	if grants.CheckName(grants.RoleOperator, name) != nil {
		return nil, nil
	}
	r, err := read(ctx, name)
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return nil, nil // the credential was made beside the keys
	case err != nil:
		return nil, err
	}
	return endedBy(ctx, &r, read)
}

// refusal returns [grants.ErrNotAllowed] if somebody was revoked with all that they made.
func refusal(by *credential.User, err error) error {
	if err == nil && by != nil {
		err = fmt.Errorf("%w: %s was revoked with all that %[2]s made", grants.ErrNotAllowed, by.Name)
	}
	return err
}

// CheckMaker returns [grants.ErrNotAllowed] if somebody was revoked with all that they made, or whoever made them was.
// It reads the bucket, as [Store.CheckNotRevoked] does.
func (u *Store) CheckMaker(ctx context.Context, name string) error {
	return refusal(endedMaker(ctx, name, u.stored))
}

// MarkEnded marks people and tokens as revoked if whoever made them was revoked with all that they made. So lists agree
// with what masters and the bus refuse.
func (u *Store) MarkEnded(ctx context.Context, people []credential.User, tokens []credential.Token) error {
	read := u.storedOnce()
	for i := range people {
		p := &people[i]
		if !p.Revoked.IsZero() {
			continue
		}
		by, err := known(endedBy(ctx, p, read))
		if err != nil {
			return err
		}
		if by != nil {
			p.Revoked, p.RevokedBy = notBefore(by.Revoked, p.Created), by.RevokedBy
		}
	}
	for i := range tokens {
		t := &tokens[i]
		for _, name := range []string{t.CreatedBy, t.RotatedBy} {
			by, err := known(endedMaker(ctx, name, read))
			if err != nil {
				return err
			}
			if by != nil && t.Revoked.IsZero() {
				t.Revoked, t.RevokedBy = notBefore(by.Revoked, t.Created), by.RevokedBy
			}
		}
	}
	return nil
}

// known returns a person without a name in place of [grants.ErrNotAllowed]: whoever has too long a line is refused.
func known(by *credential.User, err error) (*credential.User, error) {
	if errors.Is(err, grants.ErrNotAllowed) {
		return &credential.User{}, nil
	}
	return by, err
}

// notBefore returns the later of two times.
func notBefore(t, first time.Time) time.Time {
	if t.Before(first) {
		return first
	}
	return t
}
