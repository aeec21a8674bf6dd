package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestATerminalShowsProgressAndTablesThatFit(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	const columns = 70
	typed := func(args ...string) string {
		main, side := terminal(t, columns)
		cmd := exec.Command("zester", args...)
		cmd.Env = append(os.Environ(), "ZESTER_DATA_DIR="+f.dir, "NO_COLOR=1")
		cmd.Stdout, cmd.Stderr = side, side
		if err := cmd.Run(); err != nil {
			t.Errorf("%v: %v", args, err)
		}
		side.Close()
		var shown bytes.Buffer
		_, _ = shown.ReadFrom(main) // ends with an error when nobody holds the other side any more
		return strings.ReplaceAll(shown.String(), "\r\n", "\n")
	}
	line := regexp.QuoteMeta("\r\x1b[K")
	want := regexp.MustCompile(`^job \S+ on 1 peel: web-01\n` + line + `0 of 1 peel returned, 0 failed, 1 silent` + `(?:` + line + `0 of 1 peel returned, 0 failed, 0 silent)?` +
		line + `web-01:\n    true\n` + line + `1 of 1 peel returned, 0 failed, 0 silent` + line + `$`)
	if got := typed("web-01", "test.ping"); !want.MatchString(got) {
		t.Errorf("a dispatch shows %q", got)
	}
	for row := range strings.Lines(typed("sync", "peels")) {
		if len([]rune(row)) > columns+len("\n") {
			t.Errorf("%q is longer than the terminal is wide", row)
		}
	}
}

func TestAProgressBarIsAsFullAsTheWorkIsDone(t *testing.T) {
	t.Parallel()
	main, side := terminal(t, 60)
	line := newProgress(side)
	line.bar("connected", 1, 2)
	line.bar("connected", 3, 2)
	if _, err := (clearing{line}).Write([]byte("half a second\n")); err != nil {
		t.Fatal(err)
	}
	side.Close()
	var shown bytes.Buffer
	_, _ = shown.ReadFrom(main) // ends with an error when nobody holds the other side any more
	want := "\r\x1b[Kconnected " + strings.Repeat("█", 15) + strings.Repeat("░", 15) + " 1 of 2" +
		"\r\x1b[Kconnected " + strings.Repeat("█", 30) + " 3 of 2" + "\r\x1b[Khalf a second\r\n"
	if shown.String() != want {
		t.Errorf("it shows %q", &shown)
	}
}

// terminal is a pseudo-terminal of some columns: the side that a person looks at and the one that a program has.
func terminal(t *testing.T, columns uint16) (main, side *os.File) {
	main, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { main.Close() })
	fd := int(main.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err == nil {
		side, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	return main, side
}

func TestAPersonIsAskedBeforeTenPeels(t *testing.T) {
	t.Parallel()
	f := newFleet(t) // four peels are known
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	defer func() {
		stop()
		_ = g.Wait() // ends with stop
	}()
	for i := range 6 {
		if _, err := f.startPeel(ctx, g, target.PeelID(fmt.Sprintf("app-%d", i))); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.until(ctx, `(?s)^(\S+\n){10}$`, "peel", "list", "-o", "name"); err != nil {
		t.Fatal(err)
	}
	typed := func(answer string, args ...string) (string, int) {
		main, side := terminal(t, 200)
		cmd := exec.Command("zester", args...)
		cmd.Env = append(os.Environ(), "ZESTER_DATA_DIR="+f.dir, "NO_COLOR=1")
		cmd.Stdin, cmd.Stderr = side, side
		if _, err := main.WriteString(answer + "\n"); err != nil {
			t.Fatal(err)
		}
		err := cmd.Run()
		side.Close()
		var shown bytes.Buffer
		_, _ = shown.ReadFrom(main) // ends with an error when nobody holds the other side any more
		var ended *exec.ExitError
		if err != nil && !errors.As(err, &ended) {
			t.Fatal(err)
		}
		return shown.String(), cmd.ProcessState.ExitCode()
	}
	shown, code := typed("n", "*", "cmd.run", "exit 9", "--timeout", "1s")
	if !strings.Contains(shown, "run cmd.run on 10 peels: app-0, app-1, app-2, app-3, app-4 and 5 more? [y/N]") || code != exitCanceled {
		t.Errorf("ended with %d, shows %q", code, shown)
	}
	if shown, code := typed("y", "*", "cmd.run", "true", "--async"); !strings.Contains(shown, "[y/N]") || code != exitOK {
		t.Errorf("answered with y, ended with %d, shows %q", code, shown)
	}
	for _, args := range [][]string{{"app-*", "cmd.run", "true"}, {"*", "test.ping", "--async"}, {"*", "cmd.run", "true", "--yes", "--async"}} {
		if shown, _ := typed("n", args...); strings.Contains(shown, "[y/N]") {
			t.Errorf("%v shows %q", args, shown)
		}
	}
}

func TestWhoTypesMCPIsToldWhoStartsIt(t *testing.T) {
	t.Parallel()
	_, side := terminal(t, 80)
	cmd := exec.Command("zester", "mcp")
	cmd.Stdin = side
	out, err := cmd.CombinedOutput()
	const want = "zester: stdin is a terminal: the program of an assistant starts zester mcp and sends requests there; zester guide assistants shows how\n"
	if ended, ok := errors.AsType[*exec.ExitError](err); !ok || ended.ExitCode() != exitUsage || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v: %s", err, out)
	}
}
