package share_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/share"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// size is of the stream in these tests. A sixteenth of it is a peel's share.
const size = 2 << 20

// guarded runs a guard that hears what the peels say, as masters do.
func guarded(t *testing.T, f func(t *testing.T, b *natstest.Bus, stream jetstream.Stream, g *share.Guard, said *strings.Builder)) {
	t.Helper()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		stream, err := js.Stream(t.Context(), natsd.StreamJobEvents)
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		config.MaxBytes = size
		if _, err := js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		said := &strings.Builder{}
		g := share.NewGuard(js, natsd.StreamJobEvents, slog.New(slog.NewTextHandler(said, nil)))
		for _, subject := range []string{wire.AckOf("*", "*"), wire.ReturnOf("*", "*"), wire.AllScheduled} {
			if _, err := js.Conn().Subscribe(subject, func(m *nats.Msg) { g.Heard(m.Subject, len(m.Data)) }); err != nil {
				t.Fatal(err)
			}
		}
		if err := js.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		f(t, b, stream, g, said)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// say publishes messages of 8 KiB each on the subjects in turn and waits until they are stored.
func say(t *testing.T, nc *nats.Conn, peel string, n int) {
	t.Helper()
	payload := make([]byte, 8<<10)
	for i := range n {
		jid := wire.NewJID()
		subject := []string{wire.ReturnOf(jid, peel), wire.ScheduledOf(jid, peel), wire.AckOf(jid, peel)}[i%3]
		if err := nc.Publish(subject, payload); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// held is how many messages of the peel are in the stream.
func held(t *testing.T, stream jetstream.Stream, peel string) int {
	t.Helper()
	info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(wire.SaidBy(peel)))
	if err != nil {
		t.Fatal(err)
	}
	return len(info.State.Subjects)
}

func TestAPeelThatFloodsTheStreamPushesOutNobody(t *testing.T) {
	guarded(t, func(t *testing.T, b *natstest.Bus, stream jetstream.Stream, g *share.Guard, said *strings.Builder) {
		good, mad := b.Conn(t, auth.RolePeel, "good"), b.Conn(t, auth.RolePeel, "mad")
		say(t, good, "good", 12)
		for range 128 { // seconds; together a hundred shares, at the pace at which 2 GiB would be full in 20 s
			say(t, mad, "mad", 12)
			time.Sleep(time.Second)
		}
		say(t, good, "good", 3)
		if n := held(t, stream, "good"); n != 15 {
			t.Errorf("%d messages of 15 are left of a peel that keeps within its share", n)
		}
		if n := held(t, stream, "mad"); n > 200 {
			t.Errorf("%d messages are left of the peel that flooded", n)
		}
		if lines := strings.Count(said.String(), "surplus of a peel removed"); g.Removed() == 0 || lines < 1 || lines > 3 || !strings.Contains(said.String(), "peel=mad stream=job-events") {
			t.Errorf("removed %d times, logged %s", g.Removed(), said)
		}
	})
}

// TestAGuardThatStartsTakesNothingFromThoseWithinTheirShare is about what it hears before it knows the size of the stream.
func TestAGuardThatStartsTakesNothingFromThoseWithinTheirShare(t *testing.T) {
	guarded(t, func(t *testing.T, b *natstest.Bus, stream jetstream.Stream, _ *share.Guard, _ *strings.Builder) {
		for i := range 3 { // each within its share
			peel := fmt.Sprintf("p%d", i)
			say(t, b.Conn(t, auth.RolePeel, peel), peel, 15)
		}
		config := stream.CachedInfo().Config
		config.MaxBytes = 640 << 10 // so that it is more than half full
		if _, err := b.JetStream(t).UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		said := &strings.Builder{}
		later := share.NewGuard(b.JetStream(t), natsd.StreamJobEvents, slog.New(slog.NewTextHandler(said, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- later.Run(ctx) }()
		later.Heard(wire.AckOf(wire.NewJID(), "p0"), 100)
		time.Sleep(5 * time.Second)
		if n := later.Removed(); n != 0 {
			t.Errorf("removed %d times, logged %s", n, said)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWhereThereIsRoomEverythingIsKept(t *testing.T) {
	guarded(t, func(t *testing.T, b *natstest.Bus, stream jetstream.Stream, g *share.Guard, said *strings.Builder) {
		busy := b.Conn(t, auth.RolePeel, "busy")
		for range 8 { // six shares
			say(t, busy, "busy", 12)
			time.Sleep(time.Second)
		}
		if n := held(t, stream, "busy"); n != 96 || g.Removed() != 0 || said.Len() != 0 {
			t.Errorf("%d of 96 messages are left in a stream that is not half full; removed %d times, logged %s", n, g.Removed(), said)
		}
	})
}

func TestAShareComesBackInTheCourseOfAWeek(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		room := share.NewRoom(js, natsd.StreamJobEvents)
		if room.Within("a", 1) {
			t.Error("a message is within the share of a stream of unknown size")
		}
		if crowded, err := room.Crowded(t.Context()); crowded || err != nil {
			t.Fatal(crowded, err)
		}
		all := func(peel string) (n int) {
			for room.Within(peel, 1<<20) {
				n++
			}
			return n
		}
		const fits = 127 // of 1 MiB into a sixteenth of 2 GiB, with what a message takes beside
		if n := all("a"); n != fits {
			t.Errorf("the share is %d messages of 1 MiB, want %d", n, fits)
		}
		if n := all("b"); n != fits {
			t.Errorf("the share of another is %d", n)
		}
		time.Sleep(7 * time.Hour) // a 24th of a week
		if n := all("a"); n != fits/24 && n != fits/24+1 {
			t.Errorf("after a 24th of a week the share is %d messages, want a 24th of %d", n, fits)
		}
	})
}
