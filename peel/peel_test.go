package peel_test

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestMain keeps files in memory.
func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A bench holds one peel on a real bus in fake time, and plays its masters.
type bench struct {
	t      *testing.T
	bus    *natstest.Bus
	dir    string
	static schedule.Set
	nc     *nats.Conn     // the master's
	heard  chan *nats.Msg // what the peel says of jobs, and its reports
	rev    uint64         // of the peel's key
	stop   func()
	log    syncBuffer

	options func(*peel.Options) // changes those of the next start; nil: nothing
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

const id target.PeelID = "web.01"

func run(t *testing.T, f func(*bench)) {
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		b := &bench{t: t, bus: bus, dir: dir, stop: func() {}}
		b.nc = bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectWait(100*time.Millisecond))
		b.heard = make(chan *nats.Msg, 10_000)
		for _, subject := range []string{wire.ReturnOf("*", "*"), wire.AckOf("*", "*"), wire.AllScheduled, wire.AllApplied, wire.AllStateRuns} {
			if _, err := b.nc.ChanSubscribe(subject, b.heard); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the bus has the subscriptions
		defer func() { b.stop() }()
		f(b)
	})
}

// start runs the peel until stop.
func (b *bench) start() {
	b.t.Helper()
	o := peel.Options{
		ID: id, DataDir: b.dir, URL: b.bus.URL(), Connect: b.bus.Options(grants.RolePeel, id.Wire()), Schedule: b.static,
		Zone: time.UTC, Facts: target.Facts{"role": "web"}, Log: slog.New(slog.NewTextHandler(&b.log, nil)),
	}
	if b.options != nil {
		b.options(&o)
	}
	p, err := peel.New(o)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			b.t.Errorf("the peel ended with %v", err)
		}
		b.stop = func() {}
	}
	synctest.Wait()
}

// give publishes settings as the reconciler would.
func (b *bench) give(generation uint64, yaml string) settings.Digest {
	b.t.Helper()
	node, err := strictyaml.Parse("test.yaml", []byte(yaml))
	if err != nil {
		b.t.Fatal(err)
	}
	raw, err := canon.Marshal(node.Any())
	if err != nil {
		b.t.Fatal(err)
	}
	doc := settings.Document{
		V: settings.Version, Peel: id, Commit: settings.Commit("c0ffee"), Generation: generation, Digest: settings.DigestOf(raw), Settings: raw,
		Origins: map[string]settings.Origin{"beat": {File: "settings/a.yaml", Line: 7, Commit: "beef", Author: "Ada <ada@example.com>"}},
	}
	revisions, err := settings.NewStore(b.bus.JetStream(b.t)).Publish(b.t.Context(), slices.Values([]settings.Write{{Document: &doc, Revision: b.rev}}))
	if err != nil {
		b.t.Fatal(err)
	}
	b.rev = revisions[id]
	return doc.Digest
}

func (b *bench) ask(r wire.Request) wire.Request {
	b.t.Helper()
	if r.JID == "" {
		r.JID = wire.NewJID()
	}
	r.V = wire.Version
	data, err := canon.Marshal(r)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.nc.Publish(wire.Cmd(id.Wire()), data); err != nil {
		b.t.Fatal(err)
	}
	return r
}

// next returns the next message of a kind, by what decodes it; others are passed over.
func next[T any](b *bench, subject string, decode func(*nats.Msg) (T, error)) T {
	b.t.Helper()
	late := time.After(time.Hour)
	for {
		select {
		case msg := <-b.heard:
			if !matches(subject, msg.Subject) {
				continue
			}
			v, err := decode(msg)
			if err != nil {
				b.t.Fatal(err)
			}
			return v
		case <-late:
			b.t.Fatalf("nothing on %s for an hour", subject)
		}
	}
}

// matches is for patterns whose wildcards stand for one token.
func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	return slices.EqualFunc(p, s, func(a, b string) bool { return a == "*" || a == b })
}

func (b *bench) returned() wire.Return { return next(b, wire.ReturnOf("*", "*"), wire.DecodeReturn) }
func (b *bench) applied() wire.Applied { return next(b, wire.AllApplied, wire.DecodeApplied) }

// lastApplied is the report that the stream holds.
func (b *bench) lastApplied() wire.Applied {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), "applied")
	if err != nil {
		b.t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(b.t.Context(), wire.SettingsApplied(id.Wire()))
	if err != nil {
		b.t.Fatal(err)
	}
	var report wire.Applied
	if err := canon.Unmarshal(msg.Data, &report); err != nil {
		b.t.Fatal(err)
	}
	return report
}

func (b *bench) reported() wire.ScheduledResult {
	return next(b, wire.AllScheduled, wire.DecodeScheduled)
}

// call runs a function and returns its result.
func (b *bench) call(function string, args map[string]any) wire.Result {
	b.t.Helper()
	b.ask(wire.Request{Function: function, Args: args, Epoch: 1})
	return b.returned().Result
}

// drain forgets what was heard so far.
func (b *bench) drain() {
	synctest.Wait()
	for len(b.heard) > 0 {
		<-b.heard
	}
}

