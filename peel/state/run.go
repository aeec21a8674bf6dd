//go:build linux

// Package state brings a host to its states. [Runner.Run] runs a set of states once, for real or in test mode.
//
// Guarantees:
//   - Test mode changes nothing on the host. It plans by the same code, over a [host.World] with the predicted changes.
//   - A state that changed the host is planned again afterwards; steps that remain make it fail.
//   - A reaction (a service that watches a file, a state with onchanges) is on disk before the change that it reacts to, and
//     is removed when it succeeded. The next run makes what a failure or a crash prevented.
//   - One run at a time on a host; others wait.
//   - An error is the result of its state. A run always returns a result for every state.
//
// Known gaps: a command of cmd.run that ends without a change counts as a change.
package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/state/file"
	"github.com/seed-c01c3da5/zester/peel/state/host"
	"github.com/seed-c01c3da5/zester/peel/state/pkg"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/state"
)

// packageTimeout bounds a state of packages that names no timeout.
const packageTimeout = 30 * time.Minute

// A Command is a command of a state.
type Command struct {
	Shell   string // for the shell, if Argv is nil
	Argv    []string
	Cwd     string
	Env     map[string]string
	User    string
	Stdin   string
	Timeout time.Duration // 0: none
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
	Whole  bool      // Set has all states of the peel: what is stored of others is removed
	Apart  bool      // Set is in no settings: nothing of it is stored
	Test   bool
	Commit settings.Commit
	Digest settings.Digest
	Origin func(name string) *settings.Origin // may be nil
	Files  func(ref string) []string          // the states of a settings file, for requisites; may be nil
}

// Run runs the states in their order. The error is of a run that could not begin.
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
	start := time.Now()
	w := host.New()
	w.HasSecret = r.o.HasSecret
	x := &run{Runner: r, q: q, memory: m, world: w, packages: pkg.New(w), done: map[string]*Outcome{}}
	names := make(map[string]bool, len(q.Set))
	for _, s := range q.Set {
		names[s.Name] = true
	}
	result := &Result{Test: q.Test, Commit: q.Commit, Digest: q.Digest, Time: start.UTC(), Counts: Counts{}, States: []Outcome{}}
	if q.Whole && !q.Test {
		m.keep(names)
	}
	x.connect()
	for _, s := range q.Set {
		o := x.state(ctx, s)
		x.done[s.Name] = o
		result.States = append(result.States, *o)
		result.Counts[o.Result]++
	}
	result.Duration = time.Since(start)
	if !q.Test {
		if err := m.save(); err != nil {
			return nil, err
		}
	}
	for name := range m.Owed {
		result.Owed = append(result.Owed, name)
	}
	slices.Sort(result.Owed)
	return result, nil
}

// A run is one run of a set.
type run struct {
	*Runner
	q          Request
	memory     *memory
	world      *host.World
	packages   *pkg.Manager
	done       map[string]*Outcome
	require    map[string][]string // with those of require_in
	watch      map[string][]string // with those of watch_in
	reactors   map[string][]string // the states that react to a state
	hardFailed bool
}

// connect collects the requisites of each state, from both sides.
func (x *run) connect() {
	x.require, x.watch, x.reactors = map[string][]string{}, map[string][]string{}, map[string][]string{}
	all := slices.Concat(x.q.Set, x.q.Others)
	for _, s := range all {
		x.require[s.Name] = append(x.require[s.Name], x.expand(s.Require, s.Name)...)
		x.watch[s.Name] = append(x.watch[s.Name], x.expand(s.Watch, s.Name)...)
		for _, name := range x.expand(s.RequireIn, s.Name) {
			x.require[name] = append(x.require[name], s.Name)
		}
		for _, name := range x.expand(s.WatchIn, s.Name) {
			x.watch[name] = append(x.watch[name], s.Name)
		}
	}
	for _, s := range all {
		for _, name := range slices.Concat(x.watch[s.Name], x.expand(s.OnChanges, s.Name)) {
			x.reactors[name] = append(x.reactors[name], s.Name)
		}
	}
}

// expand replaces file:REF by the states of that settings file.
func (x *run) expand(names []string, self string) (out []string) {
	for _, name := range names {
		ref, isFile := strings.CutPrefix(name, "file:")
		if !isFile {
			out = append(out, name)
			continue
		}
		if x.q.Files != nil {
			out = append(out, slices.DeleteFunc(slices.Clone(x.q.Files(ref)), func(n string) bool { return n == self })...)
		}
	}
	return out
}

// state runs one state.
func (x *run) state(ctx context.Context, s *state.State) *Outcome {
	start := time.Now()
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
	default:
		x.attempts(ctx, s, o)
	}
	if o.Result == Failed && s.FailHard {
		x.hardFailed = true
	}
	o.Duration = time.Since(start)
	return o
}

