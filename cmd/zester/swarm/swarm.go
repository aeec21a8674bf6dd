// Package swarm measures a master and its bus with thousands of simulated peels on this machine. Call [Run]; the
// processes of the simulated peels call [Work]. Each peel is the real one, with a connection and a credential of its
// own, but without the facts of its host and without cmd.run.
//
// Beside each figure stands the bare bus in the same run: connections that answer the same traffic without jobs and
// settings, with the promises of the fleet. A command ends when the bucket job-returns has stored each answer,
// acknowledged it and re-published it. Each report on settings is stored and acknowledged. Each report of a scheduled
// run is taken from its stream and created in two buckets. Heartbeats have the interval of the fleet.
//
// There are two kinds of bare bus. In the first, accounts as the fleet, the connections have credentials of peels,
// whose account differs from the account of the masters: so peels cannot reach the streams, as in the fleet. Each
// [Goal] is compared with it. In the second, one account, they have credentials of masters.
//
// Master, bus and client are this process and the peels are others, so that their processor times are known apart; both
// use the same processors, so each time in seconds includes both. The state of the peels is in memory if /dev/shm
// exists.
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

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// Limits of a swarm.
const (
	MaxPeels     = 20_000
	perProcess   = 2500     // peels of one process, which may open only so many files
	outputPeels  = 1000     // the first peels, sim-00*, which are asked for outputLength
	outputLength = 64 << 10 // bytes of output
)

// Options say what to measure.
type Options struct {
	Peels    int
	Procs    int           // processes of the peels; 0: one for every 2500
	Rounds   int           // of each dispatch and commit; 0: 5
	External *External     // the bus; nil: one that the swarm starts
	Idle     time.Duration // how long the idle master and an idle peel are watched; 0: not at all
	Worker   []string      // program and arguments that call [Work]
	Programs string        // folder of zester and zester-peel, which are measured if they exist; empty: none
	Soak     time.Duration // instead of measuring, let the fleet work for so long and count losses; 0: measure
	Outputs  int           // instead of measuring, ask every peel for 64 KiB so many times and count losses; 0: measure
	// instead of measuring, stop master and bus for so long, and count what they know of the fires in it; 0: measure
	Outage time.Duration
	Out    io.Writer // gets figures as they are measured, in whole lines; nil: none
	// Progress is called at most ten times a second while something is waited for; nil: not at all.
	Progress func(what string, done, total int64)
	Log      slog.Handler // of bus and master; nil: none
}

// A run is one measurement under way.
type run struct {
	o             Options
	dir           string
	report        *Report
	fleetAccounts floor // the bare bus, accounts as the fleet
	oneAccount    floor // the bare bus, one account
	workers       []*process
	shown         time.Time               // when Progress was called last
	fail          context.CancelCauseFunc // ends the run
	refused       *worker.RefusalCounter
}

// Run measures, removes all that it made, and returns the report. An error names the part in which it happened.
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
	refused := &worker.RefusalCounter{}
	o.Log = worker.WatchRefusals(o.Log, refused)
	dir, err := os.MkdirTemp(stateDir(), statePrefix()+"*")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory for the swarm: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	machine, err := Describe()
	if err != nil {
		return nil, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	r := &run{
		o:       o,
		dir:     dir,
		fail:    fail,
		refused: refused,
		report:  &Report{Version: 1, Machine: machine, Peels: o.Peels, Procs: o.Procs, Rounds: o.Rounds},
	}
	return r.report, r.measure(ctx)
}

// measure runs all parts. It is an error if the bus refused anything.
func (r *run) measure(ctx context.Context) error {
	err := r.parts(ctx)
	if err == nil || r.refused.Err() != nil {
		r.figure("permission violations", "", float64(r.refused.Count()))
	}
	r.report.SetGoals()
	return errors.Join(err, r.refused.Err())
}

// parts runs the bare buses and the fleet one after the other, each on a new bus.
func (r *run) parts(ctx context.Context) error {
	part := func(ctx context.Context, f func(context.Context) error) error { return f(ctx) }
	if r.o.External != nil {
		part, r.report.Bus = r.onExternal, r.o.External.URL
	}
	if err := part(ctx, r.unused); err != nil {
		return fmt.Errorf("cannot measure a master without peels: %w", err)
	}
	if r.o.Soak == 0 && r.o.Outputs == 0 && r.o.Outage == 0 {
		for _, role := range []grants.Role{grants.RolePeel, grants.RoleMaster} {
			if err := part(ctx, func(ctx context.Context) error { return r.bare(ctx, role) }); err != nil {
				return fmt.Errorf("cannot measure the bare bus, %s: %w", floorNames[role], err)
			}
		}
		if err := r.open(ctx); err != nil {
			return fmt.Errorf("cannot measure a bus without credentials: %w", err)
		}
	}
	if err := part(ctx, r.product); err != nil {
		return fmt.Errorf("cannot measure the fleet: %w", err)
	}
	return nil
}

// stateDir returns a file system in memory, empty if there is none.
func stateDir() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return ""
}

// statePrefix returns how the names of this process's directories in stateDir begin.
func statePrefix() string { return fmt.Sprintf("zester-swarm-%d-", os.Getpid()) }

func (r *run) path(name string) string { return filepath.Join(r.dir, name) }

func (r *run) say(format string, args ...any) { fmt.Fprintf(r.o.Out, format+"\n", args...) }

func (r *run) progress(what string, done, total int64) {
	if r.o.Progress != nil && time.Since(r.shown) >= 100*time.Millisecond {
		r.shown = time.Now()
		r.o.Progress(what, done, total)
	}
}

// add adds a figure and computes its ratios.
func (r *run) add(f Figure) {
	if f.Bare > 0 {
		f.Ratio = f.Value / f.Bare
	}
	if f.OneAccount > 0 {
		f.OneAccountRatio = f.Value / f.OneAccount
	}
	r.report.Figures = append(r.report.Figures, f)
	r.say("%s: %.4g %s", f.Name, f.Value, f.Unit)
}

// figure adds a figure that has no counterpart on the bare bus.
func (r *run) figure(name, unit string, value float64) {
	r.add(Figure{Name: name, Unit: unit, Value: value})
}

// compare adds a figure beside those of the bare buses, which of returns.
func (r *run) compare(name, unit string, value float64, of func(floor) float64) {
	r.add(Figure{Name: name, Unit: unit, Value: value, Bare: of(r.fleetAccounts), OneAccount: of(r.oneAccount)})
}
