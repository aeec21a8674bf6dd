package enroll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// enrollNew handles a request for a new ID. The join token is redeemed last, when nothing else can refuse the host.
func (h *Hosts) enrollNew(ctx context.Context, q Request) (string, *credential.Enrolled, error) {
	if q.Token != "" {
		if err := h.redeemable(ctx, q); err != nil {
			return "", nil, err
		}
	} else if err := h.room(ctx); err != nil {
		return "", nil, err
	}
	r := credential.Enrolled{ID: q.ID, Public: q.Public, From: q.From}
	r.Enter(credential.Pending, "host")
	if err := h.vacant(q, ""); err != nil {
		return "", nil, err
	}
	if err := h.peels.Create(ctx, q.ID.Wire(), r); errors.Is(err, bucket.ErrPresent) {
		return "", nil, fmt.Errorf("%w: another request came at the same time", ErrConflict)
	} else if err != nil {
		return "", nil, err
	}
	return h.admit(ctx, q, &r)
}

// vacant returns [ErrConflict] if a credential for the ID, or for another ID with the same name on the bus, was made
// beside the keys. Earlier versions recorded the keys of requests there too: asked is such a key, which has no
// credential.
func (h *Hosts) vacant(q Request, asked string) error {
	known, err := keystore.Registered(h.o.Keys.Dir(), grants.RolePeel, q.ID.Wire())
	switch {
	case err != nil:
		return err
	case len(known.Keys) > 0 && known.ID != string(q.ID):
		return fmt.Errorf("%w: %w: %s", ErrConflict, keystore.ErrTaken, known.ID)
	case slices.ContainsFunc(known.Keys, func(k credential.Key) bool {
		return k.Public != q.Public && k.Public != asked
	}):
		return fmt.Errorf("%w: %w", ErrConflict, keystore.ErrIssued)
	}
	return nil
}

// register records the key of a peel beside the keys, before its credential is made.
func (h *Hosts) register(id target.PeelID, public string) error {
	now := time.Now().UTC()
	key := credential.Key{Public: public, Issued: now, Expires: now.Add(PeelLife)}
	_, err := keystore.Register(h.o.Keys.Dir(),
		keystore.Entry{Role: grants.RolePeel, ID: string(id), Keys: []credential.Key{key}}, true)
	if errors.Is(err, keystore.ErrTaken) {
		err = fmt.Errorf("%w: %w", ErrConflict, err)
	}
	return err
}

// admit accepts a peel that waits and has a join token. If a host has had a credential under the ID before, the peel
// waits for a person, because that host may have the token.
func (h *Hosts) admit(ctx context.Context, q Request, r *credential.Enrolled) (string, *credential.Enrolled, error) {
	if q.Token == "" || !r.Unused() {
		return "", r, ErrPending
	}
	by, err := h.redeem(ctx, q)
	if err != nil {
		return "", r, err
	}
	return h.accept(ctx, q.ID, q.Public, by)
}

// enrollInstead handles a second key for an unused ID. With a valid join token it replaces the first key, which had
// none or it would not wait; the first is then shown as the conflicting key. Without one, a first key that waits is a
// conflict, and a rejected one makes room.
func (h *Hosts) enrollInstead(ctx context.Context, q Request,
	seen *credential.Enrolled,
) (string, *credential.Enrolled, error) {
	switch err := h.redeemable(ctx, q); {
	case err == nil:
	case !errors.Is(err, ErrJoinUnknown) && !errors.Is(err, ErrJoinPeel):
		return "", nil, err
	case seen.State == credential.Pending:
		h.noteConflict(ctx, q)
		return "", seen, fmt.Errorf("%w, %s: zester auth peel reject makes room", ErrConflict, seen.State)
	default:
		return h.enrollAgain(ctx, q)
	}
	if err := h.vacant(q, seen.Public); err != nil {
		return "", nil, err
	}
	r, err := h.peels.Change(ctx, q.ID.Wire(), func(r *credential.Enrolled) error {
		if r.Public != seen.Public || !r.Unused() {
			return fmt.Errorf("%w, %s: another request came at the same time", ErrConflict, r.State)
		}
		r.Conflicting = &credential.ConflictingKey{
			Public: r.Public,
			From:   r.From,
			Time:   r.History[len(r.History)-1].Time,
		}
		r.Public, r.From = q.Public, q.From
		r.Enter(credential.Pending, "host")
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	by, err := h.redeem(ctx, q)
	if err != nil {
		return "", &r, err
	}
	return h.accept(ctx, q.ID, q.Public, by)
}

// enrollAgain handles a request with another key for a rejected or revoked peel: it waits for a person.
func (h *Hosts) enrollAgain(ctx context.Context, q Request) (string, *credential.Enrolled, error) {
	if err := h.room(ctx); err != nil {
		return "", nil, err
	}
	r, err := h.peels.Change(ctx, q.ID.Wire(), func(r *credential.Enrolled) error {
		r.Public, r.From, r.Conflicting = q.Public, q.From, nil
		r.Enter(credential.Pending, "host")
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	return "", &r, ErrPending
}

// room returns [ErrFull] if requests without a token have reached their limits.
func (h *Hosts) room(ctx context.Context) error {
	if !h.anonymous.Allow() {
		return ErrFull
	}
	_, pending, err := h.fleet.read(ctx)
	if err != nil {
		return err
	}
	if pending >= maxPending {
		return ErrFull
	}
	return nil
}

// noteConflict records a conflicting key for people, at most one an hour. A failure is only logged.
func (h *Hosts) noteConflict(ctx context.Context, q Request) {
	_, err := h.peels.Change(ctx, q.ID.Wire(), func(r *credential.Enrolled) error {
		if r.Conflicting != nil && time.Since(r.Conflicting.Time) < time.Hour {
			return bucket.ErrPresent
		}
		r.Conflicting = &credential.ConflictingKey{Public: q.Public, From: q.From, Time: time.Now().UTC()}
		return nil
	})
	if err != nil && !errors.Is(err, bucket.ErrPresent) {
		h.o.Log.Warn("conflicting key not recorded", "peel", q.ID, "err", err)
	}
}
