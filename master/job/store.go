package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// What the store's errors are about; they are wrapped with the job's ID.
var (
	ErrNotFound = errors.New("no such job")
	ErrExists   = errors.New("the job exists")
	ErrConflict = errors.New("somebody else has changed the job")
	// ErrIncomplete is the error of a claim whose targets are not all stored: its master was stopped before, or is about to
	// store them. Such a claim cannot be dispatched by another master.
	ErrIncomplete = errors.New("the job has been claimed, but not all its targets are stored")
)

var errUndecodable = errors.New("the record cannot be decoded")

const (
	activeBucket  = "active"
	jobsBucket    = "jobs"
	returnsBucket = "job-returns"
	returnsStream = "KV_" + returnsBucket
	eventsStream  = "job-events"
	recordPrefix  = "$KV." + jobsBucket + "."   // of the subjects of records of ended jobs
	activePrefix  = "$KV." + activeBucket + "." // of the subjects of records of live jobs

	inFlight = 32 // reads of one page at a time
)

// A Store keeps the records of live jobs in the bucket active, those of ended jobs in the bucket jobs, returns in the
// bucket job-returns and what happened in the stream job-events. It decides nothing on what it remembers, and its methods
// may be called from several goroutines.
type Store struct {
	active, jobs  jetstream.KeyValue
	live, returns jetstream.Stream // of the buckets active and job-returns
	events        jetstream.Stream
	index         index
	js            jetstream.JetStream
}

// NewStore opens the buckets, which have to exist. A write that returned an error must not be sent later by itself:
// connect with nats.ReconnectBufSize(-1).
func NewStore(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	s := &Store{js: js, index: index{js: js}}
	for name, open := range map[string]*jetstream.KeyValue{activeBucket: &s.active, jobsBucket: &s.jobs} {
		var err error
		if *open, err = js.KeyValue(ctx, name); err != nil {
			return nil, fmt.Errorf("cannot open the bucket %s: %w", name, err)
		}
	}
	for name, open := range map[string]*jetstream.Stream{"KV_" + activeBucket: &s.live, returnsStream: &s.returns, "KV_" + jobsBucket: &s.index.stream, eventsStream: &s.events} {
		var err error
		if *open, err = js.Stream(ctx, name); err != nil {
			return nil, fmt.Errorf("cannot open the stream %s: %w", name, err)
		}
	}
	return s, nil
}

// Create writes the record of a new live job and sets j.Revision. If the ID is taken, by a live job or by one that has
// ended, the error is [ErrExists]. After any other error the record may or may not be there, and may lack targets:
// [Store.Withdraw] removes it.
func (s *Store) Create(ctx context.Context, j *Job) error {
	if err := s.create(ctx, j); err != nil {
		return fmt.Errorf("cannot create job %s: %w", j.JID, err)
	}
	return nil
}

// create writes the record and then the targets, so that one master alone writes these. It looks for an ended job last:
// such a job is in the bucket jobs before it leaves the bucket active.
func (s *Store) create(ctx context.Context, j *Job) error {
	data, err := encode(j)
	if err != nil {
		return err
	}
	revision, err := s.active.Create(ctx, string(j.JID), data)
	if err != nil {
		if revision, err = s.settle(ctx, j.JID, data, err); err != nil {
			return orElse(err, jetstream.ErrKeyExists, ErrExists)
		}
	}
	j.Revision, j.Live = revision, true
	if err := s.storeTargets(ctx, s.active, j, j.Revision); err != nil {
		return err
	}
	return s.Confirm(ctx, j)
}

// Confirm returns nil if no ended job has the ID of a claim that is stored. Else it withdraws the claim, and the error is
// [ErrExists]. A claim that this process did not create itself must be confirmed before it is dispatched, and before it is
// ended, because [Store.Archive] replaces the record of an ended job.
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

// Update replaces the record of a live job that has j.Revision and sets the new revision. If that is not the newest any
// more the error is [ErrConflict]. The targets of a job never change.
func (s *Store) Update(ctx context.Context, j *Job) error {
	if err := s.update(ctx, j); err != nil {
		return fmt.Errorf("cannot update job %s: %w", j.JID, err)
	}
	return nil
}

func (s *Store) update(ctx context.Context, j *Job) error {
	if !j.Live {
		return errors.New("it is not among the live jobs")
	}
	data, err := encode(j)
	if err != nil {
		return err
	}
	revision, err := s.active.Update(ctx, string(j.JID), data, j.Revision)
	if err != nil {
		if revision, err = s.settle(ctx, j.JID, data, err); err != nil {
			return orElse(err, jetstream.ErrKeyExists, ErrConflict)
		}
	}
	j.Revision = revision
	return nil
}

