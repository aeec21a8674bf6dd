package auth

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/records"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Why a host is not enrolled.
var (
	ErrEnrollInvalid = errors.New("the request is not valid")
	ErrPending       = errors.New("the request waits for approval")
	ErrConflict      = errors.New("the peel is known by another key")
	ErrNotWanted     = errors.New("the peel was rejected or revoked")
	ErrNoPeel        = errors.New("no such peel is enrolled")
	ErrEnrollFull    = errors.New("too many requests wait for approval, or came at once")
)

const (
	enrollBucket = "enroll"
	peelPrefix   = "peel."

	// PeelLife is how long the credential of a peel that was enrolled is valid. Peels renew it every day, so that the
	// masters may be away for a month, and what changes in a credential is with the whole fleet in a day.
	PeelLife = 30 * 24 * time.Hour

	maxPending = 1000
	maxHistory = 20

	// How many requests of hosts without a token are looked at, from everywhere.
	strangerEvery   = time.Second / 2
	strangersAtOnce = 100
)

// An EnrollState is how far a peel is with being one of the fleet.
type EnrollState string

// The states. A peel that was rejected or revoked can ask again with another key, and is then pending. With a join token it
// is accepted at once if no host has had a credential under its ID.
const (
	Pending  EnrollState = "pending"
	Accepted EnrollState = "accepted"
	Rejected EnrollState = "rejected"
	Revoked  EnrollState = "revoked"
)

// An Enrolled is a peel that asked for a credential.
type Enrolled struct {
	ID      target.PeelID `json:"id"`
	State   EnrollState   `json:"state"`
	Public  string        `json:"public"` // the key that it has or asks with
	From    string        `json:"from,omitempty"`
	Expires time.Time     `json:"expires,omitzero"` // of the credential that it was given last
	History []EnrollStep  `json:"history"`          // the last 20, oldest first
	// Rival is another key that asked under the same ID: a host that was set up again, or somebody who would be this peel.
	Rival *EnrollRival `json:"rival,omitempty"`
	// Ended are the keys that were revoked.
	Ended map[string]keystore.End `json:"ended,omitempty"`
}

// An EnrollStep is when a peel came to a state, and by whom: a user, "token:" and the name of a join token, or the host.
type EnrollStep struct {
	State EnrollState `json:"state"`
	By    string      `json:"by"`
	Time  time.Time   `json:"time"`
}

// An EnrollRival is a request that contradicts what is known.
type EnrollRival struct {
	Public string    `json:"public"`
	From   string    `json:"from,omitempty"`
	Time   time.Time `json:"time"`
}

// An EnrollRequest is what a host sends to be enrolled, or to have its credential renewed.
type EnrollRequest struct {
	ID     target.PeelID `json:"id"`
	Public string        `json:"public"`          // of a key made on the host, which never leaves it
	Proof  string        `json:"proof"`           // see [EnrollProof], signed with that key
	Token  string        `json:"token,omitempty"` // text of a join token
	From   string        `json:"-"`               // address of the host, for the record
}

// EnrollProof is what a host signs to show that it has the key. Whoever repeats the request gets a JWT, which without the
// key is of no use.
func EnrollProof(id target.PeelID, public string) []byte {
	return []byte("zester enroll 1\n" + string(id) + "\n" + public + "\n")
}

// ParseEnroll reads a request as a host sends it. What it says is judged by [Authority.Enroll].
func ParseEnroll(text []byte) (q EnrollRequest, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return q, fmt.Errorf("%w: %w", ErrEnrollInvalid, err)
	}
	if d.More() {
		return q, fmt.Errorf("%w: something follows it", ErrEnrollInvalid)
	}
	return q, nil
}

func (q *EnrollRequest) check() error {
	if _, err := target.ParsePeelID(string(q.ID)); err != nil {
		return err
	}
	if !nkeys.IsValidPublicKey(q.Public) {
		return errors.New("what was given is not the public key of a user")
	}
	key, err := nkeys.FromPublicKey(q.Public)
	if err != nil {
		return err
	}
	proof, err := base64.RawURLEncoding.DecodeString(q.Proof)
	if err != nil {
		return fmt.Errorf("the proof is not base64url: %w", err)
	}
	if err := key.Verify(EnrollProof(q.ID, q.Public), proof); err != nil {
		return errors.New("the proof was not signed with the key")
	}
	return nil
}

