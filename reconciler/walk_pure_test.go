package reconciler

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/archive"
	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/decide"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/rollout"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

var pureSeeds = flag.Int("walk.pure", 6, "random histories of 200 steps of the pure functions")

// TestRandomHistoriesOfThePureParts is [TestRandomHistories] without bus, repo and compiler: it calls decide.Next, the orders
// and the steps of rollouts, and does at once what they say.
func TestRandomHistoriesOfThePureParts(t *testing.T) {
	for seed := *walkSeed; seed < *walkSeed+uint64(*pureSeeds); seed++ {
		w := newPure(t, seed)
		for range 200 {
			w.step()
			if len(w.o.broken) > 0 {
				t.Fatalf("seed %d:\n%s\n=> %s", seed, strings.Join(w.log[max(0, len(w.log)-40):], "\n"), strings.Join(w.o.broken, "\n"))
			}
		}
	}
}

// A pureWalk is a leader whose tasks take no time, and its fleet.
type pureWalk struct {
	t      *testing.T
	s      decide.State
	o      *walkOracle
	random *rand.Rand
	now    time.Time
	all    []*walkRevision
	head   *walkRevision
	safety map[*walkRevision]policy.Safety
	fleet  *peelindex.Index
	has    map[target.PeelID]walkContent // what a peel has applied
	fails  map[target.PeelID]string      // the failed run of what it has
	late   map[target.PeelID]time.Time
	lost   map[target.PeelID]time.Time
	outage rollout.Outage
	of     settings.Commit // the rollout that late and lost are of
	log    []string
}

func newPure(t *testing.T, seed uint64) *pureWalk {
	w := &pureWalk{
		t: t, random: rand.New(rand.NewPCG(seed, 4)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), safety: map[*walkRevision]policy.Safety{},
		fleet: peelindex.New(), has: map[target.PeelID]walkContent{}, fails: map[target.PeelID]string{},
		o: &walkOracle{ids: walkIDs, hosts: map[target.PeelID]*walkHost{}, revs: map[settings.Commit]*walkRevision{}, history: "approve", skipped: map[settings.Commit]bool{}},
	}
	w.o.leader = w.now
	for _, id := range walkIDs {
		w.o.hosts[id] = &walkHost{tier: "b", tiers: map[string]bool{"b": true}}
		w.fleet.Put(id, nil)
	}
	v := &walkRevision{groups: map[string]walkGroup{}, rules: walkRules{waves: randomWalkWaves(w.random)}}
	for _, name := range walkGroups {
		v.groups[name] = walkGroup{effect: harmless, extras: []string{"x1", "x2"}}
	}
	w.lead()
	w.push(v)
	w.settle()
	return w
}

// lead begins a term.
func (w *pureWalk) lead() {
	r := w.s.Record
	w.s = decide.State{Now: w.now, Session: decide.Session{Owner: "m1"}, Record: r, Changes: 1, RepublishAt: w.now.Add(time.Hour)}
	w.o.leader, w.of, w.outage = w.now, "", rollout.Outage{}
	if w.head != nil {
		w.s.Source = decide.Branch{Attempt: 1, Head: w.head.commit}
	}
}

func (w *pureWalk) push(v *walkRevision) {
	v.name, v.parent, v.pushed = fmt.Sprintf("r%d", len(w.all)), w.head, w.now
	v.commit = settings.Commit(fmt.Sprintf("%08x%032x", len(w.all)+1, 0))
	doc, err := strictyaml.Parse("zester.yaml", []byte(v.rules.file()))
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := policy.ParsePolicy(doc)
	if err != nil {
		w.t.Fatal(err)
	}
	w.safety[v] = policy.Safety{Limits: &p.Limits, Waves: p.Waves, Freezes: p.Freezes}
	w.o.revs[v.commit], w.all = v, append(w.all, v)
	w.move(v)
}

func (w *pureWalk) move(v *walkRevision) {
	w.head = v
	w.o.heads, w.o.headAt = append(w.o.heads, v), append(w.o.headAt, w.now)
	w.s.Source.Attempt++
	w.s.Source.Head = v.commit
}

