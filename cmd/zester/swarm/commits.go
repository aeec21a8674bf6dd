package swarm

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

// author makes the commits of a swarm.
var author = worktree.Author{Name: "Swarm", Email: "swarm@example.com"}

// A content is what the config repo says: a schedule for everybody, and a second file for each hundredth peel and a
// third for the first one, or else as many different documents as there are racks. The numbers are changed to have
// something to commit.
type content struct {
	all, few, one int
	racks         int    // 0, 50 or 1000, which the peels know as facts
	probe         string // an entry for everybody
}

// files are those of the repo that c may change.
func (c content) files() map[string][]byte {
	files := map[string][]byte{
		"settings/all.yaml": fmt.Appendf(nil, `marker: %d
schedule:
  report: {cron: '17 3 * * *', splay: 1h, module: test.ping, return_job: true}
  check: {interval: 6h, splay: 10m, module: test.echo, args: {text: all is well}}
%s`, c.all, c.probe),
		"settings/few.yaml": fmt.Appendf(nil, "few: %d\n", c.few),
		"settings/one.yaml": fmt.Appendf(nil, "one: %d\n", c.one),
	}
	var top strings.Builder
	top.WriteString("base:\n  '*': [all]\n")
	if c.racks == 0 {
		fmt.Fprintf(&top, "  'sim-*00': [few]\n  '%s': [one]\n", peelID(0))
	}
	for i := range c.racks {
		fmt.Fprintf(&top, "  'G@rack%d:%d': [rack%d.r%d]\n", c.racks, i, c.racks, i)
		files[fmt.Sprintf("settings/rack%d/r%d.yaml", c.racks, i)] = fmt.Appendf(nil, "rack: %d\n", i)
	}
	files["top.yaml"] = []byte(top.String())
	return files
}

// settle commits c and waits until every peel runs what it gives them.
func (f *fleet) settle(ctx context.Context, message string, c content) error {
	if _, err := f.work.Commit(message, c.files(), author); err != nil {
		return err
	}
	return f.converged(ctx)
}

// commits changes the settings of one peel, of each hundredth, and of all.
func (f *fleet) commits(ctx context.Context, b baseline) error {
	one, err := f.commit(ctx, 1, func(round int) content { return content{one: round} })
	if err != nil {
		return err
	}
	f.r.figure("commit that changes one peel: applied", "s", one.seconds, b.one)
	f.r.figure("processor time of "+f.r.side()+" for it", "ms", one.cpu, 0)
	n := (f.r.o.Peels + 99) / 100
	few, err := f.commit(ctx, n, func(round int) content { return content{few: round} })
	if err != nil {
		return err
	}
	f.r.figure("commit that changes 1 % of the peels: applied", "s", few.seconds, b.few)
	all, err := f.commit(ctx, f.r.o.Peels, func(round int) content { return content{all: round} })
	if err != nil {
		return err
	}
	f.r.figure("commit that changes every peel: applied", "s", all.seconds, b.all)
	f.r.figure("the bare bus, each report stored and acknowledged", "s", b.reported, b.all)
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
		f.r.figure(fmt.Sprintf("the same with %d documents", racks), "s", all.seconds, b.all)
	}
	return nil
}

// An effort is what a commit took until all whom it changes had reported that they run it.
type effort struct {
	seconds float64
	cpu     float64 // of this process in ms
}

// commit makes a commit in each round, which changes n peels, and returns the median.
func (f *fleet) commit(ctx context.Context, n int, change func(round int) content) (effort, error) {
	var took, used []float64
	for round := range f.r.o.Rounds {
		if err := f.converged(ctx); err != nil {
			return effort{}, err
		}
		message := fmt.Sprintf("Change %d peels, round %d", n, round)
		if _, err := f.work.Commit(message, change(round+1).files(), author); err != nil {
			return effort{}, err
		}
		began, before, cpu := time.Now(), f.applied.Load(), cpuTime()
		if err := f.until(ctx, "applied", before+int64(n), f.applied.Load); err != nil {
			return effort{}, err
		}
		took = append(took, time.Since(began).Seconds())
		used = append(used, (cpuTime()-cpu).Seconds()*1000)
	}
	return effort{median(took), median(used)}, f.converged(ctx)
}
