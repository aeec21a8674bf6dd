package swarm

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

// author makes the commits of a swarm.
var author = worktree.Author{Name: "Swarm", Email: "swarm@example.com"}

// A content is the state of the config repo. All peels have a schedule of two entries. If racks is 0, each hundredth
// peel has a second file and the first peel a third; else each rack has a file of its own. Commits change the numbers.
type content struct {
	all, few, one int
	racks         int    // 0, 50 or 1000, as the facts of the peels
	probe         string // a further entry for all peels, or a further part of their settings
}

// files returns the files of the repo.
func (c content) files() map[string][]byte {
	files := map[string][]byte{
		"settings/all.yaml": fmt.Appendf(nil, `schedule:
  report: {cron: '17 3 * * *', splay: 1h, module: test.ping, return_job: true}
  check: {interval: 6h, splay: 10m, module: test.echo, args: {text: check %d is well}}
%s`, c.all, c.probe),
		"settings/few.yaml": fmt.Appendf(nil, "few: %d\n", c.few),
		"settings/one.yaml": fmt.Appendf(nil, "one: %d\n", c.one),
	}
	var top strings.Builder
	top.WriteString("base:\n  '*': [all]\n")
	if c.racks == 0 {
		fmt.Fprintf(&top, "  'sim-*00': [few]\n  '%s': [one]\n", worker.PeelID(0))
	}
	for i := range c.racks {
		fmt.Fprintf(&top, "  'G@rack%d:%d': [rack%d.r%d]\n", c.racks, i, c.racks, i)
		files[fmt.Sprintf("settings/rack%d/r%d.yaml", c.racks, i)] = fmt.Appendf(nil, "rack: %d\n", i)
	}
	files["top.yaml"] = []byte(top.String())
	return files
}

// settle commits c and waits until every peel has applied it.
func (f *fleet) settle(ctx context.Context, message string, c content) error {
	if _, err := f.push(message, c.files()); err != nil {
		return err
	}
	return f.converged(ctx)
}

// push commits the files, but leaves out what has not changed: for each file of a commit, go-git reads and writes its
// list of all files.
func (f *fleet) push(message string, files map[string][]byte) (string, error) {
	changes := maps.Clone(files)
	maps.DeleteFunc(changes, func(name string, data []byte) bool {
		before, committed := f.files[name]
		return committed && bytes.Equal(before, data)
	})
	commit, err := f.work.Commit(message, changes, author)
	if err == nil {
		maps.Copy(f.files, changes)
	}
	return commit.String(), err
}

// commits measures commits that change the settings of one peel, of each hundredth, and of all.
func (f *fleet) commits(ctx context.Context) error {
	// The measurement before has left a file on every peel.
	if err := f.settle(ctx, "The fleet without files", content{}); err != nil {
		return err
	}
	one, err := f.commit(ctx, 1, func(round int) content { return content{one: round} })
	if err != nil {
		return err
	}
	f.r.compare("commit that changes one peel: applied", "s",
		one.seconds, func(b floor) float64 { return b.one.seconds })
	f.r.figure("processor time of "+f.r.side()+" for it", "ms", one.cpu)
	few, err := f.commit(ctx, (f.r.o.Peels+99)/100, func(round int) content { return content{few: round} })
	if err != nil {
		return err
	}
	f.r.compare("commit that changes 1 % of the peels: applied", "s",
		few.seconds, func(b floor) float64 { return b.few.seconds })
	all, err := f.commit(ctx, f.r.o.Peels, func(round int) content { return content{all: round} })
	if err != nil {
		return err
	}
	seconds := func(b floor) float64 { return b.all.seconds }
	f.r.compare(CommitSeconds, "s", all.seconds, seconds)
	if f.r.o.External == nil {
		f.r.compare(CommitCPU, "ms", all.cpu, func(b floor) float64 { return b.all.cpu })
	}
	f.r.compare(CommitPeelCPU, "ms", all.peelCPU, func(b floor) float64 { return b.all.peelCPU })
	for _, racks := range []int{50, 1000} {
		if racks > f.r.o.Peels {
			continue
		}
		if err := f.settle(ctx, fmt.Sprintf("%d racks", racks), content{racks: racks}); err != nil {
			return err
		}
		all, err := f.commit(ctx, f.r.o.Peels, func(round int) content { return content{all: round, racks: racks} })
		if err != nil {
			return err
		}
		f.r.compare(fmt.Sprintf("the same with %d documents", racks), "s", all.seconds, seconds)
	}
	return nil
}

// commit makes a commit in each round, which changes n peels, and waits until as many have reported it as applied.
func (f *fleet) commit(ctx context.Context, n int, change func(round int) content) (cost, error) {
	if err := f.converged(ctx); err != nil {
		return cost{}, err
	}
	return f.r.rounds(n, func(round int) (took, used time.Duration, err error) {
		message := fmt.Sprintf("Change %d peels, round %d", n, round)
		commit, err := f.push(message, change(round+1).files())
		if err != nil {
			return 0, 0, err
		}
		watch := stopwatch()
		if err := f.applied(ctx, "applied", commit, n); err != nil {
			return 0, 0, err
		}
		took, used = watch()
		return took, used, f.converged(ctx)
	})
}
