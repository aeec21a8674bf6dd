package alert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/alert/rules"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings/policy"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestTheDefaultRulesTellEveryReceiver(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start("m1")
		b.trouble(append(failed("backup", "db-1", "db-2"), verdict.Problem{Kind: verdict.NotReporting, Peel: "web-1"})...)
		b.after(time.Minute)
		b.was("/ops began default/backup")
		b.after(5 * time.Minute)
		b.was("/ops began default-away:not_reporting")
		b.trouble()
		b.after(7 * time.Minute)
		b.was("/ops ended default/backup", "/ops ended default-away:not_reporting")
		b.after(30 * time.Minute)
		b.was()
	})
}

func TestRulesOfTheRepoReplaceTheDefault(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receive(notify.ReceiverOptions{Name: "night", Provider: notify.ReceiverWebhook, URL: "http://desk.example/night"})
		b.rules(policy.Alert{Name: "late", On: []policy.Trouble{policy.Late}, Notify: []string{"night", "nobody"}, MinPeels: policy.Quantity{Count: 1, Percent: 100}})
		b.start("m1")
		b.trouble(append(failed("backup", "db-1"), verdict.Problem{Kind: verdict.Late, Entry: "report", Peel: "db-1"})...)
		b.after(time.Minute)
		b.was("/night began late/report")
		s := b.status()
		if s.Rules != 1 || s.Default || s.Firing != 1 || s.Owner != "m1" || len(s.Receivers) != 3 || s.Receivers[2].Name != "nobody" || s.Receivers[2].Unknown[0] != "late" {
			b.t.Errorf("%+v", s)
		}
		b.rules()
		b.after(time.Minute)
		b.was("/ops began default/backup", "/night ended late/report", "/night began default/backup")
	})
}

func TestTroublesOfRevisionsAreTold(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start("m1")
		b.set(func() {
			b.sync = status.Sync{Conditions: []status.Condition{{Type: status.Stalled, Status: true, Message: "no key"}}}
		})
		b.after(time.Minute)
		b.was("/ops began default:stalled")
		b.set(func() { b.sync = status.Sync{} })
		b.after(10 * time.Minute)
		b.was("/ops ended default:stalled")
	})
}

func TestAnotherMasterContinuesWithoutTellingTwice(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.rules(policy.Alert{Name: "slow", On: []policy.Trouble{policy.Failed}, For: 10 * time.Minute})
		first := b.start("m1")
		b.after(time.Second) // it takes the lease
		b.start("m2")
		b.trouble(failed("backup", "db-1")...)
		b.after(6 * time.Minute)
		first.stop() // before the alert has waited for its 10 minutes
		b.after(5 * time.Minute)
		b.was("/ops began slow/backup") // the second master does not wait for 10 minutes again
		if s := b.status(); s.Owner != "m2" {
			b.t.Errorf("%s leads", s.Owner)
		}
		third := b.start("m3")
		for range 5 { // each master that leads is killed in turn; the next one repeats no message
			third.conn.Close() // without closing the protocol, as if its host had died
			b.after(time.Minute)
			third = b.start("m3")
			b.after(time.Minute)
		}
		b.was()
		b.trouble()
		b.after(10 * time.Minute)
		b.was("/ops ended slow/backup")
	})
}

// The master dies after it has stored the alert and before the receiver has taken the message.
func TestNothingIsLostWhenAMasterDiesBeforeItSends(t *testing.T) {
	inBubble(t, func(b *bench) {
		first := b.start("m1")
		b.after(time.Second)
		b.start("m2")
		b.desk.answers(503, "")
		b.trouble(failed("backup", "db-1")...)
		b.after(time.Minute)
		first.conn.Close()
		b.after(time.Minute)
		b.was()
		b.desk.answers(0, "")
		b.after(6 * time.Minute)
		b.was("/ops began default/backup")
	})
}

