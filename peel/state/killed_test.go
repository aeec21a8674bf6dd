//go:build linux

package state

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/download/downloadtest"
)

// The process that a test kills runs these states in this directory, on its first thread.
const (
	killedStates = "ZESTER_TEST_STATES"
	killedDir    = "ZESTER_TEST_DIR"
)

func init() {
	if os.Getenv(killedStates) != "" {
		runtime.LockOSThread()
	}
}

func TestMain(m *testing.M) {
	if text := os.Getenv(killedStates); text != "" {
		h := fixtureIn(os.Getenv(killedDir))
		set, err := h.parse(text)
		if err == nil {
			var r *Result
			if r, err = h.r.Run(context.Background(), Request{Set: set, Whole: true}); err == nil && !r.Success() {
				fmt.Printf("%+v\n", r.States)
			}
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(downloadtest.Main(m))
}

// killed runs states in a process that is killed before its system call n, and reports whether it ended before that.
func (h *fixture) killed(text string, n int) (ended bool) {
	h.t.Helper()
	exe, err := os.Executable()
	must(h.t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), killedStates+"="+text, killedDir+"="+h.dir, "GOMAXPROCS=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	runtime.LockOSThread() // the thread that starts a traced process has to wait for it
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		h.t.Skipf("cannot trace a process: %v", err)
	}
	pid := cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		h.t.Skipf("cannot trace a process: %v", err)
	}
	signal := 0
	for stops := 0; stops < 2*n; { // a system call stops the process when it begins and when it ends
		must(h.t, syscall.PtraceSyscall(pid, signal))
		_, err := syscall.Wait4(pid, &status, 0, nil)
		must(h.t, err)
		if status.Exited() || status.Signaled() {
			return true
		}
		if signal = 0; status.StopSignal() == syscall.SIGTRAP {
			stops++
		} else {
			signal = int(status.StopSignal())
		}
	}
	must(h.t, syscall.Kill(pid, syscall.SIGKILL))
	_, err = syscall.Wait4(pid, &status, 0, nil)
	must(h.t, err)
	return false
}

// TestAKilledRun kills a run before one of its system calls, at many places, and runs the states again: no file is half, nothing is
// left to do or lying about, and each change has its reaction.
func TestAKilledRun(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	const text = `
one: {file.managed: {path: DIR/one, source: files/new}}
two: {file.managed: {path: DIR/d/two, source: files/new, makedirs: true}}
link: {file.symlink: {path: DIR/link, target: two}}
gone: {file.absent: {path: DIR/tree}}
line: {file.line: {path: DIR/lines, line: z}}
after-one: {cmd.run: {command: "echo x >> DIR/after-one"}, onchanges: [one, link]}
after-gone: {cmd.run: {command: "echo x >> DIR/after-gone"}, onchanges: [gone]}
after-line: {cmd.run: {command: "echo x >> DIR/after-line"}, onchanges: [line]}
`
	content := strings.Repeat("0123456789\n", 20_000)
	last := 0
	for n := 1; ; n += 1 + r.IntN(120) {
		h := newHost(t)
		must(t, os.MkdirAll(h.dir+"/files", 0o755))
		must(t, os.WriteFile(h.dir+"/files/new", []byte(content), 0o644))
		must(t, os.WriteFile(h.dir+"/one", []byte("old"), 0o644))
		must(t, os.WriteFile(h.dir+"/lines", []byte("x\ny\n"), 0o644))
		must(t, os.MkdirAll(h.dir+"/tree/a/b", 0o755))
		must(t, os.WriteFile(h.dir+"/tree/a/f", []byte("x"), 0o644))
		states := strings.ReplaceAll(text, "DIR", h.dir)
		ended := h.killed(states, n)
		for _, name := range []string{"one", "d/two"} {
			if data, err := os.ReadFile(filepath.Join(h.dir, name)); err == nil && string(data) != "old" && string(data) != content {
				t.Errorf("killed at %d: %s has %d bytes", n, name, len(data))
			}
		}
		again := h.run(states, false)
		if !again.Success() || len(again.Owed) > 0 {
			t.Errorf("killed at %d, the next run is %v and owes %v", n, verdicts(again), again.Owed)
		}
		twice := 0
		for _, name := range []string{"after-one", "after-gone", "after-line"} {
			switch count := strings.Count(h.read(name), "x"); count {
			case 1:
			case 2:
				twice++ // the command under way when the process was killed: nobody knows whether it ended
			default:
				t.Errorf("killed at %d, %s ran %d times", n, name, count)
			}
		}
		if twice > 1 {
			t.Errorf("killed at %d, %d commands ran twice", n, twice)
		}
		if third := h.run(states, false); third.Counts[Unchanged]+third.Counts[Skipped] != len(third.States) {
			t.Errorf("killed at %d, the third run is %v", n, verdicts(third))
		}
		if left, _ := filepath.Glob(h.dir + "/.zester-*"); len(left) > 0 {
			t.Errorf("killed at %d, left are %v", n, left)
		}
		if t.Failed() {
			return
		}
		if last = n; ended {
			break
		}
	}
	if last < 200 {
		t.Errorf("the run ends after %d system calls", last)
	}
	t.Logf("a run has about %d system calls", last)
}