func TestSettingsAreAppliedAsADifference(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		first := b.give(1, "schedule:\n  a: {module: test.ping, interval: 1h}\n  b: {module: test.ping, interval: 1h}\n  c: {module: test.ping, interval: 1h}\n")
		for b.applied().Digest != string(first) {
		}
		second := b.give(2, "schedule:\n  a: {module: test.ping, interval: 1h}\n  b: {module: test.ping, interval: 2h}\n  d: {module: test.ping, interval: 1h}\n")
		report := b.applied()
		if report.Digest != string(second) || report.Commit != "c0ffee" || report.Generation != 2 ||
			report.Started != 1 || report.Stopped != 1 || report.Changed != 1 || report.Kept != 1 || report.Stale {
			t.Errorf("%+v", report)
		}
	})
}

func TestAScheduledRunIsReportedWithItsOrigin(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  beat: {module: test.echo, args: {text: hi}, interval: 1m, return_job: true}\n")
		began := time.Now()
		r := b.reported()
		if r.Entry != "beat" || !r.Success || r.Trigger != wire.TriggerTimer || r.Commit != "beef" || r.Origin != "settings/a.yaml:7" || r.Author != "Ada <ada@example.com>" {
			t.Errorf("%+v", r)
		}
		if want := settings.Ran("test.echo", map[string]any{"text": "hi"}); r.Ran != want {
			t.Errorf("it ran %q, want %q", r.Ran, want)
		}
		if late := r.Nominal.Sub(began); late != time.Minute || r.Fired.Before(r.Nominal) || r.Started.Before(r.Fired) || r.Finished.Before(r.Started) {
			t.Errorf("nominal after %v, %+v", late, r)
		}
	})
}

func TestResultsSurviveAnOutageAndARestart(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1m, return_job: true}\n")
		b.reported()
		b.bus.Stop(t)
		time.Sleep(10*time.Minute + 30*time.Second)
		b.stop()
		b.bus.Start(t)
		time.Sleep(time.Second)
		b.drain()
		b.start()
		seen := map[wire.JID]bool{}
		for range 10 {
			seen[b.reported().JID] = true
		}
		if len(seen) != 10 {
			t.Errorf("%d different runs of 10 during the outage", len(seen))
		}
	})
}

func TestAPeelStartsFromItsSnapshotWhileTheBusIsAwayAndSaysSo(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1m, return_job: true}\n")
		b.reported()
		b.stop()
		b.bus.Stop(t)
		b.start()
		time.Sleep(5 * time.Minute)
		if !strings.Contains(b.log.String(), "running the snapshot until the bus confirms it") {
			t.Errorf("the log does not say that the settings may be old:\n%s", b.log.String())
		}
		b.drain()
		b.bus.Start(t)
		time.Sleep(time.Minute)
		if report := b.lastApplied(); report.Stale || report.Generation != 1 {
			t.Errorf("after the bus came back: %+v", report)
		}
		if r := b.call("settings.items", nil); r.Data.(map[string]any)["stale"] != nil {
			t.Errorf("after it was confirmed: %+v", r)
		}
		b.reported() // the runs of the time without the bus
	})
}

func TestAfterThreeCommitsOfflineOnlyTheNewestIsApplied(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "a: 1\n")
		b.applied()
		b.stop()
		b.give(2, "a: 2\n")
		b.give(3, "a: 3\n")
		last := b.give(4, "a: 4\n")
		b.drain()
		b.start()
		for {
			report := b.applied()
			if report.Generation == 2 || report.Generation == 3 {
				t.Fatalf("applied %d on the way", report.Generation)
			}
			if report.Digest == string(last) {
				return
			}
		}
	})
}

func TestAnEntryThatThisBuildCannotUseIsReportedAndTheOthersRun(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		digest := b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1m, return_job: true}\n  odd: {module: test.ping, someday: soon}\n")
		report := b.applied()
		for report.Digest != string(digest) {
			report = b.applied()
		}
		if len(report.Errors) == 0 || !strings.Contains(report.Errors[0], "odd") || report.Started != 2 {
			t.Errorf("%+v", report)
		}
		if r := b.reported(); r.Entry != "beat" {
			t.Errorf("%+v", r)
		}
		if e := b.entry("odd"); e["state"] != "paused_invalid" || !strings.HasPrefix(e["why"].(string), "settings: schedule.odd.someday: unknown field") {
			t.Errorf("%v", e)
		}
	})
}

func TestADocumentForAnotherPeelIsRefused(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		digest := b.give(1, "a: 1\n")
		for b.applied().Digest != string(digest) {
		}
		raw, err := canon.Marshal(map[string]any{"a": 2})
		if err != nil {
			t.Fatal(err)
		}
		forged := settings.Document{V: settings.Version, Peel: "web.02", Generation: 9, Digest: settings.DigestOf(raw), Settings: raw}
		data, err := forged.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.nc.Publish(wire.SettingsKey(id.Wire()), data); err != nil {
			t.Fatal(err)
		}
		report := b.applied()
		if report.Digest != string(digest) || len(report.Errors) != 1 || !strings.Contains(report.Errors[0], "web.02") {
			t.Errorf("%+v", report)
		}
	})
}

