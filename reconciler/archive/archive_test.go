package archive

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/reconciler/content"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	contentx "github.com/seed-c01c3da5/zester/settings/content"
	"github.com/seed-c01c3da5/zester/settings/policy"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// revision returns the n-th revision of a test, whose files say so.
func revision(n int) *Revision {
	var c gitrepo.Commit
	c.Hash[0], c.Hash[1] = byte(n), 1
	c.Author, c.Email, c.Message = "Ada", "ada@example.com", fmt.Sprintf("change %d\n\nmore", n)
	return &Revision{Commit: c, Tree: fstest.MapFS{"top.yaml": text(fmt.Sprintf("base: {} # %d\n", n))}}
}

func contentsOf(t *testing.T, bus *natstest.Bus) *content.Store {
	t.Helper()
	s, err := content.Open(t.Context(), bus.JetStream(t), func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func inBubble(t *testing.T, f func(t *testing.T, bus *natstest.Bus, a *Archive)) {
	natstest.Bubble(t, func(t *testing.T, bus *natstest.Bus) {
		a, err := Open(t.Context(), bus.JetStream(t), contentsOf(t, bus), "fleet", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		f(t, bus, a)
	})
}

// stored reports whether a revision is stored, and fails the test if it is not stored as it was.
func (a *Archive) stored(t *testing.T, r *Revision) bool {
	t.Helper()
	got, err := a.Load(t.Context(), r.ID())
	if err != nil {
		t.Fatal(err)
	}
	if got == nil {
		return false
	}
	if got.Commit.Subject() != r.Commit.Subject() || got.Commit.Author != "Ada" {
		t.Errorf("%+v", got.Commit)
	}
	if f, err := got.Tree.Open("top.yaml"); err != nil {
		t.Error(err)
	} else {
		_ = f.Close()
	}
	return true
}

func TestTheNewestRevisionsAreStored(t *testing.T) {
	inBubble(t, func(t *testing.T, bus *natstest.Bus, a *Archive) {
		var ids []settings.Commit
		for n := range maxStored + 3 {
			r := revision(n)
			time.Sleep(time.Second)
			if err := a.put(t.Context(), r, []settings.Commit{revision(1).ID()}); err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID())
		}
		for n, want := range map[int]bool{0: false, 1: true, 2: false, 3: true, maxStored + 2: true} {
			if got := a.stored(t, revision(n)); got != want {
				t.Errorf("revision %d is stored: %v", n, got)
			}
		}
		all, err := a.List(t.Context())
		if err != nil || len(all) != maxStored+1 || all[0].Commit != ids[maxStored+2] || all[maxStored].Commit != ids[1] || all[0].Message != fmt.Sprintf("change %d", maxStored+2) {
			t.Errorf("%d revisions, %+v, %v", len(all), all, err)
		}
		stream, err := bus.JetStream(t).Stream(t.Context(), "KV_"+Bucket)
		if err != nil {
			t.Fatal(err)
		}
		if n := stream.CachedInfo().State.Msgs; n != 2*(maxStored+1) {
			t.Errorf("%d messages are left for %d revisions", n, maxStored+1)
		}
		if found, err := a.Find(t.Context(), string(ids[5][:4])); err != nil || !slices.Equal(found, ids[5:6]) {
			t.Errorf("%v, %v", found, err)
		}
		if found, err := a.Find(t.Context(), "ffff"); err != nil || len(found) != 0 {
			t.Errorf("%v, %v", found, err)
		}
	})
}

func TestRevisionsInUseAreNoSurplus(t *testing.T) {
	var all []Entry
	for n := range maxStored + 3 {
		all = append(all, Entry{Commit: settings.Commit(fmt.Sprint(n))})
	}
	last := all[maxStored+1].Commit
	if got := surplus(all, []settings.Commit{all[0].Commit, last}); !slices.Equal(got, []settings.Commit{all[maxStored].Commit, all[maxStored+2].Commit}) {
		t.Errorf("%v", got)
	}
	if got := surplus(all[:maxStored], nil); got != nil {
		t.Errorf("%v of as many as may be", got)
	}
}

// A master that dies while it stores a revision leaves chunks without a manifest.
func TestWhatIsStoredOfARevisionThatWasCutOffIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *natstest.Bus, a *Archive) {
		for i, c := range []struct {
			age  time.Duration
			left int
		}{{time.Second, 2}, {2*callLimit + time.Second, 0}} {
			other := settings.Commit(strings.Repeat(fmt.Sprint(i+1), 40))
			for chunk := range 2 {
				if _, err := a.kv.Put(t.Context(), chunkKey(other, chunk), []byte("half")); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(c.age)
			if err := a.put(t.Context(), revision(i), nil); err != nil {
				t.Fatal(err)
			}
			keys, err := a.keys(t.Context(), string(other)+".*")
			if err != nil || len(keys) != c.left {
				t.Errorf("%d chunks are left after %v, want %d: %v", len(keys), c.age, c.left, err)
			}
			if !a.stored(t, revision(i)) {
				t.Error("a whole revision was removed")
			}
		}
	})
}

