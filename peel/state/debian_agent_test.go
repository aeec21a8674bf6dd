//go:build linux && debian

package state_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/schedule"
	"github.com/seed-c01c3da5/zester/settings/strictyaml"
)

// agentDir is set in the process of a unit: it is a peel without a bus that has the states of this directory in its settings, and runs
// them once after its start.
const agentDir = "ZESTER_TEST_AGENT"

func init() {
	if dir := os.Getenv(agentDir); dir != "" {
		if err := runAgent(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func runAgent(dir string) error {
	starts, err := os.OpenFile(filepath.Join(dir, "starts"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	fmt.Fprintln(starts, "start")
	text, err := os.ReadFile(filepath.Join(dir, "settings.yaml"))
	if err != nil {
		return err
	}
	entries, err := strictyaml.Parse("schedule", []byte("e: {module: state.highstate, interval: 1000h, run_on_start: true}"))
	if err != nil {
		return err
	}
	set, err := schedule.ParseSet(entries)
	if err != nil {
		return err
	}
	values, err := strictyaml.Parse("settings.yaml", text)
	if err != nil {
		return err
	}
	raw, err := canon.Marshal(values.Any())
	if err != nil {
		return err
	}
	p, err := peel.New(peel.Options{ID: "web-01", DataDir: filepath.Join(dir, "data"), URL: "nats://127.0.0.1:1", Schedule: set})
	if err != nil {
		return err
	}
	file := peel.OpenSnapshot(filepath.Join(dir, "data", "settings"))
	err = file.Store(&settings.Document{V: settings.OpenVersion, Peel: "web-01", Commit: "c0ffee", Generation: 1, Digest: settings.DigestOf(raw), Settings: raw})
	file.Close()
	if err != nil {
		return err
	}
	return p.Run(context.Background())
}

// An agent is a peel that is a unit of systemd.
type agent struct {
	t   *testing.T
	dir string
}

// startAgent starts a peel as the unit zt-agent.
func startAgent(t *testing.T, unit, states string) *agent {
	t.Helper()
	if os.Getenv("ZESTER_TEST_IN_HOST") != "debian" {
		t.Skip("runs inside a Debian host")
	}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		t.Skip("this host runs without systemd")
	}
	a := &agent{t, t.TempDir()}
	a.write("settings.yaml", strings.ReplaceAll(states, "DIR", a.dir))
	unit = "[Service]\nEnvironment=" + agentDir + "=" + a.dir + "\nExecStart=/test\nRestart=always\nRestartSec=100ms\n" + unit
	if err := os.WriteFile("/etc/systemd/system/zt-agent.service", []byte(unit), 0o644); err != nil {
		t.Fatal(err)
	}
	a.systemctl("daemon-reload")
	a.systemctl("reset-failed")
	a.systemctl("start", "zt-agent")
	t.Cleanup(func() {
		a.systemctl("stop", "zt-agent")
		_ = os.Remove("/etc/systemd/system/zt-agent.service")
		a.systemctl("daemon-reload")
	})
	return a
}

func (a *agent) systemctl(args ...string) {
	a.t.Helper()
	if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
		a.t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

func (a *agent) write(name, content string) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.dir, name), []byte(content), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(a.dir, name))
	return string(data)
}

// settled waits until a file has a number of lines and no more come.
func (a *agent) settled(name string, lines int) {
	a.t.Helper()
	deadline := time.Now().Add(90 * time.Second)
	for strings.Count(a.read(name), "\n") < lines && time.Now().Before(deadline) {
		<-time.After(50 * time.Millisecond)
	}
	<-time.After(5 * time.Second)
	if n := strings.Count(a.read(name), "\n"); n != lines {
		a.t.Errorf("%s has %d lines, want %d: %s", name, n, lines, a.read("data/states/memory.json"))
	}
}

// TestInHostAPeelRestartsItself: the restart of the peel's own unit is the end of the run. It is made once, and what comes after the
// state is applied.
func TestInHostAPeelRestartsItself(t *testing.T) {
	for name, unit := range map[string]string{"all processes end": "", "only the peel gets SIGTERM": "KillMode=mixed\nTimeoutStopSec=30s\n"} {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t, unit, `
states:
  conf: {file.managed: {path: DIR/conf, content: one}}
  me: {service.running: {name: zt-agent}, watch: [conf]}
  after: {cmd.run: {command: "echo after >> DIR/after"}}
_states: {order: [conf, me, after], refs: {a: [conf, me, after]}, files: {}}
`)
			a.settled("after", 2)
			a.settled("starts", 2)
			runs, _ := filepath.Glob(a.dir + "/data/states/runs/*")
			for i, want := range []string{`"state":"me","function":"service.running","result":"changed"`, `"state":"me","function":"service.running","result":"unchanged"`} {
				if len(runs) != 2 {
					t.Fatalf("%d runs", len(runs))
				}
				if data, err := os.ReadFile(runs[i]); err != nil || !strings.Contains(string(data), want) || strings.Contains(string(data), "owed") {
					t.Errorf("run %d: %v\n%s", i+1, err, data)
				}
			}
			if m := a.read("data/states/memory.json"); strings.Contains(m, "owed") || strings.Contains(m, "acted") {
				t.Errorf("stored is %s", m)
			}
		})
	}
}
