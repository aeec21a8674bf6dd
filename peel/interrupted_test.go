package peel_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
)

func TestAJobInterruptedByTheEndOfThePeelIsReturnedAsInterrupted(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		if r := b.call("test.ping", nil); !r.Success {
			t.Fatalf("%+v", r)
		}
		job := b.ask(wire.Request{Function: "test.sleep", Args: map[string]any{"duration": "10h"}, Epoch: 3})
		time.Sleep(time.Minute)
		killed := filepath.Join(t.TempDir(), "killed") // what a kill leaves on the disk
		if err := os.CopyFS(killed, os.DirFS(b.dir)); err != nil {
			t.Fatal(err)
		}
		b.drain()
		b.stop()
		b.start() // what the stop has cut off in the outbox is sent by this process
		if r := b.returned(); r.JID != job.JID || r.Outcome != wire.Interrupted || r.Error != "the peel was stopped" {
			t.Errorf("after a stop: %+v", r)
		}
		time.Sleep(time.Minute)
		b.stop()
		if strings.Contains(b.log.String(), "job was interrupted") {
			t.Error("a job that was returned is returned again")
		}
		b.drain()

		b.dir = killed
		if err := os.Chmod(filepath.Join(killed, "key"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.start()
		if r := b.returned(); r.JID != job.JID || r.Epoch != 3 || r.Success || r.Outcome != wire.Interrupted || !strings.Contains(r.Error, "died before the job had a result") {
			t.Errorf("after a kill: %+v", r)
		}
		b.ask(job)
		time.Sleep(time.Minute)
		synctest.Wait()
		for len(b.heard) > 0 {
			// The bus has the return from before the kill and refuses this one, which is then sent once more on the condition
			// that there is none.
			if msg := <-b.heard; matches(wire.ReturnOf("*", "*"), msg.Subject) && msg.Header.Get("Nats-Expected-Last-Subject-Sequence") == "" {
				t.Errorf("one return more: %s", msg.Subject)
			}
		}
		b.stop()
		b.start()
		time.Sleep(time.Minute)
		if n := strings.Count(b.log.String(), "job was interrupted"); n != 1 {
			t.Errorf("%d jobs are interrupted, want 1", n)
		}
	})
}

// The result is in memory alone when the peel is killed, because the disk has refused it and the bus is away.
func TestAJobWhoseResultAKillLosesIsReturnedAsInterrupted(t *testing.T) {
	run(t, func(b *bench) {
		network := b.mute()
		b.start()
		b.breakOutbox()
		network.lost.Store(true)
		job := b.ask(wire.Request{Function: "test.ping", Epoch: 3})
		time.Sleep(time.Minute)
		killed := filepath.Join(t.TempDir(), "killed") // what a kill leaves on the disk
		if err := os.CopyFS(killed, os.DirFS(b.dir)); err != nil {
			t.Fatal(err)
		}
		b.stop()
		b.drain()
		b.dir, b.options = killed, nil
		if err := os.Chmod(filepath.Join(killed, "key"), 0o600); err != nil {
			t.Fatal(err)
		}
		b.start()
		if r := b.returned(); r.JID != job.JID || r.Outcome != wire.Interrupted {
			t.Errorf("%+v", r)
		}
	})
}
