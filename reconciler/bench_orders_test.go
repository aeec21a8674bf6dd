package reconciler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/source"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// How long each order takes until it is answered, while the reconciler is busy with a remote, a repo or a fleet of full
// size. The benchmark fails if the record does not say what was ordered when the answer arrives. It reports the longest
// time of each order, and as late-documents the documents that were stored after a pin was answered, of the revision that
// the pin takes back. Each round takes some seconds to prepare: run it with -benchtime=3x.
func BenchmarkOrders(b *testing.B) {
	for _, c := range []struct {
		name         string
		peels, files int
		busy         func(o *ordered)
	}{
		{"idle", 1000, 100, func(*ordered) {}},
		{"remote=hangs", 1000, 100, (*ordered).hang},
		{"fetch=50000", 1000, 100, (*ordered).fetch},
		{"clone=50000", 1000, 50_000, (*ordered).clone},
		{"compile=10000", 10_000, 1000, (*ordered).compile},
	} {
		b.Run(c.name, func(b *testing.B) {
			longest, late := map[string]time.Duration{}, 0
			for b.Loop() {
				b.StopTimer()
				o := newOrdered(b, c.peels, c.files)
				c.busy(o)
				b.StartTimer()
				o.round(longest)
				b.StopTimer()
				o.slow.Store(false)
				o.hangs.Store(false)
				o.calm()
				_ = o.term.attempt(b.Context()) // until no document is under way
				late += int(o.late.Load())
				o.term.stop()
				b.StartTimer()
			}
			for verb, d := range longest {
				b.ReportMetric(float64(d)/float64(time.Millisecond), verb+"-ms")
			}
			b.ReportMetric(float64(late), "late-documents")
		})
	}
}

// An ordered is a term with one revision in force and another that waits for approval, of a repo that is read over HTTP.
type ordered struct {
	*testing.B
	repo   string // directory
	url    string
	hangs  atomic.Bool   // the remote takes requests and answers none
	slow   atomic.Bool   // the remote sends 320 KiB a second at most
	asked  chan struct{} // gets a value with each request to a remote that hangs or is slow
	bus    *natstest.Bus
	peels  int
	groups int // of peels, each with a file of its own
	term   *benchedTerm
	wait   func() // until the worker is busy, if it is to be
	calm   func() // ends the changes of the fleet, if there are any
	first  settings.Commit
	second *record.Blocked

	pinned atomic.Bool  // a pin was answered
	late   atomic.Int64 // documents of the second revision that were stored after it
}

// newOrdered has each peel get one file, that its group names, and one that all have.
func newOrdered(b *testing.B, peels, files int) *ordered {
	o := &ordered{B: b, bus: natstest.Listen(b), peels: peels, groups: min(peels, files, 1000), asked: make(chan struct{}, 100), wait: func() {}, calm: func() {}}
	o.repo = packedRepo(b, files)
	var top strings.Builder
	top.WriteString("base:\n  '*': [all]\n")
	for i := range o.groups {
		fmt.Fprintf(&top, "  'G@group:%d': [%s]\n", i, fmt.Sprintf("d%03d.f%05d", i/100, i))
	}
	o.commit(inline("top.yaml", top.String()) + inline("settings/all.yaml", elevenEntries("1h")))
	o.serve()
	o.begin()
	if err := o.term.attempt(b.Context()); err != nil {
		b.Fatal(err)
	}
	o.first = o.record().Commit
	for {
		found, err := o.term.archive.Find(b.Context(), string(o.first))
		if err != nil {
			b.Fatal(err)
		}
		if len(found) == 1 {
			break
		}
		runtime.Gosched()
	}
	o.commit(inline("settings/all.yaml", "x: 1\n"))
	if err := o.term.attempt(b.Context()); err != nil {
		b.Fatal(err)
	}
	if o.second = o.record().Blocked; o.second == nil {
		b.Fatal("no revision waits for approval")
	}
	_, err := o.bus.Conn(b, grants.RoleMaster, "m2").Subscribe(wire.Settings("*"), func(m *nats.Msg) {
		if o.pinned.Load() && bytes.Contains(m.Data, []byte(o.second.Commit)) {
			o.late.Add(1)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	return o
}

func (o *ordered) commit(files string) {
	runGit(o.B, commitHead+"from refs/heads/main^0\n"+files, "-C", o.repo, "fast-import", "--quiet")
}

// serve serves the repo.
func (o *ordered) serve() {
	git, err := exec.LookPath("git")
	if err != nil {
		o.Skip("needs the git binary")
	}
	backend := &cgi.Handler{
		Root: "/", Path: git, Args: []string{"http-backend"}, InheritEnv: []string{"PATH"},
		Env: []string{"GIT_PROJECT_ROOT=" + filepath.Dir(o.repo), "GIT_HTTP_EXPORT_ALL=1"},
	}
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.hangs.Load() {
			o.asked <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-ended:
			}
			return
		}
		if o.slow.Load() && r.Method == http.MethodPost {
			o.asked <- struct{}{}
			w = &slowWriter{w, &o.slow}
		}
		backend.ServeHTTP(w, r)
	}))
	o.Cleanup(func() { close(ended); s.Close() })
	o.url = s.URL + "/" + filepath.Base(o.repo)
}

