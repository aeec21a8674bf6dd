package alert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/master/alert/rules"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// useLasts is how long after a use of the credential of a master's data directory the alert about it lasts.
const useLasts = time.Hour

// A term is the time during which this master holds the lease of the alerts. Its loop owns all state. Other goroutines
// read and change it by functions that the loop runs, see [term.ask].
type term struct {
	o          Options
	since      time.Time
	store      *store
	storeErr   error
	looker     *looker
	selection  selection
	causes     causes
	deliveries []*delivery
	pingers    []*pinger
	alive      *alive
	calls      chan func(context.Context)

	alerts  map[string]rules.Alert // in their present state; messages are sent only of those that are stored
	outcome rules.Outcome
	seen    seen
	stepped bool   // a step of this term has brought the alerts up to date
	stale   string // why the problems of peels are not known; empty: they are known
}

// lead reads the stored alerts and sends alerts until ctx ends or another master writes to the bucket.
func (e *Engine) lead(ctx context.Context, js jetstream.JetStream, checkLease func() error) error {
	t := &term{
		o:         e.o,
		since:     time.Now(),
		calls:     make(chan func(context.Context)),
		selection: selection{o: e.o},
		causes:    causes{of: e.o.Cause},
	}
	kv, err := js.KeyValue(ctx, wire.BucketAlerts)
	if err != nil {
		return fmt.Errorf("cannot open the bucket %s: %w", wire.BucketAlerts, err)
	}
	rollout, err := js.KeyValue(ctx, wire.BucketRollout)
	if err != nil {
		return fmt.Errorf("cannot open the bucket rollout: %w", err)
	}
	if t.store, err = load(ctx, kv, checkLease, e.o.Log); err != nil {
		return err
	}
	t.alerts = maps.Clone(t.store.alerts)
	t.looker = &looker{o: e.o, rollout: rollout}
	t.looker.look(ctx)
	g, ctx := errgroup.WithContext(ctx)
	results, outputs := make(chan result), newOutputs(e.o)
	for _, r := range e.o.Receivers {
		d := newDelivery(r, outputs)
		t.deliveries = append(t.deliveries, d)
		g.Go(func() error { return d.run(ctx, results) })
	}
	pings := make(chan pinged)
	for _, s := range e.o.Pings {
		p := newPinger(s, t.store.pings[s.Name()])
		t.pingers = append(t.pingers, p)
		g.Go(func() error { return p.run(ctx, pings) })
	}
	if e.o.Alive != nil {
		t.alive = &alive{call: e.o.Alive}
		g.Go(func() error { return t.alive.run(ctx, t.ask, t.wellness) })
	}
	g.Go(func() error { return t.looker.run(ctx) })
	g.Go(func() error { return t.serve(ctx) })
	e.o.Log.Info("this master leads the alerts", "alerts", len(t.alerts), "receivers", len(t.deliveries))
	g.Go(func() error { return t.loop(ctx, results, pings) })
	return g.Wait()
}

func (t *term) loop(ctx context.Context, results <-chan result, pings <-chan pinged) error {
	tick := time.NewTicker(stepEvery)
	defer tick.Stop()
	for err := t.step(ctx); ; t.send(time.Now()) {
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			err = t.step(ctx)
		case call := <-t.calls:
			call(ctx)
		case r := <-results:
			err = t.delivered(ctx, r)
		case r := <-pings:
			err = t.pinged(ctx, r)
		}
	}
}

// send gives all receivers what is due. Without the lease it gives nothing, as another master may send it.
func (t *term) send(now time.Time) {
	if t.store.checkLease() != nil {
		return
	}
	if t.stepped {
		t.deliver(now)
	}
	t.ping(now)
}