// mayRun says why a state is skipped, or why that is not known.
func (x *run) mayRun(s *state.State) (reason Reason, unknown string) {
	if !s.IsEnabled() {
		return Disabled, ""
	}
	if x.hardFailed {
		return FailHard, ""
	}
	for _, name := range slices.Concat(x.require[s.Name], x.watch[s.Name], x.expand(s.OnChanges, s.Name)) {
		if d := x.done[name]; d != nil && (d.Result == Failed || d.Result == Skipped && isFailure(d.Reason)) {
			return RequireFailed, ""
		}
	}
	if len(s.OnFail) > 0 && !slices.ContainsFunc(x.expand(s.OnFail, s.Name), func(n string) bool { d := x.done[n]; return d != nil && d.Result == Failed }) {
		return OnFailUnmet, ""
	}
	if len(s.OnChanges) > 0 && len(x.memory.Owed[s.Name]) == 0 {
		changed, doubtful := x.changed(x.expand(s.OnChanges, s.Name))
		switch {
		case changed != "":
		case doubtful != "":
			return "", "it depends on whether " + doubtful + " changes"
		default:
			return OnChangesUnmet, ""
		}
	}
	return "", ""
}

// isFailure reports whether a state that was skipped for a reason counts as failed for those that require it.
func isFailure(r Reason) bool {
	return slices.Contains([]Reason{RequireFailed, FailHard, Canceled}, r)
}

// changed returns the first state of names that changed or would change, and the first of which that is not known.
func (x *run) changed(names []string) (changed, doubtful string) {
	for _, name := range names {
		switch d := x.done[name]; {
		case d == nil:
		case changed == "" && (d.Result == Changed || d.Result == WouldChange):
			changed = name
		case doubtful == "" && d.Result == Unknown:
			doubtful = name
		}
	}
	return changed, doubtful
}

