// Package notify sends notifications about the reconciler to places outside the fleet: the status of a commit on a
// forge, messages in Slack and Teams, mail, and requests to webhooks. Make places with [NewPlace], then call [Run] in
// each leadership session.
//
// Once a second Run reads the state of the reconciler and derives events from the changes, so the reconciler never
// waits for a place. Each place has a goroutine. If it cannot be reached, it is tried again with growing pauses of up
// to 5 min, or after the pause that it asks for; other places do not wait.
//
// Guarantees: the outcome of a revision is delivered at least once. The delivery is stored after the message, so the
// next leader continues there and repeats one message at most. A place that is new, or was away for long, gets only the
// newest revisions. All other events are delivered at most once: an outage of the branch is stored before its messages,
// so that the next leader does not repeat it and reports its end. Such events wait in memory, 50 for each place, for at
// most an hour; the next message names the number of dropped ones.
//
// A chat, mailbox or webhook gets 20 messages at once and then one in 30 s.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/status"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	observeEvery = time.Second
	noticesKey   = "notices" // of the bucket
)

// Options configure the notifications. All fields are required.
type Options struct {
	Places []*Place
	// Observe returns the state of the reconciler. It is called once a second by one goroutine and must return at once.
	Observe func() Observation
	Store   jetstream.KeyValue // bucket rollout: the keys told.PLACE and notices
	Log     *slog.Logger
}

// An Observation is the state of the reconciler at one moment.
type Observation struct {
	Sync     status.Sync      // without Counts
	Attempts []status.Attempt // the newest first
	Fleet    Fleet
	Order    Order
}

// Fleet is the state of the peels with respect to the revision in force.
type Fleet struct {
	Commit  settings.Commit // the revision in force; empty if the counts are of two revisions, or not known
	Counts  status.Counts
	Reached time.Time     // when a peel last came to run its wanted settings
	Failing []status.Peel // peels in the state failed, sorted by ID, at most 200
	Late    target.PeelID // the first pending peel by ID, empty if there is none
	// Errors are the present errors of all peels, also of peels that run the revision in force.
	Errors map[target.PeelID][]string
}

// Order is the last order of a person that was carried out.
type Order struct {
	Verb string // of sync: pause, resume, pin, unpin and so on
	By   string
	Time time.Time
}

// notices is the stored state for the next leader.
type notices struct {
	Leader string    `json:"leader,omitempty"`
	Outage Kind      `json:"outage,omitempty"` // the reported outage; empty if none lasts
	Since  time.Time `json:"since,omitzero"`   // beginning of the outage
}

// A session is one call of Run.
type session struct {
	Options
	mu       sync.Mutex
	outcomes []outcome // the newest last, replaced and never changed in place
	began    time.Time
}

// Run sends notifications until ctx ends.
func Run(ctx context.Context, o Options) error {
	if len(o.Places) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	s := &session{Options: o, began: time.Now()}
	g, ctx := errgroup.WithContext(ctx)
	var deliveries []*delivery
	for _, p := range o.Places {
		d := newDelivery(s, p)
		deliveries = append(deliveries, d)
		g.Go(func() error { return d.run(ctx) })
	}
	g.Go(func() error { return s.watch(ctx, deliveries) })
	return g.Wait()
}

// watch derives outcomes and events from the state, and gives them to the deliveries.
func (s *session) watch(ctx context.Context, deliveries []*delivery) error {
	w := newWatcher(s.began)
	loaded, stored := false, notices{}
	for tick := time.NewTicker(observeEvery); ; {
		now, seen := time.Now(), s.Observe()
		s.mu.Lock()
		s.outcomes = w.outcomes(seen, now)
		s.mu.Unlock()
		if !loaded {
			loaded = s.load(ctx, w)
			stored = w.notices
		}
		var events []Event
		if loaded {
			events = w.events(seen, now)
		}
		if w.notices != stored {
			if err := s.save(ctx, w.notices); err == nil {
				stored = w.notices
			} else if ctx.Err() == nil {
				s.Log.Warn("state of notifications not stored", "err", err)
			}
		}
		for _, d := range deliveries {
			d.offer(events, now)
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// load reads the notices of the previous leader, and reports whether it succeeded.
func (s *session) load(ctx context.Context, w *watcher) bool {
	entry, err := s.Store.Get(ctx, noticesKey)
	if err == nil {
		err = canon.Unmarshal(entry.Value(), &w.notices)
	}
	if err == nil || errors.Is(err, jetstream.ErrKeyNotFound) {
		return true
	}
	if ctx.Err() == nil {
		s.Log.Warn("cannot read the state of notifications", "err", err)
	}
	return false
}

func (s *session) save(ctx context.Context, n notices) error {
	data, err := canon.Marshal(n)
	if err == nil {
		_, err = s.Store.Put(ctx, noticesKey, data)
	}
	return err
}

func (s *session) newest() []outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outcomes
}

// delivered holds the mark of the last outcome of each commit that a place got.
type delivered map[settings.Commit]string

// loadDelivered reads the outcomes that a place got. For a new place all commits but the newest count as delivered.
func (s *session) loadDelivered(ctx context.Context, p *Place) (delivered, error) {
	entry, err := s.Store.Get(ctx, keyPrefix+p.Name())
	known := delivered{}
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		all := s.newest()
		for _, o := range all[:max(0, len(all)-1)] {
			known[o.Revision.Commit] = o.mark
		}
		return known, nil
	}
	if err == nil {
		err = canon.Unmarshal(entry.Value(), &known)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read which notifications were delivered: %w", err)
	}
	return known, nil
}

// storeDelivered stores the outcomes that a place got, without commits that are no longer in the history.
func (s *session) storeDelivered(ctx context.Context, p *Place, known delivered) error {
	all := s.newest()
	for c := range known { // at least the delivered outcome stays
		if !slices.ContainsFunc(all, func(o outcome) bool { return o.Revision.Commit == c }) {
			delete(known, c)
		}
	}
	data, err := canon.Marshal(known)
	if err == nil {
		_, err = s.Store.Put(ctx, keyPrefix+p.Name(), data)
	}
	return err
}