func TestADamagedRevisionIsNotAbsent(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *natstest.Bus, a *Archive) {
		r := revision(1)
		if err := a.put(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := a.kv.Put(t.Context(), chunkKey(r.ID(), 0), []byte("else")); err != nil {
			t.Fatal(err)
		}
		if got, err := a.Load(t.Context(), r.ID()); err == nil || !strings.Contains(err.Error(), "do not fit together") {
			t.Errorf("%v, %v", got, err)
		}
		if err := a.kv.Purge(t.Context(), chunkKey(r.ID(), 0)); err != nil {
			t.Fatal(err)
		}
		if got, err := a.Load(t.Context(), r.ID()); err == nil {
			t.Errorf("without its files: %v", got)
		}
		for _, bad := range []Entry{{Commit: revision(2).ID()}, {Commit: r.ID(), Chunks: maxChunks + 1}} {
			data, err := canon.Marshal(bad)
			if err == nil {
				_, err = a.kv.Put(t.Context(), string(r.ID()), data)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := a.List(t.Context()); err == nil {
				t.Errorf("with the manifest %+v: %v", bad, got)
			}
		}
	})
}

// The same commit may hold other files at another path.
func TestARevisionOfAnotherSourceIsNotReturned(t *testing.T) {
	inBubble(t, func(t *testing.T, bus *natstest.Bus, a *Archive) {
		other, err := Open(t.Context(), bus.JetStream(t), contentsOf(t, bus), "fleet, path prod", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		r := revision(1)
		if err := a.put(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if list, err := other.List(t.Context()); err != nil || len(list) != 0 || other.stored(t, r) {
			t.Errorf("%+v, %v", list, err)
		}
		r.Tree = fstest.MapFS{"top.yaml": text("base: {} # of prod\n")}
		if err := other.put(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := other.Load(t.Context(), r.ID()); err != nil || got == nil {
			t.Error(got, err)
		} else if data, err := fs.ReadFile(got.Tree, "top.yaml"); err != nil || string(data) != "base: {} # of prod\n" {
			t.Errorf("%s, %v", data, err)
		}
		if a.stored(t, r) {
			t.Error("the revision of prod is returned for the root")
		}
		old, err := canon.Marshal(Entry{Commit: revision(2).ID()})
		if err == nil {
			_, err = a.kv.Put(t.Context(), string(revision(2).ID()), old)
		}
		if list, listed := a.List(t.Context()); err != nil || listed != nil || len(list) != 1 {
			t.Errorf("of an earlier version: %+v, %v, %v", list, err, listed)
		}
		if err := a.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		if keys, err := a.keys(t.Context(), ">"); err != nil || len(keys) != 0 {
			t.Errorf("%v, %v", keys, err)
		}
	})
}

// run runs the archive until the function that it returns is called.
func (a *Archive) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

func TestFindWaitsForTheRequestedRevision(t *testing.T) {
	inBubble(t, func(t *testing.T, bus *natstest.Bus, a *Archive) {
		r := revision(1)
		a.Request(revision(2), nil)
		a.Request(r, nil)
		found := make(chan []settings.Commit, 1)
		go func() {
			all, err := a.Find(t.Context(), string(r.ID()[:8]))
			if err != nil {
				t.Error(err)
			}
			found <- all
		}()
		synctest.Wait()
		if len(found) != 0 {
			t.Fatal("answered before Run had tried to store it")
		}
		go func() { _ = a.Run(t.Context()) }()
		if all := <-found; !slices.Equal(all, []settings.Commit{r.ID()}) {
			t.Errorf("found %v", all)
		}
	})
}

func TestARequestIsTriedAgainUntilTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, bus *natstest.Bus, a *Archive) {
		for n := range 3 {
			a.Request(revision(n), nil) // nothing runs yet, and nobody waits
		}
		defer a.run(t)()
		synctest.Wait()
		if a.stored(t, revision(1)) || !a.stored(t, revision(2)) {
			t.Error("another revision than the newest is stored")
		}
		bus.Stop(t)
		a.Request(revision(4), nil)
		time.Sleep(callLimit)
		bus.Start(t)
		time.Sleep(callLimit + 2*storeAgain)
		if !a.stored(t, revision(4)) {
			t.Error("it was not tried again")
		}
	})
}

