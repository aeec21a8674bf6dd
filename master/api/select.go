package api

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A selector evaluates expressions on the live fleet. Facts are always current in the index; what an expression says
// of the repo, its node groups and the settings that it gives, is read when it says so.
type selector struct {
	js    jetstream.JetStream
	index *target.Index
	store *settings.Store

	mu      sync.Mutex
	rollout jetstream.KeyValue                // nil until it is needed
	loaded  map[target.PeelID]settings.Digest // of the settings in the index
}

// selected are the peels that an expression selects, sorted.
func (s *selector) selected(ctx context.Context, expr string) (*target.Expr, []target.PeelID, error) {
	var groups target.Groups
	if strings.ContainsRune(expr, 'N') { // N@, also with a delimiter of its own
		var err error
		if groups, err = s.groups(ctx); err != nil {
			return nil, nil, err
		}
	}
	e, err := target.Parse(expr, target.Options{Groups: groups})
	if err != nil {
		return nil, nil, err
	}
	if e.UsesSettings() {
		if err := s.loadSettings(ctx); err != nil {
			return nil, nil, err
		}
	}
	return e, s.index.Select(e), nil
}

func (s *selector) groups(ctx context.Context) (target.Groups, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rollout == nil {
		var err error
		if s.rollout, err = s.js.KeyValue(ctx, "rollout"); err != nil {
			return nil, fmt.Errorf("cannot read the node groups: %w", err)
		}
	}
	return settings.LoadGroups(ctx, s.rollout)
}

// loadSettings brings the index to what the peels have been given. Peels with equal settings cost one read together.
func (s *selector) loadSettings(ctx context.Context) error {
	heads, err := s.store.Load(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	values := map[settings.Digest]map[string]any{}
	for _, head := range heads {
		if head.Peel == "" || s.loaded[head.Peel] == head.Digest {
			continue
		}
		v, ok := values[head.Digest]
		if !ok {
			doc, _, err := s.store.Get(ctx, head.Peel)
			if err != nil {
				return err
			}
			if doc == nil || doc.Digest != head.Digest {
				continue // it has changed since; the next expression sees it
			}
			if v, err = doc.Values(); err != nil {
				return err
			}
			values[head.Digest] = v
		}
		s.index.PutSettings(head.Peel, v)
		s.loaded[head.Peel] = head.Digest
	}
	return nil
}