// The master dies while the receiver accepts the message, so the next master sends it again.
func TestARepeatedMessageHasTheSameIdentifier(t *testing.T) {
	inBubble(t, func(b *bench) {
		first := b.start("m1")
		b.after(time.Second)
		b.start("m2")
		b.desk.when(func(string) { first.conn.Close() })
		b.trouble(failed("backup", "db-1")...)
		b.after(2 * time.Minute)
		b.was("/ops began default/backup", "/ops began default/backup")
		var ids []string
		for _, body := range b.desk.bodies {
			if _, rest, ok := strings.Cut(body, `"id":"`); ok {
				ids = append(ids, rest[:32])
			}
		}
		if len(ids) != 2 || ids[0] != ids[1] {
			b.t.Errorf("identifiers %q", ids)
		}
	})
}

func TestAReceiverThatIsAwayIsTriedAgainAndDelaysNoOther(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receive(notify.ReceiverOptions{Name: "gone", Provider: notify.ReceiverAlertmanager, URL: "http://desk.example/gone"})
		b.desk.answers(429, "600")
		b.start("m1")
		b.trouble(failed("backup", "db-1")...)
		b.after(time.Minute)
		asked := b.desk.asked()
		b.after(8 * time.Minute)
		if again := b.desk.asked() - asked; again > 8 { // the calls of the dead man's switch
			b.t.Errorf("asked %d times although it said when to come again", again)
		}
		s := b.status()
		for _, r := range s.Receivers {
			if r.Waiting != 1 || r.Failures == 0 || !strings.Contains(r.Error, "429") || r.Again.IsZero() {
				b.t.Errorf("%+v", r)
			}
		}
		if a := b.list().Alerts; len(a) != 1 || fmt.Sprint(a[0].Waits) != "[ops gone]" {
			b.t.Errorf("%+v", a)
		}
		b.desk.answers(0, "")
		b.after(3 * time.Minute)
		if told := b.desk.take(); !slices.Contains(told, "/ops began default/backup") || !slices.Contains(told, "/gone/api/v2/alerts") {
			b.t.Errorf("told %q", told)
		}
		if s := b.status(); s.Receivers[0].Failures != 0 || s.Receivers[0].Waiting != 0 || s.Receivers[0].Error != "" || s.Receivers[0].Sent != 1 {
			b.t.Errorf("%+v", s.Receivers[0])
		}
	})
}

func TestARefusedMessageIsNotSentAgain(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.desk.answers(400, "")
		b.start("m1")
		b.trouble(failed("backup", "db-1")...)
		b.after(30 * time.Second)
		b.desk.answers(0, "")
		b.after(20 * time.Minute)
		b.was()
		if r := b.status().Receivers[0]; r.Refused != 1 || !strings.Contains(r.Error, "400") {
			b.t.Errorf("%+v", r)
		}
	})
}

func TestAlertmanagerGetsLastingAlertsEachMinute(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receivers = nil
		b.receive(notify.ReceiverOptions{Name: "prom", Provider: notify.ReceiverAlertmanager, URL: "http://desk.example/prom"})
		b.start("m1")
		b.trouble(failed("backup", "db-1")...)
		b.after(20 * time.Minute)
		told := slices.DeleteFunc(b.desk.take(), func(s string) bool { return s == "/alive" })
		if len(told) < 18 || len(told) > 22 {
			b.t.Errorf("%d requests in 20 minutes", len(told))
		}
		b.trouble()
		b.after(10 * time.Minute)
		b.desk.take()
		b.after(20 * time.Minute)
		b.was()
	})
}

func TestAllAlertsOfARequestThatAlertmanagerRefusesAreRefused(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receivers = nil
		b.receive(notify.ReceiverOptions{Name: "prom", Provider: notify.ReceiverAlertmanager, URL: "http://desk.example/prom"})
		requests := 0
		b.desk.when(func(path string) {
			if strings.HasPrefix(path, "/prom") {
				requests++
			}
		})
		b.desk.answers(400, "")
		b.start("m1")
		b.trouble(append(failed("backup", "db-1"), failed("report", "db-1")...)...)
		b.after(30 * time.Second)
		if r := b.status().Receivers[0]; r.Refused != 2 || r.Waiting != 0 || requests != 1 {
			b.t.Errorf("%d requests, %+v", requests, r)
		}
	})
}

