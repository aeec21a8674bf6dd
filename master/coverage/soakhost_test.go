package coverage_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/report"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A span is a time by the right clock. An open one has no end.
type span struct{ from, to time.Time }

// meets reports whether a span has a time in [from, to].
func (s span) meets(from, to time.Time) bool {
	return !s.from.After(to) && (s.to.IsZero() || !s.to.Before(from))
}

// covers reports whether a span has all times in [from, to].
func (s span) covers(from, to time.Time) bool {
	return !s.from.After(from) && (s.to.IsZero() || !s.to.Before(to))
}

// spans are times at which something was so.
type spans []span

func (s *spans) begin(at time.Time) { *s = append(*s, span{from: at}) }

func (s spans) end(at time.Time) { s[len(s)-1].to = at }

func (s spans) meet(from, to time.Time) bool {
	for _, one := range s {
		if one.meets(from, to) {
			return true
		}
	}
	return false
}

func (s spans) cover(from, to time.Time) bool {
	for _, one := range s {
		if one.covers(from, to) {
			return true
		}
	}
	return false
}

// A ranFire is one run, as the test has seen it. Its times but nominal are by the right clock.
type ranFire struct {
	entry          string
	trigger        wire.Trigger
	nominal        time.Time     // as the scheduler says
	started, ended time.Time     // ended is zero in flight
	ahead          time.Duration // of the clock when it started
	failed         bool
	cut            bool // the process was killed or stopped meanwhile
}

// A soakHost has a real scheduler and a real reporter, with what the test knows of it. The host outlives its processes.
type soakHost struct {
	*soak
	id       target.PeelID
	zone     *time.Location
	badClock bool // its clock is set at times
	nc       *nats.Conn
	js       jetstream.JetStream

	dir     string // has the state of the process
	set     schedule.Set
	doc     *settings.Document
	process *process // nil: it is down
	kills   int

	boots  int          // of the host
	booted time.Time    // when it booted last
	ahead  atomic.Int64 // of the clock, in nanoseconds
	frozen atomic.Int64 // when it fell asleep, in nanoseconds since the Unix epoch; 0: it is awake

	down, asleep, wrong spans
	marks               []mark
	mute                atomic.Bool // reports do not reach the bus
	deaf                atomic.Bool // what the bus answers to reports does not arrive
	rests               map[string]*spans
	active              map[string][]*activation
	reports             []string // that were sent
	largest             int      // bytes of the largest report

	mu   sync.Mutex
	runs []*ranFire
}

// A mark is a moment at which the clock of a host was set.
type mark struct {
	at  time.Time     // by the right clock
	was time.Duration // how far the clock was ahead before
}

// A process is one life of the peel of a host.
type process struct {
	sched  *scheduler.Scheduler
	report *report.Reporter
	dead   atomic.Bool // it was killed: what it does is not seen
	stop   context.CancelFunc
	ended  chan struct{}
}

// clock returns the clocks of the host: of one that is asleep they stand still.
func (h *soakHost) clock() func() scheduler.Instant {
	began := time.Now()
	return func() scheduler.Instant {
		now := time.Now()
		if at := h.frozen.Load(); at != 0 {
			now = now.Add(time.Duration(at - now.UnixNano()))
		}
		return scheduler.Instant{Wall: now.Add(time.Duration(h.ahead.Load())).Round(0), Up: now.Sub(began)}
	}
}

// draw returns a source of random times for a process. What is drawn at a moment does not depend on what was drawn before, as runs that
// end at one moment do so in no order.
func (h *soakHost) draw(p *process, source uint64) func(time.Duration) time.Duration {
	return func(n time.Duration) time.Duration {
		if p.dead.Load() {
			return 0
		}
		sum := fnv.New64a()
		fmt.Fprint(sum, h.seed, h.id, time.Now().UnixNano(), n)
		return time.Duration(rand.New(rand.NewPCG(sum.Sum64(), source)).Int64N(int64(n)))
	}
}

