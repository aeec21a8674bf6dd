package peel_test

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/outbox"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// storedFacts are those that the masters have.
func (b *bench) storedFacts() map[string]any {
	b.t.Helper()
	stream, err := b.bus.JetStream(b.t).Stream(b.t.Context(), "facts")
	if err != nil {
		b.t.Fatal(err)
	}
	msg, err := stream.GetLastMsgForSubject(b.t.Context(), wire.Fact(id.Wire()))
	if err != nil {
		b.t.Fatal(err)
	}
	var f wire.Facts
	if err := canon.Unmarshal(msg.Data, &f); err != nil {
		b.t.Fatal(err)
	}
	return f.Facts
}

func (b *bench) facts(f target.Facts) { b.options = func(o *peel.Options) { o.Facts = f } }

func TestFactsBeyondTheLimitAreLoggedAndTheEarlierFactsStay(t *testing.T) {
	run(t, func(b *bench) {
		b.facts(target.Facts{"role": "db"})
		b.start()
		b.stop()
		b.facts(target.Facts{"role": "web", "notes": strings.Repeat("x", 256<<10)})
		b.start()
		time.Sleep(time.Minute)
		if role := b.storedFacts()["role"]; role != "db" {
			t.Errorf("the masters have %v", role)
		}
		if log := b.log.String(); strings.Count(log, "facts not sent, masters would refuse them") != 1 || !strings.Contains(log, "bytes of facts, the limit is 262144") {
			t.Error(log)
		}
		if r := b.call("facts.get", map[string]any{"key": "role"}); r.Data != "web" {
			t.Errorf("the peel itself: %+v", r)
		}
	})
}

func TestFactsTooLargeForTheBusAreLogged(t *testing.T) {
	run(t, func(b *bench) {
		b.bus.Stop(t)
		b.bus.SetMaxPayload(32 << 10)
		b.bus.Start(t)
		b.facts(target.Facts{"notes": strings.Repeat("x", 40<<10)})
		b.start()
		time.Sleep(time.Minute)
		if log := b.log.String(); strings.Count(log, "report not sent, it is larger than the bus carries") != 1 || !strings.Contains(log, "max_payload=32768") {
			t.Error(log)
		}
	})
}

func TestAPeelStopsWhileAServerDoesNotAnswer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p, err := peel.New(peel.Options{ID: id, DataDir: t.TempDir(), URL: "nats://" + silent.Addr().String(), Simulated: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	conn, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cancel()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes came from a client that has heard nothing", n)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// listen hears what the peel publishes on a subject.
func (b *bench) listen(subject string) *nats.Subscription {
	b.t.Helper()
	sub, err := b.nc.SubscribeSync(subject)
	if err == nil {
		err = b.nc.Flush()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return sub
}

func TestAPeelSendsAHeartbeatEveryHalfMinute(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		sub := b.listen(wire.AllHeartbeats)
		last, shortest, longest, process := time.Now(), time.Hour, time.Duration(0), ""
		for i := range 100 {
			msg, err := sub.NextMsg(time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			beat, ok := wire.DecodeHeartbeat(msg)
			if msg.Subject != wire.Heartbeat(id.Wire()) || !ok || len(beat.Instance) < 20 || i > 0 && beat.Instance != process {
				t.Errorf("%s: %q of %q", msg.Subject, msg.Data, process)
			}
			process = beat.Instance
			if now := time.Now(); i > 0 {
				shortest, longest = min(shortest, now.Sub(last)), max(longest, now.Sub(last))
			}
			last = time.Now()
		}
		if shortest < 27*time.Second || longest > 33*time.Second || shortest == longest {
			t.Errorf("heard every %v to %v", shortest, longest)
		}
	})
}

func TestFactsAndTheReportAreSentAgainAfterAReconnect(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		facts, applied := b.listen(wire.AllFacts), b.listen(wire.AllApplied)
		time.Sleep(time.Hour)
		for _, sub := range []*nats.Subscription{facts, applied} {
			if n, _, err := sub.Pending(); err != nil || n > 0 {
				t.Errorf("%s while nothing happens: %d, %v", sub.Subject, n, err)
			}
		}
		b.bus.Restart(t)
		time.Sleep(time.Minute)
		msg, err := facts.NextMsg(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := wire.DecodeFacts(msg); err != nil || f.Facts["role"] != "web" {
			t.Errorf("%v, %v", f, err)
		}
		if _, err := applied.NextMsg(time.Second); err != nil {
			t.Error(err)
		}
	})
}

func TestAReportHasANumberThatDuplicatesShareAndAReturnHasNoHeaders(t *testing.T) {
	run(t, func(b *bench) {
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1h, run_on_start: true, return_job: true}\n")
		runs, returns := b.listen(wire.AllScheduled), b.listen(wire.ReturnOf("*", "*"))
		b.start()
		r := b.ask(wire.Request{Function: "test.ping", Epoch: 1})
		run, err := runs.NextMsg(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := run.Header.Get(nats.MsgIdHdr), string(b.reported().JID); got != want {
			t.Errorf("%s has the number %q, want %q", run.Subject, got, want)
		}
		ret, err := returns.NextMsg(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		ret.Header.Del("Nats-Request-Info") // which the server adds for masters
		if ret.Subject != wire.ReturnOf(r.JID, id.Wire()) || len(ret.Header) != 0 {
			t.Errorf("%s has the headers %v", ret.Subject, ret.Header)
		}
	})
}

func TestARequestOfALaterProtocolIsRefusedByName(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		file := filepath.Join(b.dir, "never")
		data, err := canon.Marshal(wire.Request{
			JID: wire.NewJID(), Function: "cmd.run", Args: map[string]any{"command": "touch " + file}, Epoch: 1, V: wire.Version + 1,
		})
		if err == nil {
			err = b.nc.Publish(wire.Cmd(id.Wire()), data)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := b.returned(); r.Success || r.Outcome != wire.Rejected || r.Error != "rejected: version 2 of the protocol, this peel knows up to 1" {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(file); err == nil {
			t.Error("it has run")
		}
	})
}

func TestBytesThatAreNoTextAreReturnedUnchanged(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		r := b.call("cmd.run", map[string]any{"command": `printf 'a\377\000b'; printf '\376' >&2; exit 4`})
		m, _ := r.Data.(map[string]any)
		if out, _ := m["stdout"].([]byte); string(out) != "a\xff\x00b" {
			t.Errorf("stdout is %q", m["stdout"])
		}
		if out, _ := m["stderr"].([]byte); string(out) != "\xfe" || r.Error != "exit status 4" {
			t.Errorf("stderr is %q, error %q", m["stderr"], r.Error)
		}
		if r := b.call("test.fail", map[string]any{"message": "\xff"}); r.Error != "\xff" {
			t.Errorf("%q", r.Error)
		}
	})
}

