package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
)

// scan looks at all live jobs once and takes over those without an owner. Only a look that counts can find that an owner
// is dead.
func (s *Scanner) scan(ctx context.Context, counts bool) {
	live, unreadable, err := s.d.o.Store.ListLive(ctx)
	if err != nil {
		s.d.log.Warn("live jobs not read, nothing is taken over", "err", err)
		return
	}
	for _, err := range unreadable {
		s.d.refusals.Warn(err.Error(), "live job not taken over", "err", err)
	}
	dead, err := s.dead(ctx, live, counts)
	if err != nil {
		s.d.log.Warn("heartbeats not read, nothing is taken over from other masters", "err", err)
	}
	for _, j := range live {
		if !s.orphaned(&j, dead) {
			continue
		}
		if err := s.reclaim(ctx, &j); err != nil && ctx.Err() == nil {
			s.d.log.Warn("job not taken over", "jid", j.JID, "owner", j.Owner, "err", err)
		}
	}
}

// orphaned reports whether no master watches a job.
func (s *Scanner) orphaned(j *job.Job, dead map[string]bool) bool {
	switch j.Owner {
	case "":
		return true
	case s.d.o.Owner:
		return s.d.find(j.JID) == nil
	}
	return dead[j.Owner]
}

// dead returns the owners of live jobs that have ended: earlier runs of this master and, in a look that counts, those
// that have been missed often enough. An error leaves everything as it was.
func (s *Scanner) dead(ctx context.Context, live []job.Job, counts bool) (map[string]bool, error) {
	others, dead := map[string]bool{}, map[string]bool{}
	for _, j := range live {
		switch {
		case j.Owner == "" || j.Owner == s.d.o.Owner:
		case nameOf(j.Owner) == s.name:
			dead[j.Owner] = true
		default:
			others[j.Owner] = true
		}
	}
	if !counts && len(dead) == 0 {
		return nil, nil
	}
	held, err := s.lives(ctx, s.d.o.Owner)
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

// reclaim makes this master the owner of a job that no master watches, by the record as it was listed, and continues the
// job. If the record has changed since, nothing happens. A claim without all its targets is withdrawn:
// its caller was never told that the job runs.
func (s *Scanner) reclaim(ctx context.Context, listed *job.Job) error {
	j, err := s.d.o.Store.Get(ctx, listed.JID)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return nil
	case errors.Is(err, job.ErrIncomplete) && listed.Status == job.Claimed:
		s.d.log.Warn("claim withdrawn, because not all its targets were stored", "jid", listed.JID, "owner", listed.Owner)
		ctx, cancel := context.WithTimeout(ctx, withdrawLimit)
		defer cancel()
		return s.d.o.Store.Withdraw(ctx, listed)
	case err != nil:
		return err
	case !j.Live:
		return nil
	case j.Status.Final():
		return s.d.conclude(ctx, j)
	case j.Owner != listed.Owner && j.Owner != "":
		return nil // another master has taken it over
	case j.Owner == s.d.o.Owner && (s.d.find(j.JID) != nil || s.retryable(j)):
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
	j.Owner = s.d.o.Owner
	j.Epoch = max(j.Epoch, j.Revision) + 1
	if err := s.d.o.Store.Update(ctx, j); err != nil {
		if errors.Is(err, job.ErrConflict) {
			return nil // another master was faster
		}
		return err
	}
	s.reclaimed.Add(1)
	s.d.log.Info("job reclaimed", "jid", j.JID, "from", from, "status", j.Status, "epoch", j.Epoch, "reclaims", j.ReclaimCount)
	select {
	case s.d.resumed <- j:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setClock brings the deadline of a job from the clock of the master that wrote its record to the own, whose time is now.
// How much was left at the writing is in the record, and the bus knows how long ago that was.
func (s *Scanner) setClock(j *job.Job, now time.Time) {
	left := j.Deadline.Sub(j.Updated) - now.Add(-s.ahead).Sub(j.Written)
	if j.Cancel != nil && j.Cancel.Time.Equal(j.Updated) {
		left = time.Until(j.Deadline) // who canceled it has another clock, and it ends soon
	}
	if deadline := now.Add(left); deadline.Sub(j.Deadline).Abs() > sameClock {
		s.d.log.Warn("the clock of a job's owner differs", "jid", j.JID, "owner", j.Owner, "by", j.Deadline.Sub(deadline).Round(sameClock))
		j.Deadline = deadline
	}
	j.Updated = now
}

// retryable is of a claim that this very master could not dispatch, and has said so to who asked. He may ask again
// until its time is up; nobody else starts it meanwhile.
func (s *Scanner) retryable(j *job.Job) bool {
	return j.Status == job.Claimed && j.Cancel == nil && !j.Created.Before(s.started) && time.Now().Before(j.Deadline)
}

// fail ends a job whose owners keep dying. What its targets have returned is counted. A claim under the ID of an ended job
// is withdrawn instead.
func (s *Scanner) fail(ctx context.Context, j *job.Job) error {
	if j.Status == job.Claimed {
		if err := s.d.o.Store.Confirm(ctx, j); err != nil {
			return err
		}
	}
	end, err := s.d.o.Store.Count(ctx, j)
	if err != nil {
		return err
	}
	end.Reason = fmt.Sprintf("its masters died %d times, the last was %s", j.ReclaimCount+1, nameOf(j.Owner))
	j.Finish(end, time.Now())
	if err := s.d.o.Store.Update(ctx, j); err != nil {
		if errors.Is(err, job.ErrConflict) {
			return nil
		}
		return err
	}
	s.d.log.Warn("job failed", "jid", j.JID, "reason", end.Reason)
	return s.d.conclude(ctx, j)
}
