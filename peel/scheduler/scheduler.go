// Package scheduler runs the entries of a schedule on one host.
//
// Call [New], which reads the history of the last process, then [Scheduler.Run] on a goroutine of its own. Give the
// first schedule to [Scheduler.Begin] and every later one to [Scheduler.Apply]. The steps of a fire (due, admitted,
// started, ended, reported) are in fire.go, the goroutine of a run is in run.go, and package rules decides when entries
// fire.
//
// The goroutine of [Scheduler.Run] owns all entries. It sleeps until the earliest fire, at most a minute, so that it
// notices a suspend of the host or a change of its clock. An idle entry has no goroutine; a run in flight has one.
//
// # Fires
//
// An entry has at most one next fire: a nominal time, given by its timing, and the splay drawn for it. When both have
// passed, the scheduler checks in this order: the entry's state and life, an operator's skip, the windows at the
// nominal time, the breaker at that time, the windows now, and the runs that share its limit. A fire that may not run
// is counted under one [ledger.Reason] and logged. With outside: defer it is held until the windows open; if_running
// may have it wait for a slot. Each entry has at most one held and one waiting fire. Fires that are due together start
// in the order of their nominal times, at most five before the scheduler handles other events.
//
// Fires that were missed while the process was down, or that are later than the start deadline, are made up as catch_up
// says, when the entry has a free slot: five at once, then one every 5 s over all entries, and never two of an entry
// within 5 s. Only fires of the entry's present timing count, from times at which it was active, its windows open and
// its life not over.
//
// # Lists
//
// Each fire is in the list of its entry ([History]) once for each clock, under its nominal time: it ran, a rule or an
// operator skipped it, or it was missed, which has no rule: the process was down, the host suspended, the start
// deadline passed, or catch_up allows no more. What the list has is decided, and nothing else is. At a start, the times
// since the last record of the process before that the list lacks were missed, by the present definition; none if the
// clock shows less. One that waits for a slot is missed at its start deadline. All lists together have at most 250,000
// fires; beyond, the longest begin later.
//
// When the wall clock is set, first all is done that was due by the old clock. Times between the two clocks are not in
// the lists, but an entry of the wall clock fires once for those that it was set over, as after a suspend. A fire that
// waits for its splay waits for the rest of it, one that is held for the windows by the new clock. What is owed ahead
// of the new clock is missed, and the timer fires it.
//
// What an entry counts from (the last run of an interval, the opening of its breaker, the begin of a wait or a delay)
// is as long ago as before when the clock is set, also in a stop, unless the host boots: then nobody knows by how much.
//
// # Failures
//
// A failed run is tried again within the same run: it keeps its slot, and only its last attempt is recorded and
// reported. Failures in a row open the entry's breaker, which lets a single probe through after a while, or they pause
// the entry. A run that is canceled for the next one is a failure, but does not count as one in a row.
//
// A run frees its slot when it ends, and its report is stored afterwards: an interval does not wait for a slow disk or
// bus. At most 64 reports are in progress at a time; the next run that ends keeps its slot until its report is stored.
//
// # Reload
//
// [Scheduler.Apply] replaces the whole set and acts on the difference: an equal entry keeps its next fire to the
// nanosecond, also in the middle of its splay. Apply starts no run, and it never waits for one; only [Scheduler.Begin]
// fires run_on_start. The history of an entry is kept under its name, across reloads, removal and restarts, and its
// runs in flight count towards maxrunning all that time. A changed entry starts with no failures in a row; one whose
// timing changes starts a new life.
//
// # State
//
// What changes is appended to the state file within a second, and flushed. Orders of operators are flushed before they
// are answered. The file is written anew when it has doubled, and by each process; the one before it keeps the suffix
// ".1".
//
// Each run has a record in it, which is flushed before the run begins, and counts until the file has the run's end and
// its report is stored. A process that finds a record at its start adds the run to the history and reports it. A record
// without an end means that the run was interrupted: it is reported as a failed job if return_job includes failures. It
// counts towards max_runs, because it may have done its work, but neither as a success nor as a failure of the entry.
// So every run that began leaves a trace; a crash loses only the skips of its last second.
//
// A fire of the wall clock that waits for its splay when the process ends still waits for it in the next one, which
// misses it if it starts too late. A process that stops waits up to 10 s for its runs, and up to 5 s for those that it
// then cancels. It starts no run meanwhile: the next process counts these fires as missed.
//
// # Known gaps
//
// If the disk refuses the record, the run starts without it, with an error in the log: a kill then leaves no trace of
// the run, so its fire counts as missed, and catch_up may run it again. The end of a run is not flushed: after a power
// cut a run that has just ended may count as interrupted. Outside Linux the time during which the host was suspended is
// not counted, and intervals stand still. A fire that was skipped in the last second before a kill counts as missed.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-c01c3da5/zester/peel/ledger"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// Options configure a scheduler. Only Exec is required. Source, Able, PausedErrors and Changed are called on the
// goroutine of Run.
type Options struct {
	Peel string         // the peel's ID, for logs and for splay_mode: host
	Zone *time.Location // the zone of entries that name none; nil: the host's
	// Exec runs an entry and returns when the run has ended. It is called on the goroutine of the run. The context ends
	// at the entry's timeout, and when the run is canceled; [context.Cause] is the text for the report. Exec must then
	// return soon: the run counts towards maxrunning until it does.
	Exec func(context.Context, Fire) wire.Result
	// Report, if not nil, stores the report of an ended run if return_job wants one, and reports whether it is stored.
	// It gets the result of the last attempt. It is called on the goroutine of the run and may block: the run has freed
	// its slot.
	Report func(Fire, wire.Result) (stored bool)
	// Source, if not nil, returns the origin of an entry's present definition. It is called when a run of the entry
	// starts.
	Source func(entry string) Source
	// Able, if not nil, returns an error for an entry that this host cannot run, such as one whose function it does not
	// have. The entry is then listed as paused_invalid.
	Able func(*schedule.Entry) error
	// PausedErrors, if not nil, is called with the sorted names of the entries that are paused_errors, whenever they
	// change.
	PausedErrors func(entries []string)
	// Changed, if not nil, is called when an entry changes its [Class], and when the wall clock is set.
	Changed func()
	// StateFile is the file with the entries' history and the records of runs, of mode 0600. If empty, nothing is kept
	// on disk.
	StateFile string
	Clock     func() Instant // nil: those of this host
	// Boot, if not nil, returns a name of the boot of the host and the time since then, suspends included. See [Boot].
	Boot func() (id string, up time.Duration)
	// Random returns a random time below n, for splay; nil: the source of the process.
	Random func(n time.Duration) time.Duration
	Log    *slog.Logger // nil: silent
}