func TestStaticEntriesAreMaskedAndComeBack(t *testing.T) {
	run(t, func(b *bench) {
		node, err := strictyaml.Parse("peel.yaml", []byte("keep: {module: test.ping, interval: 1h}\nmask: {module: test.ping, interval: 1h}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if b.static, err = schedule.ParseSet(node); err != nil {
			t.Fatal(err)
		}
		b.start()
		states := func() map[string]string {
			entries, _ := b.call("schedule.list", nil).Data.(map[string]any)
			out := map[string]string{}
			for name, e := range entries {
				m := e.(map[string]any)
				out[name] = m["state"].(string) + " " + m["source"].(string)
			}
			return out
		}
		want := map[string]string{"keep": "active peel.yaml", "mask": "active peel.yaml"}
		if got := states(); !maps.Equal(got, want) {
			t.Errorf("%v", got)
		}
		b.give(1, "schedule:\n  mask: {enabled: false}\n")
		synctest.Wait()
		if got := states(); got["mask"] != "disabled settings" || got["keep"] != "active peel.yaml" {
			t.Errorf("masked: %v", got)
		}
		b.give(2, "{}\n")
		synctest.Wait()
		if got := states(); !maps.Equal(got, want) {
			t.Errorf("back: %v", got)
		}
	})
}

func TestAReloadDoesNotWaitForARunningCommand(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  slow: {module: test.sleep, args: {duration: 10h}, interval: 1m}\n")
		time.Sleep(2 * time.Minute)
		b.drain()
		began := time.Now()
		digest := b.give(2, "schedule:\n  other: {module: test.ping, interval: 1m}\n")
		if report := b.applied(); report.Digest != string(digest) || time.Since(began) > time.Second {
			t.Errorf("%+v after %v", report, time.Since(began))
		}
	})
}

func TestARequestRunsOnceForAnEpoch(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		r := b.ask(wire.Request{Function: "test.ping", Epoch: 5})
		if got := b.returned(); !got.Success || got.JID != r.JID || got.Peel != id {
			t.Errorf("%+v", got)
		}
		b.drain()
		b.ask(r)
		synctest.Wait()
		lower := r
		lower.Epoch = 4
		b.ask(lower)
		synctest.Wait()
		var acks, returns int
		for len(b.heard) > 0 {
			switch msg := <-b.heard; {
			case matches(wire.AckOf("*", "*"), msg.Subject):
				acks++
			case matches(wire.ReturnOf("*", "*"), msg.Subject):
				returns++
			}
		}
		if acks != 1 || returns != 0 {
			t.Errorf("the same epoch again and a lower one: %d acks, %d returns", acks, returns)
		}
		r.Epoch = 6
		b.ask(r)
		if got := b.returned(); got.Epoch != 6 {
			t.Errorf("%+v", got)
		}
	})
}

func TestARequestPastItsDeadlineIsNotStarted(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.ask(wire.Request{Function: "cmd.run", Args: map[string]any{"command": ""}, Epoch: 1, Deadline: time.Now().Add(-24 * time.Hour), TimeLeft: time.Minute})
		if r := b.returned(); r.Error == "" || r.Error[:8] == "rejected" {
			t.Errorf("a clock a day ahead of the master's: %+v", r)
		}
		b.ask(wire.Request{Function: "test.ping", Epoch: 1, TimeLeft: -1})
		if r := b.returned(); r.Error != "rejected: the job's deadline passed before the work could start" {
			t.Errorf("%+v", r)
		}
	})
}

func TestAMissingSettingIsAFailure(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "nginx: {workers: 4}\nempty: \"\"\n")
		synctest.Wait()
		got, _ := b.call("settings.get", map[string]any{"key": "nginx:workers"}).Data.(map[string]any)
		if got["settings"] != int64(4) || got["commit"] != "c0ffee" || got["generation"] != int64(1) {
			t.Errorf("%v", got)
		}
		if r := b.call("settings.get", map[string]any{"key": "empty"}); !r.Success {
			t.Errorf("an empty value: %+v", r)
		}
		if r := b.call("settings.get", map[string]any{"key": "nginx:users"}); r.Success || r.Error != `no setting "nginx:users" at commit "c0ffee"` {
			t.Errorf("%+v", r)
		}
	})
}

func TestAMessageThatIsNoRequestIsDropped(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		for _, data := range []string{"", "{}", `{"stream":"facts","seq":1}`, "\x81\xa1a"} {
			if err := b.nc.Publish(wire.Cmd(id.Wire()), []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		if r := b.call("test.ping", nil); !r.Success {
			t.Errorf("%+v", r)
		}
		b.ask(wire.Request{Function: "no.such", Epoch: 1})
		if r := b.returned(); r.Success || r.Error == "" {
			t.Errorf("%+v", r)
		}
	})
}
