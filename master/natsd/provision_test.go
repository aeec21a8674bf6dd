package natsd_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func info(t *testing.T, js jetstream.JetStream, stream string) *jetstream.StreamInfo {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatalf("%s: %v", stream, err)
	}
	return s.CachedInfo()
}

func keyValue(t *testing.T, js jetstream.JetStream, name string) jetstream.KeyValue {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return kv
}

func TestEveryStreamKeepsWhatItMust(t *testing.T) {
	const week = 7 * 24 * time.Hour
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		for name, want := range map[string]struct {
			perSubject int64
			age        time.Duration
			direct     bool
		}{
			"KV_settings":    {1, 0, true},
			"KV_active":      {10, 0, false},
			"KV_jobs":        {10, week, false},
			"KV_job-returns": {1, week, true},
			"KV_masters":     {1, 15 * time.Second, false},
			"KV_leases":      {1, 15 * time.Second, false},
			"KV_rollout":     {10, 0, false},
			"KV_revisions":   {1, 0, false},
			"KV_files":       {1, 0, true},
			"KV_tokens":      {1, 0, false},
			"KV_sessions":    {1, 25 * time.Hour, false},
			"KV_alerts":      {1, 0, false},
			"job-events":     {16, week, true},
			"facts":          {1, 0, true},
			"applied":        {1, 0, true},
		} {
			c := info(t, js, name).Config
			if c.MaxMsgsPerSubject != want.perSubject || c.MaxAge != want.age || c.AllowDirect != want.direct {
				t.Errorf("%s: %d per subject, %v, direct %v; want %+v", name, c.MaxMsgsPerSubject, c.MaxAge, c.AllowDirect, want)
			}
			if c.Storage != jetstream.FileStorage || !c.DenyDelete && strings.HasPrefix(name, "KV_") {
				t.Errorf("%s: storage %v, deny delete %v", name, c.Storage, c.DenyDelete)
			}
			if c.Duplicates < min(2*time.Minute, max(want.age, 15*time.Second)) {
				t.Errorf("%s: duplicates are known for %v", name, c.Duplicates)
			}
		}
	})
}

func TestWhatPeelsFillIsBounded(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		for name, bytes := range map[string]int64{"KV_jobs": 1 << 30, "KV_job-returns": 4 << 30, "job-events": 2 << 30} {
			c := info(t, js, name).Config
			discard := jetstream.DiscardOld
			if name == "KV_job-returns" {
				discard = jetstream.DiscardNew // masters make room
			}
			if c.MaxBytes > bytes || c.MaxBytes < 64<<20 || c.MaxMsgs != 4_000_000 || c.Discard != discard {
				t.Errorf("%s keeps %d bytes, %d messages, %v", name, c.MaxBytes, c.MaxMsgs, c.Discard)
			}
		}
	})
}

func TestProvisioningAgainChangesNothing(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		if _, err := keyValue(t, js, wire.BucketSettings).Put(t.Context(), "web-01", []byte("kept")); err != nil {
			t.Fatal(err)
		}
		before := info(t, js, "KV_settings")
		if _, err := natsd.Provision(t.Context(), js, bucket.Kept{}); err != nil {
			t.Fatal(err)
		}
		after := info(t, js, "KV_settings")
		if !reflect.DeepEqual(before.Config, after.Config) || before.State.LastSeq != after.State.LastSeq || !before.Created.Equal(after.Created) {
			t.Errorf("was %+v\nis %+v", before, after)
		}
	})
}

func TestAStreamOfAnEarlierVersionIsUpdatedInPlace(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		old := info(t, js, "KV_jobs").Config
		old.MaxMsgsPerSubject, old.MaxAge, old.AllowDirect = 3, time.Hour, true
		if _, err := js.UpdateStream(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		if _, err := keyValue(t, js, wire.BucketJobs).Put(t.Context(), "k", []byte("kept")); err != nil {
			t.Fatal(err)
		}
		if _, err := natsd.Provision(t.Context(), js, bucket.Kept{}); err != nil {
			t.Fatal(err)
		}
		got := info(t, js, "KV_jobs")
		if c := got.Config; c.MaxMsgsPerSubject != 10 || c.MaxAge != 7*24*time.Hour || c.AllowDirect || got.State.Msgs != 1 {
			t.Errorf("after the update: %+v", got)
		}
	})
}

