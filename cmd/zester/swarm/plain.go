package swarm

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/natsd"
)

// A storm is what it cost to make all connections of the bare bus at once.
type storm struct {
	took float64 // s
	cpu  float64 // ms a connection, of the bus and who counts them
}

// storm hires connections and waits until all have spoken.
func (s *bus) storm(ctx context.Context, o orders) (c storm, err error) {
	used, began := cpuTime(), time.Now()
	if err := s.r.hire(ctx, o); err != nil {
		return c, err
	}
	if err := s.wait(ctx, s.r.o.Peels); err != nil {
		return c, err
	}
	return storm{time.Since(began).Seconds(), (cpuTime() - used).Seconds() * 1000 / float64(s.r.o.Peels)}, nil
}

// plain is a storm on a bus that asks nobody for a credential and does not encrypt.
func (r *run) plain(ctx context.Context) (c storm, err error) {
	srv := natsd.NewOpen(r.path("plain"), slog.New(r.o.Log))
	if err := srv.Start(); err != nil {
		return c, err
	}
	defer srv.Shutdown()
	s := &bus{r: r, srv: srv, url: srv.URL(), heard: make(chan string, 2*r.o.Peels)}
	if s.nc, err = nats.Connect(s.url, nats.InProcessServer(srv)); err != nil {
		return c, err
	}
	defer s.nc.Close()
	if err := s.listen(); err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, r.dismiss()) }()
	return s.storm(ctx, orders{URL: s.url, Bare: true, Open: true})
}

// storms reports what credentials and encryption cost, beside a bus without.
func (r *run) storms(b baseline) {
	if b.plain.took == 0 {
		return
	}
	r.figure("bare connections with credentials and TLS, beside none", "s", b.connect, b.plain.took)
	r.figure("processor time of the bus for one, beside none", "ms", b.connectCPU, b.plain.cpu)
}
