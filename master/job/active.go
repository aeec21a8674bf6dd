package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// Active is an entry of the index of jobs that have not ended.
type Active struct {
	JID     wire.JID  `json:"jid"`
	Owner   string    `json:"owner"`
	Updated time.Time `json:"updated"`
}

// Enlist enters a job into the index before its record is written, so that no record is without an entry. One that is
// there stays as it is.
func (s *Store) Enlist(ctx context.Context, j *Job) error {
	return s.enter(j, func(key string, data []byte) error {
		_, err := s.jobs.Create(ctx, key, data)
		if errors.Is(err, jetstream.ErrKeyExists) {
			return nil
		}
		return err
	})
}

// Activate enters a job into the index, or refreshes its entry. A job that is not in it is watched all the same, but
// no other master would find it if its owner died.
func (s *Store) Activate(ctx context.Context, j *Job) error {
	return s.enter(j, func(key string, data []byte) error {
		_, err := s.jobs.Put(ctx, key, data)
		return err
	})
}

func (s *Store) enter(j *Job, write func(key string, data []byte) error) error {
	data, err := canon.Marshal(Active{JID: j.JID, Owner: j.Owner, Updated: j.Updated})
	if err == nil {
		err = write(activePrefix+string(j.JID), data)
	}
	if err != nil {
		return fmt.Errorf("cannot index job %s as active: %w", j.JID, err)
	}
	return nil
}

// Deactivate takes a job out of the index. The mark that this leaves in the bucket goes away by itself.
func (s *Store) Deactivate(ctx context.Context, jid wire.JID) error {
	if err := s.jobs.Purge(ctx, activePrefix+string(jid), jetstream.PurgeTTL(indexMarker)); err != nil {
		return fmt.Errorf("cannot take job %s out of the index: %w", jid, err)
	}
	return nil
}

// ListActive reads the index. Its cost is that of the jobs that run, whatever the bucket holds besides.
func (s *Store) ListActive(ctx context.Context) ([]Active, error) {
	all, err := patiently(ctx, func() (all []Active, err error) {
		err = bucket.Read(ctx, s.js, jobsBucket, activePrefix+"*", func(key string, value []byte) error {
			a := Active{}
			if err := canon.Unmarshal(value, &a); err != nil || string(a.JID) != strings.TrimPrefix(key, activePrefix) {
				return fmt.Errorf("cannot read %s: %w", key, err)
			}
			all = append(all, a)
			return nil
		})
		return all, err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the index of active jobs: %w", err)
	}
	return all, nil
}
