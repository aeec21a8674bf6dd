package peel_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// hang occupies the peel's one worker with a command that says that it runs, and returns its job.
func (b *bench) hang() wire.JID {
	b.t.Helper()
	fifo := filepath.Join(b.t.TempDir(), "begun")
	r := b.ask(wire.Request{Function: "cmd.run", Epoch: 1, Args: map[string]any{"command": fmt.Sprintf("echo begun; echo > %s; exec sleep 600", fifo)}})
	for _, err := os.Stat(fifo); err != nil; _, err = os.Stat(fifo) { // fake time stands still while the command runs
		b.acked(r.JID)
	}
	return r.JID
}

// acked waits for the acknowledgement of a job, by asking for it once more.
func (b *bench) acked(jid wire.JID) {
	b.t.Helper()
	b.ask(wire.Request{JID: jid, Function: "cmd.run", Epoch: 1})
	for next(b, wire.AckOf("*", "*"), wire.DecodeAck).JID != jid {
	}
}

func (b *bench) cancel(jid wire.JID) {
	b.t.Helper()
	data, err := canon.Marshal(wire.Event{JID: jid, Type: "cancel", V: wire.Version})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.nc.Publish(wire.CancelOf(jid), data); err != nil {
		b.t.Fatal(err)
	}
}

// canceled expects the next return to be of a job that was canceled.
func (b *bench) canceled(jid wire.JID) wire.Return {
	b.t.Helper()
	r := b.returned()
	if r.JID != jid || r.Success || r.Outcome != wire.Canceled || r.Error != "the job was canceled" {
		b.t.Errorf("%+v, want job %s canceled", r, jid)
	}
	return r
}

func TestACancelStopsRunningAndQueuedRequests(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		running := b.hang()
		file := filepath.Join(b.dir, "never")
		waiting := b.ask(wire.Request{Function: "cmd.run", Epoch: 1, Args: map[string]any{"command": "touch " + file}})
		b.cancel(waiting.JID)
		b.canceled(waiting.JID) // behind the command that hangs, at once
		b.cancel(wire.NewJID())
		b.cancel(running)
		b.cancel(running)
		if r := b.canceled(running); r.Data.(map[string]any)["stdout"] != "begun\n" {
			t.Errorf("what it said until then: %v", r.Data)
		}
		if r := b.call("cmd.run", map[string]any{"command": "echo next"}); !r.Success {
			t.Errorf("the worker is not free: %+v", r)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("what was canceled in the queue has run")
		}
	})
}

func TestAMessageThatIsNoCancelStopsNothingAndIsLogged(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		running := b.hang()
		foreign, err := canon.Marshal(wire.Event{JID: wire.NewJID(), V: wire.Version})
		if err != nil {
			t.Fatal(err)
		}
		own, err := canon.Marshal(wire.Event{JID: running, V: wire.Version})
		if err != nil {
			t.Fatal(err)
		}
		for _, msg := range []*nats.Msg{
			{Data: []byte("stop")},
			{Data: nil},
			{Data: []byte(`{"stream":"job-events","seq":1}`)},
			{Data: foreign},
			{Data: own, Header: nats.Header{"Nats-Stream": {"KV_settings"}}},
		} {
			msg.Subject = wire.CancelOf(running)
			if err := b.nc.PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
		}
		if r := b.call("test.ping", nil); !r.Success {
			t.Errorf("%+v", r)
		}
		if n := strings.Count(b.log.String(), "cancel dropped"); n != 5 {
			t.Errorf("%d of 5 are in the log:\n%s", n, b.log.String())
		}
		b.cancel(running)
		b.canceled(running)
	})
}

func TestACancelThatArrivesBeforeItsRequestKeepsItFromRunning(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		early := wire.NewJID()
		b.cancel(early)
		if err := b.nc.Flush(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.ask(wire.Request{JID: early, Function: "test.ping", Epoch: 1})
		b.canceled(early)
		b.ask(wire.Request{JID: early, Function: "test.ping", Epoch: 2})
		b.canceled(early)
	})
}

func TestASuccessIsNotTurnedIntoACancel(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		r := b.ask(wire.Request{Function: "test.ping", Epoch: 1})
		if r := b.returned(); !r.Success {
			t.Fatalf("%+v", r)
		}
		b.cancel(r.JID)
		synctest.Wait()
		b.ask(wire.Request{Function: "test.ping", Epoch: 1})
		if again := b.returned(); again.JID == r.JID {
			t.Errorf("answered twice: %+v", again)
		}
	})
}

func TestTheScheduleIsChangedBehindACommandThatHangs(t *testing.T) {
	run(t, func(b *bench) {
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1h}\n")
		b.start()
		hanging := b.hang()
		b.ask(wire.Request{Function: "schedule.pause", Epoch: 1, User: "ada", Args: map[string]any{"entry": "beat"}})
		if r := b.returned(); !r.Success {
			t.Errorf("%+v", r)
		}
		if e := b.entry("beat"); e["state"] != "paused_manual" || !strings.Contains(fmt.Sprint(e), "ada") {
			t.Errorf("paused by whom: %v", e)
		}
		b.cancel(hanging)
		b.canceled(hanging)
	})
}

func TestARequestIsRejectedIfTheQueueIsFull(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		hanging := b.hang()
		var last wire.Request
		for range 65 {
			last = b.ask(wire.Request{Function: "cmd.run", Epoch: 1, Args: map[string]any{"command": "true"}})
		}
		r := b.returned()
		if r.JID != last.JID || r.Outcome != wire.Rejected || r.Error != "rejected: the peel is busy, 64 requests wait or run already" {
			t.Errorf("%+v", r)
		}
		b.cancel(hanging)
		b.canceled(hanging)
		for range 64 {
			if r := b.returned(); !r.Success {
				t.Errorf("%+v", r)
			}
		}
	})
}
