package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

// enterPause is between two tries to take a name.
const enterPause = time.Second

// ErrNameTaken is the error of a master whose name belongs to another running process.
var ErrNameTaken = errors.New("another running master has this name")

// OwnerOf returns the owner that one run of a master records on its jobs: the master's name and an ID of the run.
func OwnerOf(name, run string) string { return name + "/" + run }

// nameOf returns the name of the master that an owner is a run of.
func nameOf(owner string) string {
	name, _, _ := strings.Cut(owner, "/")
	return name
}

// A heartbeat is the value of a master's key in the bucket masters. The key is the master's name.
type heartbeat struct {
	Owner string    `json:"owner"` // the run that has the name
	Time  time.Time `json:"time"`  // by the clock of the master
}

// A beat is a stored heartbeat.
type beat struct {
	heartbeat
	revision uint64
	created  time.Time // by the clock of the bus
}

// Enter takes the master's name, so that no other run has it while this one lives. Call it before Run, and before the
// dispatcher runs. A name that the previous run on the same data directory left is taken at once. A name whose holder is
// unknown is taken when its heartbeat has ended, within 15 s; if that holder renews it, the error is [ErrNameTaken].
func (s *Scanner) Enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, enterLimit)
	defer cancel()
	var err error
	if s.beats, err = s.js.KeyValue(ctx, beatsBucket); err != nil {
		return fmt.Errorf("cannot take the name %s: %w", s.name, err)
	}
	var seen uint64 // the first heartbeat of another run
	for {
		found, err := s.hold(ctx)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrNameTaken):
			s.d.log.Warn("name not taken yet", "err", err)
		case seen == 0:
			seen = found.revision
		case found.revision != seen:
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(enterPause):
		}
	}
}

// hold writes the heartbeat if no other run has the name. With [ErrNameTaken] it returns the other's heartbeat.
func (s *Scanner) hold(ctx context.Context) (*beat, error) {
	ctx, cancel := context.WithTimeout(ctx, beatLimit)
	defer cancel()
	data, err := canon.Marshal(heartbeat{s.d.o.Owner, time.Now()})
	if err != nil {
		return nil, err
	}
	found, err := s.read(ctx, s.name)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		_, err = s.beats.Create(ctx, s.name, data)
	case found.Owner == s.d.o.Owner || found.Owner == s.earlier:
		_, err = s.beats.Update(ctx, s.name, data, found.revision)
	default:
		return found, fmt.Errorf("cannot run as master %q: %w, its last heartbeat is of %s; give each master a name and a credential of its own",
			s.name, ErrNameTaken, found.created.Format(time.RFC3339))
	}
	if err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", s.name, err)
	}
	return nil, nil
}

// read returns the heartbeat under a name, nil if there is none.
func (s *Scanner) read(ctx context.Context, name string) (*beat, error) {
	entry, err := s.beats.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	b := &beat{}
	if err == nil {
		err = canon.Unmarshal(entry.Value(), &b.heartbeat)
	}
	if err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", name, err)
	}
	b.revision, b.created = entry.Revision(), entry.Created()
	return b, nil
}

// lives reports whether a run of a master has its name.
func (s *Scanner) lives(ctx context.Context, owner string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, beatLimit)
	defer cancel()
	b, err := s.read(ctx, nameOf(owner))
	if err != nil || b == nil || b.Owner != owner {
		return false, err
	}
	if owner == s.d.o.Owner {
		s.ahead = b.Time.Sub(b.created)
	}
	return true, nil
}
