//go:build linux

package module_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/module"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TestMain runs more tests at once than there are processors, unless -parallel says otherwise: they wait for processes.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

type args = map[string]any

func run(t *testing.T, a args) wire.Result {
	t.Helper()
	return module.New().Call(t.Context(), "cmd.run", module.Call{Args: a})
}

// data returns a field of what cmd.run gave.
func data(r wire.Result, key string) any {
	m, _ := r.Data.(map[string]any)
	return m[key]
}

func TestHowACommandEndedIsTold(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command string
		code    int64
		signal  any
		err     string
	}{
		{"true", 0, nil, ""},
		{"exit 1", 1, nil, "exit status 1"},
		{"exit 255", 255, nil, "exit status 255"},
		{"/etc/passwd", 126, nil, "exit status 126"},
		{"/no/such/program", 127, nil, "exit status 127"},
		{"exit 137", 137, nil, "exit status 137"},
		{"kill -KILL $$", -1, "SIGKILL", "killed by SIGKILL"},
		{"kill -TERM $$", -1, "SIGTERM", "killed by SIGTERM"},
	} {
		got := run(t, args{"command": c.command})
		if got.Success != (c.err == "") || got.Error != c.err || data(got, "code") != c.code || data(got, "signal") != c.signal {
			t.Errorf("%s: %+v", c.command, got)
		}
	}
}

func TestACommandThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]args{
		`cannot run /no/such: fork/exec /no/such: no such file or directory`:               {"argv": []any{"/no/such"}},
		`cannot run no-such: exec: "no-such": executable file not found in $PATH`:          {"argv": []any{"no-such"}},
		`cannot run the command: cannot use cwd: stat /no/such: no such file or directory`: {"command": "true", "cwd": "/no/such"},
		`cannot run /no/shell: fork/exec /no/shell: no such file or directory`:             {"command": "true", "shell": "/no/shell"},
		`cannot run echo: fork/exec /usr/bin/echo: argument list too long`:                 {"argv": []any{"echo", strings.Repeat("x", 1<<20)}},
		`cannot run echo: exec: environment variable contains NUL`:                         {"argv": []any{"echo"}, "env": args{"A": "a\x00b"}},
		`cannot run echo: fork/exec /usr/bin/echo: invalid argument`:                       {"argv": []any{"echo", "a\x00b"}},
	} {
		if got := run(t, a); got.Success || got.Error != want || got.Data != nil {
			t.Errorf("%.200v:\ngot  %s\nwant %s", a, got.Error, want)
		}
	}
}

func TestOutputSurvivesByteForByte(t *testing.T) {
	t.Parallel()
	got := run(t, args{"command": `printf 'out\0\033[31m\r\n'; printf 'err\377' >&2`})
	if !got.Success || data(got, "stdout") != "out\x00\x1b[31m\r\n" || data(got, "stdout_bytes") != int64(11) {
		t.Errorf("stdout: %+v", got)
	}
	if b, ok := data(got, "stderr").([]byte); !ok || string(b) != "err\xff" {
		t.Errorf("stderr: %#v", data(got, "stderr"))
	}
}

