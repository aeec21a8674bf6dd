package settings

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// groupsKey is where the repo's node groups are in the bucket rollout, so that every master can resolve N@.
const groupsKey = "nodegroups"

// PublishGroups stores the node groups of the revision in force, by name and as they are written.
func PublishGroups(ctx context.Context, rollout jetstream.KeyValue, words map[string][]string) error {
	data, err := canon.Marshal(words)
	if err == nil {
		_, err = rollout.Put(ctx, groupsKey, data)
	}
	if err != nil {
		return fmt.Errorf("cannot publish the node groups: %w", err)
	}
	return nil
}

// LoadGroups reads the node groups of the revision in force; there are none before the first.
func LoadGroups(ctx context.Context, rollout jetstream.KeyValue) (target.Groups, error) {
	entry, err := rollout.Get(ctx, groupsKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	var words map[string][]string
	if err == nil {
		err = canon.Unmarshal(entry.Value(), &words)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the node groups: %w", err)
	}
	groups, _ := target.ParseGroups(words) // the revision was checked; one that this build cannot read says so when it is used
	return groups, nil
}