// A limit that another version of the master sets lower would remove messages.
func TestAStartLowersNoLimitOfAStream(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		old := info(t, js, "KV_jobs").Config
		old.MaxBytes, old.MaxMsgs = 8*old.MaxBytes, 2*old.MaxMsgs
		if _, err := js.UpdateStream(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		if kept, err := natsd.Provision(t.Context(), js, bucket.Kept{}); err != nil || kept != (bucket.Kept{Replicas: 1, Audit: natsd.AuditRetention}) {
			t.Fatal(kept, err)
		}
		if c := info(t, js, "KV_jobs").Config; c.MaxBytes != old.MaxBytes || c.MaxMsgs != old.MaxMsgs {
			t.Errorf("lowered to %d bytes, %d messages", c.MaxBytes, c.MaxMsgs)
		}
	})
}

func TestABusThatCannotBeChangedStaysAsItIs(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		before, err := natsd.KeptNow(t.Context(), js)
		if err != nil {
			t.Fatal(err)
		}
		for _, wanted := range []bucket.Kept{{Replicas: 3}, {Replicas: 6}, {Replicas: -1}, {Audit: time.Hour}} {
			if _, err := natsd.Change(t.Context(), js, wanted); err == nil {
				t.Errorf("%+v was accepted", wanted)
			}
		}
		if after, err := natsd.KeptNow(t.Context(), js); err != nil || after != before {
			t.Errorf("was %+v, is %+v, %v", before, after, err)
		}
		if c := info(t, js, wire.StreamAudit).Config; c.MaxAge != natsd.AuditRetention || c.Replicas != 1 {
			t.Errorf("the audit log: %+v", c)
		}
	})
}

// A peel publishes into this bucket, with any header.
func TestNoReturnRemovesAnother(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		jid := wire.NewJID()
		for _, peel := range []string{"a", "b"} {
			if _, err := js.Publish(t.Context(), wire.ReturnOf(jid, peel), []byte("first")); err != nil {
				t.Fatal(err)
			}
		}
		for _, header := range []nats.Header{{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}}, {"Nats-TTL": {"1s"}}} {
			for _, peel := range []string{"a", "c"} {
				if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: wire.ReturnOf(jid, peel), Header: header}); err == nil {
					t.Errorf("a return with %v was stored", header)
				}
			}
		}
		if _, err := js.Publish(t.Context(), wire.ReturnOf(jid, "d"), make([]byte, wire.MaxMessage-8<<10)); err == nil {
			t.Error("a return that is too large was stored")
		}
		if n := info(t, js, "KV_job-returns").State.Msgs; n != 2 {
			t.Errorf("%d returns of 2 are there", n)
		}
	})
}

func TestAStreamThatCannotBeUpdatedIsNamedAndLeftAlone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		foreign := info(t, js, wire.StreamFacts).Config
		foreign.Storage = jetstream.MemoryStorage
		if err := js.DeleteStream(t.Context(), wire.StreamFacts); err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "zester.fact.web-01", []byte("kept")); err != nil {
			t.Fatal(err)
		}
		_, err := natsd.Provision(t.Context(), js, bucket.Kept{})
		if err == nil || !strings.Contains(err.Error(), "stream facts") || !strings.Contains(err.Error(), "storage") {
			t.Errorf("got %v", err)
		}
		if got := info(t, js, wire.StreamFacts); got.State.Msgs != 1 || got.Config.Storage != jetstream.MemoryStorage {
			t.Errorf("it was touched: %+v", got)
		}
	})
}

