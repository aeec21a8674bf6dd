package simulate

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/scheduler"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// HostOptions configure a [Host]. Its functions are called by the methods of the host.
type HostOptions struct {
	Peel string         // the peel's ID, for splay_mode: host
	Zone *time.Location // the zone of entries that name none
	Seed uint64         // of random splay
	// Exec returns how long an attempt of a run takes, and whether it succeeds then. The entry's timeout ends a longer
	// one.
	Exec func(scheduler.Fire) (takes time.Duration, success bool)
	// Ended is called when a run has ended, or was interrupted by the end of the process.
	Ended func(f scheduler.Fire, r wire.Result, ended time.Time)
	// Skipped is called for n fires of an entry that do not run; nominal is the time of the first.
	Skipped func(entry string, why ledger.Reason, nominal time.Time, n int)
	// Listed is told what is written into the list of an entry; nil: nobody is.
	Listed func(entry string, f ledger.Fire)
}

// A Host is one peel with the process that runs its schedule, in a time that only its methods move. Call Start, Run and
// Kill in the order of their times.
type Host struct {
	o        HostOptions
	m        *scheduler.Simulation
	up       bool
	origin   time.Time
	now      scheduler.Instant
	wakeAt   time.Duration // when m wants to be called again
	attempts []*attempt    // of runs in flight, by the time of their end
	waits    int           // of attempts
}

// An attempt of a run in flight, or the wait before its next attempt.
type attempt struct {
	*scheduler.SimulatedRun
	end      time.Duration // as elapsed time
	result   wire.Result
	timedOut bool
	canceled bool
	waits    bool
}

// NewHost returns a host that has run nothing and whose process is down.
func NewHost(o HostOptions) *Host {
	h := &Host{o: o}
	random := rand.New(rand.NewPCG(o.Seed, 0))
	h.m = scheduler.NewSimulation(scheduler.SimulationOptions{
		Peel: o.Peel, Zone: o.Zone, Launch: h.launch, Skipped: o.Skipped, Listed: o.Listed,
		Now:    func() scheduler.Instant { return h.now },
		Random: func(n time.Duration) time.Duration { return time.Duration(random.Int64N(int64(n))) },
	})
	return h
}

// Start starts the process at a time with a schedule.
func (h *Host) Start(at time.Time, set schedule.Set) {
	if h.origin.IsZero() {
		h.origin = at
	}
	h.set(at.Sub(h.origin))
	h.m.Start(set)
	h.up, h.wakeAt = true, h.now.Up
}

// Kill does what is due before a time, and ends the process then as a power cut does.
func (h *Host) Kill(at time.Time) {
	h.Run(at)
	for _, a := range h.attempts {
		h.o.Ended(a.Fire, wire.Result{Outcome: wire.Interrupted}, h.now.Wall)
	}
	h.set(at.Sub(h.origin) - 1) // what is due at that time is missed
	h.m.Kill()
	h.up, h.attempts, h.waits = false, nil, 0
}

// Run does everything that is due before a time.
func (h *Host) Run(until time.Time) {
	for limit := until.Sub(h.origin); h.up; {
		next := h.wakeAt
		if len(h.attempts) > 0 {
			next = min(next, h.attempts[0].end)
		}
		if next >= limit {
			h.set(limit)
			return
		}
		h.set(next)
		for len(h.attempts) > 0 && h.attempts[0].end <= next {
			h.proceed(h.remove(0))
		}
		h.wakeAt = next + h.m.Wake()
		if h.waits > 0 {
			h.endWaits()
		}
	}
}

// List returns what became of the fires of an entry in the last 48 hours. Those that the host missed are in it once the
// process has started again.
func (h *Host) List(entry string) ledger.List { return h.m.List(entry) }

// Now returns the time of the host.
func (h *Host) Now() time.Time { return h.now.Wall }

// InFlight returns the runs that have not ended.
func (h *Host) InFlight() []scheduler.Fire {
	list := make([]scheduler.Fire, len(h.attempts))
	for i, a := range h.attempts {
		list[i] = a.Fire
	}
	return list
}

func (h *Host) set(up time.Duration) { h.now = scheduler.Instant{Wall: h.origin.Add(up), Up: up} }

// launch begins the first attempt of a run.
func (h *Host) launch(r *scheduler.SimulatedRun) {
	a := &attempt{SimulatedRun: r}
	r.OnCancel(func(cause error) {
		if i := slices.Index(h.attempts, a); i >= 0 && !a.canceled {
			h.remove(i)
			a.canceled, a.timedOut, a.result = true, false, wire.Result{Error: cause.Error()}
			h.await(a, 0, false)
		}
	})
	h.try(a)
}

// try begins the next attempt of a run. A timeout is a failure.
func (h *Host) try(a *attempt) {
	a.Fire.Attempt++
	takes, success := h.o.Exec(a.Fire)
	a.timedOut = false
	if limit := a.Fire.Entry.Timeout; limit > 0 && takes >= limit {
		takes, success, a.timedOut = limit, false, true
	}
	a.result = wire.Result{Success: success}
	h.await(a, takes, false)
}

// proceed continues a run whose attempt, or wait for another, is over.
func (h *Host) proceed(a *attempt) {
	retry := a.Fire.Entry.Failures.Retry
	switch {
	case a.canceled || a.result.Success || a.Fire.Attempt > retry.Attempts || !a.MayRetry():
		h.m.End(a.SimulatedRun, a.result, a.timedOut)
		h.o.Ended(a.Fire, a.result, h.now.Wall)
	case a.waits:
		h.try(a)
	default:
		h.await(a, retry.Backoff, true)
	}
}

// endWaits ends the waits of runs that may not be tried again.
func (h *Host) endWaits() {
	for _, a := range slices.Clone(h.attempts) {
		if a.waits && !a.MayRetry() {
			h.remove(slices.Index(h.attempts, a))
			h.await(a, 0, true)
		}
	}
}

// await arranges a call of proceed after a time.
func (h *Host) await(a *attempt, d time.Duration, waits bool) {
	a.end, a.waits = h.now.Up+d, waits
	if waits {
		h.waits++
	}
	i, _ := slices.BinarySearchFunc(h.attempts,
		a, func(x, a *attempt) int { return cmp.Or(cmp.Compare(x.end, a.end), -1) })
	h.attempts = slices.Insert(h.attempts, i, a)
}

// remove takes an attempt out of the list.
func (h *Host) remove(i int) *attempt {
	a := h.attempts[i]
	h.attempts = slices.Delete(h.attempts, i, i+1)
	if a.waits {
		h.waits--
	}
	return a
}
