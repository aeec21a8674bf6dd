package grants_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestMain keeps files in memory.
func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

func document(t *testing.T, peel target.PeelID) []byte {
	t.Helper()
	raw, err := canon.Marshal(map[string]any{"of": string(peel)})
	if err != nil {
		t.Fatal(err)
	}
	d := settings.Document{V: 1, Peel: peel, Generation: 1, Settings: raw, Digest: settings.DigestOf(raw)}
	data, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func bucket(t *testing.T, js jetstream.JetStream, name string) jetstream.KeyValue {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

func put(t *testing.T, kv jetstream.KeyValue, key string, value []byte) uint64 {
	t.Helper()
	rev, err := kv.Put(t.Context(), key, value)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func listen(t *testing.T, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

// heard returns what has come by now.
func heard(t *testing.T, sub *nats.Subscription) []*nats.Msg {
	t.Helper()
	var msgs []*nats.Msg
	for {
		m, err := sub.NextMsg(time.Second)
		if errors.Is(err, nats.ErrTimeout) {
			return msgs
		}
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, m)
	}
}

// request waits a minute, because some tests run in real time, beside programs that are being built.
func request(t *testing.T, nc *nats.Conn, subject, body string) *nats.Msg {
	t.Helper()
	m, err := nc.Request(subject, []byte(body), time.Minute)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return m
}

func TestAPeelGetsAndHearsItsOwnSettings(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		kv := bucket(t, b.JetStream(t), wire.BucketSettings)
		put(t, kv, "peel-b", document(t, "peel-b"))
		put(t, kv, "peel-a", document(t, "peel-a"))
		nc := b.Conn(t, grants.RolePeel, "peel-a")
		live := listen(t, nc, wire.Settings("peel-a"))

		got := request(t, nc, wire.SettingsGet("peel-a"), "")
		if _, err := settings.Decode(got.Data, "peel-a"); err != nil || got.Header.Get("Nats-Sequence") != "2" {
			t.Errorf("get: %v, %v", got.Header, err)
		}
		put(t, kv, "peel-b", document(t, "peel-b"))
		put(t, kv, "peel-a", document(t, "peel-a"))
		if _, err := kv.Update(t.Context(), "peel-a", document(t, "peel-a"), 1); err == nil {
			t.Error("an update of an old revision was stored")
		}
		msgs := heard(t, live)
		if len(msgs) != 1 {
			t.Fatalf("heard %d messages, want the one that was stored", len(msgs))
		}
		h := msgs[0].Header
		if h.Get("Nats-Sequence") != "4" || h.Get("Nats-Last-Sequence") != "2" {
			t.Errorf("headers %v", h)
		}
		if _, err := settings.Decode(msgs[0].Data, "peel-a"); err != nil {
			t.Error(err)
		}
	})
}

func TestAPeelCannotReadAnothersSettingsThroughItsOwnGet(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		kv := bucket(t, b.JetStream(t), wire.BucketSettings)
		put(t, kv, "peel-a", []byte("of a"))
		put(t, kv, "peel-b", []byte("of b"))
		nc := b.Conn(t, grants.RolePeel, "peel-a")
		for _, body := range []string{
			`{"seq":2}`, `{"last_by_subj":"$KV.settings.peel-b"}`, `{"next_by_subj":"$KV.settings.*"}`, `{"seq":1,"next_by_subj":"$KV.settings.peel-b"}`,
			`{"multi_last":["$KV.settings.>"]}`, `{"seq":1,"batch":10}`, `{"start_time":"2000-01-01T00:00:00Z"}`, `[]`, `x`,
		} {
			if m := request(t, nc, wire.SettingsGet("peel-a"), body); strings.Contains(string(m.Data), "of b") {
				t.Errorf("%s gave %q", body, m.Data)
			}
		}
	})
}

func TestWhatAPeelSaysIsHeardAndStored(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		all := listen(t, b.JetStream(t).Conn(), "zester.>")
		operator := listen(t, b.Conn(t, grants.RoleOperator, "ann"), wire.ReturnOf("*", "*"))
		nc := b.Conn(t, grants.RolePeel, "peel-a")
		for subject, stream := range map[string]string{
			wire.ReturnOf(jid, "peel-a"):    wire.KV(wire.BucketJobReturns),
			wire.ScheduledOf(jid, "peel-a"): wire.StreamJobEvents,
			wire.Fact("peel-a"):             wire.StreamFacts,
			wire.SettingsApplied("peel-a"):  wire.StreamApplied,
			wire.StateRunOf("peel-a"):       wire.StreamStates,
			wire.ScheduleStateOf("peel-a"):  wire.StreamScheduleState,
		} {
			var ack struct{ Stream string }
			if m := request(t, nc, subject, "x"); json.Unmarshal(m.Data, &ack) != nil || ack.Stream != stream {
				t.Errorf("%s: stored in %q, want %s", subject, m.Data, stream)
			}
		}
		for _, subject := range []string{wire.AckOf(jid, "peel-a"), wire.Heartbeat("peel-a")} { // are not stored
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := len(heard(t, all)); got != 9 { // a stored return is re-published
			t.Errorf("a master heard %d messages, want 9", got)
		}
		if got := len(heard(t, operator)); got != 1 {
			t.Errorf("an operator heard %d returns, want 1", got)
		}
	})
}