// A Fire is one run of an entry. Times are of the wall clock, and Nominal ≤ Fired ≤ Started.
type Fire struct {
	JID     wire.JID        // names the run, in the peel's history and as the job that reports it
	Entry   *schedule.Entry // as it was when the run started
	Source  Source          // of Entry
	Name    string
	Trigger wire.Trigger
	Nominal time.Time // the time of the timing
	Fired   time.Time // the nominal time and the splay
	Started time.Time
	Late    bool        // it started more than late_after after Nominal
	Attempt int         // 1 for the first, then one more for each retry
	By      string      // who ran it by hand
	held    bool        // it was held until the windows opened
	listed  ledger.Fire // as it is in the list
	// AfterStored has do called when the run has ended and its report, if there is one, was stored or refused.
	AfterStored func(do func())
}

// A Scheduler runs the entries of one schedule. Its methods are safe for concurrent use.
type Scheduler struct {
	o   Options
	log *slog.Logger
	outside
	loaded   StoredState
	disk     *Store
	begun    atomic.Bool // Run was called
	commands chan func(*owner)
	ended    chan *run
	reported chan *run     // runs after their call of Options.Report
	reports  chan struct{} // has an element for each report in progress
	stopping chan struct{} // closed when commands are no longer accepted
	gone     chan struct{} // closed when the owner no longer receives runs

	unrecorded atomic.Bool // the last run began without a record on disk
}

// outside is what the goroutine of Run takes from outside the scheduler. A [Simulation] has its own.
type outside struct {
	now    func() Instant
	random func(n time.Duration) time.Duration                             // for splay, below n
	launch func(*run)                                                      // carries out a run
	onSkip func(entry string, why ledger.Reason, nominal time.Time, n int) // nil: nobody wants to know
	// is told what is written into the lists; nil likewise
	onFire       func(entry string, f ledger.Fire)
	newJID       func() wire.JID
	longestSleep time.Duration
}

// ErrStopped: Run has ended or is about to end.
var ErrStopped = errors.New("the scheduler has stopped")

