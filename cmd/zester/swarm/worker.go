package swarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/host"
	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/refusals"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// gcPercent lets the memory of a worker process grow to three times what its peels use before garbage is collected. A peel has
// a process and a small heap of its own; here each collection walks the heaps of thousands.
const gcPercent = 200

// orders is what a worker process reads from its standard input.
type orders struct {
	URL, CA, Keys, Dir string
	From, To           int           // the peels to simulate, To excluded
	Bare               bool          // bare connections instead of peels
	Role               grants.Role   // of the credentials of bare connections; empty if the bus asks for none
	Heartbeats         time.Duration // interval of the heartbeats of each bare connection
}

// A worker is a process that simulates peels.
type worker struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	ended  chan error // gets one value when stderr is complete
}

// startWorkers starts the worker processes and divides the peels among them. If one ends before stopWorkers is called, the
// run ends.
func (r *run) startWorkers(ctx context.Context, o orders) error {
	for i := range r.o.Procs {
		o.From, o.To = r.o.Peels*i/r.o.Procs, r.o.Peels*(i+1)/r.o.Procs
		w := &worker{cmd: exec.CommandContext(ctx, r.o.Worker[0], r.o.Worker[1:]...), ended: make(chan error, 1)}
		w.cmd.Stderr = &w.stderr
		w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		var err error
		if w.stdin, err = w.cmd.StdinPipe(); err != nil {
			return err
		}
		if err := w.cmd.Start(); err != nil {
			return fmt.Errorf("cannot start a process for peels: %w", err)
		}
		r.workers = append(r.workers, w)
		go func() {
			err := w.cmd.Wait()
			if err != nil {
				err = fmt.Errorf("a process of peels: %w: %.500s", err, bytes.TrimSpace(w.stderr.Bytes()))
				r.fail(err)
			}
			w.ended <- err
		}()
		if err := json.NewEncoder(w.stdin).Encode(o); err != nil {
			return fmt.Errorf("cannot write the orders of a process of peels: %w", err)
		}
	}
	return nil
}

// stopWorkers ends the worker processes and returns their errors.
func (r *run) stopWorkers() error {
	for _, w := range r.workers {
		_ = w.stdin.Close()
	}
	var errs []error
	for _, w := range r.workers {
		errs = append(errs, <-w.ended)
	}
	r.workers = nil
	return errors.Join(errs...)
}

// peelMemory returns the resident memory of one simulated peel in KiB.
func (r *run) peelMemory() (kib float64) {
	for _, w := range r.workers {
		kib += host.Resident(w.cmd.Process.Pid)
	}
	return kib / float64(r.o.Peels)
}

// workersCPU returns the processor time that the worker processes have used.
func (r *run) workersCPU() (used time.Duration) {
	for _, w := range r.workers {
		used += host.CPUTimeOf(w.cmd.Process.Pid)
	}
	return used
}

// Work simulates peels until in or ctx ends. The first line of in says which. A process that [Options.Worker] names calls it.
func Work(ctx context.Context, in io.Reader) error {
	d := json.NewDecoder(in)
	var o orders
	if err := d.Decode(&o); err != nil {
		return fmt.Errorf("cannot read which peels to simulate: %w", err)
	}
	debug.SetGCPercent(gcPercent)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	if o.Bare {
		return o.connections(ctx)
	}
	return o.peels(ctx)
}

// peels runs peels until ctx ends.
func (o orders) peels(ctx context.Context) error {
	keys, err := keystore.Open(o.Keys)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	refused := &refusals.Counter{}
	log := slog.New(refusals.Watch(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}), refused))
	for i := o.From; i < o.To && ctx.Err() == nil; i++ {
		id := peelID(i)
		creds, err := keys.Creds(grants.RolePeel, id.Wire(), 0)
		if err != nil {
			return err
		}
		p, err := peel.New(peel.Options{
			ID: id, DataDir: filepath.Join(o.Dir, string(id)), URL: o.URL, Connect: connectOptions(creds, o.CA), Simulated: true, Log: log,
			Facts: target.Facts{"os": "simulated", "rack50": strconv.Itoa(i % 50), "rack1000": strconv.Itoa(i % 1000)},
		})
		if err != nil {
			return err
		}
		g.Go(func() error { return p.Run(ctx) })
	}
	return errors.Join(g.Wait(), refused.Err())
}
