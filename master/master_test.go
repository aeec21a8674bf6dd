package master_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TestMain keeps files in memory.
func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

func TestAMasterDoesNotStartWithAPartOfABackup(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/restoring", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := master.New(master.Options{DataDir: dir, ID: "m", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "run zester-master restore again") {
		t.Error(err)
	}
}

func TestAMasterThatIsReadyAnswers(t *testing.T) {
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		ada := b.Conn(t, grants.RoleOperator, "ada")
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			ready := false
			m, err := master.New(master.Options{
				ID: "m1", DataDir: dir, NATS: b.URL(), Connect: b.Options(grants.RoleMaster, "m1"),
				Ready: func(master.Info) {
					defer cancel()
					ready = true
					for _, subject := range []string{
						wire.Dispatch("ada"), wire.Resolve("ada"), wire.API("job", "list", "ada"), wire.API("job", "show", "ada"),
						wire.API("job", "returns", "ada"), wire.API("peel", "list", "ada"), wire.API("peel", "show", "ada"),
						wire.API("token", "list", "ada"), wire.API("token", "revoke", "ada"), wire.API("audit", "list", "ada"),
					} {
						if _, err := ada.Request(subject, nil, time.Second); err != nil {
							t.Errorf("%s: %v", subject, err)
						}
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if !ready {
				t.Fatal("never ready")
			}
		}
		// What people did is not lost among what masters try.
		page, err := audit.OpenLog(b.JetStream(t), nil).List(t.Context(), audit.Query{})
		if err != nil || len(page.Entries) == 0 {
			t.Fatalf("%+v, %v", page, err)
		}
		for _, e := range page.Entries {
			if e.User != "ada" {
				t.Errorf("the audit log has %+v", e)
			}
		}
	})
}

// A lateBus takes a moment for all that it says. So what needs no bus has happened before.
type lateBus struct{ *natstest.Bus }

func (b lateBus) InProcessConn() (net.Conn, error) {
	c, err := b.Bus.InProcessConn()
	return lateConn{c}, err
}

type lateConn struct{ net.Conn }

func (c lateConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(time.Millisecond)
	return n, err
}

func TestAMasterWhoseServiceCannotBeginIsNeverReady(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("no such repo")
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		m, err := master.New(master.Options{
			ID: "m1", DataDir: dir, NATS: b.URL(), Connect: append(b.Options(grants.RoleMaster, "m1"), nats.InProcessServer(lateBus{b})),
			Services: []master.Service{func(context.Context, *nats.Conn, *fleet.Fleet) error { return broken }},
			Ready:    func(master.Info) { t.Error("ready") },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(t.Context()); !errors.Is(err, broken) {
			t.Errorf("ended with %v", err)
		}
	})
}

// A slowBus keeps the first answers of its streams to itself for a while.
type slowBus struct {
	*natstest.Bus
	answers int
}

func (b *slowBus) InProcessConn() (net.Conn, error) {
	c, err := b.Bus.InProcessConn()
	return &slowConn{c, b}, err
}

type slowConn struct {
	net.Conn
	bus *slowBus
}

func (c *slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bytes.Contains(p[:n], []byte("io.nats.jetstream.api")) && c.bus.answers > 0 {
		c.bus.answers--
		time.Sleep(8 * time.Second)
	}
	return n, err
}

func TestAMasterStartsOnABusThatIsBusy(t *testing.T) {
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		slow := &slowBus{b, 5}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ready := false
		m, err := master.New(master.Options{
			ID: "m1", DataDir: dir, NATS: b.URL(),
			// The server is slow and not silent, but here its replies to pings wait too.
			Connect: append(b.Options(grants.RoleMaster, "m1"), nats.InProcessServer(slow), nats.PingInterval(time.Minute)),
			Ready:   func(master.Info) { ready = true; cancel() },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Run(ctx); !ready || slow.answers > 0 {
			t.Errorf("ready: %v, %d answers were not slow, %v", ready, slow.answers, err)
		}
	})
}

func TestAMasterWaitsForItsBus(t *testing.T) {
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		var log strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m, err := master.New(master.Options{
			ID: "m1", DataDir: dir, NATS: b.URL(), Connect: b.Options(grants.RoleMaster, "m1"),
			Log:   slog.New(slog.NewTextHandler(&log, nil)),
			Ready: func(master.Info) { cancel() },
		})
		if err != nil {
			t.Fatal(err)
		}
		b.Stop(t)
		time.AfterFunc(10*time.Minute, func() { b.Start(t) })
		began := time.Now()
		if err := m.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if waited := time.Since(began); waited < 10*time.Minute || waited > 11*time.Minute {
			t.Errorf("ready after %v", waited)
		}
		if !strings.Contains(log.String(), "waiting for the bus") {
			t.Errorf("not said:\n%s", log.String())
		}
	})
}

