package scheduler

import (
	"context"
	"fmt"
	"time"
)

// handover is how far away the next fire must be when a process makes room for the next one.
const handover = 500 * time.Millisecond

// Quiet keeps runs from starting, if none is in flight and none is due within half a second, and reports whether that
// was so. With force runs do not start in any case, and it reports whether none is in flight. running is the number of
// runs in flight, with others, the number of requests that run. Fires that become due wait for a slot, on the disk too,
// until [Scheduler.Loud] is called or the next process starts them. The error is [ErrStopped] or the error of ctx.
func (s *Scheduler) Quiet(ctx context.Context, force bool, others int) (running int, idle bool, err error) {
	err = s.do(ctx, func(o *owner) {
		running = len(o.runs) + o.reporting + others
		idle = running == 0
		if !force {
			idle = idle && !o.dueWithin(handover)
		}
		o.quiet = o.quiet || force || idle // what another caller has forced ends by Loud alone
	})
	if err != nil {
		return 0, false, fmt.Errorf("cannot keep the schedule from starting runs: %w", err)
	}
	return running, idle, nil
}

// Loud ends what [Scheduler.Quiet] began. Fires that wait start.
func (s *Scheduler) Loud(ctx context.Context) error {
	if err := s.do(ctx, func(o *owner) { o.quiet = false }); err != nil {
		return fmt.Errorf("cannot have the schedule start runs: %w", err)
	}
	return nil
}

// dueWithin reports whether a fire is due, or will be within d.
func (o *owner) dueWithin(d time.Duration) bool {
	now := o.s.now()
	return len(o.ready)+len(o.readyBacklog()) > 0 ||
		len(o.elapsed) > 0 && o.elapsed[0].key <= int64(now.Up+d) ||
		len(o.wall) > 0 && o.wall[0].key <= now.Wall.Add(d).UnixNano()
}