// New reads the state file. A record that is damaged is left out, and of a file without any that can be read, the one
// before it counts; [Scheduler.Damage] says so. Nothing runs before [Scheduler.Run].
func New(o Options) (*Scheduler, error) {
	if o.Exec == nil {
		return nil, errors.New("cannot make a scheduler without Exec")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Zone == nil {
		o.Zone = time.Local
	}
	s := &Scheduler{
		o: o, log: o.Log.With("peel", o.Peel),
		commands: make(chan func(*owner)), ended: make(chan *run),
		reported: make(chan *run), reports: make(chan struct{}, maxReports),
		stopping: make(chan struct{}), gone: make(chan struct{}),
	}
	if o.Clock == nil {
		o.Clock = NewClock()
	}
	if o.Random == nil {
		o.Random = rand.N[time.Duration]
	}
	s.outside = outside{now: o.Clock, random: o.Random, launch: s.spawn, newJID: wire.NewJID, longestSleep: maxSleep}
	var err error
	if s.disk, s.loaded, err = OpenStore(o.StateFile, s.log); err != nil {
		return nil, err
	}
	return s, nil
}

// Damage says what of the state file could not be read; empty if all was.
func (s *Scheduler) Damage() string { return s.disk.Damage() }

// When the scheduler stops, runs in flight have stopGrace to end, and cancelGrace after they are canceled.
const (
	stopGrace   = 10 * time.Second
	cancelGrace = 5 * time.Second
)

// Run runs the schedule until ctx ends. Then runs in flight have 10 s to end, are canceled, and have 5 s more. Run
// returns when the state is stored. The error names the runs that did not end and the file that could not be stored.
// Run can be called once.
func (s *Scheduler) Run(ctx context.Context) error {
	if s.begun.Swap(true) {
		return errors.New("cannot run a scheduler twice")
	}
	o := newOwner(s)
	timer := time.NewTimer(o.wake())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			close(s.stopping)
			return o.stop()
		case command := <-s.commands:
			o.compareClocks(s.now())
			command(o)
		case r := <-s.ended:
			o.finish(r)
		case r := <-s.reported:
			o.onReported(r)
		case err := <-o.Saved:
			o.After(err, s.now().Wall, s.log)
		case <-timer.C:
		}
		timer.Reset(o.wake())
	}
}

// Begin is [Scheduler.Apply] for the first schedule of a process. Entries with run_on_start that become active are due
// when it returns.
func (s *Scheduler) Begin(ctx context.Context, set schedule.Set) (schedule.Changes, error) {
	return s.apply(ctx, set, (*owner).begin)
}

// Apply makes set the schedule and returns the differences from the schedule before. The caller may change the set
// afterwards, but not its entries. Apply waits until Run receives it, and for nothing else, and it starts no run. An
// entry that this host cannot run, or whose zone it does not know, is listed as paused_invalid. The error is
// [ErrStopped] or the error of ctx.
func (s *Scheduler) Apply(ctx context.Context, set schedule.Set) (schedule.Changes, error) {
	return s.apply(ctx, set, (*owner).apply)
}

func (s *Scheduler) apply(ctx context.Context, set schedule.Set,
	do func(*owner, schedule.Set) schedule.Changes,
) (schedule.Changes, error) {
	var changes schedule.Changes
	err := s.do(ctx, func(o *owner) { changes = do(o, set) })
	if err != nil {
		return schedule.Changes{}, fmt.Errorf("cannot apply a schedule of %d entries: %w", len(set), err)
	}
	return changes, nil
}

// State lists the entries of the schedule, sorted by name. It waits until Run receives it. The error is [ErrStopped] or
// the error of ctx.
func (s *Scheduler) State(ctx context.Context) ([]EntryState, error) {
	var list []EntryState
	err := s.do(ctx, func(o *owner) { list = o.state() })
	if err != nil {
		return nil, fmt.Errorf("cannot list the schedule: %w", err)
	}
	return list, nil
}

// An Account is what a scheduler tells of its schedule to masters.
type Account struct {
	Marks   ledger.Marks
	Entries []EntryState // as of [Scheduler.State]
	Removed []EntryState // entries that were removed in the last 48 hours, sorted by name
	Memory  time.Time    // since when the disk has refused the lists; zero: it has not
}

// Account returns the account of the schedule, its lists included. The lists have all fires that are due, also those of
// a suspend from which the host has just woken. Its errors are those of [Scheduler.State].
func (s *Scheduler) Account(ctx context.Context) (a Account, err error) {
	err = s.do(ctx, func(o *owner) {
		o.wake()
		for len(o.ready) > 0 {
			o.wake()
		}
		a = Account{slices.Clone(o.marks), o.state(), o.removed(), o.Memory}
	})
	if err != nil {
		return a, fmt.Errorf("cannot list the schedule: %w", err)
	}
	return a, nil
}

// do makes the owner goroutine call f. It returns without an error only if f was called.
func (s *Scheduler) do(ctx context.Context, f func(*owner)) error {
	done := make(chan struct{})
	select {
	case s.commands <- func(o *owner) { f(o); close(done) }:
		<-done
		return nil
	case <-s.stopping:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
}
