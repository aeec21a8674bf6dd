package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func open(t testing.TB, dir string) *Outbox {
	t.Helper()
	o, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func put(t testing.TB, o *Outbox, id string) {
	t.Helper()
	if stored, err := o.Put(id, "subject."+id, []byte("payload "+id)); err != nil || !stored {
		t.Fatalf("on the disk: %v, %v", stored, err)
	}
}

// drained runs the outbox until it is empty and returns the message IDs in the order of sending.
func drained(t testing.TB, o *Outbox) []string {
	t.Helper()
	var ids []string
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if o.Len() == 0 {
		return nil
	}
	err := o.Run(ctx, func(_ context.Context, i Item) error {
		if i.Subject != "subject."+i.MsgID || strings.TrimRight(string(i.Payload), " ") != "payload "+i.MsgID {
			t.Errorf("%+v", i)
		}
		ids = append(ids, i.MsgID)
		if o.Len() == 1 {
			cancel()
		}
		return nil
	})
	if err != context.Canceled {
		t.Errorf("Run: %v", err)
	}
	return ids
}

func TestMessagesAreSentOnceInOrderAcrossRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "outbox")
	o := open(t, dir)
	put(t, o, "a")
	put(t, o, "b")
	o = open(t, dir)
	put(t, o, "c")
	if again := open(t, dir); again.Held() != 0 || again.Len() != 3 {
		t.Errorf("of messages in two files %d count as held in memory", again.Held())
	}
	if got := drained(t, o); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("sent %v", got)
	}
	if o = open(t, dir); o.Len() != 0 || o.Dropped() != 0 {
		t.Errorf("%d are left, %d were dropped", o.Len(), o.Dropped())
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestAFailedMessageStaysAndHoldsBackTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir)
		put(t, o, "a")
		put(t, o, "b")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var tried []time.Duration
		start := time.Now()
		err := o.Run(ctx, func(_ context.Context, i Item) error {
			if i.MsgID != "a" {
				t.Errorf("%s overtook", i.MsgID)
			}
			tried = append(tried, time.Since(start))
			return errors.New("the bus is away")
		})
		if err != context.DeadlineExceeded {
			t.Errorf("Run: %v", err)
		}
		for i := 1; i < len(tried); i++ {
			wait, longest := tried[i]-tried[i-1], min(30*time.Second, time.Second<<min(i-1, 10))
			if wait < longest/2 || wait > longest {
				t.Errorf("waited %v after failure %d", wait, i)
			}
		}
		if len(tried) < 20 {
			t.Errorf("%d attempts in 10 minutes", len(tried))
		}
		if got := drained(t, open(t, dir)); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("sent after a restart: %v", got)
		}
	})
}

func TestAKickEndsTheWaitAndAPutDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir())
		put(t, o, "a")
		var attempts atomic.Int32
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() {
			_ = o.Run(ctx, func(context.Context, Item) error { attempts.Add(1); return errors.New("away") })
		})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		before := attempts.Load()
		put(t, o, "b")
		synctest.Wait()
		if attempts.Load() != before {
			t.Error("a put ended the wait")
		}
		o.Kick()
		synctest.Wait()
		if attempts.Load() != before+1 {
			t.Errorf("%d attempts after a kick", attempts.Load()-before)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if attempts.Load() != before+2 {
			t.Error("the waits did not begin anew after a kick")
		}
		cancel()
		running.Wait()
	})
}

func TestAMessageThatIsPutIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir())
		var sent []string
		var running sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		running.Go(func() {
			_ = o.Run(ctx, func(_ context.Context, i Item) error { sent = append(sent, i.MsgID); return nil })
		})
		synctest.Wait()
		for n := range 3 {
			put(t, o, strconv.Itoa(n))
			synctest.Wait()
		}
		if !slices.Equal(sent, []string{"0", "1", "2"}) {
			t.Errorf("%v", sent)
		}
		cancel()
		running.Wait()
	})
}

func TestARefusedMessageHoldsNobodyBack(t *testing.T) {
	o := open(t, t.TempDir())
	put(t, o, "a")
	put(t, o, "b")
	ctx, cancel := context.WithCancel(t.Context())
	var sent []string
	_ = o.Run(ctx, func(_ context.Context, i Item) error {
		if i.MsgID == "a" {
			return fmt.Errorf("%w: too long", ErrRefused)
		}
		sent = append(sent, i.MsgID)
		cancel()
		return nil
	})
	if !slices.Equal(sent, []string{"b"}) || o.Dropped() != 1 || o.Len() != 0 {
		t.Errorf("sent %v, dropped %d, left %d", sent, o.Dropped(), o.Len())
	}
}

