// Package enroll gives hosts the credential of a peel and takes it back. Call [Open] and then [Hosts.Enroll] for each
// request of a host; people use [Hosts.Approve], [Hosts.Reject] and [Hosts.Revoke], or let hosts in with a [JoinToken].
// Masters find the peel of a name with a [Register].
//
// Guarantees: an ID that is known is never given to another key without a person; a key is registered before its
// credential is signed, and its end is stored first; a revoked key is never accepted again; requests without a token
// are limited in number and in what they store. The records of peels are read when they change, not at intervals.
//
// Known gap: a request without a token is trusted as far as the person who approves it compares the key.
package enroll

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Why a host is not enrolled.
var (
	ErrInvalid  = errors.New("the request is not valid")
	ErrPending  = errors.New("the request waits for approval")
	ErrConflict = errors.New("the peel is known by another key")
	ErrRejected = errors.New("the peel was rejected or revoked")
	ErrNotFound = errors.New("no such peel is enrolled")
	ErrFull     = errors.New("too many requests wait for approval, or came at once")
)

const (
	peelPrefix = "peel."

	// PeelLife is how long the credential of a peel that was enrolled is valid. Peels renew it every day, so that the
	// masters may be away for a month, and what changes in a credential is with the whole fleet in a day.
	PeelLife = 30 * 24 * time.Hour

	maxPending = 1000

	// Limits of requests without a token, for all hosts together.
	anonymousEvery  = time.Second / 10
	anonymousAtOnce = 500
)

// Options are the options of Hosts.
type Options struct {
	Keys *keystore.Keys
	CA   *pki.CA // signs the masters' certificates; nil: another authority signs them
	// BusCA is the file with the certificates by which this master checks an external bus. Peels get them too. If it is
	// empty, CA signs the bus's certificate, or an authority of the system.
	BusCA string
	// Push copies stored revocations to the key store and to the servers.
	Push func(context.Context) error
	// PushSoon has that done after the reply to this request.
	PushSoon func()
	// CheckMaker returns [grants.ErrNotAllowed] if who made a join token was revoked with all that they made.
	CheckMaker func(ctx context.Context, by string) error
	Log        *slog.Logger
}

// Hosts enrolls peels and revokes them, on a master that has the keys. It owns the join tokens and the revocations of
// sites.
type Hosts struct {
	o     Options
	peels bucket.Records[credential.Enrolled]
	joins bucket.Records[joinRecord]
	sites bucket.Records[credential.Site] // that were revoked
	// masters are those that were revoked, or whose credential was renewed.
	masters bucket.Records[credential.Site]
	fleet   *summary // of peels

	anonymous *rate.Limiter // requests without a token
}

// Open opens the bucket, which has to exist.
func Open(ctx context.Context, js jetstream.JetStream, o Options) (*Hosts, error) {
	h := &Hosts{o: o, fleet: newSummary(js), anonymous: rate.NewLimiter(rate.Every(anonymousEvery), anonymousAtOnce)}
	var err error
	if h.peels, err = bucket.OpenRecords[credential.Enrolled](ctx, js, wire.BucketEnroll, peelPrefix,
		"the peel"); err != nil {
		return nil, err
	}
	if h.masters, err = bucket.OpenRecords[credential.Site](ctx, js, wire.BucketEnroll, masterPrefix,
		"the master"); err != nil {
		return nil, err
	}
	if h.sites, err = bucket.OpenRecords[credential.Site](ctx, js, wire.BucketEnroll, sitePrefix,
		"the site"); err != nil {
		return nil, err
	}
	h.joins, err = bucket.OpenRecords[joinRecord](ctx, js, wire.BucketEnroll, joinPrefix, "the join token")
	return h, err
}

