// Package module is what a peel can run: functions by name, called with checked arguments.
//
// The names, parameters and one-line docs are in package catalogue, which other programs read as well; a
// [Registry] holds the code. Calls are strict: an argument that a function does not have, or of another type, is
// never ignored, because a misspelt `timeot` would run a command without a limit. Whatever goes wrong, a panic
// included, comes back as a failed result; a call always returns one, and its data is made of the plain values that
// package canon decodes, so that a result looks the same to the peel, on the wire and in a record.
//
// cmd.run is the function that can do damage. A command gets none of the peel's descriptors, and of its environment PATH,
// HOME, USER, LOGNAME, LANG, LANGUAGE, LC_* and TZ alone, beside what the call gives it. Each command is the leader of a process group of its own; when its
// time is over or the call is canceled, the group gets SIGTERM, after [Grace] SIGKILL. The leader stays unreaped
// until the group has had its last signal, so that no signal can hit a stranger with a recycled number. Output is
// read to its end however long it is, but only the first bytes are kept: a gigabyte costs no memory, and a command
// never dies of a pipe that nobody reads. A process that the command left behind and that still holds the output
// gets [Linger] to finish, then its group is killed and the call returns; a daemon that is to live on must let go of
// its output. When the peel is killed, the kernel kills the leader alone. The
// other processes of the group run until the peel starts again: [OpenGroups] kills them, or logs that it cannot, if the kill
// came between the start of the command and the record of its group. As a systemd unit the peel ends whole at once. What a
// command puts into a session of its own (setsid) is no longer in its group, and outlives its timeout, the call and the
// peel; where that must not be, the command is to be started by systemd-run, whose units end whole.
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

// A Call is what a function is called with.
type Call struct {
	// ID is the bare positional argument. [Registry.Call] moves it into Args, under the name of the function's
	// positional parameter; a function finds it empty.
	ID string
	// Args are plain values. A function finds all required ones, no unknown ones, no nulls, and each value of its
	// parameter's type as a map[string]any of YAML would hold it: durations are strings, lists []any.
	Args map[string]any
	// User is the person who sent the request, from the credential; empty for a run of the peel's own schedule.
	User string
	// Secrets are masked in the output of commands before it is cut and digested. Where two begin at the same byte, the first
	// in the list counts. The caller masks the rest of the result.
	Secrets []Secret
}

// A Func does the work of one function. It returns soon after ctx ends. It need not set Duration.
type Func func(ctx context.Context, call Call) wire.Result

// A Registry holds the code of functions. All functions are added before the first call; after that it is safe for
// concurrent use.
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

// Add gives a function of the catalogue its code. It panics if the catalogue has no such function, or the registry
// has it already.
func (r *Registry) Add(name string, f Func) {
	if _, ok := catalogue.Lookup(name); !ok {
		panic(fmt.Sprintf("module: %q is not in the catalogue of functions", name))
	}
	if _, ok := r.funcs[name]; ok {
		panic(fmt.Sprintf("module: %q is added twice", name))
	}
	r.funcs[name] = f
}

// Record has the process groups of commands recorded in g. It is called before the first call.
func (r *Registry) Record(g *Groups) { r.groups = g }

// Drop takes a function away; calls of it fail as those of one that never was.
func (r *Registry) Drop(name string) { delete(r.funcs, name) }

// Names returns the functions that can be called, sorted.
func (r *Registry) Names() []string { return slices.Sorted(maps.Keys(r.funcs)) }

// Call runs a function and returns when it has ended. Result.Data is normalised, Result.Duration measured.
func (r *Registry) Call(ctx context.Context, name string, call Call) wire.Result {
	f, ok := r.funcs[name]
	if !ok {
		return failure("no such function %q%s", name, strictyaml.Suggest(name, r.Names()))
	}
	args, err := check(name, call)
	if err != nil {
		return failure("%v", err)
	}
	start := time.Now()
	result := guarded(ctx, name, f, Call{Args: args, User: call.User, Secrets: call.Secrets})
	result.Duration = time.Since(start)
	data, err := canon.Normalize(result.Data)
	if err != nil {
		result.Success, result.Error = false, fmt.Sprintf("%s gave data that cannot be sent: %v", name, errors.Join(err, resultError(result)))
	}
	result.Data = data
	return result
}

// maxStack bounds the stack trace that the result of a panic carries, in bytes.
const maxStack = 4 << 10

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
