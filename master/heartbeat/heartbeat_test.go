package heartbeat

import (
	"log/slog"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

func TestTheHeartbeatTellsHowFarTheClockIsAheadOfTheBus(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		h := New(b.JetStream(t), "m1/1", "", slog.New(slog.DiscardHandler))
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
