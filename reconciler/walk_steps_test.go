package reconciler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// step makes one step, and lets a little time pass.
func (w *walk) step(s walkStep) {
	w.random = rand.New(rand.NewPCG(s.seed, 2))
	n := len(w.log)
	what := w.do(s.kind)
	if len(w.log) == n {
		w.note("%s %s", s.kind, what)
	} else {
		w.log[n] += "  " + what
	}
	w.pass(time.Duration(200+w.random.IntN(8000)) * time.Millisecond)
	if *walkShow {
		out := w.status()
		text := "in force " + w.name(string(out.LastGood.Commit))
		if out.Rollout != nil {
			text += fmt.Sprintf(", %s in wave %d %s: %s", w.name(string(out.Rollout.Commit)), out.Rollout.Wave, out.Rollout.State, out.Rollout.Reason)
		}
		if out.Blocked != "" || out.Frozen != nil {
			text += fmt.Sprintf(", held: %v %v", out.Errors, out.Frozen)
		}
		w.note("    %s", text)
	}
}

func (w *walk) do(kind string) string {
	switch kind {
	case "settings", "bad", "entry", "rules", "freeze", "broken":
		return w.change(kind)
	case "rewrite":
		return w.rewrite()
	case "approve", "stale", "gate", "gatelate", "override", "pin", "unpin", "pause", "resume", "retry":
		return w.person(kind)
	case "fact", "facts", "die", "return", "outage":
		return w.hosts(kind)
	case "master":
		return w.changeMaster()
	case "long":
		d := time.Duration(5+w.random.IntN(40)) * time.Minute
		w.pass(d)
		w.judgeHead()
		return d.String()
	}
	d := time.Duration(5+w.random.IntN(90)) * time.Second
	w.pass(d)
	return d.String()
}

// change commits a change to the branch.
func (w *walk) change(kind string) string {
	r := w.random
	v := &walkRevision{name: fmt.Sprintf("r%d", len(w.all)), parent: w.head, groups: maps.Clone(w.head.groups), rules: w.head.rules.clone(), pushed: time.Now()}
	name := walkGroups[r.IntN(len(walkGroups))]
	g := v.groups[name]
	if kind != "rules" && kind != "freeze" || r.IntN(3) == 0 {
		w.marks++
		g.mark, g.effect = w.marks, harmless
	}
	what := name
	switch kind {
	case "bad":
		g.effect = effects[r.IntN(len(effects))]
		what += " that " + string(g.effect) + "s"
	case "entry":
		extra := []string{"x1", "x2", "x3"}[r.IntN(3)]
		if i := slices.Index(g.extras, extra); i >= 0 {
			g.extras = slices.Delete(slices.Clone(g.extras), i, i+1)
			v.allowed = r.IntN(4) == 0
			what += fmt.Sprintf(" without %s, allowed %v", extra, v.allowed)
		} else {
			g.extras = append(slices.Clone(g.extras), extra)
			what += " with " + extra
		}
	case "rules":
		what = w.changeRules(&v.rules)
	case "freeze":
		from := time.Now().Truncate(time.Second).Add(time.Duration(r.IntN(300)) * time.Second)
		f := walkFreeze{from, from.Add(time.Duration(10+r.IntN(80)) * time.Minute), []string{"", "", "web-*", "db-*"}[r.IntN(4)]}
		v.rules.freezes = append(v.rules.freezes, f)
		what = fmt.Sprintf("of %q from %s to %s", f.target, f.from.Format("15:04:05"), f.to.Format("15:04:05"))
	case "broken":
		v.broken = true
	}
	v.groups[name] = g
	w.push(v)
	return v.name + " after " + v.parent.name + ": " + what
}

