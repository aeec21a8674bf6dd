package reconciler

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// A gate holds those who pass it while it is closed.
type gate struct {
	mu     sync.Mutex
	closed bool
	opened *sync.Cond
	held   chan struct{} // gets a value when somebody is held
}

func newGate() *gate {
	g := &gate{held: make(chan struct{}, 100)}
	g.opened = sync.NewCond(&g.mu)
	return g
}

func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	g.opened.Broadcast()
}

func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.closed {
		g.held <- struct{}{}
		g.opened.Wait()
	}
}

// A braked is a term of a fleet whose repo is read over HTTP, with gates at everything that may take long.
type braked struct {
	t    *testing.T
	work *worktree.Work
	term *benchedTerm
	// resolve holds requests for the branch, transfer holds those for its files, write holds the next document.
	resolve, transfer, write *gate
}

func brakedTerm(t *testing.T) *braked {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, missing := os.Stat(backend); err != nil || missing != nil {
		t.Skip("needs git-http-backend")
	}
	b := &braked{t: t, resolve: newGate(), transfer: newGate(), write: newGate()}
	dir := filepath.Join(t.TempDir(), "repo")
	if b.work, err = worktree.Init(dir, fstest.MapFS{"top.yaml": text("base:\n  '*': [all]\n"), "settings/all.yaml": text(elevenEntries("1h"))}, "first", ada); err != nil {
		t.Fatal(err)
	}
	git := &cgi.Handler{Path: backend, Root: "/", Env: []string{
		"GIT_PROJECT_ROOT=" + filepath.Dir(dir), "GIT_HTTP_EXPORT_ALL=1",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*",
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method == http.MethodPost && !bytes.Contains(body, []byte("command=ls-refs")) {
			b.transfer.pass()
		} else {
			b.resolve.pass()
		}
		git.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	b.term = termOf(t, server.URL+"/repo/.git", 30, func() error { b.write.pass(); return nil })
	t.Cleanup(func() { b.resolve.set(false); b.transfer.set(false); b.write.set(false) })
	if err := b.term.attempt(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// elevenEntries returns settings with more than the guard lets a commit remove.
func elevenEntries(interval string) string {
	var s strings.Builder
	s.WriteString("schedule:\n")
	for name := range strings.SplitSeq("abcdefghijk", "") {
		s.WriteString("  " + name + ": {module: test.ping, interval: " + interval + "}\n")
	}
	return s.String()
}

func (b *braked) commit(text string) settings.Commit {
	b.t.Helper()
	h, err := b.work.Commit("change", map[string][]byte{"settings/all.yaml": []byte(text)}, ada)
	if err != nil {
		b.t.Fatal(err)
	}
	return settings.Commit(h.String())
}

// order sends an order and waits for its answer, which fails the test if it does not come or is a refusal.
func (b *braked) order(verb string, question any) (out status.Sync) {
	b.t.Helper()
	data, err := canon.Marshal(question)
	if err != nil {
		b.t.Fatal(err)
	}
	msg, err := b.term.ops.Request(wire.API("sync", verb, "op"), data, 30*time.Second)
	if err != nil {
		b.t.Fatalf("sync %s: %v", verb, err)
	}
	if text := msg.Header.Get("Nats-Service-Error"); text != "" {
		b.t.Fatalf("sync %s: %s", verb, text)
	}
	if err := canon.Unmarshal(msg.Data, &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

func (b *braked) record() record.Record {
	b.t.Helper()
	r, err := record.NewStore(b.term.rollout, "", record.Source{}).Read(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// stored waits until a revision is in the archive.
func (b *braked) stored(c settings.Commit) {
	b.t.Helper()
	for {
		found, err := b.term.archive.Find(b.t.Context(), string(c))
		if err != nil {
			b.t.Fatal(err)
		}
		if len(found) == 1 {
			return
		}
	}
}

// TestOrdersAreInForceDuringSlowWork holds the remote, a transfer or the worker, and has all orders answered
// meanwhile, with the record changed.
func TestOrdersAreInForceDuringSlowWork(t *testing.T) {
	for _, c := range []struct {
		name string
		hold func(b *braked) (release func())
	}{
		{"the remote does not answer", func(b *braked) func() {
			b.resolve.set(true)
			b.term.source.Request(0)
			<-b.resolve.held
			return func() { b.resolve.set(false) }
		}},
		{"a transfer does not end", func(b *braked) func() {
			b.transfer.set(true)
			b.commit(elevenEntries("61m"))
			b.term.source.Request(0)
			<-b.transfer.held
			return func() { b.transfer.set(false) }
		}},
		{"the worker is busy", func(b *braked) func() {
			b.write.set(true)
			b.term.fleet.Index().Put("new-01", nil) // needs a document
			b.term.fleetChanged <- struct{}{}
			<-b.write.held
			return func() { b.write.set(false) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // each order waits for up to 500 ms
			b := brakedTerm(t)
			first := b.record().Commit
			b.stored(first)
			second := b.commit("x: 1\n")
			if err := b.term.attempt(t.Context()); err != nil {
				t.Fatal(err)
			}
			release := c.hold(b)
			defer release()
			waits := b.record().Blocked
			if waits == nil || waits.Commit != second {
				t.Fatalf("%+v waits", waits)
			}
			b.order("pause", nil)
			if r := b.record(); r.Suspended == nil || r.Suspended.By != "op" {
				t.Errorf("after pause: %+v", r)
			}
			b.order("approve", status.ApproveRequest{Hash: waits.Hash})
			if r := b.record(); !r.Approves(second, waits.Hash) {
				t.Errorf("after approve: %+v", r)
			}
			b.order("resume", nil)
			if r := b.record(); r.Suspended != nil {
				t.Errorf("after resume: %+v", r)
			}
			b.order("pin", status.PinRequest{Revision: string(first)})
			if r := b.record(); r.Pinned == nil || r.Commit != first || r.Approved != nil {
				t.Errorf("after pin: %+v", r)
			}
			b.order("unpin", nil)
			if r := b.record(); r.Pinned != nil {
				t.Errorf("after unpin: %+v", r)
			}
		})
	}
}

// TestAPinStopsAPublish holds a revision after some of its documents. When the pin is answered, only the document that had
// been checked is still written of it, and every peel gets the pinned revision.
func TestAPinStopsAPublish(t *testing.T) {
	b := brakedTerm(t)
	first := b.record().Commit
	b.stored(first)
	b.write.set(true)
	second := b.commit(elevenEntries("1h") + "  z: {module: test.ping, interval: 1h}\n")
	b.term.source.Request(0)
	<-b.write.held
	if r := b.record(); r.Commit != second || r.Done {
		t.Fatalf("the record is %+v", r)
	}
	b.order("pin", status.PinRequest{Revision: string(first)})
	b.write.set(false)
	if err := b.term.attempt(t.Context()); err != nil {
		t.Fatal(err)
	}
	kv, err := b.term.js.Stream(t.Context(), "KV_settings")
	if err != nil {
		t.Fatal(err)
	}
	// 30 documents of the first revision, the one of the second that had been checked, and the one that replaces it.
	if n := kv.CachedInfo().State.LastSeq; n > 32 {
		t.Errorf("%d documents were written", n)
	}
	heads, err := settings.NewStore(b.term.js).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		if h.Commit != first {
			t.Errorf("%s has a document of %s", h.Peel, h.Commit.Short())
		}
	}
	if r := b.record(); len(heads) != 30 || r.Commit != first || !r.Done {
		t.Errorf("%d documents, %+v", len(heads), r)
	}
}
