package fleet

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// want fails the test unless a peel is online, offline or neither is known.
func (t *fleet) wantPresence(f *Fleet, online, unknown bool) {
	t.Helper()
	synctest.Wait()
	seen, is := f.Presence("web-1")
	if not := f.Unknown("web-1"); is != online || not != unknown {
		t.Errorf("online %v and unknown %v, want %v and %v; seen at %s", is, not, online, unknown, seen)
	}
}

func TestForAHeartbeatAfterAStartItIsUnknownWhoIsOffline(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("web-1", nil)
		time.Sleep(time.Hour)
		f, _ := t.start()
		t.wantPresence(f, false, true)
		time.Sleep(34 * time.Second)
		t.wantPresence(f, false, true)
		time.Sleep(2 * time.Second)
		t.wantPresence(f, false, false)
		t.say("web-1", &nats.Msg{Subject: wire.Heartbeat("web-1")})
		t.wantPresence(f, true, false)
		time.Sleep(OfflineAfter + time.Second)
		t.wantPresence(f, false, false)
		t.bus.Restart(t)
		time.Sleep(5 * time.Second)
		t.wantPresence(f, false, true) // what was sent while the bus was away was not heard
		time.Sleep(35 * time.Second)
		t.wantPresence(f, false, false)
	})
}

func TestConnectionsMakePresenceImmediate(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("web-1", nil)
		f, _ := t.start()
		t.wantPresence(f, true, false)
		f.Disconnected("web-1")
		t.wantPresence(f, false, false)
		t.say("web-1", &nats.Msg{Subject: wire.Heartbeat("web-1")}) // was on its way
		t.wantPresence(f, false, false)
		time.Sleep(2 * maxDelay)
		t.say("web-1", &nats.Msg{Subject: wire.Heartbeat("web-1")}) // by another server
		t.wantPresence(f, true, false)
		f.Disconnected("web-1")
		f.Connected("web-1")
		t.wantPresence(f, true, false)
		time.Sleep(OfflineAfter + time.Second) // as one whose network was cut: its connection stands and nothing comes
		t.wantPresence(f, false, false)
	})
}

func TestTheIntervalGrowsWithTheFleet(t *testing.T) {
	for _, tt := range []struct {
		n, rate int
		want    time.Duration
	}{
		{0, 300, 30 * time.Second},
		{1, 300, 30 * time.Second},
		{9000, 300, 30 * time.Second},
		{9300, 300, 31 * time.Second},
		{100_000, 300, 333 * time.Second},
		{180_000, 300, 10 * time.Minute},
		{1_000_000_000, 300, 10 * time.Minute},
		{900, 30, 30 * time.Second},
		{10_000, 30, 333 * time.Second},
		{20_000, 30, 10 * time.Minute},
	} {
		if got := Interval(tt.n, tt.rate); got != tt.want {
			t.Errorf("%d peels, %d a second: %v, want %v", tt.n, tt.rate, got, tt.want)
		}
	}
}

// ask sends a heartbeat that asks for the interval and returns the answers.
func (t *fleet) ask(w string) (answers []time.Duration) {
	t.Helper()
	nc := t.conn(w)
	replies, err := nc.SubscribeSync(nc.NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replies.Unsubscribe() }()
	t.say(w, &nats.Msg{Subject: wire.Heartbeat(w), Reply: replies.Subject, Data: []byte("AAAA")})
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		msg, err := replies.NextMsgWithContext(ctx)
		cancel()
		if err != nil {
			return answers
		}
		every, err := wire.DecodeInterval(msg)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, every)
	}
}

// pretend has the feed count so many more peels.
func (f *Fleet) pretend(peels int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range peels {
		f.ids[fmt.Sprint("more-", i)] = target.PeelID(fmt.Sprint("more-", i))
	}
}

func TestMastersAnswerAHeartbeatThatAsksForTheInterval(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("web-1", nil)
		f, stop := t.start()
		if got := t.ask("web-1"); len(got) != 1 || got[0] != 30*time.Second {
			t.Errorf("one peel: %v", got)
		}
		f.pretend(99_999)
		if got := t.ask("web-1"); len(got) != 1 || got[0] != 333*time.Second {
			t.Errorf("100,000 peels: %v", got)
		}
		f.FollowsConnections()
		if got := t.ask("web-1"); len(got) != 1 || got[0] != 10*time.Minute {
			t.Errorf("100,000 peels whose connections are followed: %v", got)
		}
		other := New(t.bus.Conn(t, grants.RoleMaster, "m2"), f.log)
		t.run(other)
		for _, got := range t.ask("web-1") { // the peel goes by the first
			if got != 30*time.Second && got != 10*time.Minute {
				t.Errorf("two masters, and one answers %v", got)
			}
		}
		stop()
		if got := t.ask("web-1"); len(got) != 1 || got[0] != 30*time.Second {
			t.Errorf("the other master alone: %v", got)
		}
	})
}

// A master that is still reading would announce the interval of a smaller fleet.
func TestAMasterWhoseIndexIsNotCompleteAnnouncesNothing(t *testing.T) {
	bubble(t, func(t *fleet) {
		f, _ := t.start()
		f.ready = make(chan struct{})
		if got := t.ask("web-1"); len(got) != 0 {
			t.Errorf("announced: %v", got)
		}
		if _, online := f.Presence("web-1"); !online {
			t.Error("a heartbeat that asks is none")
		}
	})
}

func TestAPeelIsOfflineWhenThreeOfItsOwnHeartbeatsAreMissing(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("web-1", nil)
		f, _ := t.start()
		f.pretend(100_000)
		t.beat("web-1", "AAAA") // of an earlier version, whatever the fleet has grown to
		time.Sleep(OfflineAfter - time.Second)
		t.wantPresence(f, true, false)
		time.Sleep(2 * time.Second)
		_, online := f.Presence("web-1")
		if online {
			t.Error("online after three intervals of 30 s")
		}
		t.beat("web-1", "AAAA 100")
		time.Sleep(299 * time.Second)
		t.wantPresence(f, true, false)
		time.Sleep(2 * time.Second)
		if _, online = f.Presence("web-1"); online {
			t.Error("online after three intervals of 100 s")
		}
	})
}

// After a start the first heartbeat of a peel may be a whole interval away.
func TestHowLongItIsUnknownWhoIsOfflineFollowsTheInterval(t *testing.T) {
	bubble(t, func(t *fleet) {
		t.facts("web-1", nil)
		time.Sleep(time.Hour)
		f, _ := t.start()
		f.pretend(100_000)
		time.Sleep(380 * time.Second)
		t.wantPresence(f, false, true)
		time.Sleep(20 * time.Second)
		t.wantPresence(f, false, false)
		f.setSince(time.Now())
		f.FollowsConnections()
		time.Sleep(36 * time.Second) // connections are listed after a start
		t.wantPresence(f, false, false)
	})
}
