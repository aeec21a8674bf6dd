package enroll

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A Registration describes the credentials of a peel. The zero value: it has none.
type Registration struct {
	ID     target.PeelID
	Keys   []string // public nkeys of its credentials, the newest last
	Ended  []string // public nkeys that were revoked
	Sealed string   // the key to which its settings are sealed; empty: they hold no secrets, or there are none
}

// A Register finds the peel of a name on the bus. Its methods may be called from several goroutines.
type Register struct {
	peels bucket.Records[credential.Enrolled]
	store *settings.Store
	dir   string
	all   *summary
}

// OpenRegister opens the bucket of enrolled peels, which has to exist. Dir is where the keys of the masters are, empty
// for a master without them: it does not know peels whose credentials were made beside the keys, before their
// revocation.
func OpenRegister(ctx context.Context, js jetstream.JetStream, dir string) (*Register, error) {
	peels, err := bucket.OpenRecords[credential.Enrolled](ctx, js, wire.BucketEnroll, peelPrefix, "the peel")
	return &Register{peels, settings.NewStore(js), dir, newSummary(js)}, err
}

// Lookup returns the peel that has a name on the bus. Settings that cannot be decoded count as settings without
// secrets. The error is [bucket.ErrUnreadable] if the peel's record cannot be decoded.
func (p *Register) Lookup(ctx context.Context, wireID string) (r Registration, err error) {
	r, _, err = p.find(ctx, wireID)
	if err != nil || r.ID == "" {
		return Registration{}, err
	}
	doc, _, err := p.store.Get(ctx, r.ID)
	_, damaged := errors.AsType[*settings.DecodeError](err)
	switch {
	case damaged:
		return r, nil // the reconciler replaces them
	case err == nil && doc != nil && doc.Sealed != nil:
		r.Sealed = string(doc.Sealed.To)
	}
	return r, err
}

// Keys returns the keys of the credentials that a peel has and had, as far as masters still know them. A revoked key is
// forgotten when its last credential would have expired.
func (p *Register) Keys(ctx context.Context, id target.PeelID) ([]credential.PeelKey, error) {
	r, ends, err := p.find(ctx, id.Wire())
	if err != nil || r.ID != id {
		return nil, err
	}
	keys := make([]credential.PeelKey, 0, len(r.Keys)+len(r.Ended))
	for _, public := range r.Keys {
		keys = append(keys, credential.PeelKey{Public: public})
	}
	for _, public := range slices.Sorted(slices.Values(r.Ended)) {
		keys = append(keys, credential.PeelKey{Public: public, Revoked: ends[public].At})
	}
	return keys, nil
}

// find returns a registration without Sealed, and when the ended keys were revoked.
func (p *Register) find(ctx context.Context, wireID string) (
	r Registration, ends map[string]credential.End, err error,
) {
	e, _, err := p.peels.Get(ctx, wireID)
	if err != nil && !errors.Is(err, bucket.ErrAbsent) {
		return r, nil, err
	}
	if e.State == credential.Accepted || len(e.Ended) > 0 { // in other states there is only a request
		r.ID = e.ID
	}
	for public := range e.Ended {
		r.Ended = append(r.Ended, public)
	}
	if p.dir != "" {
		known, err := keystore.Registered(p.dir, grants.RolePeel, wireID)
		if err != nil {
			return r, nil, err
		}
		if r.ID == "" && !isRequest(&e, known.Keys) {
			r.ID = target.PeelID(known.ID)
		}
		for _, k := range known.Keys {
			if r.ID == target.PeelID(known.ID) && !slices.Contains(r.Ended, k.Public) {
				r.Keys = append(r.Keys, k.Public)
			}
		}
	}
	if e.State == credential.Accepted && !slices.Contains(r.Keys, e.Public) {
		r.Keys = append(r.Keys, e.Public)
	}
	return r, e.Ended, nil
}

// RevokedSince returns the peels with a credential that was revoked after a time, and those whose record cannot be
// decoded. A revoked key is never accepted again, so a host that has the name of such a peel now is another one, or was
// set up again. It reads only the records that changed since the last call.
func (p *Register) RevokedSince(ctx context.Context, since time.Time, peels []target.PeelID) ([]target.PeelID, error) {
	return p.all.revokedSince(ctx, since, peels)
}

// isRequest reports whether none of the keys has a credential, because they belong to a request that is not accepted.
// Earlier versions recorded such keys beside the keys of the masters.
func isRequest(e *credential.Enrolled, keys []credential.Key) bool {
	return !slices.ContainsFunc(keys, func(k credential.Key) bool { return k.Public != e.Public }) &&
		e.State != credential.Accepted
}
