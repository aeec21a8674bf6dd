package hold_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/hold"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

func TestABusThatIsAwayForAMomentDoesNotEndTheService(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js, err := jetstream.New(b.Conn(t, grants.RoleMaster, "m1", nats.MaxReconnects(-1), nats.ReconnectBufSize(-1)))
		if err != nil {
			t.Fatal(err)
		}
		b.Stop(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- hold.New(hold.Options{JetStream: js}).Run(ctx) }()
		time.Sleep(20 * time.Second)
		b.Start(t)
		time.Sleep(time.Minute)
		if len(ended) > 0 {
			t.Fatalf("ended with %v", <-ended)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	})
}
