//go:build linux

// Package state brings a host to its states. [Runner.Run] runs a set of states once, for real or in test mode.
//
// Guarantees:
//   - Test mode changes nothing on the host. It plans by the same code, over a [host.World] with the predicted changes.
//   - A state that changed the host is planned again afterwards; steps that remain make it fail.
//   - A reaction (a service that watches a file, a state with onchanges) is on disk before the change that it reacts
//     to, and is removed when it succeeded. The next run makes what a failure or a crash prevented.
//   - systemd reads its units again before the next call for a unit, or command, after a state changed a file of units.
//     That this is still to be done is on disk before the change.
//   - No step ends the unit of the peel itself. Its restart is put off to [Result.Own], and stays on disk as owed until
//     the next run sees that it was made.
//   - One run at a time on a host; others wait.
//   - An error is the result of its state. A run always returns a result for every state.
//   - A restart that a crash interrupted is made once: the next run sees by the unit's last start whether it was made.
//   - A command that the end of the peel or of the host cut off runs again in the next run, because nothing says
//     whether it ended. After the second time it fails until [Runner.Settle] is called.
//   - A command of cmd.run that runs counts as a change, unless its changed_if says otherwise.
package state

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/pkg"
	"github.com/seed-c01c3da5/zester/peel/state/safefs"
	"github.com/seed-c01c3da5/zester/peel/state/service"
	"github.com/seed-c01c3da5/zester/peel/state/system"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// Limits of a state that names no timeout, and of each of its guards.
const (
	packageTimeout = 30 * time.Minute // of a state of packages
	stateTimeout   = time.Hour        // of any other
	guardTimeout   = 5 * time.Minute
)

// A Command is a command of a state.
type Command struct {
	Shell string // for the shell, if Argv is nil
	Argv  []string
	Cwd   string
	Env   map[string]string
	User  string
	Stdin string
}

// An Ended command has an exit code, -1 after a signal, and the beginning of its output.
type Ended struct {
	Code   int
	Output string
}

// Options are what a Runner needs of the peel.
type Options struct {
	Dir   string                                              // of what the runner stores, mode 0700
	Lock  string                                              // the file that one run on the host holds
	Exec  func(ctx context.Context, c Command) (Ended, error) // the error is of a command that could not be started
	Files file.Inputs                                         // contents of the config repo, and data for templates
	// Begins is called with the name of each state that begins. It may be nil.
	Begins func(state string)
	Own    []string // paths that the peel needs; no state removes them or gives them another owner
	// HasSecret reports whether a text contains a secret; results show no diff of such a file. If nil, no text does.
	HasSecret func(text []byte) bool
}

// A Runner runs states. It is safe for concurrent use.
type Runner struct{ o Options }

// New returns a runner.
func New(o Options) *Runner { return &Runner{o} }

// A Request says what to run.
type Request struct {
	Set    state.Set
	Others state.Set // states of the peel that are not run: what they own stays, and their reactions are stored
	// Broken are states that cannot be used: each fails, and what requires it is skipped. OthersBroken are those that
	// are not run.
	Broken, OthersBroken []state.Broken

	Whole  bool // Set has all states of the peel: what is stored of others is removed
	Apart  bool // Set is in no settings: nothing of it is stored
	Test   bool
	Commit settings.Commit
	Digest settings.Digest
	Origin func(name string) *settings.Origin // may be nil
	Files  func(ref string) []string          // the states of a settings file, for requisites; may be nil
}

// Run runs the states in their order. Without a result the error is of a run that could not begin; with one it is of
// what could not be stored for the next run.
func (r *Runner) Run(ctx context.Context, q Request) (*Result, error) {
	unlock, err := lock(ctx, r.o.Lock, q.Test)
	if err != nil {
		return nil, err
	}
	defer unlock()
	m := newMemory()
	if !q.Apart {
		if m, err = loadMemory(r.o.Dir); err != nil {
			return nil, err
		}
	}
	unread, err := r.loadUnread()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	x := newRun(r, q, m)
	x.unread = unread
	x.world.SetUnread(unread...)
	result := &Result{
		Test:   q.Test,
		Commit: q.Commit,
		Digest: q.Digest,
		Time:   start.UTC(),
		Counts: newCounts(),
		States: []Outcome{},
	}
	if q.Whole && !q.Test {
		m.keep(q)
	}
	for _, b := range q.Broken {
		o := x.broken(b)
		x.done[b.Name] = o
		result.States = append(result.States, *o)
		result.Counts[o.Result]++
	}
	for i, s := range q.Set {
		if i >= x.joined {
			x.joined = i + x.join(ctx, q.Set[i:])
		}
		if r.o.Begins != nil {
			r.o.Begins(s.Name)
		}
		o := x.state(ctx, s)
		x.done[s.Name] = o
		result.States = append(result.States, *o)
		result.Counts[o.Result]++
	}
	result.Duration = time.Since(start)
	result.Own = x.services.Own()
	result.Owed = slices.DeleteFunc(slices.Sorted(maps.Keys(m.Owed)), func(name string) bool {
		return name == x.putOff
	})
	if !q.Test {
		err = m.save()
	}
	return result, err
}

