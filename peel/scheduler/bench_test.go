package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

const many = 10_000

// large is a set of many entries, half of them interval and half cron; no two calls share an entry.
func large(b *testing.B) schedule.Set {
	set := schedule.Set{}
	for part := range many / schedule.MaxEntries {
		var text strings.Builder
		for i := range schedule.MaxEntries {
			n := part*schedule.MaxEntries + i
			timing := fmt.Sprintf("interval: %ds, splay: 5m", 3600+n)
			if n%2 == 1 {
				timing = fmt.Sprintf(`cron: "%d %d * * *", splay: 15m`, n%60, n%24)
			}
			fmt.Fprintf(&text, "entry-%05d: {module: cmd.run, %s, args: {command: \"df -h\", n: %d}}\n", n, timing, n)
		}
		maps.Copy(set, parse(b, text.String()))
	}
	return set
}

func idle(b *testing.B) *scheduler.Scheduler {
	s, err := scheduler.New(scheduler.Options{
		Exec: func(context.Context, scheduler.Fire) wire.Result { return wire.Result{Success: true} },
	})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// running has the scheduler run until f returns.
func running(b *testing.B, s *scheduler.Scheduler, f func()) {
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	f()
	stop()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}

func mustApply(b *testing.B, s *scheduler.Scheduler, set schedule.Set) schedule.Changes {
	changes, err := s.Apply(b.Context(), set)
	if err != nil {
		b.Fatal(err)
	}
	return changes
}

func BenchmarkApplyTenThousandEntries(b *testing.B) {
	set := large(b)
	for b.Loop() {
		s := idle(b)
		running(b, s, func() { mustApply(b, s, set) })
	}
}

// The set comes from a new parse each time, as it does on a peel, so that every entry must be compared.
func BenchmarkReloadOfTenThousandEntriesWithOneChange(b *testing.B) {
	first, sets := large(b), [2]schedule.Set{large(b), large(b)}
	changed := *sets[1]["entry-00042"]
	changed.Args = map[string]any{"command": "df"}
	sets[1]["entry-00042"] = &changed
	s := idle(b)
	running(b, s, func() {
		mustApply(b, s, first)
		i := 0
		for b.Loop() {
			i++
			if c := mustApply(b, s, sets[i%2]); len(c.Kept) != many-1 || len(c.Swapped) != 1 {
				b.Fatalf("%d kept, %d swapped", len(c.Kept), len(c.Swapped))
			}
		}
	})
}

func BenchmarkState(b *testing.B) {
	s := idle(b)
	running(b, s, func() {
		mustApply(b, s, large(b))
		for b.Loop() {
			if list, err := s.State(b.Context()); err != nil || len(list) != many {
				b.Fatal(len(list), err)
			}
		}
	})
}

// One operation is one wake at which nothing is due. There is one a minute.
func BenchmarkWakeWithTenThousandIdleEntries(b *testing.B) {
	s := idle(b)
	running(b, s, func() {
		mustApply(b, s, large(b))
		for b.Loop() {
			s.Settle(b.Context())
		}
	})
}

// One operation is one fire: taking it from the heap, its run, and the plan of the next.
func BenchmarkFire(b *testing.B) {
	var text strings.Builder
	for i := range schedule.MaxEntries {
		fmt.Fprintf(&text, "e%d: {module: test.ping, cron: \"* * * * *\", maxrunning: 9}\n", i)
	}
	set := parse(b, text.String())
	var runs sync.WaitGroup
	var forward atomic.Int64
	s, err := scheduler.New(scheduler.Options{Exec: func(context.Context, scheduler.Fire) wire.Result {
		runs.Done()
		return wire.Result{Success: true}
	}})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now().Round(0)
	s.AlterClock(func(time.Time, time.Duration) (time.Time, time.Duration) {
		d := time.Duration(forward.Load())
		return start.Add(d), d
	})
	running(b, s, func() {
		mustApply(b, s, set)
		for n := 0; b.Loop(); n++ {
			if n%schedule.MaxEntries == 0 {
				runs.Wait()
				s.Settle(b.Context())
				runs.Add(schedule.MaxEntries)
				forward.Add(int64(time.Minute))
				s.Settle(b.Context())
			}
		}
		runs.Wait()
	})
}

func BenchmarkMemoryPerEntry(b *testing.B) {
	set := large(b)
	var before, after runtime.MemStats
	for b.Loop() {
		s := idle(b)
		running(b, s, func() {
			runtime.GC()
			runtime.ReadMemStats(&before)
			mustApply(b, s, set)
			runtime.GC()
			runtime.ReadMemStats(&after)
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/many, "B/entry")
		})
	}
	runtime.KeepAlive(set)
}
