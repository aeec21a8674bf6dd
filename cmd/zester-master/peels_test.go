package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/examples"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A stage is a site with one peel, whose requests the test hears.
type stage struct {
	*site
	peel     *process
	args     []string // of the peel
	requests *nats.Subscription
	marks    string // file to which commands of the test write
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{site: newSite(t, examples.Fleet())}
	s.marks = s.path("marks")
	s.daemon("zester-master", "--data-dir", "master", "--listen", "127.0.0.1:0").waitFor("master is ready")
	var err error
	if s.requests, err = s.streams().Conn().SubscribeSync(wire.Cmd("web-01")); err != nil {
		t.Fatal(err)
	}
	s.args = []string{"zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")}
	s.start()
	return s
}

func (s *stage) start() {
	s.t.Helper()
	s.peel = s.daemon(s.args...)
	s.peel.waitFor("bus is reached")
	s.awaitPeel(s.client())
	s.zester(0, "web-01", "test.ping")
}

// awaitPeel returns when masters know web-01.
func (s *site) awaitPeel(c *api.Client) {
	s.t.Helper()
	for ctx := s.ctx(); ; <-time.After(lookAgain) {
		r, err := c.Resolve(ctx, "web-01")
		if err != nil {
			s.t.Fatal(err)
		}
		if len(r.Peels) == 1 && len(r.Offline) == 0 {
			return
		}
	}
}

// kill ends the peel as a loss of power would.
func (s *stage) kill() {
	s.t.Helper()
	s.peel.signal(syscall.SIGKILL)
	s.peel.end()
}

// stopped waits until SIGSTOP has reached each thread of a process: one that runs goes on for a while.
func (p *process) stopped() {
	p.t.Helper()
	threads := fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid)
	for limit := time.Now().Add(patience); ; runtime.Gosched() {
		files, err := filepath.Glob(threads)
		if err != nil || len(files) == 0 || time.Now().After(limit) {
			p.t.Fatalf("%s is not stopped: %q, %v", p.name, files, err)
		}
		if !slices.ContainsFunc(files, func(name string) bool {
			stat, err := os.ReadFile(name)
			return err != nil || !strings.Contains(string(stat), ") T ")
		}) {
			return
		}
	}
}

// ask has somebody ask for a command and wait, and returns the request that the peel got.
func (s *stage) ask(command string) (asked *process, request *nats.Msg) {
	s.t.Helper()
	asked = s.daemon("zester", "--data-dir", s.path("master"), "--timeout", patience.String(), "web-01", "cmd.run", "command="+command)
	for {
		msg, err := s.requests.NextMsg(patience)
		if err != nil {
			s.t.Fatal(err)
		}
		if r, err := wire.DecodeRequest(msg); err == nil && r.Args["command"] == command {
			return asked, msg
		}
	}
}

// again sends the peel a request once more, as a master does that has heard nothing, and returns when the peel has
// answered it and all that it may have run because of it.
func (s *stage) again(request *nats.Msg) {
	s.t.Helper()
	if err := s.streams().Conn().PublishMsg(&nats.Msg{Subject: request.Subject, Data: request.Data}); err != nil {
		s.t.Fatal(err)
	}
	s.peel.waitFor("request received again, acknowledged and not run again")
	s.zester(0, "web-01", "cmd.run", "command=echo behind it in the queue")
}

// marked is what commands have written.
func (s *stage) marked() string {
	s.t.Helper()
	data, err := os.ReadFile(s.marks)
	if err != nil && !os.IsNotExist(err) {
		s.t.Fatal(err)
	}
	return string(data)
}

func jidOf(t *testing.T, request *nats.Msg) wire.JID {
	t.Helper()
	r, err := wire.DecodeRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	return r.JID
}

// interrupted checks that the command line ended with a failed job, and that the job's record says that it was
// interrupted: a peel that starts again knows which jobs it had accepted and not finished.
func (s *stage) interrupted(asked *process, request *nats.Msg) {
	s.t.Helper()
	if got := asked.end(); got != 2 {
		s.t.Errorf("the command line ended with %d, want 2", got)
	}
	out := s.zester(0, "job", "show", string(jidOf(s.t, request)), "-o", "json")
	if !strings.Contains(out, `"status": "failed"`) || !strings.Contains(out, `"error": "interrupted: `) {
		s.t.Errorf("job show:\n%s", out)
	}
}

func TestAPeelThatIsKilledAfterItsFenceAndBeforeTheWorkDoesNotRunItLater(t *testing.T) {
	s := newStage(t)
	pipe := arrange(t)
	hanging, _ := s.ask(fmt.Sprintf("echo runs > %[1]s; while [ -e %[1]s ]; do sleep 0.1; done", pipe))
	if _, ok := pipe.wait(t).says(); !ok {
		t.Fatal("the command does not run")
	}
	asked, request := s.ask("echo ran >> " + s.marks)
	s.peel.waitFor("request accepted", string(jidOf(t, request))) // and waits for the worker
	s.kill()
	s.start()
	s.again(request)
	s.interrupted(asked, request)
	hanging.end()
	if got := s.marked(); got != "" {
		t.Errorf("it has run: %q", got)
	}
}

func TestAPeelThatIsKilledBetweenTheWorkAndItsReturnDoesNotRunItAgain(t *testing.T) {
	s := newStage(t)
	pipe := arrange(t)
	asked, request := s.ask(fmt.Sprintf("exec 3> %[1]s; echo runs >&3; while [ -e %[1]s ]; do sleep 0.1; done; echo ran >> %[2]s", pipe, s.marks))
	command := pipe.wait(t)
	if _, ok := command.says(); !ok {
		t.Fatal("the command does not run")
	}
	s.peel.signal(syscall.SIGSTOP)
	s.peel.stopped()
	if err := os.Remove(string(pipe)); err != nil {
		t.Fatal(err)
	}
	if line, ok := command.says(); ok {
		t.Fatalf("the command says %q and does not end", line)
	}
	s.kill()
	s.start()
	s.again(request)
	s.interrupted(asked, request)
	if got := s.marked(); got != "ran\n" {
		t.Errorf("it has run: %q", got)
	}
}

func TestTwoProcessesWithOneIDAreToldApart(t *testing.T) {
	s := newStage(t)
	other := s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--url", s.url(), "--creds", s.path("web-01.creds"))
	if code := other.end(); code != 1 || !other.wrote("another process") {
		t.Errorf("a second process on the same files ended with %d", code)
	}
	s.zester(0, "web-01", "test.ping")
}
