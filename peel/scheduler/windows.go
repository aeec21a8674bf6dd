package scheduler

import (
	"time"

	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// closed says which rule keeps the entry from running at a time, empty if none does.
func (e *entry) closed(at time.Time) Reason { return Reason(e.timing.Window(at)) }

// shut answers a fire that comes when the windows are closed: it is counted, or held until they open. All fires that
// are held become one, as an entry has one fire ahead.
func (o *owner) shut(e *entry, f Fire, why Reason, now instant) {
	opens, ok := e.deferred(now)
	if !ok {
		o.skip(e, skipped{why, f.Nominal, 1})
		return
	}
	at := opens.Add(o.draw(e, opens))
	o.lay(e, pending{trigger: f.Trigger, onWall: true, nominal: f.Nominal.UnixNano(), at: at.UnixNano(), held: true})
	o.s.log.Info("fire held until the windows open", "entry", e.name, "reason", why, "nominal", f.Nominal, "until", at)
}

// deferred is when the windows of an entry that waits for them open.
func (e *entry) deferred(now instant) (time.Time, bool) {
	if e.spec.Windows.Outside != schedule.OutsideDefer {
		return time.Time{}, false
	}
	opens, ok := e.timing.Opens(now.wall)
	return opens, ok && e.mayFire(opens)
}