func TestAStoredReturnReachesMastersAndFollowers(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		followers := map[string]*nats.Subscription{
			"master":   listen(t, js.Conn(), wire.StoredOf(jid, "*")),
			"operator": listen(t, b.Conn(t, grants.RoleOperator, "ann"), wire.StoredOf(jid, "*")),
		}
		nc := b.Conn(t, grants.RolePeel, "peel-a")
		request(t, nc, wire.ReturnOf(jid, "peel-a"), "first")
		if m := request(t, nc, wire.ReturnOf(jid, "peel-a"), "second"); !strings.Contains(string(m.Data), "maximum messages per subject exceeded") {
			t.Errorf("a second return was answered with %s", m.Data)
		}
		for who, sub := range followers {
			got := heard(t, sub)
			if len(got) != 1 {
				t.Errorf("%s received %d messages, want the one return that was stored", who, len(got))
				continue
			}
			if m := got[0]; m.Subject != wire.StoredOf(jid, "peel-a") || string(m.Data) != "first" || m.Header.Get("Nats-Sequence") != "1" {
				t.Errorf("%s received %s, %q, %v", who, m.Subject, m.Data, m.Header)
			}
		}
	})
}

func TestAMessageIDIsStoredOnce(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		nc := b.Conn(t, grants.RolePeel, "peel-a")
		for i, want := range []bool{false, true} {
			msg := nats.NewMsg(wire.ScheduledOf(jid, "peel-a"))
			msg.Header.Set(jetstream.MsgIDHeader, "once")
			m, err := nc.RequestMsg(msg, time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(m.Data), `"duplicate"`); got != want {
				t.Errorf("publish %d: %s", i+1, m.Data)
			}
		}
	})
}

func TestCommandsAndCancelsReachTheirPeels(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		master := b.Conn(t, grants.RoleMaster, "m1")
		a, c := b.Conn(t, grants.RolePeel, "peel-a"), b.Conn(t, grants.RolePeel, "peel-b")
		cmdA, cmdB := listen(t, a, wire.Cmd("peel-a")), listen(t, c, wire.Cmd("peel-b"))
		cancelA, cancelB, cancelM := listen(t, a, wire.CancelOf("*")), listen(t, c, wire.CancelOf("*")), listen(t, master, wire.AllCancels)
		for _, subject := range []string{wire.Cmd("peel-a"), wire.CancelOf(jid)} {
			if err := master.Publish(subject, []byte("now")); err != nil {
				t.Fatal(err)
			}
		}
		for _, tc := range []struct {
			sub  *nats.Subscription
			want int
		}{{cmdA, 1}, {cmdB, 0}, {cancelA, 1}, {cancelB, 1}, {cancelM, 1}} {
			if got := len(heard(t, tc.sub)); got != tc.want {
				t.Errorf("%s: heard %d, want %d", tc.sub.Subject, got, tc.want)
			}
		}
	})
}

func TestPeopleAskMastersAndAreToldWhenThereIsNone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		operator, auditor := b.Conn(t, grants.RoleOperator, "ann"), b.Conn(t, grants.RoleAuditor, "eve")
		asks := []struct {
			nc      *nats.Conn
			subject string
		}{
			{operator, wire.Dispatch("ann")},
			{operator, wire.Resolve("ann")},
			{operator, wire.API("sync", "now", "ann")},
			{auditor, wire.API("job", "list", "eve")},
		}
		for _, ask := range asks {
			if _, err := ask.nc.Request(ask.subject, nil, time.Minute); !errors.Is(err, nats.ErrNoResponders) {
				t.Errorf("%s without a master: %v", ask.subject, err)
			}
		}
		svc, err := micro.AddService(b.Conn(t, grants.RoleMaster, "m1"), micro.Config{Name: "zester", Version: "1.0.0", QueueGroup: wire.MastersQueue})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = svc.Stop() })
		for name, subject := range map[string]string{"dispatch": wire.AllDispatches, "resolve": wire.AllResolves, "api": "zester.api.*.*.*"} {
			h := micro.HandlerFunc(func(r micro.Request) {
				if wire.Sender(r.Subject()) == "eve" {
					_ = r.Error("404", "no such job", nil)
					return
				}
				_ = r.Respond([]byte(wire.Sender(r.Subject())))
			})
			if err := svc.AddEndpoint(name, h, micro.WithEndpointSubject(subject)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		for _, ask := range asks {
			m := request(t, ask.nc, ask.subject, "")
			if string(m.Data) != "ann" && m.Header.Get(micro.ErrorCodeHeader) != "404" {
				t.Errorf("%s: %q %v", ask.subject, m.Data, m.Header)
			}
		}
	})
}

