package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/reconciler/record"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// forgetLimit is how long the fleet may take to notice that a peel has no facts any more.
const forgetLimit = time.Minute

// errNoPeel: there are neither facts nor settings of the peel.
var errNoPeel = record.Refuse("no such peel is known")

// remove takes away all that is kept of a peel: first its facts, so that nothing gives it settings again, then its
// settings and its report. What is left after an error is removed by asking again.
func (t *term) remove(ctx context.Context, req micro.Request) (any, error) {
	var q status.RemoveRequest
	if err := canon.Unmarshal(req.Data(), &q); err != nil {
		return nil, record.Refuse("%v", err)
	}
	id, err := target.ParsePeelID(string(q.Peel))
	if err != nil {
		return nil, record.Refuse("%v", err)
	}
	if seen, online := t.fleet.Presence(id); online && !q.Force {
		return nil, record.Refuse("cannot remove %s: it is online, last heard at %s; stop it first", id, stamp(seen))
	}
	_, known := t.fleet.Index().Get(id)
	if known {
		if err := t.forgetFacts(ctx, id); err != nil {
			return nil, err
		}
	}
	return t.do(ctx, &ask{do: func(ctx context.Context) error {
		held := t.published.Heads().Of(id)
		if !known && held.Peel != id {
			return fmt.Errorf("cannot remove %s: %w", id, errNoPeel)
		}
		if err := t.published.Remove(ctx, id); err != nil {
			return err
		}
		if err := t.purge(ctx, "applied", wire.SettingsApplied(id.Wire())); err != nil {
			return err
		}
		if err := t.fleet.Unbind(ctx, id); err != nil {
			return err
		}
		t.progress.Forget(id)
		t.stale = true
		t.r.log.Info("peel removed", "peel", id, "by", asker(req), "force", q.Force)
		return nil
	}})
}

// forgetFacts removes the facts of a peel and waits until the fleet is without it.
func (t *term) forgetFacts(ctx context.Context, id target.PeelID) error {
	ctx, cancel := context.WithTimeout(ctx, forgetLimit)
	defer cancel()
	changed := t.fleet.Watch(ctx)
	if err := t.purge(ctx, "facts", wire.Fact(id.Wire())); err != nil {
		return err
	}
	for {
		if _, known := t.fleet.Index().Get(id); !known {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cannot remove %s: its facts come back", id)
		case <-changed:
		}
	}
}

func (t *term) purge(ctx context.Context, stream, subject string) error {
	s, err := t.js.Stream(ctx, stream)
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	if err != nil {
		return fmt.Errorf("cannot remove %s from the stream %s: %w", subject, stream, err)
	}
	return nil
}
