package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
)

// patience is how long anything may take before the test gives up and shows what the processes wrote. A take-over takes
// 40 s of it.
const patience = 2 * time.Minute

// lookAgain is the pause between two questions whose answer is waited for.
const lookAgain = 50 * time.Millisecond

var builds struct {
	once sync.Once
	dir  string
	err  error
}

// TestMain runs more tests at once than there are processors, unless -parallel says otherwise: they wait for processes
// more than they compute.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	code := natstest.InMemory(m)
	if builds.dir != "" {
		_ = os.RemoveAll(builds.dir)
	}
	os.Exit(code)
}

// binary is the path of a program of this tree. The first call builds them all.
func binary(t *testing.T, name string) string {
	t.Helper()
	builds.once.Do(func() {
		if builds.dir, builds.err = os.MkdirTemp("", "zester-bin-"); builds.err != nil {
			return
		}
		for _, name := range []string{"zester", "zester-master", "zester-peel"} {
			// What go run has linked stays in the build cache, from which tests of other packages have it as well.
			out, err := exec.Command("go", "run", "-exec", "cp", "../"+name, filepath.Join(builds.dir, name)).CombinedOutput()
			if err != nil {
				builds.err = fmt.Errorf("cannot build: %w\n%s", err, out)
			}
		}
	})
	if builds.err != nil {
		t.Fatal(builds.err)
	}
	return filepath.Join(builds.dir, name)
}

// A process is a program that runs until the test ends it or is over.
type process struct {
	t    *testing.T
	name string
	cmd  *exec.Cmd
	gone chan struct{} // closed when it has ended
	code int           // valid then

	mu    sync.Mutex
	lines []string // of its log
	read  int      // how many of them waitFor has passed
	more  chan struct{}
}

// A command says what to start.
type command struct {
	dir  string // to work in
	env  []string
	args []string // the program's name first
}

func (c command) start(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, name: c.args[0], cmd: c.exec(t), gone: make(chan struct{}), more: make(chan struct{}, 1)}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(stderr)
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.gone
		if t.Failed() {
			t.Logf("%s %s wrote:\n%s", p.name, strings.Join(c.args[1:], " "), strings.Join(p.lines, "\n"))
		}
	})
	return p
}

// exec is the command in an environment without the caller's own settings.
func (c command) exec(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(binary(t, c.args[0]), c.args[1:]...)
	cmd.Dir = c.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "ZESTER_") || strings.HasPrefix(v, "NOTIFY_SOCKET=")
	})
	cmd.Env = append(cmd.Env, c.env...)
	return cmd
}

// run returns what the command wrote and its exit code.
func (c command) run(t *testing.T) (out, errOut string, code int) {
	t.Helper()
	cmd := c.exec(t)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

func (p *process) follow(stderr io.Reader) {
	scanner := bufio.NewScanner(stderr)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
	}
	_ = p.cmd.Wait() // the code tells it
	p.code = p.cmd.ProcessState.ExitCode()
	close(p.gone)
}

// waitFor returns the next line of the log, after the one that it returned last, that contains all parts.
func (p *process) waitFor(parts ...string) string {
	p.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for ended := false; ; {
		if line, ok := p.next(parts); ok {
			return line
		}
		if ended {
			p.t.Fatalf("%s ended with %d and never wrote %q", p.name, p.code, parts)
		}
		select {
		case <-p.more:
		case <-p.gone:
			ended = true
		case <-limit.C:
			p.t.Fatalf("%s does not write %q", p.name, parts)
		}
	}
}

func (p *process) next(parts []string) (line string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, line := range p.lines[p.read:] {
		if !slices.ContainsFunc(parts, func(s string) bool { return !strings.Contains(line, s) }) {
			p.read += i + 1
			return line, true
		}
	}
	return "", false
}

// wrote reports whether a line so far contains the text.
func (p *process) wrote(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.lines, func(s string) bool { return strings.Contains(s, text) })
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// end waits for the end and returns the exit code.
func (p *process) end() int {
	p.t.Helper()
	select {
	case <-p.gone:
		return p.code
	case <-time.After(patience):
		p.t.Fatalf("%s does not end", p.name)
		return 0
	}
}

// stop ends the process as systemd would and wants the exit code 0.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.end(); code != 0 {
		p.t.Errorf("%s ended with %d", p.name, code)
	}
}

// reserve chooses an address at which a master can listen, also after another that did has ended.
func reserve(t *testing.T) (address string) {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", natstest.Reserve(t, 1)[0])
}

// A supervisor hears what processes tell systemd.
type supervisor struct {
	t    *testing.T
	conn *net.UnixConn
}

func supervise(t *testing.T) *supervisor {
	t.Helper()
	dir, err := os.MkdirTemp("", "z") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &supervisor{t, conn}
}

// env is the variable by which processes find it.
func (s *supervisor) env() string { return "NOTIFY_SOCKET=" + s.conn.LocalAddr().String() }

// hear returns the next message.
func (s *supervisor) hear() string {
	s.t.Helper()
	if err := s.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, 4096)
	n, err := s.conn.Read(b)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b[:n])
}

// A meeting is a named pipe by which a command on a peel tells the test something.
type meeting string

func arrange(t *testing.T) meeting {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return meeting(path)
}

// A guest is what has opened the pipe to write, with all its children.
type guest struct {
	t     *testing.T
	lines <-chan string // closed when all of them have ended
}

// wait returns when the first guest is there.
func (m meeting) wait(t *testing.T) guest {
	t.Helper()
	lines := make(chan string, 16) // more than a test's commands say
	t.Cleanup(func() {             // should nobody ever come
		if f, err := os.OpenFile(string(m), os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
			_ = f.Close()
		}
	})
	go func() {
		defer close(lines)
		f, err := os.Open(string(m))
		if err != nil {
			return
		}
		defer f.Close()
		for scanner := bufio.NewScanner(f); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return guest{t, lines}
}

// says returns the next line, and false when all have ended.
func (g guest) says() (string, bool) {
	g.t.Helper()
	select {
	case line, ok := <-g.lines:
		return line, ok
	case <-time.After(patience):
		g.t.Fatal("no command writes to the pipe")
		return "", false
	}
}
