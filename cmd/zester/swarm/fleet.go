package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"testing/fstest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
)

// A fleet is a master with its bus and its config repo, and the peels.
type fleet struct {
	r      *run
	port   int
	stop   context.CancelFunc
	ended  chan error
	work   *worktree.Work
	files  map[string][]byte // what is committed
	info   api.RunInfo
	client *api.Client
	server nats.InProcessConnProvider // nil: external
	nc     *nats.Conn                 // with the permissions of a master
	js     jetstream.JetStream

	current appliedReports
}

// unused measures the memory of a master and its bus that no peel has used. It comes first, because what other parts
// have freed would be part of it.
func (r *run) unused(ctx context.Context) (err error) {
	f := &fleet{r: r}
	if err := f.start(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.end(), os.RemoveAll(r.path("repo")), os.RemoveAll(r.path("master")))
	}()
	r.figure("memory of "+r.side()+" before any peel", "MiB", OwnMemory()/1024)
	return nil
}

// product measures the fleet.
func (r *run) product(ctx context.Context) (err error) {
	r.say("the fleet: %d peels, %d processes", r.o.Peels, r.o.Procs)
	f := &fleet{r: r, files: map[string][]byte{}}
	if err := f.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.end()) }()
	defer func() { err = errors.Join(err, r.stopWorkers()) }()
	before, began := OwnMemory(), time.Now()
	o := worker.Orders{URL: f.info.URL, CA: f.info.CA, Keys: r.keys("master"), Dir: r.path("peels")}
	if err := r.startWorkers(ctx, o); err != nil {
		return err
	}
	head, err := f.work.Head()
	if err != nil {
		return err
	}
	if err := f.applied(ctx, "applied", head.String(), r.o.Peels); err != nil {
		return err
	}
	if err := f.converged(ctx); err != nil {
		return err
	}
	r.compare("every peel connected and current", "s",
		time.Since(began).Seconds(), func(b floor) float64 { return b.connect.seconds })
	r.compare("memory of "+r.side()+" for a peel", "KiB",
		(OwnMemory()-before)/float64(r.o.Peels), func(b floor) float64 { return b.memory })
	r.compare("memory of a simulated peel", "KiB", r.peelMemory(), func(b floor) float64 { return b.peelMemory })
	switch {
	case r.o.Soak > 0:
		return f.soak(ctx)
	case r.o.Outputs > 0:
		return f.heavyOutputs(ctx)
	case r.o.Outage > 0:
		return f.outage(ctx)
	}
	return f.measure(ctx)
}

// repo makes the config repo, with limits off: commits of a swarm need no approval.
func (f *fleet) repo() (*worktree.Work, error) {
	tree := fstest.MapFS{"zester.yaml": {Data: []byte("limits: {change: off, remove: off, peels: off}\n"), Mode: 0o644}}
	for name, data := range (content{}).files() {
		tree[name] = &fstest.MapFile{Data: data, Mode: 0o644}
	}
	return worktree.Init(f.r.path("repo"), tree, "The fleet as it is", author)
}

// start makes the config repo and starts the master, which runs until end is called, and connects to it.
func (f *fleet) start(ctx context.Context) (err error) {
	if f.work == nil {
		if f.work, err = f.repo(); err != nil {
			return err
		}
	}
	log := slog.New(f.r.o.Log)
	rec, err := reconciler.New(reconciler.Options{
		Repo: gitrepo.Options{URL: f.work.Dir(), Dir: f.r.path("master/repo"), Log: log}, Owner: "swarm", Log: log,
	})
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	o := master.Options{
		ID: "swarm", DataDir: f.r.path("master"), Port: f.port, Log: log,
		Services: []master.Service{rec.Run}, Ready: func(i master.Info) {
			f.server = i.InProcess
			close(ready)
		},
	}
	if e := f.r.o.External; e != nil {
		creds, err := worker.Credential(e.Keys, grants.RoleMaster, o.ID)
		if err != nil {
			return err
		}
		o.NATS, o.Connect = e.URL, worker.ConnectOptions(creds, e.CA)
	}
	m, err := master.New(o)
	if err != nil {
		return err
	}
	ctx, f.stop = context.WithCancel(ctx)
	f.ended = make(chan error, 1)
	go func() { f.ended <- m.Run(ctx) }()
	select {
	case err := <-f.ended:
		return errors.Join(errors.New("the master has ended"), err)
	case <-ready:
	}
	return f.listen()
}