func TestAFullOutboxDropsTheOldest(t *testing.T) {
	t.Run("by number", func(t *testing.T) {
		dir := t.TempDir()
		s := &segment{number: 1, salt: 7}
		var data []byte
		for n := range MaxItems {
			data = append(data, recordOf(t, s.salt, strconv.Itoa(n))...)
		}
		if err := os.WriteFile(filepath.Join(dir, s.name()), data, 0o600); err != nil {
			t.Fatal(err)
		}
		o := open(t, dir)
		put(t, o, "x")
		put(t, o, "y")
		if o.Len() != MaxItems || o.Dropped() != 2 {
			t.Errorf("%d, dropped %d", o.Len(), o.Dropped())
		}
		got := drained(t, o)
		if got[0] != "2" || !slices.Equal(got[MaxItems-3:], []string{"9999", "x", "y"}) {
			t.Errorf("%v … %v", got[0], got[MaxItems-3:])
		}
	})
	t.Run("by size", func(t *testing.T) {
		dir := t.TempDir()
		o := open(t, dir)
		big := make([]byte, 20<<20)
		for n := range 4 {
			if _, err := o.Put(strconv.Itoa(n), "s", big); err != nil {
				t.Fatal(err)
			}
		}
		if item, err := o.item(o.oldest()); o.Len() != 3 || o.Dropped() != 1 || err != nil || item.MsgID != "1" {
			t.Errorf("%d, dropped %d: %v, %v", o.Len(), o.Dropped(), item.MsgID, err)
		}
		if room := sizeOf(t, dir); room > MaxBytes {
			t.Errorf("the files have %d bytes", room)
		}
	})
}

func TestWhatIsDroppedWhileItIsSentIsNotMissed(t *testing.T) {
	o := open(t, t.TempDir())
	big := make([]byte, 40<<20)
	if _, err := o.Put("a", "s", big); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var sent []string
	_ = o.Run(ctx, func(_ context.Context, i Item) error {
		sent = append(sent, i.MsgID)
		if i.MsgID == "a" {
			_, err := o.Put("b", "s", big)
			return err
		}
		cancel()
		return nil
	})
	if !slices.Equal(sent, []string{"a", "b"}) || o.Len() != 0 || o.bytes != 0 {
		t.Errorf("%v, %d left, %d bytes", sent, o.Len(), o.bytes)
	}
}

func TestMessagesThatCannotBeStoredAreRefused(t *testing.T) {
	o := open(t, t.TempDir())
	for name, i := range map[string]Item{
		"no ID":      {"", "s", nil},
		"no subject": {"id", "", nil},
		"a blank":    {"i d", "s", nil},
		"a line":     {"id", "s\nx", nil},
		"too long":   {"id", "s", make([]byte, MaxBytes)},
	} {
		if stored, err := o.Put(i.MsgID, i.Subject, i.Payload); stored || err == nil || !strings.HasPrefix(err.Error(), "cannot store message ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if o.Len() != 0 || o.bytes != 0 {
		t.Errorf("%d messages, %d bytes", o.Len(), o.bytes)
	}
}

func TestPutsAtOnceAreAllStored(t *testing.T) {
	dir := t.TempDir()
	o := open(t, dir)
	var all sync.WaitGroup
	for n := range 32 {
		all.Go(func() { put(t, o, strconv.Itoa(n)) })
	}
	all.Wait()
	got := drained(t, open(t, dir))
	slices.Sort(got)
	if len(slices.Compact(got)) != 32 {
		t.Errorf("%v", got)
	}
}

func BenchmarkPut(b *testing.B) {
	o := open(b, b.TempDir())
	payload := make([]byte, 1<<10)
	for b.Loop() {
		if _, err := o.Put("2hPx1FNsSgJMqVn5bLSTXeBQMpO", "zester.job.2hPx1FNsSgJMqVn5bLSTXeBQMpO.schedule.web-01", payload); err != nil {
			b.Fatal(err)
		}
	}
}

// What a report costs from the put to the acknowledgement.
func BenchmarkPutAndSend(b *testing.B) {
	o := open(b, b.TempDir())
	payload := make([]byte, 1<<10)
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		if _, err := o.Put("2hPx1FNsSgJMqVn5bLSTXeBQMpO", "zester.job.2hPx1FNsSgJMqVn5bLSTXeBQMpO.schedule.web-01", payload); err != nil {
			b.Fatal(err)
		}
		_ = o.Run(ctx, func(context.Context, Item) error { cancel(); return nil })
	}
}

// Failures in a row make the pauses longer. A message that is sent ends the row.
func TestPausesAreShortAgainAfterASuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := open(t, t.TempDir())
		put(t, o, "a")
		put(t, o, "b")
		ctx, cancel := context.WithCancel(t.Context())
		var failed []time.Time
		err := o.Run(ctx, func(_ context.Context, i Item) error {
			if i.MsgID == "a" && len(failed) == 10 {
				return nil
			}
			failed = append(failed, time.Now())
			if len(failed) == 12 {
				cancel()
			}
			return errors.New("the bus is away")
		})
		if err != context.Canceled {
			t.Fatal(err)
		}
		if wait := failed[11].Sub(failed[10]); wait > time.Second {
			t.Errorf("the first pause after a success took %v", wait)
		}
	})
}
