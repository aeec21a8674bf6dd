package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// oldIndex begins the keys of live jobs in the bucket jobs, as masters wrote them that kept live and ended jobs together.
const oldIndex = "active."

// Convert moves the live jobs that earlier versions left in the bucket jobs to the bucket active, and removes targets from
// there that have no record. Returns of these jobs that are in the stream job-events alone are copied to the bucket
// job-returns. Call it before jobs are dispatched or taken over, when no master of an earlier version runs and the streams
// have the subjects of this version. Nothing is removed before its copy is stored, so Convert may be repeated after a stop
// at any point, and several masters may call it at once.
//
// A job whose record cannot be decoded is not moved, and skipped has an error with its ID. The next call tries again.
//
// Known gap: where the bucket job-returns is full, a return is not copied, and its target counts as missing. An error
// would keep the master from starting, and masters that run make room.
func (s *Store) Convert(ctx context.Context) (skipped []error, err error) {
	defer wrap(&err, "cannot convert the jobs of an earlier version")
	info, err := s.history.Info(ctx)
	if err != nil {
		return nil, err
	}
	var jids []wire.JID
	err = bucket.Read(ctx, s.js, wire.BucketJobs, oldIndex+"*", func(key string, _ []byte) error {
		jids = append(jids, wire.JID(strings.TrimPrefix(key, oldIndex)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, jid := range jids {
		switch err := s.convert(ctx, jid, info.State.LastSeq); {
		case errors.Is(err, errUndecodable):
			skipped = append(skipped, fmt.Errorf("cannot move job %s to the live jobs: %w", jid, err))
		case err != nil:
			return skipped, fmt.Errorf("cannot move job %s to the live jobs: %w", jid, err)
		}
	}
	return skipped, s.removeStrayTargets(ctx)
}

// convert moves a job of the old index, or ends it, and removes it from the index last. After each step it
// reads the record again, because another master may have moved it. At the sequence upTo of the bucket jobs the job was in the index, so
// targets up to there are not those of its end.
func (s *Store) convert(ctx context.Context, jid wire.JID, upTo uint64) error {
	old, err := s.getFrom(ctx, s.jobs, jid)
	switch {
	case errors.Is(err, ErrNotFound): // the record was moved, or never written
		err = purge(ctx, s.history, recordPrefix+targetsKey(jid, "*"), upTo)
	case err != nil:
	case old.Status.Final():
		err = s.Record(ctx, wire.StatusOf(jid), "status", old)
	default:
		if err = s.move(ctx, old); errors.Is(err, ErrIncomplete) {
			err = s.endLost(ctx, old)
		}
		if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, jetstream.ErrKeyExists) {
			return s.convert(ctx, jid, upTo)
		}
	}
	if err != nil {
		return err
	}
	return s.history.Purge(ctx, jetstream.WithPurgeSubject(recordPrefix+oldIndex+string(jid)))
}

// move copies a record, its targets and its returns, and then removes the record from the bucket jobs.
func (s *Store) move(ctx context.Context, old *Job) (err error) {
	j := *old
	if len(j.Targets) < j.TargetCount {
		if j.Targets, err = s.readTargets(ctx, old); err != nil {
			return err
		}
	}
	if err := s.copyReturns(ctx, &j); err != nil {
		return err
	}
	// Revisions of the bucket active are lower, and an epoch never falls.
	j.Epoch = max(old.Epoch, old.Revision)
	data, err := encode(&j)
	if err != nil {
		return err
	}
	j.Revision, err = s.active.Create(ctx, string(j.JID), data)
	exists := errors.Is(err, jetstream.ErrKeyExists)
	if exists { // the copy of another master, or of an earlier start
		var there *Job
		if there, err = s.getFrom(ctx, s.active, j.JID); err == nil {
			j.Revision = there.Revision
		}
	}
	if err == nil {
		err = s.storeTargets(ctx, s.active, &j, j.Revision)
	}
	if err != nil {
		return err
	}
	// While this master was about to copy the record, another one may have moved the job and run it to its end.
	switch now, err := s.getFrom(ctx, s.jobs, j.JID); {
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	case err == nil && now.Revision != old.Revision && !exists:
		return s.withdraw(ctx, &j)
	}
	return purge(ctx, s.history, recordPrefix+string(j.JID), old.Revision)
}

// copyReturns creates in the bucket job-returns the first returns of targets that the stream job-events alone has. They
// stay in that stream until they are a week old.
func (s *Store) copyReturns(ctx context.Context, j *Job) error {
	published, err := subjects(ctx, s.events, wire.ReturnOf(j.JID, "*"))
	if err != nil || len(published) == 0 {
		return err
	}
	stored, err := subjects(ctx, s.returns, returnPrefix+string(j.JID)+".*")
	if err != nil {
		return err
	}
	for _, id := range j.Targets {
		subject := wire.ReturnOf(j.JID, id.Wire())
		if published[subject] == 0 || stored[returnSubject(j.JID, id)] > 0 {
			continue
		}
		first, err := s.events.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) { // it has become a week old
			continue
		}
		if err == nil {
			_, err = retryTransient(ctx, func() (*jetstream.PubAck, error) { return s.js.PublishMsg(ctx, ReturnMessage(j.JID, id, first.Data)) })
		}
		if api, ok := errors.AsType[*jetstream.APIError](err); err != nil && !(ok && slices.Contains(notTaken, api.ErrorCode)) {
			return fmt.Errorf("cannot copy the return of %s: %w", id, err)
		}
	}
	return nil
}

// notTaken are the refusals of a return for which the conversion goes on: there is an earlier return, the return is larger
// than one may be, or the bucket is full.
var notTaken = []jetstream.ErrorCode{jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamMessageExceedsMaximum, storeFailed}

const storeFailed jetstream.ErrorCode = 10077 // the stream is full

// endLost ends a job whose targets were pushed out of the bucket jobs, so that no master can continue it.
func (s *Store) endLost(ctx context.Context, j *Job) error {
	reason := fmt.Sprintf("its list of %d targets was lost: the bucket jobs had no room for it", j.TargetCount)
	j.TargetCount = 0
	j.Finish(End{Reason: reason}, time.Now())
	data, err := encode(j)
	if err == nil {
		_, err = s.jobs.Update(ctx, string(j.JID), data, j.Revision)
	}
	return err
}

// removeStrayTargets removes targets without a record, which a master has left that stopped between two writes. The
// targets of a job are stored after its record, so those of a job that is created meanwhile are newer.
func (s *Store) removeStrayTargets(ctx context.Context) error {
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
