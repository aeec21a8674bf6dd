package reconciler

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

var (
	walkSeeds = flag.Int("walk.seeds", 3, "random histories of the reconciler")
	walkSeed  = flag.Uint64("walk.seed", 1, "the first of them")
	walkSteps = flag.Int("walk.steps", 40, "of each")
	walkAll   = flag.Bool("walk.all", false, "go on after the first violation of a history, and do not shrink it")
	walkShow  = flag.Bool("walk.show", false, "print all steps")
)

// TestRandomHistories makes random histories of commits, orders, facts, deaths and returns of hosts and masters, and judges
// by a [walkOracle] what the reconciler makes of them. The same seed is the same history:
//
//	go test ./reconciler -run RandomHistories -walk.seeds 1000 -walk.seed 1 -walk.steps 60
func TestRandomHistories(t *testing.T) {
	found := map[string]int{}
	for seed := *walkSeed; seed < *walkSeed+uint64(*walkSeeds); seed++ {
		steps := randomSteps(seed, *walkSteps)
		w := walkOf(t, seed, steps)
		if len(w.oracle.broken) == 0 {
			if *walkShow {
				t.Logf("seed %d:\n%s", seed, strings.Join(w.log, "\n"))
			}
			continue
		}
		sentence, _, _ := strings.Cut(w.oracle.broken[0], ":")
		found[sentence]++
		if *walkAll {
			t.Errorf("seed %d:\n%s", seed, strings.Join(w.oracle.broken, "\n"))
			continue
		}
		least := shrunk(t, seed, steps, sentence)
		w = walkOf(t, seed, least)
		t.Errorf("seed %d, %d of %d steps:\n%s\n=> %s", seed, len(least), len(steps), strings.Join(w.log, "\n"), strings.Join(w.oracle.broken, "\n"))
	}
	if len(found) > 0 {
		t.Log(found)
	}
}

// A walkStep is one step of a history. Its random numbers depend on its seed alone, so that it does the same when other
// steps are left out.
type walkStep struct {
	kind string
	seed uint64
}

// walkKinds are the kinds of steps, each as often as it is likely.
var walkKinds = strings.Fields(`settings settings settings settings settings bad bad bad bad rules rules rules freeze entry entry
	broken approve approve approve approve stale gate gate gate gate gate gate gatelate gatelate override override pin pin unpin unpin pause resume resume
	retry rewrite fact facts die die return return outage master master wait wait wait wait wait long long`)

func randomSteps(seed uint64, n int) (steps []walkStep) {
	r := rand.New(rand.NewPCG(seed, 18))
	for range n {
		steps = append(steps, walkStep{walkKinds[r.IntN(len(walkKinds))], r.Uint64()})
	}
	return steps
}

// shrunk returns steps that still break the sentence, with as many left out as a few tries find.
func shrunk(t *testing.T, seed uint64, steps []walkStep, sentence string) []walkStep {
	tries := 80
	for size := max(1, len(steps)/2); size > 0; size /= 2 {
		for at := 0; at < len(steps) && tries > 0; tries-- {
			less := slices.Delete(slices.Clone(steps), at, min(at+size, len(steps)))
			w := walkOf(t, seed, less)
			if len(w.oracle.broken) > 0 && strings.HasPrefix(w.oracle.broken[0], sentence+":") {
				steps = less
			} else {
				at += size
			}
		}
	}
	return steps
}

// A walk is one random history.
type walk struct {
	*bench
	oracle *walkOracle
	random *rand.Rand // of the step under way
	head   *walkRevision
	all    []*walkRevision
	marks  int
	seen   []status.Sync // with a plan that waited
	store  string
	log    []string
	began  time.Time
	over   chan struct{} // closed when the walk is over
}

var walkIDs = []target.PeelID{"db-00", "db-01", "web-00", "web-01", "web-02", "web-03"}

