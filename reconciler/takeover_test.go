package reconciler_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/status"
)

// master runs a reconciler with a connection and a copy of the repo of its own, until the test or stop ends it.
func (s *site) master(name, dir string) (stop func()) {
	s.t.Helper()
	log := slog.New(slog.DiscardHandler)
	nc := s.bus.Conn(s.t, grants.RoleMaster, name, nats.ReconnectBufSize(-1))
	r, err := reconciler.New(reconciler.Options{Repo: gitrepo.Options{URL: s.dir, Dir: dir}, Owner: name, Poll: time.Hour, Log: log})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	fleet := fleet.New(nc, log)
	done := make(chan struct{}, 2)
	go func() { _ = fleet.Run(ctx); done <- struct{}{} }()
	go func() {
		if fleet.WaitReady(ctx) == nil {
			if err := r.Run(ctx, nc, fleet); !errors.Is(err, context.Canceled) {
				s.t.Errorf("the reconciler of %s ended: %v", name, err)
			}
		}
		done <- struct{}{}
	}()
	var ended bool
	stop = func() {
		if cancel(); !ended {
			<-done
			<-done
		}
		ended = true
	}
	s.t.Cleanup(stop)
	return stop
}

// led waits until the master leads and has tried to read the branch.
func (s *site) led(name string) status.Sync {
	s.t.Helper()
	for {
		if out := s.now(); out.Owner == name || s.t.Context().Err() != nil {
			return out
		}
	}
}

// stored waits until a revision is kept on the bus.
func (s *site) stored(commit settings.Commit) {
	s.t.Helper()
	for s.t.Context().Err() == nil {
		var h status.History
		s.ask("history", nil, &h)
		if slices.ContainsFunc(h.Attempts, func(a status.Attempt) bool { return a.Commit == commit && a.Stored }) {
			return
		}
	}
}

func TestAMasterWithAnOlderCopyMovesNoPeelBack(t *testing.T) {
	s := newSite(t, fleetFiles())
	old, current := t.TempDir(), t.TempDir()
	s.peel("web-01", nil)
	stop := s.master("m2", old)
	s.settled(1)
	stop()

	stop = s.master("m1", current)
	head := settings.Commit(s.commit("second", map[string]string{"settings/web.yaml": "schedule:\n  x: {module: test.ping, interval: 30m}\n"}).String())
	if out := s.now(); out.LastGood.Commit != head || out.Owner != "m1" {
		t.Fatalf("%+v", out)
	}
	s.stored(head)
	before, writes := s.document("web-01"), s.writes()
	if before.Commit != head {
		t.Fatalf("web-01 has %s", before.Commit)
	}

	// The next to lead cannot read the branch, and its copy lacks the second commit: it has that from the bus.
	if err := os.Rename(s.dir, filepath.Join(filepath.Dir(s.dir), "away")); err != nil {
		t.Fatal(err)
	}
	s.master("m2", old)
	stop()
	if out := s.led("m2"); !out.Is(status.FetchFailed) || out.LastGood.Commit != head {
		t.Errorf("%+v", out)
	}
	s.peel("web-02", nil)
	s.settled(2)
	if doc := s.document("web-02"); doc == nil || doc.Commit != head {
		t.Errorf("a new peel was given %+v", doc)
	}
	if after := s.document("web-01"); after.Generation != before.Generation || s.writes() != writes+1 {
		t.Errorf("%d writes, web-01 has generation %d of %s", s.writes()-writes, after.Generation, after.Commit)
	}

	if err := os.Rename(filepath.Join(filepath.Dir(s.dir), "away"), s.dir); err != nil {
		t.Fatal(err)
	}
	if out := s.now(); out.Is(status.FetchFailed) || out.LastGood.Commit != head || s.writes() != writes+1 {
		t.Errorf("with the repo back: %d writes, %+v", s.writes()-writes, out)
	}
}
