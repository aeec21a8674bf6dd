package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/seed-c01c3da5/zester/examples"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TestTheExamplesRunAsTheyStand follows the head of examples/master.yaml, but for the port.
func TestTheExamplesRunAsTheyStand(t *testing.T) {
	s := newSite(t, below(t, "examples/fleet", examples.Fleet()))
	s.dir = s.work.Dir() // a checkout
	for _, name := range []string{"master", "peel"} {
		file, err := filepath.Abs("../../examples/" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if out, errOut, code := (command{dir: s.dir, args: []string{"zester-" + name, "--config", file, "--check"}}).run(t); code != 0 || !strings.Contains(out, "is valid") {
			t.Fatalf("%s.yaml: exit code %d\n%s%s", name, code, out, errOut)
		}
		if err := os.Symlink(file, s.path(name+".yaml")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(s.path("state")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a check has left something: %v", err)
	}

	master := s.daemon("zester-master", "--config", "master.yaml", "--listen", "127.0.0.1:0")
	master.waitFor("master is ready")
	if err := os.Symlink("state/master", s.path("master")); err != nil {
		t.Fatal(err)
	}
	peel := s.daemon("zester-peel", "--config", "peel.yaml", "--url", s.url())
	peel.waitFor("waiting for the bus", "web-01.creds: no such file")
	s.zester(0, "auth", "issue", "peel", "web-01", "--out", "state/web-01.creds")
	peel.waitFor("bus is reached")
	peel.waitFor("settings applied")

	s.zester(0, "sync", "wait")
	if out := s.zester(0, "*", "cmd.run", "command=echo it is $((40+2))"); !strings.Contains(out, "it is 42") {
		t.Errorf("cmd.run: %s", out)
	}
	out := s.zester(0, "G@role:web", "schedule.list")
	for _, entry := range []string{"still_here", "health", "cert_check", "disk_check"} {
		if !strings.Contains(out, entry) {
			t.Errorf("%s is not in the schedule:\n%s", entry, out)
		}
	}
	if out := s.zester(0, "job", "list", "--all"); !strings.Contains(out, "cmd.run") || !strings.Contains(out, "schedule.list") {
		t.Errorf("job list:\n%s", out)
	}

	commit := s.commit(map[string]string{"examples/fleet/settings/web/health.yaml": "schedule:\n  health: {module: test.ping, interval: 30s}\n"})
	s.zester(0, "sync", "wait")
	master.waitFor("revision in force", commit, `"writes":1`)
	peel.waitFor("settings applied", commit, `"changed":1`)
	for _, p := range []*process{master, peel} {
		if p.wrote("ermissions violation") {
			t.Errorf("%s did what it may not", p.name)
		}
	}
}

// fleet has one entry that tells by a pipe that it runs, when the peel starts, and one whose run is a job that says
// what the peel runs by.
func fleet(m meeting) fstest.MapFS {
	return fstest.MapFS{
		"top.yaml": {Data: []byte("base:\n  '*': [all]\n")},
		"settings/all.yaml": {Data: fmt.Appendf(nil, `
schedule:
  tell:
    module: cmd.run
    args: {command: echo runs > %s}
    interval: 1d
    run_on_start: true
  look:
    module: settings.items
    interval: 1d
    run_on_start: true
    return_job: true
`, m)},
	}
}

func TestADaemonObeysSignals(t *testing.T) {
	s := newSite(t, examples.Fleet())
	systemd := supervise(t)
	s.env = []string{systemd.env()}
	address := reserve(t)
	config := func(rest string) {
		s.write("master.yaml", fmt.Sprintf("data_dir: master\nrepo: fleet\nlisten: %s\n%s", address, rest))
	}
	config("log_level: error\n")
	master := s.daemon("zester-master", "--config", "master.yaml")

	if got := systemd.hear(); got != "READY=1" {
		t.Fatalf("the first message is %q", got)
	}
	s.answers(s.client())

	config("log_level: info\n")
	master.signal(syscall.SIGHUP)
	master.waitFor("configuration read again")
	if got := systemd.hear(); got != "STATUS=" {
		t.Errorf("the message about a file with another log level is %q", got)
	}
	config("log_level: info\nhistory: forbid\naudit_retention: 30d\n")
	master.signal(syscall.SIGHUP)
	master.waitFor("these keys need a restart", "audit_retention, history")
	if got := systemd.hear(); got != "STATUS=restart needed: the file has changed in audit_retention, history" {
		t.Errorf("the message about a file with other changes is %q", got)
	}
	config("log_levle: debug\n")
	master.signal(syscall.SIGHUP)
	master.waitFor("configuration not read again", "master.yaml:4:1", `did you mean`)

	creds := s.issue(grants.RolePeel, "web-01")
	config = func(rest string) {
		s.write("peel.yaml", fmt.Sprintf("id: web-01\ndata_dir: peel\nurl: %s\ncreds: %s\n%s", s.url(), creds, rest))
	}
	config("log_level: error\n")
	peel := s.daemon("zester-peel", "--config", "peel.yaml")
	if got := systemd.hear(); got != "READY=1" {
		t.Fatalf("the peel's first message is %q", got)
	}
	config("log_level: info\n")
	peel.signal(syscall.SIGHUP)
	peel.waitFor("configuration read again")
	s.settled()

	asked := s.interrupt(systemd, peel)
	// What the command came to is told by the next process.
	peel = s.daemon("zester-peel", "--config", "peel.yaml")
	if got := systemd.hear(); got != "READY=1" {
		t.Fatalf("the peel's message is %q", got)
	}
	if code := asked.end(); code != 2 {
		t.Errorf("the command line ended with %d", code)
	}

	s.restart(systemd, address, master, peel)
}

// answers asks all services of a master at once; nothing may have to be asked twice.
func (s *site) answers(c *api.Client) {
	t, ctx := s.t, s.ctx()
	t.Helper()
	if _, err := c.Resolve(ctx, "*"); err != nil {
		t.Error(err)
	}
	if _, err := api.JobList.Ask(ctx, c, job.Query{}); err != nil {
		t.Error(err)
	}
	if _, err := c.Peels(ctx, ""); err != nil {
		t.Error(err)
	}
	_, err := api.JobShow.Ask(ctx, c, api.JobRequest{JID: wire.NewJID()})
	if api.CodeOf(err) != api.CodeNotFound {
		t.Error(err)
	}
	_, err = api.JobDispatch.Ask(ctx, c, job.Spec{JID: wire.NewJID(), Function: "test.ping"})
	if api.CodeOf(err) != api.CodeInvalid {
		t.Error(err)
	}
}

// settled waits until the peel is known and runs what the branch says.
func (s *site) settled() {
	s.t.Helper()
	c := s.client()
	for ctx := s.ctx(); ; <-time.After(lookAgain) {
		status, err := api.SyncNow.Ask(ctx, c, api.None{})
		if err != nil && api.CodeOf(err) != api.CodeUnavailable {
			s.t.Fatal(err)
		}
		if err == nil && status.Counts.Applied > 0 && status.Counts.Pending == 0 {
			return
		}
	}
}

// interrupt stops the peel in the middle of a command, which has to end with it. It returns who asked for the command.
func (s *site) interrupt(systemd *supervisor, peel *process) (asked *process) {
	s.t.Helper()
	pipe := arrange(s.t)
	asked = s.daemon("zester", "--data-dir", s.path("master"), "--timeout", patience.String(), "web-01", "cmd.run", fmt.Sprintf("command=exec > %s; echo runs; sleep 600", pipe))
	running := pipe.wait(s.t)
	if _, ok := running.says(); !ok {
		s.t.Fatal("the command does not run")
	}
	peel.stop()
	if got := systemd.hear(); got != "STOPPING=1" {
		s.t.Errorf("the peel's last message is %q", got)
	}
	if line, more := running.says(); more {
		s.t.Errorf("the command outlives its peel and says %q", line)
	}
	return asked
}

// restart stops the master and starts it again: the fleet goes on, and nothing is written for it.
func (s *site) restart(systemd *supervisor, address string, master, peel *process) {
	s.t.Helper()
	before := s.written()
	master.stop()
	if got := systemd.hear(); got != "STOPPING=1" {
		s.t.Errorf("the last message is %q", got)
	}
	if _, err := api.ReadRunInfo(s.path("master")); !errors.Is(err, fs.ErrNotExist) {
		s.t.Errorf("run.json after the end: %v", err)
	}
	peel.waitFor("bus is away")
	s.daemon("zester-master", "--data-dir", "master", "--repo", "fleet", "--listen", address)
	if got := systemd.hear(); got != "READY=1" {
		s.t.Fatalf("the first message is %q", got)
	}
	peel.waitFor("bus is back")
	s.settled()
	s.awaitPeel(s.client())
	if out := s.zester(0, "web-01", "test.ping"); !strings.Contains(out, "web-01") {
		s.t.Error(out)
	}
	if after := s.written(); after != before {
		s.t.Errorf("%d writes by the restart", after-before)
	}
}

func TestAPeelThatStartsBeforeItsMasterRunsWhatItHad(t *testing.T) {
	pipe := arrange(t)
	s := newSite(t, fleet(pipe))
	start := []string{"zester-master", "--data-dir", "master", "--repo", "fleet", "--listen", reserve(t)}
	master := s.daemon(start...)
	master.waitFor("master is ready")
	args := []string{"zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")}
	peel := s.daemon(args...)
	told := pipe.wait(t)
	if _, ok := told.says(); !ok {
		t.Fatal("the command says nothing")
	}
	if line, more := told.says(); more {
		t.Fatalf("the command says %q as well", line)
	}
	s.settled()
	s.runs("look", 1)
	peel.stop()
	master.stop()

	commit := s.commit(map[string]string{"settings/all.yaml": "schedule:\n  other: {module: test.ping, interval: 1h}\n"})
	peel = s.daemon(args...)
	peel.waitFor("running the snapshot until the bus confirms it")
	if _, ok := pipe.wait(t).says(); !ok {
		t.Error("the command says nothing")
	}
	peel.waitFor("waiting for the bus", "connection refused")

	s.daemon(start...).waitFor("master is ready")
	peel.waitFor("settings applied", commit, `"started":1`, `"stopped":2`)
	s.settled()
	if n := s.stale("look"); n != 1 {
		t.Errorf("%d of the runs with and without the bus said that they were stale", n)
	}
}

// stale waits for two runs of an entry and returns how many of them said that their settings were stale.
func (s *site) stale(entry string) (n int) {
	s.t.Helper()
	c := s.client()
	for _, j := range s.runs(entry, 2) {
		if s.staleness(c, j.JID) {
			n++
		}
	}
	return n
}

// runs waits until so many runs of an entry are on record.
func (s *site) runs(entry string, n int) []job.Job {
	s.t.Helper()
	for c, ctx := s.client(), s.ctx(); ; {
		page, err := api.JobList.Ask(ctx, c, job.Query{Schedule: entry})
		if err != nil {
			s.t.Fatal(err)
		}
		if len(page.Jobs) >= n {
			return page.Jobs
		}
	}
}

func (s *site) staleness(c *api.Client, jid wire.JID) bool {
	s.t.Helper()
	for row, err := range c.Rows(s.ctx(), jid) {
		if err != nil {
			s.t.Fatal(err)
		}
		data, err := json.Marshal(row.Return.Data)
		if err != nil {
			s.t.Fatal(err)
		}
		return strings.Contains(string(data), `"stale":true`)
	}
	return false
}
