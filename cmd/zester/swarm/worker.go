package swarm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// jitter spreads the connections that come back after an outage, as that of peels does.
const jitter = 2 * time.Second

// beatEvery is the interval of heartbeats in a small fleet, and allBeats the number that a large fleet sends in a second.
const (
	beatEvery = 30 * time.Second
	allBeats  = 300
)

// dialsAtOnce is how many bare connections of a process are being made.
const dialsAtOnce = 16

// Subjects of the bare bus. A stream keeps bareKept and re-publishes it to bareStored, the others are kept by none.
const (
	bareCmd    = "zester.bare.cmd."
	bareKeep   = "zester.bare.keep."
	bareBeat   = "zester.bare.beat."
	bareReturn = "zester.bare.return."
	bareKept   = "zester.bare.kept."   // followed by the JID that the command begins with, and the peel
	bareStored = "zester.bare.stored." // followed by the same
	bareHello  = "zester.bare.hello."
)

// orders are what a process that simulates peels is told on its standard input.
type orders struct {
	URL, CA, Keys, Dir string
	From, To, Peels    int  // those to simulate, To excluded, and how many there are
	Bare               bool // connections alone
	Open               bool // of a bus that asks nobody for a credential
}

// A worker is such a process.
type worker struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  bytes.Buffer // on its standard error
	ended chan error   // one value, when said is complete
}

// hire starts the workers, each with its share of the peels. One that ends before it is dismissed ends the run.
func (r *run) hire(ctx context.Context, o orders) error {
	for i := range r.o.Procs {
		o.From, o.To, o.Peels = r.o.Peels*i/r.o.Procs, r.o.Peels*(i+1)/r.o.Procs, r.o.Peels
		w := &worker{cmd: exec.CommandContext(ctx, r.o.Worker[0], r.o.Worker[1:]...), ended: make(chan error, 1)}
		w.cmd.Stderr = &w.said
		w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
		var err error
		if w.stdin, err = w.cmd.StdinPipe(); err != nil {
			return err
		}
		if err := w.cmd.Start(); err != nil {
			return fmt.Errorf("cannot start a process for peels: %w", err)
		}
		r.workers = append(r.workers, w)
		go func() {
			err := w.cmd.Wait()
			if err != nil {
				err = fmt.Errorf("a process of peels: %w: %.500s", err, bytes.TrimSpace(w.said.Bytes()))
				r.fail(err)
			}
			w.ended <- err
		}()
		if err := json.NewEncoder(w.stdin).Encode(o); err != nil {
			return fmt.Errorf("cannot tell a process its peels: %w", err)
		}
	}
	return nil
}

// dismiss ends the workers and returns what went wrong with them.
func (r *run) dismiss() error {
	for _, w := range r.workers {
		_ = w.stdin.Close()
	}
	var errs []error
	for _, w := range r.workers {
		errs = append(errs, <-w.ended)
	}
	r.workers = nil
	return errors.Join(errs...)
}

// memoryOfPeels is what one simulated peel takes, in KiB.
func (r *run) memoryOfPeels() (kib float64) {
	for _, w := range r.workers {
		kib += resident(w.cmd.Process.Pid)
	}
	return kib / float64(r.o.Peels)
}

// timeOfPeels is the processor time that the workers have used.
func (r *run) timeOfPeels() (used time.Duration) {
	for _, w := range r.workers {
		used += timeOf(w.cmd.Process.Pid)
	}
	return used
}

