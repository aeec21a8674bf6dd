package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"os/exec"
	ossignal "os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// limited is set for a process of a test that may make files of so many bytes.
const limited = "OUTBOX_TEST_LIMIT"

func TestMain(m *testing.M) {
	if os.Getenv(exhausted) != "" {
		if err := exhaust(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if limit := os.Getenv(limited); limit != "" {
		if err := fill(os.Args[1], limit); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(natstest.InMemory(m))
}

func encode(t testing.TB, i Item) []byte {
	t.Helper()
	if size, err := i.check(); err != nil || size != int64(len(i.encode())) {
		t.Fatalf("%q: %d bytes, %v", i.MsgID, size, err)
	}
	return i.encode()
}

func recordOf(t testing.TB, s salt, id string) []byte {
	t.Helper()
	data := encode(t, Item{id, "subject." + id, []byte("payload " + id)})
	s.seal(data)
	return data
}

func sizeOf(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	for _, name := range namesIn(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	return bytes
}

func namesIn(t testing.TB, dir string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

// rewrite changes the one file of an outbox.
func rewrite(t testing.TB, dir string, change func([]byte) []byte) {
	t.Helper()
	names := namesIn(t, dir)
	if len(names) != 1 {
		t.Fatalf("files: %v", names)
	}
	path := filepath.Join(dir, names[0])
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(data), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// logged opens an outbox and returns what it says in its log.
func logged(t testing.TB, dir string) (*Outbox, string) {
	t.Helper()
	var log bytes.Buffer
	o, err := Open(dir, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return o, log.String()
}

func TestDamageLosesOneMessageAndSaysSo(t *testing.T) {
	record := len(recordOf(t, 1, "a"))
	for at := record; at < 2*record; at++ {
		for name, damage := range map[string]func([]byte) []byte{
			"flipped bit":  func(b []byte) []byte { b[at] ^= 0x10; return b },
			"zeros":        func(b []byte) []byte { clear(b[at:min(at+8, 2*record)]); return b },
			"missing byte": func(b []byte) []byte { return slices.Delete(b, at, at+1) },
		} {
			dir := t.TempDir()
			o := open(t, dir)
			for _, id := range []string{"a", "b", "c"} {
				put(t, o, id)
			}
			var same bool
			rewrite(t, dir, func(b []byte) []byte {
				was := slices.Clone(b)
				b = damage(b)
				same = bytes.Equal(was, b) || at == record && name == "flipped bit" // a state is what it is
				return b
			})
			want, dropped := []string{"a", "c"}, uint64(1)
			if same {
				want, dropped = []string{"a", "b", "c"}, 0
			}
			o, log := logged(t, dir)
			if got := drained(t, o); !slices.Equal(got, want) || o.Dropped() != dropped {
				t.Errorf("%s at %d: sent %v, dropped %d", name, at-record, got, o.Dropped())
			}
			if strings.Contains(log, "the file is damaged") == same {
				t.Errorf("%s at %d: log: %s", name, at-record, log)
			}
		}
	}
}

// A crash leaves any part of the record that was being written, or bytes that nobody has written.
func TestACrashDuringAPutLosesNothingElse(t *testing.T) {
	whole := t.TempDir()
	o := open(t, whole)
	put(t, o, "a")
	put(t, o, "b")
	name := namesIn(t, whole)[0]
	data, err := os.ReadFile(filepath.Join(whole, name))
	if err != nil {
		t.Fatal(err)
	}
	first := len(recordOf(t, 0, "a"))
	for cut := first; cut < len(data); cut++ {
		for what, tail := range map[string][]byte{
			"cut":   nil,
			"zeros": make([]byte, len(data)-cut),
			"noise": bytes.Repeat([]byte{0xa5}, len(data)-cut),
		} {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, name), slices.Concat(data[:cut], tail), 0o600); err != nil {
				t.Fatal(err)
			}
			o, log := logged(t, dir)
			if torn := cut > first || tail != nil; strings.Contains(log, "a write was interrupted") != torn {
				t.Errorf("%s at %d: log: %s", what, cut, log)
			}
			put(t, o, "c")
			o, _ = logged(t, dir) // what came after it is read as well
			if got := drained(t, o); !slices.Equal(got, []string{"a", "c"}) || o.Dropped() != 0 {
				t.Errorf("%s at %d: sent %v, dropped %d", what, cut, got, o.Dropped())
			}
		}
	}
}

// A crash after any of the acknowledgements.
func TestWhatIsAcknowledgedIsNotSentAgain(t *testing.T) {
	for acknowledged := range 5 {
		dir := t.TempDir()
		o := open(t, dir)
		want := []string{"0", "1", "2", "3"}
		for _, id := range want {
			put(t, o, id)
		}
		for range acknowledged {
			o.finish(o.oldest(), nil)
		}
		o = open(t, dir)
		if got := drained(t, o); !slices.Equal(got, want[min(acknowledged, 4):]) || o.Dropped() != 0 {
			t.Errorf("after %d: sent %v, dropped %d", acknowledged, got, o.Dropped())
		}
	}
}

func TestNamesOfOthersAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	put(t, open(t, dir), "a")
	others := []string{"00000000000000000002", "00000000000000000002-1", "2-00000001", "README"}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := open(t, dir)
	if got := drained(t, o); !slices.Equal(got, []string{"a"}) || o.Dropped() != 0 {
		t.Errorf("sent %v, dropped %d", got, o.Dropped())
	}
	if left := namesIn(t, dir); !slices.Equal(left, others) {
		t.Errorf("left: %v", left)
	}
}

// A payload that holds a copy of a file, such as one that a command has printed, is no source of messages.
func TestAPayloadIsNeverTakenForRecords(t *testing.T) {
	dir, s := t.TempDir(), &segment{number: 1, salt: 1}
	outer := encode(t, Item{"outer", "s", recordOf(t, 2, "inner")})
	s.salt.seal(outer)
	outer[1] ^= 1
	if err := os.WriteFile(filepath.Join(dir, s.name()), slices.Concat(outer, recordOf(t, 1, "a")), 0o600); err != nil {
		t.Fatal(err)
	}
	o := open(t, dir)
	if got := drained(t, o); !slices.Equal(got, []string{"a"}) || o.Dropped() != 1 {
		t.Errorf("sent %v, dropped %d", got, o.Dropped())
	}
}

// Messages come and go, some of them behind a bus that is away.
func TestFilesGoWithTheirMessages(t *testing.T) {
	dir := t.TempDir()
	o := open(t, dir)
	big := make([]byte, 16<<10)
	for round := range 4 {
		backlog := 1
		if round%2 == 1 {
			backlog = 200
		}
		for n := range 300 {
			if _, err := o.Put(strconv.Itoa(n), "s", big); err != nil {
				t.Fatal(err)
			}
			for o.Len() >= backlog {
				o.finish(o.oldest(), nil)
			}
			if room, most := sizeOf(t, dir), o.bytes+fullSize+2*emptySize; n%20 == 0 && room > most {
				t.Fatalf("%d wait and have %d bytes, the files have %d", o.Len(), o.bytes, room)
			}
		}
		for o.Len() > 0 {
			o.finish(o.oldest(), nil)
		}
		if room := sizeOf(t, dir); room > 2*emptySize {
			t.Fatalf("nothing waits, and the files have %d bytes", room)
		}
	}
	if open(t, dir).Len() != 0 || len(namesIn(t, dir)) != 0 {
		t.Errorf("left: %v", namesIn(t, dir))
	}
}

// A disk that is full takes a part of a message, or nothing. The message is held in memory with those after it, and all
// are stored when there is room.
func TestAFullDiskLosesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], dir)
	cmd.Env = append(os.Environ(), limited+"=1000")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := drained(t, open(t, dir)); !slices.Equal(got, []string{"b", "c", "d"}) {
		t.Errorf("left for the next process: %v", got)
	}
}

// fill runs in a process that can make files of limit bytes, of which a message that does not fit takes a part.
func fill(dir, limit string) error {
	ossignal.Ignore(syscall.SIGXFSZ)
	n, err := strconv.ParseUint(limit, 10, 64)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: math.MaxUint64})
	}
	if err != nil {
		return err
	}
	o, err := Open(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	put := func(id string, padding int) bool {
		stored, bad := o.Put(id, "subject."+id, []byte("payload "+id+strings.Repeat(" ", padding)))
		err = errors.Join(err, bad)
		return stored
	}
	switch {
	case !put("a", 0) || !put("b", 0):
		return errors.New("small messages are not stored")
	case put("c", int(n)):
		return errors.New("a message is stored for which there is no room")
	case err != nil:
		return err
	}
	o.finish(o.oldest(), nil)
	if n *= 3; syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: n, Max: math.MaxUint64}) != nil || !put("d", 0) {
		return errors.New("nothing is stored though there is room")
	}
	return err
}

