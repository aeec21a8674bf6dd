package progress

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A fleet is a bus with peels, and what a reconciler follows of them.
type fleet struct {
	t        *testing.T
	bus      *natstest.Bus
	feed     *fleetpkg.Fleet
	reported chan struct{}
	p        *Progress
}

func inBubble(t *testing.T, f func(t *testing.T, b *fleet)) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		log := slog.New(slog.DiscardHandler)
		b := &fleet{t: t, bus: bus, feed: fleetpkg.New(bus.Conn(t, grants.RoleMaster, "m1"), log), reported: make(chan struct{}, 1)}
		b.p = New(b.feed, b.reported, log)
		js := bus.JetStream(t)
		defer b.run(b.feed.Run)()
		defer b.run(func(ctx context.Context) error { return b.p.Run(ctx, js) })()
		synctest.Wait()
		f(t, b)
	})
}

// run runs f until the function that it returns is called.
func (b *fleet) run(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			b.t.Error(err)
		}
	}
}

// say publishes as a peel.
func (b *fleet) say(id target.PeelID, subject string, v any) {
	b.t.Helper()
	data, err := canon.Marshal(v)
	if raw, ok := v.([]byte); ok {
		data, err = raw, nil
	}
	if err == nil {
		err = b.bus.Conn(b.t, grants.RolePeel, id.Wire()).Publish(subject, data)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	synctest.Wait()
}

func (b *fleet) applies(id target.PeelID, digest string, errs ...string) {
	b.t.Helper()
	b.say(id, wire.SettingsApplied(id.Wire()), wire.Applied{Peel: id, Commit: "c1", Generation: 1, Digest: digest, Errors: errs, V: wire.Version})
}

// toRun is a plan that gives peels one digest.
func toRun(digest settings.Digest, ids ...target.PeelID) *plan.Plan {
	p := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}}
	for _, id := range ids {
		p.Peels[id] = &plan.Effective{Digest: digest}
	}
	return p
}

func TestAReportCountsForItsPeel(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		b.p.Want("c1", toRun("d1", "a", "b"), nil)
		for _, id := range []target.PeelID{"a", "b"} {
			b.say(id, wire.Heartbeat(id.Wire()), []byte(nil))
		}
		<-time.After(time.Second)
		at := time.Now()
		b.say("a", wire.SettingsApplied("a"), wire.Applied{Peel: "b", Digest: "d1", V: wire.Version}) // of another
		b.say("a", wire.SettingsApplied("a"), []byte("no report"))
		if c, _, ok := b.p.CountsOf("c1"); !ok || c.Applied != 0 {
			t.Errorf("%+v", c)
		}
		failing, late := b.p.Troubled(5)
		if pending := b.p.Pending(); len(pending) != 2 || pending["a"] != "d1" || len(failing) != 0 || late != "a" {
			t.Errorf("%v, %v, %s", pending, failing, late)
		}
		b.applies("a", "d1")
		select {
		case <-b.reported:
		default:
			t.Error("nobody was told of a report")
		}
		<-time.After(time.Second)
		later := time.Now()
		b.applies("b", "", "no zone", "no module")
		c, reached, ok := b.p.CountsOf("c1")
		if want := (status.Counts{Peels: 2, Applied: 1, Failed: 1}); !ok || c != want || b.p.Counts() != want || reached.Before(at) || !reached.Before(later) {
			t.Errorf("%+v at %v", c, reached)
		}
		if _, _, ok := b.p.CountsOf("c2"); ok {
			t.Error("counts of a revision that no peel is to run")
		}
		if got := b.p.Errors(); len(got) != 1 || !slices.Equal(got["b"], []string{"no zone", "no module"}) {
			t.Errorf("%v", got)
		}
		failing, late = b.p.Troubled(5)
		if none, _ := b.p.Troubled(0); len(failing) != 1 || failing[0].Peel != "b" || !slices.Equal(failing[0].Errors, []string{"no zone", "no module"}) || late != "" || len(none) != 0 {
			t.Errorf("%v, %s, %v", failing, late, none)
		}
		first, second := b.p.View("a"), b.p.View("b")
		if !first.Applied || second.Applied || !second.Online || second.Sequence <= first.Sequence || first.Sequence == 0 || b.p.View("c").Sequence != 0 {
			t.Errorf("%+v, %+v", first, second)
		}
		if len(b.p.Pending()) != 0 {
			t.Errorf("%v", b.p.Pending())
		}
		<-time.After(5 * time.Minute)
		if got := b.p.Peel("b").State; got != status.Offline {
			t.Errorf("with errors and away: %s", got)
		}
		b.p.Forget("b")
		if got := b.p.Errors(); len(got) != 0 {
			t.Errorf("of a peel that was removed: %v", got)
		}
	})
}

