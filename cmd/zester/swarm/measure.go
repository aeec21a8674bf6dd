package swarm

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// jobTime is how long a job of a swarm may take.
const jobTime = 2 * time.Minute

func (f *fleet) measure(ctx context.Context, b baseline) error {
	if err := f.pings(ctx, b); err != nil {
		return err
	}
	if err := f.outputs(ctx); err != nil {
		return err
	}
	if err := f.commits(ctx, b); err != nil {
		return err
	}
	if err := f.results(ctx, b); err != nil {
		return err
	}
	if err := f.ingest(ctx, b); err != nil {
		return err
	}
	if f.r.o.Idle > 0 {
		idle, err := f.r.idle(ctx)
		if err != nil {
			return err
		}
		f.r.figure("processor of idle "+f.r.side(), "%", idle, b.idle)
	}
	if f.r.o.External == nil {
		back, err := f.restart(ctx)
		if err != nil {
			return err
		}
		f.r.figure("restart of the server: every peel back", "s", back, b.restart)
	}
	if f.r.o.Programs == "" {
		return nil
	}
	return f.programs(ctx)
}

// A course is what one dispatched job did, in seconds from the first question to a master.
type course struct {
	returns []float64 // when the client heard each
	ended   float64   // the record is final, with every return stored
	stored  int       // successful returns in the record's rows

	used, reading time.Duration // of the processors by this process until the end, and to read the rows
}

// dispatch does what the command line does, from the target expression to the end of the job, and reads the rows.
func (f *fleet) dispatch(ctx context.Context, function, expr string, args map[string]any) (c course, err error) {
	began, used := time.Now(), cpuTime()
	resolved, err := f.client.Resolve(ctx, expr)
	if err != nil {
		return c, err
	}
	jid := wire.NewJID()
	follower, err := f.client.Follow(jid, resolved.Peels)
	if err != nil {
		return c, err
	}
	defer follower.Close()
	spec := job.Spec{JID: jid, Function: function, Args: args, Targets: resolved.Peels, TargetExpr: expr, Timeout: jobTime}
	if _, err := f.client.Dispatch(ctx, spec); err != nil {
		return c, err
	}
	for event, err := range follower.Events(ctx) {
		switch {
		case err != nil:
			return c, err
		case event.Return != nil:
			c.returns = append(c.returns, time.Since(began).Seconds())
		case event.Ended != nil:
			c.ended = time.Since(began).Seconds()
		}
	}
	c.used = cpuTime() - used
	if len(c.returns) == 0 {
		return c, fmt.Errorf("job %s: nobody has answered", jid)
	}
	err = f.read(ctx, jid, &c)
	return c, err
}

// read reads the rows of a job that has ended, as the command line does for JSON, or when somebody has not returned.
func (f *fleet) read(ctx context.Context, jid wire.JID, c *course) error {
	used := cpuTime()
	for row, err := range f.client.Rows(ctx, jid) {
		if err != nil {
			return err
		}
		if row.Return != nil && row.Return.Success {
			c.stored++
		}
	}
	c.reading = cpuTime() - used
	return nil
}

func (f *fleet) pings(ctx context.Context, b baseline) error {
	var last, ended, half, most []float64
	lost := 0
	var used, reading time.Duration
	peels := f.r.timeOfPeels()
	for range f.r.o.Rounds {
		c, err := f.dispatch(ctx, "test.ping", "*", nil)
		if err != nil {
			return err
		}
		used, reading = used+c.used, reading+c.reading
		slices.Sort(c.returns)
		n := len(c.returns)
		last, ended = append(last, c.returns[n-1]), append(ended, c.ended)
		half, most = append(half, c.returns[n/2]), append(most, c.returns[n*99/100])
		lost += f.r.o.Peels - c.stored
	}
	f.r.figure("test.ping of all: half have returned", "s", median(half), 0)
	f.r.figure("test.ping of all: 99 % have returned", "s", median(most), 0)
	f.r.figure("test.ping of all: last return", "s", median(last), b.ask)
	f.r.figure("test.ping of all: ended, every return stored", "s", median(ended), b.ask)
	f.r.figure("the bare bus, each return stored and acknowledged", "s", b.kept, b.ask)
	f.r.figure("processor time of client, "+f.r.side()+" for a target", "ms", perPeel(used, f.r.o), b.askCPU)
	f.r.figure("processor time of client, "+f.r.side()+" to read its row", "ms", perPeel(reading, f.r.o), 0)
	f.r.figure("processor time of a simulated peel for it", "ms", perPeel(f.r.timeOfPeels()-peels, f.r.o), b.askPeelCPU)
	f.r.figure("returns lost in all rounds", "", float64(lost), 0)
	return nil
}

// outputs asks for 64 KiB of each of at most 1,000 peels.
func (f *fleet) outputs(ctx context.Context) error {
	n := min(f.r.o.Peels, outputPeels)
	list := make([]string, n)
	for i := range list {
		list[i] = string(peelID(i))
	}
	args := map[string]any{"text": strings.Repeat("zester! ", outputLength/8)}
	c, err := f.dispatch(ctx, "test.echo", "L@"+strings.Join(list, ","), args)
	if err != nil {
		return err
	}
	f.r.figure(fmt.Sprintf("64 KiB of output of %d peels stored", n), "s", c.ended, 0)
	f.r.figure("outputs lost", "", float64(n-c.stored), 0)
	return nil
}

// results lets a scheduled run be due on all peels in the same second, and counts how fast the records come. Where the
// second has come before all peels know of it, a later one is tried, as another entry: the guard stops what changes many.
func (f *fleet) results(ctx context.Context, b baseline) error {
	var at time.Time
	var probes strings.Builder
	for ahead := 3*time.Second + time.Duration(f.r.o.Peels)*time.Millisecond; !time.Now().Before(at); ahead *= 2 {
		at = time.Now().Add(ahead).Truncate(time.Second)
		fmt.Fprintf(&probes, "  probe-%.0f: {at: %s, module: test.ping, return_job: true}\n", ahead.Seconds(), at.UTC().Format(time.RFC3339))
		if err := f.settle(ctx, "A run on every peel at once", content{probe: probes.String()}); err != nil {
			return err
		}
	}
	if err := pauseUntil(ctx, at.Add(-time.Second/2)); err != nil { // so that what an earlier one gave is there
		return err
	}
	before := f.messages(ctx, "KV_"+natsd.BucketJobReturns)
	if err := f.until(ctx, "results", before+int64(f.r.o.Peels), func() int64 { return f.messages(ctx, "KV_"+natsd.BucketJobReturns) }); err != nil {
		return err
	}
	f.r.figure("results of scheduled runs in records", "1/s", float64(f.r.o.Peels)/time.Since(at).Seconds(), b.puts)
	return nil
}

// idle is how much of a core this process takes while nobody wants anything, in percent. What was done before has left
// garbage; that is not part of it.
func (r *run) idle(ctx context.Context) (float64, error) {
	runtime.GC()
	before := cpuTime()
	err := pauseUntil(ctx, time.Now().Add(r.o.Idle))
	return 100 * (cpuTime() - before).Seconds() / r.o.Idle.Seconds(), err
}
