package scheduler

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// SimulationOptions are what a [Simulation] has in place of a host.
type SimulationOptions struct {
	Peel    string         // the peel's ID, for splay_mode: host
	Zone    *time.Location // the zone of entries that name none
	Now     func() Instant
	Random  func(n time.Duration) time.Duration // for random splay, below n
	Launch  func(*SimulatedRun)                 // notes that a run begins; see [Simulation.End]
	Skipped func(entry string, why ledger.Reason, nominal time.Time, n int)
	Listed  func(entry string, f ledger.Fire) // is told what is written into the list of an entry; nil: nobody is
}

// A Simulation is the scheduler of one peel without goroutines, clock and files. It decides when entries fire by the
// same code as [Scheduler.Run]. Its methods return at once, and must not be called at the same time.
type Simulation struct {
	s     *Scheduler
	owner *owner // nil: the process is down
}

// A SimulatedRun is a run in flight of a [Simulation].
type SimulatedRun struct {
	Fire Fire
	run  *run
}

// NewSimulation returns a simulation of a host that has run nothing and whose process is down.
func NewSimulation(o SimulationOptions) *Simulation {
	log := slog.New(slog.DiscardHandler)
	s := &Scheduler{o: Options{Peel: o.Peel, Zone: o.Zone, Log: log}, log: log, ended: make(chan *run)}
	launch := func(r *run) { o.Launch(&SimulatedRun{r.fire, r}) }
	runs := 0
	number := func() wire.JID { runs++; return wire.JID(strconv.Itoa(runs)) }
	s.outside = outside{
		now:          o.Now,
		random:       o.Random,
		launch:       launch,
		onSkip:       o.Skipped,
		onFire:       o.Listed,
		newJID:       number,
		longestSleep: LongAgo,
	}
	return &Simulation{s: s}
}

// Start starts the process with a schedule. It finds what the last one left.
func (m *Simulation) Start(set schedule.Set) {
	m.owner = newOwner(m.s)
	m.owner.begin(set)
}

// Kill ends the process as a power cut does: runs in flight are interrupted.
func (m *Simulation) Kill() {
	m.s.loaded = m.owner.change().State
	for name, h := range m.s.loaded.Entries {
		m.s.loaded.Entries[name] = h.Clone()
	}
	for _, r := range m.owner.runs {
		m.s.loaded.Open = append(m.s.loaded.Open, r.record())
	}
	m.owner = nil
}

// Wake does everything that is due, and returns the time until it must be called again. Call it after Start, after End
// and after that time.
func (m *Simulation) Wake() time.Duration { return m.owner.wake() }

// End ends a run. timedOut says that the entry's timeout has ended it.
func (m *Simulation) End(r *SimulatedRun, result wire.Result, timedOut bool) {
	r.run.result, r.run.timedOut, r.run.ended = result, timedOut, m.s.now()
	m.owner.finish(r.run)
}

// List returns what became of the fires of an entry in the last 48 hours.
func (m *Simulation) List(entry string) ledger.List {
	if m.owner == nil {
		return m.s.loaded.Entries[entry].List
	}
	e, now := m.owner.entries[entry], m.s.now()
	m.owner.settleHeld(e, now)
	e.List.Forget(m.owner.marks, now.Wall)
	return e.List.Clone()
}

// OnCancel has f called if the run is canceled. It must be called by SimulationOptions.Launch. f must not call the
// simulation.
func (r *SimulatedRun) OnCancel(f func(error)) { r.run.cancel = f }

// MayRetry reports whether the run may be tried again after a failure.
func (r *SimulatedRun) MayRetry() bool {
	select {
	case <-r.run.noRetry:
		return false
	default:
		return true
	}
}
