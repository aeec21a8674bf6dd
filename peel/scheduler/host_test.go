package scheduler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

var seeds = flag.Uint64("seeds", 1, "how many times its usual number of seeds each random test takes")

// A host is a scheduler in a bubble, with an Exec that takes the time it is told and records what it was asked.
type host struct {
	*scheduler.Scheduler
	t     testing.TB
	begin time.Time
	ended chan error
	stop  context.CancelFunc
	began bool
	file  string
	alien bool // its state is not what a scheduler wrote

	mu      sync.Mutex
	takes   map[string]time.Duration      // how long runs of an entry take
	linger  time.Duration                 // how long canceled runs take to end
	results map[string]func() wire.Result // of an entry; success if absent
	fires   []scheduler.Fire
	reports []scheduler.Fire
	store   func(scheduler.Fire) bool // stores a report; nil: all are stored
	running map[string]int
}

// start makes a host; Zone, StateFile and Log may be set in o. It must be called inside a bubble.
func start(t testing.TB, o scheduler.Options) *host {
	t.Helper()
	return startWith(t, o, func(*scheduler.Scheduler) {})
}

func startWith(t testing.TB, o scheduler.Options, prepare func(*scheduler.Scheduler)) *host {
	t.Helper()
	h := &host{
		t: t, begin: time.Now(), ended: make(chan error, 1), takes: map[string]time.Duration{},
		results: map[string]func() wire.Result{}, running: map[string]int{}, file: o.StateFile,
	}
	o.Peel, o.Exec, o.Report = "web-01", h.exec, h.report
	s, err := scheduler.New(o)
	if err != nil {
		t.Fatal(err)
	}
	prepare(s)
	h.Scheduler = s
	var ctx context.Context
	ctx, h.stop = context.WithCancel(context.Background())
	go func() { h.ended <- s.Run(ctx) }()
	return h
}

// shut stops the host and waits for it.
func (h *host) shut() {
	h.t.Helper()
	h.compareFile()
	h.stop()
	if err := <-h.ended; err != nil {
		h.t.Error(err)
	}
}

// compareFile compares what the file has of each entry with what the process has, after a write of what has changed.
func (h *host) compareFile() {
	h.t.Helper()
	if h.file == "" || h.alien {
		return
	}
	want := h.Stored(h.t.Context())
	data, err := os.ReadFile(h.file)
	if want == nil || err != nil {
		return // it has ended
	}
	file := filepath.Join(h.t.TempDir(), "copy")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		h.t.Fatal(err)
	}
	store, got, err := scheduler.OpenStore(file, slog.New(slog.DiscardHandler))
	if err != nil || store.Damage() != "" {
		return // a test has damaged it
	}
	for name := range want {
		a, errA := json.Marshal(want[name])
		b, errB := json.Marshal(got.Entries[name])
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			h.t.Errorf("the file has of %s\n%s, the process has\n%s", name, b, a)
		}
	}
}

// take sets how long runs of an entry take from now on.
func (h *host) take(entry string, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.takes[entry] = d
}

func (h *host) exec(ctx context.Context, f scheduler.Fire) wire.Result {
	h.mu.Lock()
	h.fires = append(h.fires, f)
	h.running[f.Name]++
	takes, result := h.takes[f.Name], h.results[f.Name]
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.running[f.Name]--
	}()
	if takes > 0 {
		select {
		case <-time.After(takes):
		case <-ctx.Done():
			time.Sleep(h.linger)
			return wire.Result{Error: "signal: killed"}
		}
	}
	if result != nil {
		return result()
	}
	return wire.Result{Success: true}
}

func (h *host) report(f scheduler.Fire, _ wire.Result) bool {
	h.mu.Lock()
	h.reports = append(h.reports, f)
	store := h.store
	h.mu.Unlock()
	return store == nil || store(f)
}

// reported are the fires that have been reported, once nothing moves any more.
func (h *host) reported() []scheduler.Fire {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.reports)
}

// parse reads entries as a settings file has them under the key schedule.
func parse(t testing.TB, text string) schedule.Set {
	t.Helper()
	n, err := strictyaml.Parse("schedule.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set, err := schedule.ParseSet(n)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// one is a schedule of the entry "e" with the given fields.
func one(t testing.TB, fields string) schedule.Set {
	t.Helper()
	return parse(t, "e: {module: test.ping, "+fields+"}")
}

// apply makes set the schedule; the first is what the process starts with.
func (h *host) apply(set schedule.Set) schedule.Changes {
	h.t.Helper()
	apply := h.Apply
	if !h.began {
		apply, h.began = h.Begin, true
	}
	changes, err := apply(h.t.Context(), set)
	if err != nil {
		h.t.Fatal(err)
	}
	return changes
}

// entry is the state of one entry, once nothing moves any more.
func (h *host) entry(name string) scheduler.EntryState {
	h.t.Helper()
	synctest.Wait()
	list, err := h.State(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	i := slices.IndexFunc(list, func(e scheduler.EntryState) bool { return e.Name == name })
	if i < 0 {
		h.t.Fatalf("no entry %s in %v", name, list)
	}
	return list[i]
}

// runs are the starts of an entry, counted from the host's own.
func (h *host) runs(name string) []time.Duration {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []time.Duration
	for _, f := range h.fires {
		if f.Name == name {
			out = append(out, f.Started.Sub(h.begin))
		}
	}
	return out
}

func (h *host) expectRuns(name string, want ...time.Duration) {
	h.t.Helper()
	if got := h.runs(name); !slices.Equal(got, want) {
		h.t.Errorf("%s ran at %v, want %v", name, got, want)
	}
}

func (h *host) expectSkips(name string, reason ledger.Reason, want uint64) {
	h.t.Helper()
	if got := h.entry(name).Skips; got[reason] != want {
		h.t.Errorf("skips of %s: %v, want %d of %s", name, got, want, reason)
	}
}

func (h *host) fire(i int) scheduler.Fire { return h.all()[i] }

// all are the fires that have run, once nothing moves any more.
func (h *host) all() []scheduler.Fire {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.fires)
}

// inFlight is how many runs of an entry have not ended.
func (h *host) inFlight(name string) int {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running[name]
}

// journal is a log handler that keeps lines as "message key=value …", without the peel.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, string(p))
	return len(p), nil
}

// count is how many lines have all of the words.
func (j *journal) count(words ...string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for _, line := range j.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}
