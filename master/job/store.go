package job

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// What the store's errors are about; they are wrapped with the job's ID.
var (
	ErrNotFound = errors.New("no such job")
	ErrExists   = errors.New("the job exists")
	ErrConflict = errors.New("somebody else has changed the job")
)

const (
	jobsBucket    = "jobs"
	returnsBucket = "job-returns"
	returnsStream = "KV_" + returnsBucket
	eventsStream  = "job-events"
	recordPrefix  = "$KV." + jobsBucket + "." // of the subjects of records
	activePrefix  = "active."
	targetsPrefix = "targets."

	// inlineTargets is how many targets a record holds itself. More are stored once beside it, so that a change of
	// status does not write them again, in chunks that fit the bus's payload whatever the length of the IDs.
	inlineTargets = 500
	chunkTargets  = 4000

	// briefly is how long a job may take whose targets are not stored again at its end.
	briefly = time.Minute

	// indexMarker is how long the mark of a removed index key stays.
	indexMarker = time.Minute

	inFlight = 32 // reads of one page at a time
)

// A Store keeps records in the bucket jobs, returns in the bucket job-returns and what happened in the stream job-events. It decides nothing on
// what it remembers, and its methods may be called from several goroutines.
type Store struct {
	jobs, returns jetstream.KeyValue
	events        jetstream.Stream
	index         index
	js            jetstream.JetStream
}

// NewStore opens the buckets, which have to exist. A write that returned an error must not be sent later by itself:
// connect with nats.ReconnectBufSize(-1).
func NewStore(ctx context.Context, js jetstream.JetStream) (*Store, error) {
	jobs, err := js.KeyValue(ctx, jobsBucket)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", jobsBucket, err)
	}
	returns, err := js.KeyValue(ctx, returnsBucket)
	if err != nil {
		return nil, fmt.Errorf("cannot open the bucket %s: %w", returnsBucket, err)
	}
	stream, err := js.Stream(ctx, "KV_"+jobsBucket)
	if err != nil {
		return nil, fmt.Errorf("cannot open the stream of the bucket %s: %w", jobsBucket, err)
	}
	events, err := js.Stream(ctx, eventsStream)
	if err != nil {
		return nil, fmt.Errorf("cannot open the stream %s: %w", eventsStream, err)
	}
	return &Store{jobs: jobs, returns: returns, events: events, js: js, index: index{js: js, stream: stream}}, nil
}

// Create writes a new record and sets j.Revision. If the ID is taken the error is [ErrExists]. After any other error
// the record may or may not be there.
func (s *Store) Create(ctx context.Context, j *Job) error {
	if err := s.create(ctx, j); err != nil {
		return fmt.Errorf("cannot create job %s: %w", j.JID, err)
	}
	return nil
}

func (s *Store) create(ctx context.Context, j *Job) error {
	if err := s.createTargets(ctx, j); err != nil {
		return err
	}
	data, err := encode(j)
	if err != nil {
		return err
	}
	revision, err := s.jobs.Create(ctx, string(j.JID), data)
	if err != nil {
		if revision, err = s.settle(ctx, j.JID, data, err); err != nil {
			return orElse(err, jetstream.ErrKeyExists, ErrExists)
		}
	}
	j.Revision = revision
	return nil
}

// Update replaces the record that has j.Revision and sets the new revision. If that is not the newest any more the
// error is [ErrConflict]. The targets of a job never change.
func (s *Store) Update(ctx context.Context, j *Job) error {
	err := s.renewTargets(ctx, j)
	if err != nil {
		return fmt.Errorf("cannot update job %s: %w", j.JID, err)
	}
	data, err := encode(j)
	if err != nil {
		return fmt.Errorf("cannot update job %s: %w", j.JID, err)
	}
	revision, err := s.jobs.Update(ctx, string(j.JID), data, j.Revision)
	if err != nil {
		if revision, err = s.settle(ctx, j.JID, data, err); err != nil {
			return fmt.Errorf("cannot update job %s: %w", j.JID, orElse(err, jetstream.ErrKeyExists, ErrConflict))
		}
	}
	j.Revision = revision
	return nil
}

