package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A process is zester as people start it. What it prints on one of its streams is read line by line.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   io.Closer
	lines *bufio.Scanner
	seen  strings.Builder
}

// start runs zester with variables like NAME=value and reads its stdout.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command("zester", args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return begin(t, cmd, env, out)
}

// startAside is start that reads stderr.
func startAside(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	cmd := exec.Command("zester", args...)
	errOut, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	return begin(t, cmd, env, errOut)
}

func begin(t *testing.T, cmd *exec.Cmd, env []string, out io.ReadCloser) *process {
	t.Helper()
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return &process{t: t, cmd: cmd, out: out, lines: bufio.NewScanner(out)}
}

// await reads lines until one matches, and returns its first group or the whole match.
func (p *process) await(pattern string) string {
	p.t.Helper()
	re := regexp.MustCompile(pattern)
	for p.lines.Scan() {
		fmt.Fprintln(&p.seen, p.lines.Text())
		if match := re.FindStringSubmatch(p.lines.Text()); match != nil {
			return match[len(match)-1]
		}
	}
	p.t.Fatalf("nothing like %s in:\n%s", pattern, &p.seen)
	return ""
}

func (p *process) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		p.t.Fatal(err)
	}
}

// code reads what is still printed and returns the exit code.
func (p *process) code() int {
	p.t.Helper()
	for p.lines.Scan() {
		fmt.Fprintln(&p.seen, p.lines.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		if _, ok := errors.AsType[*exec.ExitError](err); !ok {
			p.t.Fatal(err)
		}
	}
	return p.cmd.ProcessState.ExitCode()
}

func TestAnInterruptedJobGoesOn(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	env := []string{"ZESTER_DATA_DIR=" + f.dir}
	p := startAside(t, env, "web-01", "cmd.run", "command=read x < "+fifo(t))
	jid := p.await(`^job (\S+) on 1 peel: \S+$`)
	p.interrupt()
	if code := p.code(); code != exitInterrupted {
		t.Errorf("ended with %d", code)
	}
	for _, want := range []string{"zester: interrupted, the job goes on\n", "hint: zester job watch " + jid} {
		if !strings.Contains(p.seen.String(), want) {
			t.Errorf("%q is not in %s", want, &p.seen)
		}
	}
	if err := f.until(t.Context(), `(?ms)^status: +running$.*\bno answer yet$`, "job", "show", jid); err != nil {
		t.Error(err)
	}
}

func TestSyncWaitWaitsForTheMasterToStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startAside(t, []string{"ZESTER_DATA_DIR=" + dir + "/master"}, "sync", "wait", "--peels", "4")
	p.await(`^waiting: no master runs`)
	f, err := startFleet(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.stop()
	if code := p.code(); code != exitOK {
		t.Errorf("ended with %d after:\n%s", code, &p.seen)
	}
}

// fifo is a pipe that nobody writes to.
func fifo(t *testing.T) string {
	path := t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheAuditLogIsFollowed(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ask := func(code int, args ...string) {
		t.Helper()
		var out, errOut bytes.Buffer
		if got := run(t.Context(), append([]string{"--data-dir", f.dir}, args...), &out, &errOut); got != code {
			t.Fatalf("zester %v ended with %d: %s", args, got, &errOut)
		}
	}
	ask(exitOK, "auth", "token", "create", "before")
	ask(exitOK, "auth", "token", "create", "also-before")
	p := start(t, []string{"ZESTER_DATA_DIR=" + f.dir}, "audit", "list", "--follow", "--action", "token", "-o", "jsonl")
	if first := p.await(`"target":"([a-z-]*before)"`); first != "before" {
		t.Errorf("it begins with %s, the oldest is to be first", first)
	}
	p.await(`"target":"also-before"`)
	newest := start(t, []string{"ZESTER_DATA_DIR=" + f.dir}, "audit", "list", "--follow", "--action", "token", "--limit", "1", "-o", "json")
	if first := newest.await(`"target":"([a-z-]*)"`); first != "also-before" {
		t.Errorf("of one it is %s, the newest is to be it", first)
	}
	for _, name := range []string{"one", "two", "three"} {
		ask(exitOK, "web-01", "test.ping") // of another action
		ask(exitOK, "auth", "token", "create", name)
		p.await(`"action":"token.create","target":"` + name + `","result":"done"`)
	}
	ask(exitFailed, "auth", "token", "create", "one")
	p.await(`"target":"one","result":"refused"`)
	p.interrupt()
	if code := p.code(); code != exitInterrupted {
		t.Errorf("ended with %d", code)
	}
	if said := p.seen.String(); strings.Count(said, "\n") != 6 || strings.Contains(said, "job.dispatch") {
		t.Errorf("printed:\n%s", said)
	}
}