// changeRules makes the rules weaker or stricter.
func (w *walk) changeRules(rules *walkRules) string {
	r := w.random
	if len(rules.waves) == 0 || r.IntN(4) == 0 {
		rules.waves = randomWalkWaves(r)
		return strings.ReplaceAll(rules.file(), "\n", " ")
	}
	i := r.IntN(len(rules.waves))
	wave := &rules.waves[i]
	switch r.IntN(8) {
	case 0:
		rules.waves = nil
	case 1:
		rules.waves = slices.Delete(rules.waves, i, i+1)
	case 2:
		wave.manual = !wave.manual
	case 3:
		wave.soak = []time.Duration{0, 5 * time.Second, time.Minute, 10 * time.Minute}[r.IntN(4)]
	case 4:
		wave.fails = r.IntN(3)
	case 5:
		if wave.count > 0 {
			wave.count = 1 + r.IntN(4)
		}
	case 6:
		rules.off = !rules.off
	case 7:
		rules.freezes = nil
	}
	return strings.ReplaceAll(rules.file(), "\n", " ")
}

// push commits a revision on the head.
func (w *walk) push(v *walkRevision) {
	message := "change " + v.name
	if v.allowed {
		message += "\n\nZester-Allow: change, remove, peels"
	}
	w.oracle.mu.Lock()
	v.commit = w.commit(message, v.files())
	w.oracle.revs[v.commit] = v
	w.oracle.mu.Unlock()
	w.all = append(w.all, v)
	w.moved(v)
}

// moved notes that the branch is at another commit.
func (w *walk) moved(v *walkRevision) {
	if err := w.nc.Publish(wire.BranchMoved, nil); err != nil {
		w.t.Fatal(err)
	}
	w.oracle.mu.Lock()
	defer w.oracle.mu.Unlock()
	w.head = v
	w.oracle.heads, w.oracle.headAt = append(w.oracle.heads, v), append(w.oracle.headAt, time.Now())
}

// rewrite moves the branch to another commit, or to a new one beside the head.
func (w *walk) rewrite() string {
	to := w.all[max(0, len(w.all)-1-w.random.IntN(5))]
	w.moveTo(to.commit)
	w.moved(to)
	if w.random.IntN(2) == 0 {
		return "to " + to.name
	}
	return "to " + to.name + ", then " + w.change("settings")
}

// name returns the name of a commit that begins with digits.
func (w *walk) name(digits string) string {
	if v := w.find(digits); v != nil {
		return v.name
	}
	return digits
}

func (w *walk) find(digits string) *walkRevision {
	for _, v := range w.all {
		if digits != "" && strings.HasPrefix(string(v.commit), digits) {
			return v
		}
	}
	return nil
}

// hosts changes hosts.
func (w *walk) hosts(kind string) string {
	id := walkIDs[w.random.IntN(len(walkIDs))]
	switch kind {
	case "fact", "facts":
		ids := []target.PeelID{id}
		tier := []string{"a", "b"}[w.random.IntN(2)]
		if kind == "facts" {
			ids = walkIDs
		}
		w.oracle.mu.Lock()
		for _, id := range ids {
			w.oracle.hosts[id].tier = tier
			w.oracle.hosts[id].tiers[tier], w.oracle.hosts[id].moved = true, time.Now()
		}
		w.oracle.mu.Unlock()
		for _, id := range ids {
			if !w.isDead(id) {
				w.tell(id)
			}
		}
		return fmt.Sprint(ids, " tier ", tier)
	case "die":
		w.kill(id, false)
		return string(id)
	case "return":
		if w.random.IntN(3) > 0 {
			w.revive(id)
			return string(id)
		}
		fallthrough
	default:
		if kind == "outage" {
			for _, id := range walkIDs {
				w.kill(id, true)
			}
			d := time.Duration(1+w.random.IntN(10)) * time.Minute
			w.pass(d)
			if w.random.IntN(2) == 0 {
				return "for a time"
			}
		}
		for _, id := range walkIDs {
			w.revive(id)
		}
		return "all are back"
	}
}