func TestArgumentsArriveVerbatim(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{"", " ", `'"$HOME\`, "a\nb", "k=v", "ünïcödé", strings.Repeat("x", 100_000)} {
		if got := run(t, args{"argv": []any{"printf", "%s", arg}}); data(got, "stdout") != arg {
			t.Errorf("%.40q: %.200v", arg, got)
		}
		if got := run(t, args{"command": "cat", "stdin": arg}); data(got, "stdout") != arg {
			t.Errorf("%.40q through stdin: %.200v", arg, got)
		}
		if got := run(t, args{"command": `printf %s "$V"`, "env": args{"V": arg}}); data(got, "stdout") != arg {
			t.Errorf("%.40q through the environment: %.200v", arg, got)
		}
	}
}

func TestACommandHasItsOwnSurroundings(t *testing.T) {
	t.Setenv("ZESTER_SECRET", "s")
	t.Setenv("NOTIFY_SOCKET", "/run/x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	t.Setenv("LC_TIME", "C")
	t.Setenv("KEPT", "not")
	dir := t.TempDir()
	for want, a := range map[string]args{
		"C---":                   {"command": `printf %s "$LC_TIME-$KEPT-$ZESTER_SECRET-$NOTIFY_SOCKET"`},
		"given":                  {"command": `printf %s "$KEPT"`, "env": args{"KEPT": "given"}},
		dir + "\n":               {"command": "pwd -P", "cwd": dir},
		os.Getenv("HOME") + "\n": {"command": "pwd"},
		"no input\n":             {"command": "read x || echo no input"},
		"by echo\n":              {"argv": []any{"echo", "by", "echo"}},
		"by bash\n":              {"command": `[[ 1 ]] && echo by bash`, "shell": "/bin/bash"},
	} {
		if got := run(t, a); data(got, "stdout") != want {
			t.Errorf("%v: want %q: %+v", a, want, got)
		}
	}
	leader := run(t, args{"command": `read -r _ _ _ _ pgrp _ </proc/$$/stat; echo $(($$ == pgrp))`})
	if data(leader, "stdout") != "1\n" {
		t.Errorf("not the leader of its process group: %+v", leader)
	}
}

func TestACommandGetsTheVariablesOfTheListAndNoDescriptors(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "s")
	t.Setenv("LC_TIME", "C")
	fd, err := syscall.Open("/etc/passwd", syscall.O_RDONLY, 0) // without close-on-exec, as a parent may have left it
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	users := []string{""}
	if os.Getuid() == 0 {
		users = append(users, "nobody")
	}
	for _, user := range users {
		a := args{"argv": []any{"sh", "-c", "env; ls /proc/self/fd"}, "env": args{"GIVEN": "1"}}
		if user != "" {
			a["user"] = user
		}
		got := run(t, a)
		var names, descriptors []string
		for line := range strings.Lines(fmt.Sprint(data(got, "stdout"))) {
			if name, _, isVariable := strings.Cut(strings.TrimSpace(line), "="); isVariable {
				names = append(names, name)
			} else {
				descriptors = append(descriptors, name)
			}
		}
		for _, name := range names {
			if !slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "LC_TIME", "GIVEN", "PWD", "OLDPWD", "SHLVL", "_"}, name) && !strings.HasPrefix(name, "LC_") {
				t.Errorf("as %q: it gets the variable %s", user, name)
			}
		}
		if !slices.Contains(names, "LC_TIME") || !slices.Contains(names, "GIVEN") || !slices.Contains(names, "PATH") {
			t.Errorf("as %q: it gets only %v", user, names)
		}
		if !slices.Equal(descriptors, []string{"0", "1", "2", "3"}) { // 3 is that of ls
			t.Errorf("as %q: it gets the descriptors %v", user, descriptors)
		}
	}
}

func TestACommandRunsAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		if got := run(t, args{"command": "true", "user": "root"}); got.Success {
			t.Error("became root")
		}
		return
	}
	for _, name := range []string{"nobody", "65534"} {
		got := run(t, args{"command": `echo $(id -un) $(id -G) $USER; pwd`, "user": name})
		if data(got, "stdout") != "nobody 65534 nobody\n/\n" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestLongOutputIsCutWithAMarkAndADigest(t *testing.T) {
	t.Parallel()
	got := run(t, args{"command": `i=0; while [ $i -lt 1000 ]; do printf é; i=$((i+1)); done`, "max_output": 333})
	if data(got, "stdout") != strings.Repeat("é", 166) {
		t.Errorf("a cut through a character: %#v", data(got, "stdout"))
	}
	sum := sha256.Sum256([]byte(strings.Repeat("é", 1000)))
	if data(got, "stdout_bytes") != int64(2000) || data(got, "stdout_truncated") != true || data(got, "stdout_sha256") != hex.EncodeToString(sum[:]) {
		t.Errorf("%+v", got)
	}
	if data(got, "stderr_truncated") != nil {
		t.Error("an empty stderr is marked as cut")
	}
}

func TestAGigabyteOfOutputTakesNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a gigabyte")
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := run(t, args{"command": "head -c 1073741824 /dev/zero"})
	runtime.ReadMemStats(&after)
	if !got.Success || data(got, "stdout_bytes") != int64(1<<30) || len(data(got, "stdout").(string)) != 256<<10 {
		t.Errorf("%v bytes: %s", data(got, "stdout_bytes"), got.Error)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

// A fifo lets a test wait for what processes do: opening waits for the other side, reading for its end.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// start runs a command that writes a line to the fifo named $F when it is under way. What it returns reads the rest
// of the fifo: it ends when all that the command started is dead.
func start(t *testing.T, ctx context.Context, a args) (result <-chan wire.Result, rest io.Reader) {
	t.Helper()
	name := fifo(t)
	a["env"] = args{"F": name}
	done := make(chan wire.Result, 1)
	go func() { done <- module.New().Call(ctx, "cmd.run", module.Call{Args: a}) }()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r := bufio.NewReader(f)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return done, r
}

func drain(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestCancelStopsTheWholeProcessGroup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	result, rest := start(t, ctx, args{"command": `exec 3>"$F"; sleep 8 & (sleep 8; true) & echo partial; echo ready >&3; wait`})
	cancel(errors.New("alice said so"))
	got := <-result
	if got.Success || got.Error != "canceled: alice said so" || data(got, "canceled") != true || data(got, "stdout") != "partial\n" {
		t.Errorf("%+v", got)
	}
	drain(t, rest)
}

// TestACommandMayTidyUpWhenItsTimeIsOver gives it the time that it needs to be ready.
func TestACommandMayTidyUpWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	result, rest := start(t, t.Context(), args{"timeout": "5s", "command": `exec 3>"$F"; trap 'echo tidy; exit 0' TERM; echo ready >&3; while :; do sleep 0.01; done`})
	got := <-result
	if got.Success || got.Error != "timed out after 5s" || data(got, "timed_out") != true || data(got, "code") != int64(0) || data(got, "stdout") != "tidy\n" {
		t.Errorf("%+v", got)
	}
	drain(t, rest)
}

func TestWhoIgnoresTheSignalIsKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	result, rest := start(t, ctx, args{"command": `exec 3>"$F"; trap '' TERM; echo ready >&3; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done`}) // ends by itself after the grace
	cancel()
	if got := <-result; got.Error != "canceled" || data(got, "signal") != "SIGKILL" || data(got, "code") != int64(-1) {
		t.Errorf("%+v", got)
	}
	drain(t, rest)
}

func TestALeaderThatObeysDoesNotSaveItsGroup(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	result, rest := start(t, ctx, args{"command": `exec 3>"$F"; (trap '' TERM; exec >/dev/null 2>&1; echo ready >&3; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done; echo outlived >&3) & wait`})
	cancel()
	if got := <-result; got.Error != "canceled" || data(got, "signal") != "SIGTERM" {
		t.Errorf("%+v", got)
	}
	if said := drain(t, rest); said != "" {
		t.Errorf("the group was left alone: %q", said)
	}
}

func TestAProcessLeftBehindThatHoldsTheOutputIsKilled(t *testing.T) {
	t.Parallel()
	result, rest := start(t, t.Context(), args{"command": `exec 3>"$F"; (sleep 8; echo outlived >&3) & echo kept; echo ready >&3`})
	if got := <-result; !got.Success || data(got, "stdout") != "kept\n" || data(got, "output_held") != true {
		t.Errorf("%+v", got)
	}
	if said := drain(t, rest); said != "" {
		t.Errorf("what it left behind was not killed: %q", said)
	}
}

func TestAProcessThatEscapedTheGroupHoldsNothingUp(t *testing.T) {
	t.Parallel()
	back := fifo(t)
	script := `exec 3>"$F"; setsid sh -c 'echo ready >&3; echo $$ >&3; exec 3>&-; exec sleep 1000' & exec 3>&-; read x <` + back
	result, rest := start(t, t.Context(), args{"command": script})
	pid, err := strconv.Atoi(strings.TrimSpace(drain(t, rest)))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Kill(pid, syscall.SIGKILL)
	if err := os.WriteFile(back, []byte("end\n"), 0); err != nil {
		t.Fatal(err)
	}
	if got := <-result; !got.Success || data(got, "output_held") != true {
		t.Errorf("%+v", got)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the process is gone: %v", err)
	}
}

func TestADaemonThatLetsGoOfItsOutputLivesOn(t *testing.T) {
	t.Parallel()
	end, back := fifo(t), fifo(t)
	daemon := fmt.Sprintf(`exec >/dev/null 2>&1; echo ready >&3; read x <%s; echo "still here, $x" >&3`, back)
	result, rest := start(t, t.Context(), args{"command": fmt.Sprintf(`exec 3>"$F"; (%s) & read x <%s`, daemon, end)})
	if err := os.WriteFile(end, []byte("end\n"), 0); err != nil {
		t.Fatal(err)
	}
	if got := <-result; !got.Success || data(got, "output_held") != nil {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(back, []byte("daemon\n"), 0); err != nil {
		t.Fatal(err)
	}
	if said := drain(t, rest); said != "still here, daemon\n" {
		t.Errorf("%q", said)
	}
}

func TestACallThatIsOverStartsNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	name := filepath.Join(t.TempDir(), "made")
	got := module.New().Call(ctx, "cmd.run", module.Call{Args: args{"argv": []any{"touch", name}}})
	if _, err := os.Stat(name); got.Success || got.Error != "canceled before the command started: context canceled" || err == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestCommandsLeaveNoZombies(t *testing.T) {
	for range 200 {
		run(t, args{"argv": []any{"true"}})
	}
	var status syscall.WaitStatus
	if pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("there is still a child: %d, %v", pid, err)
	}
}

func BenchmarkCommand(b *testing.B) {
	r := module.New()
	for b.Loop() {
		if got := r.Call(b.Context(), "cmd.run", module.Call{Args: args{"argv": []any{"true"}}}); !got.Success {
			b.Fatal(got.Error)
		}
	}
}