func (w *pureWalk) compiled(c settings.Commit) decide.Compiled {
	v := w.o.revs[c]
	h, _ := gitrepo.ParseHash(string(c))
	safety := w.safety[v]
	p := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}, Waves: safety.Waves, Freezes: safety.Freezes, Limits: *safety.Limits}
	for _, id := range walkIDs {
		p.Peels[id] = &plan.Effective{Digest: settings.Digest(fmt.Sprint(v.content(id, "b")))}
	}
	return decide.Compiled{Revision: &archive.Revision{Commit: gitrepo.Commit{Hash: h}, Safety: &safety}, Plan: p, Changes: w.s.Changes}
}

// wanted returns what the record gives to a peel.
func (w *pureWalk) wanted(id target.PeelID) walkContent {
	r := &w.s.Record
	if r.Rollout != nil && r.Rollout.Has(id) {
		return w.o.revs[r.Rollout.Commit].content(id, "b")
	}
	return w.o.revs[r.Commit].content(id, "b")
}

// settle carries out what decide says until there is nothing more.
func (w *pureWalk) settle() {
	for range 300 {
		s := &w.s
		s.Now = w.now
		w.observe()
		switch a := decide.Next(s); a.Kind {
		case decide.DoNothing:
			s.Show(false)
			return
		case decide.DoJudge:
			s.Judged = w.judge()
		case decide.DoCompare:
			s.Compared = decide.Comparison{Head: s.Source.Head, Pinned: s.Record.Pinned.Commit, Descends: w.head.descends(w.o.revs[s.Record.Pinned.Commit])}
		case decide.DoMeasure:
			s.Measured = &decide.Measurement{Commit: a.Commit}
		case decide.DoPrepare:
			p := &decide.Prepared{Goal: decide.GoalOf(&s.Record), Changes: s.Changes, Base: w.compiled(s.Record.Commit)}
			if s.Record.Rollout != nil {
				p.Next = w.compiled(s.Record.Rollout.Commit)
			}
			for _, id := range walkIDs {
				if !w.wanted(id).equal(w.o.hosts[id].held) {
					p.Lacking++
				}
			}
			s.Prepared = p
		case decide.DoPublish:
			w.keep(a.Next)
			p := *s.Prepared
			p.Lacking = 0
			s.Prepared = &p
			for _, id := range walkIDs {
				if c := w.wanted(id); !c.equal(w.o.hosts[id].held) {
					w.o.onContent(id, c, w.now)
					w.react(id)
				}
			}
		case decide.DoRepublish:
			s.RepublishAt = w.now.Add(time.Hour)
		default:
			w.keep(a.Next)
			if a.Kind == decide.DoEnforce || a.Kind == decide.DoBeginRollout {
				s.Measured = nil
			}
		}
	}
	w.o.failf(headEnds, "the leader runs in a circle: %+v", decide.Next(&w.s))
}

// keep stores a record, and has the oracle see it.
func (w *pureWalk) keep(r record.Record) {
	w.s.Record = r
	seen := walkRecord{Commit: r.Commit}
	if r.Rollout != nil {
		seen.Rollout = &walkOut{r.Rollout.Commit, r.Rollout.Started}
	}
	if r.Pinned != nil {
		seen.Pinned = &walkPin{r.Pinned.Commit}
	}
	for _, s := range r.Skipped {
		seen.Skipped = append(seen.Skipped, walkRolledBack{s.Commit, s.Time})
	}
	w.o.onRecord(seen, w.now)
}

