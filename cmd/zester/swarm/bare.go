package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/bucket"
	fleetpkg "github.com/seed-c01c3da5/zester/master/fleet"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A floor is what the bare bus needs for the traffic of the fleet. Zero is not measured.
type floor struct {
	connect    cost    // to make all connections at once
	memory     float64 // KiB of the bus for a connection
	peelMemory float64 // KiB of a connection
	restart    float64 // s until every connection is back
	unstored   cost    // a command to every connection, its answers stored nowhere
	// a command to every connection, until its answers are stored, acknowledged and re-published
	stored cost
	// documents for all connections, 1 % and one, until their reports are published, which are stored
	all, few, one cost
	// documents for all connections, and for each connection a read of worker.ContentBytes before its report
	contents        cost
	storedPerSecond float64 // reports taken from their stream, each stored twice
	idle            float64 // % of a core, with heartbeats
}

// A bus is a server with the streams of the fleet, and the meter: a connection in the account of the masters that
// counts what the bare connections publish.
type bus struct {
	r     *run
	dir   string
	ca    *pki.CA       // nil: external
	file  string        // of the certificates that its own is checked against
	srv   *natsd.Server // nil: external
	url   string
	nc    *nats.Conn // the meter
	js    jetstream.JetStream
	heard chan struct{} // gets a value for each message of a bare connection
}

// bare measures the bare bus. Its connections have credentials of a role: peels have an account of their own, as in the
// fleet, and masters share the account of the meter.
func (r *run) bare(ctx context.Context, role grants.Role) (err error) {
	f := &r.fleetAccounts
	if role == grants.RoleMaster {
		f = &r.oneAccount
	}
	r.say("the bare bus, %s: %d connections, %d processes", floorNames[role], r.o.Peels, r.o.Procs)
	b := r.newBus("bare-" + string(role))
	if e := r.o.External; e != nil {
		b.file = e.CA
	} else {
		if b.ca, err = pki.Open(r.path(b.dir + "/tls")); err != nil {
			return err
		}
		b.file = b.ca.File()
	}
	if err := b.start(ctx, 0); err != nil {
		return err
	}
	defer func() { b.stop() }()
	defer func() { err = errors.Join(err, r.stopWorkers()) }()
	before := OwnMemory()
	if f.connect, err = b.connectAll(ctx, worker.Orders{
		URL:  b.url,
		CA:   b.file,
		Keys: r.keys(b.dir),
		Role: role,
	}); err != nil {
		return err
	}
	f.peelMemory = r.peelMemory()
	if b.srv != nil {
		f.memory = (OwnMemory() - before) / float64(r.o.Peels)
	}
	if err := b.measure(ctx, role, f); err != nil || role != grants.RolePeel || b.srv == nil {
		return err
	}
	if r.o.Idle > 0 {
		if f.idle, err = r.idle(ctx); err != nil {
			return err
		}
	}
	f.restart, err = b.restart(ctx)
	return err
}

// floorNames name the two kinds of bare bus by the role of their connections.
var floorNames = map[grants.Role]string{grants.RolePeel: "accounts as the fleet", grants.RoleMaster: "one account"}

func (r *run) newBus(dir string) *bus {
	return &bus{r: r, dir: dir, heard: make(chan struct{}, 2*r.o.Peels)}
}

// trusted returns what a connection to the bus needs.
func (b *bus) trusted() worker.Bus { return worker.Bus{URL: b.url, CA: b.file, Keys: b.r.keys(b.dir)} }

// start starts the server, unless it is external, and connects the meter.
func (b *bus) start(ctx context.Context, port int) (err error) {
	opts := []nats.Option{nats.ErrorHandler(b.r.refused.OnError)}
	if e := b.r.o.External; e != nil {
		b.url = e.URL
	} else {
		if err := b.serve(port); err != nil {
			return err
		}
		b.url, opts = b.srv.URL(), append(opts, nats.InProcessServer(b.srv))
	}
	if b.nc, err = b.trusted().Connect(grants.RoleMaster, "swarm", opts...); err != nil {
		return err
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		return err
	}
	if _, err := natsd.Provision(ctx, b.js, bucket.Kept{}); err != nil {
		return err
	}
	return b.listen()
}

