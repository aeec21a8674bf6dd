package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/master/auth/pki"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// patience is how long anything may take.
const patience = 5 * time.Minute

// baseline is what the bare bus did.
type baseline struct {
	connect, memory, peelMemory float64 // s, KiB a peel
	connectCPU                  float64 // ms a connection, of the bus and who counts them
	plain                       storm   // 0: not measured
	restart                     float64 // s
	ask                         effort  // a command to every peel, its answer stored nowhere
	kept                        effort  // the same, each answer stored once and acknowledged, and counted when it is stored
	all, few, one               effort  // documents to every peel, to 1 % of them, and to one, each answer stored and acknowledged
	taken                       float64 // 1/s, of reports that wait in a stream, each stored twice
	idle                        float64 // % of a core, with heartbeats; 0: not measured
}

// A bus is the bare one: a server without a master.
type bus struct {
	r     *run
	ca    *pki.CA       // nil: external
	srv   *natsd.Server // nil: external
	url   string
	nc    *nats.Conn
	js    jetstream.JetStream
	heard chan string // subjects on which the peels have spoken
}

func (r *run) bare(ctx context.Context, b *baseline) (err error) {
	r.say("the bare bus: %d connections, %d processes", r.o.Peels, r.o.Procs)
	s := &bus{r: r, heard: make(chan string, 2*r.o.Peels)}
	if r.o.External == nil {
		if s.ca, err = pki.Open(r.path("bare/tls")); err != nil {
			return err
		}
	}
	if err := s.start(ctx, 0); err != nil {
		return err
	}
	defer func() { s.stop() }()
	defer func() { err = errors.Join(err, r.dismiss()) }()
	before := own()
	c, err := s.storm(ctx, orders{URL: s.url, CA: s.caFile(), Keys: r.keys("bare"), Bare: true})
	if err != nil {
		return err
	}
	b.connect, b.connectCPU = c.took, c.cpu
	b.peelMemory = r.memoryOfPeels()
	if s.srv != nil {
		b.memory = (own() - before) / float64(r.o.Peels)
	}
	return s.measure(ctx, b)
}

func (s *bus) caFile() string {
	switch {
	case s.r.o.External != nil:
		return s.r.o.External.CA
	case s.ca != nil:
		return s.ca.File()
	}
	return ""
}

// start starts the server, unless it is external, and connects to it.
func (s *bus) start(ctx context.Context, port int) (err error) {
	way := []nats.Option{nats.ErrorHandler(s.r.refused.heard)}
	if e := s.r.o.External; e != nil {
		s.url = e.URL
	} else {
		if err := s.serve(port); err != nil {
			return err
		}
		s.url, way = s.srv.URL(), append(way, nats.InProcessServer(s.srv))
	}
	if s.nc, err = dial(s.url, s.caFile(), s.r.keys("bare"), "swarm", way...); err != nil {
		return err
	}
	if s.js, err = jetstream.New(s.nc); err != nil {
		return err
	}
	if err := natsd.Provision(ctx, s.js, 1); err != nil {
		return err
	}
	if _, err := s.js.CreateOrUpdateStream(ctx, bareReturns); err != nil {
		return err
	}
	return s.listen()
}

// bareReturns is the stream of the bare bus that keeps the first answer of a peel to each command, refuses further ones, and
// re-publishes what it has stored.
var bareReturns = jetstream.StreamConfig{
	Name: "bare-returns", Subjects: []string{bareKept + "*.*"}, Storage: jetstream.FileStorage,
	MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, AllowDirect: true,
	RePublish: &jetstream.RePublish{Source: bareKept + ">", Destination: bareStored + ">"},
}

