// Package swarm measures a bus and a master with a fleet that does not exist yet: thousands of peels, each the real one
// with a connection and a credential of its own, that share this host and so cannot say anything about it.
//
// Every figure stands beside the same traffic on the bare bus, in the same run and on the same machine: connections that
// know nothing of jobs and settings, with the promises of the fleet. Of each answer to a command one stream keeps the first,
// acknowledges it and re-publishes it, and the sender counts what was re-published; each report on settings is stored and
// acknowledged; a report that waits is taken from its stream and created in two buckets; heartbeats are as many as the fleet's.
// What lies between the two is the price of records, fences and digests. A row says what the answers cost on the bare bus
// if they are stored nowhere.
//
// What is to be reached stands apart, see [Goal]. What the simulated peels use of the processors is a figure of its own:
// on the same cores it is in every time as well.
//
// The master, its bus and whoever asks it are this process, the peels are others, so that the processor time of the two
// sides can be told apart. The state of the peels lies in memory where the system has a file system for that.
package swarm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// Limits of a swarm.
const (
	MaxPeels     = 20_000
	perProcess   = 2500 // peels of one process, for want of more open files
	outputPeels  = 1000 // that are asked for 64 KiB each
	outputLength = 64 << 10
)

// Options say what to measure.
type Options struct {
	Peels    int
	Procs    int           // that the peels share; 0: one for every 2500
	Rounds   int           // of each dispatch and commit; 0: 5
	External *External     // the bus; nil: one that the swarm starts
	Idle     time.Duration // how long the idle master is watched, and an idle peel; 0: not at all
	Worker   []string      // program and arguments that call [Work]
	Programs string        // folder of zester and zester-peel, which are measured if they are there; empty: none
	Soak     time.Duration // measure nothing but let the fleet work for so long, and count; 0: measure
	Outputs  int           // measure nothing but ask every peel for 64 KiB so many times, and count; 0: measure
	Out      io.Writer     // what was found so far; each Write is of whole lines; nil: none
	// Progress is called, at most ten times a second, with how far something is that is waited for; nil: nothing.
	Progress func(what string, done, total int64)
	Log      slog.Handler // of the daemons; nil: none
}

// A run is one measurement under way.
type run struct {
	o       Options
	dir     string
	report  *Report
	workers []*worker
	shown   time.Time               // when Progress was called last
	fail    context.CancelCauseFunc // ends the run
	refused *refusals
}

// Run measures, removes everything that it made, and returns the report. An error says in which part it happened.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	if o.Peels < 1 || o.Peels > MaxPeels {
		return nil, fmt.Errorf("cannot run %d peels: 1 to %d are possible", o.Peels, MaxPeels)
	}
	if o.Procs == 0 {
		o.Procs = (o.Peels + perProcess - 1) / perProcess
	}
	o.Procs = min(o.Procs, o.Peels)
	if o.Rounds == 0 {
		o.Rounds = 5
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.Log == nil {
		o.Log = slog.DiscardHandler
	}
	refused := &refusals{}
	o.Log = watched{o.Log, refused}
	dir, err := os.MkdirTemp(stateDir(), statePrefix()+"*")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for the swarm: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	machine, err := describe()
	if err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &run{o: o, dir: dir, fail: fail, refused: refused, report: &Report{Version: 1, Machine: machine, Peels: o.Peels, Procs: o.Procs, Rounds: o.Rounds}}
	return r.report, r.measure(ctx)
}

// measure runs both parts, and counts what the bus has refused in them, which is an error.
func (r *run) measure(ctx context.Context) error {
	err := r.parts(ctx)
	if err == nil || r.refused.err() != nil {
		r.figure("permission violations", "", float64(r.refused.count()), 0)
	}
	r.report.setGoals()
	return errors.Join(err, r.refused.err())
}

// parts are run one after the other on the same kind of bus.
func (r *run) parts(ctx context.Context) error {
	part := func(ctx context.Context, f func(context.Context) error) error { return f(ctx) }
	if r.o.External != nil {
		part, r.report.Bus = r.onExternal, r.o.External.URL
	}
	var bare baseline
	if r.o.Soak > 0 || r.o.Outputs > 0 {
		return part(ctx, func(ctx context.Context) error { return r.product(ctx, bare) })
	}
	if err := part(ctx, func(ctx context.Context) error { return r.bare(ctx, &bare) }); err != nil {
		return fmt.Errorf("cannot measure the bare bus: %w", err)
	}
	if r.o.External == nil {
		var err error
		if bare.plain, err = r.plain(ctx); err != nil {
			return fmt.Errorf("cannot measure a bus that checks nothing: %w", err)
		}
	}
	r.storms(bare)
	if err := part(ctx, func(ctx context.Context) error { return r.product(ctx, bare) }); err != nil {
		return fmt.Errorf("cannot measure the fleet: %w", err)
	}
	return nil
}

// stateDir is a file system in memory, if there is one that has room.
func stateDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// statePrefix is how the names of the directories begin that this process makes there.
func statePrefix() string { return fmt.Sprintf("zester-swarm-%d-", os.Getpid()) }

func (r *run) path(name string) string { return filepath.Join(r.dir, name) }

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.o.Out, format+"\n", args...) }

func (r *run) progress(what string, done, total int64) {
	if r.o.Progress != nil && time.Since(r.shown) >= 100*time.Millisecond {
		r.shown = time.Now()
		r.o.Progress(what, done, total)
	}
}

// figure adds a figure, with the ratio to the bare bus if that has one.
func (r *run) figure(name, unit string, value, bare float64) {
	f := Figure{Name: name, Unit: unit, Value: value, Bare: bare}
	if bare > 0 {
		f.Ratio = value / bare
	}
	r.report.Figures = append(r.report.Figures, f)
	r.say("%s: %.4g %s", name, value, unit)
}

// peelID names the peels of a swarm, from 0.
func peelID(i int) target.PeelID { return target.PeelID(fmt.Sprintf("sim-%05d", i)) }
