package peel_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel"
)

// silence is an address that never answers.
type silence struct{ tried chan struct{} }

func (s silence) Dial(string, string) (net.Conn, error) {
	s.tried <- struct{}{}
	time.Sleep(10 * time.Minute)
	return nil, errors.New("no answer")
}

func TestTheScheduleDoesNotWaitForTheBus(t *testing.T) {
	run(t, func(b *bench) {
		b.give(1, "schedule:\n  boot: {module: test.ping, interval: 1h, run_on_start: true, return_job: true}\n")
		b.start()
		b.reported()
		b.stop()
		s := silence{make(chan struct{}, 100)}
		silent := func(o *nats.Options) error { o.InProcessServer, o.CustomDialer = nil, s; return nil }
		b.options = func(o *peel.Options) { o.Connect = append(o.Connect, silent) }
		b.start()
		<-s.tried
		synctest.Wait()
		if files, err := os.ReadDir(filepath.Join(b.dir, "outbox")); err != nil || len(files) != 1 {
			t.Errorf("the entry of the snapshot has not run while the bus is tried: %v, %v", files, err)
		}
	})
}
