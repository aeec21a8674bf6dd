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

// Words are node groups by name, as they are written.
type Words map[string][]string

// PublishGroups stores the node groups of the revision in force over those at revision, and returns that of its own.
// The error is jetstream.ErrKeyExists where somebody else has written them.
func PublishGroups(ctx context.Context, rollout jetstream.KeyValue, words Words, revision uint64) (uint64, error) {
	data, err := canon.Marshal(words)
	if err == nil {
		revision, err = rollout.Update(ctx, groupsKey, data, revision)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot publish the node groups: %w", err)
	}
	return revision, nil
}

// LoadWords reads what PublishGroups has stored, and its revision: 0 before the first. With an error, a revision other
// than 0 is of something that cannot be read and may be replaced.
func LoadWords(ctx context.Context, rollout jetstream.KeyValue) (words Words, revision uint64, err error) {
	entry, err := rollout.Get(ctx, groupsKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	const cannot = "cannot read the node groups: %w"
	if err != nil {
		return nil, 0, fmt.Errorf(cannot, err)
	}
	if err := canon.Unmarshal(entry.Value(), &words); err != nil {
		return nil, entry.Revision(), fmt.Errorf(cannot, err)
	}
	return words, entry.Revision(), nil
}

// LoadGroups reads the node groups of the revision in force; there are none before the first.
func LoadGroups(ctx context.Context, rollout jetstream.KeyValue) (target.Groups, error) {
	words, _, err := LoadWords(ctx, rollout)
	if err != nil || words == nil {
		return nil, err
	}
	groups, _ := target.ParseGroups(words) // the revision was checked; one that this build cannot read says so when it is used
	return groups, nil
}