func TestAChatGetsAFloodInFewMessages(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receivers = nil
		b.receive(notify.ReceiverOptions{Name: "chat", Provider: notify.ReceiverSlack, URL: "http://desk.example/chat"})
		b.start("m1")
		var all []verdict.Problem
		for i := range rules.MaxOfRule {
			all = append(all, failed(fmt.Sprintf("entry-%03d", i), target.PeelID(fmt.Sprint("a", i)), target.PeelID(fmt.Sprint("b", i)))...)
		}
		for i := range 25 { // four new ones each step
			b.trouble(all[:(i+1)*8]...)
			b.after(5 * time.Second)
		}
		b.after(10 * time.Minute)
		told := slices.DeleteFunc(b.desk.take(), func(s string) bool { return s == "/alive" })
		if len(told) > 10+7+1 || len(told) < 10 {
			b.t.Errorf("%d messages", len(told))
		}
		if s := b.status(); s.Firing != rules.MaxOfRule || s.Receivers[0].Waiting != 0 || s.Receivers[0].Sent != rules.MaxOfRule {
			b.t.Errorf("%+v", s)
		}
	})
}

func TestSilencesAreAuditedAndEndByThemselves(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start("m1")
		b.after(time.Minute)
		var s api.Silence
		if no := b.ask(grants.RoleOperator, "ann", "silence", api.SilenceRequest{Match: "back*", For: 20 * time.Minute, Reason: "disk is replaced"}, &s); no != "" {
			b.t.Fatal(no)
		}
		if s.By != "ann" || !s.Until.Equal(s.Time.Add(20*time.Minute)) || s.ID == "" {
			b.t.Errorf("%+v", s)
		}
		b.trouble(failed("backup", "db-1")...)
		b.after(10 * time.Minute)
		b.was()
		if a := b.list(); len(a.Silences) != 1 || a.Alerts[0].Silence != s.ID || len(a.Alerts[0].Waits) != 0 {
			b.t.Errorf("%+v", a)
		}
		b.after(10 * time.Minute)
		b.was("/ops began default/backup")
		if a := b.list(); len(a.Silences) != 0 {
			b.t.Errorf("%+v", a.Silences)
		}
		if no := b.ask(grants.RoleOperator, "ann", "silence", api.SilenceRequest{Match: "x", For: time.Hour, Reason: "r"}, &s); no != "" {
			b.t.Fatal(no)
		}
		var ended api.Silence
		if no := b.ask(grants.RoleOperator, "ann", "unsilence", api.SilenceID{ID: s.ID}, &ended); no != "" || ended.ID != s.ID {
			b.t.Errorf("%+v, %s", ended, no)
		}
		for _, q := range []api.SilenceRequest{
			{Match: "*", Reason: "without an end"},
			{Match: "*", For: -time.Hour, Reason: "r"},
			{Match: "*", For: 31 * 24 * time.Hour, Reason: "r"},
			{Match: "*", For: time.Hour},
			{Match: "*", For: time.Hour, Reason: "  "},
			{Match: "*", For: time.Hour, Reason: strings.Repeat("x", 301)},
			{Match: "", For: time.Hour, Reason: "r"},
			{Match: "[a", For: time.Hour, Reason: "r"},
		} {
			if no := b.ask(grants.RoleOperator, "ann", "silence", q, &s); !strings.HasPrefix(no, "cannot silence") {
				b.t.Errorf("%+v: %q", q, no)
			}
		}
		if no := b.ask(grants.RoleOperator, "ann", "unsilence", api.SilenceID{ID: "nothing"}, &s); !strings.Contains(no, "no silence") {
			b.t.Errorf("refusal is %q", no)
		}
		page, err := audit.OpenLog(b.js, nil).List(b.t.Context(), audit.Query{})
		if err != nil {
			b.t.Fatal(err)
		}
		var actions []string
		for _, e := range page.Entries {
			if e.User == "ann" && e.Result == audit.Done {
				actions = append(actions, e.Action+" "+e.Target)
			}
		}
		if slices.Sort(actions); !slices.Equal(actions, []string{"alert.silence back*", "alert.silence x", "alert.unsilence " + s.ID}) && len(actions) != 3 {
			b.t.Errorf("audited %q", actions)
		}
	})
}

