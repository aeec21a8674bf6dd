package reconciler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// gives reports whether a revision gives a peel a content, with any value that its fact has had.
func (o *walkOracle) gives(v *walkRevision, id target.PeelID, c walkContent) bool {
	for tier := range o.hosts[id].tiers {
		if v != nil && v.content(id, tier).equal(c) {
			return true
		}
	}
	return false
}

// onContent judges what a document gives to a peel.
func (o *walkOracle) onContent(id target.PeelID, c walkContent, now time.Time) {
	h := o.hosts[id]
	if c.equal(h.held) {
		return
	}
	old := h.held
	h.held = c
	o.judgeFacts(id, old, c, now)
	switch {
	case o.gives(o.force, id, c):
		if o.roll != nil && !o.gives(o.roll.rev, id, c) {
			delete(o.roll.members, id)
			o.roll.inherited = slices.DeleteFunc(o.roll.inherited, func(other target.PeelID) bool { return other == id })
		}
	case o.roll != nil && o.gives(o.roll.rev, id, c):
		if !o.roll.members[id] {
			o.join(id, now)
		}
	case now.Sub(o.moved) < 2*time.Second && slices.ContainsFunc(o.before, func(v *walkRevision) bool { return o.gives(v, id, c) }):
		// It was under way when a person pinned another revision, or another master took the lead.
	default:
		o.failf(onlyWhatRulesGive, "%s has %v after %v, which neither the revision in force nor the one that goes out gives it", id, c, old)
	}
}

// join judges that a peel is given the revision that goes out. It keeps every explanation by the waves of the rules in
// force; there is a violation if there is none.
func (o *walkOracle) join(id target.PeelID, now time.Time) {
	r := o.roll
	if !o.paused.IsZero() && now.Sub(o.paused) > slack {
		o.failf(onlyWhatRulesGive, "%s is given %s in a pause", id, r.rev.name)
	}
	o.judgeFreeze(r.base, r.rev, []target.PeelID{id}, now)
	waves := r.base.rules.waves
	n := len(o.changed(r))
	var next []walkPlace
	why := "it has no wave"
	for _, p := range r.places {
		for {
			w := walkWave{percent: 100}
			if p.wave < len(waves) {
				w = waves[p.wave]
			}
			if isOf(w.target, id) && len(r.members) < w.most(n) {
				if q := (walkPlace{p.wave, true, now}); !slices.Contains(next, q) {
					next = append(next, q)
				}
			}
			if p.wave >= len(waves) {
				break
			}
			if no := o.passes(r, p, now); no != "" {
				why = no
				break
			}
			p = walkPlace{wave: p.wave + 1, last: p.last}
		}
	}
	r.members[id] = true
	if r.ever[id].IsZero() {
		r.ever[id] = now
	}
	if len(next) == 0 {
		o.failWave(why, "%s is given %s, as peel %d of %d: %s", id, r.rev.name, len(r.members), n, why)
		next = []walkPlace{{len(waves), true, now}}
	}
	r.places = next
}

// failWave records a violation of the sentence that why, an answer of passes, belongs to.
func (o *walkOracle) failWave(why, format string, args ...any) {
	switch why[0] {
	case '!':
		o.failf(wavePassesWell, format, args...)
	case '?':
		o.failf(oneApproval, format, args...)
	default:
		o.failf(onlyWhatRulesGive, format, args...)
	}
}

// completed judges that a rollout has ended with its revision in force.
func (o *walkOracle) completed(r *walkRoll, now time.Time) {
	changed := o.changed(r)
	if len(changed) == 0 {
		return
	}
	why := ""
	for _, p := range r.places {
		why = ""
		for p.wave < len(r.base.rules.waves) && why == "" {
			why = o.passes(r, p, now)
			p = walkPlace{wave: p.wave + 1, last: p.last}
		}
		if why == "" {
			break
		}
	}
	if why != "" {
		o.failWave(why, "%s is in force: %s", r.rev.name, why)
	}
	rest := slices.DeleteFunc(changed, func(id target.PeelID) bool { return r.members[id] })
	o.judgeFreeze(r.base, r.rev, rest, now)
	if len(rest) > 0 && !o.paused.IsZero() && now.Sub(o.paused) > slack {
		o.failf(onlyWhatRulesGive, "%s is in force for all in a pause", r.rev.name)
	}
}

