//go:build slow

package main_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/seed-c01c3da5/zester/examples"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestAMasterThatSleepsLongerThanItsHeartbeatEndsNothingTwice takes as long as a take-over does, up to 40 s.
func TestAMasterThatSleepsLongerThanItsHeartbeatEndsNothingTwice(t *testing.T) {
	s := newSite(t, examples.Fleet())
	bus := s.daemon("zester-master", "--id", "bus", "--data-dir", "master", "--listen", "127.0.0.1:0")
	bus.waitFor("master is ready")
	m1 := s.daemon("zester-master", "--nats", s.url(), "--creds", s.issue(grants.RoleMaster, "m1"), "--data-dir", "m1")
	m1.waitFor("master is ready")
	s.daemon("zester-peel", "--id", "web-01", "--data-dir", "peel", "--workers", "60", "--url", s.url(), "--creds", s.issue(grants.RolePeel, "web-01")).waitFor("bus is reached")
	c := s.client()
	s.awaitPeel(c)

	s.write("hold", "")
	asked := s.hangOn(c, "m1")
	m1.signal(syscall.SIGSTOP)
	m1.stopped()
	s.endBeat("m1")
	if err := os.Remove(s.path("hold")); err != nil {
		t.Fatal(err)
	}
	victim := string(asked[len(asked)-1])
	bus.waitFor("job reclaimed", victim, `"from":"m1/`)
	bus.waitFor("job ended", victim, `"status":"complete"`)
	m1.signal(syscall.SIGCONT)
	m1.waitFor("job belongs to another master", victim)
	for s.dispatch(c, "web-01", "test.ping").Owner[:3] != "m1/" { // it works again
	}

	j, err := api.JobShow.Ask(s.ctx(), c, api.JobRequest{JID: asked[len(asked)-1]})
	if err != nil || !strings.HasPrefix(j.Owner, "bus/") || j.Status != job.Complete || j.ReclaimCount != 1 || j.ReturnCount != 1 {
		t.Errorf("%+v, %v", j, err)
	}
	if m1.wrote(`"msg":"job ended","master":"m1","jid":"` + victim) {
		t.Error("both masters have ended the job")
	}
	for _, jid := range asked {
		s.final(c, jid)
	}
	ran, err := os.ReadFile(s.path("marks"))
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Fields(string(ran))
	slices.Sort(got)
	if len(got) != len(asked) || len(slices.Compact(got)) != len(asked) {
		t.Errorf("%d commands have run as %q", len(asked), ran)
	}
}

// hangOn asks for commands that go on while the file hold is there, until one of them is a master's; that is the last.
func (s *site) hangOn(c *api.Client, master string) (asked []wire.JID) {
	s.t.Helper()
	for range 60 {
		jid := wire.NewJID()
		j, err := api.JobDispatch.Ask(s.ctx(), c, job.Spec{
			JID: jid, Function: "cmd.run", Targets: []target.PeelID{"web-01"}, TargetExpr: "web-01", Timeout: 2 * patience,
			Args: map[string]any{"command": fmt.Sprintf("echo %s >> %s; while [ -e %s ]; do sleep 0.1; done", jid, s.path("marks"), s.path("hold"))},
		})
		if err != nil {
			s.t.Fatal(err)
		}
		if asked = append(asked, jid); strings.HasPrefix(j.Owner, master+"/") {
			return asked
		}
	}
	s.t.Fatalf("none of %d jobs came to %s", len(asked), master)
	return nil
}

// endBeat has the heartbeat of a master end now, as it would within 15 s.
func (s *site) endBeat(master string) {
	s.t.Helper()
	masters, err := s.streams().KeyValue(s.t.Context(), "masters")
	if err == nil {
		err = masters.Delete(s.t.Context(), master)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
