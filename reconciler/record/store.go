package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// Bucket is the bucket of the record. Other things that the reconciler must remember have keys of their own in it.
const Bucket = "rollout"

// key of the record in Bucket.
const key = "state"

// ErrConflict: another master has written the key of [Bucket] since this master read it, so another master leads. Read
// it again before writing.
var ErrConflict = errors.New("it was written since it was read")

// A Store reads and writes the record by compare-and-set. One goroutine may use it.
type Store struct {
	kv       jetstream.KeyValue
	owner    string
	source   Source
	revision uint64 // of the key when it was last read or written; 0: there is no key
}

// NewStore returns the store of the record in kv, the bucket [Bucket]. owner is the name of this master, source its
// source.
func NewStore(kv jetstream.KeyValue, owner string, source Source) *Store {
	return &Store{kv: kv, owner: owner, source: source}
}

// Read returns the record, the zero Record if there is none.
func (s *Store) Read(ctx context.Context) (r Record, err error) {
	entry, err := s.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		s.revision = 0
		return r, nil
	}
	if err == nil {
		err = canon.Unmarshal(entry.Value(), &r)
	}
	if err != nil {
		return Record{}, fmt.Errorf("cannot read the record of the rollout: %w", err)
	}
	s.revision = entry.Revision()
	if r.Rollout != nil && len(r.Rollout.Waves) == 0 {
		r.Rollout = nil // an earlier version wrote it; the revision goes out again from the first wave
	}
	return r, nil
}

// Write stores r in place of the record that was last read or written, and returns it as it was stored: with Owner,
// Source and Time set and its lists within their bounds. The error is [ErrConflict] if another master has written the
// record, and a *[Refusal] if r has another source. After any other error the record may be stored all the same: then
// the next write is a conflict.
func (s *Store) Write(ctx context.Context, r Record) (Record, error) {
	if err := r.CheckSource(s.source); err != nil {
		return Record{}, err
	}
	r.Owner, r.Source, r.Time = s.owner, s.source, time.Now()
	r = r.bounded()
	data, err := canon.Marshal(r)
	if err != nil {
		return Record{}, err
	}
	revision, err := s.kv.Update(ctx, key, data, s.revision)
	switch {
	case bucket.IsConflict(err):
		err = ErrConflict
	case err != nil: // perhaps only the answer was lost
		if entry, again := s.kv.Get(ctx, key); again == nil && bytes.Equal(entry.Value(), data) {
			revision, err = entry.Revision(), nil
		}
	}
	if err != nil {
		return Record{}, fmt.Errorf("cannot write the record of the rollout: %w", err)
	}
	s.revision = revision
	return r, nil
}

// bounded returns the record with its lists within their bounds.
func (r Record) bounded() Record {
	r.History = r.History[max(0, len(r.History)-MaxHistory):]
	r.Skipped = r.Skipped[max(0, len(r.Skipped)-MaxSkipped):]
	return r
}