// Ended returns the keys of peels and sites that were revoked.
func (h *Hosts) Ended(ctx context.Context) (map[string]credential.End, error) {
	ended, _, err := h.fleet.read(ctx)
	if err != nil {
		return nil, err
	}
	sites, err := h.EndedSites(ctx)
	maps.Copy(ended, sites)
	return ended, err
}

// A Request is the request of a host to be enrolled, or to have its credential renewed.
type Request struct {
	ID     target.PeelID `json:"id"`
	Public string        `json:"public"`          // of a key made on the host, which never leaves it
	Proof  string        `json:"proof"`           // see [Proof], signed with that key
	Token  string        `json:"token,omitempty"` // text of a join token
	From   string        `json:"-"`               // address of the host, for the record
}

// Proof returns the text that a host signs to prove that it has the key. A copied request yields a JWT, which is
// useless without the key.
func Proof(id target.PeelID, public string) []byte {
	return []byte("zester enroll 1\n" + string(id) + "\n" + public + "\n")
}

// ParseRequest decodes the request of a host. [Hosts.Enroll] checks its content.
func ParseRequest(text []byte) (q Request, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		return q, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if d.More() {
		return q, fmt.Errorf("%w: something follows it", ErrInvalid)
	}
	return q, nil
}

// Check returns an error if the request is malformed or the proof is not of its key.
func (q *Request) Check() error {
	if _, err := target.ParsePeelID(string(q.ID)); err != nil {
		return err
	}
	if !nkeys.IsValidPublicKey(q.Public) {
		return errors.New("the public key is not the key of a user")
	}
	key, err := nkeys.FromPublicKey(q.Public)
	if err != nil {
		return err
	}
	proof, err := base64.RawURLEncoding.DecodeString(q.Proof)
	if err != nil {
		return fmt.Errorf("the proof is not base64url: %w", err)
	}
	if err := key.Verify(Proof(q.ID, q.Public), proof); err != nil {
		return errors.New("the proof was not signed with the key")
	}
	return nil
}

// Enroll returns the JWT for a host that is accepted, or why it is not: [ErrPending], [ErrConflict], [ErrRejected],
// [ErrInvalid], or what is wrong with the token. The token is not used if the host is accepted already.
func (h *Hosts) Enroll(ctx context.Context, q Request) (token string, e *credential.Enrolled, err error) {
	if err := q.Check(); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	r, _, err := h.peels.Get(ctx, q.ID.Wire())
	switch {
	case errors.Is(err, bucket.ErrAbsent):
		return h.enrollNew(ctx, q)
	case err != nil:
		return "", nil, err
	case r.ID != q.ID:
		return "", nil, fmt.Errorf("%w: on the bus it would be %s", ErrConflict, r.ID)
	case r.Public != q.Public && r.Unused():
		return h.enrollInstead(ctx, q, &r)
	case r.Public != q.Public && (r.State == credential.Accepted || r.State == credential.Pending):
		h.noteConflict(ctx, q)
		return "", &r, fmt.Errorf("%w, %s: zester auth peel reject or revoke makes room", ErrConflict, r.State)
	case r.Public != q.Public && r.Ended[q.Public] == (credential.End{}):
		return h.enrollAgain(ctx, q)
	case r.State == credential.Accepted:
		return h.issuePeel(ctx, &r)
	case r.State == credential.Pending:
		return h.admit(ctx, q, &r)
	}
	return "", &r, fmt.Errorf("%w: %s", ErrRejected, r.State)
}

// accept makes a pending peel one of the fleet and issues its credential.
func (h *Hosts) accept(ctx context.Context, id target.PeelID, public, by string) (string, *credential.Enrolled, error) {
	r, err := h.Approve(ctx, id, public, by)
	if err != nil {
		return "", nil, err
	}
	return h.issuePeel(ctx, r)
}

