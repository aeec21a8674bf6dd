package reconciler

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/feed"
)

func (b *bench) page(after target.PeelID) (page status.PeelsPage) {
	b.t.Helper()
	if why := b.ask("peels", status.PeelsRequest{After: after}, &page); why != "" {
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

// What is kept up to date equals a look at every peel, whatever is wanted, held back and reported in between.
func TestProgressEqualsALookAtEveryPeel(t *testing.T) {
	p := newProgress(feed.New(nil, slog.New(slog.DiscardHandler)), make(chan struct{}, 1), slog.New(slog.DiscardHandler))
	ids := []target.PeelID{"a", "b", "web.1", "web_1", "c"} // two share a wire form
	digests := []settings.Digest{"1", "2", ""}
	heads := settings.Heads{}
	for _, id := range []target.PeelID{"a", "b", "web_1", "gone"} {
		heads[id.Wire()] = settings.Held{Peel: id, Digest: "2"}
	}
	n := uint(7)
	next := func(most int) int { n = n*1103515245 + 12345; return int(n>>16) % most }
	var wanted *plan.Plan
	for range 2000 {
		if wanted == nil || next(5) == 0 {
			wanted = &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}, Behind: map[target.PeelID]strictyaml.Error{}}
			for _, id := range ids {
				switch next(6) {
				case 0:
					wanted.Behind[id] = strictyaml.Error{}
				case 1:
				default:
					wanted.Peels[id] = &plan.Effective{Digest: digests[next(2)]}
				}
			}
			p.want("", wanted, heads)
		} else {
			id := ids[next(len(ids))]
			p.take(wire.Applied{Peel: id, Digest: string(digests[next(3)])}, 1, time.Now())
		}
		want := status.Counts{Failed: len(wanted.Behind), Peels: len(wanted.Peels) + len(wanted.Behind)}
		for id, e := range wanted.Peels {
			if r := p.reports[id.Wire()]; r.Peel == id && settings.Digest(r.Digest) == e.Digest {
				want.Applied++
			} else {
				want.Offline++
			}
		}
		if got := p.counts(); got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		var former []target.PeelID
		for _, id := range []target.PeelID{"a", "b", "gone", "web_1"} {
			if _, behind := wanted.Behind[id]; wanted.Peels[id] == nil && !behind {
				former = append(former, id)
			}
		}
		if !slices.Equal(p.former, former) {
			t.Fatalf("former %q, want %q", p.former, former)
		}
	}
}

func TestPeelsComeInPages(t *testing.T) {
	p := newProgress(feed.New(nil, slog.New(slog.DiscardHandler)), make(chan struct{}, 1), slog.New(slog.DiscardHandler))
	wanted := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}}
	var ids []target.PeelID
	for i := range 25 {
		id := target.PeelID(fmt.Sprintf("p%02d", i))
		ids = append(ids, id)
		wanted.Peels[id] = &plan.Effective{Digest: "1"}
	}
	p.want("", wanted, settings.Heads{"gone": {Peel: "p10x", Digest: "1"}})
	ids = slices.Insert(ids, 11, "p10x")
	var got []target.PeelID
	for after := target.PeelID(""); ; after = got[len(got)-1] {
		page := p.page(after, 10)
		if len(page.Peels) > 10 {
			t.Fatalf("%d in a page of 10", len(page.Peels))
		}
		for _, row := range page.Peels {
			got = append(got, row.Peel)
		}
		if !page.More {
			break
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%v", got)
	}
	if page := p.page("p10w", 1); len(page.Peels) != 1 || page.Peels[0].Peel != "p10x" || page.Peels[0].State != status.Decommissioned || !page.More {
		t.Errorf("after an ID that is none: %+v", page)
	}
	if page := p.page("p24", 10); len(page.Peels) != 0 || page.More {
		t.Errorf("after the last: %+v", page)
	}
	if c := p.counts(); c.Peels != 25 {
		t.Errorf("a decommissioned peel counts: %+v", c)
	}
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
		if err := b.term.purge(b.t.Context(), "facts", wire.Fact("web-02")); err != nil {
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

func BenchmarkStatus(b *testing.B) {
	for _, peels := range []int{1000, 10_000, 100_000} {
		for _, applied := range []int{100, 99, 0} {
			b.Run(fmt.Sprintf("peels=%d/applied=%d%%", peels, applied), func(b *testing.B) {
				p := newProgress(feed.New(nil, slog.New(slog.DiscardHandler)), make(chan struct{}, 1), slog.New(slog.DiscardHandler))
				wanted := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}}
				e := &plan.Effective{Digest: "1"}
				for i := range peels {
					wanted.Peels[target.PeelID(fmt.Sprintf("peel-%06d.example.com", i))] = e
				}
				p.want("", wanted, nil)
				for i := range peels * applied / 100 {
					p.take(wire.Applied{Peel: target.PeelID(fmt.Sprintf("peel-%06d.example.com", i)), Digest: "1"}, 1, time.Time{})
				}
				t := &term{board: newBoard(status.Sync{}), progress: p}
				for b.Loop() {
					if c := t.status().Counts; c.Applied != peels*applied/100 {
						b.Fatal(c)
					}
				}
			})
		}
	}
}