// listen counts what the peels say.
func (s *bus) listen() error {
	heard := func(m *nats.Msg) { s.heard <- m.Subject }
	for subject, f := range map[string]nats.MsgHandler{
		bareReturn + "*": heard, bareStored + "*.*": heard, wire.AllApplied: heard, bareBeat + "*": func(*nats.Msg) {},
		bareHello + "*": func(m *nats.Msg) {
			heard(m)
			_ = m.Respond(nil)
		},
	} {
		sub, err := s.nc.Subscribe(subject, f)
		if err != nil {
			return err
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			return err
		}
	}
	return s.nc.Flush()
}

func (s *bus) serve(port int) error {
	keys, err := keystore.Open(s.r.keys("bare"))
	if err != nil {
		return err
	}
	o := natsd.Options{
		Dir: s.r.path("bare/bus"), Port: port, Trust: natsd.Trust(keys.Trust()), TLS: s.ca.Config(), Log: slog.New(s.r.o.Log),
	}
	if s.srv, err = natsd.New(o); err != nil {
		return err
	}
	return s.srv.Start()
}

func (s *bus) stop() {
	s.nc.Close()
	if s.srv != nil {
		s.srv.Shutdown()
	}
}

// wait returns when the peels have spoken n times.
func (s *bus) wait(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for got := range n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d connections have spoken: %w", got, n, context.Cause(ctx))
		case <-s.heard:
			s.r.progress("heard", int64(got+1), int64(n))
		}
	}
	return nil
}

func (s *bus) measure(ctx context.Context, b *baseline) (err error) {
	if b.ask, err = s.command(ctx, bareCmd); err != nil {
		return err
	}
	if b.kept, err = s.command(ctx, bareKeep); err != nil {
		return err
	}
	if b.all, err = s.give(ctx, 1); err != nil {
		return err
	}
	if b.few, err = s.give(ctx, 100); err != nil {
		return err
	}
	if b.one, err = s.give(ctx, s.r.o.Peels); err != nil {
		return err
	}
	if b.taken, err = s.take(ctx); err != nil {
		return err
	}
	if s.srv == nil {
		return nil
	}
	if s.r.o.Idle > 0 {
		if b.idle, err = s.r.idle(ctx); err != nil {
			return err
		}
	}
	b.restart, err = s.restart(ctx)
	return err
}

// command publishes a command to every peel in each round and waits until the answer of each has come.
func (s *bus) command(ctx context.Context, subject string) (effort, error) {
	return s.rounds(ctx, s.r.o.Peels, func() error {
		command := make([]byte, 300)
		copy(command, wire.NewJID())
		for i := range s.r.o.Peels {
			if err := s.nc.Publish(subject+string(peelID(i)), command); err != nil {
				return err
			}
		}
		return nil
	})
}

// give stores a document for each step-th peel in each round, as fast as the bus takes them, and waits until all of these have
// reported. The reports are stored and acknowledged.
func (s *bus) give(ctx context.Context, step int) (effort, error) {
	document := make([]byte, 700)
	return s.rounds(ctx, (s.r.o.Peels+step-1)/step, func() error {
		for i := 0; i < s.r.o.Peels; i += step {
			if _, err := s.js.PublishAsync(wire.SettingsKey(string(peelID(i))), document); err != nil {
				return err
			}
		}
		return nil
	})
}

// rounds calls publish in each round and waits until n peels have answered.
func (s *bus) rounds(ctx context.Context, n int, publish func() error) (effort, error) {
	return s.r.rounds(n, func(int) (took, used time.Duration, err error) {
		watch := stopwatch()
		if err = publish(); err == nil {
			err = s.wait(ctx, n)
		}
		took, used = watch()
		return took, used, err
	})
}

// restart stops the server, starts it at the same address, and waits until every peel is back.
func (s *bus) restart(ctx context.Context) (float64, error) {
	port, err := portOf(s.url)
	if err != nil {
		return 0, err
	}
	s.stop()
	began := time.Now()
	if err := s.start(ctx, port); err != nil {
		return 0, err
	}
	err = s.wait(ctx, s.r.o.Peels)
	return time.Since(began).Seconds(), err
}
