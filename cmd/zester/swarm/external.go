package swarm

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/cmd/zester/swarm/worker"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/keystore"
)

// External is a bus that you run. It must be unused, because the master of the swarm leads there and its peels get
// settings. The streams of a swarm are deleted at the end, except the audit, which no credential can delete.
type External = worker.Bus

// cleanupLimit bounds the deletion of a swarm's streams.
const cleanupLimit = time.Minute

// keys returns the folder of the keys that the bus of a part of the run trusts.
func (r *run) keys(part string) string {
	if r.o.External != nil {
		return r.o.External.Keys
	}
	return keystore.Dir(r.path(part))
}

// side names the parts of the fleet that this process measures as its own memory and processor time.
func (r *run) side() string {
	if r.o.External != nil {
		return "master"
	}
	return "master and bus"
}

// onExternal runs a part on the external bus and deletes its streams. It refuses a bus that has streams before.
func (r *run) onExternal(ctx context.Context, part func(context.Context) error) (err error) {
	e := r.o.External
	if _, err := os.Stat(e.Keys); err != nil {
		return fmt.Errorf("cannot use the bus at %s without its keys: %w", e.URL, err)
	}
	nc, err := e.Connect(grants.RoleMaster, "swarm-owner")
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	names, err := streams(ctx, js)
	if err != nil {
		return fmt.Errorf("cannot use the bus at %s: %w", e.URL, err)
	}
	if len(names) > 0 {
		return fmt.Errorf("cannot use the bus at %s: it keeps %s; a swarm needs one that nobody uses yet",
			e.URL, strings.Join(names, ", "))
	}
	defer func() {
		if e := deleteStreams(context.WithoutCancel(ctx), js); err == nil {
			err = e
		}
	}()
	return part(ctx)
}

// streams returns the names of the streams of a bus, without the audit.
func streams(ctx context.Context, js jetstream.JetStream) (names []string, err error) {
	lister := js.StreamNames(ctx)
	for name := range lister.Name() {
		if name != wire.StreamAudit {
			names = append(names, name)
		}
	}
	return names, lister.Err()
}

// deleteStreams deletes all streams but the audit.
func deleteStreams(ctx context.Context, js jetstream.JetStream) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupLimit)
	defer cancel()
	names, err := streams(ctx, js)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := js.DeleteStream(ctx, name); err != nil {
			return fmt.Errorf("cannot delete stream %s of the swarm: %w", name, err)
		}
	}
	return nil
}
