// Package notify tells places outside the fleet what the reconciler does: the status that a forge shows beside a commit,
// messages in Slack and Teams, mail, and requests to webhooks. Make places with [place.New], then call [Run] for each session
// of a leader.
//
// Once a second Run looks at the state of the reconciler, and derives from it and the state before what there is to tell;
// the reconciler sends nothing itself and never waits. Each place has a goroutine. One that cannot be reached is tried
// again with growing pauses of up to 5 min, or as long as it asks for, and holds up no other.
//
// What becomes of a revision is told at least once: what a place was told is stored after the message, so the next leader
// goes on there and repeats one message at most. A place that is new, or was away for long, is told of the newest
// revisions alone. All other events are told at most once: that the branch could not be read is stored before the
// messages, so that the next leader neither repeats it nor leaves out that the branch is read again. Such events wait in
// memory, 50 for each place, for at most an hour; how many were left out is said with the next message.
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

	"github.com/seed-c01c3da5/zester/reconciler/notify/place"
	"github.com/seed-c01c3da5/zester/reconciler/status"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

const (
	lookEvery  = time.Second
	noticesKey = "notices" // of the bucket
)

// Options say what is looked at and where it is stored.
type Options struct {
	Places []*place.Place
	// Look returns the state of the reconciler. It is called once a second by one goroutine and must return at once.
	Look  func() Observation
	Store jetstream.KeyValue // bucket rollout: the keys told.PLACE and notices
	Log   *slog.Logger
}

// An Observation is the state of the reconciler at one moment.
type Observation struct {
	Sync     status.Sync      // without Counts
	Attempts []status.Attempt // the newest first
	Fleet    Fleet
	Order    Order
}

// Fleet says how far the peels are with the revision in force.
type Fleet struct {
	Commit  settings.Commit // of the counts; empty if they are of two revisions, or not known
	Counts  status.Counts
	Reached time.Time     // when a peel last came to run what it is to run
	Failing []status.Peel // in the state failed, sorted by ID, at most 200
	Late    target.PeelID // the first that is online and pending, empty if there is none
	// Errors are what peels report now, also those that run the revision in force.
	Errors map[target.PeelID][]string
}

// Order is the last order of a person that was carried out.
type Order struct {
	Verb string // of sync: pause, resume, pin, unpin and so on
	By   string
	Time time.Time
}

// notices is what the next leader has to know of what was told.
type notices struct {
	Leader string     `json:"leader,omitempty"`
	Outage place.Kind `json:"outage,omitempty"` // that was told and has not ended
	Since  time.Time  `json:"since,omitzero"`   // of the outage
}

// A session is one run.
type session struct {
	Options
	mu       sync.Mutex
	outcomes []outcome // the newest last, replaced and never changed in place
	began    time.Time
}

// Run tells places what happens until ctx ends.
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

// watch derives what there is to tell and hands it to the places.
func (s *session) watch(ctx context.Context, deliveries []*delivery) error {
	w := newWatcher(s.began)
	loaded, stored := false, notices{}
	for tick := time.NewTicker(lookEvery); ; {
		now, seen := time.Now(), s.Look()
		s.mu.Lock()
		s.outcomes = w.outcomes(seen, now)
		s.mu.Unlock()
		if !loaded {
			loaded = s.load(ctx, w)
			stored = w.notices
		}
		var events []place.Event
		if loaded {
			events = w.events(seen, now)
		}
		if w.notices != stored {
			if err := s.save(ctx, w.notices); err == nil {
				stored = w.notices
			} else if ctx.Err() == nil {
				s.Log.Warn("what places were told is not stored", "err", err)
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

// load reads what the leader before has told, and reports whether that is known.
func (s *session) load(ctx context.Context, w *watcher) bool {
	entry, err := s.Store.Get(ctx, noticesKey)
	if err == nil {
		err = canon.Unmarshal(entry.Value(), &w.notices)
	}
	if err == nil || errors.Is(err, jetstream.ErrKeyNotFound) {
		return true
	}
	if ctx.Err() == nil {
		s.Log.Warn("cannot read what places were told", "err", err)
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

// A told is the last mark of each commit that a place knows.
type told map[settings.Commit]string

// recall reads what a place was told of revisions. A new place is told of the newest commit alone.
func (s *session) recall(ctx context.Context, p *place.Place) (told, error) {
	const cannot = "cannot read what was told"
	entry, err := s.Store.Get(ctx, toldPrefix+p.Name())
	known := told{}
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
		return nil, fmt.Errorf(cannot+": %w", err)
	}
	return known, nil
}

// remember stores what a place was told, without commits that are not in the history.
func (s *session) remember(ctx context.Context, p *place.Place, known told) error {
	all := s.newest()
	for c := range known { // of outcomes there is at least one: the one that was told
		if !slices.ContainsFunc(all, func(o outcome) bool { return o.Revision.Commit == c }) {
			delete(known, c)
		}
	}
	data, err := canon.Marshal(known)
	if err == nil {
		_, err = s.Store.Put(ctx, toldPrefix+p.Name(), data)
	}
	return err
}