func TestAPeelThatIsHeldBackHasFailed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		p := toRun("d2", "a")
		p.Behind = map[target.PeelID]strictyaml.Error{"b": {Msg: "no key"}}
		b.p.Want("c2", p, settings.Heads{"b": {Peel: "b", Digest: "d1"}})
		b.applies("b", "d1")
		if got := b.p.Peel("b"); got.State != status.Failed || got.Wanted != "d1" || len(got.Errors) != 1 || !strings.Contains(got.Errors[0], "no key") {
			t.Errorf("%+v", got)
		}
		b.p.Want("c3", toRun("d1", "a", "b"), nil)
		if got := b.p.Peel("b"); got.State != status.Applied {
			t.Errorf("%+v", got)
		}
	})
}

func TestAPeelThatDoesNotUnderstandItsStatesIsOutdated(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		p := toRun("d1", "a", "b", "c", "d")
		for id, e := range p.Peels {
			if id != "c" {
				e.States = state.Set{&state.State{Name: "vim"}}
			}
		}
		b.p.Want("c1", p, nil)
		report := func(id target.PeelID, features ...string) {
			b.say(id, wire.SettingsApplied(id.Wire()), wire.Applied{Peel: id, Digest: "d1", Features: features, V: wire.Version})
		}
		report("a")
		report("b", wire.FeatureStates)
		report("c") // has no states
		if got := b.p.Outdated(5); !slices.Equal(got, []target.PeelID{"a"}) {
			t.Errorf("outdated: %q", got)
		}
		for id, want := range map[target.PeelID]bool{"a": true, "b": false, "c": false, "d": false} {
			if got := b.p.Peel(id); got.Outdated != want || id != "d" && got.State != status.Applied {
				t.Errorf("%s: %+v", id, got)
			}
		}
		report("d", "another")
		if got := b.p.Outdated(1); !slices.Equal(got, []target.PeelID{"a"}) || len(b.p.Outdated(5)) != 2 {
			t.Errorf("outdated: %q", got)
		}
		report("a", wire.FeatureStates) // was upgraded
		if got := b.p.Outdated(5); !slices.Equal(got, []target.PeelID{"d"}) {
			t.Errorf("outdated: %q", got)
		}
		report("b")
		b.p.Outdated(5)
		b.p.Forget("d")
		if got := b.p.Outdated(5); !slices.Equal(got, []target.PeelID{"b"}) {
			t.Errorf("outdated: %q", got)
		}
		b.p.Want("c2", toRun("d1", "a", "b", "c"), nil) // without states
		if got := b.p.Outdated(5); len(got) > 0 {
			t.Errorf("outdated: %q", got)
		}
	})
}

func TestAPeelShowsHowManyContentsItLacks(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		b.p.Want("c1", toRun("d1", "a"), nil)
		for _, n := range []int{2, 0} {
			b.say("a", wire.SettingsApplied("a"), wire.Applied{Peel: "a", Digest: "d1", MissingContents: n, V: wire.Version})
			if p := b.p.Peel("a"); p.MissingContents != n || p.State != status.Applied {
				t.Errorf("reported %d, shown %+v", n, p)
			}
		}
	})
}

func TestPausedEntriesOfPeelsWithSettings(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		b.p.Want("c1", toRun("d1", "a", "b", "c"), nil)
		for _, id := range []target.PeelID{"c", "b", "x"} {
			b.say(id, wire.SettingsApplied(id.Wire()), wire.Applied{Peel: id, Digest: "d1", PausedErrors: []string{"w"}, V: wire.Version})
		}
		if got := b.p.PausedErrors(5); len(got) != 2 || got[0].Peel != "b" || got[1].Peel != "c" {
			t.Errorf("%+v", got)
		}
		if got := b.p.PausedErrors(1); len(got) != 1 || got[0].Peel != "b" {
			t.Errorf("%+v", got)
		}
	})
}

