package alert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/alert/rules"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	alertPrefix   = "alert."
	silencePrefix = "silence."
	writeLimit    = 2 * time.Second
	loadLimit     = 10 * time.Second
	maxStored     = 16 << 10  // bytes of a stored alert or silence
	markerTime    = time.Hour // for which the bucket keeps the marker of a removed key
)

// A store holds a copy of the bucket alerts. Only the master that leads writes to the bucket. If another one does, the
// next write of a key is a conflict, and the term ends.
type store struct {
	kv         jetstream.KeyValue
	checkLease func() error
	log        *slog.Logger
	alerts     map[string]rules.Alert // by ID, as the bucket has them
	silences   map[string]api.Silence // by ID
	// by the name of the service, as they were when the term began
	pings     map[string]map[notify.PingID]notify.PingMark
	revisions map[string]uint64 // by key
}

// load reads the bucket.
func load(ctx context.Context, kv jetstream.KeyValue, checkLease func() error, log *slog.Logger) (*store, error) {
	s := &store{
		kv, checkLease, log,
		map[string]rules.Alert{},
		map[string]api.Silence{},
		map[string]map[notify.PingID]notify.PingMark{},
		map[string]uint64{},
	}
	ctx, cancel := context.WithTimeout(ctx, loadLimit)
	defer cancel()
	watcher, err := kv.WatchAll(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read the alerts: %w", err)
	}
	defer func() { _ = watcher.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cannot read the alerts: %w", ctx.Err())
		case entry, open := <-watcher.Updates():
			if !open {
				return nil, errors.New("cannot read the alerts: the reading broke off")
			}
			if entry == nil {
				return s, nil
			}
			s.take(entry)
		}
	}
}

// take adds one value of the bucket. It logs a value that it cannot decode, and leaves it in the bucket: a newer
// version may have written it.
func (s *store) take(entry jetstream.KeyValueEntry) {
	if entry.Operation() != jetstream.KeyValuePut {
		return
	}
	key := entry.Key()
	s.revisions[key] = entry.Revision()
	if strings.HasPrefix(key, silencePrefix) {
		if silence, err := decodeSilence(key, entry.Value()); err == nil {
			s.silences[silence.ID] = silence
		} else {
			s.log.Warn("stored silence not read", "key", key, "err", err)
		}
		return
	}
	if service, is := strings.CutPrefix(key, pingPrefix); is {
		if marks, err := decodePings(entry.Value()); err == nil {
			s.pings[service] = marks
		} else {
			s.log.Warn("stored pings not read", "key", key, "err", err)
		}
		return
	}
	if a, err := decodeAlert(key, entry.Value()); err == nil {
		s.alerts[a.ID()] = a
	} else {
		s.log.Warn("stored alert not read", "key", key, "err", err)
	}
}

// decodeAlert decodes a stored alert. The key must belong to its ID.
func decodeAlert(key string, data []byte) (a rules.Alert, err error) {
	if len(data) > maxStored {
		return a, fmt.Errorf("it has %d bytes, the limit is %d", len(data), maxStored)
	}
	if err := canon.Unmarshal(data, &a); err != nil {
		return rules.Alert{}, err
	}
	if a.Rule == "" || (a.Entry == "") == (a.Trouble == "") || keyOf(a.ID()) != key {
		return rules.Alert{}, errors.New("it is not the alert of its key")
	}
	return a, nil
}

// decodeSilence decodes a stored silence. The key must belong to its ID.
func decodeSilence(key string, data []byte) (s api.Silence, err error) {
	if len(data) > maxStored {
		return s, fmt.Errorf("it has %d bytes, the limit is %d", len(data), maxStored)
	}
	if err := canon.Unmarshal(data, &s); err != nil {
		return api.Silence{}, err
	}
	if silencePrefix+s.ID != key || s.Until.IsZero() {
		return api.Silence{}, errors.New("it is not the silence of its key")
	}
	return s, rules.CheckMatch(s.Match)
}

func keyOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return alertPrefix + hex.EncodeToString(sum[:16])
}

// put stores a value. The error is a conflict if another master has written the key.
func (s *store) put(ctx context.Context, key string, value any) error {
	data, err := canon.Marshal(value)
	if err != nil {
		return err
	}
	if err := s.checkLease(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	revision, known := s.revisions[key]
	if known {
		revision, err = s.kv.Update(ctx, key, data, revision)
	} else {
		revision, err = s.kv.Create(ctx, key, data)
	}
	if err == nil {
		s.revisions[key] = revision
	}
	return err
}

// remove removes a key. The error is a conflict if another master has written it.
func (s *store) remove(ctx context.Context, key string) error {
	if err := s.checkLease(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	err := s.kv.Purge(ctx, key, jetstream.LastRevision(s.revisions[key]), jetstream.PurgeTTL(markerTime))
	if err == nil {
		delete(s.revisions, key)
	}
	return err
}

// save writes the alerts that have changed, and removes those that are not in now. It stops at the first error.
func (s *store) save(ctx context.Context, now map[string]rules.Alert) error {
	for _, id := range slices.Sorted(maps.Keys(now)) {
		a := now[id]
		if old, known := s.alerts[id]; known && old.Equal(a) {
			continue
		}
		if err := s.put(ctx, keyOf(id), a); err != nil {
			return fmt.Errorf("cannot store the alert %s: %w", id, err)
		}
		s.alerts[id] = a
	}
	for id := range s.alerts {
		if _, stays := now[id]; stays {
			continue
		}
		if err := s.remove(ctx, keyOf(id)); err != nil {
			return fmt.Errorf("cannot remove the alert %s: %w", id, err)
		}
		delete(s.alerts, id)
	}
	return nil
}

// isSaved reports whether the bucket has an alert in its present state.
func (s *store) isSaved(id string, a rules.Alert) bool {
	old, known := s.alerts[id]
	return known && old.Equal(a)
}
