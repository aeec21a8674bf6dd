package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// values returns all values of a bucket by key.
func (b *bench) values(kv jetstream.KeyValue) map[string][]byte {
	b.t.Helper()
	list, err := kv.ListKeys(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	all := map[string][]byte{}
	for key := range list.Keys() {
		e, err := kv.Get(b.t.Context(), key)
		if err != nil {
			b.t.Fatal(err)
		}
		all[key] = e.Value()
	}
	return all
}

// copyBus copies what the reconciler keeps on the bus, and returns a function that brings it back.
func (b *bench) copyBus() (restore func()) {
	b.t.Helper()
	js, err := jetstream.New(b.nc)
	if err != nil {
		b.t.Fatal(err)
	}
	copies := map[jetstream.KeyValue]map[string][]byte{}
	for _, name := range []string{record.Bucket, settings.Bucket} {
		kv, err := js.KeyValue(b.t.Context(), name)
		if err != nil {
			b.t.Fatal(err)
		}
		copies[kv] = b.values(kv)
	}
	return func() {
		b.t.Helper()
		for kv, then := range copies {
			for key := range b.values(kv) {
				if err := kv.Purge(b.t.Context(), key); err != nil {
					b.t.Fatal(err)
				}
			}
			for key, value := range then {
				if _, err := kv.Put(b.t.Context(), key, value); err != nil {
					b.t.Fatal(err)
				}
			}
		}
	}
}

// forgetReports removes all reports of peels from the bus.
func (b *bench) forgetReports() {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), "applied")
	if err == nil {
		err = stream.Purge(b.t.Context())
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

func TestABusThatIsOlderThanItsPeelsIsSaid(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.peel("web-02", nil)
		b.start()
		b.after(time.Minute)
		if c := conditionOf(b.status(), status.BusRestored); c.Status {
			t.Fatalf("a healthy bus: %+v", c)
		}
		restore := b.copyBus()
		b.after(10 * time.Minute)
		b.commit("after the copy", map[string]string{"settings/web.yaml": xForW})
		b.after(time.Minute)
		newest, other := b.document("web-01"), b.document("web-02")
		b.after(10 * time.Minute)

		b.stop()
		b.alter(silent, "web-01", "web-02") // a peel drops older settings
		restore()
		b.start()
		b.say("web-01", wire.SettingsApplied("web-01"), reportOn(newest)) // as after each connect
		b.say("web-02", wire.SettingsApplied("web-02"), reportOn(other))
		b.after(3 * time.Minute)
		out := b.status()
		c := conditionOf(out, status.BusRestored)
		if !c.Status || !strings.Contains(c.Message, "and web-01 and 1 more have settings of 20") {
			t.Errorf("%+v", c)
		}
		if doc := b.document("web-01"); doc.Generation <= newest.Generation || b.entries("web-01") != "abcdx" {
			t.Errorf("web-01 gets %s in generation %d, after %d", b.entries("web-01"), doc.Generation, newest.Generation)
		}

		b.stop() // the next master says it too
		b.start()
		if c := conditionOf(b.status(), status.BusRestored); !c.Status {
			t.Error("the next master does not know")
		}
	})
}

func TestALossIsSaidAlsoIfTheMasterDiesAtOnce(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		b.after(time.Minute)
		copied := b.document("web-01")
		b.told("pause", nil) // writes the record, and no settings
		restore := b.copyBus()
		b.told("resume", nil)
		b.after(10 * time.Minute)
		b.commit("after the copy", map[string]string{"settings/web.yaml": xForW})
		b.after(time.Minute)
		newest := b.document("web-01")
		b.stop()
		b.alter(silent, "web-01")
		restore()

		b.forgetReports()
		b.start()
		b.after(time.Second)
		b.say("web-01", wire.SettingsApplied("web-01"), reportOn(newest))
		b.after(100 * time.Millisecond)
		if b.record().Lost == nil {
			t.Error("the loss is not noted when the report comes")
		}
		b.told("resume", nil)
		b.commit("after the restore", map[string]string{"settings/web.yaml": xForW + "# more\n"})
		b.now()
		if doc := b.document("web-01"); doc.Generation <= newest.Generation {
			t.Fatalf("no newer document is written: generation %d after %d", doc.Generation, newest.Generation)
		}
		b.stop()
		b.start()
		if c := conditionOf(b.status(), status.BusRestored); !c.Status {
			t.Error("the next master does not know")
		}
		lost := b.record().Lost
		if lost == nil || lost.From.UnixMilli() != int64(copied.Generation) || lost.Until.UnixMilli() != int64(newest.Generation) {
			t.Errorf("%+v; the copy has generation %d, the peel %d", lost, copied.Generation, newest.Generation)
		}
	})
}

func TestAGenerationThatNoMasterCanHaveWrittenSaysNothing(t *testing.T) {
	inBubble(t, siteFiles(), func(b *bench) {
		b.peel("web-01", nil)
		b.start()
		b.after(time.Minute)
		b.alter(silent, "web-01")
		lie := reportOn(b.document("web-01"))
		lie.Generation = 1 << 62
		b.say("web-01", wire.SettingsApplied("web-01"), lie)
		b.after(3 * time.Minute)
		if c := conditionOf(b.status(), status.BusRestored); c.Status {
			t.Errorf("%+v", c)
		}
	})
}

func TestALossIsShownForAWeek(t *testing.T) {
	seen := time.Now()
	lost := &record.Lost{Seen: seen}
	if !lost.IsShown(seen.Add(6*24*time.Hour)) || lost.IsShown(seen.Add(8*24*time.Hour)) || (*record.Lost)(nil).IsShown(seen) {
		t.Error("not for a week")
	}
}