// locate reads the address of the bus and the credential of a person.
func (f *fleet) locate() (err error) {
	if e := f.r.o.External; e != nil {
		creds, err := worker.Credential(e.Keys, grants.RoleOperator, "swarm")
		f.info = api.RunInfo{URL: e.URL, CA: e.CA, Creds: string(creds)}
		return err
	}
	if f.info, err = api.ReadRunInfo(f.r.path("master")); err != nil {
		return err
	}
	f.port, err = portOf(f.info.URL)
	return err
}

// listen connects as a person and as a master, and receives the reports of peels on their settings.
func (f *fleet) listen() (err error) {
	if err := f.locate(); err != nil {
		return err
	}
	f.client, err = api.Connect(api.ClientOptions{
		// while thousands of peels connect
		URL:     f.info.URL,
		Creds:   []byte(f.info.Creds),
		CA:      f.info.CA,
		Connect: []nats.Option{nats.Timeout(worker.WaitLimit)},
	})
	if err != nil {
		return err
	}
	opts := []nats.Option{nats.ErrorHandler(f.r.refused.OnError)}
	if f.server != nil {
		opts = append(opts, nats.InProcessServer(f.server)) // as the meter of the bare bus
	}
	if f.nc, err = f.bus().Connect(grants.RoleMaster, "swarm-meter", opts...); err != nil {
		return err
	}
	if f.js, err = jetstream.New(f.nc); err != nil {
		return err
	}
	sub, err := f.nc.Subscribe(wire.AllApplied, f.current.onReport)
	if err != nil {
		return err
	}
	return errors.Join(sub.SetPendingLimits(-1, -1), f.nc.Flush())
}

// end stops the master.
func (f *fleet) end() error {
	if f.client != nil {
		f.client.Close()
	}
	if f.nc != nil {
		f.nc.Close()
	}
	f.stop()
	if err := <-f.ended; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// until waits until count returns n or more. It calls count every millisecond, and less often if that takes long.
func (f *fleet) until(ctx context.Context, what string, n int64, count func() int64) error {
	ctx, cancel := context.WithTimeout(ctx, worker.WaitLimit)
	defer cancel()
	for {
		began := time.Now()
		got := count()
		f.r.progress(what, got, n)
		if got >= n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %d of %d after %v: %w", what, got, n, worker.WaitLimit, context.Cause(ctx))
		case err := <-f.ended:
			f.ended <- err
			return errors.Join(errors.New("the master has ended"), err)
		case <-time.After(min(max(time.Millisecond, 10*time.Since(began)), 50*time.Millisecond)):
		}
	}
}

// applied waits until n peels have reported a commit as applied.
func (f *fleet) applied(ctx context.Context, what string, commit string, n int) error {
	return f.until(ctx, what, int64(n), func() int64 { return f.current.count(commit) })
}

// converged waits until the master reports that every peel has applied the newest commit.
func (f *fleet) converged(ctx context.Context) error {
	head, err := f.work.Head()
	if err != nil {
		return err
	}
	return f.until(ctx, "converged", int64(f.r.o.Peels), func() int64 {
		s, err := api.SyncStatus.Ask(ctx, f.client, api.None{})
		if err != nil || string(s.LastGood.Commit) != head.String() {
			return 0
		}
		return int64(s.Counts.Applied)
	})
}

// state returns the state of a stream, zero if it cannot be read.
func (f *fleet) state(ctx context.Context, stream string) jetstream.StreamState {
	s, err := f.js.Stream(ctx, stream)
	if err != nil {
		return jetstream.StreamState{}
	}
	return s.CachedInfo().State
}

// returns returns the number of messages of the bucket job-returns.
func (f *fleet) returns(ctx context.Context) int64 {
	return int64(f.state(ctx, wire.KV(wire.BucketJobReturns)).Msgs)
}

// restart stops the master with its bus, starts it at the same address, and waits until every peel has published its
// facts again.
func (f *fleet) restart(ctx context.Context) (float64, error) {
	facts := func() int64 { return int64(f.state(ctx, wire.StreamFacts).LastSeq) }
	before := facts()
	if err := f.end(); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := f.start(ctx); err != nil {
		return 0, err
	}
	err := f.until(ctx, "back", before+int64(f.r.o.Peels), facts)
	return time.Since(began).Seconds(), err
}

func portOf(address string) (int, error) {
	u, err := url.Parse(address)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(u.Port())
}

// bus returns the bus of the fleet.
func (f *fleet) bus() worker.Bus {
	return worker.Bus{URL: f.info.URL, CA: f.info.CA, Keys: f.r.keys("master")}
}
