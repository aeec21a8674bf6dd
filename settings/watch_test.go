package settings_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A watched peel has the subjects of the wire in its permissions; the ones that this package makes must be those.
func TestSubjectsAreThoseOfTheWire(t *testing.T) {
	peel := target.PeelID("web.01")
	if got := settings.LiveSubject(peel); got != wire.Settings(peel.Wire()) {
		t.Error(got)
	}
	if got := settings.DirectGet(peel); got != wire.SettingsGet(peel.Wire()) {
		t.Error(got)
	}
	if got := settings.KeySubject(peel); got != wire.SettingsKey(peel.Wire()) {
		t.Error(got)
	}
}

// watched is a peel that records what its watch tells.
type watched struct {
	t       *testing.T
	conn    *nats.Conn
	log     bytes.Buffer
	updates chan settings.Update
	stop    func()
}

func watchPeel(t *testing.T, b *natstest.Bus, peel target.PeelID, after uint64) *watched {
	t.Helper()
	w := &watched{t: t, conn: b.Conn(t, grants.RolePeel, peel.Wire()), updates: make(chan settings.Update, 100)}
	w.run(peel, after)
	return w
}

func (w *watched) run(peel target.PeelID, after uint64) {
	watch := settings.NewWatch(settings.WatchOptions{Conn: w.conn, Peel: peel, After: after, Log: slog.New(slog.NewTextHandler(&w.log, nil))})
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error)
	go func() { done <- watch.Run(ctx, func(_ context.Context, u settings.Update) { w.updates <- u }) }()
	stopped := false
	w.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	}
	w.t.Cleanup(func() { w.stop() })
}

// expect reads the updates so far and compares them with one of several wanted: the commits of documents, "ok" for a
// confirmation, "missing", "refused".
func (w *watched) expect(want ...string) {
	w.t.Helper()
	synctest.Wait()
	var got []string
	for {
		select {
		case u := <-w.updates:
			switch {
			case u.Document != nil:
				got = append(got, u.Document.Commit.Short())
			case u.Refused != nil:
				got = append(got, "refused")
			case u.Missing:
				got = append(got, "missing")
			default:
				got = append(got, "ok")
			}
			continue
		default:
		}
		break
	}
	if s := strings.Join(got, " "); !slices.Contains(want, s) {
		w.t.Errorf("heard %q, want %q; log:\n%s", s, want, w.log.String())
	}
}

// commits publishes documents for one peel, each over the last.
type commits struct {
	t        *testing.T
	store    *settings.Store
	peel     target.PeelID
	revision uint64
}

func (c *commits) make(name string, generation uint64) settings.Write {
	c.t.Helper()
	d := document(c.t, c.peel, generation, name)
	d.Commit = settings.Commit(name)
	return settings.Write{Document: d, Revision: c.revision}
}

func (c *commits) publish(name string, generation uint64) {
	c.t.Helper()
	c.revision = publish(c.t, c.store, c.make(name, generation))[c.peel]
}

func TestWatchDeliversTheStoredDocumentAndLaterOnes(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web.01"}
		c.publish("first", 1)
		w := watchPeel(t, b, "web.01", 0)
		w.expect("first")
		c.publish("second", 2)
		w.expect("second")
		other := commits{t: t, store: c.store, peel: "web-02"}
		other.publish("other", 3)
		w.expect("")
		c.publish("third", 3)
		c.publish("fourth", 4)
		w.expect("third fourth", "fourth") // one that waited may be skipped
	})
}

func TestWatchReportsThatThereIsNoDocumentYet(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web-01"}
		w := watchPeel(t, b, "web-01", 0)
		w.expect("missing")
		c.publish("first", 1)
		w.expect("first")
	})
}

func TestWatchConfirmsTheSnapshot(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web-01"}
		c.publish("snapshot", 5)
		watchPeel(t, b, "web-01", 5).expect("ok")
	})
}

func TestPeelOfflineThroughThreeCommitsGetsOnlyTheNewest(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web-01"}
		c.publish("first", 1)
		w := watchPeel(t, b, "web-01", 0)
		w.expect("first")
		w.stop()
		for i, name := range []string{"second", "third", "fourth"} {
			c.publish(name, uint64(2+i))
		}
		w.run("web-01", 1)
		w.expect("fourth")
	})
}