func (w *pureWalk) judge() *decide.Judgement {
	s, c := &w.s, w.head
	h, _ := gitrepo.ParseHash(string(c.commit))
	j := &decide.Judgement{Commit: c.commit, Info: gitrepo.Commit{Hash: h}, Made: s.Basis(), Arrived: s.Basis(), Attempt: s.Source.Attempt}
	j.Guard.Hash = string(c.commit)
	if c.broken {
		j.Refused = &decide.Refused{Kind: status.CompileFailed, Messages: []string{"broken"}}
		return j
	}
	if base := w.o.revs[s.Record.Commit]; base != nil {
		j.Guard.Exceeded, j.Guard.Allowed = w.o.surelyOver(base, c), c.allowed
		j.Guard.Weakened = strings.Join(s.Record.Weakened(w.safety[c]), "; ")
		j.Out.Peels = w.o.changedBy(base, c)
	}
	for _, last := range s.Record.Ancestors() {
		if !c.descends(w.o.revs[last]) {
			j.Guard.Rewritten = "the branch moved"
		}
	}
	j.Out.Own, j.Out.Base, j.Out.Fleet = w.safety[c], true, w.fleet
	return j
}

// react is what a peel does with what it has.
func (w *pureWalk) react(id target.PeelID) {
	h := w.o.hosts[id]
	delete(w.fails, id)
	if h.dead {
		return
	}
	has := func(e effect) bool {
		return slices.ContainsFunc(walkGroups, func(name string) bool { return strings.Contains(h.held[name], " "+string(e)+" ") })
	}
	switch {
	case has(ignored):
		return
	case has(killsAtOnce), has(killsLater):
		h.dead = true
		return
	case has(reportsErr), has(failsRun), has(cutsRun):
		w.fails[id] = "a run failed"
	}
	w.has[id] = h.held
}

// observe shows the fleet to the rollout under way.
func (w *pureWalk) observe() {
	s := &w.s
	r := s.Record.Rollout
	if r == nil || s.Prepared == nil || s.Prepared.Goal != decide.GoalOf(&s.Record) {
		s.Observe(nil)
		return
	}
	if w.of != r.Commit {
		w.of, w.outage, w.late, w.lost = r.Commit, rollout.Outage{}, map[target.PeelID]time.Time{}, map[target.PeelID]time.Time{}
	}
	o := rollout.Observed{Now: w.now, Fleet: w.fleet, Freezes: s.Record.Freezes}
	if s.Record.Suspended != nil {
		o.Paused = "paused"
	}
	online := false
	for _, id := range walkIDs {
		if !s.Prepared.ChangesPeel(id) {
			continue
		}
		h := w.o.hosts[id]
		p := rollout.Peel{ID: id, Applied: r.Has(id) && w.has[id].equal(h.held)}
		if !h.dead {
			online, p.Presence = true, rollout.Online
		}
		if base := w.o.revs[s.Record.Commit].content(id, "b"); r.Has(id) && h.held.effect(base) != harmless {
			p.Run = w.fails[id]
		}
		p.Lacking = since(w.late, id, w.now, r.Has(id) && !p.Applied && !h.dead)
		o.Peels = append(o.Peels, p)
	}
	w.outage.Update(o.Peels, w.now)
	o.Outage = w.outage
	for i := range o.Peels {
		p := &o.Peels[i]
		p.Lost = since(w.lost, p.ID, w.now, online && r.Has(p.ID) && p.Presence == rollout.Away)
	}
	s.Observe(&o)
}

