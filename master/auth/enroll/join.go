package enroll

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Errors about join tokens.
var (
	ErrJoinUnknown = errors.New("the join token is not known")
	ErrJoinEnded   = errors.New("the join token admits no more hosts")
	ErrJoinPeel    = errors.New("the join token is not for this peel")
)

type joinRecord struct {
	credential.JoinToken
	Hash credential.Hash `json:"hash"`
}

const joinPrefix = "join."

// AddJoinToken enters a join token and returns it, with the pin of the authority that signs the masters' certificates.
func (h *Hosts) AddJoinToken(ctx context.Context, q credential.JoinRequest,
	by string,
) (t *credential.JoinToken, pin string, err error) {
	if err := q.Check(); err != nil {
		return nil, "", fmt.Errorf("%w: %w", token.ErrInvalid, err)
	}
	now := time.Now().UTC()
	r := joinRecord{
		credential.JoinToken{
			Name:      q.Name,
			Peel:      q.Peel,
			Uses:      q.Uses,
			Created:   now,
			CreatedBy: by,
			Expires:   now.Add(q.TTL),
		}, q.Hash,
	}
	if err := h.joins.Create(ctx, q.Name, r); errors.Is(err, bucket.ErrPresent) {
		return nil, "", fmt.Errorf("%w: %s", token.ErrExists, q.Name)
	} else if err != nil {
		return nil, "", err
	}
	if h.o.CA != nil {
		pin = h.o.CA.Pin()
	}
	return &r.JoinToken, pin, nil
}

// JoinTokens returns all join tokens, by name, those that have ended included.
func (h *Hosts) JoinTokens(ctx context.Context) ([]credential.JoinToken, error) {
	records, err := h.joins.List(ctx)
	all := make([]credential.JoinToken, len(records))
	for i, r := range records {
		all[i] = r.JoinToken
	}
	sorting.Func(all, func(a, b credential.JoinToken) int { return strings.Compare(a.Name, b.Name) })
	return all, err
}

// EndJoinToken ends a join token: it admits no more hosts.
func (h *Hosts) EndJoinToken(ctx context.Context, name string) (*credential.JoinToken, error) {
	r, err := h.joins.Change(ctx, name, func(r *joinRecord) error { r.Uses = 0; return nil })
	if errors.Is(err, bucket.ErrAbsent) {
		return nil, fmt.Errorf("%w: %s", token.ErrNotFound, name)
	}
	if err != nil {
		return nil, err
	}
	return &r.JoinToken, nil
}

// redeem takes one use of the join token of a request and returns the name that the history gets.
func (h *Hosts) redeem(ctx context.Context, q Request) (by string, err error) {
	if err := h.redeemable(ctx, q); err != nil {
		return "", err
	}
	name, hash, _ := credential.ParseToken(q.Token)
	_, err = h.joins.Change(ctx, name, func(r *joinRecord) error {
		if err := r.admits(q.ID, hash); err != nil {
			return err
		}
		r.Uses--
		r.Used++
		return nil
	})
	if errors.Is(err, bucket.ErrAbsent) {
		err = ErrJoinUnknown
	}
	return "token:" + name, err
}

// redeemable returns an error if the join token of a request cannot be redeemed. It changes nothing.
func (h *Hosts) redeemable(ctx context.Context, q Request) error {
	name, hash, ok := credential.ParseToken(q.Token)
	if !ok {
		return ErrJoinUnknown
	}
	r, _, err := h.joins.Get(ctx, name)
	if errors.Is(err, bucket.ErrAbsent) {
		return ErrJoinUnknown
	}
	if err != nil {
		return err
	}
	if err := r.admits(q.ID, hash); err != nil {
		return err
	}
	if err = h.o.CheckMaker(ctx, r.CreatedBy); errors.Is(err, grants.ErrNotAllowed) {
		err = fmt.Errorf("%w: %w; %s", ErrJoinEnded, err, otherWays)
	}
	return err
}

// Joins reports whether a request has a join token that admits its peel now.
func (h *Hosts) Joins(ctx context.Context, q Request) bool {
	return q.Token != "" && h.redeemable(ctx, q) == nil
}

// otherWays is the hint if a join token cannot be used.
const otherWays = "zester auth join-token create makes another, " +
	"and a host without a token waits for zester auth peel approve"

// admits returns why the token does not admit a peel. Without the text of the token the only answer is
// [ErrJoinUnknown].
func (r *joinRecord) admits(id target.PeelID, hash credential.Hash) error {
	now := time.Now()
	switch {
	case !r.Hash.Equal(hash):
		return ErrJoinUnknown
	case r.Uses < 1:
		return fmt.Errorf("%w: none of its uses is left, %d were taken; %s", ErrJoinEnded, r.Used, otherWays)
	case !now.Before(r.Expires):
		return fmt.Errorf("%w: it ended at %s; %s", ErrJoinEnded, r.Expires.UTC().Format(time.RFC3339), otherWays)
	case !matchGlob(r.Peel, string(id)):
		return fmt.Errorf("%w: it is for %s", ErrJoinPeel, r.Peel)
	}
	return nil
}

func matchGlob(glob, s string) bool { ok, _ := path.Match(glob, s); return ok }
