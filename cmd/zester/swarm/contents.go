package swarm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
)

// contents measures commits that change a file of every peel, until each has fetched it.
func (f *fleet) contents(ctx context.Context) error {
	if err := f.converged(ctx); err != nil {
		return err
	}
	c, err := f.r.rounds(f.r.o.Peels, func(round int) (took, used time.Duration, err error) {
		data := make([]byte, worker.ContentBytes)
		_, _ = rand.NewChaCha8([32]byte{byte(round)}).Read(data)
		files := content{probe: "states:\n  /etc/swarm: {file.managed: {source: files/swarm}}\n"}.files()
		files["files/swarm"] = data
		commit, err := f.push(fmt.Sprintf("Change a file of all peels, round %d", round), files)
		if err != nil {
			return 0, 0, err
		}
		watch := stopwatch()
		if err := f.applied(ctx, "contents", commit, f.r.o.Peels); err != nil {
			return 0, 0, err
		}
		took, used = watch()
		return took, used, f.converged(ctx)
	})
	if err != nil {
		return err
	}
	f.r.compare("commit that changes a file of 100 KiB on all peels: fetched", "s",
		c.seconds, func(b floor) float64 { return b.contents.seconds })
	if f.r.o.External == nil {
		f.r.compare("processor time of "+f.r.side()+" for the file of 100 KiB", "ms",
			c.cpu, func(b floor) float64 { return b.contents.cpu })
	}
	f.r.compare("processor time of a peel for the file of 100 KiB", "ms",
		c.peelCPU, func(b floor) float64 { return b.contents.peelCPU })
	return nil
}
