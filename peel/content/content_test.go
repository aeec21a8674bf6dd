package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/content"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A fixture is the cache of one peel on a real bus.
type fixture struct {
	*Cache
	t       *testing.T
	bus     *natstest.Bus
	dir     string
	changes atomic.Int64
	stop    func()
}

func inBubble(t *testing.T, f func(t *testing.T, x *fixture)) {
	dir := filepath.Join(t.TempDir(), "contents")
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		x := &fixture{t: t, bus: bus, dir: dir}
		x.start()
		defer func() { x.stop() }()
		f(t, x)
	})
}

// start opens the cache and runs it until stop.
func (x *fixture) start() {
	x.t.Helper()
	c, err := New(x.dir, func() { x.changes.Add(1) }, slog.New(slog.DiscardHandler))
	must(x.t, err)
	x.Cache = c
	x.run()
}

// run runs the cache until stop.
func (x *fixture) run() {
	c, nc := x.Cache, x.bus.Conn(x.t, grants.RolePeel, "web-01", nats.ReconnectBufSize(-1))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx, nc) }()
	x.stop = func() { cancel(); <-done }
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put stores a content on the bus, as masters do.
func (x *fixture) put(f content.File, sealed []byte) {
	x.t.Helper()
	kv, err := x.bus.JetStream(x.t).KeyValue(x.t.Context(), wire.BucketFiles)
	must(x.t, err)
	for i, key := range f.Chunks() {
		_, err := kv.Put(x.t.Context(), key, sealed[i*content.MaxChunk:min((i+1)*content.MaxChunk, len(sealed))])
		must(x.t, err)
	}
}

// sealed returns a content of some bytes that no other test has.
func sealed(size int) (plain []byte, f content.File, bytes []byte) {
	plain = make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	_, _ = r.Read(plain)
	f, bytes = content.Seal(plain, nil)
	f.Mode = "0644"
	return plain, f, bytes
}

func files(all ...content.File) map[string]content.File {
	wanted := map[string]content.File{}
	for i, f := range all {
		wanted[fmt.Sprintf("files/%d", i)] = f
	}
	return wanted
}

// reads fails the test unless the content can be read.
func (x *fixture) reads(f content.File, want []byte) {
	x.t.Helper()
	if got, err := x.Read(x.t.Context(), &Budget{}, "files/a", f); err != nil || !bytes.Equal(got, want) {
		x.t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// fails returns the error of reading a content, which comes after a time.
func (x *fixture) fails(f content.File, after time.Duration) string {
	x.t.Helper()
	began := time.Now()
	got, err := x.Read(x.t.Context(), &Budget{}, "files/a", f)
	if took := time.Since(began); err == nil || took != after {
		x.t.Fatalf("read %d bytes after %v, %v", len(got), took, err)
	}
	return err.Error()
}

func TestContentsOfADocumentAreFetchedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		small, f, data := sealed(100 << 10)
		empty, none, noneData := sealed(0)
		x.put(f, data)
		x.put(none, noneData)
		x.Want(files(f, none, f))
		if n := x.Missing(); n != 2 {
			t.Errorf("%d are missing of two", n)
		}
		synctest.Wait()
		if x.Missing() != 0 || x.changes.Load() != 1 {
			t.Errorf("%d are missing, %d changes", x.Missing(), x.changes.Load())
		}
		x.reads(f, small)
		x.reads(none, empty)
		x.bus.Stop(t)
		x.reads(f, small)
		for name, want := range map[string]os.FileMode{x.dir: 0o700, filepath.Join(x.dir, f.Blob): 0o600} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
				t.Errorf("%v, %v", info, err)
			}
		}
		if stored, err := os.ReadFile(filepath.Join(x.dir, f.Blob)); err != nil || !bytes.Equal(stored, data) {
			t.Errorf("the file on the disk is not sealed: %v", err)
		}
	})
}

func TestLargeContentsAreFetchedWithinTenSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		plain, f, data := sealed(3*content.MaxChunk/2 + 5)
		x.put(f, data)
		x.Want(files(f))
		from := x.from
		if wait := time.Until(from); wait < 0 || wait > largeSpread {
			t.Errorf("it waits for %v", wait)
		}
		time.Sleep(time.Until(from) - time.Nanosecond)
		synctest.Wait()
		if x.Missing() != 1 {
			t.Error("it did not wait")
		}
		x.reads(f, plain)
		if late := time.Since(from); late > time.Second {
			t.Errorf("it came %v late", late)
		}
		x.Want(files(f))
		if !x.from.Equal(from) {
			t.Error("a document with the same contents waits again")
		}
	})
}