// passes says why the wave of a place has not passed, empty if it may have.
func (o *walkOracle) passes(r *walkRoll, p walkPlace, now time.Time) string {
	w := r.base.rules.waves[p.wave]
	if !p.took && len(r.inherited) == 0 {
		if o.isVoid(r, w) {
			return ""
		}
		return fmt.Sprintf("wave %s has taken none of its peels", w.name)
	}
	if bad := o.bad(r, now, false); len(bad) > w.fails {
		return fmt.Sprintf("! wave %s allows %d failures, and %v failed, died or vanished", w.name, w.fails, bad)
	}
	if now.Sub(p.last) < w.soak-time.Second {
		return fmt.Sprintf("wave %s was watched for %s of %s", w.name, now.Sub(p.last), w.soak)
	}
	if w.manual && !slices.ContainsFunc(o.acts, func(a *walkAct) bool {
		return a.verb == "gate" && !a.refused && a.about == r.rev && a.wave == w.name && !a.at.Before(r.began)
	}) {
		return fmt.Sprintf("? nobody has opened the gate of wave %s for it", w.name)
	}
	return ""
}

// isVoid reports whether a wave may pass without peels: none is left for it, or all that are online have the revision or are
// more than it may take.
func (o *walkOracle) isVoid(r *walkRoll, w walkWave) bool {
	changed := o.changed(r)
	left, online, members, inTarget := 0, 0, 0, false
	for _, id := range changed {
		switch h := o.hosts[id]; {
		case r.members[id]:
			members++
			inTarget = inTarget || isOf(w.target, id)
			if !h.dead {
				online++
			}
		default:
			if isOf(w.target, id) {
				left++
			}
			if !h.dead {
				online++
			}
		}
	}
	return left == 0 || w.most(len(changed)) <= members ||
		members > 0 && online > 0 && (w.most(online) <= members || w.target != "" && inTarget)
}

// bad returns the members, and those that were members, that have failed, died or vanished by what their settings did to them
// and by what was done to them. If surely is set, it leaves out those that the reconciler may not know of yet.
func (o *walkOracle) bad(r *walkRoll, now time.Time, surely bool) (ids []string) {
	for _, id := range o.ids {
		since, member := r.ever[id]
		if !member {
			continue
		}
		h := o.hosts[id]
		e := harmless
		if r.members[id] {
			e = h.held.effect(r.base.content(id, h.tier))
		}
		if e != harmless && slices.ContainsFunc(walkGroups, func(name string) bool { return strings.Contains(h.held[name], " "+string(ignored)+" ") }) {
			e = ignored // so it reports nothing
		}
		known := now.Sub(latest(since, latest(o.leader, h.back)))
		switch {
		case e == reportsErr, (e == failsRun || e == cutsRun) && known > 5*time.Second, e == ignored && (!surely || known > 6*time.Minute):
			if !surely || !h.dead {
				ids = append(ids, string(id)+" "+string(e))
			}
		case h.dead && !h.awayAlt.IsZero() && now.Sub(latest(h.awayAlt, since)) > surelyGone:
			ids = append(ids, string(id)+" dead")
		}
	}
	return ids
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// tick judges the passing of time.
func (o *walkOracle) tick(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.roll
	for _, h := range o.hosts {
		others := false
		for _, id := range o.ids {
			others = others || o.hosts[id] != h && !o.hosts[id].dead && (r == nil || slices.Contains(o.changed(r), id))
		}
		switch {
		case !h.dead || !others || h.outage:
			h.awayAlt = time.Time{}
		case h.awayAlt.IsZero():
			h.awayAlt = now
		}
	}
	if r == nil || o.leader.IsZero() {
		if r != nil {
			r.badSince = time.Time{}
		}
		return
	}
	if now.Sub(r.began) > slack {
		for _, id := range r.inherited {
			if r.members[id] = true; r.ever[id].IsZero() {
				r.ever[id] = r.began
			}
		}
	}
	o.goOn(r, now)
	bad := o.bad(r, now, true)
	waves := r.base.rules.waves
	fails := 0
	for _, p := range r.places {
		if p.wave < len(waves) {
			fails = max(fails, waves[p.wave].fails)
		}
	}
	if len(bad) <= fails || !slices.ContainsFunc(r.places, func(p walkPlace) bool { return p.wave < len(waves) }) {
		r.badSince = time.Time{}
		return
	}
	if r.badSince.IsZero() {
		r.badSince = now
	}
	if since := latest(r.badSince, o.leader); now.Sub(since) > time.Minute+slack {
		o.failf(wayBack, "%s stays though %v failed, died or vanished %s ago", r.rev.name, bad, now.Sub(since))
		r.badSince = now.Add(time.Hour)
	}
}

// goOn adds the explanations by which a wave passes now.
func (o *walkOracle) goOn(r *walkRoll, now time.Time) {
	for i := 0; i < len(r.places); i++ { // it grows
		p := r.places[i]
		if p.wave >= len(r.base.rules.waves) || o.passes(r, p, now) != "" {
			continue
		}
		if next := (walkPlace{wave: p.wave + 1, last: p.last}); !slices.Contains(r.places, next) {
			r.places = append(r.places, next)
		}
	}
}