// A run is one run of a set.
type run struct {
	*Runner
	q         Request
	memory    *memory
	world     *host.World
	packages  *pkg.Manager
	services  *service.Manager
	done      map[string]*Outcome
	require   map[string][]string // with those of require_in
	watch     map[string][]string // with those of watch_in
	onchanges map[string][]string
	reactors  map[string][]string // the enabled states that react to a state
	unread    []string            // paths of units that systemd has not read, as they are on the disk
	putOff    string              // the state whose reaction is made after the run, because it ends the peel
	// the index of the first state that is not among those whose packages are planned together
	joined     int
	again      bool // this is not the first attempt of the state
	hardFailed bool
	git        *system.Git
	noted      hash.Hash       // of the contents that the last plan wanted
	owns       map[string]bool // the paths that states own and those above them; nil until it is needed
	trees      []string        // directories in which states own everything
}

func newRun(r *Runner, q Request, m *memory) *run {
	w := host.New()
	w.HasSecret, w.Own, w.Keep = r.o.HasSecret, r.o.Own, r.keeper().keep
	var units []string
	for _, s := range q.Set {
		switch a := s.Args.(type) {
		case *state.ServiceRunning:
			units = append(units, state.UnitName(a.Name))
		case *state.ServiceDead:
			units = append(units, state.UnitName(a.Name))
		case *state.ServiceEnabled:
			units = append(units, state.UnitName(a.Name))
		case *state.ServiceDisabled:
			units = append(units, state.UnitName(a.Name))
		}
	}
	x := &run{
		Runner:   r,
		q:        q,
		memory:   m,
		world:    w,
		packages: pkg.New(w, q.Test),
		services: service.New(w, units),
		done:     map[string]*Outcome{},
	}
	x.git = system.NewGit(w, x.program)
	x.connect()
	return x
}

// state runs one state.
func (x *run) state(ctx context.Context, s *state.State) *Outcome {
	start := time.Now()
	if x.packages.Began(s.Args) {
		ctx = context.WithoutCancel(ctx) // its packages are changed already
	}
	o := &Outcome{State: s.Name, Function: s.Function}
	if x.q.Origin != nil {
		o.Origin = x.q.Origin(s.Name)
	}
	switch reason, unknown := x.mayRun(s); {
	case ctx.Err() != nil:
		o.Result, o.Reason = Skipped, Canceled
	case reason != "":
		o.Result, o.Reason = Skipped, reason
	case unknown != "":
		o.Result, o.Comment = Unknown, unknown
		x.doubt(ctx, s)
	default:
		x.attempts(ctx, s, o)
	}
	if o.Result == Failed && s.FailHard {
		x.hardFailed = true
	}
	o.Duration = time.Since(start)
	return o
}

// broken returns the outcome of a state that cannot be used.
func (x *run) broken(b state.Broken) *Outcome {
	o := &Outcome{
		State:    b.Name,
		Function: b.Function,
		Result:   Failed,
		Comment:  "this peel cannot use the state: " + b.Err.Error(),
	}
	if x.q.Origin != nil {
		o.Origin = x.q.Origin(b.Name)
	}
	return o
}