// start starts a process with the document that the host has.
func (h *soakHost) start() {
	h.Helper()
	h.note(h.id, "start")
	if h.random.IntN(4) == 0 {
		h.boots, h.booted = h.boots+1, time.Now()
		h.note(h.id, "it has booted")
	}
	p := &process{ended: make(chan struct{})}
	clock, boot, booted := h.clock(), fmt.Sprint("boot-", h.boots), h.booted
	o := scheduler.Options{
		Peel: string(h.id), Zone: h.zone, StateFile: filepath.Join(h.dir, "schedule"), Clock: clock, Random: h.draw(p, 1),
		Boot:    func() (string, time.Duration) { return boot, time.Since(booted) },
		Exec:    func(ctx context.Context, f scheduler.Fire) wire.Result { return h.exec(ctx, p, f) },
		Report:  func(scheduler.Fire, wire.Result) bool { return true },
		Changed: func() { p.report.Changed() },
	}
	p.report = report.NewReporter(report.ReporterOptions{
		Peel: h.id, Clock: clock, Zone: h.zone, Log: slog.New(slog.DiscardHandler), Random: h.draw(p, 2),
		Account:  func(ctx context.Context) (scheduler.Account, error) { return p.sched.Account(ctx) },
		Settings: h.inForce,
		Send:     func(ctx context.Context, subject string, data []byte) bool { return h.send(ctx, p, subject, data) },
	})
	var err error
	if p.sched, err = scheduler.New(o); err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := p.sched.Run(ctx); err != nil && !p.dead.Load() {
			h.Errorf("%s: %v", h.id, err)
		}
	})
	parts.Go(func() { p.report.Run(ctx, h.nc) })
	go func() { parts.Wait(); close(p.ended) }()
	h.Cleanup(func() { cancel(); <-p.ended })
	if len(h.down) > 0 {
		h.down.end(time.Now())
	}
	h.process = p
	h.apply(p.sched.Begin)
}

// inForce is what reports say of the settings.
func (h *soakHost) inForce() report.Settings {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := maps.Clone(h.set)
	maps.DeleteFunc(of, func(name string, _ *schedule.Entry) bool { return kinds[name].local })
	return report.Settings{Commit: string(h.doc.Commit), Digest: string(h.doc.Digest), Schedule: of}
}

func (h *soakHost) apply(apply func(context.Context, schedule.Set) (schedule.Changes, error)) {
	h.Helper()
	if _, err := apply(h.Context(), h.set); err != nil {
		h.Fatal(err)
	}
}

// send sends a report, if the host is awake and the faults of the test let it.
func (h *soakHost) send(ctx context.Context, p *process, subject string, data []byte) bool {
	if p.dead.Load() || h.frozen.Load() != 0 || h.mute.Load() {
		return false
	}
	h.mu.Lock()
	h.reports, h.largest = append(h.reports, fmt.Sprint(time.Now().UTC().Format(time.StampMilli), " ", h.id, " reports")), max(h.largest, len(data))
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := h.js.Publish(ctx, subject, data)
	return err == nil && !h.deaf.Load()
}

// fate returns how long an attempt takes, and whether it succeeds. No two attempts end at one moment.
func (h *soakHost) fate(f scheduler.Fire) (time.Duration, bool) {
	sum := fnv.New64a()
	fmt.Fprint(sum, h.seed, h.id, f.Name, f.Nominal.UnixNano(), f.Attempt)
	r := rand.New(rand.NewPCG(sum.Sum64(), 0))
	longest := []time.Duration{time.Second, time.Minute, 20 * time.Minute}[r.IntN(3)]
	if k := kinds[f.Name]; k.takes > 0 {
		longest = k.takes
	}
	takes := time.Duration(1 + r.Int64N(int64(longest)))
	if kinds[f.Name].exact {
		takes = longest
	}
	return takes, kinds[f.Name].well || r.IntN(4) > 0
}

