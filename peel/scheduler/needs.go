package scheduler

import (
	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
)

// indexNeeds notes which entries fire when others end.
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
	for _, e := range o.needed[r.e.Name] {
		switch {
		case !e.IsActive() || e.lived() || !e.MayFire(r.ended.Wall):
		case !e.NeedMet(r.result.Success):
			o.skip(e, skipped{history.NeedsUnmet, r.ended.Wall.In(o.s.o.Zone), 1})
		case e.Next.Trigger == history.TriggerNeeds || e.Next.Splaying(r.ended):
			o.skip(e, skipped{history.Superseded, o.time(e.Next, e.Next.Nominal), 1})
			fallthrough
		default:
			o.arm(e, history.TriggerNeeds, e.ClockOf(r.ended))
		}
	}
}
