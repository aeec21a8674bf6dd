package scheduler

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// A wait is a fire that waits for the end of another run. It runs what its entry is when the wait ends.
type wait struct {
	e    *entry
	fire Fire
	from time.Duration
}

// rivals are the runs in flight that share the entry's limit, in the order of their start.
func (o *owner) rivals(e *entry) []*run {
	group := ""
	if e.spec != nil {
		group = e.spec.Overlap.Group
	}
	if group == "" {
		return e.runs
	}
	var list []*run
	for _, r := range o.runs {
		if r.e == e || r.fire.Entry.Overlap.Group == group || r.e.spec != nil && r.e.spec.Overlap.Group == group {
			list = append(list, r)
		}
	}
	return list
}

// free is how many more runs the entry may have.
func (o *owner) free(e *entry) int { return e.spec.Overlap.MaxRunning - len(o.rivals(e)) }

// enter starts a fire, or does what the entry wants where as many runs as it may have are in flight. It tells whether
// a run was started.
func (o *owner) enter(e *entry, f Fire, now instant) bool {
	over := -o.free(e)
	switch mode := e.spec.Overlap.IfRunning; {
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
		o.skip(e, skipped{AlreadyRunning, f.Nominal, 1})
	}
	return false
}

// await has a fire wait. One of the same entry that waits already keeps its place in the line and becomes this one.
func (o *owner) await(e *entry, f Fire, now instant) {
	e.Waiting = &Waiting{Trigger: f.Trigger, Nominal: f.Nominal, Fired: f.Fired, Held: f.held, Since: now.wall}
	w := wait{e, f, now.up}
	i := slices.IndexFunc(o.waiting, func(other wait) bool { return other.e == e })
	if i < 0 {
		o.waiting = append(o.waiting, w)
		return
	}
	o.skip(e, skipped{QueueFull, o.waiting[i].fire.Nominal, 1})
	o.waiting[i] = w
}

// restoreWaiting has the fire wait that did so when the process before ended.
func (o *owner) restoreWaiting(e *entry, now instant) {
	was := e.Waiting
	if was == nil {
		return
	}
	f := Fire{Name: e.name, Trigger: was.Trigger, Nominal: was.Nominal, Fired: was.Fired, held: was.Held}
	from := now.up - min(max(0, now.wall.Sub(was.Since)), longAgo)
	o.waiting = append(o.waiting, wait{e, f, from})
	slices.SortStableFunc(o.waiting, func(a, b wait) int { return cmp.Compare(a.from, b.from) })
}

var errYields = errors.New("the next run takes its place")

// release starts fires whose wait is over, the oldest first, and returns how many. What may keep a fire from running
// is asked once more.
func (o *owner) release(now instant, limit int) (started int) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w wait) bool {
		if started >= limit || o.free(w.e) <= 0 {
			return false
		}
		f := w.fire
		f.Started = now.wall.In(o.s.o.Zone)
		w.e.Waiting = nil
		switch why := o.refusal(w.e, f, now); {
		case now.up-w.from > w.e.spec.Missed.StartDeadline:
			o.skip(w.e, skipped{DeadlineExceeded, f.Nominal, 1})
		case why != "":
			o.skip(w.e, skipped{why, f.Nominal, 1})
		default:
			o.start(w.e, f)
			started++
		}
		return true
	})
	return started
}

// dropWaiting counts what waits of an entry under a reason.
func (o *owner) dropWaiting(e *entry, why Reason) {
	o.waiting = slices.DeleteFunc(o.waiting, func(w wait) bool {
		if w.e == e {
			o.skip(e, skipped{why, w.fire.Nominal, 1})
			e.Waiting = nil
		}
		return w.e == e
	})
}

// releasable tells whether a fire waits that could start.
func (o *owner) releasable() bool {
	return slices.ContainsFunc(o.waiting, func(w wait) bool { return o.free(w.e) > 0 })
}

func (o *owner) waitsFor(e *entry, f Fire) bool {
	return slices.ContainsFunc(o.waiting, func(w wait) bool { return w.e == e && w.fire == f })
}
