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
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// jobTimeout is how long a job of a swarm may take.
const jobTimeout = 2 * time.Minute

// measure measures everything, one after the other.
func (f *fleet) measure(ctx context.Context) error {
	for _, part := range []func(context.Context) error{
		f.pings, f.outputs, f.disk, f.contents, f.commits, f.results, f.waitingReports, f.idle, f.restarted, f.programs,
	} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// A jobRun is what one dispatched job took. Times are seconds since the client resolved the target.
type jobRun struct {
	returns []float64 // when the client received each return
	ended   float64   // when the record was final and every return stored
	stored  int       // successful returns in the record's rows

	used, reading time.Duration // processor time of this process until the end, and to read the rows
}

// dispatch does what the command line does: it resolves the target, dispatches a job, follows it to its end and reads
// the rows.
func (f *fleet) dispatch(ctx context.Context, function, expr string, args map[string]any) (j jobRun, err error) {
	began, used := time.Now(), CPUTime()
	resolved, err := f.client.Resolve(ctx, expr)
	if err != nil {
		return j, err
	}
	jid := wire.NewJID()
	follower, err := f.client.Start(ctx, job.Spec{
		JID:        jid,
		Function:   function,
		Args:       args,
		Targets:    resolved.Peels,
		TargetExpr: expr,
		Timeout:    jobTimeout,
	})
	if err != nil {
		return j, err
	}
	defer follower.Close()
	for event, err := range follower.Events(ctx) {
		switch {
		case err != nil:
			return j, err
		case event.Return != nil:
			j.returns = append(j.returns, time.Since(began).Seconds())
		case event.Ended != nil:
			j.ended = time.Since(began).Seconds()
		}
	}
	j.used = CPUTime() - used
	if len(j.returns) == 0 {
		return j, fmt.Errorf("job %s: no peel has returned", jid)
	}
	used = CPUTime()
	// as the command line does for JSON, or when a peel has not returned
	for row, err := range f.client.Rows(ctx, jid) {
		if err != nil {
			return j, err
		}
		if row.Return != nil && row.Return.Success {
			j.stored++
		}
	}
	j.reading = CPUTime() - used
	return j, nil
}

// pings measures test.ping of all peels.
func (f *fleet) pings(ctx context.Context) error {
	var last, half, most []float64
	lost := 0
	var reading time.Duration
	c, err := f.r.rounds(f.r.o.Peels, func(int) (took, used time.Duration, err error) {
		j, err := f.dispatch(ctx, "test.ping", "*", nil)
		if err != nil {
			return 0, 0, err
		}
		reading += j.reading
		slices.Sort(j.returns)
		n := len(j.returns)
		last, half, most = append(last, j.returns[n-1]), append(half, j.returns[n/2]), append(most, j.returns[n*99/100])
		lost += f.r.o.Peels - j.stored
		return time.Duration(j.ended * float64(time.Second)), j.used, nil
	})
	if err != nil {
		return err
	}
	stored := func(b floor) float64 { return b.stored.seconds }
	f.r.figure("test.ping of all: half have returned", "s", median(half))
	f.r.figure("test.ping of all: 99 % have returned", "s", median(most))
	f.r.compare("test.ping of all: last return", "s", median(last), stored)
	f.r.compare(PingEnded, "s", c.seconds, stored)
	f.r.compare("the bare bus, no answer stored", "s", f.r.fleetAccounts.unstored.seconds, stored)
	if f.r.o.External == nil { // else the processor time of the bus is not known
		storedCPU := func(b floor) float64 { return b.stored.cpu }
		f.r.compare(PingCPU, "ms", c.cpu, storedCPU)
		f.r.compare("processor time of the bare bus, no answer stored", "ms", f.r.fleetAccounts.unstored.cpu, storedCPU)
	}
	f.r.figure("processor time of client, "+f.r.side()+" to read its row", "ms",
		reading.Seconds()*1000/float64(f.r.o.Rounds*f.r.o.Peels))
	f.r.compare(PingPeelCPU, "ms", c.peelCPU, func(b floor) float64 { return b.stored.peelCPU })
	f.r.figure("returns lost in all rounds", "", float64(lost))
	return nil
}

// echo runs a job in which each peel of a target returns the given number of bytes.
func (f *fleet) echo(ctx context.Context, expr string, bytes int) (jobRun, error) {
	return f.dispatch(ctx, "test.echo", expr, map[string]any{"text": strings.Repeat("zester! ", bytes/8)})
}

// outputs measures 64 KiB of output of each of at most 1,000 peels.
func (f *fleet) outputs(ctx context.Context) error {
	n, expr := f.r.o.Peels, "*"
	if n > outputPeels {
		n, expr = outputPeels, "sim-00*"
	}
	j, err := f.echo(ctx, expr, outputLength)
	if err != nil {
		return err
	}
	f.r.figure(fmt.Sprintf("64 KiB of output of %d peels stored", n), "s", j.ended)
	f.r.figure("outputs lost", "", float64(n-j.stored))
	return nil
}

// disk measures by how much the files of the bus grow for 1 KiB of output of every peel, beside the growth of the
// bucket job-returns: 1 is one copy.
func (f *fleet) disk(ctx context.Context) error {
	if f.r.o.External != nil {
		return nil
	}
	files, stored := DirSize(f.r.path("master")), f.state(ctx, wire.KV(wire.BucketJobReturns)).Bytes
	j, err := f.echo(ctx, "*", 1<<10)
	if err != nil {
		return err
	}
	files, stored = DirSize(f.r.path("master"))-files, f.state(ctx, wire.KV(wire.BucketJobReturns)).Bytes-stored
	if j.stored < f.r.o.Peels || stored == 0 {
		return fmt.Errorf("%d of %d returns are stored, in %d bytes", j.stored, f.r.o.Peels, stored)
	}
	f.r.add(Figure{
		Name:  DiskWritten,
		Unit:  "MiB",
		Value: float64(files) / (1 << 20),
		Bare:  float64(stored) / (1 << 20),
	})
	return nil
}

// heavyOutputs asks every peel for 64 KiB, Options.Outputs times.
func (f *fleet) heavyOutputs(ctx context.Context) error {
	lost := 0
	var took []float64
	for range f.r.o.Outputs {
		j, err := f.echo(ctx, "*", outputLength)
		if err != nil {
			return err
		}
		took, lost = append(took, j.ended), lost+f.r.o.Peels-j.stored
	}
	f.r.figure("64 KiB of output of every peel stored", "s", median(took))
	f.r.figure("outputs lost in all rounds", "", float64(lost))
	f.r.figure("memory of "+f.r.side()+" at most", "MiB", HostStatus(os.Getpid(), "VmHWM")/1024)
	return nil
}

// idle measures master and bus without work.
func (f *fleet) idle(ctx context.Context) error {
	if f.r.o.Idle == 0 {
		return nil
	}
	idle, err := f.r.idle(ctx)
	if err == nil {
		f.r.compare("processor of idle "+f.r.side(), "%", idle, func(b floor) float64 { return b.idle })
	}
	return err
}

// idle returns how much of a core this process takes without work, in percent. Garbage of the work before does not
// count.
func (r *run) idle(ctx context.Context) (float64, error) {
	runtime.GC()
	before := CPUTime()
	err := pauseUntil(ctx, time.Now().Add(r.o.Idle))
	return 100 * (CPUTime() - before).Seconds() / r.o.Idle.Seconds(), err
}

// restarted measures a restart of master and bus.
func (f *fleet) restarted(ctx context.Context) error {
	if f.r.o.External != nil {
		return nil
	}
	back, err := f.restart(ctx)
	if err == nil {
		f.r.compare("restart of the server: every peel back", "s", back, func(b floor) float64 { return b.restart })
	}
	return err
}