func TestAPeelWithoutABusReadsWhatItHasAndFetchesTheRestLater(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		old, f, data := sealed(100)
		recent, next, nextData := sealed(200)
		x.put(f, data)
		x.put(next, nextData)
		x.Want(files(f))
		synctest.Wait()
		x.bus.Stop(t)
		x.Want(files(f, next))
		x.reads(f, old)
		if text := x.fails(next, readLimit); !strings.Contains(text, "files/a has not arrived in 30s") || !strings.Contains(text, "the bus has not sent it") {
			t.Error(text)
		}
		time.Sleep(time.Hour)
		x.bus.Start(t)
		time.Sleep(lastPause)
		synctest.Wait()
		if x.Missing() != 0 {
			t.Error("the content was not fetched after the bus came back")
		}
		x.reads(next, recent)
	})
}

func TestAContentThatTheBusLacksFailsAfterThirtySeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		plain, f, data := sealed(100)
		x.Want(files(f))
		if text := x.fails(f, readLimit); !strings.Contains(text, "the bus does not have it") {
			t.Error(text)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		canceled := errors.New("the run was canceled")
		time.AfterFunc(time.Second, func() { cancel(canceled) })
		if _, err := x.Read(ctx, &Budget{}, "files/a", f); !errors.Is(err, canceled) {
			t.Errorf("after a cancel: %v", err)
		}
		x.put(f, data)
		time.Sleep(lastPause + time.Second)
		synctest.Wait()
		if x.Missing() != 0 || x.changes.Load() != 1 {
			t.Errorf("%d are missing after the bus had it for a minute; %d changes", x.Missing(), x.changes.Load())
		}
		x.reads(f, plain)
	})
}

// TestTheReadsOfARunWaitThirtySecondsTogether: a run of many files whose contents are missing does not wait for each of them.
func TestTheReadsOfARunWaitThirtySecondsTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		plain, late, data := sealed(100)
		b := &Budget{}
		x.Want(files(late))
		time.AfterFunc(2*time.Second, func() { x.put(late, data) })
		start := time.Now()
		if got, err := x.Read(t.Context(), b, "files/late", late); err != nil || !bytes.Equal(got, plain) {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // the run does other things
		waited := time.Since(start) - time.Hour
		for i := range 200 {
			_, missing, _ := sealed(200 + i)
			before := time.Now()
			if _, err := x.Read(t.Context(), b, "files/missing", missing); err == nil || !strings.Contains(err.Error(), "has not arrived in 30s") {
				t.Fatal(err)
			}
			waited += time.Since(before)
		}
		if waited < readLimit || waited > readLimit+time.Second {
			t.Errorf("the reads waited for %s", waited)
		}
	})
}

// A run keeps its document when the next one comes, whose files are others.
func TestARunReadsTheContentsOfItsOwnDocument(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		plain, f, data := sealed(100)
		_, next, nextData := sealed(101)
		x.put(f, data)
		x.put(next, nextData)
		x.Want(files(next))
		x.reads(f, plain)
		if len(x.asked) != 0 {
			t.Errorf("%d contents are still asked for", len(x.asked))
		}
	})
}

func TestADamagedContentIsFetchedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		plain, f, data := sealed(1000)
		x.put(f, data)
		x.Want(files(f))
		synctest.Wait()
		name := filepath.Join(x.dir, f.Blob)
		damaged := bytes.Clone(data)
		damaged[500] ^= 1
		must(t, os.WriteFile(name, damaged, 0o600))
		x.reads(f, plain)
		must(t, os.Remove(name))
		x.reads(f, plain)
		must(t, os.WriteFile(name, damaged, 0o600))
		x.bus.Stop(t)
		x.fails(f, readLimit)
		if x.Missing() != 1 {
			t.Error("the damaged content counts as present")
		}
		other := f
		other.SHA256 = strings.Repeat("0", 64)
		x.bus.Start(t)
		x.reads(f, plain)
		if text := x.fails(other, 0); !strings.Contains(text, "another hash or size than the settings say") {
			t.Error(text)
		}
	})
}

// A disk that damages what is written must not make the peel fetch it again and again.
func TestAContentThatIsDamagedTwiceIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		_, f, data := sealed(1000)
		x.put(f, data)
		x.Want(files(f))
		synctest.Wait()
		x.stop()
		must(t, os.WriteFile(filepath.Join(x.dir, f.Blob), data[1:], 0o600))
		time.AfterFunc(time.Second, func() { x.onStored(f) })
		if text := x.fails(f, time.Second); !strings.Contains(text, "changed on the disk") {
			t.Error(text)
		}
	})
}

func TestBytesWithAnotherHashAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		plain, f, data := sealed(content.MaxChunk)
		damaged := bytes.Clone(data)
		damaged[3] ^= 1
		x.put(f, damaged)
		x.Want(files(f))
		if text := x.fails(f, readLimit); !strings.Contains(text, "the bus has other bytes under its key") {
			t.Error(text)
		}
		if left, err := os.ReadDir(x.dir); err != nil || len(left) != 0 {
			t.Errorf("%v are left, %v", left, err)
		}
		x.put(f, data)
		time.Sleep(lastPause + time.Second)
		x.reads(f, plain)
	})
}