func TestOnlyTheOwnerCanReadTheFiles(t *testing.T) {
	run(t, func(b *bench) {
		b.dir = filepath.Join(b.dir, "new")
		b.start()
		b.give(1, "secret: hunter2\n")
		b.applied()
		synctest.Wait()
		b.stop()
		seen := map[string]bool{}
		err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			seen[d.Name()] = true
			return err
		})
		if err != nil || !seen["settings"] || !seen["fence"] || !seen["outbox"] {
			t.Errorf("%v, %v", seen, err)
		}
	})
}

func TestAResultThatTheDiskRefusesIsSentAtOnce(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		if err := os.RemoveAll(filepath.Join(b.dir, "outbox")); err != nil {
			t.Fatal(err)
		}
		if r := b.call("test.ping", nil); !r.Success {
			t.Errorf("%+v", r)
		}
		synctest.Wait()
		if !strings.Contains(b.log.String(), "messages are held in memory, the disk refuses them") {
			t.Error(b.log.String())
		}
	})
}

func TestAPeelWithADamagedFenceRefusesJobsThatMayHaveRun(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		asked := b.ask(wire.Request{Function: "test.ping", Epoch: 1})
		b.returned()
		synctest.Wait() // or it is sent again
		b.stop()
		if err := os.Truncate(filepath.Join(b.dir, "fence"), 8); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.start()
		b.ask(asked)
		if r := b.returned(); r.Outcome != wire.Rejected || !strings.Contains(r.Error, "may have run already") || !strings.Contains(b.log.String(), "jobs of before are refused") {
			t.Errorf("%+v", r)
		}
		time.Sleep(5 * time.Minute)
		b.drain() // the bus has a return of the job, and was asked for it
		if r := b.call("test.ping", nil); !r.Success {
			t.Errorf("a job of later: %+v", r)
		}
	})
}

// The peel was renamed with its data directory. Messages of the former ID, which the bus denies, are dropped, and no other one waits for them.
func TestMessagesOfAFormerIDAreDropped(t *testing.T) {
	run(t, func(b *bench) {
		former, err := outbox.Open(filepath.Join(b.dir, "outbox"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		for _, subject := range []string{wire.ReturnOf(wire.NewJID(), "old"), wire.ScheduledOf(wire.NewJID(), "x_web_01")} {
			if _, err := former.Put("m", subject, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		former.Close()
		b.start()
		if r := b.call("test.ping", nil); r.Data != true {
			t.Errorf("%+v", r)
		}
		if n := strings.Count(b.log.String(), "message dropped"); n != 2 {
			t.Errorf("%d messages are dropped:\n%s", n, b.log.String())
		}
		time.Sleep(20 * time.Minute)
		if errs := strings.Join(b.lastApplied().Errors, "\n"); !strings.Contains(errs, "2 reports and returns were dropped") {
			t.Errorf("the applied report has the errors %q", errs)
		}
	})
}
