package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/reconciler/propose"
)

// TestEditAsksToEditAMistakeAgain has an editor that writes a mistake first.
func TestEditAsksToEditAMistakeAgain(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	f, err := startWriter(t, propose.Direct)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	editor := filepath.Join(dir, "editor")
	text := "#!/bin/sh\nif grep -q 1h $1; then sed -i s/1h/1x/ $1; else sed -i s/1x/3h/ $1; fi\n"
	if err := os.WriteFile(editor, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	typed := func(answer string, args ...string) (string, int) {
		main, side := terminal(t, 200)
		cmd := exec.Command("zester", args...)
		cmd.Env = append(os.Environ(), "ZESTER_DATA_DIR="+f.dir, "NO_COLOR=1", "VISUAL="+editor, "TMPDIR="+dir)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
		if _, err := main.WriteString(answer + "\n"); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Run() // its code says how it ended
		side.Close()
		var shown bytes.Buffer
		_, _ = shown.ReadFrom(main) // ends with an error when nobody holds the other side any more
		return shown.String(), cmd.ProcessState.ExitCode()
	}
	const mistake = "settings/web.yaml:5:15: schedule.hello.interval: cannot parse duration"
	if shown, code := typed("n", "schedule", "edit", "hello"); code != exitFailed || !strings.Contains(shown, mistake) || !strings.Contains(shown, "edit again? [y/N]") || !strings.Contains(shown, "what you typed is in "+dir) {
		t.Errorf("answered with n, ended with %d, shows %s", code, shown)
	}
	if shown, code := typed("y", "schedule", "edit", "hello"); code != exitOK || !strings.Contains(shown, mistake) || !strings.Contains(shown, "hello, changed") {
		t.Errorf("answered with y, ended with %d, shows %s", code, shown)
	}
	if shown, code := typed("n", "schedule", "remove", "hello"); code != exitCanceled || !strings.Contains(shown, "settings/web.yaml:2: test.echo, ") || !strings.Contains(shown, "remove hello from the config repo? [y/N]") {
		t.Errorf("answered with n, ended with %d, shows %s", code, shown)
	}
	if shown, code := typed("y", "schedule", "remove", "hello"); code != exitOK || !strings.Contains(shown, "hello, removed") {
		t.Errorf("answered with y, ended with %d, shows %s", code, shown)
	}
}
