package reach

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
	"github.com/seed-c01c3da5/zester/settings/target/peelindex"
)

// given is a selector over peels whose settings a test writes.
type given struct {
	*Selector
	t         *testing.T
	revisions map[target.PeelID]uint64
	heard     atomic.Int32 // readings of the whole bucket
}

func withSettings(t *testing.T, f func(t *testing.T, g *given)) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		g := &given{
			Selector: NewSelector(js, peelindex.New()), t: t, revisions: map[target.PeelID]uint64{},
		}
		if _, err := js.Conn().Subscribe("$JS.API.CONSUMER.CREATE.KV_settings.>", func(*nats.Msg) { g.heard.Add(1) }); err != nil {
			t.Fatal(err)
		}
		f(t, g)
	})
}

// give publishes settings for a peel, which is there from then on.
func (g *given) give(id target.PeelID, generation uint64, workers int) {
	g.t.Helper()
	raw, err := canon.Marshal(map[string]any{"nginx": map[string]any{"workers": workers}})
	if err != nil {
		g.t.Fatal(err)
	}
	doc := &settings.Document{V: settings.Version, Peel: id, Generation: generation, Digest: settings.DigestOf(raw), Settings: raw}
	stored, err := g.store.Publish(g.t.Context(), slices.Values([]settings.Write{{Document: doc, Revision: g.revisions[id]}}))
	if err != nil {
		g.t.Fatal(err)
	}
	g.revisions[id] = stored[id]
	g.index.Put(id, nil)
}

// reads is how often the whole bucket was read, once nothing moves.
func (g *given) reads() int32 {
	synctest.Wait()
	return g.heard.Load()
}

func (g *given) want(expr string, want ...target.PeelID) {
	g.t.Helper()
	if _, got, err := g.Select(g.t.Context(), expr); err != nil || !slices.Equal(got, want) {
		g.t.Errorf("%s selects %v, %v, want %v", expr, got, err, want)
	}
}

func TestSettingsAreReadAgainOnlyWhenTheyHaveChanged(t *testing.T) {
	withSettings(t, func(t *testing.T, g *given) {
		g.give("a", 1, 4)
		g.give("b", 1, 8)
		g.want("web-* or G@os:debian")
		if n := g.reads(); n != 0 {
			t.Errorf("read %d times for an expression that asks for no settings", n)
		}
		for range 10 { // the pages of one answer
			g.want("I@nginx:workers:4", "a")
		}
		if n := g.reads(); n != 1 {
			t.Errorf("read %d times without a change", n)
		}
		g.give("b", 2, 4)
		g.want("I@nginx:workers:4", "a", "b")
		if n := g.reads(); n != 2 {
			t.Errorf("read %d times with one change", n)
		}
	})
}

func TestSettingsThatAreGoneSelectNothing(t *testing.T) {
	withSettings(t, func(t *testing.T, g *given) {
		g.give("a", 1, 4)
		g.give("b", 1, 4)
		g.want("I@nginx:workers:4", "a", "b")
		kv, err := g.js.KeyValue(t.Context(), settings.Bucket)
		if err == nil {
			err = kv.Purge(t.Context(), "a")
		}
		if err != nil {
			t.Fatal(err)
		}
		g.want("I@nginx", "b")
		g.index.Remove("a")
		if g.index.Len() != 1 || len(g.loaded) != 1 {
			t.Errorf("remembered are %v", g.loaded)
		}
		if err := g.js.DeleteStream(t.Context(), "KV_"+settings.Bucket); err != nil {
			t.Fatal(err)
		}
		if _, _, err := g.Select(t.Context(), "I@nginx"); err == nil {
			t.Error("a bucket that is away is an empty one")
		}
	})
}

func TestADocumentThatCannotBeReadHidesNoOther(t *testing.T) {
	withSettings(t, func(t *testing.T, g *given) {
		g.give("a", 1, 4)
		g.want("I@nginx", "a")
		if _, err := g.js.Publish(t.Context(), "$KV.settings.a", []byte("no document")); err != nil {
			t.Fatal(err)
		}
		g.give("b", 1, 4)
		g.want("I@nginx", "a", "b")
	})
}

func TestManyWhoAskAtOnceShareOneReading(t *testing.T) {
	withSettings(t, func(t *testing.T, g *given) {
		g.give("a", 1, 4)
		left, leave := context.WithCancel(t.Context())
		leave()
		if _, _, err := g.Select(left, "I@nginx"); err == nil {
			t.Error("who has left was answered")
		}
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { g.want("I@nginx", "a") })
		}
		all.Wait()
		if n := g.reads(); n > 10 {
			t.Errorf("read %d times for 50 who asked at once", n)
		}
	})
}
