package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// oldIndex are the keys of live jobs in the bucket jobs, as masters wrote them that kept live and ended jobs together.
const oldIndex = "active."

// Convert moves the live jobs that earlier versions left in the bucket jobs to the bucket active, and removes targets from
// there that have no record. Returns of these jobs that are in the stream job-events alone are copied to the bucket
// job-returns. Call it before jobs are dispatched or taken over, when no master of an earlier version runs and the streams
// have the subjects of this version. Nothing is removed before its copy is stored, so Convert may be repeated after a stop
// at any point, and several masters may call it at once.
//
// A job whose record cannot be decoded is left where it is, and skipped has an error with its ID. The next call tries again.
//
// Known gap: where the bucket job-returns is full, a return is not copied, and its target counts as missing. An error
// would keep the master from starting, and masters that run make room.
func (s *Store) Convert(ctx context.Context) (skipped []error, err error) {
	var jids []wire.JID
	err = bucket.Read(ctx, s.js, jobsBucket, oldIndex+"*", func(key string, _ []byte) error {
		jids = append(jids, wire.JID(strings.TrimPrefix(key, oldIndex)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the live jobs of an earlier version: %w", err)
	}
	for _, jid := range jids {
		if err := s.convert(ctx, jid); err != nil {
			err = fmt.Errorf("cannot move job %s to the live jobs: %w", jid, err)
			if !errors.Is(err, errUndecodable) {
				return skipped, err
			}
			skipped = append(skipped, err)
		}
	}
	if err := s.removeStrayTargets(ctx); err != nil {
		return skipped, fmt.Errorf("cannot remove the targets of jobs that are gone: %w", err)
	}
	return skipped, nil
}

// convert moves a job of the old index, or tells its end, and removes it from the index last.
func (s *Store) convert(ctx context.Context, jid wire.JID) error {
	j, err := s.getFrom(ctx, s.jobs, jid)
	switch {
	case errors.Is(err, ErrNotFound): // it has been moved, or its record was never written
	case err != nil:
		return err
	case j.Status.Final():
		err = s.Record(ctx, wire.StatusOf(jid), "status", j)
	default:
		if err = s.move(ctx, j); errors.Is(err, ErrIncomplete) {
			err = s.endLost(ctx, j)
		}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return s.index.stream.Purge(ctx, jetstream.WithPurgeSubject(recordPrefix+oldIndex+string(jid)))
}

// move copies a record and its targets to the live jobs and then removes them from the bucket jobs, up to the revision
// that was copied, the record last.
func (s *Store) move(ctx context.Context, old *Job) error {
	j := *old
	if len(j.Targets) < j.TargetCount {
		var err error
		if j.Targets, err = s.oldTargets(ctx, old); err != nil {
			return s.moved(ctx, old, err)
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
	created := err == nil
	if errors.Is(err, jetstream.ErrKeyExists) { // the copy of another master, or of an earlier start
		there, e := s.getFrom(ctx, s.active, j.JID)
		if e != nil {
			return s.moved(ctx, old, e)
		}
		j.Revision, err = there.Revision, nil
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
	case err == nil && now.Revision != old.Revision && created:
		return s.withdraw(ctx, &j)
	}
	for _, key := range []string{targetsKey(j.JID, "*"), string(j.JID)} {
		if err := purge(ctx, s.index.stream, recordPrefix+key, old.Revision); err != nil {
			return err
		}
	}
	return nil
}

// copyReturns creates in the bucket job-returns the first returns of targets that the stream job-events alone has. They
// stay in that stream until they are a week old.
func (s *Store) copyReturns(ctx context.Context, j *Job) error {
	said, err := s.events.Info(ctx, jetstream.WithSubjectFilter(wire.ReturnOf(j.JID, "*")))
	if err != nil {
		return err
	}
	if len(said.State.Subjects) == 0 {
		return nil
	}
	returns, err := s.js.Stream(ctx, returnsStream)
	if err != nil {
		return err
	}
	stored, err := returns.Info(ctx, jetstream.WithSubjectFilter(returnPrefix+string(j.JID)+".*"))
	if err != nil {
		return err
	}
	for _, id := range j.Targets {
		subject := wire.ReturnOf(j.JID, id.Wire())
		if said.State.Subjects[subject] == 0 || stored.State.Subjects[returnSubject(j.JID, id)] > 0 {
			continue
		}
		first, err := s.events.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) { // it has become a week old
			continue
		}
		if err == nil {
			err = s.createReturn(ctx, ReturnMessage(j.JID, id, first.Data))
		}
		if err != nil {
			return fmt.Errorf("cannot copy the return of %s: %w", id, err)
		}
	}
	return nil
}

// What a stream answers that stores no message.
const (
	wrongLastInFlight jetstream.ErrorCode = 10164 // on a cluster: another message of the subject is on its way
	storeFailed       jetstream.ErrorCode = 10077 // the stream is full
)

// createReturn returns nil if the return is stored, an earlier one is, or the bucket does not take it: it is full, or the
// return is larger than one may be.
func (s *Store) createReturn(ctx context.Context, m *nats.Msg) error {
	for {
		_, err := s.js.PublishMsg(ctx, m)
		refused, ok := errors.AsType[*jetstream.APIError](err)
		if !ok {
			return err
		}
		switch refused.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamMessageExceedsMaximum, storeFailed:
			return nil
		case wrongLastInFlight: // of another master
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(readPause):
		}
	}
}

// oldTargets reads the targets of a job from the bucket jobs, or from the copy if they were removed from there already.
func (s *Store) oldTargets(ctx context.Context, old *Job) ([]target.PeelID, error) {
	targets, err := s.readTargets(ctx, old)
	if !errors.Is(err, ErrIncomplete) {
		return targets, err
	}
	there, e := s.getFrom(ctx, s.active, old.JID)
	switch {
	case errors.Is(e, ErrNotFound):
		return nil, err
	case e != nil:
		return nil, e
	}
	return s.readTargets(ctx, there)
}

// moved returns nil if what was not found is gone because another master has moved the job meanwhile.
func (s *Store) moved(ctx context.Context, old *Job, failed error) error {
	if !errors.Is(failed, ErrIncomplete) && !errors.Is(failed, ErrNotFound) {
		return failed
	}
	now, err := s.getFrom(ctx, s.jobs, old.JID)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && now.Revision != old.Revision:
		return nil
	case err != nil:
		return err
	}
	return failed
}

// endLost ends a job whose targets were pushed out of the bucket jobs, so that no master can continue it.
func (s *Store) endLost(ctx context.Context, j *Job) error {
	reason := fmt.Sprintf("its list of %d targets was lost: the bucket jobs had no room for it", j.TargetCount)
	j.TargetCount = 0
	j.Finish(End{Reason: reason}, time.Now())
	data, err := encode(j)
	if err == nil {
		_, err = s.jobs.Update(ctx, string(j.JID), data, j.Revision)
	}
	if err != nil {
		return err
	}
	return s.Record(ctx, wire.StatusOf(j.JID), "status", j)
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
