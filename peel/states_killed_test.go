//go:build linux

package peel_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// killedStates says on a fifo that the file is written, and waits. The reaction to the file comes after that.
const killedStates = `
states:
  conf: {file.managed: {path: DIR/conf, content: new}}
  wait: {cmd.run: {command: "test -e DIR/second || { echo begun > DIR/fifo; sleep 60; }"}}
  react: {cmd.run: {command: "echo reacted | tee -a DIR/reactions > DIR/fifo"}, onchanges: [conf]}
  end: {cmd.run: {command: "echo end > DIR/fifo"}}
_states: {order: [conf, wait, react, end], refs: {a: [conf, wait, react, end]}, files: {}}
`

func TestAReactionIsMadeAfterThePeelWasKilled(t *testing.T) {
	if dir := os.Getenv(killedDir); dir != "" {
		runEntryOnStart(t, t.Context(), dir)
		t.Fatal("the peel has ended")
	}
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := os.OpenFile(filepath.Join(dir, "fifo"), os.O_RDWR, 0) // open for writing too: then it has no end
	if err != nil {
		t.Fatal(err)
	}
	defer fifo.Close()
	lines := bufio.NewScanner(fifo)
	said := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the states say %q, %v; want %q", lines.Text(), lines.Err(), want)
		}
	}
	killed := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
	killed.Env = append(os.Environ(), killedDir+"="+dir)
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	said("begun")
	_ = killed.Process.Kill()
	_ = killed.Wait()
	if data, err := os.ReadFile(filepath.Join(dir, "conf")); string(data) != "new" {
		t.Fatalf("the file has %q, %v", data, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "second"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, want := range [][]string{{"reacted", "end"}, {"end"}} {
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() {
			defer close(done)
			runEntryOnStart(t, ctx, dir)
		}()
		for _, line := range want {
			said(line)
		}
		stop()
		<-done
	}
	if data, err := os.ReadFile(filepath.Join(dir, "reactions")); string(data) != "reacted\n" {
		t.Errorf("the reactions are %q, %v", data, err)
	}
}

// runEntryOnStart runs a peel whose snapshot has killedStates and whose schedule runs them once, without a bus.
func runEntryOnStart(t *testing.T, ctx context.Context, dir string) {
	peel.SetRunDirectory(dir)
	set, err := schedule.ParseSet(mustParse(t, "e: {module: state.highstate, interval: 1000h, run_on_start: true}"))
	if err != nil {
		t.Error(err)
		return
	}
	data := filepath.Join(dir, "data")
	p, err := peel.New(peel.Options{ID: "web-01", DataDir: data, URL: "nats://127.0.0.1:1", Schedule: set})
	if err != nil {
		t.Error(err)
		return
	}
	raw, err := canon.Marshal(mustParse(t, replaceDir(killedStates, dir)).Any())
	if err != nil {
		t.Error(err)
		return
	}
	doc := &settings.Document{V: settings.OpenVersion, Peel: "web-01", Commit: "c0ffee", Generation: 1, Digest: settings.DigestOf(raw), Settings: raw}
	file := peel.OpenSnapshot(filepath.Join(data, "settings"))
	defer file.Close()
	if err := file.Store(doc); err != nil {
		t.Error(err)
		return
	}
	if err := p.Run(ctx); err != nil {
		t.Error(err)
	}
}

func mustParse(t *testing.T, text string) *strictyaml.Node {
	node, err := strictyaml.Parse("test.yaml", fmt.Appendf(nil, "%s", text))
	if err != nil {
		t.Error(err)
	}
	return node
}
