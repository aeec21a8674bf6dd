package scheduler_test

import (
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A memory is something that an entry remembers when its process ends. The process is up from 00:00 to down, and the next
// one from up on. Times are those that the clock of the second process would have shown.
type memory struct {
	what     string
	set      string
	prepare  func(*host) // at 00:00
	down, up time.Duration
	until    time.Duration
	ran      []string // by start, of the entry e
	missed   []string // by nominal time
	skipped  []string // likewise
	killed   bool
	onlyDown bool // a step while the process is up has other effects
}

var memories = []memory{
	{
		what: "the end of the last run", set: "e: {module: test.ping, interval: 20m}",
		down: 30 * time.Minute, up: 70 * time.Minute, until: 110 * time.Minute,
		ran: []string{"00:20", "01:20", "01:40"}, missed: []string{"00:40", "01:00"},
	},
	{
		what: "the end of the last run, with catch_up", set: "e: {module: test.ping, interval: 20m, catch_up: run_once}",
		down: 30 * time.Minute, up: 70 * time.Minute, until: 110 * time.Minute,
		ran: []string{"00:20", "01:10", "01:30", "01:50"}, missed: []string{"00:40"},
	},
	{
		what: "the nominal time of the last fire", set: "e: {module: test.ping, interval: 20m, interval_from: start}",
		prepare: func(h *host) { h.take("e", 3*time.Minute) },
		down:    30 * time.Minute, up: 70 * time.Minute, until: 110 * time.Minute,
		ran: []string{"00:20", "01:20", "01:40"}, missed: []string{"00:40", "01:00"},
	},
	{
		what: "the start of a run that a kill cut off", set: "e: {module: test.ping, interval: 20m, interval_from: start}",
		prepare: func(h *host) { h.take("e", time.Hour) },
		down:    30 * time.Minute, up: 50 * time.Minute, until: 70 * time.Minute,
		ran: []string{"00:20", "01:00"}, missed: []string{"00:40"}, killed: true,
	},
	{
		what: "the start of a run from end to end that a kill cut off", set: "e: {module: test.ping, interval: 20m}",
		prepare: func(h *host) { h.take("e", time.Hour) },
		down:    30 * time.Minute, up: 50 * time.Minute, until: 70 * time.Minute,
		ran: []string{"00:20", "01:00"}, missed: []string{"00:40"}, killed: true,
	},
	{
		what: "the first activation", set: "e: {module: test.ping, interval: 1h}",
		down: 30 * time.Minute, up: 50 * time.Minute, until: 70 * time.Minute,
		ran: []string{"01:00"},
	},
	{
		what: "the begin of a delay", set: "e: {module: test.ping, after: 1h}",
		down: 30 * time.Minute, up: 50 * time.Minute, until: 70 * time.Minute,
		ran: []string{"01:00"},
	},
	{
		what: "the opening of a breaker", set: "e: {module: test.ping, interval: 10m, breaker: {threshold: 1, reset_after: 1h}}",
		prepare: func(h *host) { h.answer("e", func() wire.Result { return wire.Result{} }) },
		down:    25 * time.Minute, up: 45 * time.Minute, until: 85 * time.Minute,
		ran: []string{"00:10", "01:10", "01:20"}, skipped: []string{"00:20", "00:30", "00:40", "00:50", "01:00"},
	},
	{
		what: "the opening of a breaker whose probe a kill cut off",
		set:  "e: {module: test.ping, interval: 10m, breaker: {threshold: 1, reset_after: 15m}}",
		prepare: func(h *host) {
			h.answer("e", func() wire.Result { return wire.Result{} })
			time.AfterFunc(15*time.Minute, func() { h.take("e", time.Hour) })
		},
		down: 35 * time.Minute, up: 36 * time.Minute, until: 45 * time.Minute,
		ran: []string{"00:10", "00:30", "00:40"}, skipped: []string{"00:20"}, killed: true,
	},
	{
		what: "the begin of a wait, shorter than start_deadline",
		set: `{e: {module: test.ping, interval: 20m, group: g, if_running: queue, start_deadline: 50m},
            long: {module: test.ping, interval: 10m, group: g, if_running: queue}}`,
		prepare: func(h *host) { h.take("long", 2*time.Hour) },
		down:    30 * time.Minute, up: 60 * time.Minute, until: 61 * time.Minute,
		ran: []string{"01:00"}, missed: []string{"00:40", "01:00"},
	},
	{
		what: "the begin of a wait, longer than start_deadline",
		set: `{e: {module: test.ping, interval: 20m, group: g, if_running: queue, start_deadline: 30m},
            long: {module: test.ping, interval: 10m, group: g, if_running: queue}}`,
		prepare: func(h *host) { h.take("long", 2*time.Hour) },
		down:    30 * time.Minute, up: 60 * time.Minute, until: 61 * time.Minute,
		missed: []string{"00:20", "00:40", "01:00"},
	},
	{
		what: "the order of a skip", set: `e: {module: test.ping, cron: "0 * * * *"}`,
		prepare: func(h *host) { _, _ = h.Skip(h.t.Context(), "e", scheduler.Override{}) },
		down:    30 * time.Minute, up: 90 * time.Minute, until: 130 * time.Minute,
		ran: []string{"02:00"}, skipped: []string{"01:00"}, onlyDown: true,
	},
	{
		what: "a fire that is held",
		set:  `e: {module: test.ping, cron: "0 * * * *", only_between: "08:00-18:00", outside: defer}`,
		down: 150 * time.Minute, up: 250 * time.Minute, until: 490 * time.Minute,
		ran: []string{"08:00"}, onlyDown: true,
		skipped: []string{"01:00", "02:00", "03:00", "04:00", "05:00", "06:00", "07:00"},
	},
	{
		what: "the rest of a splay", set: `e: {module: test.ping, cron: "10 * * * *", splay: {min: 50m, max: 51m}}`,
		down: 25 * time.Minute, up: 45 * time.Minute, until: 62 * time.Minute,
		ran: []string{"01:00"}, onlyDown: true,
	},
}

// Whether the clock is set by 5 h in a stop, shortly before it, or not at all: an entry goes on as if it had been right.
func TestAStepOfTheClockMovesAllThatAnEntryRemembers(t *testing.T) {
	for _, m := range memories {
		for _, when := range []string{"while the peel is down", "before the stop"} {
			for _, step := range []time.Duration{-5 * time.Hour, 0, 5 * time.Hour} {
				if m.onlyDown && when != "while the peel is down" {
					continue
				}
				t.Run(m.what+"/"+when+"/"+step.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { m.try(t, when == "before the stop", step) })
				})
			}
		}
	}
}

