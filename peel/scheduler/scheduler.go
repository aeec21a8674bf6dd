// Package scheduler runs the entries of a schedule on one host.
//
// Call [New], which reads the history of the last process, then [Scheduler.Run] on a goroutine of its own. Give the first
// schedule to [Scheduler.Begin] and every later one to [Scheduler.Apply]. The way of a fire (due, admitted, started,
// ended, reported) is in fire.go; package rules decides when fires come.
//
// One goroutine, that of [Scheduler.Run], owns all entries. It sleeps on one timer, set to the earliest fire and
// never longer than a minute, so that a suspend of the host and a change of its clock are seen soon. An idle entry
// costs a place in a heap and no goroutine; a run in flight has one.
//
// # Fires
//
// An entry has at most one fire ahead: a nominal time, given by its timing, and the splay drawn for it. When both
// have passed the entry is asked whether it may run, in this order: its state and life, what somebody ordered, its
// windows at the nominal time, its breaker at that time, its windows now, and the runs that share its limit. A fire
// that may not run is counted under one [history.Reason] and logged; outside: defer holds it until the windows open, and
// if_running may have it wait for a run to end. Each entry has one fire held and one that waits at the most. Fires
// that are due together start in the order of their nominal times, at most five before the scheduler looks at
// everything else that goes on.
//
// Fires missed while the process was down, and those later than the start deadline, are made up as catch_up says:
// beside the timer, when the entry has nothing in flight that fills its limit, five at once and then one every 5 s
// over all entries, and never two of an entry within 5 s. An entry is owed what its present timing gave while it was
// active, windows and life considered.
//
// # Failures
//
// A run that fails is tried again within the same run: it keeps its slot, and only its last attempt is recorded and
// reported. Failures in a row open the entry's breaker, which lets a single probe through after a while, and pause
// the entry. A run that is canceled for the next one is a failure, but none in a row.
//
// A run frees its slot when it ends, and its report is stored afterwards: an interval does not wait for a slow disk or bus.
// At most 64 reports are in progress at a time; the next run to end keeps its slot until its report is stored.
//
// # Reload
//
// [Scheduler.Apply] replaces the whole set and acts on the difference: an entry that is equal keeps its next fire to
// the nanosecond, also in the middle of its splay. It starts nothing, run_on_start included, and it never waits for a run:
// only [Scheduler.Begin], which sets the first schedule of a process, fires run_on_start. What an entry
// has done is remembered by its name, across reloads, removal and restarts; runs in flight count towards maxrunning
// all that time. An entry that changes is forgiven its failures in a row; one whose timing changes starts a new life.
//
// # State
//
// The state file is replaced at most once a second, always as a whole.
//
// Each run has a record of its own, on the disk before the run begins: a file in the directory "<state file>.runs",
// removed when the state file has the run's end and its report is stored. A process that finds a record at its start adds
// the run to the history and reports it. A record without an end means that the run was interrupted: it is reported as a
// failed job if return_job includes failures, and counts towards max_runs, because it may have done its work, but neither
// as a success nor as a failure of the entry. So every run that began leaves a trace; a crash loses only the skips of its
// last second.
//
// # Known gaps
//
// A run whose record the disk refuses starts all the same, with an error in the log: a kill leaves no trace of it. The end
// of a run is not flushed: after a power cut a run that has just ended may count as interrupted. Outside Linux the time
// that the host was suspended is not counted, and intervals stand still.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed-c01c3da5/zester/peel/scheduler/history"
	"github.com/seed-c01c3da5/zester/peel/scheduler/rules"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/schedule"
)

// Options say for whom a scheduler works and how it runs things.
type Options struct {
	Peel string         // in logs
	Zone *time.Location // of entries that name none; nil: the host's
	// Exec runs an entry and returns when the run has ended. It is called on a goroutine of its own, several at a
	// time. The context ends at the entry's timeout and when the peel stops; [context.Cause] says which, in words
	// for the report. Exec must then return soon: the run counts towards maxrunning until it does.
	Exec func(context.Context, Fire) wire.Result
	// Report, if not nil, stores the report of an ended run if return_job wants one, and reports whether it is stored. The
	// result is the last attempt's. It is called on the goroutine of the run and may block: the run has left its slot, and
	// the entry's next interval has begun.
	Report func(Fire, wire.Result) (stored bool)
	// Source, if not nil, returns the origin of an entry's present definition. It is called on the goroutine of Run when a
	// run of the entry starts.
	Source func(entry string) history.Source
	// Able, if not nil, says why this host cannot run an entry, such as that it does not have the function. The entry is
	// listed as paused_invalid then, and the others go on. It is called on the goroutine of Run.
	Able func(*schedule.Entry) error
	// PausedErrors, if not nil, is called on the goroutine of Run with the sorted names of the entries that are
	// paused_errors, whenever they change.
	PausedErrors func(entries []string)
	// StateFile is the file with the entries' history, of mode 0600; the records of runs are in the directory StateFile +
	// ".runs". If empty, nothing is kept on disk.
	StateFile string
	Log       *slog.Logger // nil: silent
}

