// File heartbeat.go gives a running master its name and tells other masters which runs are alive. Make a [Heartbeat]
// with [NewHeartbeat], take the name with [Heartbeat.Enter], then call [Heartbeat.Run]; [Heartbeat.Read] returns the
// heartbeat of any run.
//
// The owner of a job is one run of a master: its name and an ID that no other run has, see [HeartbeatOwner]. A
// heartbeat is a key of the bucket masters with the master's name. It is written every 5 s, lives for 15 s, and says
// which run has the name. Each write is conditional on no other run having the name: of two processes with one name the
// second does not start, and one that lost its name while it could not renew it ends. Heartbeats are read from the
// leader of their stream.

package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	interval   = 5 * time.Second
	limit      = 5 * time.Second // for one read or write
	enterLimit = time.Minute     // for Enter, when a large fleet reconnects to the bus
	enterPause = time.Second     // between two tries to take a name
)

// ErrNameTaken is the error of a master whose name belongs to another running process.
var ErrNameTaken = errors.New("another running master has this name")

// HeartbeatOwner returns the owner that one run of a master records on its jobs: the master's name and an ID of the
// run.
func HeartbeatOwner(name, run string) string { return name + "/" + run }

// HeartbeatName returns the name of the master that an owner is a run of.
func HeartbeatName(owner string) string {
	name, _, _ := strings.Cut(owner, "/")
	return name
}

// A Beat is a stored heartbeat.
type Beat struct {
	Owner string    `json:"owner"` // the run that has the name
	Time  time.Time `json:"time"`  // by the clock of the master

	revision uint64
	created  time.Time // by the clock of the bus
}

// Ahead returns how far the clock of the master is ahead of the bus's.
func (b *Beat) Ahead() time.Duration { return b.Time.Sub(b.created) }

// A Heartbeat belongs to one run of a master.
type Heartbeat struct {
	js      jetstream.JetStream
	owner   string
	earlier string // the owner of the previous run on the same data directory; empty: not known
	log     *slog.Logger
	bucket  jetstream.KeyValue
}

// NewHeartbeat returns the heartbeat of an owner. Earlier is the owner of the previous run on the same data directory,
// empty if it is not known. It starts nothing.
func NewHeartbeat(js jetstream.JetStream, owner, earlier string, log *slog.Logger) *Heartbeat {
	return &Heartbeat{js: js, owner: owner, earlier: earlier, log: log}
}

// Enter takes the master's name, so that no other run has it while this one lives. Call it before jobs are dispatched.
// A name that the previous run on the same data directory left is taken at once. A name whose holder is unknown is
// taken when its heartbeat has expired, within 15 s; if that holder renews it, the error is [ErrNameTaken].
func (h *Heartbeat) Enter(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, enterLimit)
	defer cancel()
	var err error
	if h.bucket, err = h.js.KeyValue(ctx, wire.BucketMasters); err != nil {
		return fmt.Errorf("cannot take the name %s: %w", HeartbeatName(h.owner), err)
	}
	var seen uint64 // the first heartbeat of another run
	for {
		found, err := h.renew(ctx)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrNameTaken):
			h.log.Warn("name not taken yet", "err", err)
		case seen == 0:
			seen = found.revision
		case found.revision != seen:
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(enterPause):
		}
	}
}

// Run renews the heartbeat until ctx ends, and then returns nil. The error is [ErrNameTaken]. The last heartbeat
// expires by itself: jobs that could not be released are then found as those of a master that died.
func (h *Heartbeat) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		_, err := h.renew(ctx)
		if errors.Is(err, ErrNameTaken) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			h.log.Warn("heartbeat not written", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// renew writes the heartbeat if no other run has the name. With [ErrNameTaken] it returns the other's heartbeat.
func (h *Heartbeat) renew(ctx context.Context) (*Beat, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	name := HeartbeatName(h.owner)
	data, err := canon.Marshal(Beat{Owner: h.owner, Time: time.Now()})
	if err != nil {
		return nil, err
	}
	found, err := h.get(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case found == nil:
		_, err = h.bucket.Create(ctx, name, data)
	case found.Owner == h.owner || found.Owner == h.earlier:
		_, err = h.bucket.Update(ctx, name, data, found.revision)
	default:
		return found, fmt.Errorf("cannot run as master %q: %w, its last heartbeat is of %s; "+
			"give each master a name and a credential of its own",
			name, ErrNameTaken, found.created.Format(time.RFC3339))
	}
	if err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", name, err)
	}
	return nil, nil
}

// get returns the heartbeat under a name, nil if there is none.
func (h *Heartbeat) get(ctx context.Context, name string) (*Beat, error) {
	entry, err := h.bucket.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	b := &Beat{}
	if err == nil {
		err = canon.Unmarshal(entry.Value(), b)
	}
	if err != nil {
		return nil, fmt.Errorf("heartbeat of %s: %w", name, err)
	}
	b.revision, b.created = entry.Revision(), entry.Created()
	return b, nil
}

// Read returns the heartbeat of a run of a master, nil if the run does not have its name. Call Enter first.
func (h *Heartbeat) Read(ctx context.Context, owner string) (*Beat, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b, err := h.get(ctx, HeartbeatName(owner))
	if err != nil || b == nil || b.Owner != owner {
		return nil, err
	}
	return b, nil
}