func (m memory) try(t *testing.T, early bool, step time.Duration) {
	begin := time.Now()
	var clock tamper
	o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
	o.Boot = func() (string, time.Duration) { return "a", time.Since(begin) }
	o.Random = func(time.Duration) time.Duration { return 0 }
	clock.set(-step)
	h := clock.host(t, o)
	h.apply(parse(t, m.set))
	if m.prepare != nil {
		m.prepare(h)
	}
	time.Sleep(m.down - 2*time.Minute)
	ran := h.startedBy("e", step)
	if early {
		clock.set(step)
	}
	time.Sleep(2 * time.Minute)
	if m.killed {
		o = crash(t, o)
		h.stop()
	}
	h.shut()
	if !early {
		clock.set(step)
	}
	time.Sleep(time.Until(begin.Add(m.up)))
	h = clock.host(t, o)
	defer h.shut()
	h.apply(parse(t, m.set))
	time.Sleep(time.Until(begin.Add(m.until)))
	ran = append(ran, h.startedBy("e", 0)...)
	var missed, skipped []string
	list := h.entry("e").List
	for f := range list.All() {
		at := f.Nominal
		if f.Era == 1 {
			at = at.Add(step)
		}
		switch text := at.UTC().Format("15:04"); f.Outcome {
		case ledger.Missed:
			missed = append(missed, text)
		case ledger.Skipped:
			skipped = append(skipped, text)
		}
	}
	if !slices.Equal(ran, m.ran) || !slices.Equal(missed, m.missed) || !slices.Equal(skipped, m.skipped) {
		t.Errorf("ran %v, missed %v, skipped %v; want %v, %v, %v", ran, missed, skipped, m.ran, m.missed, m.skipped)
	}
}

// startedBy returns when the runs of an entry started by a clock that was set by step since.
func (h *host) startedBy(name string, step time.Duration) (at []string) {
	for _, f := range h.all() {
		if f.Name == name {
			at = append(at, f.Started.Add(step).UTC().Format("15:04"))
		}
	}
	return at
}

// The clock was set back, and a kill comes as a run begins: the run is the last one, although the one before it began at a
// later time of the clock.
func TestTheLastRunIsTheLastAlsoAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		var clock tamper
		o := scheduler.Options{StateFile: filepath.Join(t.TempDir(), "state"), Zone: time.UTC}
		o.Boot = func() (string, time.Duration) { return "a", time.Since(begin) }
		set := parse(t, "e: {module: test.ping, interval: 20m}\nother: {module: test.ping, interval: 39m59s500ms}") // written just before
		h := clock.host(t, o)
		h.apply(set)
		time.Sleep(30 * time.Minute)
		clock.set(-5 * time.Hour)
		h.mu.Lock()
		h.takes["e"] = time.Hour
		h.mu.Unlock()
		time.Sleep(10*time.Minute + 100*time.Millisecond)
		killed := crash(t, o)
		h.stop()
		h.shut()
		h = clock.host(t, killed)
		defer h.shut()
		h.apply(set)
		want := begin.Add(40*time.Minute - 5*time.Hour)
		if e := h.entry("e"); !e.Started.Equal(want) || !e.Fired.Equal(want) || e.Interrupted != 1 {
			t.Errorf("it began at %v, fired at %v, want %v; %d were interrupted", e.Started, e.Fired, want, e.Interrupted)
		}
		time.Sleep(20 * time.Minute)
		h.expectNominal("e", "31 20:00")
	})
}

// A pause ends, and an interval from start to start goes on as if there had been none, also if the clock was set in it.
func TestAnIntervalFromStartToStartKeepsItsTimesOverAPause(t *testing.T) {
	for _, step := range []time.Duration{-5 * time.Hour, 0, 5 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var clock tamper
			h := clock.host(t, scheduler.Options{Zone: time.UTC})
			defer h.shut()
			h.apply(one(t, "interval: 35m, interval_from: start"))
			time.Sleep(40 * time.Minute)
			if err := h.Pause(t.Context(), "e", scheduler.Override{}); err != nil {
				t.Fatal(err)
			}
			clock.set(step)
			time.Sleep(10 * time.Minute)
			if err := h.Resume(t.Context(), "e", "ada"); err != nil {
				t.Fatal(err)
			}
			if e := h.entry("e"); !e.NextNominal.Equal(h.begin.Add(70*time.Minute + step)) {
				t.Errorf("after a step of %v the next fire is at %v", step, e.NextNominal)
			}
		})
	}
}
