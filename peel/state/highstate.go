//go:build linux

// File highstate.go has the functions of a peel that run states: state.*, and each function of states by itself. It
// also has those that show or control packages, services and files. Make a [Functions] with [NewFunctions] and add
// [Functions.All] to the registry of the peel.
//
// Guarantees:
//   - A run uses one document from its beginning to its end: the newest when the runs before it have ended.
//   - Arguments that are wrong run nothing.
//   - The newest [keptHighstateRuns] results are on the disk, whole, in files that the peel's user alone can read. A
//     function that is called by itself returns its result, which is not stored.
//   - Results have a placeholder in the place of each secret before they are stored or returned.
//
// Known gap: package mask says which forms of a secret it does not find.

package state

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/seed-c01c3da5/zester/peel/content"
	"github.com/seed-c01c3da5/zester/peel/mask"
	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/state/service"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/state"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A Document is the document in force on the peel.
type Document struct {
	Settings *settings.Document // nil before the first
	Values   *strictyaml.Node   // of Settings, with secrets; nil before the first
	Mask     *mask.Mask         // of the secrets in Values
	Data     map[string]any     // what templates can read beside the settings: facts, peel
}

// FunctionsOptions are what the functions need of the peel.
type FunctionsOptions struct {
	Dir      string   // of results and of what the runner stores
	Own      []string // paths that the peel needs: its program, data and credential
	Lock     string   // the file that one run on the host holds
	Registry *module.Registry
	Document func() Document // the document in force
	Files    *content.Cache  // the contents of the config repo
	// Report is called with the result of each run of states of the settings; whole is false if some of them were left
	// out. It may be nil.
	Report func(r *Result, whole bool)
	Log    *slog.Logger
}

// Functions are the functions of one peel. They are safe for concurrent use.
type Functions struct {
	o     FunctionsOptions
	turns turns
	runs  runs
}

// NewFunctions returns the functions. It reads and writes nothing.
func NewFunctions(o FunctionsOptions) *Functions {
	return &Functions{o: o, turns: turns{places: semaphore.NewWeighted(allTurns)}, runs: runs{dir: o.Dir + "/runs"}}
}

// All returns the functions by name.
func (f *Functions) All() map[string]module.Func {
	all := f.hostFunctions()
	maps.Copy(all, map[string]module.Func{
		"state.apply":     f.apply,
		"state.highstate": f.apply,
		"state.show":      f.show,
		"state.settle":    f.settle,
		"state.kept":      f.kept,
		"state.restore":   f.restore,
		"state.last":      f.last,
	})
	for _, s := range state.Functions() {
		if s.Name != "cmd.run" {
			all[s.Name] = func(ctx context.Context, call module.Call) wire.Result { return f.single(ctx, s.Name, call) }
		}
	}
	return all
}

// apply is state.apply and state.highstate.
func (f *Functions) apply(ctx context.Context, call module.Call) wire.Result {
	var refs []string
	list, given := call.Args["refs"].([]any)
	for _, ref := range list {
		refs = append(refs, fmt.Sprint(ref))
	}
	if given && len(refs) == 0 {
		return failure("refs is an empty list, which names no settings file; leave it out for all states")
	}
	return f.run(ctx, call, argIsTrue(call, "test"), argIsTrue(call, "full"), func(d Document) (Request, error) {
		all, err := read(d)
		if err != nil {
			return Request{}, err
		}
		return choose(all, refs)
	})
}

// settle is state.settle.
func (f *Functions) settle(ctx context.Context, call module.Call) wire.Result {
	_, release, err := f.turns.take(ctx, call, false)
	if err != nil {
		return failure("%v", err)
	}
	defer release()
	if err := f.stored().Settle(ctx, text(call, "state")); err != nil {
		return failure("%v", err)
	}
	return wire.Result{Success: true}
}

// kept is state.kept.
func (f *Functions) kept(context.Context, module.Call) wire.Result {
	all, err := f.stored().Kept()
	if err != nil {
		return failure("%v", err)
	}
	if len(all) > maxKeptShown {
		all = all[:maxKeptShown]
	}
	return wire.Result{Success: true, Data: append([]Kept{}, all...)}
}

// maxKeptShown is how many files state.kept and state.restore name.
const maxKeptShown = 2000

