package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	// inlineTargets is how many targets a record holds itself. More are stored once beside it, so that a change of
	// status does not write them again, in chunks that fit the bus's payload whatever the length of the IDs.
	inlineTargets = 500
	chunkTargets  = 4000

	targetsPrefix = "targets."
)

// headsOf returns the first target of each chunk.
func headsOf(j *Job) []target.PeelID {
	if len(j.Targets) < j.TargetCount {
		return j.heads
	}
	heads := make([]target.PeelID, 0, len(j.Targets)/chunkTargets+1)
	for chunk := range slices.Chunk(j.Targets, chunkTargets) {
		heads = append(heads, chunk[0])
	}
	return heads
}

// storeTargets stores the targets of a job that has many. A chunk with other targets under the key of one is replaced
// if its revision is at most replace; else the error is [ErrConflict].
func (s *Store) storeTargets(ctx context.Context, to jetstream.KeyValue, j *Job, replace uint64,
	o ...jetstream.KVCreateOpt,
) error {
	if j.TargetCount <= inlineTargets {
		return nil
	}
	n := 0
	for chunk := range slices.Chunk(j.Targets, chunkTargets) {
		key := targetsKey(j.JID, n)
		data, err := canon.Marshal(chunk)
		if err == nil {
			_, err = to.Create(ctx, key, data, o...)
		}
		if errors.Is(err, jetstream.ErrKeyExists) {
			err = replaceChunk(ctx, to, key, data, replace)
		}
		if err != nil {
			return fmt.Errorf("its targets: %w", err)
		}
		n++
	}
	return nil
}

// replaceChunk stores a chunk under a key that exists, if its revision is at most replace or it has the chunk already.
func replaceChunk(ctx context.Context, to jetstream.KeyValue, key string, data []byte, replace uint64) error {
	there, err := to.Get(ctx, key)
	switch {
	case err != nil:
		return err
	case bytes.Equal(there.Value(), data):
		return nil
	case there.Revision() > replace:
		return ErrConflict
	}
	_, err = to.Update(ctx, key, data, there.Revision())
	return err
}

// readChunk reads the targets that a chunk has. The error is [ErrIncomplete] if it is not there.
func (s *Store) readChunk(ctx context.Context, j *Job, n int) ([]target.PeelID, error) {
	from := s.jobs
	if j.Live {
		from = s.active
	}
	e, err := entry(ctx, from, targetsKey(j.JID, n))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, ErrIncomplete
	}
	var chunk []target.PeelID
	if err == nil {
		err = canon.Unmarshal(e.Value(), &chunk)
	}
	if err == nil && len(chunk) == 0 {
		err = ErrIncomplete
	}
	if err != nil {
		return nil, fmt.Errorf("its targets: %w", err)
	}
	return chunk, nil
}

func (s *Store) readTargets(ctx context.Context, j *Job) (all []target.PeelID, err error) {
	for n := 0; len(all) < j.TargetCount; n++ {
		chunk, err := s.readChunk(ctx, j, n)
		if err != nil {
			return nil, err
		}
		all = append(all, chunk...)
	}
	return all, nil
}

// enough is how many targets a page of rows may need: the one before it, its own, and the one after it.
const enough = rowsInPage + 2

// targetsFrom returns the targets that are not before id, enough of them at most, with the place of the first in the
// job. It reads only the chunks that hold them.
func (s *Store) targetsFrom(ctx context.Context, j *Job, id target.PeelID) (ids []target.PeelID, place int, err error) {
	if len(j.Targets) < j.TargetCount && j.heads == nil { // an old record does not say where its chunks begin
		if j.Targets, err = s.readTargets(ctx, j); err != nil {
			return nil, 0, err
		}
	}
	if len(j.Targets) == j.TargetCount {
		place, _ = slices.BinarySearch(j.Targets, id)
		return j.Targets[place:min(place+enough, len(j.Targets))], place, nil
	}
	n, found := slices.BinarySearch(j.heads, id)
	if !found {
		n = max(n-1, 0) // the chunk that begins before it
	}
	for first := n; n < len(j.heads) && len(ids) < enough; n++ {
		chunk, err := s.readChunk(ctx, j, n)
		if err != nil {
			return nil, 0, err
		}
		if n == first {
			i, _ := slices.BinarySearch(chunk, id)
			place, chunk = n*chunkTargets+i, chunk[i:]
		}
		ids = append(ids, chunk...)
	}
	return ids[:min(len(ids), enough)], place, nil
}

// targetsKey returns the key of a chunk. Its number may be a wildcard.
func targetsKey[T int | string](jid wire.JID, n T) string {
	return targetsPrefix + string(jid) + "." + fmt.Sprint(n)
}

// RemoveStrayTargets removes targets without a record, which a master has left that stopped between two writes. The
// targets of a job are stored after its record, so those of a job that is created meanwhile are newer.
func (s *Store) RemoveStrayTargets(ctx context.Context) (err error) {
	defer wrap(&err, "cannot remove targets without a job")
	info, err := s.live.Info(ctx, jetstream.WithSubjectFilter(activePrefix+targetsPrefix+"*.0"))
	if err != nil {
		return err
	}
	live, err := s.LiveIDs(ctx)
	if err != nil {
		return err
	}
	for subject := range info.State.Subjects {
		jid := wire.JID(strings.TrimSuffix(strings.TrimPrefix(subject, activePrefix+targetsPrefix), ".0"))
		if live[jid] {
			continue
		}
		if err := purge(ctx, s.live, activePrefix+targetsKey(jid, "*"), info.State.LastSeq); err != nil {
			return err
		}
	}
	return nil
}
