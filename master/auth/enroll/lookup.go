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
	e, _, err := p.peels.Get(ctx, wireID)
	if err != nil && !errors.Is(err, bucket.ErrAbsent) {
		return r, err
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
			return r, err
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
	if r.ID == "" {
		return Registration{}, nil
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
