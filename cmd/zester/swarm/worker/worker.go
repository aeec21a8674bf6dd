// Package worker is what a worker process of a swarm does: [Work] reads [Orders] and simulates peels, or holds bare
// connections that answer the same traffic without jobs and settings. [Connect] and [Credential] make connections for
// the swarm too.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
	"github.com/seed-c01c3da5/zester/peel"
	"github.com/seed-c01c3da5/zester/peel/enroll"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// WaitLimit bounds each wait of a swarm.
const WaitLimit = 5 * time.Minute

// ContentBytes is the size of the file of the config repo that a commit changes on every peel.
const ContentBytes = 100 << 10

// PeelID returns the ID of the i-th peel of a swarm, from 0.
func PeelID(i int) target.PeelID { return target.PeelID(fmt.Sprintf("sim-%05d", i)) }

// gcPercent lets the memory of a worker process grow to three times what its peels use before garbage is collected. A
// peel has a process and a small heap of its own; here each collection walks the heaps of thousands.
const gcPercent = 200

// Orders is what a worker process reads from its standard input.
type Orders struct {
	URL, CA, Keys, Dir string
	From, To           int           // the peels to simulate, To excluded
	Bare               bool          // bare connections instead of peels
	Role               grants.Role   // of the credentials of bare connections; empty if the bus asks for none
	Heartbeats         time.Duration // interval of the heartbeats of each bare connection
}

// Work simulates peels until in or ctx ends. The first line of in says which. A process that swarm.Options.Worker names
// calls it.
func Work(ctx context.Context, in io.Reader) error {
	d := json.NewDecoder(in)
	var o Orders
	if err := d.Decode(&o); err != nil {
		return fmt.Errorf("cannot read which peels to simulate: %w", err)
	}
	debug.SetGCPercent(gcPercent)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in)
	}()
	if o.Bare {
		return o.connections(ctx)
	}
	return o.peels(ctx)
}

// peels runs peels until ctx ends.
func (o Orders) peels(ctx context.Context) error {
	keys, err := keystore.Open(o.Keys)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	refused := &RefusalCounter{}
	log := slog.New(WatchRefusals(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}),
		refused))
	for i := o.From; i < o.To && ctx.Err() == nil; i++ {
		id := PeelID(i)
		creds, err := keys.Creds(grants.RolePeel, id.Wire(), 0)
		if err != nil {
			return err
		}
		file := filepath.Join(o.Dir, string(id)+".creds")
		if err := os.WriteFile(file, creds, 0o600); err != nil {
			return err
		}
		p, err := peel.New(peel.Options{
			ID:        id,
			DataDir:   filepath.Join(o.Dir, string(id)),
			URL:       o.URL,
			CA:        o.CA,
			Connect:   []nats.Option{enroll.Credential(file)},
			Simulated: true,
			Log:       log,
			Facts: target.Facts{
				"os":       "simulated",
				"rack50":   strconv.Itoa(i % 50),
				"rack1000": strconv.Itoa(i % 1000),
			},
		})
		if err != nil {
			return err
		}
		g.Go(func() error { return p.Run(ctx) })
	}
	return errors.Join(g.Wait(), refused.Err())
}
