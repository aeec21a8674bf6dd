package progress

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/plan"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// everyPeel is of a caller who may read about all peels.
var everyPeel = access.Peels{All: true}

// What is kept up to date equals a look at every peel, whatever is wanted, held back and reported in between.
func TestProgressEqualsALookAtEveryPeel(t *testing.T) {
	p := New(fleetpkg.New(nil, slog.New(slog.DiscardHandler)), make(chan struct{}, 1), slog.New(slog.DiscardHandler))
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
			p.Want("", wanted, heads)
		} else {
			id := ids[next(len(ids))]
			p.record(wire.Applied{Peel: id, Digest: string(digests[next(3)])}, 1, time.Now())
		}
		want := status.Counts{Failed: len(wanted.Behind), Peels: len(wanted.Peels) + len(wanted.Behind)}
		for id, e := range wanted.Peels {
			if r := p.reports[id.Wire()]; r.Peel == id && settings.Digest(r.Digest) == e.Digest {
				want.Applied++
			} else {
				want.Offline++
			}
		}
		if got := p.Counts(); got != want {
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
	p := New(fleetpkg.New(nil, slog.New(slog.DiscardHandler)), make(chan struct{}, 1), slog.New(slog.DiscardHandler))
	wanted := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}}
	var ids []target.PeelID
	for i := range 25 {
		id := target.PeelID(fmt.Sprintf("p%02d", i))
		ids = append(ids, id)
		wanted.Peels[id] = &plan.Effective{Digest: "1"}
	}
	p.Want("", wanted, settings.Heads{"gone": {Peel: "p10x", Digest: "1"}})
	ids = slices.Insert(ids, 11, "p10x")
	var got []target.PeelID
	for after := target.PeelID(""); ; after = got[len(got)-1] {
		page := p.Page(everyPeel, status.PeelsRequest{Cursor: after}, 10)
		if len(page.Peels) > 10 {
			t.Fatalf("%d in a page of 10", len(page.Peels))
		}
		for _, row := range page.Peels {
			got = append(got, row.Peel)
		}
		if page.Next == "" {
			break
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("%v", got)
	}
	if page := p.Page(everyPeel, status.PeelsRequest{Cursor: "p10w"}, 1); len(page.Peels) != 1 || page.Peels[0].Peel != "p10x" || page.Peels[0].State != status.Decommissioned || page.Next == "" {
		t.Errorf("after an ID that is none: %+v", page)
	}
	if page := p.Page(everyPeel, status.PeelsRequest{Cursor: "p24"}, 10); len(page.Peels) != 0 || page.Next != "" {
		t.Errorf("after the last: %+v", page)
	}
	p.record(wire.Applied{Peel: "p03", Digest: "1"}, 1, time.Now())
	page := p.Page(everyPeel, status.PeelsRequest{Cursor: "p02", Behind: true}, 8)
	if len(page.Peels) != 8 || page.Peels[0].Peel != "p04" || page.Peels[7].Peel != "p11" || page.Next != "p11" {
		t.Errorf("after p02, p03 has applied its settings, and p10x has left: %+v", page)
	}
	if c := p.Counts(); c.Peels != 25 {
		t.Errorf("a decommissioned peel counts: %+v", c)
	}
}

func BenchmarkCounts(b *testing.B) {
	for _, peels := range []int{1000, 10_000, 100_000} {
		for _, applied := range []int{100, 99, 0} {
			b.Run(fmt.Sprintf("peels=%d/applied=%d%%", peels, applied), func(b *testing.B) {
				p := New(fleetpkg.New(nil, slog.New(slog.DiscardHandler)), make(chan struct{}, 1), slog.New(slog.DiscardHandler))
				wanted := &plan.Plan{Peels: map[target.PeelID]*plan.Effective{}}
				e := &plan.Effective{Digest: "1"}
				for i := range peels {
					wanted.Peels[target.PeelID(fmt.Sprintf("peel-%06d.example.com", i))] = e
				}
				p.Want("", wanted, nil)
				for i := range peels * applied / 100 {
					p.record(wire.Applied{Peel: target.PeelID(fmt.Sprintf("peel-%06d.example.com", i)), Digest: "1"}, 1, time.Time{})
				}
				for b.Loop() {
					if c := p.Counts(); c.Applied != peels*applied/100 {
						b.Fatal(c)
					}
				}
			})
		}
	}
}

// BenchmarkTroubleOfTheFleet is what metrics and places read every second, of 10,000 peels without an error.
func BenchmarkTroubleOfTheFleet(b *testing.B) {
	p := New(nil, nil, slog.New(slog.DiscardHandler))
	for i := range 10_000 {
		p.record(wire.Applied{Peel: target.PeelID(fmt.Sprint("web-", i)), Digest: "d1"}, uint64(i), time.Now())
	}
	for b.Loop() {
		if len(p.Errors()) > 0 || len(p.PausedErrors(5)) > 0 {
			b.Fatal("there are errors")
		}
	}
}
