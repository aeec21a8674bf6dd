package grants_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// state is how many messages each stream holds and has seen.
func state(t *testing.T, js jetstream.JetStream) map[string][2]uint64 {
	t.Helper()
	found := map[string][2]uint64{}
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		found[info.Config.Name] = [2]uint64{info.State.Msgs, info.State.LastSeq}
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

// deputies are requests that somebody answers for each role: replies may be aimed anywhere.
var deputies = map[grants.Role][]struct{ subject, body string }{
	grants.RolePeel: {
		{wire.SettingsGet("peel-a"), ""},          // answered with a document
		{wire.SettingsGet("peel-a"), `{"seq":1}`}, // answered with headers alone
		{wire.ContentGet("blob.0"), ""},           // answered with a part of a content
		{wire.ContentGet("*.*"), `{"seq":1}`},     // answered with headers alone
		{wire.Heartbeat("peel-a"), ""},            // answered with the interval of heartbeats
	},
	grants.RoleOperator: {
		{"$JS.API.DIRECT.GET.facts", `{"seq":1}`},
		{"$JS.API.DIRECT.GET.facts", `{"seq":1000}`},
		{"$JS.API.DIRECT.GET.facts", `{"seq":1,"next_by_subj":"zester.fact.*","batch":5}`},
		{wire.API("job", "show", "ann"), ""},
	},
	grants.RoleLimited: {{wire.API("job", "show", "lee"), ""}, {wire.API("job", "cancel", "lee"), ""}},
	grants.RoleDirect: {
		{wire.Direct("peel-a", "dan"), ""}, // answered by a peel that helps the attacker
		{wire.Direct("peel-b", "dan"), ""}, // answered by one that does its work
		{wire.API("job", "show", "dan"), ""},
	},
	grants.RoleAuditor: {{wire.API("job", "show", "eve"), ""}},
}

// senderSubjects are all on which a peel speaks.
func senderSubjects() []func(string) string {
	return []func(string) string{
		func(p string) string { return wire.AckOf(jid, p) },
		func(p string) string { return wire.ReturnOf(jid, p) },
		func(p string) string { return wire.ScheduledOf(jid, p) },
		wire.Fact, wire.Heartbeat, wire.SettingsApplied, wire.StateRunOf, wire.ScheduleStateOf, wire.SettingsGet,
	}
}

// aims are subjects on which an answer could do harm.
func aims(ack string) []string {
	aims := []string{
		ack, "$JS.ACK.job-events.schedule-results.1.1.1.1.0",
		"$JS.API.STREAM.PURGE.KV_settings", "$JS.API.STREAM.DELETE.KV_jobs", "$JS.API.STREAM.DELETE.job-events", "$JS.API.STREAM.DELETE.facts",
		"$JS.API.CONSUMER.DELETE.job-events.schedule-results", "$JS.API.STREAM.MSG.DELETE.facts",
		wire.StoredOf(jid, "peel-b"), wire.StoredOf(jid, "peel-a"),
		"$KV.settings.peel-b", "$KV.jobs." + string(jid), "$KV.job-returns." + string(jid) + ".peel-b", "$KV.leases.reconciler",
		wire.Cmd("peel-b"), wire.Settings("peel-b"), wire.CancelOf(jid), wire.StatusOf(jid), wire.DispatchOf(jid),
		wire.Direct("peel-b", "ann"), wire.Direct("peel-b", "bob"),
		wire.AnswerOf("bob", "1", "peel-b"), wire.Dispatch("ann"), "_INBOX.peel-b.x", "_INBOX_MASTER.m1.x", "_R_.x.y",
		wire.API("hold", "approve", "bob"), wire.API("hold", "reject", "bob"), wire.API("sync", "approve", "bob"),
		wire.API("role", "set", "bob"), "$KV.held.action.x", "$KV.roles.all", "$KV.users.bob",
	}
	for _, of := range senderSubjects() {
		aims = append(aims, of("peel-b"), of("peel-a"))
	}
	return aims
}

// stage is a bus on which everything that could be harmed exists and somebody answers everything.
func stage(t *testing.T, b *natstest.Bus) (js jetstream.JetStream, results jetstream.Consumer, ack string) {
	t.Helper()
	js = b.JetStream(t)
	for _, p := range []string{"peel-a", "peel-b"} {
		put(t, bucket(t, js, wire.BucketSettings), p, document(t, "peel-a"))
		request(t, b.Conn(t, grants.RolePeel, p), wire.Fact(p), "facts of "+p)
	}
	put(t, bucket(t, js, wire.BucketJobs), string(jid), []byte("job"))
	put(t, bucket(t, js, wire.BucketFiles), "blob.0", question(t))
	request(t, b.Conn(t, grants.RolePeel, "peel-b"), wire.ScheduledOf(jid, "peel-b"), "result of b")
	results, err := js.CreateConsumer(t.Context(), wire.StreamJobEvents, jetstream.ConsumerConfig{
		Durable: "schedule-results", FilterSubject: wire.AllScheduled, AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	pending, err := results.Next()
	if err != nil {
		t.Fatal(err)
	}
	help := connect(t, b, grants.RolePeel, "peel-a") // which tries to answer anywhere
	if _, err := help.Subscribe(wire.Direct("peel-a", "*"), func(m *nats.Msg) { _ = m.Respond(question(t)) }); err != nil {
		t.Fatal(err)
	}
	if err := help.Flush(); err != nil {
		t.Fatal(err)
	}
	for subject, answer := range map[string]*nats.Msg{wire.AllHeartbeats: wire.NewInterval(wire.MaxHeartbeat), "zester.api.*.*.*": {}} {
		if _, err := js.Conn().Subscribe(subject, func(m *nats.Msg) {
			if m.Reply != "" {
				_ = m.RespondMsg(answer)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	return js, results, pending.Reply()
}

// question is a direct request that a peel would take.
func question(t *testing.T) []byte {
	t.Helper()
	data, err := canon.Marshal(wire.DirectRequest{Function: "cmd.run", Args: map[string]any{"command": "true"}, TimeLeft: time.Second, V: wire.Version})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A reply subject is not checked against permissions: the server and masters answer wherever they are told to.
func TestNobodyHarmsOthersThroughAnswersAimedAtThem(t *testing.T) {
	for role, requests := range deputies {
		t.Run(string(role), func(t *testing.T) {
			natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
				js, results, ack := stage(t, b)
				victim := connect(t, b, grants.RolePeel, "peel-b")
				var ears []*nats.Subscription
				for _, subject := range []string{wire.Cmd("peel-b"), wire.Settings("peel-b"), wire.CancelOf("*"), wire.Direct("peel-b", "ann"), wire.Direct("peel-b", "bob"), "_INBOX.peel-b.>"} {
					ears = append(ears, listen(t, victim.Conn, subject))
				}
				if _, err := victim.Subscribe(wire.Direct("peel-b", "dan"), func(m *nats.Msg) {
					if _, _, err := wire.DecodeDirect(m); err == nil { // as peels do
						_ = m.Respond(question(t))
					}
				}); err != nil {
					t.Fatal(err)
				}
				master := listen(t, js.Conn(), "zester.job.>")
				operator := listen(t, b.Conn(t, grants.RoleOperator, "bob"), wire.ReturnOf("*", "*"))
				before := state(t, js)
				attacker := connect(t, b, role, actors[role])
				answers := listen(t, b.Conn(t, grants.RoleDirect, "bob"), wire.AnswerOf("bob", "*", "*"))
				for _, aim := range aims(ack) {
					if role == grants.RoleDirect && wire.Sender(aim) == "peel-a" {
						continue // the peel that helps may speak for itself
					}
					for _, r := range requests {
						if strings.HasPrefix(r.subject, "zester.direct.") {
							r.body = string(question(t))
						}
						attacker.allows(t, func() error { return attacker.PublishRequest(r.subject, aim, []byte(r.body)) })
					}
				}
				synctest.Wait()

				after := state(t, js)
				for name, was := range before {
					if after[name] != was {
						t.Errorf("stream %s holds and has seen %v, was %v", name, after[name], was)
					}
				}
				info, err := results.Info(t.Context())
				if err != nil || info.NumAckPending != 1 {
					t.Errorf("the result that a master works on: %d pending, %v", info.NumAckPending, err)
				}
				if msgs := heard(t, master); len(msgs) != 0 {
					t.Errorf("a master heard %d messages about jobs, the first on %s", len(msgs), msgs[0].Subject)
				}
				for _, m := range heard(t, operator) {
					if _, err := wire.DecodeReturn(m); err == nil {
						t.Errorf("%s: %q passes for a return", m.Subject, m.Data)
					}
				}
				for _, m := range heard(t, answers) {
					if _, err := wire.DecodeDirectAnswer(m, "peel-b"); err == nil {
						t.Errorf("%s: %q passes for an answer of peel-b", m.Subject, m.Data)
					}
				}
				for _, ear := range ears {
					for _, m := range heard(t, ear) {
						checkRefused(t, m)
					}
				}
			})
		})
	}
}

// checkRefused fails unless the victim's decoders refuse what reached it.
func checkRefused(t *testing.T, m *nats.Msg) {
	t.Helper()
	if _, err := wire.DecodeRequest(m); !errors.Is(err, wire.ErrForged) && len(m.Data) > 0 {
		t.Errorf("%s: %q passes for a request: %v", m.Subject, m.Data, err)
	}
	if _, user, err := wire.DecodeDirect(m); err == nil {
		t.Errorf("%s: %q passes for a direct request of %s", m.Subject, m.Data, user)
	}
	if _, err := wire.DecodeCancel(m); err == nil {
		t.Errorf("%s: %q passes for a cancel", m.Subject, m.Data)
	}
	if _, err := settings.Decode(m.Data, "peel-b"); err == nil {
		t.Errorf("%s: %q passes for settings", m.Subject, m.Data)
	}
}

func TestAnswersThatReachANeighbourAreRefusedByItsDecoders(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		stage(t, b)
		victim := connect(t, b, grants.RolePeel, "peel-b")
		cmd, live := listen(t, victim.Conn, wire.Cmd("peel-b")), listen(t, victim.Conn, wire.Settings("peel-b"))
		attacker := connect(t, b, grants.RolePeel, "peel-a")
		for _, sub := range []*nats.Subscription{cmd, live} {
			if err := attacker.PublishRequest(wire.SettingsGet("peel-a"), sub.Subject, nil); err != nil {
				t.Fatal(err)
			}
		}
		got := slices.Concat(heard(t, cmd), heard(t, live))
		if len(got) != 2 {
			t.Errorf("%d answers came through, this test expects 2", len(got))
		}
		for _, m := range got {
			checkRefused(t, m)
		}
	})
}