// Work simulates the peels that a line of in names, until in ends or ctx does. It is what the processes that
// Options.Worker starts have to call.
func Work(ctx context.Context, in io.Reader) error {
	d := json.NewDecoder(in)
	var o orders
	if err := d.Decode(&o); err != nil {
		return fmt.Errorf("cannot read what to simulate: %w", err)
	}
	var keys *keystore.Keys // nil: none are needed
	if !o.Open {
		var err error
		if keys, err = keystore.Open(o.Keys); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	if o.Bare {
		return o.connections(ctx, keys)
	}
	return o.peels(ctx, keys)
}

func (o orders) options(creds []byte) []nats.Option {
	opts := []nats.Option{nats.UserCredentialBytes(creds)}
	if o.CA != "" {
		opts = append(opts, nats.RootCAs(o.CA))
	}
	return opts
}

func (o orders) peels(ctx context.Context, keys *keystore.Keys) error {
	g, ctx := errgroup.WithContext(ctx)
	refused := &refusals{}
	log := slog.New(watched{slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}), refused})
	for i := o.From; i < o.To && ctx.Err() == nil; i++ {
		id := peelID(i)
		creds, err := keys.Creds(grants.RolePeel, id.Wire(), 0)
		if err != nil {
			return err
		}
		p, err := peel.New(peel.Options{
			ID: id, DataDir: filepath.Join(o.Dir, string(id)), URL: o.URL, Connect: o.options(creds), Simulated: true, Log: log,
			Facts: target.Facts{"os": "simulated", "rack50": strconv.Itoa(i % 50), "rack1000": strconv.Itoa(i % 1000)},
		})
		if err != nil {
			return err
		}
		g.Go(func() error { return p.Run(ctx) })
	}
	return errors.Join(g.Wait(), refused.err())
}

// connections answer commands and settings at once, and know nothing of what they mean.
func (o orders) connections(ctx context.Context, keys *keystore.Keys) error {
	g, refused := new(errgroup.Group), &refusals{}
	g.SetLimit(dialsAtOnce)
	conns := make([]*nats.Conn, o.To-o.From)
	for i := range conns {
		g.Go(func() (err error) {
			conns[i], err = o.dial(ctx, keys, string(peelID(o.From+i)), refused.heard)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	o.beat(ctx, conns)
	for _, nc := range conns {
		nc.Close()
	}
	return refused.err()
}

// beats is how often a peel of the fleet shows that it lives.
func (o orders) beats() time.Duration {
	return max(beatEvery, time.Duration(o.Peels)*time.Second/allBeats)
}

// beat lets each connection be heard as often as a peel is, until ctx ends.
func (o orders) beat(ctx context.Context, conns []*nats.Conn) {
	next := time.NewTicker(o.beats() / time.Duration(len(conns)))
	defer next.Stop()
	for i := 0; ; i = (i + 1) % len(conns) {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			_ = conns[i].Publish(bareBeat+string(peelID(o.From+i)), nil)
		}
	}
}

func (o orders) dial(ctx context.Context, keys *keystore.Keys, name string, failed nats.ErrHandler) (*nats.Conn, error) {
	var opts []nats.Option
	if keys != nil {
		creds, err := keys.Creds(grants.RoleMaster, name, 0)
		if err != nil {
			return nil, err
		}
		opts = o.options(creds)
	}
	hello := func(nc *nats.Conn) {
		again := time.NewTicker(20 * time.Millisecond) // whoever listens comes back from an outage too
		defer again.Stop()
		for nc.IsConnected() {
			if _, err := nc.Request(bareHello+name, nil, time.Second); err == nil {
				return
			}
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
		}
	}
	opts = append(opts, nats.CustomInboxPrefix(grants.RoleMaster.Inbox(name)), nats.MaxReconnects(-1),
		nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort(), nats.ReconnectHandler(hello), nats.ReconnectWait(time.Second), nats.ReconnectJitter(jitter, jitter),
		nats.Timeout(patience), nats.ErrorHandler(failed))
	nc, err := nats.Connect(o.URL, opts...)
	if err != nil {
		return nil, err
	}
	inbox := nc.NewInbox()
	for subject, f := range map[string]nats.MsgHandler{
		bareCmd + name: func(*nats.Msg) { _ = nc.Publish(bareReturn+name, answer) },
		bareKeep + name: func(m *nats.Msg) {
			_ = nc.PublishRequest(bareKept+string(m.Data[:jidLength])+"."+name, inbox, answer)
		},
		wire.Settings(name): func(*nats.Msg) { _ = nc.PublishRequest(wire.SettingsApplied(name), inbox, answer) },
		inbox:               func(*nats.Msg) {},
	} {
		if _, err := nc.Subscribe(subject, f); err != nil {
			return nil, err
		}
	}
	hello(nc)
	return nc, nc.Flush()
}

// jidLength is the length of a [wire.JID].
const jidLength = 27

// answer is about as long as the return of test.ping.
var answer = bytes.Repeat([]byte("x"), 160)
