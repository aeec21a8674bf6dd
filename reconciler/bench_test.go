package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// From a commit that changes what one peel of the fleet is to run, to its document in the bucket: fetched, compiled,
// compared, guarded, blamed, recorded and written, on a real bus.
func BenchmarkCommitForOnePeel(b *testing.B) {
	for _, peels := range []int{1000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("peels=%d", peels), func(b *testing.B) {
			work, err := worktree.Init(filepath.Join(b.TempDir(), "repo"), fstest.MapFS{
				"top.yaml":          text("base:\n  '*': [all]\n  peel-000042: [one]\n"),
				"settings/all.yaml": text("schedule:\n  a: {module: test.ping, interval: 1h}\n  b: {module: test.ping, cron: '@daily'}\n"),
				"settings/one.yaml": text("schedule:\n  c: {module: test.ping, interval: 1h}\n"),
			}, "first", ada)
			if err != nil {
				b.Fatal(err)
			}
			t := benchTerm(b, work.Dir(), peels)
			if err := t.attempt(b.Context()); err != nil {
				b.Fatal(err)
			}
			for n := 0; b.Loop(); n++ {
				b.StopTimer()
				entry := fmt.Sprintf("schedule:\n  c: {module: test.ping, interval: %dm}\n", 2+n%1000)
				if _, err := work.Commit("for one", map[string][]byte{"settings/one.yaml": []byte(entry)}, ada); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := t.attempt(b.Context()); err != nil || t.control.Status().Writes != 1 {
					b.Fatal(err, t.control.Status())
				}
			}
		})
	}
}

// A commit that gives every peel another document: from the commit to all documents in the bucket.
func BenchmarkCommitForAllPeels(b *testing.B) {
	const peels = 10_000
	entry := func(n int) string {
		return fmt.Sprintf("schedule:\n  a: {module: test.ping, interval: %dm}\n", 2+n%1000)
	}
	work, err := worktree.Init(filepath.Join(b.TempDir(), "repo"), fstest.MapFS{
		"top.yaml": text("base:\n  '*': [all]\n"), "zester.yaml": text("limits: {change: off}\n"), "settings/all.yaml": text(entry(0)),
	}, "first", ada)
	if err != nil {
		b.Fatal(err)
	}
	t := benchTerm(b, work.Dir(), peels)
	if err := t.attempt(b.Context()); err != nil {
		b.Fatal(err)
	}
	for n := 1; b.Loop(); n++ {
		b.StopTimer()
		if _, err := work.Commit("for all", map[string][]byte{"settings/all.yaml": []byte(entry(n))}, ada); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := t.attempt(b.Context()); err != nil || t.control.Status().Writes != peels {
			b.Fatal(err, t.control.Status())
		}
	}
}

// A benchedTerm runs with a fleet that is in its index alone.
type benchedTerm struct {
	*term
	ops          *nats.Conn
	fleetChanged chan struct{}
	stop         func() // ends the term; may be called again
}

func benchTerm(b testing.TB, repo string, peels int) *benchedTerm {
	return termOf(b, repo, peels, alwaysLeads)
}

// termOf runs a term that calls checkLease before each document.
func termOf(b testing.TB, repo string, peels int, checkLease func() error) *benchedTerm {
	return termOn(b, natstest.Listen(b), repo, peels, checkLease)
}

// termOn runs a term, with a store of its own, on a bus that may hold what an earlier term has left.
func termOn(b testing.TB, bus *natstest.Bus, repo string, peels int, checkLease func() error) *benchedTerm {
	log := slog.New(slog.DiscardHandler)
	nc := bus.Conn(b, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1))
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	r, err := New(Options{Repo: gitrepo.Options{URL: repo, Dir: b.TempDir()}, Owner: "m1", Poll: time.Hour, Log: log})
	if err != nil {
		b.Fatal(err)
	}
	fleet := fleet.New(nc, log)
	for i := range peels {
		fleet.Index().Put(benchPeel(i), nil)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t := &benchedTerm{ops: bus.Conn(b, grants.RoleOperator, "op"), fleetChanged: make(chan struct{})}
	if t.term, err = r.newTerm(ctx, nc, js, fleet, checkLease); err != nil {
		b.Fatal(err)
	}
	t.in.fleet = t.fleetChanged
	ended := make(chan struct{})
	go func() { defer close(ended); _ = t.run(ctx, nil) }()
	t.stop = sync.OnceFunc(func() { cancel(); <-ended; _ = t.source.Close() })
	b.Cleanup(t.stop)
	return t
}

func benchPeel(i int) target.PeelID { return target.PeelID(fmt.Sprintf("peel-%06d", i)) }

// attempt has the branch read, and returns when all that follows has ended. Its error says why the fleet does not have it.
func (t *benchedTerm) attempt(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		answer, err := t.ops.RequestWithContext(ctx, wire.API("sync", "now", "op"), nil)
		if errors.Is(err, nats.ErrNoResponders) {
			runtime.Gosched() // the service begins
			continue
		}
		if err != nil {
			return err
		}
		var s status.Sync
		if err := canon.Unmarshal(answer.Data, &s); err != nil {
			return err
		}
		for _, c := range s.Conditions {
			if c.Type == status.Ready && !c.Status || c.Type == status.FetchFailed && c.Status {
				return fmt.Errorf("%s: %s (%+v)", c.Type, c.Message, s.Conditions)
			}
		}
		return nil
	}
}