func TestWatchGoesOnAfterARestartOfTheServer(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web-01"}
		c.publish("first", 1)
		w := watchPeel(t, b, "web-01", 0)
		w.expect("first")
		b.Stop(t)
		time.Sleep(time.Minute)
		w.expect("")
		b.Start(t)
		time.Sleep(time.Minute)
		w.expect("ok", "ok ok")
		c.publish("second", 2)
		w.expect("second")
		if strings.Contains(w.log.String(), "level=WARN") {
			t.Error(w.log.String())
		}
	})
}

func TestWatchStartedWithoutTheBusFindsTheDocumentLater(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web-01"}
		c.publish("second", 2)
		b.Stop(t)
		w := &watched{t: t, updates: make(chan settings.Update, 100)}
		w.conn = b.Conn(t, grants.RolePeel, "web-01", nats.RetryOnFailedConnect(true))
		w.run("web-01", 1)
		time.Sleep(time.Hour)
		w.expect("")
		b.Start(t)
		time.Sleep(time.Minute)
		w.expect("second", "second ok") // the get that was due anyhow, and the one after the reconnect
	})
}

func TestADocumentThatWasNotStoredIsNotDelivered(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web-01"}
		c.publish("first", 1)
		w := watchPeel(t, b, "web-01", 0)
		w.expect("first")
		stale := c.make("stale", 9)
		c.publish("second", 2)
		if _, err := c.store.Publish(t.Context(), writes(stale)); err == nil {
			t.Fatal("the stale document was stored")
		}
		w.expect("second")
	})
}

func TestOlderGenerationIsDropped(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web-01"}
		c.publish("second", 2)
		w := watchPeel(t, b, "web-01", 0)
		w.expect("second")
		c.publish("older", 1)
		c.publish("equal", 2)
		w.expect("")
		if n := strings.Count(w.log.String(), "dropped older settings"); n != 1 {
			t.Errorf("said %d times that an older document came:\n%s", n, w.log.String())
		}
		c.publish("third", 3)
		w.expect("third")
	})
}

func TestGenerationsGoOnInARecreatedBucket(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := masterStream(t, b)
		c := commits{t: t, store: settings.NewStore(js), peel: "web-01"}
		for i := range 5 {
			c.publish("before", uint64(1+i))
		}
		w := watchPeel(t, b, "web-01", 0)
		w.expect("before")
		stream, err := js.Stream(t.Context(), "KV_settings")
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		if err := js.DeleteStream(t.Context(), config.Name); err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		c.revision = 0
		c.publish("after", 6)
		if c.revision != 1 {
			t.Fatalf("the sequence went on at %d", c.revision)
		}
		w.expect("after ok") // the sequence does not follow the one before, so the key was read too
		c.publish("later", 7)
		w.expect("later")
	})
}

// republished is a message as the stream sends it, which only a master may do in its place.
func republished(peel target.PeelID, data []byte, sequence, last string) *nats.Msg {
	msg := nats.NewMsg(settings.LiveSubject(peel))
	msg.Header.Set("Nats-Stream", "KV_settings")
	msg.Header.Set("Nats-Subject", settings.KeySubject(peel))
	msg.Header.Set("Nats-Sequence", sequence)
	msg.Header.Set("Nats-Last-Sequence", last)
	msg.Data = data
	return msg
}

func TestGapInTheSequenceIsClosedByAGet(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := masterStream(t, b)
		c := commits{t: t, store: settings.NewStore(js), peel: "web-01"}
		c.publish("first", 1)
		w := watchPeel(t, b, "web-01", 0)
		w.expect("first")
		stream, err := js.Stream(t.Context(), "KV_settings")
		if err != nil {
			t.Fatal(err)
		}
		deaf := stream.CachedInfo().Config
		deaf.RePublish = nil
		if _, err := js.UpdateStream(t.Context(), deaf); err != nil {
			t.Fatal(err)
		}
		c.publish("lost", 2)
		w.expect("")
		older := encode(t, document(t, "web-01", 1, "delayed"))
		if err := js.Conn().PublishMsg(republished("web-01", older, "9", "8")); err != nil {
			t.Fatal(err)
		}
		w.expect("lost")
	})
}