// attempts runs a state until it succeeds or has no attempts left.
func (x *run) attempts(ctx context.Context, s *state.State, o *Outcome) {
	for attempt := 1; ; attempt++ {
		x.once(ctx, s, o)
		if o.Result != Failed || x.q.Test || s.Retry == nil || attempt >= s.Retry.Attempts {
			return
		}
		timer := time.NewTimer(s.Retry.Interval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// afterCancel is how long the state under way may go on after the run was canceled. States of packages may finish.
const afterCancel = 30 * time.Second

// underWay returns the context of a state, which outlives that of its run.
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
func (x *run) once(ctx context.Context, s *state.State, o *Outcome) {
	ctx, stop := underWay(ctx, s)
	defer stop()
	timeout := s.Timeout
	if timeout == 0 && strings.HasPrefix(s.Function, "pkg.") {
		timeout = packageTimeout
	}
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it took longer than its timeout of %s", timeout))
		defer cancel()
	}
	*o = Outcome{State: o.State, Function: o.Function, Origin: o.Origin}
	skip, err := x.guards(ctx, s)
	if skip != "" {
		o.Result, o.Reason = Skipped, skip
		return
	}
	if err == nil {
		err = x.converge(ctx, s, o)
	}
	var unknown *host.UnknownError
	switch {
	case err == nil:
	case x.q.Test && errors.As(err, &unknown):
		o.Result, o.Comment = Unknown, unknown.Why
	default:
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		o.Result, o.Comment = Failed, err.Error()
	}
}

// guards runs onlyif and unless, in test mode as well.
func (x *run) guards(ctx context.Context, s *state.State) (skip Reason, err error) {
	if len(s.OnlyIf)+len(s.Unless) > 0 && x.q.Test && x.world.Planned() {
		return "", &host.UnknownError{Why: "its guard may depend on a predicted change"}
	}
	for _, command := range s.OnlyIf {
		end, err := x.o.Exec(ctx, Command{Shell: command})
		if err != nil {
			return "", fmt.Errorf("onlyif: %w", err)
		}
		if end.Code != 0 {
			return OnlyIf, context.Cause(ctx)
		}
	}
	for _, command := range s.Unless {
		end, err := x.o.Exec(ctx, Command{Shell: command})
		if err != nil {
			return "", fmt.Errorf("unless: %w", err)
		}
		if end.Code == 0 {
			return Unless, nil
		}
	}
	return "", context.Cause(ctx)
}

// converge plans a state and applies or predicts its steps.
func (x *run) converge(ctx context.Context, s *state.State, o *Outcome) error {
	steps, err := x.plan(ctx, s)
	if err != nil {
		return err
	}
	for _, step := range steps {
		o.Changes = append(o.Changes, step.Change)
	}
	wanted := x.wanted(ctx, s)
	if len(steps) > 0 {
		o.Cause = Intended
		if wanted != "" && x.memory.Held[s.Name] == wanted {
			o.Cause = Drift
		}
	}
	switch {
	case len(steps) == 0:
		o.Result = Unchanged
	case x.q.Test:
		for _, step := range steps {
			if step.Predict != nil {
				step.Predict(x.world)
			}
		}
		o.Result = WouldChange
		return nil
	default:
		if err := x.apply(ctx, s, steps, o); err != nil {
			return err
		}
		o.Result = Changed
	}
	if !x.q.Test {
		x.memory.Held[s.Name] = wanted
		delete(x.memory.Owed, s.Name)
	}
	return nil
}

// apply stores what the change will owe, runs the steps, and plans again.
func (x *run) apply(ctx context.Context, s *state.State, steps []host.Step, o *Outcome) error {
	if x.memory.owe(s.Name, x.reactors[s.Name]) {
		if err := x.memory.save(); err != nil {
			return err
		}
	}
	for _, step := range steps {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if step.Apply == nil {
			continue // part of the step before
		}
		if err := step.Apply(ctx); err != nil {
			return err
		}
	}
	if _, isCommand := s.Args.(*state.CmdRun); isCommand {
		return nil
	}
	left, err := x.plan(ctx, s)
	if err != nil {
		return fmt.Errorf("after its changes: %w", err)
	}
	if len(left) > 0 {
		return fmt.Errorf("after its changes the state does not hold: %s %s is still to be done", left[0].Do, left[0].What)
	}
	return nil
}

// plan returns the steps that are missing.
func (x *run) plan(ctx context.Context, s *state.State) ([]host.Step, error) {
	switch a := s.Args.(type) {
	case *state.FileManaged:
		return file.Managed(ctx, x.world, a, x.o.Files)
	case *state.FileDirectory:
		return file.Directory(ctx, x.world, a, x.owned)
	case *state.FileRecurse:
		return file.Recurse(ctx, x.world, a, x.o.Files, x.owned)
	case *state.FileSymlink:
		return file.Link(x.world, a)
	case *state.FileAbsent:
		return file.Missing(x.world, a)
	case *state.FileLine:
		return file.Line(x.world, a)
	case *state.FileBlock:
		return file.Block(x.world, a)
	case *state.CmdRun:
		return x.command(s, a)
	case *state.PkgInstalled:
		return x.packages.Installed(ctx, a, !x.q.Test)
	case *state.PkgLatest:
		return x.packages.Latest(ctx, a, !x.q.Test)
	case *state.PkgRemoved:
		return x.packages.Removed(ctx, a)
	}
	return nil, fmt.Errorf("this peel cannot do %s", s.Function)
}

// owned reports whether a state of the peel owns a path, or something below it.
func (x *run) owned(name string) bool {
	return slices.ContainsFunc(slices.Concat(x.q.Set, x.q.Others), func(s *state.State) bool {
		return slices.ContainsFunc(s.Paths(), func(p string) bool { return p == name || strings.HasPrefix(p, name+"/") })
	})
}

// command plans cmd.run.
func (x *run) command(s *state.State, a *state.CmdRun) ([]host.Step, error) {
	if a.Creates != "" {
		info, err := x.world.Stat(a.Creates)
		if err != nil || info.Kind != 0 {
			return nil, err
		}
	}
	what := a.Command
	if a.Argv != nil {
		what = strings.Join(a.Argv, " ")
	}
	return []host.Step{{
		Change: host.Change{Do: "run", What: what},
		Apply: func(ctx context.Context) error {
			end, err := x.o.Exec(ctx, Command{Shell: a.Command, Argv: a.Argv, Cwd: a.Cwd, Env: a.Env, User: a.User, Stdin: a.Stdin, Timeout: s.Timeout})
			if err != nil {
				return err
			}
			if end.Code != 0 {
				return fmt.Errorf("the command ended with %d: %s", end.Code, end.Output)
			}
			if a.Creates == "" {
				return nil
			}
			if info, err := x.world.Stat(a.Creates); err != nil || info.Kind == 0 {
				return errors.Join(fmt.Errorf("the command did not create %s", a.Creates), err)
			}
			return nil
		},
		Predict: func(w *host.World) { w.Unknowable() },
	}}, nil
}

// wanted identifies what a state wants, the contents of its sources included. It is empty if that cannot be read.
func (x *run) wanted(ctx context.Context, s *state.State) string {
	h, err := s.Hash()
	if err != nil {
		return ""
	}
	sum := sha256.New()
	sum.Write([]byte(h))
	for _, source := range s.Sources() {
		names := []string{""}
		if source.Dir {
			if names, err = x.o.Files.Tree(source.Path); err != nil {
				return ""
			}
		}
		for _, name := range names {
			c, err := x.o.Files.Source(ctx, path.Join(source.Path, name))
			if err != nil {
				return ""
			}
			part := sha256.Sum256(c.Data)
			sum.Write(part[:])
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
