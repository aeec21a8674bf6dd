package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// Errors of the [Store], wrapped with the job's ID.
var (
	ErrNotFound = errors.New("no such job")
	ErrExists   = errors.New("the job exists")
	ErrConflict = errors.New("another master has changed the job")
	// ErrIncomplete: not all targets of a claim are stored. Its master was stopped before it stored them, or is storing
	// them. Such a claim cannot be dispatched by another master.
	ErrIncomplete = errors.New("the job has been claimed, but not all its targets are stored")
)

const (
	recordPrefix = "$KV." + wire.BucketJobs + "."   // of the subjects of records of ended jobs
	activePrefix = "$KV." + wire.BucketActive + "." // of the subjects of records of live jobs

	inFlight = 32 // reads of one page at a time
)

// wrap adds a text to the error of a function.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf(format+": %w", append(args, *err)...)
	}
}

// A Store keeps the records of live jobs in the bucket active, those of ended jobs in the bucket jobs, returns in the
// bucket job-returns and events in the stream job-events. It makes no decision on cached data. Its methods may be
// called from several goroutines.
type Store struct {
	active, jobs  jetstream.KeyValue
	live, returns jetstream.Stream // of the buckets active and job-returns
	history       jetstream.Stream // of the bucket jobs
	index         *Index
	js            jetstream.JetStream
}

// NewStore opens the buckets, which have to exist. A write that returned an error must not be sent later by itself:
// connect with nats.ReconnectBufSize(-1).
func NewStore(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	s := &Store{js: js}
	for name, open := range map[string]*jetstream.KeyValue{wire.BucketActive: &s.active, wire.BucketJobs: &s.jobs} {
		var err error
		if *open, err = js.KeyValue(ctx, name); err != nil {
			return nil, fmt.Errorf("cannot open the bucket %s: %w", name, err)
		}
	}
	for name, open := range map[string]*jetstream.Stream{
		wire.BucketActive: &s.live, wire.BucketJobReturns: &s.returns, wire.BucketJobs: &s.history,
	} {
		var err error
		if *open, err = js.Stream(ctx, wire.KV(name)); err != nil {
			return nil, fmt.Errorf("cannot open the stream of the bucket %s: %w", name, err)
		}
	}
	s.index = NewIndex(js, s.history, recordPrefix)
	return s, nil
}

// Create writes the record of a new live job and sets j.Revision. If the ID is taken, by a live job or by one that has
// ended, the error is [ErrExists]. After any other error the record may or may not be there, and may lack targets:
// [Store.Withdraw] removes it.
func (s *Store) Create(ctx context.Context, j *Job) (err error) {
	defer wrap(&err, "cannot create job %s", j.JID)
	// The record is written before the targets, so that one master alone writes these. An ended job is looked for last:
	// it is in the bucket jobs before it leaves the bucket active.
	data, err := encode(j)
	if err != nil {
		return err
	}
	revision, err := s.active.Create(ctx, string(j.JID), data)
	if err != nil {
		if revision, err = s.storedAnyway(ctx, j.JID, data, err); err != nil {
			return orElse(err, jetstream.ErrKeyExists, ErrExists)
		}
	}
	j.Revision, j.Live = revision, true
	if err := s.storeTargets(ctx, s.active, j, j.Revision); err != nil {
		return err
	}
	return s.Confirm(ctx, j)
}

// Confirm returns nil if no ended job has the ID of a claim that is stored. Else it withdraws the claim, and the error
// is [ErrExists]. A claim that this process did not create itself must be confirmed before it is dispatched, and before
// it is ended, because [Store.Archive] replaces the record of an ended job.
func (s *Store) Confirm(ctx context.Context, j *Job) error {
	switch _, err := entry(ctx, s.jobs, string(j.JID)); {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return nil
	case err != nil:
		return err
	}
	if err := s.withdraw(ctx, j); err != nil {
		return err
	}
	return ErrExists
}

