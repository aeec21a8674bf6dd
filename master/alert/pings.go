package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/notify"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/sorting"
)

const (
	pingProvider = "healthchecks" // value of provider in master.yaml
	pingPrefix   = "ping."        // of keys in the bucket; the name of the service follows
	pingBurst    = 20             // pings that a service gets at once, before one every pingEvery
	pingEvery    = time.Second
)

// A pinger pings one service. The loop of the term owns it, except run, which is a goroutine.
type pinger struct {
	sending
	service *notify.PingService
	work    chan notify.Ping
	plan    notify.PingPlan
	stored  map[notify.PingID]notify.PingMark // the marks in the bucket
	last    string                            // slug of the last ping
}

// A pinged says how a ping ended.
type pinged struct {
	p    *pinger
	ping notify.Ping
	err  error
}

func newPinger(s *notify.PingService, marks map[notify.PingID]notify.PingMark) *pinger {
	p := &pinger{service: s, work: make(chan notify.Ping, 1), stored: marks, plan: notify.PingPlan{Marks: marks}}
	p.state, p.limit = api.Receiver{
		Name:     s.Name(),
		Provider: pingProvider,
	}, rate.NewLimiter(rate.Every(pingEvery), pingBurst)
	return p
}

// run sends the pings from work until ctx ends.
func (p *pinger) run(ctx context.Context, results chan<- pinged) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case next := <-p.work:
			err := p.service.Send(ctx, next)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case results <- pinged{p, next, err}:
			}
		}
	}
}

// isSaved reports whether all marks are stored.
func (p *pinger) isSaved() bool { return maps.Equal(p.stored, p.plan.Marks) }

// plan computes the pings that are due. While the reports of peels are unknown it changes nothing.
func (t *term) plan(now time.Time) {
	if t.stale != "" {
		return
	}
	for _, p := range t.pingers {
		p.plan = p.service.Plan(t.o.Runs(p.service.Has), p.plan.Marks, now)
		p.state.Waiting = len(p.plan.Due)
	}
}

// ping gives each service that is free its next ping. While the marks of earlier pings cannot be stored it gives none,
// as another master would repeat them.
func (t *term) ping(now time.Time) {
	for _, p := range t.pingers {
		if len(p.plan.Due) == 0 || !p.isSaved() || !p.isFree(now) {
			continue
		}
		next := p.plan.Next(p.last)
		p.busy, p.last = true, next.Slug
		p.work <- next // there is room, as the goroutine is free
	}
}

// pinged notes and stores that a service has got a ping. A ping that it refused for good counts as one it has got.
func (t *term) pinged(ctx context.Context, r pinged) error {
	sent := 0
	if r.err == nil {
		sent = 1
	}
	final := r.p.ended(sent, 1, r.err, time.Now())
	if r.err != nil {
		t.o.Log.Warn("ping not sent", "receiver", r.p.service.Name(), "slug", r.ping.Slug, "final", final, "err", r.err)
	}
	if r.err == nil || final {
		r.p.plan = r.p.plan.Told(r.ping)
		r.p.state.Waiting = len(r.p.plan.Due)
	}
	return t.save(ctx)
}

// savePings stores the marks of the services whose marks have changed.
func (t *term) savePings(ctx context.Context) error {
	for _, p := range t.pingers {
		if p.isSaved() {
			continue
		}
		marks := sorting.Values(maps.Values(p.plan.Marks), func(a, b notify.PingMark) int {
			return cmp.Compare(a.ID, b.ID)
		})
		if err := t.store.put(ctx, pingPrefix+p.service.Name(), marks); err != nil {
			return fmt.Errorf("cannot store the pings of %s: %w", p.service.Name(), err)
		}
		p.stored = p.plan.Marks
	}
	return nil
}

// maxPings bounds the stored marks of a service, in bytes. A mark has at most 35.
const maxPings = 40 * notify.MaxPingEntries

// decodePings reads the stored marks of a service.
func decodePings(data []byte) (map[notify.PingID]notify.PingMark, error) {
	if len(data) > maxPings {
		return nil, fmt.Errorf("they have %d bytes, the limit is %d", len(data), maxPings)
	}
	var list []notify.PingMark
	if err := canon.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	marks := map[notify.PingID]notify.PingMark{}
	for _, m := range list {
		marks[m.ID] = m
	}
	if len(marks) != len(list) {
		return nil, errors.New("an entry has two")
	}
	return marks, nil
}