// attempts runs a state until it succeeds or has no attempts left.
func (x *run) attempts(ctx context.Context, s *state.State, o *Outcome) {
	defer func() { x.again = false }()
	var changes, tried []host.Change // of all attempts, each once
	for attempt := 1; ; attempt++ {
		x.again = attempt > 1
		before := o.Comment // of the attempt that failed
		x.once(ctx, s, o)
		changes = addChanges(changes, o.Changes)
		if o.Result == Unchanged || o.Result == Changed {
			changes = addChanges(changes, tried) // they were made after all: nothing is missing
		}
		tried = addChanges(tried, o.tried)
		o.Changes = changes
		switch {
		case o.Result == Unchanged && len(changes) > 0:
			o.Result = Changed
		case o.Result == Skipped && len(changes)+len(tried) > 0:
			o.Result, o.Reason = Failed, ""
		}
		if before != "" && ctx.Err() != nil && (o.Result == Failed || o.Result == Skipped) {
			o.Comment = both("the run was canceled after an attempt that failed: "+before, o.Comment)
		}
		if o.Result != Failed || x.q.Test || s.Retry == nil || attempt >= s.Retry.Attempts {
			return
		}
		x.packages.Retry()
		timer := time.NewTimer(s.Retry.Interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// addChanges adds changes to those of earlier attempts, unless these have done the same.
func addChanges(all, more []host.Change) []host.Change {
	for _, c := range more {
		if !slices.ContainsFunc(all, func(a host.Change) bool { return a.Do == c.Do && a.What == c.What }) {
			all = append(all, c)
		}
	}
	return all
}

// afterCancel is how long the step under way may go on after the run was canceled. States of packages may finish.
const afterCancel = 20 * time.Second

// timeoutOf returns how long a state may take.
func timeoutOf(s *state.State) time.Duration {
	switch {
	case s.Timeout > 0:
		return s.Timeout
	case strings.HasPrefix(s.Function, "pkg."):
		return packageTimeout
	}
	return stateTimeout
}

// underWay returns the context of the steps of a state, which outlives the context of the run.
func underWay(run context.Context, s *state.State) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(run))
	if strings.HasPrefix(s.Function, "pkg.") {
		return ctx, func() { cancel(nil) }
	}
	unhook := context.AfterFunc(run, func() {
		timer := time.AfterFunc(afterCancel, func() { cancel(context.Cause(run)) })
		<-ctx.Done()
		timer.Stop()
	})
	return ctx, func() { unhook(); cancel(nil) }
}

// once runs a state one time.
func (x *run) once(run context.Context, s *state.State, o *Outcome) {
	work, end := underWay(run, s)
	defer end()
	timeout := timeoutOf(s)
	work, end = context.WithTimeoutCause(work, timeout, &timeoutError{timeout})
	defer end()
	ctx, cancel := context.WithCancelCause(work)
	defer cancel(nil)
	defer context.AfterFunc(run, func() { cancel(context.Cause(run)) })()
	*o = Outcome{State: o.State, Function: o.Function, Origin: o.Origin, Cause: o.Cause}
	skip, err := x.guards(ctx, s)
	if skip != "" && err == nil {
		o.Result, o.Reason = Skipped, skip
		return
	}
	if err == nil {
		err = x.converge(ctx, work, s, o)
	}
	var unknown *host.UnknownError
	switch {
	case err == nil:
	case run.Err() != nil && len(o.Changes)+len(o.tried) == 0:
		o.Result, o.Reason = Skipped, Canceled
		if !errors.Is(err, context.Cause(run)) {
			o.Comment = err.Error()
		}
	case x.q.Test && errors.As(err, &unknown):
		o.Result = Unknown
		o.Comment = unknown.Why
		o.Changes = nil
		o.Cause = ""
		x.doubt(ctx, s)
	default:
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		o.Result, o.Comment = Failed, err.Error()+mend(s, err)
	}
}

// mend says what lets a state go through a place that another user controls, if something does.
func mend(s *state.State, err error) string {
	unsafe, ok := errors.AsType[*safefs.UnsafeError](err)
	f, _ := state.FunctionOf(s.Function)
	isParam := slices.ContainsFunc(f.Params(), func(p state.Param) bool { return p.Name == "follow" })
	if !ok || !unsafe.Strict || !isParam {
		return ""
	}
	return "; follow: true of the state goes there if those who control it may write there themselves"
}

// doubt notes what may become of the host because a state is unknown.
func (x *run) doubt(ctx context.Context, s *state.State) {
	if !strings.HasPrefix(s.Function, "file.") && !strings.HasPrefix(s.Function, "cron.") {
		if !strings.HasPrefix(s.Function, "service.") {
			x.world.Unknowable()
		}
		x.packages.Doubt(ctx, s.Packages())
		return
	}
	for _, p := range s.Paths() {
		x.world.Doubt(p, "the state "+s.Name+" is unknown")
	}
}

// guards runs onlyif and unless, in test mode as well. They say whether the state is to run at all, so a further
// attempt has no guards.
func (x *run) guards(ctx context.Context, s *state.State) (skip Reason, err error) {
	if len(s.OnlyIf)+len(s.Unless) == 0 || x.again {
		return "", nil
	}
	if x.q.Test && x.world.Planned() {
		return "", &host.UnknownError{Why: state.GuardAfterChange}
	}
	for _, command := range s.OnlyIf {
		code, err := x.guard(ctx, command)
		if err != nil {
			return "", fmt.Errorf("onlyif: %w", err)
		}
		if code != 0 {
			return OnlyIf, x.settle(s)
		}
	}
	for _, command := range s.Unless {
		code, err := x.guard(ctx, command)
		if err != nil {
			return "", fmt.Errorf("unless: %w", err)
		}
		if code == 0 {
			return Unless, x.settle(s)
		}
	}
	return "", context.Cause(ctx)
}

// guard runs one command of onlyif or unless and returns its exit code.
func (x *run) guard(ctx context.Context, command string) (code int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, guardTimeout, fmt.Errorf("it took longer than %s", guardTimeout))
	defer cancel()
	end, err := x.o.Exec(ctx, Command{Shell: command})
	if err == nil {
		err = context.Cause(ctx)
	}
	return end.Code, err
}
