package settings_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func writes(list ...settings.Write) iter.Seq[settings.Write] { return slices.Values(list) }

// masterStream connects as a master does: what could not be sent is not sent later.
func masterStream(t *testing.T, b *natstest.Bus) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(b.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1)))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func publish(t *testing.T, s *settings.Store, list ...settings.Write) map[target.PeelID]uint64 {
	t.Helper()
	stored, err := s.Publish(t.Context(), writes(list...))
	if err != nil {
		t.Fatal(err)
	}
	if len(stored) != len(list) {
		t.Fatalf("stored %d of %d", len(stored), len(list))
	}
	return stored
}

func load(t *testing.T, s *settings.Store) settings.Heads {
	t.Helper()
	heads, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return heads
}

func TestStoreLoadsWhatItPublished(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s := settings.NewStore(masterStream(t, b))
		if heads := load(t, s); len(heads) != 0 {
			t.Errorf("an empty bucket holds %v", heads)
		}
		const peels = 1500 // more than the window and than many batches
		var list []settings.Write
		for i := range peels {
			list = append(list, settings.Write{Document: document(t, target.PeelID(fmt.Sprintf("web.%d", i)), 7, i)})
		}
		stored := publish(t, s, list...)
		heads := load(t, s)
		if len(heads) != peels {
			t.Fatalf("%d of %d documents", len(heads), peels)
		}
		for _, w := range list {
			d := w.Document
			want := settings.Held{Peel: d.Peel, Digest: d.Digest, Commit: d.Commit, Generation: 7, Revision: stored[d.Peel]}
			if got := heads.Of(d.Peel); got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
		if got := heads.Of("unknown"); got != (settings.Held{}) {
			t.Errorf("an unknown peel has %+v", got)
		}
		d, revision, err := s.Get(t.Context(), "web.3")
		if err != nil || d.Digest != list[3].Document.Digest || revision != stored["web.3"] {
			t.Errorf("%+v at %d, %v", d, revision, err)
		}
	})
}

func TestPublishReplacesOnlyTheRevisionThatItNames(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s := settings.NewStore(masterStream(t, b))
		first := publish(t, s, settings.Write{Document: document(t, "web-01", 1, "a")}, settings.Write{Document: document(t, "web-02", 1, "a")})
		second := publish(t, s, settings.Write{Document: document(t, "web-01", 2, "b"), Revision: first["web-01"]})

		stale := []settings.Write{
			{Document: document(t, "web-01", 3, "stale"), Revision: first["web-01"]},
			{Document: document(t, "web-02", 3, "fine"), Revision: first["web-02"]},
			{Document: document(t, "web-03", 3, "fine")},
		}
		stored, err := s.Publish(t.Context(), writes(stale...))
		conflict, ok := errors.AsType[*settings.ConflictError](err)
		if !ok || !slices.Equal(conflict.Peels, []target.PeelID{"web-01"}) {
			t.Fatalf("%v", err)
		}
		heads := load(t, s)
		if heads.Of("web-01").Revision != second["web-01"] {
			t.Error("the stale document was stored")
		}
		for peel, revision := range stored {
			if heads.Of(peel).Revision != revision {
				t.Errorf("%s is at %d, reported %d", peel, heads.Of(peel).Revision, revision)
			}
		}
		if _, err := s.Publish(t.Context(), writes(settings.Write{Document: document(t, "web-01", 4, "new"), Revision: 0})); err == nil {
			t.Error("a document was stored over one that the writer knows nothing of")
		}
	})
}

func TestPublishDrawsNoMoreWritesAfterAConflict(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s := settings.NewStore(masterStream(t, b))
		const all = 5000
		drawn := 0
		_, err := s.Publish(t.Context(), func(yield func(settings.Write) bool) {
			for i := range all {
				drawn++
				if !yield(settings.Write{Document: document(t, target.PeelID(fmt.Sprint("p", i)), 1, "v"), Revision: uint64(i % 2)}) {
					return
				}
			}
		})
		if _, ok := errors.AsType[*settings.ConflictError](err); !ok || drawn == all {
			t.Errorf("drew %d of %d, %v", drawn, all, err)
		}
	})
}

