package swarm

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/natsd"
)

// serveBus runs a bus that trusts the keys in a folder until stdin ends, and prints where it is.
func serveBus(keys, dir string) error {
	k, err := keystore.Open(keys)
	if err != nil {
		return err
	}
	ca, err := pki.Open(filepath.Join(keys, "tls"))
	if err != nil {
		return err
	}
	srv, err := natsd.New(natsd.Options{Dir: dir, Trust: natsd.Trust(k.Trust()), TLS: ca.Config(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := srv.Start(); err != nil {
		return err
	}
	defer srv.Shutdown()
	fmt.Println(srv.URL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// external starts a bus in a process of its own.
func external(t *testing.T) *External {
	t.Helper()
	e := &External{Keys: keystore.Dir(t.TempDir())}
	if _, err := keystore.Open(e.Keys); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(workers(t)[0], serve, e.Keys, t.TempDir())
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	e.URL, e.CA = strings.TrimSpace(url), filepath.Join(e.Keys, "tls", "ca.crt")
	return e
}

// kept are the names of what a bus keeps beside the audit.
func kept(t *testing.T, e *External) []string {
	t.Helper()
	nc, err := e.Connect(grants.RoleMaster, "observer")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(worker.WaitLimit))
	if err != nil {
		t.Fatal(err)
	}
	names, err := streams(t.Context(), js)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestABusThatSomebodyElseRunsIsMeasuredAndLeftEmpty(t *testing.T) {
	t.Parallel()
	e := external(t)
	report, err := Run(t.Context(), Options{Peels: 10, Rounds: 1, External: e, Worker: workers(t), Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if f := figure(report, "test.ping of all: ended, every return stored"); f.Value == 0 || f.Bare == 0 {
		t.Errorf("%+v", f)
	}
	if report.Bus != e.URL {
		t.Errorf("it says that it was at %s", report.Bus)
	}
	for _, f := range report.Figures {
		if strings.Contains(f.Name, "bus for a peel") || strings.Contains(f.Name, "restart") {
			t.Errorf("%s cannot be known of a bus elsewhere", f.Name)
		}
	}
	if left := kept(t, e); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

func TestABusThatIsInUseIsRefusedAndNotTouched(t *testing.T) {
	t.Parallel()
	e := external(t)
	nc, err := e.Connect(grants.RoleMaster, "user")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(worker.WaitLimit))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := natsd.Provision(t.Context(), js, bucket.Kept{}); err != nil {
		t.Fatal(err)
	}
	before := kept(t, e)
	_, err = Run(t.Context(), Options{Peels: 10, External: e, Worker: workers(t), Out: t.Output()})
	if err == nil || !strings.Contains(err.Error(), "a swarm needs one that nobody uses yet") {
		t.Errorf("%v", err)
	}
	if after := kept(t, e); !slices.Equal(after, before) {
		t.Errorf("%v of %v are left", after, before)
	}
}

func TestABusIsNotUsedWithoutItsKeys(t *testing.T) {
	t.Parallel()
	e := &External{URL: "nats://127.0.0.1:1", Keys: keystore.Dir(t.TempDir())}
	_, err := Run(t.Context(), Options{Peels: 10, External: e, Worker: workers(t), Out: t.Output()})
	if err == nil || !strings.Contains(err.Error(), "without its keys") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(e.Keys); err == nil {
		t.Error("it made new keys")
	}
}
