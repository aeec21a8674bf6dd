package bus

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestMain(m *testing.M) { natstest.InMemory(m) }

// A rig is a bus in fake time, and a reader of the facts that nobody runs.
type rig struct {
	*testing.T
	js     jetstream.JetStream
	taken  []string // keys of messages
	fails  error    // of OnMessage
	r      *reader
	stream jetstream.Stream
}

func bubble(t *testing.T, f func(t *rig)) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		one := &rig{T: t, js: b.JetStream(t)}
		follower := NewFollower(FollowOptions{
			JetStream: one.js, Stream: "facts", Subject: wire.AllFacts, Log: slog.New(slog.DiscardHandler), OnRemoved: func(string) {},
			OnMessage: func(_ context.Context, m FollowMessage) error { one.taken = append(one.taken, m.Key); return one.fails },
		})
		one.r = &reader{f: follower, known: map[string]int{}}
		var err error
		if one.stream, _, err = one.r.open(t.Context()); err != nil {
			t.Fatal(err)
		}
		f(one)
	})
}

// facts stores a message of a peel.
func (t *rig) facts(peel string) {
	t.Helper()
	if _, err := t.js.Publish(t.Context(), wire.Fact(peel), []byte("x")); err != nil {
		t.Fatal(err)
	}
}

// next returns the next messages of a new consumer.
func (t *rig) next(n int) (all []jetstream.Msg) {
	t.Helper()
	c, err := t.r.consumer(t.Context(), t.stream)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		m, err := c.Next()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func TestAConsumerThatStopsInSilenceIsFound(t *testing.T) {
	bubble(t, func(t *rig) {
		t.facts("a")
		if err := t.r.check(t.Context(), t.stream); err != nil {
			t.Errorf("a message in flight is an error: %v", err)
		}
		if since := t.r.f.Health().Behind; !since.IsZero() {
			t.Errorf("a message in flight: behind since %v", since)
		}
		first := time.Now()
		time.Sleep(FollowCheckEvery)
		err := t.r.check(t.Context(), t.stream)
		if want := "cannot read the stream facts: stopped before sequence 1 of 1"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
		if since := t.r.f.Health().Behind; !since.Equal(first) {
			t.Errorf("behind since %v, want %v", since, first)
		}
	})
}

func TestAConsumerThatIsSlowIsLeftAlone(t *testing.T) {
	bubble(t, func(t *rig) {
		for range 5 {
			t.facts("a")
			t.facts("b")
			if err := t.r.check(t.Context(), t.stream); err != nil {
				t.Error(err)
			}
			t.r.next++
		}
	})
}

func TestAMissingMessageIsNoticed(t *testing.T) {
	bubble(t, func(t *rig) {
		t.facts("a")
		t.facts("b")
		for i, m := range t.next(2) {
			if err := t.r.onMessage(t.Context(), m, 1); (err == nil) != (i == 0) {
				t.Errorf("message %d taken as the first: %v", i+1, err)
			}
		}
		if t.r.next != 2 || !slices.Equal(t.taken, []string{"a"}) {
			t.Errorf("the message after the gap was taken: %v", t.taken)
		}
	})
}

func TestAMessageThatCannotBeTakenIsReadAgain(t *testing.T) {
	bubble(t, func(t *rig) {
		t.facts("a")
		t.fails = errors.New("the bus does not answer")
		if err := t.r.onMessage(t.Context(), t.next(1)[0], 1); !errors.Is(err, t.fails) {
			t.Errorf("error is %v", err)
		}
		t.fails = nil
		if err := t.r.onMessage(t.Context(), t.next(1)[0], 1); err != nil {
			t.Error(err)
		}
		if t.r.next != 2 || !slices.Equal(t.taken, []string{"a", "a"}) {
			t.Errorf("next is %d, taken were %v", t.r.next, t.taken)
		}
	})
}

func TestAnotherStreamOfTheNameIsNotReadOn(t *testing.T) {
	bubble(t, func(t *rig) {
		t.facts("a")
		t.r.next = 2
		info := func() *jetstream.StreamInfo {
			info, err := t.stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		if t.r.wasReplaced(info()) {
			t.Error("the stream is foreign to its reader")
		}
		restored := info()
		restored.State.LastSeq = 0
		if !t.r.wasReplaced(restored) {
			t.Error("an earlier state of the stream is not noticed")
		}
		config := t.stream.CachedInfo().Config
		if err := t.js.DeleteStream(t.Context(), "facts"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := t.js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			t.facts("b")
		}
		if err := t.r.check(t.Context(), t.stream); !errors.Is(err, errReadOn) {
			t.Errorf("check of a stream made anew: %v", err)
		}
	})
}