func TestPublishGoesOverARestartWithoutLossOrRepetition(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s := settings.NewStore(masterStream(t, b))
		const all, restart = 400, 150
		stored, err := s.Publish(t.Context(), func(yield func(settings.Write) bool) {
			for i := range all {
				if i == restart {
					b.Stop(t)
					time.AfterFunc(3*time.Second, func() { b.Start(t) })
				}
				if !yield(settings.Write{Document: document(t, target.PeelID(fmt.Sprint("p", i)), 1, i)}) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		heads := load(t, s)
		if len(stored) != all || len(heads) != all {
			t.Fatalf("stored %d, holds %d", len(stored), len(heads))
		}
		revisions := map[uint64]bool{}
		for peel, revision := range stored {
			if heads.Of(peel).Revision != revision {
				t.Errorf("%s is at %d, reported %d", peel, heads.Of(peel).Revision, revision)
			}
			revisions[revision] = true
		}
		if highest := slices.Max(slices.Collect(maps.Keys(revisions))); highest != all {
			t.Errorf("%d messages were stored for %d documents", highest, all)
		}
	})
}

// A document whose acknowledgement stays out is sent again only while the check succeeds.
func TestNoDocumentIsSentAfterAFailedCheck(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		began, lost, calls := time.Now(), errors.New("the lease is lost"), 0
		s := settings.NewStore(masterStream(t, b)).Checked(func() error {
			if calls++; time.Since(began) > 2*time.Second {
				return lost
			}
			return nil
		})
		const all, away = 20, 10
		stored, err := s.Publish(t.Context(), func(yield func(settings.Write) bool) {
			for i := range all {
				if i == away {
					b.Stop(t)
					time.AfterFunc(3*time.Second, func() { b.Start(t) })
				}
				if !yield(settings.Write{Document: document(t, target.PeelID(fmt.Sprint("p", i)), 1, i)}) {
					return
				}
			}
		})
		if heads := load(t, s); !errors.Is(err, lost) || len(heads) > away || len(stored) > away || calls != all+1 {
			t.Errorf("%d calls, stored %d, holds %d: %v", calls, len(stored), len(heads), err)
		}
	})
}

func TestPublishSaysThatTheOutcomeIsUnknown(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s := settings.NewStore(masterStream(t, b))
		b.Stop(t)
		stored, err := s.Publish(t.Context(), writes(settings.Write{Document: document(t, "web-01", 1, "v")}))
		if err == nil || !strings.Contains(err.Error(), "cannot tell whether the settings of web-01 were stored") || len(stored) != 0 {
			t.Errorf("%v, %v", stored, err)
		}
	})
}

func TestBytesThatAreNoDocumentAreReportedAndReplaced(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := masterStream(t, b)
		s := settings.NewStore(js)
		kv, err := js.KeyValue(t.Context(), settings.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		put := func(key string, data []byte) {
			if _, err := kv.Put(t.Context(), key, data); err != nil {
				t.Fatal(err)
			}
		}
		put("garbage", []byte("{}"))
		put("web-01", encode(t, document(t, "web-02", 1, "of another peel")))
		put("gone", encode(t, document(t, "gone", 1, "v")))
		if err := kv.Delete(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		heads := load(t, s)
		for _, peel := range []target.PeelID{"garbage", "web-01"} {
			if h := heads.Of(peel); h.Err == nil || h.Revision == 0 || h.Digest != "" {
				t.Errorf("%s: %+v", peel, h)
			}
			if _, _, err := s.Get(t.Context(), peel); err == nil {
				t.Errorf("%s was read", peel)
			}
		}
		if h := heads.Of("gone"); h.Err != nil || h.Revision == 0 || h.Peel != "" {
			t.Errorf("a deleted document: %+v", h)
		}
		if d, revision, err := s.Get(t.Context(), "gone"); d != nil || revision == 0 || err != nil {
			t.Errorf("a deleted document: %+v at %d, %v", d, revision, err)
		}
		if d, revision, err := s.Get(t.Context(), "never"); d != nil || revision != 0 || err != nil {
			t.Errorf("a document that never was: %+v at %d, %v", d, revision, err)
		}
		var list []settings.Write
		for peel, h := range heads {
			list = append(list, settings.Write{Document: document(t, target.PeelID(peel), 2, "mended"), Revision: h.Revision})
		}
		publish(t, s, list...)
	})
}

func TestADocumentOverTheLimitDoesNotKeepOthersFromTheirPeels(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		s := settings.NewStore(masterStream(t, b))
		stored, err := s.Publish(t.Context(), writes(
			settings.Write{Document: document(t, "web-01", 1, "fine")},
			settings.Write{Document: document(t, "web-02", 1, strings.Repeat("x", settings.MaxDocument))},
			settings.Write{Document: document(t, "web-03", 1, "fine too")},
		))
		unfit, _ := errors.AsType[*settings.UnfitError](err)
		if unfit == nil || unfit.Peel != "web-02" || !strings.Contains(err.Error(), "settings of web-02 take") || len(stored) != 2 || stored["web-03"] == 0 {
			t.Errorf("%v, %v", stored, err)
		}
	})
}

func TestLoadWithoutABucketIsAnErrorAndNotAnEmptyBucket(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := masterStream(t, b)
		if err := js.DeleteKeyValue(t.Context(), settings.Bucket); err != nil {
			t.Fatal(err)
		}
		s := settings.NewStore(js)
		if heads, err := s.Load(t.Context()); err == nil || heads != nil {
			t.Errorf("%v, %v", heads, err)
		}
		if _, _, err := s.Get(t.Context(), "web-01"); err == nil {
			t.Error("Get reported absence")
		}
	})
}
