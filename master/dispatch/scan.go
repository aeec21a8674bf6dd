package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/job"
)

// MaxReclaims is how often a job is taken from a dead owner before it is ended as failed.
const MaxReclaims = 3

const (
	scanEvery  = 20 * time.Second
	deadMisses = 2 // scans in a row

	// sameClock is by how much clocks may differ without a log entry: a heartbeat and a write take time.
	sameClock = time.Second
)

// A Scanner is one master's part in taking jobs over. Make it with [NewScanner] and call Run once.
type Scanner struct {
	d      *Dispatcher // which runs as long as the scanner does
	beats  *bus.Heartbeat
	misses map[string]int // scans in a row that found no heartbeat, by owner
	ahead  time.Duration  // of this master's clock to the bus's, by the last heartbeat

	reclaimed atomic.Uint64
}

// Reclaimed returns how many jobs were taken over since the scanner was made.
func (s *Scanner) Reclaimed() uint64 { return s.reclaimed.Load() }

// NewScanner returns the scanner of a master that dispatches with d, whose owner has the heartbeat. It starts nothing.
func NewScanner(d *Dispatcher, beats *bus.Heartbeat) *Scanner {
	return &Scanner{d: d, beats: beats, misses: map[string]int{}}
}

// Run renews the heartbeat and scans until ctx ends, and then returns nil. Call [bus.Heartbeat.Enter] first. An error
// means that it could not begin, or that another run has the name now.
func (s *Scanner) Run(ctx context.Context) error {
	releases := make(chan struct{}, 1)
	sub, err := s.d.o.Conn.Subscribe(released, func(*nats.Msg) {
		select {
		case releases <- struct{}{}:
		default: // the scan that is coming finds this release too
		}
	})
	if err != nil {
		return fmt.Errorf("cannot subscribe to %s: %w", released, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.beats.Run(ctx) })
	g.Go(func() error {
		s.scan(ctx, false) // for jobs of an earlier run of this master
		tick := time.NewTicker(scanEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
				s.scan(ctx, true)
			case <-releases:
				s.scan(ctx, false)
			}
		}
	})
	return g.Wait()
}

