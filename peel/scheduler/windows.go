package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
)

// shut answers a fire that comes when the windows are closed: it is counted, or held until they open. All fires that
// are held become one, as an entry has one fire ahead.
func (o *owner) shut(e *entry, f Fire, why history.Reason, now rules.Instant) {
	if !o.hold(e, f.Trigger, f.Nominal, now) {
		o.skip(e, skipped{why, f.Nominal, 1})
		return
	}
	o.s.log.Info("fire held until the windows open", "entry", e.Name, "reason", why, "nominal", f.Nominal, "until", o.nextFire(e))
}

// hold makes a fire wait for the windows to open, and for its splay then. It returns false if the entry does not want
// that or they never open.
func (o *owner) hold(e *entry, t history.Trigger, nominal time.Time, now rules.Instant) bool {
	opens, ok := e.Deferred(now)
	if !ok {
		return false
	}
	at := opens.Add(e.Draw(o.s.o.Peel, opens))
	o.lay(e, rules.Pending{Trigger: t, OnWall: true, Nominal: nominal.UnixNano(), At: at.UnixNano(), Held: true})
	return true
}

// rehold is for windows that have changed while they held a fire.
func (o *owner) rehold(e *entry, p rules.Pending, now rules.Instant) {
	if !o.hold(e, p.Trigger, o.time(p, p.Nominal), now) {
		o.skip(e, skipped{history.OutsideWindow, o.time(p, p.Nominal), 1})
		o.plan(e, now)
	}
}