func TestARevisionThatIsTooLargeIsNotStored(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *natstest.Bus, a *Archive) {
		large := revision(1)
		data := make([]byte, 1<<19)
		_, _ = rand.Read(data)
		noise := hex.EncodeToString(data) // 1 MiB, packs to half of that
		for i := range 40 {
			large.Tree.(fstest.MapFS)[fmt.Sprintf("settings/%d.yaml", i)] = text(noise[i:] + noise[:i])
		}
		if err := a.put(t.Context(), large, nil); !errors.Is(err, errTooLarge) {
			t.Fatal(err)
		}
		if keys, err := a.keys(t.Context(), ">"); err != nil || len(keys) > 0 {
			t.Errorf("%v, %v", keys, err)
		}
	})
}

// What is packed of a revision compiles as the revision does.
func TestAPackedRevisionHoldsWhatIsCompiled(t *testing.T) {
	packed, err := pack(fstest.MapFS{
		"top.yaml":              text("base: {}\n"),
		"zester.yaml":           text("on_error: isolate\n"),
		"other.yaml":            text("is not needed"),
		"top.d/more.yaml":       text("base:\n  'db-*': [deep.er]\n"),
		"settings/common.yaml":  text("{}\n"),
		"settings/deep/er.yaml": text("schedule: {}\n"),
		"README.md":             text("is not needed"),
		"states/big.yaml":       text("is not either"),
		"files/nginx.conf":      text("worker_processes 4;\n"),
		"files/run.sh":          &fstest.MapFile{Data: []byte("#!/bin/sh\n"), Mode: 0o755},
		"settings/notes.txt":    text("nor is this"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e := Entry{Commit: revision(1).ID()}
	r, err := e.unpack(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(r.Tree, "zester.yaml", "top.yaml", "top.d/more.yaml", "settings/common.yaml", "settings/deep/er.yaml", "files/nginx.conf"); err != nil {
		t.Error(err)
	}
	if info, err := fs.Stat(r.Tree, "files/run.sh"); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("the mode of a script: %v, %v", info, err)
	}
	for _, name := range []string{"README.md", "states", "other.yaml", "settings/notes.txt"} {
		if _, err := r.Tree.Open(name); err == nil {
			t.Errorf("%s is packed", name)
		}
	}
	for _, cut := range []int{0, 10, len(packed) / 2, len(packed) - 1} {
		if _, err := e.unpack(packed[:cut], nil); err == nil {
			t.Errorf("the first %d bytes are read as a revision", cut)
		}
	}
}

func TestAHeaderReadsNoFiles(t *testing.T) {
	inBubble(t, func(t *testing.T, bus *natstest.Bus, a *Archive) {
		r := revision(1)
		r.Safety = &policy.Safety{Waves: []policy.Wave{{Name: "canary", Soak: time.Hour, Gate: policy.GateManual}}}
		if got, err := a.Header(t.Context(), r.ID()); got != nil || err != nil {
			t.Fatal(got, err)
		}
		if err := a.put(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		if err := a.kv.Delete(t.Context(), chunkKey(r.ID(), 0)); err != nil {
			t.Fatal(err)
		}
		got, err := a.Header(t.Context(), r.ID())
		if err != nil || got.Tree != nil || got.ID() != r.ID() || got.Safety == nil || !reflect.DeepEqual(got.Safety, r.Safety) {
			t.Errorf("%+v, %v", got, err)
		}
		other, err := Open(t.Context(), bus.JetStream(t), contentsOf(t, bus), "other", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := other.Header(t.Context(), r.ID()); got != nil || err != nil {
			t.Error("the header of another source", got, err)
		}
	})
}

func TestAStoredRevisionRefersToItsContents(t *testing.T) {
	inBubble(t, func(t *testing.T, bus *natstest.Bus, a *Archive) {
		secret, salt := "the plain text", []byte("a data key")
		r := revision(1)
		tree := r.Tree.(fstest.MapFS)
		tree["files/web/nginx.conf"] = text(strings.Repeat("worker_processes 4;\n", 50_000))
		tree["files/web/reload"] = &fstest.MapFile{Data: []byte("#!/bin/sh\n"), Mode: 0o755}
		tree["files/key"] = text(`{"data":"ENC[…]","sops":{}}`)
		tree["files/unused"] = text("no peel needs it")
		r.Contents = map[string]contentx.File{}
		sealed := map[string][]byte{}
		for path, mode := range map[string]string{"files/web/nginx.conf": "0644", "files/web/reload": "0755"} {
			f, data := contentx.Seal(tree[path].Data, nil)
			f.Mode, sealed[path] = mode, data
			r.Contents[path] = f
		}
		key, _ := contentx.Seal([]byte(secret), salt)
		key.Mode = "0644"
		r.Contents["files/key"] = key
		if _, err := a.blobs.Publish(t.Context(), r.Contents, func(path string) (contentx.File, []byte, error) {
			if path == "files/key" {
				f, data := contentx.Seal([]byte(secret), salt)
				return f, data, nil
			}
			return r.Contents[path], sealed[path], nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := a.put(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
		got, err := a.Load(t.Context(), r.ID())
		if err != nil {
			t.Fatal(err)
		}
		for path, file := range tree {
			data, err := fs.ReadFile(got.Tree, path)
			info, failed := fs.Stat(got.Tree, path)
			if err != nil || failed != nil || string(data) != string(file.Data) || info.Mode().Perm() != file.Mode {
				t.Errorf("%s: %d bytes, %v, %v, %v", path, len(data), info, err, failed)
			}
		}
		if len(got.Contents) != 2 || got.Contents["files/web/reload"] != r.Contents["files/web/reload"] {
			t.Errorf("it refers to %v", got.Contents)
		}
		manifest, err := a.kv.Get(t.Context(), chunkKey(r.ID(), 0))
		if err != nil || strings.Contains(string(manifest.Value()), key.Key) || len(manifest.Value()) > 4<<10 {
			t.Errorf("the stored revision has the key of a secret content, or the contents: %d bytes, %v", len(manifest.Value()), err)
		}
		for range 2 { // the second time from memory
			used, err := a.Blobs(t.Context())
			if err != nil || len(used) != 2 || !used[got.Contents["files/web/nginx.conf"].Blob] {
				t.Errorf("the stored revisions use %v, %v", used, err)
			}
		}
		if _, err := a.kv.Put(t.Context(), chunkKey(r.ID(), 0), []byte("damaged")); err != nil {
			t.Fatal(err)
		}
		a.named = nil
		if used, err := a.Blobs(t.Context()); err == nil {
			t.Errorf("of a damaged revision: %v", used)
		}
	})
}