// ask runs f in the loop. It returns an error if ctx ends first. f delays all alerts until it returns.
func (t *term) ask(ctx context.Context, f func(context.Context)) error {
	done := make(chan struct{})
	select {
	case t.calls <- func(ctx context.Context) { defer close(done); f(ctx) }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// step brings the alerts and the pings up to date, and stores them. An error ends the term.
func (t *term) step(ctx context.Context) error {
	now := time.Now()
	t.seen = t.looker.seen(now)
	if err := t.endSilences(ctx, now); err != nil {
		return err
	}
	in := rules.Input{Now: now, Blind: t.seen.revisionErr != nil, Problems: slices.Clone(t.seen.revision)}
	if use := t.o.Audit.Status().Use; now.Sub(use.At) < useLasts {
		in.Problems = append(in.Problems, verdict.Problem{Kind: verdict.BreakGlass, Since: use.At, Text: use.String()})
	}
	if t.stale = t.staleness(); t.stale == "" {
		all := t.o.Problems()
		t.causes.tell(all, now)
		in.Problems = append(in.Problems, all...)
	} else {
		in.Stale = true
	}
	t.plan(now)
	if !t.seen.known {
		return t.save(ctx) // rules that have not been read yet may want no alert about these problems
	}
	in.Rules = t.selection.of(t.seen.rules)
	for _, s := range t.store.silences {
		in.Silences = append(in.Silences, s)
	}
	for _, d := range t.deliveries {
		in.Receivers = append(in.Receivers, d.receiver.Name())
	}
	t.alerts, t.outcome = rules.Step(t.alerts, in)
	t.stepped = true
	return t.save(ctx)
}

// staleness returns why the problems of peels are not known now; empty if they are known.
func (t *term) staleness() string {
	switch h := t.o.Health(); {
	case !h.Ready:
		return "the reports of peels are still read"
	case !h.Behind.IsZero():
		return "reports of peels have not been read since " + h.Behind.UTC().Format(time.RFC3339)
	}
	return ""
}

// save stores the alerts and the marks of pings. It returns an error only if another master has written them, which
// ends the term.
func (t *term) save(ctx context.Context) error {
	return t.stored(errors.Join(t.store.save(ctx, t.alerts), t.savePings(ctx)))
}

// stored notes the error of a write for alert status. It returns the error only if it is a conflict or the lease is
// lost.
func (t *term) stored(err error) error {
	if bucket.IsConflict(err) || t.store.checkLease() != nil {
		return fmt.Errorf("another master leads the alerts: %w", errors.Join(err, t.store.checkLease()))
	}
	if err != nil && t.storeErr == nil {
		t.o.Log.Warn("alerts not stored; nothing is sent until they are", "err", err)
	}
	t.storeErr = err
	return nil
}

// endSilences removes the silences whose end has passed.
func (t *term) endSilences(ctx context.Context, now time.Time) error {
	for id, s := range t.store.silences {
		if now.Before(s.Until) {
			continue
		}
		if err := t.store.remove(ctx, silencePrefix+id); err != nil {
			if err := t.stored(err); err != nil {
				return err
			}
		}
		delete(t.store.silences, id) // if the bucket still has it, the next master removes it
	}
	return nil
}

// view returns an alert as the API shows it.
func (t *term) view(a rules.Alert) api.Alert {
	v := api.Alert{
		ID:       a.ID(),
		Rule:     a.Rule,
		Subject:  a.Subject(),
		State:    api.AlertFiring,
		Troubles: a.Troubles,
		Peels:    a.Peels,
		Names:    a.Names,
		Text:     a.Text,
		Since:    a.Began,
		Began:    a.Began,
		Ended:    a.Ended,
		Silence:  a.Silence,
	}
	switch {
	case !a.Waits.IsZero():
		v.State = api.AlertWaiting
		v.Since = a.Waits
		v.Began = time.Time{}
		v.Ended = time.Time{}
	case !a.Ended.IsZero():
		v.State = api.AlertEnded
	}
	now := time.Now()
	for _, name := range t.receiversOf(&a) {
		if _, due := a.Due(name, now); due {
			v.Waits = append(v.Waits, name)
		}
	}
	return v
}

func (t *term) receiversOf(a *rules.Alert) []string {
	names := make([]string, len(t.deliveries))
	for i, d := range t.deliveries {
		names[i] = d.receiver.Name()
	}
	return rules.Receivers(a, t.selection.made, names)
}

// wellness returns why the dead man's switch must not be called; empty if all is well.
func (t *term) wellness() string {
	switch {
	case t.storeErr != nil:
		return t.storeErr.Error()
	case t.store.checkLease() != nil:
		return t.store.checkLease().Error()
	case t.o.Stored() != nil:
		return "the bus stores nothing: " + t.o.Stored().Error()
	case t.seen.unread != nil:
		return t.seen.unread.Error()
	case !t.seen.known:
		return "the alert rules are still read"
	}
	return t.stale
}
