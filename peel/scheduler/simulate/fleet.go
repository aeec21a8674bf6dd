package simulate

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/schedule/forecast"
	"github.com/seed-c01c3da5/zester/settings/sorting"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// Limits of a simulation.
const (
	MaxFor   = 366 * 24 * time.Hour
	maxCells = 64 << 20 // entries times minutes, 4 bytes each
)

// A Span is a time in which peels are down: [From, Until).
type Span struct{ From, Until time.Time }

// Options say which time a simulation covers and what happens in it.
type Options struct {
	From    time.Time      // truncated to the minute
	For     time.Duration  // whole minutes, up to MaxFor
	Zone    *time.Location // zone of the result and of entries that name none
	Takes   func(entry string) time.Duration
	Away    map[target.PeelID][]Span // in which one peel is down
	Outages []Span                   // in which all peels are down
	// Progress, if not nil, is called for every peel that is done, by one goroutine at a time.
	Progress func(done, peels int)
	// Ran, if not nil, is called for every run, peel by peel, on one goroutine. An error ends the simulation. It takes
	// longer: one processor does the work, and no peel stands for another.
	Ran func(PeelRun) error
}

// A PeelRun is one run on one peel. Ended and Result are zero for a run that is in flight at the end.
type PeelRun struct {
	Peel    target.PeelID `json:"peel"`
	Entry   string        `json:"entry"`
	Trigger wire.Trigger  `json:"trigger"`
	Nominal time.Time     `json:"nominal"`
	Started time.Time     `json:"started"`
	Ended   time.Time     `json:"ended,omitzero"`
	Result  Outcome       `json:"result,omitempty"`
}

// An Outcome says how a run ended.
type Outcome string

// The outcomes of a run.
const (
	Done        Outcome = "done"
	TimedOut    Outcome = "timeout"
	Replaced    Outcome = "replaced"    // canceled for the next run
	Interrupted Outcome = "interrupted" // its peel went down
)

// Run simulates the schedules of a fleet. It uses all processors. The memory depends on the number of entries with
// different names and on the time, not on the number of peels.
func Run(ctx context.Context, groups []forecast.Group, o Options) (*Result, error) {
	if o.For < time.Minute || o.For > MaxFor || o.For%time.Minute != 0 {
		return nil, fmt.Errorf("cannot simulate %v: it is between 1m and %dd, in whole minutes", o.For,
			MaxFor/(24*time.Hour))
	}
	o.From = o.From.Truncate(time.Minute).In(o.Zone)
	f := &fleet{Options: o, index: map[string]int{}, until: o.From.Add(o.For), minutes: int(o.For / time.Minute)}
	f.collect(groups)
	if cells := len(f.entries) * f.minutes; cells > maxCells {
		return nil, fmt.Errorf("cannot simulate %d different entries for %d days at once: %d days are possible",
			len(f.entries), o.For/(24*time.Hour), time.Duration(maxCells/len(f.entries))*time.Minute/(24*time.Hour))
	}
	f.runs, f.ends = make([]uint32, len(f.entries)*f.minutes), make([]uint32, f.minutes)
	f.prepare(groups)
	workers, ctx := errgroup.WithContext(ctx)
	parts := make([]*part, runtime.GOMAXPROCS(0))
	if o.Ran != nil {
		parts = parts[:1]
	}
	for i := range parts {
		parts[i] = &part{fleet: f, entries: make([]Entry, len(f.entries))}
		workers.Go(func() error { return parts[i].work(ctx) })
	}
	if err := workers.Wait(); err != nil {
		return nil, err
	}
	return f.result(parts), nil
}

// A fleet is what the workers of a simulation share.
type fleet struct {
	Options
	until   time.Time
	minutes int
	peels   int
	entries []Entry        // sorted by name
	index   map[string]int // of entries by name
	runs    []uint32       // that begin, by entry and minute
	ends    []uint32       // of runs, by minute
	jobs    []job
	next    atomic.Int64 // job

	mu   sync.Mutex
	done int
}

// A job is one peel that is simulated for a number of equal peels.
type job struct {
	peel  target.PeelID
	peels int
	set   schedule.Set
	down  []Span // sorted, without overlaps
}

// collect lists the entries of all groups.
func (f *fleet) collect(groups []forecast.Group) {
	peels := map[string]int{}
	for _, g := range groups {
		f.peels += len(g.Peels)
		for name, e := range g.Schedule {
			if e.Enabled {
				peels[name] += len(g.Peels)
			}
		}
	}
	for i, name := range slices.Sorted(maps.Keys(peels)) {
		f.index[name] = i
		f.entries = append(f.entries, Entry{Name: name, Peels: peels[name]})
	}
}

// prepare makes the jobs, in the order of the names of the peels.
func (f *fleet) prepare(groups []forecast.Group) {
	for _, g := range groups {
		equal := !slices.ContainsFunc(slices.Collect(maps.Values(g.Schedule)), func(e *schedule.Entry) bool {
			return e.Splay.Max > 0
		})
		shared := -1 // the job of the peels that are never down alone
		for _, id := range slices.Sorted(slices.Values(g.Peels)) {
			alone := f.Away[id]
			if equal && len(alone) == 0 && shared >= 0 && f.Ran == nil {
				f.jobs[shared].peels++
				continue
			}
			if len(alone) == 0 {
				shared = len(f.jobs)
			}
			f.jobs = append(f.jobs, job{id, 1, g.Schedule, f.merge(alone)})
		}
	}
	sorting.Func(f.jobs, func(a, b job) int { return cmp.Compare(a.peel, b.peel) })
}

