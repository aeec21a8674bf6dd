package alert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed-c01c3da5/zester/master/alert/ping"
	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

const (
	pingProvider = "healthchecks" // in master.yaml
	pingPrefix   = "ping."        // before the name of the service, in the bucket
	pingBurst    = 20             // pings at once
	pingEvery    = time.Second    // after these
)

// A pinger is one service that is told of runs. The loop owns it; a goroutine sends.
type pinger struct {
	sending
	service *ping.Service
	work    chan ping.Ping
	plan    ping.Plan
	stored  map[ping.ID]ping.Mark // as the bucket has them
	last    string                // slug of the last ping
}

// A pinged is how the sending of a ping ended.
type pinged struct {
	p    *pinger
	ping ping.Ping
	err  error
}

func newPinger(s *ping.Service, marks map[ping.ID]ping.Mark) *pinger {
	p := &pinger{service: s, work: make(chan ping.Ping, 1), stored: marks, plan: ping.Plan{Marks: marks}}
	p.state, p.limit = api.Receiver{Name: s.Name(), Provider: pingProvider}, rate.NewLimiter(rate.Every(pingEvery), pingBurst)
	return p
}

// run sends pings until ctx ends.
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

// plan computes which pings are due, while the reports of peels are known.
func (t *term) plan(now time.Time) {
	if t.stale != "" {
		return
	}
	for _, p := range t.pingers {
		p.plan = p.service.Plan(t.o.Runs(p.service.Has), p.plan.Marks, now)
		p.state.Waiting = len(p.plan.Due)
	}
}

// ping hands each service that is free the next ping. What was sent before has to be stored first, or each step might send it again.
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

// pinged notes and stores that a service was told. A ping that it refuses for good counts as told.
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

// savePings stores the marks that differ from the stored ones.
func (t *term) savePings(ctx context.Context) error {
	for _, p := range t.pingers {
		if p.isSaved() {
			continue
		}
		marks := slices.SortedFunc(maps.Values(p.plan.Marks), func(a, b ping.Mark) int { return cmp.Compare(a.ID, b.ID) })
		if err := t.store.put(ctx, pingPrefix+p.service.Name(), marks); err != nil {
			return fmt.Errorf("cannot store the pings of %s: %w", p.service.Name(), err)
		}
		p.stored = p.plan.Marks
	}
	return nil
}

// maxPings bounds the stored marks of a service, in bytes: each has at most 32.
const maxPings = 40 * ping.MaxEntries

// decodePings reads the stored marks of a service.
func decodePings(data []byte) (map[ping.ID]ping.Mark, error) {
	if len(data) > maxPings {
		return nil, fmt.Errorf("they have %d bytes, the limit is %d", len(data), maxPings)
	}
	var list []ping.Mark
	if err := canon.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	marks := map[ping.ID]ping.Mark{}
	for _, m := range list {
		marks[m.ID] = m
	}
	if len(marks) != len(list) {
		return nil, errors.New("an entry has two")
	}
	return marks, nil
}