// step enters a state.
func (e *Enrolled) step(s EnrollState, by string) {
	e.State = s
	e.History = append(e.History, EnrollStep{State: s, By: by, Time: time.Now().UTC()})
	if extra := len(e.History) - maxHistory; extra > 0 {
		e.History = e.History[extra:]
	}
}

// Enroll returns the JWT for a host that is accepted, or why it is not: [ErrPending], [ErrConflict], [ErrNotWanted],
// [ErrEnrollInvalid], or what is wrong with the token. A token is asked for nothing where the host is accepted already.
func (a *Authority) Enroll(ctx context.Context, q EnrollRequest) (token string, e *Enrolled, err error) {
	if err := q.check(); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrEnrollInvalid, err)
	}
	r, _, err := a.peels.Get(ctx, q.ID.Wire())
	switch {
	case errors.Is(err, records.ErrAbsent):
		return a.enrollNew(ctx, q)
	case err != nil:
		return "", nil, err
	case r.ID != q.ID:
		return "", nil, fmt.Errorf("%w: on the bus it would be %s", ErrConflict, r.ID)
	case r.Public != q.Public && r.unused():
		return a.enrollInstead(ctx, q, &r)
	case r.Public != q.Public && (r.State == Accepted || r.State == Pending):
		a.noteRival(ctx, q)
		return "", &r, fmt.Errorf("%w, %s: zester enroll reject or revoke makes room", ErrConflict, r.State)
	case r.Public != q.Public && r.Ended[q.Public] == (keystore.End{}):
		return a.enrollAgain(ctx, q)
	case r.State == Accepted:
		return a.issuePeel(ctx, &r)
	case r.State == Pending:
		return a.admit(ctx, q, &r)
	}
	return "", &r, fmt.Errorf("%w: %s", ErrNotWanted, r.State)
}

// accept makes a pending peel one of the fleet and issues its credential. If the peel waits with another key, nothing is
// changed.
func (a *Authority) accept(ctx context.Context, id target.PeelID, public, by string) (string, *Enrolled, error) {
	r, err := a.changePeel(ctx, id, func(r *Enrolled) error {
		switch {
		case r.ID != id || r.State != Pending:
			return fmt.Errorf("%w: %s is %s", ErrConflict, r.ID, r.State)
		case r.Public != public:
			return fmt.Errorf("%w: %s waits with the key %s", ErrConflict, id, r.Public)
		}
		r.step(Accepted, by)
		return a.register(id, public)
	})
	if err != nil {
		return "", nil, err
	}
	return a.issuePeel(ctx, &r)
}