// changeMaster ends the master and has it, or another one without its copy of the repo, take the lead.
func (w *walk) changeMaster() string {
	w.after(time.Duration(w.random.IntN(1500)) * time.Millisecond)
	w.oracle.mu.Lock()
	w.oracle.leader = time.Time{}
	w.oracle.mu.Unlock()
	w.stop()
	pause := time.Duration(w.random.IntN(3)*w.random.IntN(60)) * time.Second
	w.pass(pause)
	what := "the same"
	if w.random.IntN(2) == 0 {
		w.store = w.t.TempDir()
		what = "another"
	}
	w.lead()
	return what + " leads after " + pause.String()
}

// person gives an order, as a person does who reads the status.
func (w *walk) person(kind string) string {
	out := w.status()
	if out.Blocked != "" || out.Facts != nil {
		w.seen = append(w.seen, out)
	}
	if kind == "resume" && out.Paused != nil { // what waits may go out before the answer comes
		w.oracle.mu.Lock()
		w.oracle.paused = time.Time{}
		w.oracle.mu.Unlock()
	}
	refusal, about := w.carry(kind, out)
	if refusal != "" {
		about += " refused: " + refusal
	}
	if kind == "pause" && refusal == "" {
		w.oracle.mu.Lock()
		w.oracle.paused = time.Now()
		w.oracle.mu.Unlock()
	}
	return about
}

const nothingToDo = "there is nothing"

func (w *walk) carry(kind string, out status.Sync) (refusal, about string) {
	r := w.random
	switch kind {
	case "approve", "stale":
		s := out
		if kind == "stale" && len(w.seen) > 0 {
			s = w.seen[r.IntN(len(w.seen))]
		}
		if s.Facts != nil && (s.Blocked == "" || r.IntN(2) == 0) {
			return w.order("approve", walkRequest{Hash: s.Facts.Hash}, &walkAct{verb: "facts"}), "facts " + s.Facts.Hash[:8]
		}
		v := w.find(string(s.LastAttempted))
		if s.Blocked == "" || v == nil {
			return nothingToDo, ""
		}
		return w.order("approve", walkRequest{Hash: s.Blocked, Revision: v.commit}, &walkAct{verb: "approve", about: v}), v.name + " " + s.Blocked[:8]
	case "gate", "gatelate":
		if out.Rollout == nil || out.Rollout.State != "gate" {
			return nothingToDo, ""
		}
		v := w.find(string(out.Rollout.Commit))
		if kind == "gatelate" { // somebody pushes while the person thinks
			w.note("gate of %s is seen", v.name)
			w.note("%s", w.change("settings"))
			w.pass(time.Duration(1+r.IntN(120)) * time.Second)
		}
		return w.order("approve", walkRequest{Wave: out.Rollout.Name, Revision: v.commit, Reason: "r"}, &walkAct{verb: "gate", about: v, wave: out.Rollout.Name}), "wave " + out.Rollout.Name + " of " + v.name
	case "override":
		if out.Frozen == nil {
			return nothingToDo, ""
		}
		v := w.find(string(out.Frozen.Commit))
		until := out.Frozen.Until
		if until.IsZero() {
			until = time.Now().Add(24 * time.Hour)
		}
		return w.order("approve", walkRequest{Hash: string(v.commit), Revision: v.commit, Override: true, Reason: "r"}, &walkAct{verb: "override", about: v, until: until}), v.name
	case "pin":
		v := w.all[max(0, len(w.all)-1-r.IntN(6))]
		return w.order("pin", walkRequest{Revision: v.commit, UntilNewer: r.IntN(2) == 0}, &walkAct{verb: "pin", about: v}), v.name
	case "retry":
		v := w.find(string(out.Skipped))
		if v == nil {
			return nothingToDo, ""
		}
		return w.order("retry", walkRequest{Revision: v.commit}, &walkAct{verb: "retry", about: v}), v.name
	}
	return w.order(kind, nil, nil), ""
}

