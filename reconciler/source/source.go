// Package source follows one branch of one Git repository for the reconciler, in a goroutine of its own, and reads its
// revisions.
//
// Call [New] first, then [Source.Run], and take each [Event] from [Source.Events]. [Source.Look] asks for a look at the
// branch before the next poll is due.
//
// Guarantees:
//   - Only Run waits for the network. Look returns at once, and a [Reader] reads what is in the store on disk or on the bus,
//     also while a fetch hangs.
//   - An event that names a head comes after the whole revision is in the store.
//   - Any number of calls of Look during one look are answered by one further look. Event.Answers says which were.
//   - After an error the branch is asked less and less often, at least every 5 min. After one that trying again cannot help
//     the poll stays as it is. A remote that names a time is not asked before it, but for an order of a person, which waits
//     for 5 s after the last request at most.
//
// Known gap: an order does not end a fetch that hangs; gitrepo ends it after 60 s, a first clone after 10 min.
package source

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/settings"
)

const (
	// Quiet is how long the branch must not move before a look that a hint asks for. It is at most quietMost.
	Quiet     = 20 * time.Millisecond
	quietMost = time.Second

	backoffFirst = time.Second
	backoffMost  = 5 * time.Minute
	orderFloor   = 5 * time.Second // between two requests to a remote that asked to be left alone
)

// An Event tells how a look at the branch began or ended.
type Event struct {
	Looking  bool            // it began; nothing else is set
	Answers  uint64          // it answers calls of Look up to this one
	Observed settings.Commit // where the branch was last seen, empty before the first time
	Read     time.Time       // when it was seen there
	Head     settings.Commit // the newest commit that is in the store, empty before the first
	Err      error           // why the look failed, a *[gitrepo.Error]; nil if it did not
	Failures int             // looks that failed in a row
	Took     time.Duration
}

// A Source looks at one branch.
type Source struct {
	repo   *gitrepo.Repo
	poll   time.Duration
	events chan Event
	wake   chan struct{} // of Look

	mu      sync.Mutex
	asked   uint64 // calls of Look
	ordered bool   // one of them since the last look was the order of a person
	again   bool   // the head has to be fetched although it was
}

// New opens a repository and starts nothing. A look is due every poll ± 10 %.
func New(o gitrepo.Options, poll time.Duration) (*Source, error) {
	repo, err := gitrepo.Open(o)
	if err != nil {
		return nil, err
	}
	return &Source{repo: repo, poll: poll, events: make(chan Event), wake: make(chan struct{}, 1)}, nil
}

// URL returns where the repository is, without credentials.
func (s *Source) URL() string { return s.repo.URL() }

// Close closes the repository. Run and all readers must have ended.
func (s *Source) Close() error { return s.repo.Close() }

// Events returns the channel of all events. Run waits until each is taken.
func (s *Source) Events() <-chan Event { return s.events }

// A Cause says why a look is asked for.
type Cause int

const (
	Hint    Cause = iota // the branch may have moved
	Order                // a person asks
	Damaged              // the store cannot be read; a fetch mends it
)

// Look asks for a look at the branch and returns its number, for Event.Answers.
func (s *Source) Look(why Cause) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.ordered = s.ordered || why == Order
	s.again = s.again || why == Damaged
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.asked
}

// Watch signals when the branch of a local repository may have moved, until ctx ends. The channel is nil for a remote.
func (s *Source) Watch(ctx context.Context) <-chan struct{} { return s.repo.Watch(ctx) }

// Run looks at the branch at once, at each poll, when it is asked to and when moved signals, until ctx ends.
func (s *Source) Run(ctx context.Context, moved <-chan struct{}) error {
	last := Event{}
	for wait := time.Duration(0); ; {
		notBefore := retryAfter(last)
		if err := s.await(ctx, wait, moved, notBefore); err != nil {
			return err
		}
		if err := s.send(ctx, Event{Looking: true}); err != nil {
			return err
		}
		last = s.look(ctx, last)
		if err := s.send(ctx, last); err != nil {
			return err
		}
		wait = next(s.poll, last)
	}
}

func (s *Source) send(ctx context.Context, e Event) error {
	select {
	case s.events <- e:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await returns when a look is due: after wait, or earlier when the branch has moved or somebody asks.
func (s *Source) await(ctx context.Context, wait time.Duration, moved <-chan struct{}, notBefore time.Time) error {
	due := time.NewTimer(wait)
	defer due.Stop()
	if now := time.Now(); now.Before(notBefore) {
		return s.awaitOrder(ctx, due.C, now.Add(orderFloor))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-due.C:
		return nil
	case <-moved:
	case <-s.wake:
	}
	most := time.After(quietMost)
	for !s.isOrdered() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-most:
			return nil
		case <-time.After(Quiet):
			return nil
		case <-moved:
		case <-s.wake:
		}
	}
	return nil
}

// awaitOrder returns when due fires, or after an order of a person but not before earliest.
func (s *Source) awaitOrder(ctx context.Context, due <-chan time.Time, earliest time.Time) error {
	for {
		var floor <-chan time.Time
		if s.isOrdered() {
			floor = time.After(time.Until(earliest))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due:
			return nil
		case <-floor:
			return nil
		case <-s.wake:
		}
	}
}

func (s *Source) isOrdered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ordered
}

// look asks for the branch, and fetches its head unless the look before has.
func (s *Source) look(ctx context.Context, last Event) Event {
	began := time.Now()
	s.mu.Lock()
	e := Event{Answers: s.asked, Observed: last.Observed, Read: last.Read, Head: last.Head}
	again := s.again
	s.ordered, s.again = false, false
	s.mu.Unlock()
	head, err := s.repo.Resolve(ctx)
	if err == nil {
		e.Observed, e.Read = settings.Commit(head.String()), time.Now()
		if e.Observed != e.Head || again {
			err = s.repo.Fetch(ctx, head)
		}
	}
	if e.Took, e.Err = time.Since(began), err; err != nil {
		e.Failures = last.Failures + 1
		if again {
			s.mu.Lock()
			s.again = true
			s.mu.Unlock()
		}
		return e
	}
	e.Head = e.Observed
	return e
}

// retryAfter returns when a remote wants to be asked again, zero if it did not say.
func retryAfter(last Event) time.Time {
	if e, ok := errors.AsType[*gitrepo.Error](last.Err); ok && e.RetryAfter > 0 {
		return time.Now().Add(e.RetryAfter)
	}
	return time.Time{}
}

// next returns how long to wait after a look: the poll interval ± 10 % after success or after an error that trying again
// cannot help, as long as the remote asked for if it did, and otherwise a random time that grows with each failure.
func next(poll time.Duration, last Event) time.Duration {
	interval := poll*9/10 + rand.N(poll/5)
	if last.Err == nil {
		return interval
	}
	if e, ok := errors.AsType[*gitrepo.Error](last.Err); ok {
		if e.Reason.Stalled() {
			return interval
		}
		if e.RetryAfter > 0 {
			return e.RetryAfter
		}
	}
	limit := min(backoffFirst<<min(last.Failures, 10), backoffMost)
	return backoffFirst + rand.N(limit)
}
