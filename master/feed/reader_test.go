package feed

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// reader returns a reader that nobody runs, with the stream it has opened.
func (t *fleet) reader() (*reader, jetstream.Stream) {
	t.Helper()
	f := New(t.bus.Conn(t, grants.RoleMaster, "m1"), slog.New(slog.DiscardHandler))
	r := &reader{feed: f, js: t.js, known: map[string]int{}}
	stream, _, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r, stream
}

func TestAConsumerThatStopsInSilenceIsFound(t *testing.T) {
	bubble(t, func(t *fleet) {
		r, stream := t.reader()
		t.facts("a", nil)
		if err := r.check(t.Context(), stream); err != nil {
			t.Errorf("a message in flight is an error: %v", err)
		}
		err := r.check(t.Context(), stream)
		if want := "cannot read stream facts: stopped before sequence 1 of 1"; err == nil || err.Error() != want {
			t.Errorf("error is %v, want %s", err, want)
		}
	})
}

func TestAConsumerThatIsSlowIsLeftAlone(t *testing.T) {
	bubble(t, func(t *fleet) {
		r, stream := t.reader()
		for range 5 {
			t.facts("a", nil)
			t.facts("b", nil)
			if err := r.check(t.Context(), stream); err != nil {
				t.Error(err)
			}
			r.next++
		}
	})
}

func TestAMissingMessageIsNoticed(t *testing.T) {
	bubble(t, func(t *fleet) {
		r, stream := t.reader()
		t.facts("a", nil)
		t.facts("b", nil)
		c, err := r.consumer(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			m, err := c.Next()
			if err != nil {
				t.Fatal(err)
			}
			err = r.onMessage(t.Context(), m, 1)
			if meta, _ := m.Metadata(); (err == nil) != (meta.Sequence.Consumer == 1) {
				t.Errorf("message %d taken as the first: %v", meta.Sequence.Consumer, err)
			}
		}
		if r.next != 2 || r.feed.Index().Len() != 1 {
			t.Errorf("the message after the gap was taken")
		}
	})
}

func TestAnotherStreamOfTheNameIsNotReadOn(t *testing.T) {
	bubble(t, func(t *fleet) {
		r, stream := t.reader()
		t.facts("a", nil)
		r.next = 2
		info := func() *jetstream.StreamInfo {
			info, err := stream.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		if r.wasReplaced(info()) {
			t.Error("the stream is foreign to its reader")
		}
		restored := info()
		restored.State.LastSeq = 0
		if !r.wasReplaced(restored) {
			t.Error("an earlier state of the stream is not noticed")
		}
		config := stream.CachedInfo().Config
		if err := t.js.DeleteStream(t.Context(), streamName); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := t.js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			t.facts("b", nil)
		}
		if err := r.check(t.Context(), stream); !errors.Is(err, errReadOn) {
			t.Errorf("check of a stream made anew: %v", err)
		}
	})
}