func TestForgedMessagesAreRefused(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := masterStream(t, b)
		c := commits{t: t, store: settings.NewStore(js), peel: "web-01"}
		c.publish("first", 1)
		(&commits{t: t, store: c.store, peel: "web-02"}).publish("other", 9)
		w := watchPeel(t, b, "web-01", 0)
		w.expect("first")
		forged := encode(t, document(t, "web-01", 9, "forged"))
		for name, change := range map[string]func(*nats.Msg){
			"without headers":         func(m *nats.Msg) { m.Header = nil },
			"from another key":        func(m *nats.Msg) { m.Header.Set("Nats-Subject", settings.KeySubject("web-02")) },
			"from another stream":     func(m *nats.Msg) { m.Header.Set("Nats-Stream", "facts") },
			"the server's own answer": func(m *nats.Msg) { m.Header, m.Data = nil, []byte(`{"type":"io.nats.jetstream"}`) },
		} {
			msg := republished("web-01", forged, "2", "1")
			change(msg)
			w.log.Reset()
			if err := js.Conn().PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
			w.expect("")
			if !strings.Contains(w.log.String(), "refused settings") {
				t.Errorf("%s: nothing was said", name)
			}
		}
		// The server sends another peel's document where it is asked to.
		ask := nats.NewMsg(settings.DirectGet("web-02"))
		ask.Reply = settings.LiveSubject("web-01")
		if err := js.Conn().PublishMsg(ask); err != nil {
			t.Fatal(err)
		}
		w.expect("")
	})
}

func TestDocumentThatCannotBeUsedIsReportedAndTheNextOneTaken(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		c := commits{t: t, store: settings.NewStore(masterStream(t, b)), peel: "web-01"}
		later := c.make("later", 5)
		later.Document.V = settings.Version + 1
		c.revision = publish(t, c.store, later)["web-01"]
		w := watchPeel(t, b, "web-01", 0)
		w.expect("refused")
		c.publish("mended", 6)
		w.expect("mended")
	})
}

func TestWatchEndsWithAnErrorWhenTheConnectionIsClosed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		nc := b.Conn(t, grants.RolePeel, "web-01")
		w := settings.NewWatch(settings.WatchOptions{Conn: nc, Peel: "web-01", Log: slog.New(slog.DiscardHandler)})
		time.AfterFunc(time.Minute, nc.Close)
		if err := w.Run(t.Context(), func(context.Context, settings.Update) {}); err == nil {
			t.Error("no error")
		}
	})
}

func BenchmarkPublish(b *testing.B) {
	bus := natstest.Listen(b)
	js := bus.JetStream(b)
	s := settings.NewStore(js)
	const peels = 10_000
	revisions := map[target.PeelID]uint64{}
	generation := uint64(0)
	d := document(b, "", 0, strings.Repeat("x", 2000))
	for b.Loop() {
		generation++
		stored, err := s.Publish(b.Context(), func(yield func(settings.Write) bool) {
			for i := range peels {
				one := *d
				one.Peel, one.Generation = target.PeelID("web-"+strconv.Itoa(i)), generation
				if !yield(settings.Write{Document: &one, Revision: revisions[one.Peel]}) {
					return
				}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		revisions = stored
	}
	b.ReportMetric(float64(peels)*float64(b.N)/b.Elapsed().Seconds(), "docs/s")
}

func BenchmarkLoad(b *testing.B) {
	bus := natstest.Listen(b)
	s := settings.NewStore(bus.JetStream(b))
	const peels = 10_000
	d := document(b, "", 1, strings.Repeat("x", 2000))
	_, err := s.Publish(b.Context(), func(yield func(settings.Write) bool) {
		for i := range peels {
			one := *d
			one.Peel = target.PeelID("web-" + strconv.Itoa(i))
			if !yield(settings.Write{Document: &one}) {
				return
			}
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if heads, err := s.Load(b.Context()); err != nil || len(heads) != peels {
			b.Fatal(len(heads), err)
		}
	}
}
