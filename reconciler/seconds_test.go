package reconciler

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/hold"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A pair is a bench with two people, root's ann and bob, and ann's child, before a master that serves held actions.
type pair struct {
	*bench
	people user.Directory
	conns  map[string]*nats.Conn
}

func newPair(b *bench) *pair {
	b.t.Helper()
	must := func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	js, err := jetstream.New(b.bus.Conn(b.t, grants.RoleMaster, "m2"))
	must(err)
	known, err := reach.Open(b.t.Context(), js, nil)
	must(err)
	jobs, err := job.NewStore(b.t.Context(), js)
	must(err)
	p := &pair{bench: b, conns: map[string]*nats.Conn{}}
	p.people = user.Directory{Store: known.Users, Keys: b.bus.Keys, Push: func(context.Context) error { return nil }}
	for _, made := range [][2]string{{"ann", "root"}, {"bob", "root"}, {"child", "ann"}} {
		key, err := credential.MakeKey()
		must(err)
		_, _, err = p.people.Add(b.t.Context(), credential.UserRequest{Name: made[0], Role: grants.RoleOperator, Public: key.Public()}, made[1])
		must(err)
	}
	s := hold.New(hold.Options{
		JetStream: js, Jobs: jobs, Check: known.Check, CheckApart: known.CheckApart, CheckNotRevoked: known.CheckCurrent,
		Audit: audit.OpenLog(js, nil),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(func() { cancel(); serving.Wait() })
	b.after(time.Second)
	return p
}

// rule has all orders wait for a second person, or none.
func (p *pair) rule(is bool) {
	p.t.Helper()
	role := credential.Role{Role: access.Role{Name: "four-eyes", TwoPersons: []access.Second{{Verbs: []string{"sync.*"}}}}}
	err := p.people.Store.SetRole(p.t.Context(), role)
	if !is {
		_, err = p.people.Store.RemoveRole(p.t.Context(), role.Name)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.after(time.Second)
}

// says sends a request as a person.
func (p *pair) says(name, noun, verb string, question, answer any) error {
	p.mu.Lock()
	nc := p.conns[name]
	if nc == nil {
		nc = p.bus.Conn(p.t, grants.RoleOperator, name)
		p.conns[name] = nc
	}
	p.mu.Unlock()
	data, err := canon.Marshal(question)
	if err != nil {
		return err
	}
	msg, err := nc.Request(wire.API(noun, verb, name), data, 3*time.Minute)
	if err == nil {
		err = api.ReplyError(msg)
	}
	if err != nil {
		return err
	}
	return canon.Unmarshal(msg.Data, answer)
}

func (p *pair) approves(name string, id api.HoldID) error {
	return p.says(name, "hold", "approve", api.HoldRequest{ID: id}, new(api.HoldAction))
}

// waits has ann give an order, which has to wait, and returns its action.
func (p *pair) waits(o *secondOrder) api.HoldShown {
	p.t.Helper()
	err := p.says("ann", "sync", o.verb, o.ask(), new(status.Sync))
	id, ok := api.HeldAs(err)
	if !ok {
		p.t.Fatalf("sync %s does not wait: %v", o.verb, err)
	}
	var a api.HoldShown
	if err := p.says("ann", "hold", "show", api.HoldRequest{ID: id}, &a); err != nil {
		p.t.Fatal(err)
	}
	if name := o.names(); name == "" || !strings.Contains(string(a.Data), name) {
		p.t.Errorf("sync %s waits as %s, which does not name %q", o.verb, a.Data, name)
	}
	return a
}

// leavesOpen has ann store the order as an action by herself, so that nobody names what it is about: it is not carried out.
func (p *pair) leavesOpen(o *secondOrder) {
	p.t.Helper()
	var data []byte
	if q := o.ask(); q != nil {
		var err error
		if data, err = canon.Marshal(q); err != nil {
			p.t.Fatal(err)
		}
	}
	if strings.Contains(string(data), o.names()) || o.names() == encoded(p.t, nil) {
		return // it names all
	}
	var a api.HoldAction
	q := api.HoldAddRequest{Kind: api.HoldSecond, Verb: "sync." + o.verb, Data: data}
	if err := p.says("ann", "hold", "add", q, &a); err != nil {
		p.t.Fatal(err)
	}
	if err := p.approves("bob", a.ID); err == nil || !strings.Contains(err.Error(), "leaves open what it is about") {
		p.t.Errorf("sync %s, of which nobody said what it is about: %v", o.verb, err)
	}
	p.after(2 * time.Second)
	if o.done(p.status()) {
		p.t.Errorf("sync %s is carried out, and nobody said what it is about", o.verb)
	}
}

// A secondOrder is an order that ann gives and bob approves.
type secondOrder struct {
	verb   string
	ready  func()        // brings about what the order is about
	ask    func() any    // the request of ann
	names  func() string // what the request has to name while it waits
	change func()        // brings about something else, which ann has not seen; nil: nothing else can come
	refuse string        // says why the order is not carried out then
	done   func(status.Sync) bool
}

// twice holds an order to two persons: it is not carried out for what ann has not seen, ann and her child are refused, and of
// four approvals of bob one carries it out.
func (b *bench) twice(o secondOrder) {
	b.t.Helper()
	p := newPair(b)
	if o.change != nil {
		o.ready()
		p.rule(true)
		old := p.waits(&o)
		p.rule(false)
		o.change()
		p.rule(true)
		if err := p.approves("bob", old.ID); err == nil || !strings.Contains(err.Error(), o.refuse) {
			b.t.Errorf("sync %s, which ann asked for before: %v, want %q", o.verb, err, o.refuse)
		}
		b.after(2 * time.Second)
		if o.done(b.status()) {
			b.t.Errorf("sync %s is carried out for what ann has not seen: %+v", o.verb, b.status())
		}
		p.rule(false)
	}
	o.ready()
	p.rule(true)
	p.leavesOpen(&o)
	a := p.waits(&o)
	for name, why := range map[string]string{"ann": "they are the same", "child": "ann made child"} {
		for range 2 {
			if err := p.approves(name, a.ID); err == nil || !strings.Contains(err.Error(), why) {
				b.t.Errorf("%s approves sync %s: %v", name, o.verb, err)
			}
		}
	}
	b.after(2 * time.Second)
	if o.done(b.status()) {
		b.t.Errorf("sync %s is carried out before bob has approved it: %+v", o.verb, b.status())
	}
	var all sync.WaitGroup
	var carried atomic.Int32
	for range 4 {
		all.Go(func() {
			if p.approves("bob", a.ID) == nil {
				carried.Add(1)
			}
		})
	}
	all.Wait()
	b.after(2 * time.Second)
	if n := carried.Load(); n != 1 || !o.done(b.status()) {
		b.t.Errorf("sync %s is carried out by %d of 4 approvals: %+v", o.verb, n, b.status())
	}
	if err := p.approves("bob", a.ID); api.CodeOf(err) != api.CodeConflict {
		b.t.Errorf("sync %s once more: %v", o.verb, err)
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	data, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// secondOrders are all orders that may wait for a second person, by their verb and what they are about. Plans and gates are
// in TestAPlanGoesOutAfterTwoPersons.
var secondOrders = map[string]func(*testing.T){
	"approve, of a freeze": func(t *testing.T) {
		inFreeze(t, "", func(r *rollingBench) {
			var c settings.Commit
			n := 0
			next := func() {
				n++
				c = r.commit("x for w", map[string]string{"settings/web.yaml": xForW + strings.Repeat("# more\n", n)})
				r.now()
				r.frozen(c)
			}
			r.twice(secondOrder{
				verb: "approve", ready: next, change: next, refuse: "no freeze holds such a revision",
				ask:   func() any { return status.ApproveRequest{Hash: string(c[:8]), Override: true, Reason: "outage 7"} },
				names: func() string { return string(c) },
				done:  func(s status.Sync) bool { return s.Rollout != nil && s.Rollout.Commit == c },
			})
		})
	},
	"approve, of facts": func(t *testing.T) {
		withFacts(t, "", func(b *factsBench) {
			b.twice(secondOrder{
				verb:   "approve",
				ready:  func() { b.os("debian", b.ids...); b.os("other", b.ids...) },
				change: func() { b.os("debian", b.ids[:7]...) },
				refuse: "no such plan waits",
				ask:    func() any { return status.ApproveRequest{Hash: b.status().Facts.Hash[:8]} },
				names:  func() string { return b.status().Facts.Hash },
				done:   func(s status.Sync) bool { return s.Facts == nil && b.entries(b.ids[9]) == "a" },
			})
		})
	},
	"retry": func(t *testing.T) {
		inWaves(t, "[{name: canary, peels: 1, soak: 10m}]", func(r *rollingBench) {
			var bad settings.Commit
			n := 0
			fails := func() {
				n++
				bad = r.commit("x for w", map[string]string{"settings/web.yaml": xForW + strings.Repeat("# more\n", n)})
				r.now()
				r.runs(r.ids[0], "x", wire.Result{})
				r.takenBack(bad, "of x failed")
			}
			r.twice(secondOrder{
				verb: "retry", ready: fails, change: fails, refuse: "the branch has moved to ",
				ask:   func() any { return nil },
				names: func() string { return string(bad) },
				done:  func(s status.Sync) bool { return s.Rollout != nil && s.Rollout.Commit == bad },
			})
		})
	},
	"pin": func(t *testing.T) {
		withBad(t, func(b *bench, good, _ settings.Commit) {
			b.twice(secondOrder{
				verb: "pin", ready: func() {},
				ask:   func() any { return status.PinRequest{Revision: string(good[:6])} },
				names: func() string { return string(good) },
				done:  func(s status.Sync) bool { return s.Pinned != nil && s.LastGood.Commit == good },
			})
		})
	},
	"unpin": func(t *testing.T) {
		withBad(t, func(b *bench, good, bad settings.Commit) {
			pin := func() { b.told("pin", status.PinRequest{Revision: string(good)}) }
			b.twice(secondOrder{
				verb: "unpin", ready: pin, change: func() { b.told("unpin", nil); pin() }, refuse: "op has made another one at ",
				ask:   func() any { return nil },
				names: func() string { return encoded(t, status.ReleaseRequest{Since: b.status().Pinned.Time}) },
				done:  func(s status.Sync) bool { return s.Pinned == nil && s.LastGood.Commit == bad },
			})
		})
	},
	"resume": func(t *testing.T) {
		withBad(t, func(b *bench, _, _ settings.Commit) {
			pause := func() {
				if b.status().Paused == nil {
					b.told("pause", nil)
				}
			}
			b.twice(secondOrder{
				verb: "resume", ready: pause, change: func() { b.told("resume", nil); pause() }, refuse: "op has made another one at ",
				ask:   func() any { return nil },
				names: func() string { return encoded(t, status.ReleaseRequest{Since: b.status().Paused.Time}) },
				done:  func(s status.Sync) bool { return s.Paused == nil },
			})
		})
	},
	"adopt": func(t *testing.T) {
		inBubble(t, siteFiles(), func(b *bench) {
			b.peel("web-01", nil)
			store := b.t.TempDir()
			b.startIn(store)
			own := b.record().Source.String()
			follow := func() {
				b.stop()
				b.dir, _ = b.otherRepo()
				b.startIn(store)
				b.after(20 * time.Second)
			}
			b.twice(secondOrder{
				verb: "adopt", ready: follow, change: follow, refuse: "the master that answers follows ",
				ask:   func() any { return *b.status().Adopt },
				names: func() string { return b.status().Adopt.To },
				done:  func(s status.Sync) bool { return s.Adopt == nil && b.record().Source.String() != own },
			})
		})
	},
	"remove": func(t *testing.T) {
		inBubble(t, siteFiles(), func(b *bench) {
			b.peel("web-01", nil)
			b.peel("web-02", nil)
			b.start()
			goes := func() { b.alter(away, "web-02"); b.after(10 * time.Minute) }
			comes := func() { b.alter(func(p *actor) { p.away = false }, "web-02"); b.after(time.Minute) }
			b.twice(secondOrder{
				verb: "remove", ready: goes, change: comes, refuse: "it is online",
				ask:   func() any { return status.RemoveRequest{Peel: target.PeelID("web-02")} },
				names: func() string { return "web-02" },
				done:  func(s status.Sync) bool { return s.Counts.Peels == 1 },
			})
		})
	},
	"now": func(t *testing.T) {
		inBubble(t, siteFiles(), func(b *bench) {
			b.peel("web-01", nil)
			b.start()
			b.poll = time.Hour
			b.stop()
			b.start()
			var c settings.Commit
			b.twice(secondOrder{
				verb:  "now",
				ready: func() { c = b.commit("x for w", map[string]string{"settings/web.yaml": xForW}) },
				ask:   func() any { return nil },
				names: func() string { return encoded(t, nil) },
				done:  func(s status.Sync) bool { return s.Observed == c },
			})
		})
	},
}

func TestEachOrderThatTwoPersonsGiveIsOfWhatTheFirstSaw(t *testing.T) {
	for what, try := range secondOrders {
		t.Run(what, try)
	}
	for _, name := range api.Verbs() {
		verb, isSync := strings.CutPrefix(name, "sync.")
		if !isSync || !access.IsHeld(access.Verb(name)) {
			continue
		}
		found := false
		for what := range secondOrders {
			found = found || strings.Split(what, ",")[0] == verb
		}
		if !found {
			t.Errorf("sync.%s may wait for a second person, and is not tried", verb)
		}
	}
}
