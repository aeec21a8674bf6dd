// Package module runs the functions of a peel by name, with checked arguments. Call [New] for a [Registry] with the
// built-in functions, then [Registry.Call].
//
// Package catalogue has the names, parameters and one-line docs of functions. Call refuses an unknown argument or one
// of another type, because a misspelt `timeot` would run a command without a limit. It always returns a result; every
// error, including a panic, is a failed result. The data of a result has the types that package canon decodes, so it is
// the same in the peel, on the bus and in a record.
//
// # Commands
//
// cmd.run gives a command none of the peel's descriptors. Of the peel's environment the command gets only PATH, HOME,
// USER, LOGNAME, LANG, LANGUAGE, LC_* and TZ. Each command leads a new process group. At its timeout, or if the call is
// canceled, the group gets SIGTERM, and SIGKILL after [Grace]. The leader is reaped only after the last signal, so no
// signal can reach another process with a reused PID. All output is read, but only the first bytes are kept, so long
// output takes no memory and never blocks the command. If a process that the command left behind keeps the output open
// for longer than [Linger], its group is killed and the call returns; a daemon therefore has to close its output.
//
// # Known gaps
//
// If the peel is killed, the kernel kills only the leaders. [OpenGroups] kills the other processes of a group when the
// peel starts again, or logs that it cannot, if the peel was killed between the start of the command and the record of
// its group. If the peel is a systemd unit, systemd kills all of them at once. Processes in a session of their own
// (setsid) are not in the group and survive the timeout, the call and the peel; start such commands with systemd-run.
package module

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/catalogue"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// A Call has the arguments of a function.
type Call struct {
	// ID is the positional argument. [Registry.Call] moves it into Args, under the name of the function's positional
	// parameter; the function gets an empty ID.
	ID string
	// Args are plain values. A function gets all required arguments, no unknown ones and no nulls, each with the type
	// of its parameter as in a YAML map[string]any: durations are strings, lists []any.
	Args map[string]any
	// User is the user who sent the request, from the credential; empty for a scheduled run.
	User string
	// Secrets are masked in the output of commands before it is truncated and digested. If two begin at the same byte,
	// the first in the list is masked. The caller masks the rest of the result.
	Secrets []Secret
	// JID names the job or the scheduled run.
	JID wire.JID
	// StartBefore is the deadline of the job, before which the work has to start. It is zero if there is none.
	StartBefore time.Time
	// AfterStored has do called when the result of the call is stored. It may be nil.
	AfterStored func(do func())
}

// A Func is the code of one function. It has to return soon after ctx ends. It need not set Duration.
type Func func(ctx context.Context, call Call) wire.Result

// A Registry has the code of functions. It is safe for concurrent use after all functions are added.
type Registry struct {
	funcs  map[string]Func
	groups *Groups
}

// New returns a registry with the functions that need nothing but the host: test.*, sys.* and cmd.run.
func New() *Registry {
	r := &Registry{funcs: map[string]Func{}}
	r.Add("test.ping", ping)
	r.Add("test.echo", echo)
	r.Add("test.fail", fail)
	r.Add("test.sleep", sleep)
	r.Add("sys.list_functions", r.listFunctions)
	r.Add("sys.doc", r.doc)
	r.Add("cmd.run", r.runCommand)
	return r
}

// Add adds the code of a function of the catalogue. It panics if the catalogue has no such function, or it was added
// already.
func (r *Registry) Add(name string, f Func) {
	if _, ok := catalogue.Lookup(name); !ok {
		panic(fmt.Sprintf("module: %q is not in the catalogue of functions", name))
	}
	if _, ok := r.funcs[name]; ok {
		panic(fmt.Sprintf("module: %q is added twice", name))
	}
	r.funcs[name] = f
}

// Record records the process groups of commands in g. Call it before the first [Registry.Call].
func (r *Registry) Record(g *Groups) { r.groups = g }

// Drop removes a function; calls of it fail like calls of an unknown function.
func (r *Registry) Drop(name string) { delete(r.funcs, name) }

// Has reports whether a function can be called.
func (r *Registry) Has(name string) bool {
	_, ok := r.funcs[name]
	return ok
}

// Names returns the functions that can be called, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.funcs)) }

// Call runs a function and returns its result, with normalized Data and the measured Duration.
func (r *Registry) Call(ctx context.Context, name string, call Call) wire.Result {
	f, ok := r.funcs[name]
	if known, _ := catalogue.Lookup(name); !ok && known.Needs != "" {
		return failure("this peel cannot run %s: it needs %s", name, known.Needs)
	}
	if !ok {
		return failure("no such function %q%s", name, strictyaml.Suggest(name, r.Names()))
	}
	args, err := check(name, call)
	if err != nil {
		return failure("%v", err)
	}
	call.ID, call.Args = "", args
	start := time.Now()
	result := guarded(ctx, name, f, call)
	result.Duration = time.Since(start)
	data, err := canon.Normalize(result.Data)
	if err != nil {
		result.Success, result.Error = false, fmt.Sprintf("%s returned data that cannot be sent: %v", name,
			errors.Join(err, resultError(result)))
	}
	result.Data = data
	return result
}

const maxStack = 4 << 10 // bytes of the stack trace in the result of a panic

func guarded(ctx context.Context, name string, f Func, call Call) (result wire.Result) {
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			result = failure("%s panicked: %v", name, p)
			result.Data = map[string]any{"stack": string(stack[:min(len(stack), maxStack)])}
		}
	}()
	return f(ctx, call)
}

func success(data any) wire.Result { return wire.Result{Success: true, Data: data} }

func failure(format string, args ...any) wire.Result {
	return wire.Result{Error: fmt.Sprintf(format, args...)}
}

func resultError(r wire.Result) error {
	if r.Error == "" {
		return nil
	}
	return errors.New(r.Error)
}