// step makes one random step.
func (w *pureWalk) step() {
	r := w.random
	what := ""
	switch k := r.IntN(20); k {
	case 0, 1, 2, 3, 4, 5:
		what = w.change(k)
	case 6:
		v := w.all[max(0, len(w.all)-1-r.IntN(4))]
		w.move(v)
		what = "back to " + v.name
	case 7:
		id := walkIDs[r.IntN(len(walkIDs))]
		w.o.hosts[id].dead = true
		what = "dead " + string(id)
	case 8, 9:
		for _, id := range walkIDs {
			if h := w.o.hosts[id]; h.dead && r.IntN(2) == 0 {
				h.dead, h.outage, h.back = false, false, w.now
				w.react(id)
			}
		}
		what = "some are back"
	case 10:
		w.lead()
		what = "another leader"
	case 11:
		for _, id := range walkIDs {
			w.o.hosts[id].dead, w.o.hosts[id].outage = true, true
		}
		what = "outage"
	case 12, 13, 14, 15:
		what = w.order()
	default:
		what = "time"
		for range r.IntN(60) {
			w.wait(10 * time.Second)
		}
	}
	w.settle()
	state := ""
	if out := w.s.Record.Rollout; out != nil {
		state = fmt.Sprintf(", %s in wave %s %s: %s", w.o.revs[out.Commit].name, out.Wave().Name, w.s.Step.State, w.s.Step.Reason)
	}
	w.log = append(w.log, fmt.Sprintf("%s %s => %s in force%s", w.now.Format("15:04:05"), what, w.o.revs[w.s.Record.Commit].name, state))
	w.wait(time.Duration(1+r.IntN(10)) * time.Second)
}

func (w *pureWalk) wait(d time.Duration) {
	w.now = w.now.Add(d)
	w.settle()
	w.o.tick(w.now)
}

// change commits a change.
func (w *pureWalk) change(k int) string {
	r := w.random
	v := &walkRevision{groups: maps.Clone(w.head.groups), rules: w.head.rules.clone()}
	name := walkGroups[r.IntN(len(walkGroups))]
	g := v.groups[name]
	g.mark, g.effect = len(w.all), harmless
	switch k {
	case 0:
		g.effect = effects[r.IntN(len(effects))]
	case 1:
		v.rules.waves = randomWalkWaves(r)
	case 2:
		g.extras = []string{"x1", "x2", "x3"}[:r.IntN(4)]
	case 3:
		from := w.now.Add(time.Duration(r.IntN(300)) * time.Second)
		v.rules.freezes = []walkFreeze{{from, from.Add(time.Hour), ""}}
	case 4:
		v.broken = r.IntN(3) == 0
	}
	v.groups[name] = g
	w.push(v)
	return fmt.Sprintf("%s after %s: %s %+v %s", v.name, v.parent.name, name, g, strings.ReplaceAll(v.rules.file(), "\n", " "))
}

// order gives an order of a person.
func (w *pureWalk) order() string {
	s, o := &w.s, w.o
	var change control.Change
	act := &walkAct{at: w.now}
	what := ""
	switch w.random.IntN(8) {
	case 0, 1, 2:
		if b := s.Record.Blocked; b != nil {
			act.verb, act.about, what = "approve", o.revs[b.Commit], "approve"
			change = control.Approve(status.ApproveRequest{Hash: b.Hash, Revision: string(b.Commit)}, "ada")
		} else if out := s.Record.Rollout; out != nil {
			act.verb, act.about, act.wave, what = "gate", o.revs[out.Commit], out.Wave().Name, "gate"
			change = control.OpenGate(status.ApproveRequest{Wave: act.wave, Revision: string(out.Commit)}, "ada")
		}
	case 3:
		v := w.all[max(0, len(w.all)-1-w.random.IntN(4))]
		if s.Record.HasTried(v.commit) && !v.broken {
			act.verb, act.about, what = "pin", v, "pin"
			change = control.Pin(w.compiled(v.commit).Revision, "ada", w.random.IntN(2) == 0)
		}
	case 4:
		what, change = "unpin", control.Unpin(time.Time{})
	case 5:
		what, change = "pause", control.Pause("ada")
	case 6:
		what, change = "resume", control.Resume(time.Time{})
	case 7:
		act.verb, act.about, what = "retry", w.head, "retry"
		change = control.Retry("", "ada")
	}
	if change == nil {
		return "no order"
	}
	next, err := change(s.Record, control.Seen{Now: w.now, Owner: "m1", Head: s.Source.Head})
	if err != nil {
		return what + " refused: " + err.Error()
	}
	switch what {
	case "pause":
		o.paused = w.now
	case "resume":
		o.paused = time.Time{}
	}
	if act.verb != "" {
		o.acts = append(o.acts, act)
	}
	w.keep(next)
	return what
}
