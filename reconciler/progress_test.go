package reconciler

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func (b *bench) page(after target.PeelID) (page status.SyncPeelsPage) {
	b.t.Helper()
	if why := b.ask("peels", status.PeelsRequest{Cursor: after}, &page); why != "" {
		b.t.Fatal(why)
	}
	return page
}

func TestHowFarEachPeelIs(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		for _, id := range webs(5) {
			b.peel(id, nil)
		}
		b.start()
		b.alter(silent, "web-01", "web-02")
		b.alter(away, "web-03")
		b.alter(func(p *actor) { p.takes = false }, "web-04")
		b.after(2 * time.Minute)
		at := time.Now()
		c := b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		out := b.now()
		refused := reportOn(b.document("web-02"), "no zone x")
		refused.Digest, refused.Stale = "", true
		b.say("web-02", wire.SettingsApplied("web-02"), refused)
		b.after(time.Minute)
		if out = b.status(); out.Counts != (status.Counts{Peels: 5, Applied: 1, Pending: 2, Failed: 1, Offline: 1}) {
			t.Errorf("%+v", out.Counts)
		}
		for i, want := range []status.Peel{
			{State: status.Applied, Online: true, Commit: c},
			{State: status.Pending, Online: true},
			{State: status.Failed, Online: true, Commit: c, Stale: true},
			{State: status.Offline},
			{State: status.Pending, Online: true},
		} {
			got := b.page("").Peels[i]
			if got.State != want.State || got.Online != want.Online || got.Stale != want.Stale || want.Commit != "" && got.Commit != want.Commit {
				t.Errorf("%s: %+v, want %+v", got.Peel, got, want)
			}
			if lacks := want.State != status.Applied; got.Since.IsZero() == lacks || lacks && (got.Since.Before(at) || got.Since.Sub(at) > 10*time.Second) {
				t.Errorf("%s lacks what it is to run since %v, the commit was at %v", got.Peel, got.Since, at)
			}
		}
		var some status.SyncPeelsPage
		asked := status.PeelsRequest{Peels: []target.PeelID{"web-00", "nobody", "web-04"}}
		if why := b.ask("peels", asked, &some); why != "" || some.Next != "" || len(some.Peels) != 2 ||
			some.Peels[0].State != status.Applied || some.Peels[1].Peel != "web-04" {
			t.Errorf("the peels that were named: %+v %s", some, why)
		}
		asked.Peels = make([]target.PeelID, status.MaxPeels+1)
		if why := b.ask("peels", asked, &some); !strings.Contains(why, "501 peels, the limit is 500") {
			t.Errorf("too many peels: %q", why)
		}
		before := b.page("").Peels[1].Since
		b.stop()
		b.start()
		b.after(time.Second)
		if after := b.page("").Peels[1].Since; after.Sub(before).Abs() > 2*time.Second {
			t.Errorf("in the next term web-01 is behind since %v, before %v", after, before)
		}
		b.applies("web-01")
		if out = b.status(); out.Counts.Applied != 2 || !b.page("").Peels[1].Since.IsZero() {
			t.Errorf("%+v", out.Counts)
		}
	})
}

func TestARemovedPeelLeavesNothing(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.peel("web-02", nil)
		b.start()
		if why := b.ask("remove", status.RemoveRequest{Peel: "web-02"}, new(status.Sync)); !strings.Contains(why, "it is online") {
			t.Errorf("online: %q", why)
		}
		if why := b.ask("remove", status.RemoveRequest{Peel: "web-99"}, new(status.Sync)); !strings.Contains(why, "no such peel") {
			t.Errorf("unknown: %q", why)
		}
		b.say("web-02", wire.ScheduleStateOf("web-02"), "a report")
		b.alter(away, "web-02")
		b.after(2 * time.Minute)
		if out := b.told("remove", status.RemoveRequest{Peel: "web-02"}); out.Counts != (status.Counts{Peels: 1, Applied: 1}) {
			t.Errorf("%+v", out.Counts)
		}
		b.after(time.Minute)
		if page := b.page(""); len(page.Peels) != 1 {
			t.Errorf("%+v", page)
		}
		for stream, subject := range map[string]string{
			"KV_settings": wire.SettingsKey("web-02"), "applied": wire.SettingsApplied("web-02"), "facts": wire.Fact("web-02"),
			"schedule-state": wire.ScheduleStateOf("web-02"),
		} {
			s, err := b.bus.JetStream(b.t).Stream(b.t.Context(), stream)
			if err != nil {
				b.t.Fatal(err)
			}
			if msg, err := s.GetLastMsgForSubject(b.t.Context(), subject); err == nil {
				t.Errorf("%s keeps %s", stream, msg.Data)
			}
		}
		b.say("web-02", wire.Fact("web-02"), wire.Facts{Peel: "web-02", V: wire.Version}) // it comes back as a new one
		b.after(5 * time.Second)
		if got := b.entries("web-02"); got != "abcdw" {
			t.Errorf("web-02 has %s", got)
		}
		if out := b.told("remove", status.RemoveRequest{Peel: "web-02", Force: true}); out.Counts.Peels != 1 || b.document("web-02") != nil {
			t.Errorf("%+v", out.Counts)
		}
	})
}