func TestPutsThatWaitForTheDiskAreFlushedTogether(t *testing.T) {
	o := open(t, t.TempDir())
	put(t, o, "first")
	o.disk.Lock() // a flush takes its time
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() { put(t, o, strconv.Itoa(n)) })
	}
	for o.gathered() != 8 {
		runtime.Gosched()
	}
	b := o.next
	o.disk.Unlock()
	all.Wait()
	if len(b.entries) != 8 || !b.stored || o.Len() != 9 {
		t.Errorf("%d of 8 were written together, %d wait, stored: %v", len(b.entries), o.Len(), b.stored)
	}
}

func (o *Outbox) gathered() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == nil {
		return 0
	}
	return len(o.next.entries)
}

// Whoever sends and whoever puts at once, while the oldest are dropped.
func TestPutsAndSendsAtOnce(t *testing.T) {
	dir := t.TempDir()
	o := open(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	var sending, putting sync.WaitGroup
	var sent []string
	done := make(chan struct{})
	sending.Go(func() {
		_ = o.Run(ctx, func(_ context.Context, i Item) error {
			if sent = append(sent, i.MsgID); len(sent) == 400 {
				close(done)
			}
			return nil
		})
	})
	for worker := range 4 {
		putting.Go(func() {
			for n := range 100 {
				put(t, o, fmt.Sprintf("%d-%d", worker, n))
			}
		})
	}
	putting.Wait()
	<-done
	cancel()
	sending.Wait()
	last := map[string]int{}
	for _, id := range sent {
		worker, number, _ := strings.Cut(id, "-")
		if n, _ := strconv.Atoi(number); n != last[worker] {
			t.Fatalf("%s came after %d", id, last[worker])
		}
		last[worker]++
	}
	if len(last) != 4 || o.Len() != 0 || o.cached != 0 || o.bytes != 0 {
		t.Errorf("%v, %d left, %d and %d bytes", last, o.Len(), o.cached, o.bytes)
	}
}

func FuzzParse(f *testing.F) {
	a, b := recordOf(f, 7, "a"), recordOf(f, 7, "b")
	b[0] = sent
	f.Add(slices.Concat(a, b, a))
	f.Add(slices.Concat(a[:20], b, a[3:]))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		const s = salt(7)
		c := s.parse(data)
		end := int64(0)
		for _, p := range c.waiting {
			if p.at < end || p.at+p.size > int64(len(data)-c.tail) {
				t.Fatalf("%+v after %d, of %d bytes with %d at the end that cannot be read", p, end, len(data), c.tail)
			}
			end = p.at + p.size
			record := data[p.at:end]
			item, err := s.decode(record)
			if err != nil || item.state == sent || int64(item.size) != p.size {
				t.Fatalf("%+v: %v", p, err)
			}
			again := encode(t, item.Item)
			if s.seal(again); !bytes.Equal(again[1:], record[1:]) {
				t.Fatalf("%q became %q", record, again)
			}
		}
	})
}

