package feed

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// want fails the test unless a peel is online, offline or neither is known.
func (t *fleet) wantPresence(f *Feed, online, unknown bool) {
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
		time.Sleep(knownAfter - time.Second)
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
		time.Sleep(knownAfter)
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
