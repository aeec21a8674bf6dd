package module

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// closeTimeout is how long the kernel may take to close the output of killed processes.
const closeTimeout = time.Second

// A process is a running command.
type process struct {
	cmd            *exec.Cmd
	readers        [2]*os.File
	stdout, stderr capture
	exited         chan struct{} // closed when the leader has ended; it is not reaped yet
	drained        chan struct{} // closed when all output is read and no process can write more
}

// run runs the command and returns when it has ended and is reaped. It returns an error if the command could not start.
func (c *command) run(ctx context.Context) (ending, error) {
	record := c.groups.open()
	defer c.groups.forget(record)
	p, err := c.start()
	if err != nil {
		return ending{}, err
	}
	c.groups.record(record, p.cmd.Process.Pid)
	var end ending
	select {
	case <-p.exited:
		end.held = !p.linger(ctx)
	case <-ctx.Done():
		end.cut = context.Cause(ctx)
		p.signal(unix.SIGTERM)
		within(Grace, p.exited, p.drained)
	}
	if end.held || end.cut != nil {
		p.signal(unix.SIGKILL)
	}
	<-p.exited
	p.finish(&end)
	return end, nil
}

func (c *command) start() (*process, error) {
	p := &process{exited: make(chan struct{}), drained: make(chan struct{})}
	p.stdout.limit, p.stderr.limit = c.maxOutput, c.maxOutput
	p.cmd = exec.Command(c.argv[0], c.argv[1:]...)
	p.cmd.Env, p.cmd.Dir = c.env, c.dir
	p.cmd.WaitDelay = closeTimeout // for standard input that no process reads
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if c.identity != nil {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{
			Uid:    c.identity.uid,
			Gid:    c.identity.gid,
			Groups: c.identity.groups,
		}
	}
	if c.stdin != "" {
		p.cmd.Stdin = strings.NewReader(c.stdin)
	}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot create a pipe: %w", err)
	}
	defer stdoutEnd.Close()
	stderr, stderrEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot create a pipe: %w", err), stdout.Close())
	}
	defer stderrEnd.Close()
	p.readers = [2]*os.File{stdout, stderr}
	p.cmd.Stdout, p.cmd.Stderr = stdoutEnd, stderrEnd
	if err := closeOnExec(); err != nil {
		return nil, errors.Join(err, stdout.Close(), stderr.Close())
	}
	if err := p.cmd.Start(); err != nil {
		stdout.Close()
		stderr.Close()
		return nil, err
	}
	go p.watch()
	go p.read(c.secrets)
	return p, nil
}

// closeOnExec sets the close-on-exec flag of descriptors that the peel was started with. Descriptors that the peel
// opens have the flag already.
func closeOnExec() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	open, err := os.ReadDir("/proc/self/fd") // a kernel before 5.11
	if err != nil {
		return fmt.Errorf("cannot close the peel's descriptors for the command: %w", err)
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// watch waits for the end of the leader without reaping it, so the ID of its process group is not reused.
func (p *process) watch() {
	defer close(p.exited)
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// read reads the output until its end, or until finish closes the pipes.
func (p *process) read(secrets []Secret) {
	defer close(p.drained)
	var both sync.WaitGroup
	for i, to := range []*capture{&p.stdout, &p.stderr} {
		both.Go(func() {
			masked := newMasker(to, secrets)
			_, _ = io.Copy(masked, p.readers[i])
			_ = masked.Close() // a capture never fails
		})
	}
	both.Wait()
}

// linger waits up to Linger for the end of the output after the command has ended, and reports whether it ended.
func (p *process) linger(ctx context.Context) bool {
	timer := time.NewTimer(Linger)
	defer timer.Stop()
	select {
	case <-p.drained:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// signal sends a signal to the process group. Call it only before finish, while the group ID cannot be reused.
func (p *process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // it fails only if no process is left
}

// finish collects the output and reaps the leader. It closes the pipes of processes that left the group.
func (p *process) finish(end *ending) {
	if !within(closeTimeout, p.drained) {
		end.held = true
	}
	for _, r := range p.readers {
		_ = r.Close() // ends read
	}
	<-p.drained
	_ = p.cmd.Wait() // ProcessState has more than the error
	end.stdout, end.stderr = p.stdout.stream(), p.stderr.stream()
	end.code = p.cmd.ProcessState.ExitCode()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		end.signal = unix.SignalName(status.Signal())
	}
}

// within waits up to d and reports whether all channels were closed.
func within(d time.Duration, all ...<-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for _, c := range all {
		select {
		case <-c:
		case <-timer.C:
			return false
		}
	}
	return true
}