func walkOf(t *testing.T, seed uint64, steps []walkStep) (w *walk) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	first := &walkRevision{name: "r0", groups: map[string]walkGroup{}}
	for _, name := range walkGroups {
		first.groups[name] = walkGroup{effect: harmless, extras: []string{"x1", "x2"}}
	}
	first.rules.waves = randomWalkWaves(r)
	files := fstest.MapFS{}
	for name, content := range first.files() {
		files[name] = text(content)
	}
	inBubble(t, files, func(b *bench) {
		b.poll = time.Hour // a push tells the master, so that the same seed is the same history: polls have jitter
		b.history = []History{HistoryApprove, HistoryApprove, HistoryAllow, HistoryForbid}[r.IntN(4)]
		head, err := b.work.Head()
		if err != nil {
			t.Fatal(err)
		}
		first.commit = settings.Commit(head.String())
		w = &walk{bench: b, head: first, all: []*walkRevision{first}, store: t.TempDir(), began: time.Now(), over: make(chan struct{})}
		defer close(w.over)
		w.oracle = &walkOracle{
			ids: walkIDs, hosts: map[target.PeelID]*walkHost{}, revs: map[settings.Commit]*walkRevision{first.commit: first}, history: string(b.history),
			heads: []*walkRevision{first}, headAt: []time.Time{w.began}, skipped: map[settings.Commit]bool{}, taken: map[target.PeelID]int{},
		}
		w.watch()
		for i, id := range walkIDs {
			w.host(id, []string{"a", "b", "a"}[i%3])
		}
		w.random = r
		w.lead()
		w.note("r0 %s history %s", strings.ReplaceAll(first.rules.file(), "\n", " "), b.history)
		for _, s := range steps {
			w.step(s)
			if len(w.oracle.broken) > 0 && !*walkAll {
				return
			}
		}
		w.end()
	})
	return w
}

func randomWalkWaves(r *rand.Rand) (waves []walkWave) {
	soaks := []time.Duration{0, 5 * time.Second, time.Minute, 10 * time.Minute}
	for _, name := range []string{"canary", "some", "half"}[:r.IntN(4)] {
		w := walkWave{name: name, count: 1 + r.IntN(3), soak: soaks[r.IntN(4)], fails: max(0, r.IntN(5)-3), manual: r.IntN(3) == 0}
		switch r.IntN(5) {
		case 0:
			w.count, w.percent = 0, 50
		case 1:
			w.count, w.target = 0, []string{"web-*", "db-*"}[r.IntN(2)]
		}
		waves = append(waves, w)
	}
	return waves
}

func (w *walk) note(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%8s  ", time.Since(w.began).Truncate(time.Second))+fmt.Sprintf(format, args...))
}

// watch has the oracle see each record and document, in the order in which the bus stored them.
func (w *walk) watch() {
	nc := w.bus.Conn(w.t, grants.RoleMaster, "oracle")
	messages := make(chan *nats.Msg, 10_000)
	for _, subject := range []string{"$KV.rollout.>", wire.Settings("*")} {
		if _, err := nc.ChanSubscribe(subject, messages); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		for {
			select {
			case m := <-messages:
				w.oracle.on(m)
			case <-w.t.Context().Done():
				return
			}
		}
	}()
}

// lead runs a master in the present store.
func (w *walk) lead() {
	w.startIn(w.store)
	w.oracle.mu.Lock()
	w.oracle.leader = time.Now()
	w.oracle.mu.Unlock()
}

// pass lets time pass, which the oracle watches.
func (w *walk) pass(d time.Duration) {
	for d > 0 {
		part := min(d, 10*time.Second)
		w.after(part)
		w.oracle.tick(time.Now())
		d -= part
	}
}

// host adds a peel.
func (w *walk) host(id target.PeelID, tier string) {
	p := &actor{nc: w.bus.Conn(w.t, grants.RolePeel, id.Wire())}
	w.oracle.hosts[id] = &walkHost{tier: tier, tiers: map[string]bool{tier: true}}
	if _, err := p.nc.Subscribe(wire.Settings(id.Wire()), func(m *nats.Msg) {
		if doc, err := settings.Decode(m.Data, id); err == nil {
			w.react(id, doc)
		}
	}); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.peels[id] = p
	w.mu.Unlock()
	w.tell(id)
	_ = p.nc.Publish(wire.Heartbeat(id.Wire()), nil)
}

// tell has a peel report its facts.
func (w *walk) tell(id target.PeelID) {
	w.say(id, wire.Fact(id.Wire()), wire.Facts{Peel: id, Facts: target.Facts{"tier": w.oracle.hosts[id].tier}, V: wire.Version})
}