// issuePeel signs a credential; when it ends is in the record first, because a revocation is remembered for so long.
func (a *Authority) issuePeel(ctx context.Context, e *Enrolled) (string, *Enrolled, error) {
	r, err := a.peels.Change(ctx, e.ID.Wire(), func(r *Enrolled) error {
		if r.State != Accepted || r.Public != e.Public {
			return fmt.Errorf("%w: %s", ErrNotWanted, r.State)
		}
		r.Expires = time.Now().UTC().Add(PeelLife)
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	token, err := a.o.Keys.Issue(grants.RolePeel, r.ID.Wire(), r.Public, PeelLife)
	return token, &r, err
}

// Roots are the certificates by which a peel is to check masters from now on, in PEM; nil where they are none of ours.
func (a *Authority) Roots() []byte {
	if a.o.CA == nil {
		return nil
	}
	return a.o.CA.Bundle()
}

// Peels returns all peels that were enrolled or asked to be, by ID.
func (a *Authority) Peels(ctx context.Context) ([]Enrolled, error) {
	all, err := a.peels.List(ctx)
	slices.SortFunc(all, func(a, b Enrolled) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all, err
}

// Approve accepts a peel that waits with this key.
func (a *Authority) Approve(ctx context.Context, id target.PeelID, public, by string) (*Enrolled, error) {
	_, e, err := a.accept(ctx, id, public, by)
	return e, err
}

// Reject turns away a peel that waits. Its key stays turned away until another has asked for the peel; then it waits again.
func (a *Authority) Reject(ctx context.Context, id target.PeelID, by string) (*Enrolled, error) {
	return a.end(ctx, id, Rejected, Pending, by)
}

// RevokePeel ends the credentials of a peel, those that were made beside the keys included: the bus cuts its connection,
// and its keys are never accepted again. Revoking again changes nothing.
func (a *Authority) RevokePeel(ctx context.Context, id target.PeelID, by string) (*Enrolled, error) {
	if err := a.adopt(ctx, id); err != nil {
		return nil, err
	}
	e, err := a.end(ctx, id, Revoked, Accepted, by)
	if err != nil {
		return nil, err
	}
	if err := a.sync(ctx); err != nil {
		return nil, fmt.Errorf("%s is revoked, and gets no other credential; its connection may last for some time: %w", id, err)
	}
	return e, nil
}

// issued returns the keys for which credentials of a peel were made beside the keys.
func (a *Authority) issued(id target.PeelID) ([]keystore.Key, error) {
	known, err := keystore.Registered(a.o.Keys.Dir(), grants.RolePeel, id.Wire())
	if err != nil || known.ID != string(id) {
		return nil, err
	}
	return known.Keys, nil
}

// adopt enters a peel whose credential was made beside the keys.
func (a *Authority) adopt(ctx context.Context, id target.PeelID) error {
	known, err := a.issued(id)
	if err != nil || len(known) == 0 {
		return err
	}
	last := known[len(known)-1]
	r := Enrolled{ID: id, Public: last.Public, Expires: last.Expires}
	r.step(Accepted, "")
	r.History[0].Time = last.Issued
	if err := a.peels.Create(ctx, id.Wire(), r); err != nil && !errors.Is(err, records.ErrPresent) {
		return err
	}
	return nil
}

func (a *Authority) end(ctx context.Context, id target.PeelID, to, from EnrollState, by string) (*Enrolled, error) {
	keys, err := a.issued(id)
	if err != nil {
		return nil, err
	}
	r, err := a.changePeel(ctx, id, func(r *Enrolled) error {
		if to == Revoked {
			r.replaceAsking(id, keys)
		}
		if r.ID != id || r.State != from && r.State != to {
			return fmt.Errorf("%w: %s is %s", ErrConflict, r.ID, r.State)
		}
		if r.State == from {
			r.step(to, by)
		}
		if to == Revoked {
			r.revoke(keys)
		}
		return nil
	})
	return &r, err
}

// replaceAsking makes the record of a host that only asks for an ID, or was rejected, the record of the peel whose
// credential was made beside the keys after that. The host is then the rival that people see.
func (e *Enrolled) replaceAsking(id target.PeelID, keys []keystore.Key) {
	keys = slices.DeleteFunc(keystore.Current(keys, time.Now()), func(k keystore.Key) bool {
		return k.Public == e.Public || e.Ended[k.Public] != (keystore.End{})
	})
	if len(keys) == 0 || e.State != Pending && e.State != Rejected || e.ID != id && !e.unused() {
		return
	}
	last := keys[len(keys)-1]
	e.Rival = &EnrollRival{Public: e.Public, From: e.From, Time: e.History[len(e.History)-1].Time}
	e.ID, e.Public, e.From, e.Expires = id, last.Public, "", last.Expires
	e.step(Accepted, "")
}

// changePeel changes the record of a peel that is named by a person.
func (a *Authority) changePeel(ctx context.Context, id target.PeelID, f func(*Enrolled) error) (r Enrolled, err error) {
	if _, err = target.ParsePeelID(string(id)); err == nil {
		r, err = a.peels.Change(ctx, id.Wire(), f)
	} else {
		err = records.ErrAbsent
	}
	if errors.Is(err, records.ErrAbsent) {
		err = fmt.Errorf("%w: %s", ErrNoPeel, id)
	}
	return r, err
}

// revoke enters the peel's own key and those of credentials that were made beside the keys as ended, until the last of
// their credentials has ended by itself.
func (e *Enrolled) revoke(keys []keystore.Key) {
	now := time.Now().UTC()
	ended := map[string]keystore.End{e.Public: {At: now, Expires: e.Expires}}
	for _, k := range keystore.Current(keys, now) {
		if k.Public != e.Public {
			ended[k.Public] = keystore.End{At: now, Expires: k.Expires}
		}
	}
	for public, end := range e.Ended {
		if end.Expires.IsZero() || end.Expires.After(now) {
			ended[public] = end
		}
	}
	e.Ended = ended
}
