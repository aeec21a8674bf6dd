package reclaim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
)

// scan looks at all active jobs once and takes over what has no owner. Only a look that counts can find that an owner
// is dead.
func (s *Scanner) scan(ctx context.Context, counts bool) {
	active, err := s.o.Store.ListActive(ctx)
	if err != nil {
		s.log.Warn("active jobs not read, nothing is taken over", "err", err)
		return
	}
	dead, err := s.dead(ctx, active, counts)
	if err != nil {
		s.log.Warn("heartbeats not read, nothing is taken over from other masters", "err", err)
	}
	for _, a := range active {
		if !s.orphaned(a, dead) {
			continue
		}
		if err := s.reclaim(ctx, a); err != nil && ctx.Err() == nil {
			s.log.Warn("job not taken over", "jid", a.JID, "owner", a.Owner, "err", err)
		}
	}
}

// orphaned reports whether nobody watches a job, by its entry in the index.
func (s *Scanner) orphaned(a job.Active, dead map[string]bool) bool {
	switch a.Owner {
	case "":
		return true
	case s.o.Owner:
		return !s.o.Dispatcher.Watches(a.JID)
	}
	return dead[a.Owner]
}

// dead returns the owners of active jobs that have ended: earlier runs of this master and, in a look that counts, those
// that have been missed often enough. An error leaves everything as it was.
func (s *Scanner) dead(ctx context.Context, active []job.Active, counts bool) (map[string]bool, error) {
	others, dead := map[string]bool{}, map[string]bool{}
	for _, a := range active {
		switch {
		case a.Owner == "" || a.Owner == s.o.Owner:
		case nameOf(a.Owner) == s.name:
			dead[a.Owner] = true
		default:
			others[a.Owner] = true
		}
	}
	if !counts && len(dead) == 0 {
		return nil, nil
	}
	held, err := s.lives(ctx, s.o.Owner)
	if err != nil {
		return nil, err
	}
	if !held {
		return nil, errors.New("the heartbeat of this master is missing")
	}
	if !counts {
		return dead, nil
	}
	misses := map[string]int{}
	for owner := range others {
		lives, err := s.lives(ctx, owner)
		if err != nil {
			return nil, err
		}
		if !lives {
			misses[owner] = s.misses[owner] + 1
			dead[owner] = misses[owner] >= deadMisses
		}
	}
	s.misses = misses
	return dead, nil
}

// reclaim makes this master the owner of a job whose owner, by the index, does not watch it, and continues the job. If
// the record says otherwise nothing happens.
func (s *Scanner) reclaim(ctx context.Context, a job.Active) error {
	j, err := s.o.Store.Get(ctx, a.JID)
	if errors.Is(err, job.ErrNotFound) {
		if time.Since(a.Updated) < unanswered {
			return nil
		}
		return s.o.Store.Deactivate(ctx, a.JID)
	}
	if err != nil {
		return err
	}
	switch {
	case j.Status.Final():
		return s.o.Dispatcher.Conclude(ctx, j)
	case j.Owner != a.Owner && j.Owner != "":
		return s.o.Store.Activate(ctx, j) // taken over already, by one who has not said so
	case j.Owner == s.o.Owner && (s.o.Dispatcher.Watches(j.JID) || s.retryable(j)):
		return nil
	}
	from := j.Owner
	if from != "" && j.ReclaimCount >= MaxReclaims {
		return s.fail(ctx, j)
	}
	if from != "" {
		j.ReclaimCount++
	}
	s.setClock(j, time.Now())
	j.Owner = s.o.Owner
	j.Epoch = max(j.Epoch, j.Revision) + 1
	if err := s.o.Store.Update(ctx, j); err != nil {
		if errors.Is(err, job.ErrConflict) {
			return nil // another master was faster
		}
		return err
	}
	s.reclaimed.Add(1)
	s.log.Info("job reclaimed", "jid", j.JID, "from", from, "status", j.Status, "epoch", j.Epoch, "reclaims", j.ReclaimCount)
	return s.o.Dispatcher.Resume(ctx, j)
}

// setClock brings the deadline of a job from the clock of the master that wrote its record to the own, whose time is now.
// How much was left at the writing is in the record, and the bus knows how long ago that was.
func (s *Scanner) setClock(j *job.Job, now time.Time) {
	left := j.Deadline.Sub(j.Updated) - now.Add(-s.ahead).Sub(j.Written)
	if j.Cancel != nil && j.Cancel.Time.Equal(j.Updated) {
		left = time.Until(j.Deadline) // who canceled it has another clock, and it ends soon
	}
	if deadline := now.Add(left); deadline.Sub(j.Deadline).Abs() > sameClock {
		s.log.Warn("the clock of a job's owner differs", "jid", j.JID, "owner", j.Owner, "by", j.Deadline.Sub(deadline).Round(sameClock))
		j.Deadline = deadline
	}
	j.Updated = now
}

// retryable is of a claim that this very master could not dispatch, and has said so to who asked. He may ask again
// until its time is up; nobody else starts it meanwhile.
func (s *Scanner) retryable(j *job.Job) bool {
	return j.Status == job.Claimed && j.Cancel == nil && !j.Created.Before(s.started) && time.Now().Before(j.Deadline)
}

// fail ends a job whose owners keep dying. What its targets have returned is counted.
func (s *Scanner) fail(ctx context.Context, j *job.Job) error {
	end, err := s.o.Store.Count(ctx, j)
	if err != nil {
		return err
	}
	end.Reason = fmt.Sprintf("its masters died %d times, the last was %s", j.ReclaimCount+1, nameOf(j.Owner))
	j.Finish(end, time.Now())
	if err := s.o.Store.Update(ctx, j); err != nil {
		if errors.Is(err, job.ErrConflict) {
			return nil
		}
		return err
	}
	s.log.Warn("job failed", "jid", j.JID, "reason", end.Reason)
	return s.o.Dispatcher.Conclude(ctx, j)
}
