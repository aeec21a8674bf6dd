package swarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
)

// A process simulates peels.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr bytes.Buffer
	ended  chan error // gets one value when stderr is complete
}

// startWorkers starts the worker processes and divides the peels among them. If one ends before stopWorkers is called,
// the run ends.
func (r *run) startWorkers(ctx context.Context, o worker.Orders) error {
	for i := range r.o.Procs {
		o.From, o.To = r.o.Peels*i/r.o.Procs, r.o.Peels*(i+1)/r.o.Procs
		w := &process{cmd: exec.CommandContext(ctx, r.o.Worker[0], r.o.Worker[1:]...), ended: make(chan error, 1)}
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
		kib += Resident(w.cmd.Process.Pid)
	}
	return kib / float64(r.o.Peels)
}

// workersCPU returns the processor time that the worker processes have used.
func (r *run) workersCPU() (used time.Duration) {
	for _, w := range r.workers {
		used += CPUTimeOf(w.cmd.Process.Pid)
	}
	return used
}
