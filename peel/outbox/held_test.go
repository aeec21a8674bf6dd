package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// exhausted is set for a process of a test that runs out of file descriptors.
const exhausted = "OUTBOX_TEST_EXHAUSTED"

func TestALackOfDescriptorsDropsNothing(t *testing.T) {
	cmd := exec.Command(os.Args[0], t.TempDir())
	cmd.Env = append(os.Environ(), exhausted+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// exhaust runs in a process of its own: it sends messages while no file can be opened, and again after that.
func exhaust(dir string) error {
	o, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	ids := []string{"0", "1", "2", "3", "4"}
	for _, id := range ids {
		if _, err := o.Put(id, "s", make([]byte, cacheBytes+1)); err != nil {
			return err
		}
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		return err
	}
	var sent []string
	ctx, cancel := context.WithCancel(context.Background())
	publish := func(_ context.Context, i Item) error {
		if sent = append(sent, i.MsgID); len(sent) == len(ids) {
			cancel()
		}
		return nil
	}
	for range ids {
		if err := o.send(ctx, o.oldest(), publish); !errors.Is(err, syscall.EMFILE) {
			return fmt.Errorf("without descriptors: %v, %d wait, %d were dropped", err, o.Len(), o.Dropped())
		}
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if _ = o.Run(ctx, publish); !slices.Equal(sent, ids) || o.Dropped() != 0 {
		return fmt.Errorf("sent %v, dropped %d", sent, o.Dropped())
	}
	return nil
}

// breakDisk has the next write fail: of a full disk, which cannot be cut either, or of one that cannot flush.
func breakDisk(t testing.TB, o *Outbox, device string) {
	t.Helper()
	file, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	o.disk.Lock()
	defer o.disk.Unlock()
	if o.files.file == nil {
		file.Close()
		return
	}
	o.files.file.Close()
	o.files.file = file
}

// A write that was not flushed does not count: /dev/null takes every write and no flush.
func TestAMessageIsOnTheDiskAfterAFlush(t *testing.T) {
	dir := t.TempDir()
	o := open(t, dir)
	put(t, o, "a")
	breakDisk(t, o, "/dev/null")
	if stored, err := o.Put("b", "subject.b", []byte("payload b")); stored || err != nil {
		t.Errorf("without a flush: %v, %v", stored, err)
	}
	if o.Len() != 2 || o.Held() != 1 {
		t.Errorf("%d wait, %d in memory", o.Len(), o.Held())
	}
	o.Close() // the write is tried again
	if got := drained(t, open(t, dir)); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("sent %v", got)
	}
}

func TestMessagesAreHeldWhileTheDiskTakesNone(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	o, err := Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", "b", "c"} {
		if stored, err := o.Put(id, "subject."+id, []byte("payload "+id)); stored || err != nil {
			t.Errorf("%s: %v, %v", id, stored, err)
		}
	}
	if err := o.send(t.Context(), o.oldest(), func(_ context.Context, i Item) error {
		if i.MsgID != "a" {
			t.Errorf("%s is sent first", i.MsgID)
		}
		return nil
	}); err != nil || o.Held() != 2 {
		t.Errorf("%v, %d are held", err, o.Held())
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put(t, o, "d")
	if o.Held() != 0 || o.heldBytes != 0 {
		t.Errorf("%d are held with %d bytes", o.Held(), o.heldBytes)
	}
	if got := drained(t, open(t, dir)); !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("after a crash %v are sent", got)
	}
	if text := log.String(); strings.Count(text, "held in memory, the disk refuses them") != 1 || strings.Contains(text, "ERROR") ||
		!strings.Contains(text, "are on the disk") {
		t.Error(text)
	}
}

func TestAFailedAttemptToSendWritesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir)
		put(t, o, "a")
		breakDisk(t, o, "/dev/full")
		if stored, _ := o.Put("b", "subject.b", []byte("payload b")); stored {
			t.Error("stored on a full disk")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_ = o.Run(ctx, func(context.Context, Item) error { return errors.New("the bus is away") })
		if got := drained(t, open(t, dir)); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("after a crash %v are sent", got)
		}
	})
}

func TestWhatIsHeldIsBoundedAndItsLossCounted(t *testing.T) {
	for name, c := range map[string]struct{ puts, size, left int }{
		"by number": {MaxHeldItems + 7, 1, MaxHeldItems},
		"by size":   {6, 1 << 20, 3},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := open(t, dir)
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			for n := range c.puts {
				if _, err := o.Put(strconv.Itoa(n), "s", make([]byte, c.size)); err != nil {
					t.Fatal(err)
				}
			}
			lost := c.puts - c.left
			if item, err := o.item(o.oldest()); err != nil || item.MsgID != strconv.Itoa(lost) || o.Held() != c.left || o.Dropped() != uint64(lost) {
				t.Errorf("the oldest is %s, %d are held, %d dropped, %v", item.MsgID, o.Held(), o.Dropped(), err)
			}
		})
	}
}

func TestAMessageThatTheDiskDoesNotTakeCostsNoStoredOne(t *testing.T) {
	dir := t.TempDir()
	o := open(t, dir)
	big := make([]byte, 15<<20+900<<10)
	for n := range 4 {
		if _, err := o.Put(strconv.Itoa(n), "s", big); err != nil {
			t.Fatal(err)
		}
	}
	put(t, o, "small") // in a file of its own
	breakDisk(t, o, "/dev/full")
	if stored, err := o.Put("new", "s", make([]byte, 3<<20)); stored || err != nil {
		t.Errorf("%v, %v", stored, err)
	}
	if o.Len() != 6 || o.Dropped() != 0 {
		t.Errorf("%d wait, %d dropped while the disk takes nothing", o.Len(), o.Dropped())
	}
	o.Close()
	if o.Len() != 5 || o.Dropped() != 1 {
		t.Errorf("%d wait, %d dropped after the disk took it", o.Len(), o.Dropped())
	}
}

// The disk fails again and again while messages are put and sent: each is sent once, in the order of its sender.
func TestADiskThatComesAndGoes(t *testing.T) {
	const workers, each = 4, 200
	o := open(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var running, putting sync.WaitGroup
	sent, total := map[string]int{}, 0
	running.Go(func() {
		_ = o.Run(ctx, func(_ context.Context, i Item) error {
			worker, n, _ := strings.Cut(i.MsgID, "-")
			if n != strconv.Itoa(sent[worker]) {
				t.Errorf("%s is sent after %d of its worker", i.MsgID, sent[worker])
			}
			sent[worker]++
			if total++; total == workers*each {
				cancel()
			}
			return nil
		})
	})
	running.Go(func() {
		for ctx.Err() == nil {
			breakDisk(t, o, "/dev/full")
		}
	})
	for worker := range workers {
		putting.Go(func() {
			for n := range each {
				if _, err := o.Put(fmt.Sprintf("%d-%d", worker, n), "s", []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	putting.Wait()
	running.Wait()
	o.Close()
	if o.Len() != 0 || o.bytes != 0 || o.heldBytes != 0 || o.stored != 0 || o.Dropped() != 0 {
		t.Errorf("%d wait, %d stored with %d bytes, %d bytes held, %d dropped", o.Len(), o.stored, o.bytes, o.heldBytes, o.Dropped())
	}
}