// settle finds out what became of a write that returned an error: it may have been stored and only its
// acknowledgement lost, and a repeated one is then refused. Records hold the time and owner of their write, so
// nobody else writes the same bytes.
func (s *Store) settle(ctx context.Context, jid wire.JID, data []byte, failed error) (uint64, error) {
	entry, err := s.jobs.Get(ctx, string(jid))
	if err == nil && bytes.Equal(entry.Value(), data) {
		return entry.Revision(), nil
	}
	return 0, failed
}

func orElse(err, is, known error) error {
	if errors.Is(err, is) {
		return known
	}
	return err
}

// Get reads a record with all its targets. If there is none the error is [ErrNotFound].
func (s *Store) Get(ctx context.Context, jid wire.JID) (*Job, error) {
	j, err := s.get(ctx, jid)
	if err == nil && len(j.Targets) < j.TargetCount {
		j.Targets, err = s.readTargets(ctx, j)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read job %s: %w", jid, err)
	}
	return j, nil
}

// get reads a record as it is stored: many targets are not in it.
func (s *Store) get(ctx context.Context, jid wire.JID) (*Job, error) {
	if _, err := wire.ParseJID(string(jid)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	entry, err := s.entry(ctx, string(jid))
	if err != nil {
		return nil, orElse(err, jetstream.ErrKeyNotFound, ErrNotFound)
	}
	j := new(Job)
	if err := canon.Unmarshal(entry.Value(), j); err != nil {
		return nil, err
	}
	if j.JID != jid {
		return nil, fmt.Errorf("the record is of job %q", j.JID)
	}
	j.Revision, j.Written = entry.Revision(), entry.Created()
	if j.Deadline.IsZero() && !j.Scheduled() {
		j.Deadline = j.Created.Add(j.Timeout)
	}
	return j, nil
}

func (s *Store) entry(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	return patiently(ctx, func() (jetstream.KeyValueEntry, error) { return s.jobs.Get(ctx, key) })
}

func encode(j *Job) ([]byte, error) {
	if j.TargetCount > inlineTargets {
		stored := *j
		stored.Targets = nil
		j = &stored
	}
	return canon.Marshal(j)
}

// createTargets stores the targets of a job that has many. They are there before the record is, so that a record is
// never without them.
func (s *Store) createTargets(ctx context.Context, j *Job) error {
	if j.TargetCount <= inlineTargets {
		return nil
	}
	n := 0
	for chunk := range slices.Chunk(j.Targets, chunkTargets) {
		data, err := canon.Marshal(chunk)
		if err != nil {
			return err
		}
		key := targetsKey(j.JID, n)
		if _, err := s.jobs.Create(ctx, key, data); errors.Is(err, jetstream.ErrKeyExists) {
			entry, err := s.jobs.Get(ctx, key)
			if err != nil {
				return err
			}
			if !bytes.Equal(entry.Value(), data) {
				return ErrExists // of another job under the same ID
			}
		} else if err != nil {
			return err
		}
		n++
	}
	return nil
}

// renewTargets stores the targets of a job that has ended once more if it took long, so that they are kept as long as
// its record, which is counted from its last write.
func (s *Store) renewTargets(ctx context.Context, j *Job) error {
	if !j.Status.Final() || j.TargetCount <= inlineTargets || j.Updated.Sub(j.Created) < briefly {
		return nil
	}
	n := 0
	for chunk := range slices.Chunk(j.Targets, chunkTargets) {
		data, err := canon.Marshal(chunk)
		if err == nil {
			_, err = s.jobs.Put(ctx, targetsKey(j.JID, n), data)
		}
		if err != nil {
			return err
		}
		n++
	}
	return nil
}

func (s *Store) readTargets(ctx context.Context, j *Job) ([]target.PeelID, error) {
	var all []target.PeelID
	for n := 0; len(all) < j.TargetCount; n++ {
		entry, err := s.entry(ctx, targetsKey(j.JID, n))
		if err != nil {
			return nil, fmt.Errorf("its targets: %w", err)
		}
		var chunk []target.PeelID
		if err := canon.Unmarshal(entry.Value(), &chunk); err != nil {
			return nil, fmt.Errorf("its targets: %w", err)
		}
		if len(chunk) == 0 {
			return nil, fmt.Errorf("its targets: %d of %d are stored", len(all), j.TargetCount)
		}
		all = append(all, chunk...)
	}
	return all, nil
}

func targetsKey(jid wire.JID, n int) string {
	return targetsPrefix + string(jid) + "." + strconv.Itoa(n)
}
