package master

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// A master behind a cut route gets no reply to what it writes, and answers from memory all that it is asked.
func TestAMasterWhoseWritesGetNoReplyIsNotReady(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js, err := jetstream.New(b.Conn(t, grants.RoleMaster, "m1", nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)))
		if err != nil {
			t.Fatal(err)
		}
		s := &storage{js: js, key: "m1", log: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.run(ctx); close(done) }()
		defer func() { cancel(); <-done }()
		time.Sleep(time.Hour)
		if err := s.Err(); err != nil {
			t.Errorf("while all is stored: %v", err)
		}
		b.Stop(t)
		time.Sleep(storedWithin - probeEvery - time.Second)
		if err := s.Err(); err != nil {
			t.Errorf("after a short time: %v", err)
		}
		time.Sleep(probeEvery + time.Second)
		if err := s.Err(); err == nil {
			t.Error("ready, although nothing was stored for 10 s")
		}
		b.Start(t)
		time.Sleep(2 * probeEvery)
		if err := s.Err(); err != nil {
			t.Errorf("the bus is back: %v", err)
		}
	})
}
