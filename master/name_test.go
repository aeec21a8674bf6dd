package master_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/job"
)

// namesake runs a second process with the name of a master and a data directory of its own, and returns why it ended.
func (s *site) namesake(ctx context.Context, name string) error {
	s.t.Helper()
	m, err := master.New(master.Options{
		ID: name, DataDir: filepath.Join(s.dir, "other-"+name), NATS: s.bus.URL(),
		Connect: append(s.bus.Options(grants.RoleMaster, name), nats.InProcessServer(s.bus)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return m.Run(ctx)
}

func TestASecondMasterOfOneNameDoesNotStartAndTakesNoJobs(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("vm")
		s.peels("a", "b")
		spec := nap(100*time.Second, "a", "b")
		spec.Timeout = 5 * time.Minute
		s.insist(spec)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := s.namesake(ctx, "vm"); !errors.Is(err, bus.ErrNameTaken) || !strings.Contains(err.Error(), `"vm"`) {
			t.Errorf("the second master ended with %v", err)
		}
		time.Sleep(2 * time.Minute)
		s.check(0, spec.JID)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReclaimCount != 0 {
			t.Errorf("%s (%s), taken over %d times", j.Status, j.Metadata[job.MetaFailedReason], j.ReclaimCount)
		}
	})
}

func TestAMasterThatLosesItsNameLetsGo(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		m := s.master("vm")
		s.peels("a", "b")
		spec := nap(2*time.Minute, "a", "b")
		spec.Timeout = 5 * time.Minute
		s.insist(spec)
		m.freeze()
		time.Sleep(20 * time.Second) // in which its heartbeat ends
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.namesake(ctx, "vm") }()
		time.Sleep(20 * time.Second)
		m.thaw() // and is started again by its unit as often as it ends, to no avail
		time.Sleep(3 * time.Minute)
		s.check(0, spec.JID)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReclaimCount != 1 {
			t.Errorf("%s (%s), taken over %d times", j.Status, j.Metadata[job.MetaFailedReason], j.ReclaimCount)
		}
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("the master that has the name ended with %v", err)
		}
	})
}

func TestOneDataDirectoryHasOneMaster(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("vm")
		m, err := master.New(master.Options{
			ID: "other", DataDir: filepath.Join(s.dir, "vm"), NATS: s.bus.URL(),
			Connect: append(s.bus.Options(grants.RoleMaster, "other"), nats.InProcessServer(s.bus)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := m.Run(ctx); err == nil || !strings.Contains(err.Error(), "another master uses it") {
			t.Errorf("ended with %v", err)
		}
	})
}