// listen counts the connections that say hello, and their reports on settings.
func (b *bus) listen() error {
	_, err := b.subscribe(wire.Heartbeat("*"), func(m *nats.Msg) {
		if m.Reply != "" {
			b.onMessage(m)
			_ = m.Respond(nil)
		}
	})
	if err == nil {
		_, err = b.subscribe(wire.AllApplied, b.onMessage)
	}
	return err
}

func (b *bus) onMessage(*nats.Msg) { b.heard <- struct{}{} }

// subscribe returns when the server has the subscription.
func (b *bus) subscribe(subject string, f nats.MsgHandler) (*nats.Subscription, error) {
	sub, err := b.nc.Subscribe(subject, f)
	if err != nil {
		return nil, err
	}
	return sub, errors.Join(sub.SetPendingLimits(-1, -1), b.nc.Flush())
}

func (b *bus) serve(port int) error {
	keys, err := keystore.Open(b.r.keys(b.dir))
	if err != nil {
		return err
	}
	o := natsd.Options{
		Dir:   b.r.path(b.dir + "/bus"),
		Port:  port,
		Trust: natsd.Trust(keys.Trust()),
		TLS:   b.ca.Config(),
		Log:   slog.New(b.r.o.Log),
	}
	if b.srv, err = natsd.New(o); err != nil {
		return err
	}
	return b.srv.Start()
}

func (b *bus) stop() {
	b.nc.Close()
	if b.srv != nil {
		b.srv.Shutdown()
	}
}

// wait returns when n messages of bare connections have come.
func (b *bus) wait(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, worker.WaitLimit)
	defer cancel()
	for got := range n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d messages have come: %w", got, n, context.Cause(ctx))
		case <-b.heard:
			b.r.progress("messages", int64(got+1), int64(n))
		}
	}
	return nil
}

// connectAll starts bare connections and waits until all have said hello.
func (b *bus) connectAll(ctx context.Context, o worker.Orders) (c cost, err error) {
	watch := stopwatch()
	o.Bare, o.Heartbeats = true, b.r.heartbeats()
	if err := b.r.startWorkers(ctx, o); err != nil {
		return c, err
	}
	if err := b.wait(ctx, b.r.o.Peels); err != nil {
		return c, err
	}
	took, used := watch()
	return cost{seconds: took.Seconds(), cpu: used.Seconds() * 1000 / float64(b.r.o.Peels)}, nil
}

// heartbeats returns the interval of the heartbeats that the masters of the fleet announce.
func (r *run) heartbeats() time.Duration {
	if r.o.External != nil {
		return fleetpkg.Interval(r.o.Peels, fleetpkg.HeartbeatRate)
	}
	return fleetpkg.Interval(r.o.Peels, fleetpkg.ConfirmRate)
}

// open measures connections to a bus without credentials and encryption.
func (r *run) open(ctx context.Context) (err error) {
	if r.o.External != nil {
		return nil
	}
	b := r.newBus("open")
	b.srv = natsd.NewOpen(r.path(b.dir), slog.New(r.o.Log))
	if err := b.srv.Start(); err != nil {
		return err
	}
	defer b.srv.Shutdown()
	if b.nc, err = nats.Connect(b.srv.URL(), nats.InProcessServer(b.srv)); err != nil {
		return err
	}
	defer b.nc.Close()
	if err := b.listen(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stopWorkers()) }()
	open, err := b.connectAll(ctx, worker.Orders{URL: b.srv.URL()})
	if err != nil {
		return err
	}
	bare := r.fleetAccounts.connect
	r.add(Figure{
		Name:  "bare connections with credentials and TLS, beside none",
		Unit:  "s",
		Value: bare.seconds,
		Bare:  open.seconds,
	})
	r.add(Figure{Name: "processor time of the bus for one, beside none", Unit: "ms", Value: bare.cpu, Bare: open.cpu})
	return nil
}

