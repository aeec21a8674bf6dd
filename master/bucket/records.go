// File records.go stores records of one kind in a KV bucket, each under its name. Call [OpenRecords], then the methods
// of [Records].
//
// Guarantees: [Records.Get] reads from the leader of the bucket, so it sees every change that was stored before; an
// error is never taken for a record that is absent; [Records.Change] loses no change that others make at the same time.

package bucket

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// Errors of records.
var (
	ErrAbsent  = errors.New("there is no such record")
	ErrPresent = errors.New("there is such a record")
	// ErrUnreadable: the record cannot be decoded. Reading it again does not help.
	ErrUnreadable = errors.New("it cannot be decoded")
)

// A Records holds one kind of record, under keys below a prefix. Methods may be called from several goroutines.
type Records[T any] struct {
	js     jetstream.JetStream
	kv     jetstream.KeyValue
	bucket string
	prefix string
	noun   string // for errors: "the user"
}

// OpenRecords opens the records below a prefix of a bucket, which has to exist. The noun is for errors, such as "the
// user".
func OpenRecords[T any](ctx context.Context, js jetstream.JetStream, bucket, prefix, noun string) (Records[T], error) {
	kv, err := js.KeyValue(ctx, bucket)
	if err != nil {
		return Records[T]{}, fmt.Errorf("cannot open the bucket %s: %w", bucket, err)
	}
	return Records[T]{js: js, kv: kv, bucket: bucket, prefix: prefix, noun: noun}, nil
}

// Get returns a record and its revision, [ErrAbsent] or [ErrUnreadable].
func (b *Records[T]) Get(ctx context.Context, name string) (r T, revision uint64, err error) {
	entry, err := b.kv.Get(ctx, b.prefix+name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return r, 0, ErrAbsent
	}
	if err == nil {
		if err = canon.Unmarshal(entry.Value(), &r); err != nil {
			err = fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
	}
	if err != nil {
		return r, 0, fmt.Errorf("cannot read %s %s: %w", b.noun, name, err)
	}
	return r, entry.Revision(), nil
}

// Create stores a new record, or returns [ErrPresent].
func (b *Records[T]) Create(ctx context.Context, name string, r T) error {
	data, err := canon.Marshal(r)
	if err == nil {
		_, err = b.kv.Create(ctx, b.prefix+name, data)
	}
	if IsConflict(err) {
		return ErrPresent
	}
	if err != nil {
		return fmt.Errorf("cannot store %s %s: %w", b.noun, name, err)
	}
	return nil
}

// Put stores the record of a prefix that is a complete key.
func (b *Records[T]) Put(ctx context.Context, r T) error {
	data, err := canon.Marshal(r)
	if err == nil {
		_, err = b.kv.Put(ctx, b.prefix, data)
	}
	if err != nil {
		return fmt.Errorf("cannot store %s: %w", b.noun, err)
	}
	return nil
}

// changeTries bounds how often a change is repeated because another was made first. It is large, so that a revocation
// succeeds while others change the record all the time.
const changeTries = 500

// Change calls f with a record and stores the result. If another master changed the record meanwhile, it calls f again
// with the changed record.
func (b *Records[T]) Change(ctx context.Context, name string, f func(*T) error) (r T, err error) {
	for range changeTries {
		var revision uint64
		var data []byte
		if r, revision, err = b.Get(ctx, name); err != nil {
			return r, err
		}
		if err := f(&r); err != nil {
			return r, err
		}
		if data, err = canon.Marshal(r); err == nil {
			_, err = b.kv.Update(ctx, b.prefix+name, data, revision)
		}
		if !IsConflict(err) {
			break
		}
	}
	if err != nil {
		return r, fmt.Errorf("cannot store %s %s: %w", b.noun, name, err)
	}
	return r, nil
}

// List returns all records that can be decoded, by their keys' order in the bucket. [Records.Unreadable] returns the
// others.
func (b *Records[T]) List(ctx context.Context) ([]T, error) {
	all, _, err := b.read(ctx)
	return all, err
}

// Unreadable returns the keys of records that cannot be decoded, as BUCKET/KEY.
func (b *Records[T]) Unreadable(ctx context.Context) ([]string, error) {
	_, bad, err := b.read(ctx)
	return bad, err
}

func (b *Records[T]) read(ctx context.Context) (all []T, bad []string, err error) {
	all = []T{}
	err = Read(ctx, b.js, b.bucket, b.prefix+">", func(key string, value []byte) error {
		var r T
		if err := canon.Unmarshal(value, &r); err != nil {
			bad = append(bad, b.bucket+"/"+key)
			return nil
		}
		all = append(all, r)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot list %ss: %w", b.noun, err)
	}
	return all, bad, nil
}