func TestASubjectThatAnotherStreamHoldsIsNamed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		if err := js.DeleteStream(t.Context(), wire.StreamApplied); err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "mine", Subjects: []string{"zester.settings.>"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := natsd.Provision(t.Context(), js, bucket.Kept{}); err == nil || !strings.Contains(err.Error(), "stream applied") || !strings.Contains(err.Error(), "overlap") {
			t.Errorf("got %v", err)
		}
	})
}

// A new cluster sometimes never answers a request to create a stream. Here a relay in front of the API drops the first one.
func TestACreationThatIsNeverAnsweredIsRepeated(t *testing.T) {
	testCreationIsRepeated(t, "")
}

// A new cluster does not know at once that all of its servers are there.
func TestACreationForWhichAServerIsMissingIsRepeated(t *testing.T) {
	testCreationIsRepeated(t, `{"type":"io.nats.jetstream.api.v1.stream_create_response","error":{"code":400,"err_code":10005,"description":"no suitable peers for placement, peer offline"}}`)
}

func testCreationIsRepeated(t *testing.T, first string) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		nc := b.Conn(t, grants.RoleMaster, "relay")
		const prefix = "zester.relay"
		dropped := map[string]bool{}
		if _, err := nc.Subscribe(prefix+".>", func(m *nats.Msg) {
			api := strings.TrimPrefix(m.Subject, prefix)
			if strings.HasPrefix(api, ".$KV.") { // a write to a bucket
				if err := nc.PublishRequest(api[1:], m.Reply, m.Data); err != nil {
					t.Error(err)
				}
				return
			}
			if strings.HasPrefix(api, ".STREAM.CREATE.") && !dropped[api] {
				dropped[api] = true
				if first != "" {
					if err := m.Respond([]byte(first)); err != nil {
						t.Error(err)
					}
				}
				return
			}
			if err := nc.PublishRequest("$JS.API"+api, m.Reply, m.Data); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		js, err := jetstream.NewWithAPIPrefix(nc, prefix)
		if err != nil {
			t.Fatal(err)
		}
		if err := b.JetStream(t).DeleteStream(t.Context(), wire.StreamFacts); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		if _, err := natsd.Provision(ctx, js, bucket.Kept{}); err != nil || !dropped[".STREAM.CREATE.facts"] {
			t.Errorf("%v, dropped %v", err, dropped)
		}
		info(t, b.JetStream(t), wire.StreamFacts)
	})
}

func TestMoreCopiesThanServersAreRefused(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		if err := js.DeleteStream(t.Context(), "KV_rollout"); err != nil { // as on a new bus
			t.Fatal(err)
		}
		if _, err := natsd.Provision(t.Context(), js, bucket.Kept{Replicas: 3}); err == nil || !strings.Contains(err.Error(), "KV_rollout") {
			t.Errorf("got %v", err)
		}
	})
}

func TestWatchersHearThatAMasterIsGoneAndMayTakeItsLease(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		leases := keyValue(t, b.JetStream(t), wire.BucketLeases)
		if _, err := leases.Create(t.Context(), "reconciler", []byte("m1")); err != nil {
			t.Fatal(err)
		}
		watch, err := leases.Watch(t.Context(), "reconciler", jetstream.UpdatesOnly())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := watch.Stop(); err != nil {
				t.Error(err)
			}
		}()
		taken := time.Now()
		gone := <-watch.Updates()
		if gone.Operation() == jetstream.KeyValuePut || time.Since(taken) > 17*time.Second {
			t.Errorf("%v after %v", gone.Operation(), time.Since(taken))
		}
		if _, err := leases.Create(t.Context(), "reconciler", []byte("m2")); err != nil {
			t.Errorf("the lease cannot be taken: %v", err)
		}
	})
}

func TestAJobsMarkerMayEndByItself(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		active := keyValue(t, js, wire.BucketActive)
		if _, err := active.Put(t.Context(), "j", nil); err != nil {
			t.Fatal(err)
		}
		if err := active.Purge(t.Context(), "j", jetstream.PurgeTTL(time.Minute)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if left := info(t, js, "KV_active").State.Msgs; left != 0 {
			t.Errorf("%d messages are left", left)
		}
	})
}