// restore is state.restore.
func (f *Functions) restore(ctx context.Context, call module.Call) wire.Result {
	_, release, err := f.turns.take(ctx, call, false)
	if err != nil {
		return failure("%v", err)
	}
	defer release()
	run, _ := call.Args["run"].(int64)
	restored, err := f.stored().Restore(ctx, text(call, "path"), int(run))
	r := wire.Result{Success: err == nil, Data: append([]Kept{}, restored[:min(len(restored), maxKeptShown)]...)}
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

// stored returns a runner of what earlier runs have stored.
func (f *Functions) stored() *Runner {
	return New(Options{Dir: f.o.Dir, Lock: f.o.Lock})
}

func argIsTrue(call module.Call, name string) bool { return call.Args[name] == true }

func failure(format string, args ...any) wire.Result {
	return wire.Result{Error: fmt.Sprintf(format, args...)}
}

// single runs one function of states by itself.
func (f *Functions) single(ctx context.Context, function string, call module.Call) wire.Result {
	args := make(map[string]any, len(call.Args))
	for name, value := range call.Args {
		if name != "test" {
			args[name] = value
		}
	}
	set, err := state.Single(function, args)
	if err != nil {
		return failure("%v", err)
	}
	return f.run(ctx, call, argIsTrue(call, "test"), true, func(d Document) (Request, error) {
		others, err := read(d)
		return Request{Set: set, Others: others.usable, OthersBroken: others.broken, Apart: true}, err
	})
}

// run waits for its turn, reads the document in force, runs what choose says, and stores, reports and returns the
// result.
func (f *Functions) run(ctx context.Context, call module.Call, test, full bool,
	choose func(Document) (Request, error),
) wire.Result {
	mine, release, err := f.turns.take(ctx, call, test)
	if errors.Is(err, errDeadline) {
		return wire.Result{Outcome: wire.Rejected, Error: "rejected: " + err.Error()}
	}
	if err != nil {
		return failure("%v", err)
	}
	defer release()
	d := f.o.Document()
	q, err := choose(d)
	if err != nil {
		return failure("%v", err)
	}
	q.Test = test
	if d.Settings != nil && !q.Apart {
		q.Commit, q.Digest, q.Origin = d.Settings.Commit, d.Settings.Digest, d.origin
	}
	m := mask.New(call.Secrets).With(d.Mask)
	result, err := f.runner(d, m, func(name string) { f.turns.begin(mine, name) }).Run(ctx, q)
	if err != nil {
		return failure("%v", err)
	}
	f.makeLater(call, result.Own)
	result = masked(result, m)
	if q.Apart { // who called the function has the result
		return returned(result, full)
	}
	if err := f.runs.store(result); err != nil {
		f.o.Log.Error("result of a run of states not stored", "err", err)
	}
	if f.o.Report != nil {
		f.o.Report(result, q.Whole)
	}
	return returned(result, full)
}

// ownCallTimeout bounds a call of systemctl that does not wait for what it asks for.
const ownCallTimeout = time.Minute

// makeLater has a call that ends the peel made when the result is stored.
func (f *Functions) makeLater(call module.Call, own service.OwnCall) {
	if own.IsZero() || call.AfterStored == nil {
		return
	}
	call.AfterStored(func() {
		ctx, cancel := context.WithTimeout(context.Background(), ownCallTimeout)
		defer cancel()
		if err := own.Make(ctx); err != nil {
			f.o.Log.Error("the peel's own unit was not restarted or stopped; the next run of states tries again",
				"err", err)
		}
	})
}

// runner returns a runner for the document. begins is called with each state that begins.
func (f *Functions) runner(d Document, m *mask.Mask, begins func(state string)) *Runner {
	secrets := m.Secrets()
	return New(Options{
		Dir: f.o.Dir, Lock: f.o.Lock, Own: f.o.Own, Files: f.contents(d), Begins: begins,
		Exec: func(ctx context.Context, c Command) (Ended, error) {
			code, output, err := f.o.Registry.Exec(ctx, module.StateCommand{
				Shell: c.Shell, Argv: c.Argv, Cwd: c.Cwd, Env: c.Env, User: c.User, Stdin: c.Stdin, Secrets: secrets,
			})
			return Ended{Code: code, Output: output}, err
		},
		HasSecret: m.Has,
	})
}

// returned is the result of a run as a function returns it.
func returned(r *Result, full bool) wire.Result {
	result := wire.Result{Error: failures(r)}
	result.Success = result.Error == ""
	if !full {
		r = r.Brief()
	}
	r.Fit(maxResult)
	result.Data = r
	return result
}

// failures says which states failed, or how many did not run because the run was canceled; empty if there are none.
func failures(r *Result) string {
	var failed []string
	canceled := 0
	for _, o := range r.States {
		switch {
		case o.Result == Failed:
			failed = append(failed, o.State)
		case o.Reason == Canceled:
			canceled++
		}
	}
	switch {
	case len(failed) > 0:
		return fmt.Sprintf("%d of %d states failed: %s", len(failed), len(r.States), listed(failed))
	case canceled > 0:
		return fmt.Sprintf("the run was canceled, %d of %d states did not run", canceled, len(r.States))
	}
	return ""
}

// maxNames is how many states an error names.
const maxNames = 5

// maxResult is how many bytes a result takes in a message of the bus, which has room for what is around it.
const maxResult = 640 << 10

func listed(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}
