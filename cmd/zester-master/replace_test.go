package main_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// An upgrade replaces the file of the program and sends SIGUSR1.
func TestAPeelIsUpgradedWithoutEndingACommand(t *testing.T) {
	s := newSite(t, fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {
			Data: []byte("schedule:\n  tick:\n    module: cmd.run\n    args: {command: 'true'}\n" +
				"    interval: 1s\n    if_running: queue\n    catch_up: run_all\n"), // the next program may need more than 1 s to start
		},
	})
	systemd := supervise(t)
	s.daemon("zester-master", "--data-dir", "master", "--repo", "fleet", "--listen", "127.0.0.1:0").waitFor("master is ready")
	creds := s.issue(grants.RolePeel, "web-01")
	s.env = []string{systemd.env()}
	peel := s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", creds)
	if got := systemd.hear(); got != "READY=1" {
		t.Fatalf("the first message is %q", got)
	}
	s.env = nil
	peel.waitFor("settings applied")
	s.zester(0, "sync", "wait", "--peels", "1")

	pipe := arrange(t)
	asked := s.daemon("zester", "--data-dir", s.path("master"), "--timeout", patience.String(), "web-01", "cmd.run",
		fmt.Sprintf("command=exec > %s; echo runs; until [ -e %s ]; do sleep 0.1; done; echo done", pipe, s.path("enough")))
	running := pipe.wait(t)
	if _, ok := running.says(); !ok {
		t.Fatal("the command does not run")
	}
	peel.signal(syscall.SIGUSR1)
	peel.waitFor("another program is installed", `"version":"(devel)"`)
	for ctx := s.ctx(); !strings.Contains(s.zester(0, "peel", "list", "-o", "wide"), "(devel) → (devel) waits for "); <-time.After(lookAgain) {
		if ctx.Err() != nil {
			t.Fatalf("nobody is told that the peel waits\n%s", s.zester(0, "peel", "list", "-o", "wide"))
		}
	}
	if out := s.zester(0, "doctor"); !strings.Contains(out, "upgrades: web-01: (devel) → (devel) waits for ") {
		t.Errorf("zester doctor says\n%s", out)
	}
	s.write("enough", "")
	if line, _ := running.says(); line != "done" {
		t.Errorf("the command was ended: %q", line)
	}
	if code := asked.end(); code != 0 {
		t.Errorf("the command line ended with %d", code)
	}

	if got := systemd.hear(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("the message is %q", got)
	}
	peel.waitFor("starting the program that is now here")
	if got := systemd.hear(); got != "READY=1" {
		t.Errorf("the message is %q", got)
	}
	peel.waitFor("bus is reached") // in the same process: a new one would write elsewhere
	for ctx := s.ctx(); strings.Contains(s.zester(0, "peel", "list", "-o", "wide"), "waits"); <-time.After(lookAgain) {
		if ctx.Err() != nil {
			t.Fatal("the next program says that the peel waits")
		}
	}
	s.zester(0, "web-01", "test.ping")
	if out := s.zester(0, "web-01", "schedule.fires", "entry=tick"); strings.Contains(out, "missed") ||
		strings.Contains(out, "interrupted") || !strings.Contains(out, "ran") {
		t.Errorf("a tick is lost:\n%s", out)
	}

	peel.signal(syscall.SIGUSR1) // also the next program obeys
	peel.waitFor("starting the program that is now here")
	peel.waitFor("bus is reached")
	peel.stop()
}
