package scheduler

import (
	"cmp"
	"errors"
	"slices"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// rivals are the runs in flight that share the entry's limit, in the order of their start.
func (o *owner) rivals(e *entry) []*run {
	group := ""
	if e.Spec != nil {
		group = e.Spec.Overlap.Group
	}
	if group == "" {
		return e.runs
	}
	var list []*run
	for _, r := range o.runs {
		if r.e == e || r.fire.Entry.Overlap.Group == group || r.e.Spec != nil && r.e.Spec.Overlap.Group == group {
			list = append(list, r)
		}
	}
	return list
}

// free is how many more runs the entry may have.
func (o *owner) free(e *entry) int { return e.Spec.Overlap.MaxRunning - len(o.rivals(e)) }

// enter starts a fire. If the entry has as many runs in flight as it may have, its overlap policy decides. It reports whether
// a run was started.
func (o *owner) enter(e *entry, f Fire, now rules.Instant) bool {
	over := -o.free(e)
	switch mode := e.Spec.Overlap.IfRunning; {
	case over < 0 || mode == schedule.IfRunningAllow:
		o.start(e, f)
		return true
	case mode == schedule.IfRunningQueue:
		o.await(e, f, now)
	case mode == schedule.IfRunningCancel:
		o.await(e, f, now)
		for _, r := range o.rivals(e)[:over+1] {
			r.yields = true
			r.cancel(errYields)
		}
	default:
		o.skip(e, skipped{history.AlreadyRunning, f.Nominal, 1})
	}
	return false
}

// await makes a fire wait. It replaces a fire of the same entry that waits already, and takes its place in the order.
func (o *owner) await(e *entry, f Fire, now rules.Instant) {
	if e.Waiting != nil {
		o.skip(e, skipped{history.QueueFull, e.Waiting.Nominal, 1})
	} else {
		o.waiting = append(o.waiting, e)
	}
	e.Waiting = &history.Waiting{Trigger: f.Trigger, Nominal: f.Nominal, Fired: f.Fired, Held: f.held, Since: now.Wall}
	e.waitingFrom = now.Up
}

// isWaiting reports whether the fire is the one of the entry that waits.
func (e *entry) isWaiting(f Fire) bool {
	w := e.Waiting
	return w != nil && w.Trigger == f.Trigger && w.Nominal.Equal(f.Nominal)
}

// restoreWaiting puts the fire back that waited when the last process ended.
func (o *owner) restoreWaiting(e *entry, now rules.Instant) {
	if e.Waiting == nil {
		return
	}
	e.waitingFrom = now.Up - min(max(0, now.Wall.Sub(e.Waiting.Since)), rules.LongAgo)
	o.waiting = append(o.waiting, e)
	slices.SortStableFunc(o.waiting, func(a, b *entry) int { return cmp.Compare(a.waitingFrom, b.waitingFrom) })
}

var errYields = errors.New("the next run takes its place")

// release starts fires whose wait is over, the oldest first, and returns how many. The checks that may refuse a fire are
// made once more.
func (o *owner) release(now rules.Instant, limit int) (started int) {
	o.waiting = slices.DeleteFunc(o.waiting, func(e *entry) bool {
		if started >= limit || o.free(e) <= 0 {
			return false
		}
		w := e.Waiting
		e.Waiting = nil
		f := Fire{Name: e.Name, Trigger: w.Trigger, Nominal: w.Nominal, Fired: w.Fired, Started: now.Wall.In(o.s.o.Zone), held: w.Held}
		switch why := o.refusal(e, f, now); {
		case now.Up-e.waitingFrom > e.Spec.Missed.StartDeadline:
			o.skip(e, skipped{history.DeadlineExceeded, f.Nominal, 1})
		case why != "":
			o.skip(e, skipped{why, f.Nominal, 1})
		default:
			o.start(e, f)
			started++
		}
		return true
	})
	return started
}

// dropWaiting counts the fire of an entry that waits under a reason, and drops it.
func (o *owner) dropWaiting(e *entry, why history.Reason) {
	if slices.Contains(o.waiting, e) {
		o.skip(e, skipped{why, e.Waiting.Nominal, 1})
		o.stopWaiting(e)
	}
}

func (o *owner) stopWaiting(e *entry) {
	o.waiting = slices.DeleteFunc(o.waiting, func(other *entry) bool { return other == e })
	e.Waiting = nil
}

// isReleasable reports whether a fire waits that could start.
func (o *owner) isReleasable() bool {
	return slices.ContainsFunc(o.waiting, func(e *entry) bool { return o.free(e) > 0 })
}
