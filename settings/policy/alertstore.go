// File alertstore.go keeps the alert rules of the revision in force on the bus: [PublishAlerts] writes them,
// [LoadAlerts] reads them.

package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// key is the key of the alert rules in the bucket rollout; the master that leads the alerts reads it.
const key = "alerts"

// PublishAlerts replaces the stored alert rules, whose KV revision must still be the given one, and returns the new
// revision. bucket.IsConflict is true of the error if another master has written them.
func PublishAlerts(ctx context.Context, rollout jetstream.KeyValue, rules []Alert, revision uint64) (uint64, error) {
	data, err := canon.Marshal(rules)
	if err == nil {
		revision, err = rollout.Update(ctx, key, data, revision)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot publish the alert rules: %w", err)
	}
	return revision, nil
}

// LoadAlerts returns the stored alert rules and their KV revision, 0 if there are none. If it returns an error and a
// revision other than 0, the stored bytes are invalid and may be replaced.
func LoadAlerts(ctx context.Context, rollout jetstream.KeyValue) (rules []Alert, revision uint64, err error) {
	entry, err := rollout.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	const cannot = "cannot read the alert rules: %w"
	if err != nil {
		return nil, 0, fmt.Errorf(cannot, err)
	}
	if err := canon.Unmarshal(entry.Value(), &rules); err != nil {
		return nil, entry.Revision(), fmt.Errorf(cannot, err)
	}
	return rules, entry.Revision(), nil
}