func TestWhatAKilledPeelLeftIsFetchedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		plain, f, data := sealed(1000)
		whole, kept, keptData := sealed(2000)
		x.put(f, data)
		x.put(kept, keptData)
		x.Want(files(kept))
		synctest.Wait()
		x.stop()
		must(t, os.WriteFile(filepath.Join(x.dir, f.Blob+".new"), data[:100], 0o600))
		must(t, os.WriteFile(filepath.Join(x.dir, f.Blob), data[:100], 0o600))
		x.start()
		x.Want(files(f, kept))
		if x.Missing() != 1 {
			t.Errorf("%d are missing of one", x.Missing())
		}
		x.reads(f, plain)
		x.reads(kept, whole)
		if left, err := os.ReadDir(x.dir); err != nil || len(left) != 2 {
			t.Errorf("%v are left, %v", left, err)
		}
	})
}

func TestAFullDiskIsTheReasonInTheError(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		plain, f, data := sealed(1000)
		x.put(f, data)
		for range 2 {
			must(t, os.RemoveAll(x.dir))
			must(t, os.WriteFile(x.dir, nil, 0o600))
			x.Want(files(f))
			if text := x.fails(f, readLimit); !strings.Contains(text, "not a directory") || !strings.Contains(text, x.dir) {
				t.Error(text)
			}
		}
		must(t, os.Remove(x.dir))
		must(t, os.Mkdir(x.dir, 0o700))
		if _, err := os.Stat("/dev/full"); err == nil {
			must(t, os.Symlink("/dev/full", filepath.Join(x.dir, f.Blob+".new")))
			err := store(x.dir, f, once(data))
			if err == nil || !strings.Contains(err.Error(), "no space left on device") {
				t.Error(err)
			}
		}
		time.Sleep(lastPause + time.Second)
		x.reads(f, plain)
		must(t, os.Remove(filepath.Join(x.dir, f.Blob)))
		must(t, os.Mkdir(filepath.Join(x.dir, f.Blob), 0o700))
		if text := x.fails(f, 0); !strings.Contains(text, "is a directory") {
			t.Error(text)
		}
	})
}

func once(data []byte) func() ([]byte, error) {
	return func() (part []byte, _ error) {
		part, data = data, nil
		return part, nil
	}
}

func TestACacheThatCannotBeOpenedIsAnError(t *testing.T) {
	name := filepath.Join(t.TempDir(), "contents")
	must(t, os.WriteFile(name, nil, 0o600))
	if _, err := New(name, func() {}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
}

func TestContentsThatNobodyUsesAreRemovedAfterAWeek(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		_, f, data := sealed(100)
		used, kept, keptData := sealed(200)
		x.put(f, data)
		x.put(kept, keptData)
		x.Want(files(f, kept))
		synctest.Wait()
		here := func(f content.File) bool {
			_, err := os.Stat(filepath.Join(x.dir, f.Blob))
			return err == nil
		}
		age := func(d time.Duration) {
			for _, f := range []content.File{f, kept} {
				must(t, os.Chtimes(filepath.Join(x.dir, f.Blob), time.Time{}, time.Now().Add(-d)))
			}
		}
		age(100 * 24 * time.Hour)
		x.tidy() // both are in use
		x.Want(files(kept))
		age(keepUnused - time.Minute)
		x.tidy()
		if !here(f) || !here(kept) {
			t.Error("one was removed before a week")
		}
		time.Sleep(2 * time.Minute)
		x.stop()
		x.run()
		synctest.Wait()
		if here(f) || !here(kept) {
			t.Errorf("after a week without use it is there: %v; the one in use: %v", here(f), here(kept))
		}
		x.reads(kept, used)
		x.Want(files(f, kept))
		synctest.Wait()
		if !here(f) || x.Missing() != 0 {
			t.Error("it was not fetched when a document named it again")
		}
	})
}

func TestUnusedContentsTakeABoundedSpace(t *testing.T) {
	now := time.Now()
	var all []*leftover
	for i := range 20 {
		all = append(all, &leftover{fmt.Sprint(i), content.MaxFile, now.Add(-time.Duration(i) * time.Minute)})
	}
	gone := surplus(all, now)
	if len(gone) != 20-maxUnused/content.MaxFile || gone[0].blob != fmt.Sprint(maxUnused/content.MaxFile) {
		t.Errorf("%d are removed, the first of them %v", len(gone), gone)
	}
	if gone := surplus(all[:8], now.Add(keepUnused+time.Second)); len(gone) != 8 {
		t.Errorf("%d are removed after a week", len(gone))
	}
}