func TestSilencesSurviveMasters(t *testing.T) {
	inBubble(t, func(b *bench) {
		first := b.start("m1")
		b.after(time.Minute)
		var s api.Silence
		if no := b.ask(grants.RoleOperator, "ann", "silence", api.SilenceRequest{Match: "backup", For: 20 * time.Minute, Reason: "r"}, &s); no != "" {
			b.t.Fatal(no)
		}
		b.trouble(failed("backup", "db-1")...)
		b.after(time.Minute)
		first.conn.Close()
		b.start("m2")
		b.after(10 * time.Minute)
		b.was()
		b.after(10 * time.Minute)
		b.was("/ops began default/backup")
	})
}

func TestATestMessageReachesItsReceiver(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start("m1")
		b.after(time.Minute)
		var r api.Receiver
		if no := b.ask(grants.RoleOperator, "ann", "test", api.ReceiverName{Name: "ops"}, &r); no != "" || r.Sent != 1 {
			b.t.Errorf("%+v, %s", r, no)
		}
		b.was("/ops test test/ops")
		b.desk.answers(404, "")
		if no := b.ask(grants.RoleOperator, "ann", "test", api.ReceiverName{Name: "ops"}, &r); !strings.Contains(no, `cannot send alerts to "ops"`) || !strings.Contains(no, "404") {
			b.t.Errorf("refusal is %q", no)
		}
		if no := b.ask(grants.RoleOperator, "ann", "test", api.ReceiverName{Name: "pager"}, &r); !strings.Contains(no, `no receiver "pager"; it has ops`) {
			b.t.Errorf("refusal is %q", no)
		}
	})
}

func TestACallerWithLimitsSeesOnlyItsPeels(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.readable = map[string][]target.PeelID{"lim": {"db-2", "db-7"}}
		b.start("m1")
		b.trouble(slices.Concat(failed("backup", "db-1", "db-2", "db-7"), failed("secret", "db-1"))...)
		b.set(func() {
			b.sync = status.Sync{Conditions: []status.Condition{{Type: status.Stalled, Status: true, Message: "no key"}}}
		})
		b.after(time.Minute)
		var a api.AlertsAnswer
		if no := b.ask(grants.RoleLimited, "lim", "list", nil, &a); no != "" {
			b.t.Fatal(no)
		}
		if len(a.Alerts) != 2 || a.Alerts[0].Peels != 2 || fmt.Sprint(a.Alerts[0].Names) != "[db-2 db-7]" || a.Alerts[0].Text != "" || a.Alerts[1].Text != "no key" {
			b.t.Errorf("%+v", a.Alerts)
		}
		if all := b.list().Alerts; len(all) != 3 || all[0].Peels != 3 || all[0].Text == "" {
			b.t.Errorf("%+v", all)
		}
	})
}

func TestTheDeadMansSwitchIsCalledOnlyWhileAllIsWell(t *testing.T) {
	inBubble(t, func(b *bench) {
		calls := func() int {
			b.after(10 * time.Minute)
			return len(b.desk.take())
		}
		first := b.start("m1")
		b.start("m2")
		if n := calls(); n < 9 || n > 10 {
			b.t.Errorf("%d calls in ten minutes", n)
		}
		b.set(func() { b.health.Behind = time.Now() })
		b.after(time.Minute)
		b.desk.take()
		if n := calls(); n != 0 {
			b.t.Errorf("%d calls while reports are not read", n)
		}
		if s := b.status(); s.Alive == nil || !strings.Contains(s.Alive.Held, "not been read since") || s.Stale == "" {
			b.t.Errorf("%+v", s)
		}
		b.set(func() { b.health.Behind = time.Time{} })
		first.stop()
		if n := calls(); n < 8 || n > 10 {
			b.t.Errorf("%d calls after another master has taken the lead", n)
		}
		b.bus.Stop(b.t)
		b.after(time.Minute)
		b.desk.take()
		if n := calls(); n != 0 {
			b.t.Errorf("%d calls without a bus", n)
		}
		b.bus.Start(b.t)
		b.after(time.Minute)
		if n := calls(); n < 8 {
			b.t.Errorf("%d calls after the bus is back", n)
		}
	})
}

