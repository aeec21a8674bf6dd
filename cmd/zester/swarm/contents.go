package swarm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// contents measures commits that change a file of every peel, until each has fetched it.
func (f *fleet) contents(ctx context.Context) error {
	if err := f.converged(ctx); err != nil {
		return err
	}
	c, err := f.r.rounds(f.r.o.Peels, func(round int) (took, used time.Duration, err error) {
		data := make([]byte, worker.ContentBytes)
		_, _ = rand.NewChaCha8([32]byte{byte(round)}).Read(data)
		arrived, stop, err := f.countArrived()
		if err != nil {
			return 0, 0, err
		}
		defer stop()
		files := content{probe: "states:\n  /etc/swarm: {file.managed: {source: files/swarm}}\n"}.files()
		files["files/swarm"] = data
		commit, err := f.work.Commit(fmt.Sprintf("Change a file of all peels, round %d", round), files, author)
		if err != nil {
			return 0, 0, err
		}
		watch := stopwatch()
		if err := f.until(ctx, "contents", int64(f.r.o.Peels), func() int64 { return arrived(commit.String()) }); err != nil {
			return 0, 0, err
		}
		took, used = watch()
		return took, used, f.converged(ctx)
	})
	if err != nil {
		return err
	}
	f.r.compare("commit that changes a file of 100 KiB on all peels: fetched", "s", c.seconds, func(b floor) float64 { return b.contents.seconds })
	if f.r.o.External == nil {
		f.r.compare("processor time of "+f.r.side()+" for the file of 100 KiB", "ms", c.cpu, func(b floor) float64 { return b.contents.cpu })
	}
	f.r.compare("processor time of a peel for the file of 100 KiB", "ms", c.peelCPU, func(b floor) float64 { return b.contents.peelCPU })
	return nil
}

// countArrived returns a function that counts the peels that run a revision and lack no content, until stop is called.
func (f *fleet) countArrived() (arrived func(commit string) int64, stop func(), err error) {
	var mu sync.Mutex
	peels := map[string]map[target.PeelID]bool{} // by commit
	sub, err := f.nc.Subscribe(wire.AllApplied, func(m *nats.Msg) {
		report, err := wire.DecodeApplied(m)
		if err != nil || report.MissingContents > 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if peels[report.Commit] == nil {
			peels[report.Commit] = map[target.PeelID]bool{}
		}
		peels[report.Commit][report.Peel] = true
	})
	if err == nil {
		err = errors.Join(sub.SetPendingLimits(-1, -1), f.nc.Flush())
	}
	if err != nil {
		return nil, nil, err
	}
	arrived = func(commit string) int64 {
		mu.Lock()
		defer mu.Unlock()
		return int64(len(peels[commit]))
	}
	return arrived, func() { _ = sub.Unsubscribe() }, nil
}