// Update replaces the record of a live job that has j.Revision and sets the new revision. If there is a newer revision,
// the error is [ErrConflict]. The targets of a job never change.
func (s *Store) Update(ctx context.Context, j *Job) (err error) {
	defer wrap(&err, "cannot update job %s", j.JID)
	if !j.Live {
		return errors.New("it is not among the live jobs")
	}
	data, err := encode(j)
	if err != nil {
		return err
	}
	revision, err := s.active.Update(ctx, string(j.JID), data, j.Revision)
	if err != nil {
		if revision, err = s.storedAnyway(ctx, j.JID, data, err); err != nil {
			return orElse(err, jetstream.ErrKeyExists, ErrConflict)
		}
	}
	j.Revision = revision
	return nil
}

// storedAnyway returns the revision of a write that returned an error if the record is stored: the acknowledgement may
// have been lost, and a repeated write is then refused. Records hold the time and owner of their write, so no other
// master writes the same bytes. If the record is not stored, it returns the error.
func (s *Store) storedAnyway(ctx context.Context, jid wire.JID, data []byte, failed error) (uint64, error) {
	e, err := s.active.Get(ctx, string(jid))
	if err == nil && bytes.Equal(e.Value(), data) {
		return e.Revision(), nil
	}
	return 0, failed
}

// Archive copies the final record of a live job and its targets, which j must have, to the bucket jobs. It may be
// repeated, by any master. A record there stays if its epoch is not lower: it is the same record, or the record of a
// later job with the same ID, which may exist if this one was removed from the bucket by age or size. With a lifetime,
// what it adds goes when that ends; with 0, when the bucket removes it. Call [Store.Remove] next.
func (s *Store) Archive(ctx context.Context, j *Job, lifetime time.Duration) (err error) {
	defer wrap(&err, "cannot archive the ended job %s", j.JID)
	data, err := encode(j)
	if err != nil {
		return err
	}
	if err = s.storeTargets(ctx, s.jobs, j, 0, jetstream.KeyTTL(lifetime)); err == nil {
		_, err = s.jobs.Create(ctx, string(j.JID), data, jetstream.KeyTTL(lifetime))
	}
	if !errors.Is(err, ErrConflict) && !errors.Is(err, jetstream.ErrKeyExists) {
		return err
	}
	var revision uint64
	switch e, err := entry(ctx, s.jobs, string(j.JID)); {
	case err == nil:
		if there, err := decode(j.JID, e.Value()); err == nil && there.Epoch >= j.Epoch {
			return nil
		}
		revision = e.Revision()
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return err
	}
	if err = s.storeTargets(ctx, s.jobs, j, math.MaxUint64); err == nil {
		_, err = s.jobs.Update(ctx, string(j.JID), data, revision)
	}
	return err
}

// Remove takes the final record of a job and its targets out of the bucket active. A claim that was made under the same
// ID since j was read stays.
func (s *Store) Remove(ctx context.Context, j *Job) (err error) {
	defer wrap(&err, "cannot remove job %s from the live jobs", j.JID)
	err = purge(ctx, s.live, activePrefix+string(j.JID), j.Revision)
	if err == nil && j.TargetCount > inlineTargets {
		err = purge(ctx, s.live, activePrefix+targetsKey(j.JID, "*"), j.Revision)
	}
	return err
}

// purge removes the messages of a subject up to a sequence. What is stored later stays.
func purge(ctx context.Context, stream jetstream.Stream, subject string, upTo uint64) error {
	return stream.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(upTo+1))
}

func orElse(err, is, known error) error {
	if errors.Is(err, is) {
		return known
	}
	return err
}

// Get reads a record with all its targets. If there is no record the error is [ErrNotFound]. With [ErrIncomplete] it
// returns the record without its targets.
func (s *Store) Get(ctx context.Context, jid wire.JID) (j *Job, err error) {
	defer wrap(&err, "cannot read job %s", jid)
	if j, err = s.get(ctx, jid); err != nil {
		return nil, err
	}
	err = s.withTargets(ctx, j, func(found *Job) (err error) {
		if j = found; len(j.Targets) < j.TargetCount {
			j.Targets, err = s.readTargets(ctx, j)
		}
		return err
	})
	return j, err
}

// GetRecord reads a record as it is stored: more than 500 targets are not in it.
func (s *Store) GetRecord(ctx context.Context, jid wire.JID) (j *Job, err error) {
	defer wrap(&err, "cannot read job %s", jid)
	return s.get(ctx, jid)
}