// A slowWriter sends at most 320 KiB a second while it is slow.
type slowWriter struct {
	http.ResponseWriter
	slow *atomic.Bool
}

func (w *slowWriter) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		if w.slow.Load() {
			<-time.After(50 * time.Millisecond)
		}
		var m int
		m, err = w.ResponseWriter.Write(p[n:min(len(p), n+16<<10)])
		n += m
	}
	return n, err
}

// begin runs a term with an empty store.
func (o *ordered) begin() {
	o.term = termOn(o.B, o.bus, o.url, 0, alwaysLeads)
	o.facts("1")
}

// facts has every peel report facts.
func (o *ordered) facts(version string) {
	for i := range o.peels {
		o.term.fleet.Index().Put(benchPeel(i), target.Facts{"group": fmt.Sprint(i % o.groups), "os": "linux", "version": version})
	}
	o.term.fleetChanged <- struct{}{}
}

// hang has the remote take requests and answer none, and waits for the first.
func (o *ordered) hang() {
	o.hangs.Store(true)
	o.term.source.Request(source.Order)
	<-o.asked
}

// fetch has the term fetch 50,000 files slowly.
func (o *ordered) fetch() {
	var files strings.Builder
	for i := range 50_000 {
		files.WriteString(inline(fmt.Sprintf("settings/more%03d/f%05d.yaml", i/100, i), fmt.Sprintf("more: %d\n", i)))
	}
	o.commit(files.String())
	o.slow.Store(true)
	o.term.source.Request(source.Order)
	<-o.asked // for the branch
	<-o.asked // for its files
}

// clone has another master lead, which clones the repo slowly.
func (o *ordered) clone() {
	o.term.stop()
	o.slow.Store(true)
	o.begin()
	<-o.asked
	<-o.asked
}

// compile has another master lead, which has compiled nothing, and all peels report other facts again and again.
func (o *ordered) compile() {
	o.term.stop()
	o.begin()
	ctx, cancel := context.WithCancel(o.Context())
	var storm sync.WaitGroup
	o.calm = sync.OnceFunc(func() { cancel(); storm.Wait() })
	o.Cleanup(o.calm)
	t := o.term
	storm.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			for i := range o.peels {
				t.fleet.Index().Put(benchPeel(i), target.Facts{"group": fmt.Sprint(i % o.groups), "os": "linux", "version": fmt.Sprint(n)})
			}
			select {
			case t.fleetChanged <- struct{}{}:
			case <-ctx.Done():
			}
		}
	})
	o.wait = func() {
		for !t.loop.newest.Load().Sync.Is(status.Reconciling) {
			runtime.Gosched()
		}
	}
	for t.loop.newest.Load().Sync.Observed == "" {
		runtime.Gosched()
	}
}

// round gives all orders.
func (o *ordered) round(longest map[string]time.Duration) {
	order := func(verb string, question any, inForce func(r record.Record, refusal string) bool) {
		o.wait()
		began := time.Now()
		refusal := o.order(verb, question)
		longest[verb] = max(longest[verb], time.Since(began))
		if r := o.record(); !inForce(r, refusal) {
			o.Fatalf("after %s: %q, %+v", verb, refusal, r)
		}
	}
	second := o.second.Commit
	order("pause", nil, func(r record.Record, _ string) bool { return r.Suspended != nil })
	order("approve", status.ApproveRequest{Hash: o.second.Hash}, func(r record.Record, refusal string) bool {
		return r.Approves(second, o.second.Hash) || strings.Contains(refusal, "has not read the branch yet")
	})
	order("resume", nil, func(r record.Record, _ string) bool { return r.Suspended == nil })
	order("pin", status.PinRequest{Revision: string(o.first)}, func(r record.Record, _ string) bool { return r.Pinned != nil && r.Commit == o.first })
	o.pinned.Store(true)
	order("unpin", nil, func(r record.Record, _ string) bool { return r.Pinned == nil })
}

// order returns why an order was refused, empty if it was not.
func (o *ordered) order(verb string, question any) (refusal string) {
	data, err := canon.Marshal(question)
	if err != nil {
		o.Fatal(err)
	}
	for {
		m, err := o.term.ops.Request(wire.API("sync", verb, "op"), data, time.Minute)
		if errors.Is(err, nats.ErrNoResponders) {
			runtime.Gosched() // the service begins
			continue
		}
		if err != nil {
			o.Fatalf("sync %s: %v", verb, err)
		}
		return m.Header.Get("Nats-Service-Error")
	}
}

func (o *ordered) record() record.Record {
	r, err := record.NewStore(o.term.rollout, "", record.Source{}).Read(o.Context())
	if err != nil {
		o.Fatal(err)
	}
	return r
}