// A Fire is one run of an entry. Times are of the wall clock, and Nominal ≤ Fired ≤ Started.
type Fire struct {
	JID     wire.JID        // names the run, in the peel's history and as the job that reports it
	Entry   *schedule.Entry // as it was when the run started
	Source  history.Source  // of Entry
	Name    string
	Trigger history.Trigger
	Nominal time.Time // when the timing said
	Fired   time.Time // when the splay had passed
	Started time.Time
	Late    bool // it started later after Nominal than the entry wants
	Attempt int  // 1, and more where a run that failed is tried again
	held    bool // it waited for the windows to open
}

// A Scheduler runs the entries of one schedule. Its methods are safe for concurrent use.
type Scheduler struct {
	o        Options
	log      *slog.Logger
	now      func() rules.Instant
	loaded   map[string]history.History
	runDir   history.RunDir
	left     []history.OpenRun // runs that the last process did not complete
	begun    atomic.Bool
	commands chan func(*owner)
	ended    chan *run
	reported chan *run     // whose report was stored, or could not be
	reports  chan struct{} // a slot for each report in progress
	stopping chan struct{} // closed when no command is taken any more
	gone     chan struct{} // closed when nobody waits for runs any more

	unrecorded atomic.Bool // the last run began without a record on disk
}

// ErrStopped is the answer of a scheduler whose Run has ended or is about to.
var ErrStopped = errors.New("the scheduler has stopped")

// New reads the state file. One that cannot be understood is moved aside, with a warning: history is lost then, and
// no schedule. Nothing runs before [Scheduler.Run].
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
		o: o, log: o.Log.With("peel", o.Peel), now: rules.NewClock(), runDir: history.RunDirOf(o.StateFile),
		commands: make(chan func(*owner)), ended: make(chan *run),
		reported: make(chan *run), reports: make(chan struct{}, maxReports),
		stopping: make(chan struct{}), gone: make(chan struct{}),
	}
	var err error
	if s.loaded, err = history.Load(o.StateFile, s.log); err != nil {
		return nil, err
	}
	if s.left, err = s.runDir.Load(s.log); err != nil {
		return nil, fmt.Errorf("cannot read the records of runs: %w", err)
	}
	return s, nil
}

// Time that runs in flight have when the scheduler stops: to end by themselves, then to end once canceled.
const (
	stopGrace   = 10 * time.Second
	cancelGrace = 5 * time.Second
)

// Run runs the schedule until ctx ends, then starts nothing more. Runs in flight have 10 s to end, are canceled
// then, and have 5 s more. The state is stored when Run returns. The error names what could not be stored and what
// did not end. Run can be called once.
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
		case err := <-o.saved:
			o.afterSave(err)
		case <-timer.C:
		}
		timer.Reset(o.wake())
	}
}

// Begin is [Scheduler.Apply] for the first schedule of a process: entries with run_on_start that become active are due when
// it returns.
func (s *Scheduler) Begin(ctx context.Context, set schedule.Set) (schedule.Changes, error) {
	return s.apply(ctx, set, (*owner).begin)
}

// Apply makes set the schedule and says what that changed. The set may be changed afterwards, its entries may not.
// It waits until Run is there to take it, and for nothing else, and it starts no run. An entry that this host is not
// able to run, or whose zone it does not know, is listed as paused_invalid, and the others go on. The error is [ErrStopped]
// or that of ctx.
func (s *Scheduler) Apply(ctx context.Context, set schedule.Set) (schedule.Changes, error) {
	return s.apply(ctx, set, (*owner).apply)
}

func (s *Scheduler) apply(ctx context.Context, set schedule.Set, do func(*owner, schedule.Set) schedule.Changes) (schedule.Changes, error) {
	var changes schedule.Changes
	err := s.do(ctx, func(o *owner) { changes = do(o, set) })
	if err != nil {
		return schedule.Changes{}, fmt.Errorf("cannot apply a schedule of %d entries: %w", len(set), err)
	}
	return changes, nil
}

// State lists the entries of the schedule by name. It waits until Run is there to answer. The error is [ErrStopped]
// or that of ctx.
func (s *Scheduler) State(ctx context.Context) ([]EntryState, error) {
	var list []EntryState
	err := s.do(ctx, func(o *owner) { list = o.state() })
	if err != nil {
		return nil, fmt.Errorf("cannot list the schedule: %w", err)
	}
	return list, nil
}

// do has the owner call f. A command that was taken is always carried out.
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
