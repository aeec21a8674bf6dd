package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// closed says which rule keeps the entry from running at a time, empty if none does.
func (e *entry) closed(at time.Time) history.Reason { return history.Reason(e.timing.Window(at)) }

// shut answers a fire that comes when the windows are closed: it is counted, or held until they open. All fires that
// are held become one, as an entry has one fire ahead.
func (o *owner) shut(e *entry, f Fire, why history.Reason, now instant) {
	if !o.hold(e, f.Trigger, f.Nominal, now) {
		o.skip(e, skipped{why, f.Nominal, 1})
		return
	}
	o.s.log.Info("fire held until the windows open", "entry", e.name, "reason", why, "nominal", f.Nominal, "until", o.nextFire(e))
}

// hold makes a fire wait for the windows to open, and for its splay then. It returns false if the entry does not want
// that or they never open.
func (o *owner) hold(e *entry, t history.Trigger, nominal time.Time, now instant) bool {
	opens, ok := e.deferred(now)
	if !ok {
		return false
	}
	at := opens.Add(o.draw(e, opens))
	o.lay(e, pending{trigger: t, onWall: true, nominal: nominal.UnixNano(), at: at.UnixNano(), held: true})
	return true
}

// rehold is for windows that have changed while they held a fire.
func (o *owner) rehold(e *entry, p pending, now instant) {
	if !o.hold(e, p.trigger, o.time(p, p.nominal), now) {
		o.skip(e, skipped{history.OutsideWindow, o.time(p, p.nominal), 1})
		o.plan(e, now)
	}
}

// deferred is when the windows of an entry that waits for them open.
func (e *entry) deferred(now instant) (time.Time, bool) {
	if e.spec.Windows.Outside != schedule.OutsideDefer {
		return time.Time{}, false
	}
	opens, ok := e.timing.Opens(now.wall)
	return opens, ok && e.mayFire(opens)
}
