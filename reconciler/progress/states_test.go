package progress

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// withStates is a plan that gives peels settings with a state and one digest.
func withStates(digest settings.Digest, ids ...target.PeelID) *plan.Plan {
	p := toRun(digest, ids...)
	for _, e := range p.Peels {
		e.States = state.Set{&state.State{Name: "vim"}}
	}
	return p
}

// ran reports a run of the settings d1.
func (b *fleet) ran(id target.PeelID, counts map[string]int, states ...wire.StateOutcome) {
	b.t.Helper()
	b.reports(wire.StateRun{Peel: id, Digest: "d1", Counts: counts, States: states})
}

func (b *fleet) reports(r wire.StateRun) {
	b.t.Helper()
	r.V = wire.Version
	b.say(r.Peel, wire.StateRunOf(r.Peel.Wire()), r)
}

func TestTheNewestRunOfItsStatesSaysHowAHostIs(t *testing.T) {
	drifted := wire.StateOutcome{State: "vim", Result: "would_change", Cause: "drift"}
	wanted := wire.StateOutcome{State: "vim", Result: "would_change", Cause: "intended"}
	type counts = map[string]int
	inBubble(t, func(t *testing.T, b *fleet) {
		defer b.run(func(ctx context.Context) error { return b.p.RunStates(ctx, b.bus.JetStream(t)) })()
		synctest.Wait()
		b.p.Want("c1", withStates("d1", "p"), nil)
		wants := func(want status.HostState, what any) {
			t.Helper()
			page, ok := b.p.States(everyPeel, "", 10)
			if n := b.p.HostCounts(); !ok || len(page.Peels) != 1 || page.Peels[0].State != want || b.p.Peel("p").HostState != want || n[want] != 1 || len(n) != len(status.HostStates) {
				t.Errorf("%+v: %+v, %v; want %s", what, page.Peels, n, want)
			}
		}
		wants(status.HostNever, "no report")
		for i, c := range []struct {
			run  wire.StateRun
			want status.HostState
		}{
			{wire.StateRun{Counts: counts{"unchanged": 1}}, status.HostClean},
			{wire.StateRun{Counts: counts{"skipped": 1}}, status.HostClean},
			{wire.StateRun{}, status.HostUnknown},
			{wire.StateRun{Counts: counts{"changed": 1}, States: []wire.StateOutcome{{State: "vim", Result: "changed", Cause: "drift"}}}, status.HostClean},
			{wire.StateRun{Counts: counts{"changed": 1, "skipped": 2}, Canceled: 2}, status.HostUnknown},
			{wire.StateRun{Counts: counts{"changed": 1}, Owed: []string{"web"}}, status.HostPending},
			{wire.StateRun{Counts: counts{"changed": 1, "failed": 1}, Canceled: 2, Owed: []string{"web"}}, status.HostFailed},
			{wire.StateRun{Test: true, Counts: counts{"would_change": 2}, States: []wire.StateOutcome{wanted, drifted}}, status.HostDrifted},
			{wire.StateRun{Test: true, Counts: counts{"would_change": 1, "unknown": 1}, States: []wire.StateOutcome{wanted}}, status.HostPending},
			{wire.StateRun{Test: true, Counts: counts{"would_change": 1, "failed": 1}, States: []wire.StateOutcome{drifted}}, status.HostFailed},
			{wire.StateRun{Test: true, Counts: counts{"unknown": 1}}, status.HostUnknown},
			{wire.StateRun{Test: true, Counts: counts{"unchanged": 1}}, status.HostClean},
		} {
			c.run.Peel, c.run.Digest = "p", "d1"
			b.reports(c.run)
			wants(c.want, fmt.Sprintf("%d %+v", i, c.run))
		}
		b.reports(wire.StateRun{Peel: "p", Digest: "d0", Counts: counts{"unchanged": 1}})
		wants(status.HostOther, "of other settings")
		b.reports(wire.StateRun{Peel: "p", Digest: "d1", Counts: counts{"unchanged": 1}})
		b.p.Want("c2", withStates("d2", "p"), nil)
		wants(status.HostOther, "before new settings")
		b.p.Want("c1", toRun("d1", "p"), nil)
		if page, ok := b.p.States(everyPeel, "", 10); !ok || len(page.Peels) != 0 || b.p.Peel("p").HostState != "" {
			t.Errorf("a peel without states: %+v", page)
		}
		b.p.Want("c1", withStates("d1", "p"), nil)
		b.p.Forget("p")
		wants(status.HostNever, "removed")
	})
}

func TestAReportOnStatesCountsForThePeelOfItsSubject(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		defer b.run(func(ctx context.Context) error { return b.p.RunStates(ctx, b.bus.JetStream(t)) })()
		synctest.Wait()
		b.p.Want("c1", withStates("d1", "a", "b", "x.y"), nil)
		clean := wire.StateRun{Peel: "a", Digest: "d1", Counts: map[string]int{"unchanged": 1}, V: wire.Version}
		b.say("b", wire.StateRunOf("b"), clean)
		b.say("b", wire.StateRunOf("b"), []byte("no report"))
		clean.Peel = "x_y"
		b.say("x_y", wire.StateRunOf("x_y"), clean) // another ID with the same form on the bus
		n := b.p.HostCounts()
		if n[status.HostNever] != 3 {
			t.Errorf("%v", n)
		}
		n[status.HostNever] = 0
		if n := b.p.HostCounts(); n[status.HostNever] != 3 {
			t.Errorf("the caller has changed the numbers that others get: %v", n)
		}
	})
}

