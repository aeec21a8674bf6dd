package content

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/settings/content"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

// A revision is the contents of a config repo.
type revision struct {
	files  map[string]content.File
	sealed map[string][]byte
	asked  []string // paths of which Publish asked for the content
}

func revisionOf(texts ...string) *revision {
	r := &revision{files: map[string]content.File{}, sealed: map[string][]byte{}}
	for i, text := range texts {
		path := fmt.Sprintf("files/%d", i)
		r.files[path], r.sealed[path] = content.Seal([]byte(text), nil)
	}
	return r
}

func (r *revision) seal(path string) (content.File, []byte, error) {
	r.asked = append(r.asked, path)
	return r.files[path], r.sealed[path], nil
}

func (r *revision) named(context.Context) (map[string]bool, error) {
	used := map[string]bool{}
	for _, f := range r.files {
		used[f.Blob] = true
	}
	return used, nil
}

type fixture struct {
	*Store
	t   *testing.T
	bus *natstest.Bus
	js  jetstream.JetStream
}

func inBubble(t *testing.T, f func(t *testing.T, x *fixture)) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		x := &fixture{t: t, bus: bus, js: bus.JetStream(t)}
		x.Store = x.open(func() error { return nil })
		f(t, x)
	})
}

func (x *fixture) open(check func() error) *Store {
	x.t.Helper()
	s, err := Open(x.t.Context(), x.js, check)
	must(x.t, err)
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (x *fixture) publish(r *revision, want int) {
	x.t.Helper()
	if n, err := x.Publish(x.t.Context(), r.files, r.seal); err != nil || n != want {
		x.t.Errorf("%d contents were stored, want %d: %v", n, want, err)
	}
}

func (x *fixture) sweep(r *revision, want int) {
	x.t.Helper()
	if n, err := x.Sweep(x.t.Context(), r.named); err != nil || n != want {
		x.t.Errorf("%d contents were removed, want %d: %v", n, want, err)
	}
}

// has checks that the bucket has all contents of a revision, or none.
func (x *fixture) has(r *revision, want bool) {
	x.t.Helper()
	for path, f := range r.files {
		plain, err := x.Read(x.t.Context(), f)
		if sealed, _ := content.Seal(plain, nil); (err == nil && sealed.Blob == f.Blob) != want {
			x.t.Errorf("%s is there: %v, want %v", path, err, want)
		}
	}
}

// messages returns how many messages the bucket has.
func (x *fixture) messages() uint64 {
	x.t.Helper()
	info, err := x.stream.Info(x.t.Context())
	must(x.t, err)
	return info.State.Msgs
}

func TestContentsAreStoredOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		large := strings.Repeat("x", 3*content.MaxChunk)
		r := revisionOf("one", "two", large, "one", "")
		x.publish(r, 4) // two files have the same content
		x.has(r, true)
		if n := x.messages(); n != 3+4 {
			t.Errorf("the bucket has %d messages", n)
		}
		r.asked = nil
		x.publish(r, 0)
		x.Store = x.open(func() error { return nil }) // as another master
		x.publish(r, 0)
		if len(r.asked) != 0 {
			t.Errorf("%v were read again", r.asked)
		}
		x.publish(revisionOf("one", "three"), 1)
	})
}

// A master that dies while it stores a content leaves a part of it.
func TestAHalfStoredContentIsCompleted(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		r := revisionOf(strings.Repeat("x", 3*content.MaxChunk))
		f := r.files["files/0"]
		must(t, x.write(t.Context(), f.Chunks()[0], r.sealed["files/0"][:content.MaxChunk]))
		x.publish(r, 1)
		x.has(r, true)
	})
}

func TestAnErrorOfTheBusIsNoMissingContent(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		r := revisionOf("one")
		x.publish(r, 1)
		x.Store = x.open(func() error { return nil })
		x.bus.Stop(t)
		r.asked = nil
		if _, err := x.Publish(t.Context(), r.files, r.seal); err == nil || len(r.asked) > 0 {
			t.Errorf("without a bus: %v, %v", err, r.asked)
		}
		if _, err := x.Sweep(t.Context(), r.named); err == nil {
			t.Error("swept without a bus")
		}
		x.bus.Start(t)
		time.Sleep(time.Minute)
		x.publish(r, 0)
	})
}

func TestOnlyTheLeaderWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		r := revisionOf("one", "two")
		x.publish(r, 2)
		x.sweep(revisionOf(), 0) // marks both
		time.Sleep(keepUnused)
		lost := errors.New("another master leads")
		other := x.open(func() error { return lost })
		if _, err := other.Publish(t.Context(), r.files, r.seal); !errors.Is(err, lost) {
			t.Errorf("Publish: %v", err)
		}
		if _, err := other.Sweep(t.Context(), revisionOf().named); !errors.Is(err, lost) {
			t.Errorf("Sweep: %v", err)
		}
		x.has(r, true)
	})
}

func TestAContentThatCannotBeReadIsNotStored(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		r := revisionOf("one")
		for _, seal := range []func(string) (content.File, []byte, error){
			func(string) (content.File, []byte, error) { return content.File{}, nil, errors.New("cannot read it") },
			revisionOf("else").seal,
		} {
			if _, err := x.Publish(t.Context(), r.files, seal); err == nil || !strings.Contains(err.Error(), "files/0") {
				t.Error(err)
			}
		}
		huge := map[string]content.File{"files/a": {Blob: "a", Size: maxBytes}}
		if _, err := x.Publish(t.Context(), huge, r.seal); err == nil || !strings.Contains(err.Error(), "the limit is 2147483648") {
			t.Error(err)
		}
		if n := x.messages(); n != 0 {
			t.Errorf("the bucket has %d messages", n)
		}
		x.publish(revisionOf("old", strings.Repeat("o", 3<<20)), 2) // what is there counts
		huge["files/a"] = content.File{Blob: "a", Size: maxBytes - 1<<20}
		if _, err := x.Publish(t.Context(), huge, r.seal); err == nil || !strings.Contains(err.Error(), "the limit is 2147483648") {
			t.Error(err)
		}
	})
}

func TestAContentIsRemovedADayAfterItsLastUse(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		old, recent := revisionOf("old", strings.Repeat("o", content.MaxChunk)), revisionOf("new")
		x.publish(old, 2)
		x.publish(recent, 1)
		time.Sleep(2 * time.Hour)
		x.sweep(recent, 0)
		time.Sleep(keepUnused - time.Minute)
		x.sweep(recent, 0)
		x.has(old, true)
		time.Sleep(2 * time.Minute)
		x.sweep(recent, 2)
		x.has(old, false)
		x.has(recent, true)
		if n := x.messages(); n != 1 {
			t.Errorf("%d messages are left", n)
		}
		x.publish(old, 2)
		x.has(old, true)
	})
}

func TestAContentThatIsNamedAgainStays(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		r, none := revisionOf("one"), revisionOf()
		x.publish(r, 1)
		x.sweep(none, 0)
		time.Sleep(23 * time.Hour)
		x.sweep(r, 0) // takes the mark off
		time.Sleep(2 * time.Hour)
		x.sweep(none, 0)
		time.Sleep(23 * time.Hour)
		x.sweep(none, 0)
		x.has(r, true)
	})
}

// Another master may publish a revision after this one has looked what is in use.
func TestAContentThatIsPublishedDuringASweepStays(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		r, none := revisionOf("one", strings.Repeat("o", content.MaxChunk)), revisionOf()
		x.publish(r, 2)
		x.sweep(none, 0)
		time.Sleep(keepUnused + time.Minute)
		other := x.open(func() error { return nil })
		_, err := x.Sweep(t.Context(), func(context.Context) (map[string]bool, error) {
			n, err := other.Publish(t.Context(), r.files, r.seal)
			if n != 2 {
				t.Errorf("%d were written again", n)
			}
			return nil, err
		})
		must(t, err)
		x.has(r, true)
		if n := x.messages(); n != 3 {
			t.Errorf("the bucket has %d messages", n)
		}
	})
}

func TestWithoutTheNamesNothingIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		r := revisionOf("one")
		x.publish(r, 1)
		x.sweep(revisionOf(), 0)
		time.Sleep(48 * time.Hour / 2)
		failed := errors.New("a document cannot be read")
		if _, err := x.Sweep(t.Context(), func(context.Context) (map[string]bool, error) { return nil, failed }); !errors.Is(err, failed) {
			t.Error(err)
		}
		x.has(r, true)
	})
}

// A bucket that was lost, or restored from an old copy, gets its contents again.
func TestAfterASweepPublishLooksAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, x *fixture) {
		r := revisionOf("one")
		x.publish(r, 1)
		must(t, x.stream.Purge(t.Context()))
		x.publish(r, 0)
		x.sweep(r, 0)
		x.publish(r, 1)
		x.has(r, true)
		if plain, err := x.Read(t.Context(), r.files["files/0"]); err != nil || !bytes.Equal(plain, []byte("one")) {
			t.Errorf("%q, %v", plain, err)
		}
	})
}