// settle finds out what became of a write that returned an error: it may have been stored and only its
// acknowledgement lost, and a repeated one is then refused. Records hold the time and owner of their write, so
// nobody else writes the same bytes.
func (s *Store) settle(ctx context.Context, jid wire.JID, data []byte, failed error) (uint64, error) {
	e, err := s.active.Get(ctx, string(jid))
	if err == nil && bytes.Equal(e.Value(), data) {
		return e.Revision(), nil
	}
	return 0, failed
}

// Archive copies the final record of a live job and its targets, which j must have, to the bucket jobs. It may be repeated,
// by any master. A record there stays if its epoch is not lower: it is this end, or that of a later job with the same ID,
// which may exist when this end was removed from the bucket by age or size. [Store.Remove] follows.
func (s *Store) Archive(ctx context.Context, j *Job) error {
	if err := s.archive(ctx, j); err != nil {
		return fmt.Errorf("cannot archive the ended job %s: %w", j.JID, err)
	}
	return nil
}

func (s *Store) archive(ctx context.Context, j *Job) error {
	data, err := encode(j)
	if err != nil {
		return err
	}
	if err = s.storeTargets(ctx, s.jobs, j, 0); err == nil {
		_, err = s.jobs.Create(ctx, string(j.JID), data)
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

// Remove takes the final record of a job and its targets out of the bucket active. A claim that was made under the same ID
// since j was read stays.
func (s *Store) Remove(ctx context.Context, j *Job) error {
	err := purge(ctx, s.live, activePrefix+string(j.JID), j.Revision)
	if err == nil && j.TargetCount > inlineTargets {
		err = purge(ctx, s.live, activePrefix+targetsKey(j.JID, "*"), j.Revision)
	}
	if err != nil {
		return fmt.Errorf("cannot remove job %s from the live jobs: %w", j.JID, err)
	}
	return nil
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

// Get reads a record with all its targets. If there is none the error is [ErrNotFound].
func (s *Store) Get(ctx context.Context, jid wire.JID) (*Job, error) {
	var j *Job
	err := s.read(ctx, jid, func(found *Job) (err error) {
		if j = found; len(j.Targets) < j.TargetCount {
			j.Targets, err = s.readTargets(ctx, j)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return j, nil
}

// GetRecord reads a record as it is stored: more than 500 targets are not in it.
func (s *Store) GetRecord(ctx context.Context, jid wire.JID) (j *Job, err error) {
	err = s.read(ctx, jid, func(found *Job) error { j = found; return nil })
	return j, err
}

// read finds the record of a job and calls use with it, which may read the targets that are stored beside it.
func (s *Store) read(ctx context.Context, jid wire.JID, use func(*Job) error) error {
	j, err := s.get(ctx, jid)
	if err == nil {
		err = s.withTargets(ctx, j, use)
	}
	if err != nil {
		return fmt.Errorf("cannot read job %s: %w", jid, err)
	}
	return nil
}

// withTargets calls use with a record, and once more if targets are missing beside the record of a live job: it may have
// ended since it was read, and both are in the bucket jobs then.
func (s *Store) withTargets(ctx context.Context, j *Job, use func(*Job) error) error {
	err := use(j)
	if !errors.Is(err, ErrIncomplete) || !j.Live {
		return err
	}
	again, err := s.get(ctx, j.JID)
	if err != nil {
		return err
	}
	return use(again)
}

// get looks for a record among the live jobs, then among the ended ones. In this order none is missed, because a job that
// ends is in the second bucket before it leaves the first.
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
	return patiently(ctx, func() (jetstream.KeyValueEntry, error) { return from.Get(ctx, key) })
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
		return nil, fmt.Errorf("%w: %w", errUndecodable, err)
	}
	if j.JID != jid {
		return nil, fmt.Errorf("%w: it is of job %q", errUndecodable, j.JID)
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
	_, err = patiently(ctx, func() (struct{}, error) {
		live, unreadable = nil, nil
		return struct{}{}, bucket.Read(ctx, s.js, activeBucket, "*", func(key string, value []byte) error {
			if j, err := decode(wire.JID(key), value); err != nil {
				unreadable = append(unreadable, fmt.Errorf("cannot read the record %s of the bucket %s: %w", key, activeBucket, err))
			} else {
				live = append(live, j.Summary())
			}
			return nil
		})
	})
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read the live jobs: %w", err)
	}
	return live, unreadable, nil
}

// LiveIDs returns the IDs of the jobs in the bucket active, and of claims that were withdrawn within the last hour. It reads
// keys alone, so it has the job of a record that cannot be decoded.
func (s *Store) LiveIDs(ctx context.Context) (map[wire.JID]bool, error) {
	info, err := patiently(ctx, func() (*jetstream.StreamInfo, error) {
		return s.live.Info(ctx, jetstream.WithSubjectFilter(activePrefix+"*"))
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the IDs of the live jobs: %w", err)
	}
	ids := make(map[wire.JID]bool, len(info.State.Subjects))
	for subject := range info.State.Subjects {
		ids[wire.JID(subject[len(activePrefix):])] = true
	}
	return ids, nil
}
