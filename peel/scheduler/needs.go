package scheduler

import (
	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// tie notes which entries fire when others end.
func (o *owner) indexNeeds() {
	o.needed = map[string][]*entry{}
	for name, spec := range o.set {
		if needs := spec.Needs.Entry; needs != "" {
			o.needed[needs] = append(o.needed[needs], o.entries[name])
		}
	}
}

// fireNeeds makes the entries due that fire when a run ends as this one did, and counts it for those that need
// another end. Their splay counts from its end.
func (o *owner) fireNeeds(r *run) {
	for _, e := range o.needed[r.e.name] {
		switch {
		case !e.active() || e.lived() || !e.mayFire(r.ended.wall):
		case !met(e.spec.Needs, r.result.Success):
			o.skip(e, skipped{history.NeedsUnmet, r.ended.wall.In(o.s.o.Zone), 1})
		case e.next.trigger == history.TriggerNeeds || e.next.splaying(r.ended):
			o.skip(e, skipped{history.Superseded, o.time(e.next, e.next.nominal), 1})
			fallthrough
		default:
			o.arm(e, history.TriggerNeeds, e.clock(r.ended))
		}
	}
}

func met(n schedule.Needs, success bool) bool {
	switch n.On {
	case schedule.NeedsSuccess:
		return success
	case schedule.NeedsFailure:
		return !success
	}
	return true
}
