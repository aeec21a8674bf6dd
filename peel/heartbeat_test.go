package peel_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

// heartbeats is what masters receive of a peel for so long, each answered by announce if it asks. A zero interval is no
// answer.
func (b *bench) heartbeats(sub *nats.Subscription, during time.Duration, announce time.Duration) (times []time.Time, said []time.Duration) {
	b.t.Helper()
	for end := time.Now().Add(during); ; {
		msg, err := sub.NextMsg(time.Until(end))
		if err != nil {
			return times, said
		}
		beat, ok := wire.DecodeHeartbeat(msg)
		if !ok {
			b.t.Errorf("%q is no heartbeat", msg.Data)
		}
		times, said = append(times, time.Now()), append(said, beat.Every)
		if msg.Reply == "" || announce == 0 {
			continue
		}
		if err := msg.RespondMsg(wire.NewInterval(announce)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// wantEvery fails the test unless heartbeats come and announce themselves in an interval, ± 10 %.
func (b *bench) wantEvery(what string, times []time.Time, said []time.Duration, every time.Duration) {
	b.t.Helper()
	if len(times) < 3 {
		b.t.Fatalf("%s: %d heartbeats", what, len(times))
	}
	for i := 1; i < len(times); i++ {
		if d := times[i].Sub(times[i-1]); said[i-1] != every || d < every*9/10 || d > every*11/10 {
			b.t.Errorf("%s: a heartbeat that says %v, and the next %v later, want %v", what, said[i-1], d, every)
		}
	}
}

func TestHeartbeatsFollowTheIntervalThatMastersAnnounce(t *testing.T) {
	run(t, func(b *bench) {
		sub := b.listen(wire.AllHeartbeats)
		b.start()
		times, said := b.heartbeats(sub, time.Hour, 0)
		b.wantEvery("nobody answers", times, said, 30*time.Second)
		b.heartbeats(sub, time.Minute, 100*time.Second)
		times, said = b.heartbeats(sub, time.Hour, 100*time.Second)
		b.wantEvery("announced", times[1:], said[1:], 100*time.Second)
		b.heartbeats(sub, askAgain+4*time.Minute, 333*time.Second) // of which the peel learns when it asks again
		times, said = b.heartbeats(sub, 5*time.Hour, 333*time.Second)
		b.wantEvery("the fleet has grown", times, said, 333*time.Second)
		b.heartbeats(sub, 40*time.Minute, 0)
		times, said = b.heartbeats(sub, time.Hour, 0)
		b.wantEvery("no master answers any longer", times, said, 30*time.Second)
	})
}

const askAgain = 10 * time.Minute

func TestAWrongIntervalNeitherStopsNorFloodsHeartbeats(t *testing.T) {
	run(t, func(b *bench) {
		sub := b.listen(wire.AllHeartbeats)
		b.start()
		b.heartbeats(sub, time.Minute, 1000*time.Hour)
		times, said := b.heartbeats(sub, 24*time.Hour, 1000*time.Hour)
		b.wantEvery("a thousand hours", times, said, 10*time.Minute)
		b.heartbeats(sub, askAgain+11*time.Minute, time.Second)
		times, said = b.heartbeats(sub, time.Hour, time.Second)
		b.wantEvery("a second", times, said, 30*time.Second)
	})
}

// The bus may be another, or the fleet another one.
func TestAPeelAsksForTheIntervalSoonAfterEachConnect(t *testing.T) {
	run(t, func(b *bench) {
		sub := b.listen(wire.AllHeartbeats)
		b.start()
		b.heartbeats(sub, time.Hour, 10*time.Minute)
		b.bus.Restart(t)
		time.Sleep(5 * time.Second)
		times, _ := b.heartbeats(sub, 30*time.Second, 30*time.Second)
		if len(times) == 0 {
			t.Fatalf("%d heartbeats soon after a reconnect", len(times))
		}
		times, said := b.heartbeats(sub, time.Hour, 30*time.Second)
		b.wantEvery("after it asked", times, said, 30*time.Second)
	})
}
