package reconciler

import (
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/feed"
)

// began returns a term that has read what others have left, and does nothing by itself.
func (b *bench) began() *term {
	b.t.Helper()
	log := slog.New(slog.DiscardHandler)
	r, err := New(Options{Repo: gitrepo.Options{URL: b.dir, Dir: b.t.TempDir()}, Owner: "m1", Log: log})
	if err != nil {
		b.t.Fatal(err)
	}
	js, err := jetstream.New(b.nc)
	if err != nil {
		b.t.Fatal(err)
	}
	t, err := r.newTerm(b.t.Context(), b.nc, js, feed.New(b.nc, log))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := t.repo.Close(); err != nil {
			b.t.Error(err)
		}
	})
	return t
}

// A holder of the lease that was stopped and does not know yet that another leads must not bring its groups back.
func TestGroupsAreNotWrittenOverThoseOfWhoeverLeadsNext(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		ctx := b.t.Context()
		holds := func(want string) {
			b.t.Helper()
			groups, err := settings.LoadGroups(ctx, b.term.rollout)
			if err != nil {
				b.t.Fatal(err)
			}
			e, err := target.Parse("N@front", target.Options{Groups: groups})
			if err != nil {
				b.t.Fatal(err)
			}
			if !e.Match(target.Peel{ID: target.PeelID(want)}) {
				b.t.Errorf("N@front does not match %s", want)
			}
		}
		b.term = b.began()
		if err := b.term.publishGroups(ctx, map[string][]string{"front": {"web-01"}}); err != nil {
			b.t.Fatal(err)
		}
		next := b.began()
		if err := next.publishGroups(ctx, map[string][]string{"front": {"web-02"}}); err != nil {
			b.t.Fatal(err)
		}
		if err := b.term.publishGroups(ctx, map[string][]string{"front": {"web-03"}}); !isConflict(err) {
			b.t.Errorf("the one before goes on: %v", err)
		}
		holds("web-02")
		if err := next.publishGroups(ctx, map[string][]string{"front": {"web-04"}}); err != nil {
			b.t.Error(err)
		}
		holds("web-04")
		stream, err := next.js.Stream(ctx, "KV_"+record.Bucket)
		if err != nil {
			b.t.Fatal(err)
		}
		writes := stream.CachedInfo().State.LastSeq
		if err := b.began().publishGroups(ctx, map[string][]string{"front": {"web-04"}}); err != nil {
			b.t.Error(err)
		}
		if info, err := stream.Info(ctx); err != nil || info.State.LastSeq != writes {
			b.t.Errorf("the same groups are written again: %v, %v", info.State.LastSeq, err)
		}
		if _, err := next.rollout.PutString(ctx, "nodegroups", "something else"); err != nil {
			b.t.Fatal(err)
		}
		if err := b.began().publishGroups(ctx, map[string][]string{"front": {"web-05"}}); err != nil {
			b.t.Error(err)
		}
		holds("web-05")
	})
}