// measure measures what both kinds of bare bus are measured for.
func (b *bus) measure(ctx context.Context, role grants.Role, f *floor) (err error) {
	if f.unstored, err = b.command(ctx, worker.ToNobody, wire.AckOf("*", "*")); err != nil {
		return err
	}
	if f.stored, err = b.command(ctx, worker.ToStream, wire.StoredOf("*", "*")); err != nil {
		return err
	}
	if f.all, err = b.publishSettings(ctx, 1); err != nil {
		return err
	}
	if f.few, err = b.publishSettings(ctx, 100); err != nil {
		return err
	}
	if f.one, err = b.publishSettings(ctx, b.r.o.Peels); err != nil {
		return err
	}
	if f.contents, err = b.publishContents(ctx); err != nil {
		return err
	}
	f.storedPerSecond, err = b.storeReports(ctx, role)
	return err
}

// command publishes a command to every connection in each round and waits for the answers, which come on a subject.
func (b *bus) command(ctx context.Context, to byte, answers string) (c cost, err error) {
	sub, err := b.subscribe(answers, b.onMessage)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	return b.rounds(ctx, b.r.o.Peels, func() error {
		command := make([]byte, 300)
		command[copy(command, wire.NewJID())] = to
		for i := range b.r.o.Peels {
			if err := b.nc.Publish(wire.Cmd(string(worker.PeelID(i))), command); err != nil {
				return err
			}
		}
		return nil
	})
}

// publishSettings stores a document for each step-th connection in each round and waits for their reports.
func (b *bus) publishSettings(ctx context.Context, step int) (cost, error) {
	document := make([]byte, 700)
	return b.rounds(ctx, (b.r.o.Peels+step-1)/step, func() error { return b.putSettings(document, step) })
}

// putSettings stores a document for each step-th connection.
func (b *bus) putSettings(document []byte, step int) error {
	for i := 0; i < b.r.o.Peels; i += step {
		if _, err := b.js.PublishAsync(wire.SettingsKey(string(worker.PeelID(i))), document,
			jetstream.WithStallWait(worker.WaitLimit)); err != nil {
			return err
		}
	}
	return nil
}

// publishContents stores a content in each round, and documents for all connections that make them read it before their
// reports.
func (b *bus) publishContents(ctx context.Context) (cost, error) {
	round := 0
	return b.rounds(ctx, b.r.o.Peels, func() error {
		round++
		key := fmt.Sprintf("bare%d.0", round)
		if _, err := b.js.Publish(ctx, "$KV."+wire.BucketFiles+"."+key, make([]byte, worker.ContentBytes)); err != nil {
			return err
		}
		document := make([]byte, 1200) // it names the content
		copy(document, fmt.Sprintf("%c%s ", worker.WithContent, key))
		return b.putSettings(document, 1)
	})
}

// rounds calls publish in each round and waits until n connections have answered.
func (b *bus) rounds(ctx context.Context, n int, publish func() error) (cost, error) {
	return b.r.rounds(n, func(int) (took, used time.Duration, err error) {
		watch := stopwatch()
		if err = publish(); err == nil {
			err = b.wait(ctx, n)
		}
		took, used = watch()
		return took, used, err
	})
}

// restart stops the server, starts it at the same address, and waits until every connection is back.
func (b *bus) restart(ctx context.Context) (float64, error) {
	port, err := portOf(b.url)
	if err != nil {
		return 0, err
	}
	b.stop()
	watch := stopwatch()
	if err := b.start(ctx, port); err != nil {
		return 0, err
	}
	err = b.wait(ctx, b.r.o.Peels)
	took, _ := watch()
	return took.Seconds(), err
}