// scan reads all live jobs once and takes over those without an owner. Only a scan that counts misses can find that an
// owner is dead.
func (s *Scanner) scan(ctx context.Context, counts bool) {
	if ctx.Err() != nil {
		return // this master stops, and would take back what it releases
	}
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

// dead returns the owners of live jobs that are dead: earlier runs of this master and, in a scan that counts misses,
// owners that were missed in enough scans. After an error no miss is counted.
func (s *Scanner) dead(ctx context.Context, live []job.Job, counts bool) (map[string]bool, error) {
	others, dead := map[string]bool{}, map[string]bool{}
	for _, j := range live {
		switch {
		case j.Owner == "" || j.Owner == s.d.o.Owner:
		case bus.HeartbeatName(j.Owner) == bus.HeartbeatName(s.d.o.Owner):
			dead[j.Owner] = true
		default:
			others[j.Owner] = true
		}
	}
	if !counts && len(dead) == 0 {
		return nil, nil
	}
	own, err := s.beats.Read(ctx, s.d.o.Owner)
	if err != nil {
		return nil, err
	}
	if own == nil {
		return nil, errors.New("the heartbeat of this master is missing")
	}
	s.ahead = own.Ahead()
	if !counts {
		return dead, nil
	}
	misses := map[string]int{}
	for owner := range others {
		beat, err := s.beats.Read(ctx, owner)
		if err != nil {
			return nil, err
		}
		if beat == nil {
			misses[owner] = s.misses[owner] + 1
			dead[owner] = misses[owner] >= deadMisses
		}
	}
	s.misses = misses
	return dead, nil
}

// reclaim makes this master the owner of a job that no master watches, and continues the job. If the record has changed
// since it was listed, nothing happens. A claim without all its targets is withdrawn: no caller was told that the job
// runs.
func (s *Scanner) reclaim(ctx context.Context, listed *job.Job) error {
	j, err := s.d.o.Store.Get(ctx, listed.JID)
	switch {
	case errors.Is(err, job.ErrNotFound):
		return nil
	case errors.Is(err, job.ErrIncomplete) && listed.Status == job.Claimed:
		s.d.log.Warn("claim withdrawn, because not all its targets were stored", "jid", listed.JID,
			"owner", listed.Owner)
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
	case j.Owner == s.d.o.Owner && (s.d.find(j.JID) != nil || mayBeRepeated(j)):
		return nil
	}
	from := j.Owner
	if from != "" && from != s.d.o.Owner { // else nobody died: it was released, or could not be continued yet
		if j.ReclaimCount >= MaxReclaims {
			return s.fail(ctx, j)
		}
		j.ReclaimCount++
	}
	s.setDeadline(j, time.Now())
	j.Owner = s.d.o.Owner
	j.Epoch = max(j.Epoch, j.Revision) + 1
	switch err := s.d.o.Store.Update(ctx, j); {
	case errors.Is(err, job.ErrConflict):
		return nil // another master was faster
	case err != nil:
		return err
	}
	if from != s.d.o.Owner {
		s.reclaimed.Add(1)
		s.d.log.Info("job reclaimed", "jid", j.JID, "from", from, "status", j.Status, "epoch", j.Epoch,
			"reclaims", j.ReclaimCount)
	}
	w := newWatch(j.Spec, j.User)
	w.record = j
	// Enter the watch before it is handed over: the next scan takes over what nobody watches.
	if _, first := s.d.enter(w); !first {
		return nil
	}
	select {
	case s.d.resumed <- w:
		return nil
	case <-ctx.Done():
		w.setResult(nil, ctx.Err())
		s.d.forget(w)
		return ctx.Err()
	}
}

// setDeadline converts the deadline of a job from the clock of the master that wrote its record to this master's, whose
// time is now. The record has how much time was left when it was written, and the bus when that was.
func (s *Scanner) setDeadline(j *job.Job, now time.Time) {
	left := j.Deadline.Sub(j.Updated) - now.Add(-s.ahead).Sub(j.Written)
	if j.Cancel != nil && j.Cancel.Time.Equal(j.Updated) {
		left = time.Until(j.Deadline) // Updated is on the clock of the master that canceled it; the job ends soon
	}
	if deadline := now.Add(left); deadline.Sub(j.Deadline).Abs() > sameClock {
		s.d.log.Warn("the clock of a job's owner differs", "jid", j.JID, "owner", j.Owner,
			"by", j.Deadline.Sub(deadline).Round(sameClock))
		j.Deadline = deadline
	}
	j.Updated = now
}

// mayBeRepeated reports whether a job of this run of the master is a claim that the run made and could not dispatch.
// The caller got an error and may repeat the request until the deadline; meanwhile no master dispatches the claim. A
// claim that was taken over has an epoch, and no caller.
func mayBeRepeated(j *job.Job) bool {
	return j.Status == job.Claimed && j.Cancel == nil && j.Epoch == 0 && time.Now().Before(j.Deadline)
}

// fail ends a job whose owners keep dying, with the returns that are stored. A claim under the ID of an ended job is
// withdrawn instead.
func (s *Scanner) fail(ctx context.Context, j *job.Job) error {
	if j.Status == job.Claimed {
		if err := s.d.o.Store.Confirm(ctx, j); err != nil {
			return err
		}
	}
	w := newWatch(j.Spec, j.User)
	w.tally.Begin(j.Targets, false)
	if err := s.d.countStored(ctx, w); err != nil {
		return err
	}
	end := w.tally.End()
	end.Reason = fmt.Sprintf("its masters died %d times, the last was %s", j.ReclaimCount+1, bus.HeartbeatName(j.Owner))
	j.Finish(end, time.Now())
	switch err := s.d.o.Store.Update(ctx, j); {
	case errors.Is(err, job.ErrConflict):
		return nil
	case err != nil:
		return err
	}
	s.d.log.Warn("job failed", "jid", j.JID, "reason", end.Reason)
	return s.d.conclude(ctx, j)
}
