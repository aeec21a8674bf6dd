package swarm

import (
	"context"
	"fmt"
	"os"
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
	if f.r.o.External == nil {
		if err := f.disk(ctx); err != nil {
			return err
		}
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
	var last, half, most []float64
	lost := 0
	var reading time.Duration
	e, err := f.r.rounds(f.r.o.Peels, func(int) (took, used time.Duration, err error) {
		c, err := f.dispatch(ctx, "test.ping", "*", nil)
		if err != nil {
			return 0, 0, err
		}
		reading += c.reading
		slices.Sort(c.returns)
		n := len(c.returns)
		last, half, most = append(last, c.returns[n-1]), append(half, c.returns[n/2]), append(most, c.returns[n*99/100])
		lost += f.r.o.Peels - c.stored
		return time.Duration(c.ended * float64(time.Second)), c.used, nil
	})
	if err != nil {
		return err
	}
	f.r.figure("test.ping of all: half have returned", "s", median(half), 0)
	f.r.figure("test.ping of all: 99 % have returned", "s", median(most), 0)
	f.r.figure("test.ping of all: last return", "s", median(last), b.kept.seconds)
	f.r.figure(pingEnded, "s", e.seconds, b.kept.seconds)
	f.r.figure("the bare bus, no answer stored", "s", b.ask.seconds, b.kept.seconds)
	if f.r.o.External == nil { // else the processor time of the bus is not known
		f.r.figure(pingCPU, "ms", e.cpu, b.kept.cpu)
		f.r.figure("processor time of the bare bus, no answer stored", "ms", b.ask.cpu, b.kept.cpu)
	}
	f.r.figure("processor time of client, "+f.r.side()+" to read its row", "ms", reading.Seconds()*1000/float64(f.r.o.Rounds*f.r.o.Peels), 0)
	f.r.figure(pingPeel, "ms", e.peel, b.kept.peel)
	f.r.figure("returns lost in all rounds", "", float64(lost), 0)
	return nil
}

// echo asks the first n peels for so many bytes of output each.
func (f *fleet) echo(ctx context.Context, n, bytes int) (course, error) {
	expr := "*"
	if n < f.r.o.Peels {
		list := make([]string, n)
		for i := range list {
			list[i] = string(peelID(i))
		}
		expr = "L@" + strings.Join(list, ",")
	}
	return f.dispatch(ctx, "test.echo", expr, map[string]any{"text": strings.Repeat("zester! ", bytes/8)})
}

// outputs asks for 64 KiB of each of at most 1,000 peels.
func (f *fleet) outputs(ctx context.Context) error {
	n := min(f.r.o.Peels, outputPeels)
	c, err := f.echo(ctx, n, outputLength)
	if err != nil {
		return err
	}
	f.r.figure(fmt.Sprintf("64 KiB of output of %d peels stored", n), "s", c.ended, 0)
	f.r.figure("outputs lost", "", float64(n-c.stored), 0)
	return nil
}

// disk asks every peel for 1 KiB and compares what the files of the bus have grown by with what the bucket of the returns
// has: 1 is one copy. The rest is what is kept of the job itself.
func (f *fleet) disk(ctx context.Context) error {
	files, kept := size(f.r.path("master")), f.bytes(ctx, "KV_"+natsd.BucketJobReturns)
	c, err := f.echo(ctx, f.r.o.Peels, 1<<10)
	if err != nil {
		return err
	}
	files, kept = size(f.r.path("master"))-files, f.bytes(ctx, "KV_"+natsd.BucketJobReturns)-kept
	if c.stored < f.r.o.Peels || kept == 0 {
		return fmt.Errorf("%d of %d returns are stored, in %d bytes", c.stored, f.r.o.Peels, kept)
	}
	f.r.figure(diskWritten, "MiB", float64(files)/(1<<20), float64(kept)/(1<<20))
	return nil
}

// heavy asks every peel for 64 KiB, as often as Options.Outputs says.
func (f *fleet) heavy(ctx context.Context) error {
	lost := 0
	var took []float64
	for range f.r.o.Outputs {
		c, err := f.echo(ctx, f.r.o.Peels, outputLength)
		if err != nil {
			return err
		}
		took, lost = append(took, c.ended), lost+f.r.o.Peels-c.stored
	}
	f.r.figure("64 KiB of output of every peel stored", "s", median(took), 0)
	f.r.figure("outputs lost in all rounds", "", float64(lost), 0)
	f.r.figure("memory of "+f.r.side()+" at most", "MiB", statusOf(os.Getpid(), "VmHWM")/1024, 0)
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
	f.r.figure("results of scheduled runs in records", "1/s", float64(f.r.o.Peels)/time.Since(at).Seconds(), b.taken)
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
