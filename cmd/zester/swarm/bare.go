package swarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// patience is how long anything may take.
const patience = 5 * time.Minute

// baseline is what the bare bus did.
type baseline struct {
	connect, memory, peelMemory float64 // s, KiB a peel
	restart                     float64 // s
	ask, askCPU                 float64 // s, ms a peel
	all, few, one               float64 // s, for documents to every peel, to 1 % of them, and to one
	puts                        float64 // 1/s
}

// A bus is the bare one: the embedded server without a master.
type bus struct {
	r     *run
	keys  *auth.Keys
	ca    *auth.CA
	srv   *natsd.Server
	nc    *nats.Conn
	js    jetstream.JetStream
	heard chan string // subjects on which the peels have spoken
}

func (r *run) bare(ctx context.Context) (b baseline, err error) {
	r.say("the bare bus: %d connections, %d processes", r.o.Peels, r.o.Procs)
	keys, err := auth.Open(auth.Dir(r.path("bare")))
	if err != nil {
		return b, err
	}
	s := &bus{r: r, keys: keys, heard: make(chan string, 2*r.o.Peels)}
	if r.o.TLS {
		if s.ca, err = auth.OpenCA(r.path("bare/tls")); err != nil {
			return b, err
		}
	}
	if err := s.start(ctx, 0); err != nil {
		return b, err
	}
	defer func() { s.stop() }()
	defer func() { err = errors.Join(err, r.dismiss()) }()
	before, began := own(), time.Now()
	if err := r.hire(ctx, s.orders()); err != nil {
		return b, err
	}
	if err := s.wait(ctx, r.o.Peels); err != nil {
		return b, err
	}
	b.connect = time.Since(began).Seconds()
	b.memory, b.peelMemory = (own()-before)/float64(r.o.Peels), r.memoryOfPeels()
	return b, s.measure(ctx, &b)
}

func (s *bus) orders() orders {
	o := orders{URL: s.srv.URL(), Keys: auth.Dir(s.r.path("bare")), Bare: true}
	if s.ca != nil {
		o.CA = s.ca.File()
	}
	return o
}

func (s *bus) start(ctx context.Context, port int) (err error) {
	o := natsd.Options{Dir: filepath.Join(s.r.dir, "bare", "bus"), Port: port, Trust: natsd.Trust(s.keys.Trust()), Log: slog.New(s.r.o.Log)}
	if s.ca != nil {
		o.TLS = s.ca.Config()
	}
	if s.srv, err = natsd.New(o); err != nil {
		return err
	}
	if err := s.srv.Start(); err != nil {
		return err
	}
	creds, err := s.keys.Creds(auth.RoleMaster, "swarm", 0)
	if err != nil {
		return err
	}
	s.nc, err = nats.Connect("nats://embedded", nats.UserCredentialBytes(creds), s.srv.InProcess(), nats.CustomInboxPrefix(auth.RoleMaster.Inbox("swarm")))
	if err != nil {
		return err
	}
	if s.js, err = jetstream.New(s.nc); err != nil {
		return err
	}
	if err := natsd.Provision(ctx, s.js, 1); err != nil {
		return err
	}
	for _, subject := range []string{bareHello, bareReturn, bareApplied} {
		sub, err := s.nc.Subscribe(subject+"*", func(m *nats.Msg) { s.heard <- m.Subject })
		if err != nil {
			return err
		}
		if err := sub.SetPendingLimits(-1, -1); err != nil {
			return err
		}
	}
	return s.nc.Flush()
}

func (s *bus) stop() {
	s.nc.Close()
	s.srv.Shutdown()
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
		}
	}
	return nil
}

func (s *bus) measure(ctx context.Context, b *baseline) (err error) {
	if b.ask, b.askCPU, err = s.ask(ctx); err != nil {
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
	if b.puts, err = s.put(ctx); err != nil {
		return err
	}
	b.restart, err = s.restart(ctx)
	return err
}

// ask sends a command to every peel and waits for all answers: the median of the rounds, and the processor time.
func (s *bus) ask(ctx context.Context) (seconds, cpu float64, err error) {
	command := make([]byte, 300)
	var took []float64
	used := cpuTime()
	for range s.r.o.Rounds {
		began := time.Now()
		for i := range s.r.o.Peels {
			if err := s.nc.Publish(bareCmd+string(peelID(i)), command); err != nil {
				return 0, 0, err
			}
		}
		if err := s.wait(ctx, s.r.o.Peels); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(began).Seconds())
	}
	return median(took), perPeel(cpuTime()-used, s.r.o), nil
}

// give stores a document for each step-th peel, as fast as the bus takes them, and waits until all have heard theirs.
func (s *bus) give(ctx context.Context, step int) (float64, error) {
	document := make([]byte, 700)
	var took []float64
	for range s.r.o.Rounds {
		began, n := time.Now(), 0
		for i := 0; i < s.r.o.Peels; i += step {
			if _, err := s.js.PublishAsync(wire.SettingsKey(string(peelID(i))), document); err != nil {
				return 0, err
			}
			n++
		}
		if err := s.wait(ctx, n); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began).Seconds())
	}
	return median(took), nil
}

// put stores as many values as there are peels and says how many a second were stored.
func (s *bus) put(ctx context.Context) (float64, error) {
	value := make([]byte, 500)
	began := time.Now()
	for i := range s.r.o.Peels {
		if _, err := s.js.PublishAsync("$KV.jobs."+string(peelID(i)), value); err != nil {
			return 0, err
		}
	}
	select {
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-s.js.PublishAsyncComplete():
	}
	return float64(s.r.o.Peels) / time.Since(began).Seconds(), nil
}

// restart stops the server, starts it at the same address, and waits until every peel is back.
func (s *bus) restart(ctx context.Context) (float64, error) {
	port, err := portOf(s.srv.URL())
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

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// perPeel is the time of one round for one peel, in milliseconds.
func perPeel(used time.Duration, o Options) float64 {
	return used.Seconds() * 1000 / float64(o.Rounds*o.Peels)
}
