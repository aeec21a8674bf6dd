package bus

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestTheHeartbeatTellsHowFarTheClockIsAheadOfTheBus(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		h := NewHeartbeat(b.JetStream(t), "m1/1", "", slog.New(slog.DiscardHandler))
		if err := h.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, ahead := range []time.Duration{-3 * time.Minute, 3 * time.Minute} {
			data, err := canon.Marshal(Beat{Owner: "m1/1", Time: time.Now().Add(ahead)})
			if err == nil {
				_, err = h.bucket.Put(t.Context(), "m1", data)
			}
			if err != nil {
				t.Fatal(err)
			}
			if beat, err := h.Read(t.Context(), "m1/1"); err != nil || beat == nil || (beat.Ahead()-ahead).Abs() > time.Second {
				t.Errorf("the heartbeat is %+v, %v; want a clock that is %v ahead", beat, err, ahead)
			}
		}
		if beat, err := h.Read(t.Context(), "m1/2"); beat != nil || err != nil {
			t.Errorf("another run of the master has the heartbeat %+v, %v", beat, err)
		}
	})
}

// A name is taken from the previous run on the same data directory at once, from another run that lives never, and from one that
// has died when its heartbeat has expired.
func TestTheNameOfARunThatLivesIsNotTaken(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		log := slog.New(slog.DiscardHandler)
		first := NewHeartbeat(b.JetStream(t), "m1/1", "", log)
		if err := first.Enter(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, die := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- first.Run(ctx) }()
		for _, earlier := range []string{"", "m1/0"} {
			if err := NewHeartbeat(b.JetStream(t), "m1/2", earlier, log).Enter(t.Context()); !errors.Is(err, ErrNameTaken) {
				t.Errorf("a run whose earlier one is %q: %v", earlier, err)
			}
		}
		if beat, err := first.Read(t.Context(), "m1/1"); err != nil || beat == nil {
			t.Errorf("the first run has lost its name: %v, %v", beat, err)
		}
		die()
		if err := <-ended; err != nil {
			t.Errorf("the first run ended with %v", err)
		}
		began := time.Now()
		if err := NewHeartbeat(b.JetStream(t), "m1/3", "m1/1", log).Enter(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("the next run on the same data directory: %v after %v", err, time.Since(began))
		}
		if err := NewHeartbeat(b.JetStream(t), "m1/4", "", log).Enter(t.Context()); err != nil || time.Since(began) < 10*time.Second {
			t.Errorf("after a run that died: %v after %v", err, time.Since(began))
		}
	})
}
