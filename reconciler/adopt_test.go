package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// otherRepo makes a repo that gives web-01 other settings, and returns its folder and commit.
func (b *bench) otherRepo() (dir string, head settings.Commit) {
	b.t.Helper()
	files := siteFiles()
	files["top.yaml"] = text("base:\n  '*': [common]\n")
	dir = filepath.Join(b.t.TempDir(), "other")
	work, err := worktree.Init(dir, files, "another repo", ada)
	if err != nil {
		b.t.Fatal(err)
	}
	b.work = work
	h, err := work.Head()
	if err != nil {
		b.t.Fatal(err)
	}
	return dir, settings.Commit(h.String())
}

// Another repo is another fleet: nothing is published, no order is carried out, until a person adopts the fleet.
func TestAnotherRepoIsPublishedAfterItWasAdopted(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		store := b.t.TempDir()
		b.startIn(store)
		first := b.document("web-01")
		if out := b.status(); out.Adopt != nil {
			t.Errorf("%+v", out.Adopt)
		}
		if why := b.ask("adopt", status.Adoption{}, nil); !strings.Contains(why, "already") {
			t.Errorf("nothing is to be adopted: %q", why)
		}
		b.stop()
		before := b.record()
		var head settings.Commit
		b.dir, head = b.otherRepo()
		b.startIn(store)
		b.peel("web-02", nil)
		b.after(20 * time.Second)
		out := b.status()
		if c := condition(out, status.Stalled); !c.Status || c.Reason != "OtherSource" || !strings.Contains(c.Message, "zester sync adopt") || out.Is(status.Ready) {
			t.Errorf("%+v", out.Conditions)
		}
		want := status.Adoption{From: before.Source.String(), To: record.NewSource(b.dir, "main", "").String()}
		if out.Adopt == nil || *out.Adopt != want {
			b.t.Fatalf("%+v, want %+v", out.Adopt, want)
		}
		for verb, q := range map[string]any{
			"pause": nil, "remove": status.RemoveRequest{Peel: "web-01", Force: true},
			"adopt": status.Adoption{From: want.To, To: want.To},
		} {
			if why := b.ask(verb, q, nil); !strings.Contains(why, "follows") {
				t.Errorf("%s: %q", verb, why)
			}
		}
		if after := b.record(); after.Time != before.Time || b.document("web-01").Generation != first.Generation || b.document("web-02") != nil {
			t.Errorf("web-01 has %s, web-02 has %s, %+v", b.entries("web-01"), b.entries("web-02"), after)
		}
		out = b.told("adopt", want)
		if b.record().Source.String() != want.To || out.Adopt != nil || out.Blocked == "" || b.entries("web-01") != "abcdw" {
			b.t.Fatalf("web-01 has %s, %+v", b.entries("web-01"), out)
		}
		if out = b.told("approve", status.ApproveRequest{Hash: out.Blocked}); out.LastGood.Commit != head || b.entries("web-01") != "abcd" {
			t.Errorf("web-01 has %s, %+v", b.entries("web-01"), out)
		}
	})
}

func TestARecordWithoutASourceIsTakenOver(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		b.stop()
		own := b.record().Source
		b.alterRecord(func(r *record.Record) { r.Source = record.Source{} })
		writes := b.writes()
		b.start()
		b.after(5 * time.Second)
		if r := b.record(); r.Source != own || own.Branch != "main" || b.writes() != writes || b.status().Adopt != nil {
			t.Errorf("%+v, %d documents were written", r.Source, b.writes()-writes)
		}
	})
}

// alterRecord changes the stored record, as an earlier version could have written it.
func (b *bench) alterRecord(change func(*record.Record)) {
	b.t.Helper()
	entry, err := b.term.rollout.Get(b.t.Context(), "state")
	if err != nil {
		b.t.Fatal(err)
	}
	var r record.Record
	if err = canon.Unmarshal(entry.Value(), &r); err != nil {
		b.t.Fatal(err)
	}
	change(&r)
	data, err := canon.Marshal(r)
	if err == nil {
		_, err = b.term.rollout.Put(b.t.Context(), "state", data)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// master runs a whole reconciler that competes for the lease, until stop.
func (b *bench) master(name, dir string) (stop func()) {
	b.t.Helper()
	nc := b.bus.Conn(b.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1))
	r, err := New(Options{Repo: gitrepo.Options{URL: dir, Dir: b.t.TempDir()}, Owner: name, Poll: time.Minute, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.t.Fatal(err)
	}
	fleet := fleet.New(nc, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(b.t.Context())
	ended := make(chan struct{}, 2)
	go func() { _ = fleet.Run(ctx); ended <- struct{}{} }()
	go func() {
		if err := r.unwatched(ctx, nc, fleet); !errors.Is(err, context.Canceled) {
			b.t.Errorf("%s ended: %v", name, err)
		}
		ended <- struct{}{}
	}()
	return func() { cancel(); <-ended; <-ended }
}

// Two masters of different configuration never take turns with the fleet, and the one that does not fit keeps no other one
// from leading.
func TestMastersOfTwoReposDoNotTakeTurns(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		repo := b.dir
		other, _ := b.otherRepo()
		stop := b.master("m1", repo)
		b.after(30 * time.Second)
		before := b.document("web-01")
		if before == nil || b.status().Owner != "m1" {
			b.t.Fatalf("web-01 has %+v", before)
		}
		stopOther := b.master("m2", other)
		b.after(10 * time.Minute)
		if owner := b.status().Owner; owner != "m1" {
			t.Errorf("%s leads", owner)
		}
		for range 3 {
			stop()
			b.after(2 * time.Minute)
			stop = b.master("m1", repo)
			b.after(yieldAfter + 2*yieldPause)
			if owner := b.status().Owner; owner != "m1" {
				t.Errorf("after more than %v %s still leads", yieldAfter, owner)
			}
		}
		stop()
		b.after(10 * time.Second)
		if out := b.status(); out.Owner != "m2" || out.Adopt == nil {
			t.Errorf("%+v", out)
		}
		if after := b.document("web-01"); after.Generation != before.Generation {
			t.Errorf("web-01 has %s of %s, before it had %s", b.entries("web-01"), after.Commit, before.Commit)
		}
		stopOther()
	})
}

// A leader that was stopped and goes on, while the next one has not written anything yet, writes nothing.
func TestALeaderThatWasStoppedWritesNothing(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		leases, err := b.bus.JetStream(b.t).KeyValue(b.t.Context(), "leases")
		if err != nil {
			b.t.Fatal(err)
		}
		l := bus.NewLease(leases, "reconciler", "m1", slog.New(slog.DiscardHandler))
		if _, err := l.Acquire(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		b.checkLease = l.Check
		b.start()
		before := b.document("web-01")
		b.commit("x for w", map[string]string{"settings/web.yaml": xForW})
		b.after(10 * time.Second) // nothing renews the lease, as if the process had been stopped
		b.now()
		if after := b.document("web-01"); before == nil || after.Generation != before.Generation {
			t.Errorf("web-01 has %s", b.entries("web-01"))
		}
		if _, err := l.Acquire(b.t.Context()); err != nil {
			b.t.Fatal(err)
		}
		b.after(time.Second)
		b.now()
		if b.entries("web-01") != "abcdx" {
			t.Errorf("with the lease back web-01 has %s", b.entries("web-01"))
		}
	})
}
