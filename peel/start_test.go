package peel_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
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
		silent := func(o *nats.Options) error {
			o.InProcessServer, o.CustomDialer, o.SkipHostLookup = nil, s, true // the process's resolver would belong to the bubble
			return nil
		}
		b.options = func(o *peel.Options) { o.Connect = append(o.Connect, silent) }
		b.start()
		<-s.tried
		synctest.Wait()
		if files, err := os.ReadDir(filepath.Join(b.dir, "outbox")); err != nil || len(files) != 1 {
			t.Errorf("the entry of the snapshot has not run while the bus is tried: %v, %v", files, err)
		}
	})
}

func TestASecondProcessInADirectoryIsRefusedAndDoesNotHarmTheFirst(t *testing.T) {
	run(t, func(b *bench) {
		b.start()
		b.give(1, "schedule:\n  beat: {module: test.ping, interval: 1m, return_job: true}\n")
		b.reported()
		synctest.Wait() // the outbox holds a file in which nothing waits
		b.bus.Stop(t)
		if _, err := peel.New(peel.Options{ID: id, DataDir: b.dir, URL: b.bus.URL()}); err == nil || !strings.Contains(err.Error(), "another process uses") {
			t.Errorf("a second process: %v", err)
		}
		outage := time.Now()
		time.Sleep(10*time.Minute + 30*time.Second)
		b.stop()
		b.bus.Start(t)
		time.Sleep(time.Second)
		b.drain()
		b.start()
		if r := b.reported(); r.Nominal.After(outage.Add(time.Minute)) {
			t.Errorf("the first report after the restart is of %v, the outage began at %v", r.Nominal, outage)
		}
	})
}

func TestAPeelTakesOverAnEmptyDirectoryAndRefusesOneThatOthersCanReplace(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "peel")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o := peel.Options{ID: id, DataDir: dir, Simulated: true}
	if _, err := peel.New(o); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it has the mode %v, %v", info.Mode(), err)
	}
	shared := t.TempDir()
	if err := os.Chmod(shared, 0o777); err != nil {
		t.Fatal(err)
	}
	o.DataDir = filepath.Join(shared, "peel")
	if _, err := peel.New(o); err == nil || !strings.Contains(err.Error(), "chmod go-w "+shared) {
		t.Errorf("below a directory of everybody: %v", err)
	}
}

func TestAMastersDirectoryIsRefused(t *testing.T) {
	for _, name := range []string{"auth", "bus"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := peel.New(peel.Options{ID: id, DataDir: dir, Simulated: true})
		if !errors.Is(err, peel.ErrMasterDir) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%s: it has made files: %v, %v", name, left, err)
		}
	}
}