// TestNobodyIsSaidToHaveNoRunWhileReportsAreRead: what has not been read is not missing.
func TestNobodyIsSaidToHaveNoRunWhileReportsAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		b.p.Want("c1", withStates("d1", "a", "b"), nil)
		b.ran("a", map[string]int{"unchanged": 1})
		if _, ok := b.p.States(everyPeel, "", 10); ok || b.p.HostCounts() != nil || b.p.Peel("a").HostState != "" {
			t.Error("states are known before the stream was read")
		}
		defer b.run(func(ctx context.Context) error { return b.p.RunStates(ctx, b.bus.JetStream(t)) })()
		synctest.Wait()
		if n := b.p.HostCounts(); n[status.HostClean] != 1 || n[status.HostNever] != 1 {
			t.Errorf("%v", n)
		}
		b.bus.Stop(t)
		b.bus.Start(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.ran("b", map[string]int{"failed": 1}, wire.StateOutcome{State: "vim", Result: "failed", Error: strings.Repeat("x", 500)})
		if n := b.p.HostCounts(); n[status.HostClean] != 1 || n[status.HostFailed] != 1 {
			t.Errorf("after a restart of the bus: %v", n)
		}
	})
}

func TestStatesOfPeelsComeInPages(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		defer b.run(func(ctx context.Context) error { return b.p.RunStates(ctx, b.bus.JetStream(t)) })()
		synctest.Wait()
		b.p.Want("c1", withStates("d1", "a", "b", "c"), nil)
		long := strings.Repeat("x", 1000)
		var failed []wire.StateOutcome
		for i := range 10 {
			failed = append(failed, wire.StateOutcome{State: fmt.Sprint(i), Result: "failed", Error: long[:500]})
		}
		b.ran("a", map[string]int{"failed": 10}, failed...)
		first, ok := b.p.States(everyPeel, "", 2)
		last, _ := b.p.States(everyPeel, "b", 2)
		if !ok || len(first.Peels) != 2 || first.Next != "b" || first.Peels[1].Peel != "b" || len(last.Peels) != 1 || last.Next != "" || last.Peels[0].Peel != "c" {
			t.Errorf("%+v, %+v", first, last)
		}
		if some, ok := b.p.StatesOf([]target.PeelID{"c", "unknown", "a"}); !ok || len(some) != 2 || some[0].Peel != "c" || some[1].Peel != "a" {
			t.Errorf("some peels: %+v", some)
		}
		size := 0
		for _, r := range first.Peels[0].Results {
			size += len(r.Error)
		}
		if len(first.Peels[0].Results) != 10 || size > maxErrors || size < maxErrors-500 {
			t.Errorf("%d results with %d bytes of errors", len(first.Peels[0].Results), size)
		}
	})
}

func TestOnlyANewFailureOfARunWithTheRevisionCounts(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		defer b.run(func(ctx context.Context) error { return b.p.RunStates(ctx, b.bus.JetStream(t)) })()
		synctest.Wait()
		failed := func(name string, before bool) wire.StateOutcome {
			return wire.StateOutcome{State: name, Result: "failed", Error: "no such file", Before: before}
		}
		wants := func(digest settings.Digest, after uint64, want string) {
			t.Helper()
			if got := b.p.NewFailure("p", digest, after); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		wants("d1", 0, "")
		b.ran("p", map[string]int{"failed": 1}, failed("old", true))
		wants("d1", 0, "")
		b.ran("p", map[string]int{"failed": 2}, failed("old", true), failed("nginx", false))
		wants("d1", 1, "state nginx failed: no such file")
		wants("d1", 2, "") // before the rollout
		wants("d2", 0, "")
		b.ran("p", map[string]int{"changed": 1}, wire.StateOutcome{State: "nginx", Result: "changed"})
		wants("d1", 0, "")
		select {
		case <-b.reported:
		default:
			t.Error("the loop was not told of a report")
		}
		if !slices.Contains(status.HostStates, hostState(&wire.StateRun{})) {
			t.Error("a state that is not listed")
		}
	})
}

// BenchmarkHostCounts is what metrics read every second, of 10,000 peels with states.
func BenchmarkHostCounts(b *testing.B) {
	p := New(nil, nil, slog.New(slog.DiscardHandler))
	p.states.read = true
	wanted := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}}
	for i := range 10_000 {
		id := target.PeelID(fmt.Sprintf("web-%d.example.com", i))
		wanted.Peels[id] = &plan.Effective{Digest: "d1", States: state.Set{&state.State{Name: "vim"}}}
		p.states.of[id.Wire()] = stateRun{StateRun: wire.StateRun{Peel: id, Digest: "d1"}, state: status.HostClean}
	}
	p.Want("c1", wanted, nil)
	b.ReportAllocs()
	for b.Loop() {
		if n := p.HostCounts(); n[status.HostClean] != 10_000 {
			b.Fatal(n)
		}
	}
}