// withTargets calls read with a record, to read the targets that are stored beside it. It does so once more if targets
// are missing beside the record of a live job: the job may have ended meanwhile, and then record and targets are in the
// bucket jobs.
func (s *Store) withTargets(ctx context.Context, j *Job, read func(*Job) error) error {
	err := read(j)
	if !errors.Is(err, ErrIncomplete) || !j.Live {
		return err
	}
	again, err := s.get(ctx, j.JID)
	if err != nil {
		return err
	}
	return read(again)
}

// get looks for a record among the live jobs, then among the ended ones. In this order none is missed, because a job
// that ends is in the second bucket before it leaves the first.
func (s *Store) get(ctx context.Context, jid wire.JID) (*Job, error) {
	if _, err := wire.ParseJID(string(jid)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	j, err := s.getFrom(ctx, s.active, jid)
	if errors.Is(err, ErrNotFound) {
		return s.getFrom(ctx, s.jobs, jid)
	}
	return j, err
}

func (s *Store) getFrom(ctx context.Context, from jetstream.KeyValue, jid wire.JID) (*Job, error) {
	e, err := entry(ctx, from, string(jid))
	if err != nil {
		return nil, orElse(err, jetstream.ErrKeyNotFound, ErrNotFound)
	}
	j, err := decode(jid, e.Value())
	if err != nil {
		return nil, err
	}
	j.Live, j.Revision, j.Written = from == s.active, e.Revision(), e.Created()
	return j, nil
}

func entry(ctx context.Context, from jetstream.KeyValue, key string) (jetstream.KeyValueEntry, error) {
	return retryTransient(ctx, func() (jetstream.KeyValueEntry, error) { return from.Get(ctx, key) })
}

// encode omits targets that are stored beside the record.
func encode(j *Job) ([]byte, error) {
	stored := *j
	if j.TargetCount > inlineTargets {
		stored.Targets = nil
		stored.TargetHeads = headsOf(j)
	}
	return canon.Marshal(&stored)
}

func decode(jid wire.JID, data []byte) (*Job, error) {
	j := new(Job)
	if err := canon.Unmarshal(data, j); err != nil {
		return nil, fmt.Errorf("the record cannot be decoded: %w", err)
	}
	if j.JID != jid {
		return nil, fmt.Errorf("the record cannot be decoded: it is of job %q", j.JID)
	}
	j.heads, j.TargetHeads = j.TargetHeads, nil
	if j.Deadline.IsZero() && !j.Scheduled() {
		j.Deadline = j.Created.Add(j.Timeout)
	}
	return j, nil
}

// ListLive reads the records in the bucket active, without arguments and targets: of the jobs that have not ended, and
// of those that have and are about to be removed from the bucket. A record that cannot be decoded is left out, and
// unreadable has an error with its key.
func (s *Store) ListLive(ctx context.Context) (live []Job, unreadable []error, err error) {
	defer wrap(&err, "cannot read the live jobs")
	_, err = retryTransient(ctx, func() (struct{}, error) {
		live, unreadable = nil, nil
		return struct{}{}, bucket.Read(ctx, s.js, wire.BucketActive, "*", func(key string, value []byte) error {
			if j, err := decode(wire.JID(key), value); err != nil {
				unreadable = append(unreadable,
					fmt.Errorf("cannot read the record %s of the bucket %s: %w", key, wire.BucketActive, err))
			} else {
				live = append(live, j.Summary())
			}
			return nil
		})
	})
	return live, unreadable, err
}

// LiveIDs returns the IDs of the jobs in the bucket active, and of claims that were withdrawn within the last hour. It
// reads keys alone, so it has the job of a record that cannot be decoded.
func (s *Store) LiveIDs(ctx context.Context) (map[wire.JID]bool, error) {
	stored, err := subjects(ctx, s.live, activePrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("cannot read the IDs of the live jobs: %w", err)
	}
	ids := make(map[wire.JID]bool, len(stored))
	for subject := range stored {
		ids[wire.JID(subject[len(activePrefix):])] = true
	}
	return ids, nil
}

// subjects returns the subjects of a stream that match a filter, with the number of messages of each.
func subjects(ctx context.Context, stream jetstream.Stream, filter string) (map[string]uint64, error) {
	info, err := retryTransient(ctx, func() (*jetstream.StreamInfo, error) {
		return stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	})
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}
