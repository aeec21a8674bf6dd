package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/api"
)

func TestAPersonIsAskedBeforeAnActionRuns(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	dir := t.TempDir()
	if err := f.credentials(dir); err != nil {
		t.Fatal(err)
	}
	client, err := clientAt(f.url, dir+"/direct.creds")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	a, err := asksFor(t.Context(), client, api.HoldAddRequest{
		Agent: "helper", Reason: "run test.ping on 1 peel as local? [y/N]", Target: "web-*", Module: "cmd.run", Args: map[string]any{"command": "echo done"},
	})
	if err != nil {
		t.Fatal(err)
	}
	typed := func(answer string) (string, int) {
		main, side := terminal(t, 60)
		cmd := exec.Command("zester", "approve", string(a.ID))
		cmd.Env = append(os.Environ(), "ZESTER_DATA_DIR="+f.dir, "NO_COLOR=1")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = side, side, side
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
		return strings.ReplaceAll(shown.String(), "\r\n", "\n"), cmd.ProcessState.ExitCode()
	}
	shown, code := typed("n")
	if code != exitCanceled || strings.Contains(shown, "job ") {
		t.Errorf("answered with n, ended with %d, shows\n%s", code, shown)
	}
	for _, want := range []string{
		"\n  | reason: \"run test.ping on 1 peel as local? [y/N]\"\n", "\non:        2 peels: web-01, web-02\n", "\nas:        local\n",
		"\nrun cmd.run on 2 peels as local? [y/N] ", "nothing was approved", "hint: zester approve " + string(a.ID) + " --reject rejects it",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("it does not show %q:\n%s", want, shown)
		}
	}
	if shown, code := typed("y"); code != exitOK || !strings.Contains(shown, "web-02:\n    done") {
		t.Errorf("answered with y, ended with %d, shows\n%s", code, shown)
	}
}