// While the table of coverage is still reading reports, or the reconciler does not reply, alerts neither begin nor end.
func TestAlertsStayWhileReportsAreUnknown(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.set(func() { b.health.Ready = false })
		b.start("m1")
		b.trouble(failed("backup", "db-1")...)
		b.after(20 * time.Minute)
		b.was()
		b.set(func() { b.health.Ready = true })
		b.after(time.Minute)
		b.was("/ops began default/backup")
		b.trouble()
		b.set(func() { b.health.Ready = false })
		b.after(20 * time.Minute)
		b.was()
		if a := b.list(); a.Stale == "" || len(a.Alerts) != 1 || a.Alerts[0].State != api.AlertFiring {
			b.t.Errorf("%+v", a)
		}
	})
}

// While the bus stores nothing, no alert is sent: the next master would send it again.
func TestAlertsThatAreNotStoredAreNotSent(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start("m1")
		b.after(time.Minute)
		stream, err := b.js.Stream(b.t.Context(), "KV_alerts")
		if err != nil {
			b.t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		full := c
		full.MaxMsgSize = 1
		if _, err := b.js.UpdateStream(b.t.Context(), full); err != nil {
			b.t.Fatal(err)
		}
		b.trouble(failed("backup", "db-1")...)
		b.after(5 * time.Minute)
		b.was()
		if s := b.status(); s.Storage == "" || s.Alive.Held == "" {
			b.t.Errorf("%+v", s)
		}
		if _, err := b.js.UpdateStream(b.t.Context(), c); err != nil {
			b.t.Fatal(err)
		}
		b.after(time.Minute)
		b.was("/ops began default/backup")
	})
}

// A master that begins to lead reads its tables for a while. Whatever they seem to say until they are read, and whatever the
// master before it had told: nobody is told of anything that has neither begun nor ended.
func TestANewLeaderTellsNothingBeforeItKnows(t *testing.T) {
	unread := map[string]verdict.Health{
		"reports are still read": {},
		"reports are behind":     {Ready: true, Behind: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	seeming := map[string][]verdict.Problem{
		"nothing": nil,
		"everything": append(failed("other", "db-1", "db-2"), verdict.Problem{Kind: verdict.Missed, Entry: "backup", Peel: "db-2"},
			verdict.Problem{Kind: verdict.NotReporting, Peel: "db-1"}, verdict.Problem{Kind: verdict.NotReporting, Peel: "db-2"}),
	}
	type past struct {
		is      []verdict.Problem
		silence bool
		told    []string // by the first master
		then    []string // by the next one, when it knows
	}
	for name, before := range map[string]past{
		"no alert":            {},
		"an alert":            {is: failed("backup", "db-1"), told: []string{"/ops began default/backup"}},
		"a silenced alert":    {is: failed("backup", "db-1"), silence: true},
		"an alert that waits": {is: failed("slow", "db-1"), then: []string{"/ops began slow/slow"}},
	} {
		for what, health := range unread {
			for seems, problems := range seeming {
				t.Run(name+", "+what+", "+seems, func(t *testing.T) {
					inBubble(t, func(b *bench) {
						b.rules(policy.Alert{Name: "default", Entries: "backup", On: policy.Troubles},
							policy.Alert{Name: "peels", On: []policy.Trouble{policy.NotReporting, policy.Missed}},
							policy.Alert{Name: "slow", Entries: "slow", On: []policy.Trouble{policy.Failed}, For: 10 * time.Minute})
						first := b.start("m1")
						b.after(time.Minute)
						if before.silence {
							var s api.Silence
							if refusal := b.ask(grants.RoleOperator, "ann", "silence", api.SilenceRequest{Match: "backup", For: time.Hour, Reason: "work"}, &s); refusal != "" {
								t.Fatal(refusal)
							}
						}
						b.trouble(before.is...)
						b.after(time.Minute)
						b.was(before.told...)
						first.stop()
						b.set(func() { b.health = health })
						b.trouble(problems...)
						b.start("m2")
						b.after(5 * time.Minute)
						b.was()
						b.trouble(before.is...)
						b.set(func() { b.health = verdict.Health{Ready: true} })
						b.after(10 * time.Minute)
						b.was(before.then...)
					})
				})
			}
		}
	}
}
