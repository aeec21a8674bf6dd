package reconciler

import (
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// bucket opens a bucket as the master.
func (b *bench) bucket(name string) jetstream.KeyValue {
	b.t.Helper()
	js, err := jetstream.New(b.nc)
	if err != nil {
		b.t.Fatal(err)
	}
	kv, err := js.KeyValue(b.t.Context(), name)
	if err != nil {
		b.t.Fatal(err)
	}
	return kv
}

// dieBeforeDocuments has the master put a commit in force, or begin its rollout, and die before it writes a document.
func (b *bench) dieBeforeDocuments(changes map[string]string) settings.Commit {
	b.t.Helper()
	documents := b.bucket(settings.Bucket)
	before := map[string][]byte{}
	maps.Copy(before, b.values(documents))
	rollout := b.bucket(record.Bucket)
	written, err := rollout.WatchAll(b.t.Context(), jetstream.UpdatesOnly())
	if err != nil {
		b.t.Fatal(err)
	}
	c := b.commit("more", changes)
	b.now()
	b.after(time.Second)
	b.stop()
	if err := written.Stop(); err != nil {
		b.t.Fatal(err)
	}
	var key string
	var last []byte
	for e := range written.Updates() {
		var r record.Record
		if e == nil || last != nil || canon.Unmarshal(e.Value(), &r) != nil {
			continue
		}
		if r.Commit == c && r.Guarded != nil || r.Rollout != nil && r.Rollout.Commit == c && r.Rollout.Guarded != nil {
			key = e.Key()
			last = e.Value()
		}
	}
	if last == nil {
		b.t.Fatal("no record says what was judged")
	}
	for key, value := range before {
		if _, err := documents.Put(b.t.Context(), key, value); err != nil {
			b.t.Fatal(err)
		}
	}
	if _, err := rollout.Put(b.t.Context(), key, last); err != nil {
		b.t.Fatal(err)
	}
	return c
}

// A master judges a commit and dies. Before the next one writes the documents, facts change that would empty the fleet.
func TestFactsThatChangeBetweenAJudgementAndItsDocumentsWait(t *testing.T) {
	more := map[string]string{"settings/deb.yaml": factsEntries + "  g: {module: test.ping, interval: 2h}\n"}
	for name, rules := range map[string]string{"at once": "", "in waves": "waves: [{name: canary, peels: 50%}]\n"} {
		t.Run(name, func(t *testing.T) {
			withFacts(t, rules, func(b *factsBench) {
				b.alter(silent, b.ids...)
				c := b.dieBeforeDocuments(more)
				b.os("other", b.ids[:4]...)
				b.alter(func(p *actor) { p.takes = true }, b.ids...)
				b.start()
				b.after(5 * time.Minute)
				b.have("adef", b.ids[:4]...)
				b.have("adefg", b.ids[4:]...)
				out := b.status()
				if out.Facts == nil || out.Facts.Peels != 4 || !out.Is(status.GuardBlocked) {
					t.Fatalf("%+v", out)
				}
				if out = b.told("approve", status.ApproveRequest{Hash: out.Facts.Hash}); out.Facts != nil || out.LastGood.Commit != c {
					t.Errorf("%+v", out)
				}
				b.have("a", b.ids[:4]...)
				if r := b.record(); r.Guarded != nil {
					t.Error("the record still has the judged settings of a revision whose documents are written")
				}
			})
		})
	}
}

// What facts take within the limits goes out with the revision.
func TestFewFactsThatChangeBetweenAJudgementAndItsDocumentsGoOut(t *testing.T) {
	withFacts(t, "limits: {remove: 50%}\n", func(b *factsBench) {
		c := b.dieBeforeDocuments(map[string]string{"settings/deb.yaml": factsEntries + "  g: {module: test.ping, interval: 2h}\n"})
		b.say(b.ids[0], wire.Fact(b.ids[0].Wire()), wire.Facts{Peel: b.ids[0], Facts: target.Facts{"os": "other"}, V: wire.Version})
		b.start()
		b.after(time.Minute)
		b.have("a", b.ids[0])
		b.have("adefg", b.ids[1:]...)
		if out := b.status(); out.Facts != nil || out.LastGood.Commit != c {
			t.Errorf("%+v", out)
		}
	})
}
