package alert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
	"github.com/seed-c01c3da5/zester/settings/policy"
)

// checks returns the state that alert status shows of the service that bench.check adds.
func (b *bench) checks() api.Receiver {
	b.t.Helper()
	s := b.status()
	i := slices.IndexFunc(s.Receivers, func(r api.Receiver) bool { return r.Name == "checks" })
	if i < 0 {
		b.t.Fatalf("alert status does not show the service: %+v", s.Receivers)
	}
	return s.Receivers[i]
}

func TestRunsArePinged(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.check()
		b.start("m1")
		b.after(time.Second) // it takes the lease
		b.start("m2")
		b.ran("backup", "report")
		b.after(time.Minute)
		b.was("/hc/backup-db-1/0")
		b.set(func() { b.runs[0].Started, b.runs[0].Running = time.Now(), true })
		b.after(time.Minute)
		b.was("/hc/backup-db-1/start")
		b.set(func() { b.runs[0].Ended, b.runs[0].Running, b.runs[0].Failed = time.Now(), false, true })
		b.after(time.Minute)
		b.was("/hc/backup-db-1/fail")
		if r := b.checks(); r.Provider != "healthchecks" || r.Sent != 3 || r.Waiting != 0 || r.Error != "" || r.Success.IsZero() {
			b.t.Errorf("%+v", r)
		}
	})
}

func TestAnotherMasterDoesNotPingTheSameRuns(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.check()
		first := b.start("m1")
		b.after(time.Second)
		b.start("m2")
		b.ran("backup-1", "backup-2")
		b.after(time.Minute)
		b.was("/hc/backup-1-db-1/0", "/hc/backup-2-db-1/0")
		first.conn.Close() // without closing the protocol, as if its host had died
		b.after(2 * time.Minute)
		if s := b.status(); s.Owner != "m2" {
			b.t.Errorf("%s leads", s.Owner)
		}
		b.was()
		b.set(func() { b.runs[1].Ended, b.runs[1].Failed = time.Now(), true })
		b.after(time.Minute)
		b.was("/hc/backup-2-db-1/fail")
	})
}

// The master dies while the service cannot be reached; the next master pings when it can.
func TestNoPingIsLostWhenAMasterDies(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.check()
		first := b.start("m1")
		b.after(time.Second)
		b.start("m2")
		b.desk.answers(503, "")
		b.ran("backup")
		b.after(time.Minute)
		first.conn.Close()
		b.after(20 * time.Minute)
		b.was()
		b.desk.answers(0, "")
		b.after(6 * time.Minute)
		b.was("/hc/backup-db-1/0")
	})
}

func TestAServiceThatIsAwayIsToldOfTheNewestRuns(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.receivers = nil
		b.check()
		b.start("m1")
		b.ran("backup-1", "backup-2")
		b.desk.answers(429, "1200")
		b.after(20 * time.Minute)
		if n := b.desk.asked(); n > 1+20 { // one ping, and 20 calls of the dead man's switch
			b.t.Errorf("asked %d times although it said when to come again", n)
		}
		if r := b.checks(); r.Waiting != 2 || r.Failures == 0 || !strings.Contains(r.Error, "429") || r.Again.IsZero() || r.Sent != 0 {
			b.t.Errorf("%+v", r)
		}
		b.set(func() { b.runs[0].Ended, b.runs[0].Failed = time.Now(), true })
		b.desk.answers(0, "")
		b.after(10 * time.Minute)
		b.was("/hc/backup-1-db-1/fail", "/hc/backup-2-db-1/0") // only the newest run of each waits
		if r := b.checks(); r.Waiting != 0 || r.Failures != 0 || r.Error != "" || r.Sent != 2 {
			b.t.Errorf("%+v", r)
		}
	})
}

// A ping for a slug that the service does not know is not repeated; the next run of the entry is pinged again.
func TestASlugThatTheServiceDoesNotKnow(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.check()
		b.start("m1")
		b.desk.answers(404, "")
		b.ran("backup")
		b.after(time.Minute)
		if r := b.checks(); r.Refused != 1 || r.Waiting != 0 || !strings.Contains(r.Error, `cannot ping backup-db-1 at "checks": it answers with status 404`) {
			b.t.Errorf("%+v", r)
		}
		b.desk.answers(0, "")
		b.after(20 * time.Minute)
		b.was()
		b.ran("backup")
		b.after(time.Minute)
		b.was("/hc/backup-db-1/0")
	})
}

