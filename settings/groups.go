package settings

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// groupsKey is the key of the node groups in the bucket rollout; every master reads it to resolve N@.
const groupsKey = "nodegroups"

// NodeGroups are node groups by name, each as the words written in the file.
type NodeGroups map[string][]string

// PublishNodeGroups replaces the stored node groups, whose KV revision must still be the given one, and returns the new
// revision. bucket.IsConflict is true of the error if another master has written them.
func PublishNodeGroups(ctx context.Context, rollout jetstream.KeyValue, groups NodeGroups,
	revision uint64,
) (uint64, error) {
	data, err := canon.Marshal(groups)
	if err == nil {
		revision, err = rollout.Update(ctx, groupsKey, data, revision)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot publish the node groups: %w", err)
	}
	return revision, nil
}

// LoadNodeGroups returns the stored node groups and their KV revision, 0 if there are none. If it returns an error and
// a revision other than 0, the stored bytes are invalid and may be replaced.
func LoadNodeGroups(ctx context.Context, rollout jetstream.KeyValue) (groups NodeGroups, revision uint64, err error) {
	entry, err := rollout.Get(ctx, groupsKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	const cannot = "cannot read the node groups: %w"
	if err != nil {
		return nil, 0, fmt.Errorf(cannot, err)
	}
	if err := canon.Unmarshal(entry.Value(), &groups); err != nil {
		return nil, entry.Revision(), fmt.Errorf(cannot, err)
	}
	return groups, entry.Revision(), nil
}

// LoadGroups returns the stored node groups parsed, nil if there are none. An expression that uses an invalid group
// reports its error.
func LoadGroups(ctx context.Context, rollout jetstream.KeyValue) (target.Groups, error) {
	stored, _, err := LoadNodeGroups(ctx, rollout)
	if err != nil || stored == nil {
		return nil, err
	}
	groups, _ := target.ParseGroups(stored)
	return groups, nil
}