func TestOnlyFailedRunsOfWatchedVersionsCount(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		ran := func(id target.PeelID, entry, commit string, outcome string, success bool) {
			t.Helper()
			jid := wire.NewJID()
			b.say(id, wire.ScheduledOf(jid, id.Wire()), wire.ScheduledResult{
				JID: jid, Peel: id, Entry: entry, Function: "test.ping", Commit: commit, V: wire.Version,
				Result: wire.Result{Success: success, Outcome: wire.Outcome(outcome)},
			})
		}
		ran("a", "w", "new", "", false) // before the rollout
		stream, err := b.bus.JetStream(t).Stream(t.Context(), "job-events")
		if err != nil {
			t.Fatal(err)
		}
		r := NewRuns(b.bus.JetStream(t), stream.CachedInfo().State.LastSeq, time.Now(), b.reported, slog.New(slog.DiscardHandler))
		defer b.run(r.Run)()
		ran("b", "w", "new", "", false) // in the rollout, and before anything is watched
		r.Watch(map[target.PeelID]Entries{"a": {"w": "new"}, "b": {"w": "new"}})
		synctest.Wait()
		ran("a", "w", "old", "", false)
		ran("a", "other", "new", "", false)
		ran("a", "w", "new", "", true)
		ran("a", "w", "new", "canceled", false)
		ran("c", "w", "new", "", false)
		got := r.Failures()
		if len(got) != 1 || !strings.Contains(got["b"], "of w failed") {
			t.Errorf("%v", got)
		}
		select {
		case <-b.reported:
		default:
			t.Error("nobody was told of a failed run")
		}
		ran("b", "w", "new", "", false)
		if again := r.Failures(); again["b"] != got["b"] {
			t.Errorf("%s, the first was %s", again["b"], got["b"])
		}
		b.bus.Restart(t)
		<-time.After(time.Minute)
		ran("a", "w", "new", "", false)
		if got := r.Failures(); len(got) != 2 {
			t.Errorf("after the bus was away: %v", got)
		}
		r.Watch(map[target.PeelID]Entries{"a": {"w": "new"}})
		if got := r.Failures(); len(got) != 1 || got["a"] == "" {
			t.Errorf("watched no longer: %v", got)
		}
	})
}

// Runs that are no jobs are in the reports of the peels alone. Those with older settings, with another commit, and those
// that are jobs do not count.
func TestFailedRunsThatAreNoJobsCount(t *testing.T) {
	inBubble(t, func(t *testing.T, b *fleet) {
		began := time.Now()
		now := uint64(began.UnixMilli())
		reports := func(id target.PeelID, notes ...ledger.Note) {
			t.Helper()
			for i := range notes {
				notes[i].Nominal, notes[i].Started = began, began
			}
			data, err := ledger.Encode(&ledger.Report{
				Peel: id, Digest: "d", Zone: ledger.Zone{Name: "UTC"}, Time: time.Now(), Started: began,
				Entries: []ledger.EntryReport{{State: "active", Since: began, From: ledger.At(began), Notes: notes}},
			})
			if err != nil {
				t.Fatal(err)
			}
			b.say(id, wire.ScheduleStateOf(id.Wire()), data)
		}
		failed := ledger.Note{Outcome: ledger.Failed, Commit: "new", Generation: now}
		reports("a", failed) // before anything is watched
		r := NewRuns(b.bus.JetStream(t), 0, began, b.reported, slog.New(slog.DiscardHandler))
		defer b.run(r.Run)()
		r.Watch(map[target.PeelID]Entries{"a": {"w": "new", "v": "other"}, "b": {"w": "new"}})
		synctest.Wait()
		if got := r.Failures(); len(got) != 1 || !strings.HasPrefix(got["a"], "the run of w at ") || !strings.HasSuffix(got["a"], " failed") {
			t.Errorf("%v", got)
		}
		for what, note := range map[string]ledger.Note{
			"a run that succeeded":       {Outcome: ledger.Ran, Commit: "new", Generation: now},
			"a run of another version":   {Outcome: ledger.Failed, Commit: "old", Generation: now},
			"a run of peel.yaml":         {Outcome: ledger.Failed, Generation: now},
			"a run before a retry":       {Outcome: ledger.Failed, Commit: "new", Generation: now - 1},
			"a run that is a job":        {Outcome: ledger.Failed, Commit: "new", Generation: now, Job: wire.NewJID()},
			"a fire that did not happen": {Outcome: ledger.Skipped, Commit: "new", Generation: now},
		} {
			reports("b", note)
			if got := r.Failures(); len(got) != 1 {
				t.Errorf("%s counts: %v", what, got)
			}
		}
		reports("b", ledger.Note{Outcome: ledger.Interrupted, Commit: "new", Generation: now})
		if got := r.Failures(); len(got) != 2 || !strings.HasSuffix(got["b"], " interrupted") {
			t.Errorf("a run that the end of the process cut off: %v", got)
		}
	})
}
