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

// settle is how long the kernel may take to close the output of processes that were killed.
const settle = time.Second

// A process is a running command.
type process struct {
	cmd            *exec.Cmd
	readers        [2]*os.File
	stdout, stderr capture
	exited         chan struct{} // closed when the leader has ended; it is not reaped yet
	drained        chan struct{} // closed when nobody can write to the output any more
}

// run returns when the command has ended and is reaped. The error is of a command that could not be started.
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
	p.cmd.WaitDelay = settle // for standard input that nobody reads
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	if c.identity != nil {
		p.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: c.identity.uid, Gid: c.identity.gid, Groups: c.identity.groups}
	}
	if c.stdin != "" {
		p.cmd.Stdin = strings.NewReader(c.stdin)
	}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot make a pipe: %w", err)
	}
	defer stdoutEnd.Close()
	stderr, stderrEnd, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make a pipe: %w", err), stdout.Close())
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

// closeOnExec keeps commands from getting descriptors that the peel was started with. Its own have the flag already.
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

// watch waits for the leader's end without reaping it: until then its process group keeps its number.
func (p *process) watch() {
	defer close(p.exited)
	for unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// read takes in the output until its end, or until finish closes the pipes.
func (p *process) read(secrets []Secret) {
	defer close(p.drained)
	var both sync.WaitGroup
	for i, to := range []*capture{&p.stdout, &p.stderr} {
		both.Go(func() {
			masked := newMasker(to, secrets)
			_, _ = io.Copy(masked, p.readers[i])
			_ = masked.Close() // a capture takes everything
		})
	}
	both.Wait()
}

// linger waits for the end of the output after that of the command, and reports whether it came.
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

// signal reaches the whole process group. It is called before finish only, so that the group is still this one.
func (p *process) signal(s syscall.Signal) {
	_ = syscall.Kill(-p.cmd.Process.Pid, s) // nobody left is as good as signaled
}

// finish collects the output and reaps the leader. Who escaped the group by making one of its own is cut off.
func (p *process) finish(end *ending) {
	if !within(settle, p.drained) {
		end.held = true
	}
	for _, r := range p.readers {
		_ = r.Close() // ends read
	}
	<-p.drained
	_ = p.cmd.Wait() // its state tells more than its error
	end.stdout, end.stderr = p.stdout.stream(), p.stderr.stream()
	end.code = p.cmd.ProcessState.ExitCode()
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		end.signal = unix.SignalName(status.Signal())
	}
}

// within reports whether all are closed before d is over.
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