// Approve makes a peel that waits with this key one of the fleet. If it waits with another key, nothing is changed. The
// credential is signed when the peel asks for it, so that the approval does not depend on who has the keys.
func (h *Hosts) Approve(ctx context.Context, id target.PeelID, public, by string) (*credential.Enrolled, error) {
	r, err := h.changePeel(ctx, id, func(r *credential.Enrolled) error {
		switch {
		case r.ID != id || r.State != credential.Pending:
			return fmt.Errorf("%w: %s is %s", ErrConflict, r.ID, r.State)
		case r.Public != public:
			return fmt.Errorf("%w: %s waits with the key %s", ErrConflict, id, r.Public)
		}
		r.Enter(credential.Accepted, by)
		r.Expires = time.Now().UTC().Add(PeelLife)
		return h.register(id, public)
	})
	return &r, err
}

// issuePeel signs a credential; when it ends is in the record first, because a revocation is remembered for so long.
func (h *Hosts) issuePeel(ctx context.Context, e *credential.Enrolled) (string, *credential.Enrolled, error) {
	r, err := h.peels.Change(ctx, e.ID.Wire(), func(r *credential.Enrolled) error {
		if r.State != credential.Accepted || r.Public != e.Public {
			return fmt.Errorf("%w: %s", ErrRejected, r.State)
		}
		r.Expires = time.Now().UTC().Add(PeelLife)
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	token, err := h.o.Keys.Issue(grants.RolePeel, r.ID.Wire(), r.Public, PeelLife)
	return token, &r, err
}

// maxRoots bounds what [Hosts.Roots] returns, in bytes. A peel reads a reply of 64 KiB.
const maxRoots = 32 << 10

// Roots returns the certificates of the masters and of an external bus, in PEM. Without CA it returns nil, because
// hosts have the certificates already.
func (h *Hosts) Roots() ([]byte, error) {
	if h.o.CA == nil {
		return nil, nil
	}
	roots := h.o.CA.Bundle()
	if h.o.BusCA == "" {
		return roots, nil
	}
	bus, err := pki.Certificates(h.o.BusCA)
	if err != nil {
		return nil, fmt.Errorf("cannot tell the host by what to check the bus: %w", err)
	}
	if len(roots)+len(bus) > maxRoots {
		return nil, fmt.Errorf("cannot tell the host by what to check the bus: %s has over %d KiB of certificates: "+
			"name a file with those of the bus alone by --ca", h.o.BusCA, maxRoots>>10)
	}
	return append(roots, bus...), nil
}

// List returns all peels that were enrolled or asked to be, by ID.
func (h *Hosts) List(ctx context.Context) ([]credential.Enrolled, error) {
	all, err := h.peels.List(ctx)
	sorting.Func(all, func(a, b credential.Enrolled) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all, err
}

// Get returns a peel that was enrolled or asked to be, or [bucket.ErrAbsent].
func (h *Hosts) Get(ctx context.Context, id target.PeelID) (*credential.Enrolled, error) {
	e, _, err := h.peels.Get(ctx, id.Wire())
	if err == nil && e.ID != id {
		err = bucket.ErrAbsent // another ID of the same wire form
	}
	return &e, err
}

// Reject rejects a waiting peel. Its key stays rejected until a request with another key; then it waits again.
func (h *Hosts) Reject(ctx context.Context, id target.PeelID, by string) (*credential.Enrolled, error) {
	return h.end(ctx, id, credential.Rejected, credential.Pending, by)
}

// Revoke ends the credentials of a peel, those that were made beside the keys included: the bus cuts its connection,
// and its keys are never accepted again. Revoking again changes nothing.
func (h *Hosts) Revoke(ctx context.Context, id target.PeelID, by string) (*credential.Enrolled, error) {
	if err := h.adopt(ctx, id); err != nil {
		return nil, err
	}
	e, err := h.end(ctx, id, credential.Revoked, credential.Accepted, by)
	if err != nil {
		return nil, err
	}
	if err := h.o.Push(ctx); err != nil {
		return nil, fmt.Errorf(
			"%s is revoked, and gets no other credential; its connection may last for some time: %w", id, err,
		)
	}
	return e, nil
}

// issued returns the keys for which credentials of a peel were made beside the keys.
func (h *Hosts) issued(id target.PeelID) ([]credential.Key, error) {
	known, err := keystore.Registered(h.o.Keys.Dir(), grants.RolePeel, id.Wire())
	if err != nil || known.ID != string(id) {
		return nil, err
	}
	return known.Keys, nil
}

// adopt stores a record for a peel that only the register of the key store has.
func (h *Hosts) adopt(ctx context.Context, id target.PeelID) error {
	known, err := h.issued(id)
	if err != nil || len(known) == 0 {
		return err
	}
	last := known[len(known)-1]
	r := credential.Enrolled{ID: id, Public: last.Public, Expires: last.Expires}
	r.Enter(credential.Accepted, "")
	r.History[0].Time = last.Issued
	if err := h.peels.Create(ctx, id.Wire(), r); err != nil && !errors.Is(err, bucket.ErrPresent) {
		return err
	}
	return nil
}

func (h *Hosts) end(ctx context.Context, id target.PeelID, to, from credential.EnrollState,
	by string,
) (*credential.Enrolled, error) {
	keys, err := h.issued(id)
	if err != nil {
		return nil, err
	}
	r, err := h.changePeel(ctx, id, func(r *credential.Enrolled) error {
		if to == credential.Revoked {
			replaceAsking(r, id, keys)
		}
		if r.ID != id || r.State != from && r.State != to {
			return fmt.Errorf("%w: %s is %s", ErrConflict, r.ID, r.State)
		}
		if r.State == from {
			r.Enter(to, by)
		}
		if to == credential.Revoked {
			revoke(r, keys)
		}
		return nil
	})
	return &r, err
}

// replaceAsking makes the record of a host that only asks for an ID, or was rejected, the record of the peel whose
// credential was made beside the keys after that. The host is then shown as the conflicting key.
func replaceAsking(e *credential.Enrolled, id target.PeelID, keys []credential.Key) {
	keys = slices.DeleteFunc(credential.Current(keys, time.Now()), func(k credential.Key) bool {
		return k.Public == e.Public || e.Ended[k.Public] != (credential.End{})
	})
	if len(keys) == 0 || e.State != credential.Pending && e.State != credential.Rejected || e.ID != id && !e.Unused() {
		return
	}
	last := keys[len(keys)-1]
	e.Conflicting = &credential.ConflictingKey{Public: e.Public, From: e.From, Time: e.History[len(e.History)-1].Time}
	e.ID = id
	e.Public = last.Public
	e.From = ""
	e.Expires = last.Expires
	e.Enter(credential.Accepted, "")
}

// changePeel changes the record of a peel whose ID came from a person.
func (h *Hosts) changePeel(ctx context.Context, id target.PeelID,
	f func(*credential.Enrolled) error,
) (r credential.Enrolled, err error) {
	if _, err = target.ParsePeelID(string(id)); err == nil {
		r, err = h.peels.Change(ctx, id.Wire(), f)
	} else {
		err = bucket.ErrAbsent
	}
	if errors.Is(err, bucket.ErrAbsent) {
		err = fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	return r, err
}

// revoke enters the peel's own key and those of credentials that were made beside the keys as ended, until the last of
// their credentials has ended by itself.
func revoke(e *credential.Enrolled, keys []credential.Key) {
	now := time.Now().UTC()
	ended := map[string]credential.End{e.Public: {At: now, Expires: e.Expires}}
	for _, k := range credential.Current(keys, now) {
		if k.Public != e.Public {
			ended[k.Public] = credential.End{At: now, Expires: k.Expires}
		}
	}
	for public, end := range e.Ended {
		if end.Expires.IsZero() || end.Expires.After(now) {
			ended[public] = end
		}
	}
	e.Ended = ended
}
