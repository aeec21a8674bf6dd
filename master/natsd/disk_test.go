package natsd_test

import (
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
)

// onDisk provisions a server that has so many bytes to store in, and returns what the streams may hold together.
func onDisk(t *testing.T, dir string, bytes int64) (limits map[string]int64) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		DontListen: true, JetStream: true, StoreDir: dir, JetStreamMaxStore: bytes, NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	if !srv.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server is not ready")
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.Timeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := natsd.Provision(t.Context(), js, bucket.Kept{})
	if err == nil {
		err = natsd.ChangeAudit(t.Context(), js, kept)
	}
	if err != nil {
		t.Fatalf("with %d MiB: %v", bytes>>20, err)
	}
	limits = map[string]int64{}
	for _, name := range []string{"KV_jobs", "KV_job-returns", "job-events", "audit"} {
		limits[name] = info(t, js, name).Config.MaxBytes
	}
	return limits
}

// TestAMasterStartsOnADiskThatHasBecomeSmall is about one that others have filled since the streams were made.
func TestAMasterStartsOnADiskThatHasBecomeSmall(t *testing.T) {
	dir := t.TempDir()
	var first map[string]int64
	for _, bytes := range []int64{20 << 30, 4 << 30, 1 << 20, 20 << 30} {
		limits := onDisk(t, dir, bytes)
		if first == nil {
			first = limits
		}
		if !maps.Equal(limits, first) {
			t.Errorf("with %d MiB the limits are %v, they were %v", bytes>>20, limits, first)
		}
	}
}

func TestAllStreamsFitOnASmallDisk(t *testing.T) {
	large := onDisk(t, t.TempDir(), 20<<30)
	for _, mebibytes := range []int64{600, 1200, 2048, 3100, 4200, 5300, 8200} {
		dir := t.TempDir()
		small := onDisk(t, dir, mebibytes<<20)
		later := onDisk(t, dir, mebibytes<<20)
		for name, limit := range small {
			if limit < 32<<20 || limit > large[name] || later[name] < limit {
				t.Errorf("on %d MiB %s holds %d MiB, and at the next start %d", mebibytes, name, limit>>20, later[name]>>20)
			}
		}
		if again := onDisk(t, dir, 20<<30); !maps.Equal(again, large) {
			t.Errorf("made on %d MiB and then on a large disk the limits are %v, want %v", mebibytes, again, large)
		}
	}
}