// What an interrupted removal left behind is shown, and removed by asking again.
func TestAPeelWithoutFactsIsDecommissioned(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.peel("web-02", nil)
		b.start()
		b.alter(away, "web-02")
		b.after(2 * time.Minute)
		facts, err := b.term.js.Stream(b.t.Context(), "facts")
		if err == nil {
			err = facts.Purge(b.t.Context(), jetstream.WithPurgeSubject(wire.Fact("web-02")))
		}
		if err != nil {
			b.t.Fatal(err)
		}
		b.after(time.Minute)
		if page := b.page("web-01"); len(page.Peels) != 1 || page.Peels[0].State != status.Decommissioned || b.status().Counts.Peels != 1 {
			t.Errorf("%+v", page)
		}
		b.told("remove", status.RemoveRequest{Peel: "web-02"})
		if page := b.page("web-01"); len(page.Peels) != 0 {
			t.Errorf("%+v", page)
		}
	})
}

// TestHowEachHostComparesWithItsStates: reports are as long as the bus lets them be, a new leader has them, and a removed peel has none.
func TestHowEachHostComparesWithItsStates(t *testing.T) {
	files := siteFiles()
	files["settings/web.yaml"] = text("schedule:\n  w: {module: test.ping, interval: 1h}\nstates:\n  motd: {file.managed: {path: /etc/motd, content: x}}\n")
	inBubble(t, files, func(b *bench) {
		ids := webs(45)
		for _, id := range ids {
			b.peel(id, nil)
		}
		b.peel("db-01", nil) // without states
		b.start()
		long := strings.Repeat("x", wire.MaxStateName)
		for _, id := range ids[1:] {
			run := wire.StateRun{Peel: id, Digest: string(b.document(id).Digest), Counts: map[string]int{"failed": 50}, V: wire.Version}
			for range wire.MaxReported {
				run.States = append(run.States, wire.StateOutcome{State: long, Result: "failed"})
				run.Owed = append(run.Owed, long)
			}
			b.say(id, wire.StateRunOf(id.Wire()), run)
		}
		b.after(2 * time.Second)
		wants := func(failed, never int) {
			b.t.Helper()
			var all []status.States
			pages := 0
			for q := (status.PeelsRequest{}); ; {
				var page status.SyncStatesPage
				if why := b.ask("states", q, &page); why != "" {
					b.t.Fatal(why)
				}
				pages++
				all = append(all, page.Peels...)
				if q.Cursor = page.Next; q.Cursor == "" {
					break
				}
			}
			counts := status.HostCounts{}
			for _, s := range all {
				counts[s.State]++
			}
			if counts[status.HostFailed] != failed || counts[status.HostNever] != never || len(all) != failed+never || pages < 2 {
				b.t.Errorf("%d peels in %d pages: %v", len(all), pages, counts)
			}
			if c := b.status().HostCounts; c[status.HostFailed] != failed || c[status.HostNever] != never {
				b.t.Errorf("%v", c)
			}
		}
		wants(44, 1)
		b.stop()
		b.start()
		wants(44, 1)
		b.told("remove", status.RemoveRequest{Peel: ids[1], Force: true})
		wants(43, 1)
		stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), "states")
		if err != nil {
			b.t.Fatal(err)
		}
		if _, err := stream.GetLastMsgForSubject(b.t.Context(), wire.StateRunOf(ids[1].Wire())); !errors.Is(err, jetstream.ErrMsgNotFound) {
			b.t.Errorf("the report of a peel that was removed: %v", err)
		}
	})
}