// slowly delays the answers to pings.
func slowly(d time.Duration) func(path string) {
	return func(path string) {
		if strings.HasPrefix(path, "/hc") {
			time.Sleep(d)
		}
	}
}

// Alerts are sent at once although the service takes 15 s for each ping, or never replies.
func TestASlowServiceDelaysNoAlerts(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.check()
		b.desk.when(slowly(15 * time.Second))
		b.start("m1")
		b.ran("backup-1", "backup-2", "backup-3")
		b.trouble(failed("backup", "db-1")...)
		b.after(10 * time.Second)
		b.was("/ops began default/backup")
		b.after(time.Minute)
		b.was("/hc/backup-1-db-1/0", "/hc/backup-2-db-1/0", "/hc/backup-3-db-1/0")
		b.desk.when(slowly(time.Minute))
		b.ran("backup-1")
		b.after(40 * time.Second)
		if r := b.checks(); r.Waiting != 1 || r.Failures == 0 || r.Error == "" {
			b.t.Errorf("%+v", r)
		}
		b.desk.when(nil)
		b.after(5 * time.Minute)
		b.desk.take() // a request that timed out may have arrived
		if r := b.checks(); r.Waiting != 0 || r.Failures != 0 {
			b.t.Errorf("%+v", r)
		}
	})
}

func TestPingsAreBounded(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.check()
		b.start("m1")
		b.after(time.Minute)
		var entries []string
		for i := range 300 {
			entries = append(entries, fmt.Sprintf("backup-%03d", i))
		}
		b.ran(entries...)
		b.desk.take()
		b.after(time.Minute)
		if n := len(b.desk.take()); n < 60 || n > 20+60+2 {
			b.t.Errorf("%d requests in the first minute", n)
		}
		b.after(5 * time.Minute)
		if r := b.checks(); r.Sent != 300 || r.Waiting != 0 {
			b.t.Errorf("%+v", r)
		}
		b.desk.take()
	})
}

// There are no pings while the reports of peels are unknown. While the bus stores nothing there is at most one.
func TestPingsNeedTheBusAndTheReports(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.check()
		b.set(func() { b.health.Ready = false })
		b.start("m1")
		b.ran("backup-1")
		b.after(5 * time.Minute)
		b.was()
		b.set(func() { b.health.Ready = true })
		b.after(time.Minute)
		b.was("/hc/backup-1-db-1/0")
		stream, err := b.js.Stream(b.t.Context(), "KV_alerts")
		if err != nil {
			b.t.Fatal(err)
		}
		full := stream.CachedInfo().Config
		full.MaxMsgSize = 1
		if _, err := b.js.UpdateStream(b.t.Context(), full); err != nil {
			b.t.Fatal(err)
		}
		for range 5 {
			b.ran("backup-1")
			b.after(time.Minute)
		}
		if told := slices.DeleteFunc(b.desk.take(), func(s string) bool { return s == "/alive" }); len(told) != 1 {
			b.t.Errorf("told %q although nothing is stored", told)
		}
		if s := b.status(); !strings.Contains(s.Storage, "cannot store the pings of checks") {
			b.t.Errorf("%+v", s)
		}
		if _, err := b.js.UpdateStream(b.t.Context(), stream.CachedInfo().Config); err != nil {
			b.t.Fatal(err)
		}
		b.after(time.Minute)
		b.was("/hc/backup-1-db-1/0")
	})
}

func TestAServiceThatIsPingedGetsNoAlerts(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.check()
		b.rules(policy.Alert{Name: "all", On: []policy.Trouble{policy.Failed}, MinPeels: policy.Quantity{Count: 1, Percent: 100}, Notify: []string{"ops", "checks"}})
		b.start("m1")
		b.trouble(failed("backup", "db-1")...)
		b.set(func() { b.runs = []verdict.Run{{Entry: "backup", Peel: "db-1"}} })
		b.after(time.Minute)
		b.was("/ops began all/backup")
		s := b.status()
		last := s.Receivers[len(s.Receivers)-1]
		if last.Name != "checks" || fmt.Sprint(last.Unknown) != "[all]" || !strings.Contains(last.Error, "gets no alerts") {
			b.t.Errorf("%+v", s.Receivers)
		}
		var r api.Receiver
		if no := b.ask(grants.RoleOperator, "ann", "test", api.ReceiverName{Name: "checks"}, &r); !strings.Contains(no, "cannot send a test message to \"checks\"") {
			b.t.Errorf("refusal is %q", no)
		}
	})
}