func FuzzEncode(f *testing.F) {
	f.Add("id", "subject", []byte("payload\n"), uint32(1))
	f.Add("a b", "", []byte{}, uint32(0))
	f.Fuzz(func(t *testing.T, id, subject string, payload []byte, number uint32) {
		item := Item{id, subject, payload}
		size, err := item.check()
		if err != nil {
			return
		}
		data := item.encode()
		if int64(len(data)) != size {
			t.Fatalf("%d bytes, not %d", len(data), size)
		}
		s := salt(number)
		s.seal(data)
		got, err := s.decode(append(data, 1, 2, 3))
		if err != nil || got.state != waiting || got.size != len(data) || got.MsgID != id || got.Subject != subject || !bytes.Equal(got.Payload, payload) {
			t.Errorf("%q: %+v, %d of %d, %v", data, got.Item, got.size, len(data), err)
		}
	})
}

// A sector that cannot be read loses its message. A lack of file descriptors loses none.
func TestAMessageThatTheDiskCannotReadIsLost(t *testing.T) {
	for err, lost := range map[error]bool{syscall.EIO: true, fs.ErrNotExist: true, io.EOF: true, errDamaged: true, syscall.EMFILE: false, syscall.ENOMEM: false} {
		if isLost(fmt.Errorf("cannot read: %w", err)) != lost {
			t.Errorf("%v: lost %v", err, !lost)
		}
	}
}
