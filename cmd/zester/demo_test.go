package main

import (
	"os"
	"strings"
	"testing"
)

func TestTheCommandsThatTheDemoPrintsWork(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	p := start(t, []string{"TMPDIR=" + temp}, "demo", "--keep")
	p.await(`^everything goes on until Ctrl-C`)
	dir := p.await(`^  export ZESTER_DATA_DIR=(.*)$`)
	tried := 0
	for {
		line := p.await(`^(  zester .*|edit and commit in .*)$`)
		command, ok := strings.CutPrefix(line, "  zester ")
		if !ok {
			break
		}
		tried++
		typed := start(t, []string{"ZESTER_DATA_DIR=" + dir, "DISPLAY=", "WAYLAND_DISPLAY="}, typedWords(command)...)
		if command == "console" { // it serves until Ctrl-C
			typed.await(`^open (http://z-.*)$`)
			typed.interrupt()
		}
		want := exitOK
		if strings.HasPrefix(command, "coverage") {
			want = exitSomeFailed // the backup of the demo fails
		}
		if code := typed.code(); code != want || typed.seen.Len() == 0 {
			t.Errorf("%s ended with %d after:\n%s", command, code, &typed.seen)
		}
	}
	if tried != 5 {
		t.Errorf("%d commands were printed, want 5", tried)
	}
	p.interrupt()
	if code := p.code(); code != exitOK {
		t.Errorf("ended with %d", code)
	}
	empty(t, temp)
}

// typedWords splits a command line as a shell does, single quotes included.
func typedWords(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		switch {
		case i%2 == 0:
			words = append(words, strings.Fields(part)...)
		case len(words) > 0 && strings.HasSuffix(words[len(words)-1], "="):
			words[len(words)-1] += part
		default:
			words = append(words, part)
		}
	}
	return words
}

func TestAnInterruptedDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	p := start(t, []string{"TMPDIR=" + temp}, "demo")
	p.await(`^== bring the first revision`)
	p.interrupt()
	if code := p.code(); code != exitInterrupted {
		t.Errorf("ended with %d", code)
	}
	empty(t, temp)
}

// A demo whose output nobody reads any more goes on, and clears up.
func TestADemoWithClosedOutputLeavesNothing(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	p := start(t, []string{"TMPDIR=" + temp}, "demo")
	p.await(`^== start the peels`)
	p.out.Close()
	if code := p.code(); code != exitOK {
		t.Errorf("ended with %d", code)
	}
	empty(t, temp)
}

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
