package reconciler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/control"
	"github.com/seed-c01c3da5/zester/reconciler/plan/diff"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// plan asks for the plan of what waits.
func (b *bench) plan() (p status.Plan) {
	b.t.Helper()
	if why := b.ask("plan", nil, &p); why != "" {
		b.t.Fatal(why)
	}
	return p
}

func TestThePlanOfTheWaitingRevision(t *testing.T) {
	inWaves(t, "[{name: canary, peels: 1, soak: 1h}]", func(r *rollingBench) {
		if why := r.ask("plan", nil, new(status.Plan)); !strings.Contains(why, "no revision waits, "+r.good.Short()+" is in force") {
			r.t.Errorf("nothing waits: %q", why)
		}
		expect := func(waits status.Wait, c settings.Commit, reason string) status.Plan {
			r.t.Helper()
			p := r.plan()
			if p.Waits != waits || p.Commit != c || p.Base != r.good || !strings.Contains(p.Reason, reason) {
				r.t.Errorf("%+v, want %s of %s for %q", p, waits, c.Short(), reason)
			}
			return p
		}
		broken := r.commit("broken", map[string]string{"top.yaml": "base: ["})
		r.now()
		expect(status.WaitCommit, broken, "top.yaml:1:")
		large := r.commit("too much", map[string]string{"top.yaml": string(siteFiles()["top.yaml"].Data), "settings/common.yaml": "schedule:\n  a: {module: test.ping, interval: 1h}\n  z: {module: test.ping, interval: 1h}\n"})
		blocked := r.now()
		p := expect(status.WaitApproval, large, "settings")
		if p.Hash != blocked.Blocked || p.Change == nil || p.Change.Peels != 4 || p.Change.Removed != 12 || p.Change.Added != 4 || p.Change.Before != 20 {
			r.t.Fatalf("%+v, %+v", p, p.Change)
		}
		if g := p.Change.Groups; len(g) != 1 || g[0].Count != 4 || fmt.Sprint(g[0].Removed, g[0].Added, len(g[0].Peels)) != "[b c d] [z] 4" {
			r.t.Errorf("%+v", g)
		}
		var named status.Plan
		if why := r.ask("plan", status.PlanRequest{Revision: string(large[:6])}, &named); why != "" || named.Hash != p.Hash {
			r.t.Errorf("by its commit: %q, %+v", why, named)
		}
		for revision, want := range map[string]string{"abc": "give 4 digits", string(broken): "keeps the plan of " + large.Short() + " alone"} {
			if why := r.ask("plan", status.PlanRequest{Revision: revision}, new(status.Plan)); !strings.Contains(why, want) {
				r.t.Errorf("%s: %q", revision, why)
			}
		}
		r.stop()
		r.start() // and the next leader makes it again
		if p := expect(status.WaitApproval, large, "settings"); p.Change == nil || p.Hash != blocked.Blocked {
			r.t.Errorf("%+v", p)
		}
		r.told("pin", status.PinRequest{Revision: string(r.good)})
		if p := expect(status.WaitPin, large, "zester sync unpin"); p.Change == nil {
			r.t.Errorf("what was judged before the pin: %+v", p)
		}
		next := r.commit("x", map[string]string{"settings/common.yaml": string(siteFiles()["settings/common.yaml"].Data), "settings/web.yaml": xForW})
		r.now()
		if p := expect(status.WaitPin, next, "zester sync unpin"); p.Change != nil || p.Hash != "" {
			r.t.Errorf("a plan that nobody has made: %+v", p)
		}
		r.told("pause", nil)
		r.told("unpin", nil)
		expect(status.WaitPause, next, "zester sync resume")
		r.told("resume", nil)
		if p := expect(status.WaitWaves, next, "wave 1 of 1"); p.Change == nil || p.Change.Peels != 4 {
			r.t.Errorf("%+v", p)
		}
		r.runs(r.ids[0], "x", wire.Result{})
		expect(status.WaitRetry, next, "zester sync retry "+next.Short())
	})
}

func TestAPlanThatAFreezeHolds(t *testing.T) {
	inFreeze(t, "", func(r *rollingBench) {
		c := r.next()
		if p := r.plan(); p.Waits != status.WaitFreeze || p.Commit != c || p.Base != r.good || p.Reason == "" || p.Change == nil || p.Change.Peels != 4 {
			r.t.Errorf("%+v", p)
		}
	})
}

func TestAPlanNamesStatesAfterEntries(t *testing.T) {
	c := control.ChangeOf(&diff.Difference{
		Counts: diff.Counts{Added: 2, StatesAdded: 2, StatesChanged: 2, StatesRemoved: 4},
		Groups: []diff.Group{{
			Peels: []target.PeelID{"a", "b"}, Entries: schedule.Changes{Added: []string{"ping"}},
			States: diff.StateChanges{Added: []string{"nginx"}, Changed: []string{"/etc/motd"}, Removed: []string{"vim", "nano"}},
		}},
	})
	g := c.Groups[0]
	if got, want := fmt.Sprint(g.Added, g.Changed, g.Removed), "[ping state:nginx] [state:/etc/motd] [state:vim state:nano]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if c.StatesAdded != 2 || c.StatesChanged != 2 || c.StatesRemoved != 4 {
		t.Errorf("%+v", c)
	}
}

func TestAPlanIsBounded(t *testing.T) {
	d := &diff.Difference{}
	for range 3 * status.MaxGroups {
		g := diff.Group{}
		for i := range 1000 {
			g.Peels = append(g.Peels, target.PeelID(fmt.Sprint(i)))
			g.Entries.Removed = append(g.Entries.Removed, fmt.Sprint(i))
		}
		g.Entries = schedule.Changes{Added: g.Entries.Removed, Retimed: g.Entries.Removed, Swapped: g.Entries.Removed, Removed: g.Entries.Removed}
		d.Groups = append(d.Groups, g)
	}
	c := control.ChangeOf(d)
	if len(c.Groups) != status.MaxGroups || c.More != 2*status.MaxGroups || c.Peels != 3*status.MaxGroups*1000 {
		t.Errorf("%d groups and %d more of %d peels", len(c.Groups), c.More, c.Peels)
	}
	g := c.Groups[0]
	for _, n := range []int{len(g.Peels), len(g.Added), len(g.Changed), len(g.Removed)} {
		if n != status.MaxGroupNames || g.Count != 1000 {
			t.Errorf("%d names of %d", n, g.Count)
		}
	}
}
