package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// BucketRemovals is the bucket in which masters note their commits that remove schedule entries.
const BucketRemovals = "schedules"

// removalLife is how long such a note is kept: a commit that has not come in force by then is judged as one of a
// person.
const removalLife = 30 * 24 * time.Hour

func removalKey(c settings.Commit) string { return "removed." + string(c) }

// NoteRemoval stores which entries a commit of this master removes. Call it before the commit is pushed. kv is
// [BucketRemovals].
func NoteRemoval(ctx context.Context, kv jetstream.KeyValue, c settings.Commit, entries []string) error {
	data, err := canon.Marshal(entries)
	if err == nil {
		_, err = kv.Create(ctx, removalKey(c), data, jetstream.KeyTTL(removalLife))
	}
	if err != nil && !errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("cannot note that %s removes entries: %w", c.Short(), err)
	}
	return nil
}

// Removal returns the entries that a commit removes if a master made it, none for any other commit.
func Removal(ctx context.Context, kv jetstream.KeyValue, c settings.Commit) (entries []string, err error) {
	e, err := kv.Get(ctx, removalKey(c))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err == nil {
		err = canon.Unmarshal(e.Value(), &entries)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read which entries %s removes: %w", c.Short(), err)
	}
	return entries, nil
}