func TestAnOperatorReadsAllFactsWithoutAMaster(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		for _, name := range []string{"peel-a", "peel-b", "peel-a", "peel-c"} {
			request(t, b.Conn(t, grants.RolePeel, name), wire.Fact(name), name)
		}
		nc := b.Conn(t, grants.RoleOperator, "ann")
		inbox := nc.NewInbox()
		answers := listen(t, nc, inbox)
		if err := nc.PublishRequest("$JS.API.DIRECT.GET.facts", inbox, []byte(`{"seq":1,"next_by_subj":"zester.fact.*","batch":256}`)); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range heard(t, answers) {
			got = append(got, string(m.Data))
		}
		if want := "peel-b peel-a peel-c "; strings.Join(got, " ") != want {
			t.Errorf("read %q, want %q and the end", got, want)
		}
	})
}

// Peels whose IDs have one wire form are one party to the bus: only the document says for which of them it is.
func TestSettingsOfAnIDWithTheSameWireFormAreRefused(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		put(t, bucket(t, b.JetStream(t), wire.BucketSettings), target.PeelID("web.01").Wire(), document(t, "web.01"))
		m := request(t, b.Conn(t, grants.RolePeel, "web_01"), wire.SettingsGet("web_01"), "")
		if _, err := settings.Decode(m.Data, "web_01"); err == nil {
			t.Error("web_01 took the settings of web.01")
		}
		if _, err := settings.Decode(m.Data, "web.01"); err != nil {
			t.Error(err)
		}
	})
}

func TestAPeelAnswersADirectRequestOnItsOwnSubjectAlone(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		peel := connect(t, b, grants.RolePeel, "peel-a")
		requests := listen(t, peel.Conn, wire.Direct("peel-a", "*"))
		dan := b.Conn(t, grants.RoleDirect, "dan")
		answer := wire.AnswerOf("dan", "1", "peel-a")
		answers := listen(t, dan, answer)
		for _, reply := range []string{answer, wire.AnswerOf("dan", "1", "peel-b"), "_INBOX_USER.dan.x", wire.Cmd("peel-b"), wire.Fact("peel-b")} {
			if err := dan.PublishRequest(wire.Direct("peel-a", "dan"), reply, []byte("?")); err != nil {
				t.Fatal(err)
			}
			got := heard(t, requests)
			if len(got) != 1 || got[0].Reply != reply {
				t.Fatalf("reply %s: %v", reply, got)
			}
			if allowed := peel.allowsPublish(t, got[0].Reply); allowed != (reply == answer) {
				t.Errorf("reply %s: the peel may answer there: %v", reply, allowed)
			}
		}
		if got := heard(t, answers); len(got) != 1 || string(got[0].Data) != "probe" {
			t.Errorf("%d answers", len(got))
		}
		absent := listen(t, dan, wire.AnswerOf("dan", "2", "peel-b"))
		if err := dan.PublishRequest(wire.Direct("peel-b", "dan"), absent.Subject, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := absent.NextMsg(time.Second); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("a peel that is not connected: %v", err)
		}
	})
}

// A reply subject takes memory of the server until it is answered, and nobody answers a heartbeat.
func TestTheServerForgetsWhereAPeelWaitsForAnAnswer(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		peel := b.Conn(t, grants.RolePeel, "peel-a")
		beats := listen(t, b.Conn(t, grants.RoleMaster, "m1"), wire.AllHeartbeats)
		answers := listen(t, peel, "_INBOX.peel-a.>")
		for _, tt := range []struct {
			after time.Duration
			want  int
		}{{5 * time.Second, 1}, {20 * time.Second, 0}} {
			if err := peel.PublishRequest(wire.Heartbeat("peel-a"), "_INBOX.peel-a.x", nil); err != nil {
				t.Fatal(err)
			}
			m, err := beats.NextMsg(time.Second)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(tt.after)
			if err := m.Respond([]byte("late")); err != nil {
				t.Fatal(err)
			}
			if got := heard(t, answers); len(got) != tt.want {
				t.Errorf("%d answers after %v, want %d", len(got), tt.after, tt.want)
			}
		}
	})
}