// exec is a run. One of a host that falls asleep ends after it woke.
func (h *soakHost) exec(ctx context.Context, p *process, f scheduler.Fire) wire.Result {
	if p.dead.Load() {
		return wire.Result{}
	}
	h.mu.Lock()
	var run *ranFire
	if f.Attempt > 1 {
		for _, r := range h.runs {
			if r.entry == f.Name && r.nominal.Equal(f.Nominal) {
				run = r
			}
		}
	}
	if run == nil {
		run = &ranFire{entry: f.Name, trigger: f.Trigger, nominal: f.Nominal.UTC(), started: time.Now(), ahead: time.Duration(h.ahead.Load())}
		h.runs = append(h.runs, run)
	}
	run.ended = time.Time{}
	h.mu.Unlock()
	takes, success := h.fate(f)
	timer := time.NewTimer(takes)
	defer timer.Stop()
	select {
	case <-timer.C:
		for h.frozen.Load() != 0 {
			time.Sleep(100 * time.Millisecond)
		}
	case <-ctx.Done():
		success = false
	}
	if p.dead.Load() {
		return wire.Result{}
	}
	h.mu.Lock()
	run.ended, run.failed = time.Now(), !success
	h.mu.Unlock()
	if !success {
		return wire.Result{Error: "exit status 3"}
	}
	return wire.Result{Success: true}
}

// kill ends the process as SIGKILL does: the next one finds the files as they are now, and nobody hears more of this one.
func (h *soakHost) kill() {
	h.Helper()
	h.note(h.id, "kill")
	synctest.Wait()
	p := h.process
	p.dead.Store(true)
	h.down.begin(time.Now())
	h.mu.Lock()
	for _, r := range h.runs {
		if r.ended.IsZero() {
			r.ended, r.failed, r.cut = time.Now(), true, true
		}
	}
	h.mu.Unlock()
	h.kills++
	next := filepath.Join(h.root, fmt.Sprint(h.id, "-", h.kills))
	copyPrivate(h, next, h.dir)
	p.stop()
	h.dir, h.process = next, nil
}

// halt ends the process as SIGTERM does, and waits until it has ended.
func (h *soakHost) halt() {
	h.Helper()
	h.note(h.id, "stop")
	p := h.process
	h.down.begin(time.Now())
	p.stop()
	<-p.ended
	h.process = nil
}

// copyPrivate copies a directory that only its owner can read.
func copyPrivate(t testing.TB, to, from string) {
	t.Helper()
	err := os.CopyFS(to, os.DirFS(from))
	if err == nil {
		err = filepath.WalkDir(to, func(path string, e fs.DirEntry, err error) error {
			mode := fs.FileMode(0o600)
			if e.IsDir() {
				mode = 0o700
			}
			return errors.Join(err, os.Chmod(path, mode))
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// tolerated is the largest error of a clock that counts as right.
const tolerated = 2 * time.Minute

// setClock sets the clock of the host, which is then ahead of the right time by d.
func (h *soakHost) setClock(d time.Duration) {
	h.note(h.id, "clock is %s ahead", d)
	before := time.Duration(h.ahead.Swap(int64(d)))
	h.marks = append(h.marks, mark{time.Now(), before})
	was := before.Abs() > tolerated
	switch is := d.Abs() > tolerated; {
	case is && !was:
		h.wrong.begin(time.Now())
	case was && !is:
		h.wrong.end(time.Now())
	}
}

// sleep suspends the host until wake is called.
func (h *soakHost) sleep() {
	h.note(h.id, "sleep")
	synctest.Wait()
	h.frozen.Store(time.Now().UnixNano())
	h.asleep.begin(time.Now())
}

func (h *soakHost) wake() {
	h.note(h.id, "wake")
	h.frozen.Store(0)
	h.asleep.end(time.Now())
}

// beat sends a heartbeat if the host can.
func (h *soakHost) beat() {
	if h.process != nil && h.frozen.Load() == 0 && !h.busOff {
		_ = h.nc.Publish(wire.Heartbeat(h.id.Wire()), nil)
	}
}

// connect connects the host with the bus.
func (h *soakHost) connect() {
	h.Helper()
	h.nc = h.bus.Conn(h, grants.RolePeel, h.id.Wire(), nats.MaxReconnects(-1), nats.ReconnectJitter(0, 0))
	var err error
	if h.js, err = jetstream.New(h.nc); err != nil {
		h.Fatal(err)
	}
}