func TestAMasterThatWaitsForItsBusCanBeStopped(t *testing.T) {
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		b.Stop(t)
		m, err := master.New(master.Options{ID: "m1", DataDir: dir, NATS: b.URL(), Connect: b.Options(grants.RoleMaster, "m1")})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := m.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		b.Start(t)
	})
}

// The first master decides how many copies of each stream the bus keeps, and the audit log for how long. One that was started
// with other numbers ends, and a shorter retention removes no entry until the bus itself is changed.
func TestAMasterThatDisagreesWithItsBusEndsAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		if err := os.Rename(b.Keys.Dir(), keystore.Dir(dir)); err != nil { // a master without the keys cannot change the log
			t.Fatal(err)
		}
		start := func(keep time.Duration, copies int) error {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			m, err := master.New(master.Options{
				ID: "m1", DataDir: dir, NATS: b.URL(), Connect: b.Options(grants.RoleMaster, "m1"), Audit: keep, Replicas: copies,
				Ready: func(master.Info) { cancel() },
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := m.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}
		js := b.JetStream(t)
		kept := func() (copies int, keep time.Duration) {
			t.Helper()
			stream, err := js.Stream(t.Context(), wire.StreamAudit)
			if err != nil {
				t.Fatal(err)
			}
			return stream.CachedInfo().Config.Replicas, stream.CachedInfo().Config.MaxAge
		}
		if err := errors.Join(start(0, 0), start(0, 1), start(natsd.AuditRetention, 0)); err != nil {
			t.Errorf("masters that agree: %v", err)
		}
		for _, err := range []error{start(48*time.Hour, 0), start(0, 3), start(2*natsd.AuditRetention, 1)} {
			if _, ok := errors.AsType[*natsd.DisagreementError](err); !ok || !strings.Contains(err.Error(), "keeps 1 copies of each stream") {
				t.Errorf("a master that disagrees: %v", err)
			}
		}
		if copies, keep := kept(); copies != 1 || keep != natsd.AuditRetention {
			t.Errorf("the audit log has %d copies and is kept for %v", copies, keep)
		}
		if _, err := natsd.Change(t.Context(), js, bucket.Kept{Audit: 48 * time.Hour}); err != nil {
			t.Fatal(err)
		}
		// A master with the keys completes the change, also if the one that made it has died.
		if err := errors.Join(start(0, 0), start(48*time.Hour, 1)); err != nil {
			t.Errorf("after the change: %v", err)
		}
		if copies, keep := kept(); copies != 1 || keep != 48*time.Hour {
			t.Errorf("after the change the audit log has %d copies and is kept for %v", copies, keep)
		}
		if err := start(natsd.AuditRetention, 0); err == nil {
			t.Error("a master with the former number runs")
		}
	})
}

func TestASilentTargetIsAskedAgainAsIsConfigured(t *testing.T) {
	for window, want := range map[time.Duration]int{0: 2, -1: 1} {
		atSite(t, func(t *testing.T, s *site) {
			s.master("m1", func(o *master.Options) { o.AckWindow = window })
			nc := s.bus.Conn(t, grants.RolePeel, "silent")
			requests, err := nc.SubscribeSync(wire.Cmd("silent"))
			if err == nil {
				err = nc.Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
			s.insist(ping("silent"))
			time.Sleep(20 * time.Second)
			if n, _, err := requests.Pending(); n != want || err != nil {
				t.Errorf("with a window of %v: %d requests, %v", window, n, err)
			}
		})
	}
}
