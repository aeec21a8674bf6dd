package reach

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

const (
	settingsWait  = 30 * time.Second // for the settings of all peels
	documentsOnce = 32               // read at a time
)

// A Selector evaluates expressions on the live fleet. Facts are always current in the index. Node groups and settings
// are read when an expression uses them, and only if they have changed. Methods may be called from several goroutines.
type Selector struct {
	js    jetstream.JetStream
	index *peelindex.Index
	store *settings.Store

	loading singleflight.Group // of the settings: all who wait share one

	mu      sync.Mutex
	rollout jetstream.KeyValue                // nil until it is needed
	at      settings.Position                 // of the bucket, whose settings are in the index
	loaded  map[target.PeelID]settings.Digest // of the settings in the index
}

// NewSelector returns a selector of the peels of an index.
func NewSelector(js jetstream.JetStream, index *peelindex.Index) *Selector {
	return &Selector{js: js, index: index, store: settings.NewStore(js)}
}

// Select returns the peels that an expression selects, sorted.
func (s *Selector) Select(ctx context.Context, expr string) (*target.Expr, []target.PeelID, error) {
	e, err := s.Parse(ctx, expr)
	if err != nil {
		return nil, nil, err
	}
	return e, s.index.Select(e), nil
}

// Parse parses an expression and loads the node groups and settings that it uses.
func (s *Selector) Parse(ctx context.Context, expr string) (*target.Expr, error) {
	var groups target.Groups
	if strings.ContainsRune(expr, 'N') { // N@, also with a delimiter of its own
		var err error
		if groups, err = s.Groups(ctx); err != nil {
			return nil, err
		}
	}
	e, err := target.Parse(expr, target.Options{Groups: groups})
	if err != nil || !e.UsesSettings() {
		return e, err
	}
	return e, s.loadSettings(ctx)
}

// Groups returns the node groups of the revision in force.
func (s *Selector) Groups(ctx context.Context) (target.Groups, error) {
	s.mu.Lock()
	rollout := s.rollout
	s.mu.Unlock()
	if rollout == nil {
		var err error
		if rollout, err = s.js.KeyValue(ctx, wire.BucketRollout); err != nil {
			return nil, fmt.Errorf("cannot read the node groups: %w", err)
		}
		s.mu.Lock()
		s.rollout = rollout
		s.mu.Unlock()
	}
	return settings.LoadGroups(ctx, rollout)
}

// loadSettings updates the index to the settings at the time of the call, or later.
func (s *Selector) loadSettings(ctx context.Context) error {
	// The first load may have begun before the call, the second has not.
	for range 2 {
		now, err := s.store.Position(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		known := s.at
		s.mu.Unlock()
		if now == known {
			return nil
		}
		load := s.loading.DoChan("", func() (any, error) {
			// The first caller may be canceled while others wait.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settingsWait)
			defer cancel()
			return nil, s.load(ctx)
		})
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot read the published settings: %w", ctx.Err())
		case done := <-load:
			if done.Err != nil {
				return done.Err
			}
		}
	}
	return nil
}

// load reads the changes of the bucket since the last load. Only one runs at a time.
func (s *Selector) load(ctx context.Context) error {
	at, err := s.store.Position(ctx)
	if err != nil {
		return err
	}
	heads, err := s.store.Load(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	loaded := s.loaded
	s.mu.Unlock()
	values, err := s.read(ctx, heads, loaded)
	if err != nil {
		return err
	}
	now := make(map[target.PeelID]settings.Digest, len(heads))
	for id, digest := range loaded {
		switch head := heads.Of(id); {
		case head.Err != nil:
			now[id] = digest // what was readable stays
		case head.Peel != id:
			s.index.PutSettings(id, nil)
		}
	}
	for _, head := range heads {
		if head.Peel == "" {
			continue
		}
		v, changed := values[head.Digest]
		switch {
		case loaded[head.Peel] == head.Digest:
		case changed:
			s.index.PutSettings(head.Peel, v)
		default:
			at = settings.Position{} // the document has changed since; the next expression sees it
			continue
		}
		now[head.Peel] = head.Digest
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.loaded = at, now
	return nil
}

// read returns settings that are not loaded, by digest. It reads equal settings of several peels once, and leaves out
// deleted documents.
func (s *Selector) read(ctx context.Context, heads settings.Heads,
	loaded map[target.PeelID]settings.Digest,
) (map[settings.Digest]map[string]any, error) {
	wanted := map[settings.Digest]target.PeelID{}
	for _, head := range heads {
		if head.Peel != "" && loaded[head.Peel] != head.Digest {
			wanted[head.Digest] = head.Peel
		}
	}
	var mu sync.Mutex
	values := map[settings.Digest]map[string]any{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(documentsOnce)
	for digest, peel := range wanted {
		g.Go(func() error {
			doc, _, err := s.store.Get(ctx, peel)
			if err != nil || doc == nil || doc.Digest != digest {
				return err
			}
			v, err := doc.Values()
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			values[digest] = v
			return nil
		})
	}
	return values, g.Wait()
}