// judgeHead judges a status after a time of quiet: the head is in force, or there is a reason that is true.
func (w *walk) judgeHead() {
	out := w.status()
	var h status.History
	if why := w.ask("history", nil, &h); why != "" {
		w.t.Fatal(why)
	}
	o := w.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	if out.Rollout == nil {
		for _, a := range h.Attempts {
			if a.Commit == out.LastGood.Commit {
				if a.Outcome != status.OutcomeApplied {
					o.failf(headEnds, "%s is in force, and %s in the history: %s", w.name(string(a.Commit)), a.Outcome, a.Reason)
				}
				break
			}
		}
	}
	if out.LastGood.Commit == w.head.commit {
		return
	}
	blocked := conditionOf(out, status.GuardBlocked)
	broken := conditionOf(out, status.CompileFailed)
	why := ""
	switch {
	case out.Observed != w.head.commit:
		why = "it is not seen"
	case out.Pinned != nil, out.Paused != nil, out.Rollout != nil && out.Rollout.Commit == w.head.commit:
	case blocked.Status && blocked.ObservedRevision == w.head.commit:
		if !o.mayBeHeld(w.head) && out.Facts == nil {
			why = "it is held for what is not so: " + blocked.Message
		}
	case broken.Status && broken.ObservedRevision == w.head.commit:
		if !w.head.broken {
			why = "it is refused: " + broken.Message
		}
	case out.Frozen != nil && out.Frozen.Commit == w.head.commit:
		now := time.Now().Add(-5 * time.Second)
		if holds := func(f walkFreeze) bool { return f.holds(now) }; !slices.ContainsFunc(o.force.rules.freezes, holds) && !slices.ContainsFunc(w.head.rules.freezes, holds) {
			why = "no freeze holds it: " + out.Frozen.Reason
		}
	case out.Is(status.HeadSkipped):
		if !o.skipped[w.head.commit] {
			why = "it was not rolled back"
		}
	default:
		why = fmt.Sprintf("no condition says why: %+v", out.Conditions)
	}
	if why != "" {
		o.failf(headEnds, "%s is the head, %s in force: %s", w.head.name, w.name(string(out.LastGood.Commit)), why)
	}
}

// mayBeHeld reports whether a revision may wait for an approval.
func (o *walkOracle) mayBeHeld(c *walkRevision) bool {
	if o.history != "allow" && (!c.descends(o.followed) || !c.descends(o.force) || o.roll != nil && !c.descends(o.roll.rev)) {
		return true
	}
	return !c.rules.equal(o.force.rules) || o.mayBeOver(o.force, c) || o.factsMoved(c.pushed)
}

// factsMoved reports whether a fact has changed since: a plan that a person has not seen waits, whatever it is.
func (o *walkOracle) factsMoved(since time.Time) bool {
	return slices.ContainsFunc(o.ids, func(id target.PeelID) bool { return o.hosts[id].moved.After(since) })
}

func (r walkRules) equal(other walkRules) bool {
	return slices.Equal(r.waves, other.waves) && r.off == other.off && slices.Equal(r.freezes, other.freezes)
}

// end brings everything back and judges what the fleet has.
func (w *walk) end() {
	for _, id := range walkIDs {
		w.revive(id)
	}
	w.pass(time.Minute)
	out := w.status()
	if out.Pinned != nil {
		w.person("unpin")
	}
	if out.Paused != nil {
		w.person("resume")
	}
	w.note("end")
	w.pass(25 * time.Minute)
	w.judgeHead()
	for out = w.status(); out.Facts != nil && len(w.oracle.broken) == 0; out = w.status() { // peels whose facts wait have less, or more
		w.note("facts %s: %v", out.Facts.Hash[:8], w.order("approve", walkRequest{Hash: out.Facts.Hash}, &walkAct{verb: "facts"}))
		w.pass(time.Minute)
	}
	o := w.oracle
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, id := range walkIDs {
		h := o.hosts[id]
		if has := h.held; o.roll == nil && !o.gives(o.force, id, has) {
			o.failf(headEnds, "%s has %v, and not %s, which is in force: %+v", id, has, o.force.name, out.Conditions)
		}
	}
}
