// Package source polls one branch of one Git repository for the reconciler, in a goroutine of its own, and reads its
// revisions.
//
// Call [New] first, then [Source.Run], and take each [Event] from [Source.Events]. [Source.Request] requests an attempt
// to read the branch before the next poll is due.
//
// Guarantees:
//   - Only Run waits for the network. Request returns at once, and a [Reader] reads the store on disk or the bus, also
//     while a fetch hangs.
//   - An event that names a head comes after the whole revision is in the store.
//   - All calls of Request during one attempt lead to one further attempt. Event.Answers says which calls an attempt
//     answers.
//   - After an error the pause between attempts grows up to 5 min. After an error that trying again cannot fix the poll
//     interval stays. A remote that names a time gets no request before it, except for a command of a person, at least
//     5 s after the last request.
//
// Known gap: a command does not end a fetch that hangs; gitrepo ends it after 60 s, a first clone after 10 min.
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
	// Quiet is how long the branch must not move before an attempt that a hint requested. The attempt begins after
	// quietMost at the latest.
	Quiet     = 5 * time.Millisecond
	quietMost = time.Second

	backoffFirst = time.Second
	backoffMost  = 5 * time.Minute
	orderFloor   = 5 * time.Second // least pause before a command's request to a remote that named a time
)

// An Event is the beginning or the end of an attempt to read the branch.
type Event struct {
	Began    bool            // the attempt began; nothing else is set
	Answers  uint64          // the attempt answers calls of Request up to this one
	Observed settings.Commit // where the branch was last seen, empty before the first time
	Read     time.Time       // when it was seen there
	Head     settings.Commit // the newest commit that is in the store, empty before the first
	Err      error           // why the attempt failed, a *[gitrepo.Error]; nil if it succeeded
	Failures int             // attempts that failed in a row
	Took     time.Duration
}

// A Source polls one branch.
type Source struct {
	repo   *gitrepo.Repo
	poll   time.Duration
	events chan Event
	wake   chan struct{} // has a value after Request

	mu      sync.Mutex
	calls   uint64 // of Request
	ordered bool   // a person has requested the next attempt
	again   bool   // the head has to be fetched again
}

// New opens a repository and starts nothing. An attempt is due every poll ± 10 %.
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

// A Cause says why an attempt is requested.
type Cause int

const (
	Hint    Cause = iota // the branch may have moved
	Order                // a command of a person
	Damaged              // the store cannot be read; a fetch repairs it
)

// Request requests an attempt to read the branch, and returns the number of the request for Event.Answers.
func (s *Source) Request(why Cause) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.ordered = s.ordered || why == Order
	s.again = s.again || why == Damaged
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return s.calls
}

// Watch signals when the branch of a local repository may have moved, until ctx ends. The channel is nil for a remote.
func (s *Source) Watch(ctx context.Context) <-chan struct{} { return s.repo.Watch(ctx) }

// Run reads the branch at once, at each poll, after Request and when moved has a value, until ctx ends.
func (s *Source) Run(ctx context.Context, moved <-chan struct{}) error {
	last := Event{}
	for wait := time.Duration(0); ; {
		notBefore := retryAfter(last)
		if err := s.await(ctx, wait, moved, notBefore); err != nil {
			return err
		}
		if err := s.send(ctx, Event{Began: true}); err != nil {
			return err
		}
		last = s.read(ctx, last)
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

// await returns when an attempt is due: after wait, or earlier when the branch has moved or after Request.
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

// awaitOrder returns when due has a value, or after a command of a person, but then not before earliest.
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

// read requests the head of the branch, and fetches it unless it is in the store.
func (s *Source) read(ctx context.Context, last Event) Event {
	began := time.Now()
	s.mu.Lock()
	e := Event{Answers: s.calls, Observed: last.Observed, Read: last.Read, Head: last.Head}
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

// retryAfter returns the time before which a remote wants no request, zero if it named none.
func retryAfter(last Event) time.Time {
	if e, ok := errors.AsType[*gitrepo.Error](last.Err); ok && e.RetryAfter > 0 {
		return time.Now().Add(e.RetryAfter)
	}
	return time.Time{}
}

// next returns the pause after an attempt: the poll interval ± 10 % after success, or after an error that trying again
// cannot fix; the pause that the remote named; otherwise a random pause that grows with each failure.
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