// merge returns the times within the simulation in which a peel is down: its own and those of all.
func (f *fleet) merge(alone []Span) []Span {
	all := slices.Concat(f.Outages, alone)
	sorting.Func(all, func(a, b Span) int { return a.From.Compare(b.From) })
	var list []Span
	for _, s := range all {
		if s.From.Before(f.From) {
			s.From = f.From
		}
		if s.Until.After(f.until) {
			s.Until = f.until
		}
		last := len(list) - 1
		switch {
		case !s.From.Before(s.Until):
		case last >= 0 && !s.From.After(list[last].Until):
			if s.Until.After(list[last].Until) {
				list[last].Until = s.Until
			}
		default:
			list = append(list, s)
		}
	}
	return list
}

// A part is what one worker counts.
type part struct {
	*fleet
	entries []Entry
	job     *job
	err     error // of Options.Ran
}

func (p *part) work(ctx context.Context) error {
	for {
		i := int(p.next.Add(1)) - 1
		if i >= len(p.jobs) {
			return nil
		}
		p.job = &p.jobs[i]
		if err := p.simulate(ctx); err != nil {
			return err
		}
		p.mu.Lock()
		p.done += p.job.peels
		if p.Progress != nil {
			p.Progress(p.done, p.peels)
		}
		p.mu.Unlock()
	}
}

// simulate carries out the job.
func (p *part) simulate(ctx context.Context) error {
	seed := fnv.New64a()
	_, _ = seed.Write([]byte(p.job.peel)) // it never fails
	h := NewHost(HostOptions{
		Peel: string(p.job.peel), Zone: p.Zone, Seed: seed.Sum64(), Ended: p.onEnd, Skipped: p.onSkip, Listed: p.onFire,
		Exec: func(f scheduler.Fire) (time.Duration, bool) {
			if f.Attempt == 1 {
				p.onStart(f)
			}
			return p.Takes(f.Name), true
		},
	})
	at := p.From
	for _, s := range append(p.job.down, Span{p.until, p.until}) {
		if at.Before(s.From) {
			h.Start(at, p.job.set)
			if err := p.run(ctx, h, at, s.From); err != nil {
				return err
			}
			if s.From.Before(p.until) {
				h.Kill(s.From)
			}
		}
		at = s.Until
	}
	for _, f := range h.InFlight() {
		p.tell(f, time.Time{}, "")
	}
	if down := p.job.down; len(down) > 0 && down[len(down)-1].Until.Equal(p.until) {
		h.Start(p.until, p.job.set) // for what it has missed
	}
	return p.err
}

func (p *part) onFire(name string, f ledger.Fire) {
	switch e, n := &p.entries[p.index[name]], uint64(p.job.peels); {
	case f.Outcome == ledger.Missed:
		e.Missed += n
	case f.Outcome != ledger.Pending && f.Overran:
		e.Overran += n
	}
}

// run runs a host day by day, until the context ends.
func (p *part) run(ctx context.Context, h *Host, at, until time.Time) error {
	for at.Before(until) && ctx.Err() == nil && p.err == nil {
		at = earlier(at.AddDate(0, 0, 1), until)
		h.Run(at)
	}
	return cmp.Or(p.err, ctx.Err())
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// tell calls Options.Ran.
func (p *part) tell(f scheduler.Fire, ended time.Time, o Outcome) {
	if p.Ran != nil && p.err == nil {
		p.err = p.Ran(PeelRun{p.job.peel, f.Name, f.Trigger, f.Nominal, f.Started, ended.In(p.Zone), o})
	}
}

// minute returns the number of a minute of the simulation.
func (f *fleet) minute(at time.Time) int { return int(at.Sub(f.From) / time.Minute) }

func (p *part) onStart(f scheduler.Fire) {
	i, n := p.index[f.Name], uint64(p.job.peels)
	e := &p.entries[i]
	atomic.AddUint32(&p.runs[i*p.minutes+p.minute(f.Started)], uint32(n))
	e.Runs += n
	if f.Late {
		e.Late += n
	}
	if f.Trigger == wire.TriggerCatchUp {
		e.CaughtUp += n
	}
	if f.Trigger == wire.TriggerTimer && f.Started.Sub(f.Fired) >= time.Second {
		e.Waited += n
	}
}

func (p *part) onEnd(f scheduler.Fire, r wire.Result, ended time.Time) {
	e, n := &p.entries[p.index[f.Name]], uint64(p.job.peels)
	atomic.AddUint32(&p.ends[min(p.minute(ended), p.minutes-1)], uint32(n))
	o := Done
	switch {
	case r.Outcome == wire.Interrupted:
		o = Interrupted
		e.Interrupted += n
	case r.Success:
	case r.Error != "":
		o = Replaced
		e.Cut += n
	default:
		o = TimedOut
		e.Cut += n
	}
	p.tell(f, ended, o)
}

func (p *part) onSkip(entry string, why ledger.Reason, nominal time.Time, n int) {
	if why == ledger.DeadlineExceeded { // missed
		return
	}
	e := &p.entries[p.index[entry]]
	e.skip(why, Skips{Fires: uint64(n * p.job.peels), First: nominal, Peel: p.job.peel})
}