// isDead reports whether a host is down.
func (w *walk) isDead(id target.PeelID) bool {
	w.oracle.mu.Lock()
	defer w.oracle.mu.Unlock()
	return w.oracle.hosts[id].dead
}

// kill takes a host down.
func (w *walk) kill(id target.PeelID, outage bool) {
	w.alter(away, id)
	w.oracle.mu.Lock()
	defer w.oracle.mu.Unlock()
	if h := w.oracle.hosts[id]; !h.dead {
		h.dead, h.outage = true, outage
	}
}

// revive brings a host back, which reports its facts and takes the settings that it finds.
func (w *walk) revive(id target.PeelID) {
	w.oracle.mu.Lock()
	h := w.oracle.hosts[id]
	was := h.dead
	h.dead, h.outage, h.awayAlt, h.back = false, false, time.Time{}, time.Now()
	w.oracle.mu.Unlock()
	if !was {
		return
	}
	w.alter(func(p *actor) { p.away = false }, id)
	w.say(id, wire.Fact(id.Wire()), wire.Facts{Peel: id, Facts: target.Facts{"tier": h.tier}, V: wire.Version})
	w.mu.Lock()
	nc := w.peels[id].nc
	w.mu.Unlock()
	_ = nc.Publish(wire.Heartbeat(id.Wire()), nil)
	if doc := w.document(id); doc != nil {
		w.react(id, doc)
	}
}

// later calls f after d, unless the walk is over.
func (w *walk) later(d time.Duration, f func()) {
	go func() {
		select {
		case <-time.After(d):
			f()
		case <-w.over:
		}
	}()
}

// react is what a peel does with its settings.
func (w *walk) react(id target.PeelID, doc *settings.Document) {
	c, err := contentOfDocument(doc)
	if err != nil || w.isDead(id) {
		return
	}
	applied := func(errs ...string) { w.say(id, wire.SettingsApplied(id.Wire()), reportOn(doc, errs...)) }
	has := map[effect][]string{} // groups
	for _, name := range walkGroups {
		if f := strings.Fields(c[name]); len(f) > 0 {
			has[effect(f[1])] = append(has[effect(f[1])], name)
		}
	}
	switch {
	case has[ignored] != nil:
		return
	case has[killsAtOnce] != nil:
		w.kill(id, false)
		return
	case has[killsLater] != nil:
		w.later(20*time.Second, func() { w.kill(id, false) })
	}
	var errs []string
	for _, group := range has[reportsErr] {
		errs = append(errs, "cannot use "+group+" "+c[group])
	}
	applied(errs...)
	for _, e := range []effect{failsRun, cutsRun} {
		for _, group := range has[e] {
			w.later(3*time.Second, func() { w.fail(id, doc, group+"_job", e) })
		}
	}
}

// fail reports a failed run.
func (w *walk) fail(id target.PeelID, doc *settings.Document, entry string, e effect) {
	r := wire.Result{Error: "exit code 1"}
	if e == cutsRun {
		r.Outcome = wire.Interrupted
	}
	jid := wire.NewJID()
	w.say(id, wire.ScheduledOf(jid, id.Wire()), wire.ScheduledResult{
		JID: jid, Peel: id, Entry: entry, Function: "test.ping", Result: r, Commit: string(doc.Origins[entry].Commit), V: wire.Version,
	})
}

// order gives an order and returns why it was refused. An order about the wrong revision is refused by the reconciler.
func (w *walk) order(verb string, question any, act *walkAct) (refusal string) {
	if act != nil {
		act.at = time.Now()
		w.oracle.mu.Lock()
		w.oracle.acts = append(w.oracle.acts, act)
		w.oracle.mu.Unlock()
	}
	var out status.Sync
	refusal = w.ask(verb, question, &out)
	w.oracle.mu.Lock()
	defer w.oracle.mu.Unlock()
	if act != nil {
		act.refused = refusal != ""
	}
	return refusal
}

// A walkRequest is a request of any order. Revision is the one that the person saw.
type walkRequest struct {
	Hash       string          `json:"hash,omitempty"`
	Wave       string          `json:"wave,omitempty"`
	Override   bool            `json:"override,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Revision   settings.Commit `json:"revision,omitempty"`
	UntilNewer bool            `json:"until_newer,omitempty"`
}
