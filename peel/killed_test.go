//go:build linux

package peel_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// killedDir is the environment variable with the directory of the peel that is to be killed.
const killedDir = "ZESTER_TEST_KILLED_PEEL"

// entryOfKilled leaves its work to another process of its group, which says when the group is recorded, and ends by itself
// after a while.
const entryOfKilled = `
e:
  module: cmd.run
  interval: 1000h
  run_on_start: true
  args:
    command: '(exec 3>"$F" >/dev/null 2>&1; until grep -q start "$G"/*; do sleep 0.1; done; echo ready >&3; sleep 20; echo outlived >&3) & wait'
    env: {F: %s/fifo, G: %[1]s/data/groups}
`

func TestNoProcessOfACommandOutlivesAKillAndTheNextStart(t *testing.T) {
	dir := os.Getenv(killedDir)
	if dir != "" {
		runUntilKilled(t, dir)
		return
	}
	dir = t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
	killed.Env = append(os.Environ(), killedDir+"="+dir)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.Open(filepath.Join(dir, "fifo"))
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	rest := bufio.NewReader(fifo)
	line, err := rest.ReadString('\n')
	_ = killed.Process.Kill()
	_ = killed.Wait()
	if err != nil || line != "ready\n" {
		t.Fatalf("the command says %q, %v", line, err)
	}
	if _, err := peel.New(peel.Options{ID: "web-01", DataDir: filepath.Join(dir, "data")}); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(rest); err != nil || len(said) > 0 {
		t.Errorf("a process of the command went on: %q, %v", said, err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, "data", "groups")); err != nil || len(left) > 0 {
		t.Errorf("records of process groups that are left: %v, %v", left, err)
	}
}

func runUntilKilled(t *testing.T, dir string) {
	node, err := strictyaml.Parse("schedule.yaml", fmt.Appendf(nil, entryOfKilled, dir))
	if err != nil {
		t.Fatal(err)
	}
	set, err := schedule.ParseSet(node)
	if err != nil {
		t.Fatal(err)
	}
	p, err := peel.New(peel.Options{ID: "web-01", DataDir: filepath.Join(dir, "data"), URL: "nats://127.0.0.1:1", Schedule: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Fatal(p.Run(t.Context()))
}
