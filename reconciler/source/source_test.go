package source

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/reconciler/gitrepo"
	"github.com/seed-c01c3da5/zester/reconciler/gitrepo/worktree"
	"github.com/seed-c01c3da5/zester/settings"
)

var ada = worktree.Author{Name: "Ada", Email: "ada@example.com", When: time.Unix(1_700_000_000, 0)}

// inRepo runs f with a repo that is polled every minute and not watched, in fake time. ended returns the next event that
// tells how a look ended.
func inRepo(t *testing.T, f func(t *testing.T, s *Source, work *worktree.Work, ended func() Event)) {
	dir, store := filepath.Join(t.TempDir(), "repo"), t.TempDir()
	work, err := worktree.Init(dir, fstest.MapFS{"top.yaml": {Data: []byte("base: {}\n")}}, "first", ada)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s, err := New(gitrepo.Options{URL: dir, Dir: store}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- s.Run(ctx, nil) }()
		defer func() {
			cancel()
			if err := errors.Join(<-over, s.Close()); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		f(t, s, work, func() Event {
			for e := range s.Events() {
				if !e.Began {
					return e
				}
			}
			return Event{}
		})
	})
}

func TestALookAnswersAllThatAskedBeforeIt(t *testing.T) {
	inRepo(t, func(t *testing.T, s *Source, work *worktree.Work, ended func() Event) {
		if e := ended(); e.Err != nil || e.Head == "" || e.Head != e.Observed || e.Read.IsZero() || e.Answers != 0 {
			t.Fatalf("the first look: %+v", e)
		}
		h, err := work.Commit("second", map[string][]byte{"top.yaml": []byte("base: {x: []}\n")}, ada)
		if err != nil {
			t.Fatal(err)
		}
		var last uint64
		for range 100 {
			last = s.Request(Hint)
		}
		began := time.Now()
		if e := ended(); e.Answers != last || e.Head != settings.Commit(h.String()) || time.Since(began) != Quiet {
			t.Errorf("after 100 hints and %v: %+v", time.Since(began), e)
		}
		began = time.Now()
		if e := ended(); time.Since(began) < 54*time.Second {
			t.Errorf("another look after %v: %+v", time.Since(began), e)
		}
	})
}

func TestALookThatFailedKeepsTheHead(t *testing.T) {
	inRepo(t, func(t *testing.T, s *Source, work *worktree.Work, ended func() Event) {
		first := ended()
		if err := os.Rename(work.Dir(), work.Dir()+".away"); err != nil {
			t.Fatal(err)
		}
		for n := 1; n < 4; n++ {
			s.Request(Order)
			if e := ended(); e.Err == nil || e.Head != first.Head || e.Read != first.Read || e.Failures != n {
				t.Errorf("failure %d: %+v", n, e)
			}
		}
		if err := os.Rename(work.Dir()+".away", work.Dir()); err != nil {
			t.Fatal(err)
		}
		s.Request(Order)
		if e := ended(); e.Err != nil || e.Failures != 0 {
			t.Errorf("back again: %+v", e)
		}
	})
}

// A fetch that is to repair the store is due until it has succeeded.
func TestAStoreIsRepairedAfterALookThatFailed(t *testing.T) {
	inRepo(t, func(t *testing.T, s *Source, work *worktree.Work, ended func() Event) {
		ended()
		if err := os.Rename(work.Dir(), work.Dir()+".away"); err != nil {
			t.Fatal(err)
		}
		s.Request(Damaged)
		for _, repaired := range []bool{false, true} {
			e := ended()
			s.mu.Lock()
			due := s.again
			s.mu.Unlock()
			if due == repaired || (e.Err == nil) != repaired {
				t.Errorf("a fetch is due: %v, after %+v", due, e)
			}
			if repaired {
				return
			}
			if err := os.Rename(work.Dir()+".away", work.Dir()); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestARemoteThatAsksForAPauseGetsTheRequestsOfAPerson holds that a hint and the poll wait for as long as the remote says, and
// that an order waits for 5 s.
func TestARemoteThatAsksForAPauseGetsTheRequestsOfAPerson(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Source{poll: time.Minute, wake: make(chan struct{}, 1)}
		limited := Event{Err: &gitrepo.Error{Reason: gitrepo.RateLimited, RetryAfter: time.Hour}, Failures: 1}
		for _, c := range []struct {
			name string
			why  Cause
			want time.Duration
		}{{"hint", Hint, time.Hour}, {"order", Order, 5 * time.Second}} {
			began := time.Now()
			s.Request(c.why)
			if err := s.await(t.Context(), next(s.poll, limited), nil, retryAfter(limited)); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began); got != c.want {
				t.Errorf("a %s is followed after %v, want %v", c.name, got, c.want)
			}
		}
	})
}

func TestHowLongTheNextLookWaits(t *testing.T) {
	unreachable := &gitrepo.Error{Reason: gitrepo.Unreachable}
	for failures, most := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300} {
		var longest time.Duration
		for range 300 {
			d := next(time.Minute, Event{Err: unreachable, Failures: failures + 1})
			if d < time.Second || d > most*time.Second+time.Second {
				t.Fatalf("after %d failures: %v", failures+1, d)
			}
			longest = max(longest, d)
		}
		if longest < most*time.Second*9/10 {
			t.Errorf("after %d failures at most %v, want up to %v", failures+1, longest, most*time.Second)
		}
	}
	if d := next(time.Minute, Event{Err: &gitrepo.Error{Reason: gitrepo.RateLimited, RetryAfter: 17 * time.Minute}}); d != 17*time.Minute {
		t.Errorf("a remote that asks for 17 min gets %v", d)
	}
	if d := next(time.Minute, Event{Err: &gitrepo.Error{Reason: gitrepo.HostKey}}); d < 54*time.Second || d > 66*time.Second {
		t.Errorf("what trying again cannot help is tried after %v", d)
	}
	if d := next(time.Minute, Event{}); d < 54*time.Second || d > 66*time.Second {
		t.Errorf("after success: %v", d)
	}
}

// TestAReadDoesNotWaitForAFetch holds a request to the remote on a channel.
func TestAReadDoesNotWaitForAFetch(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	remote := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-release
	}))
	defer remote.Close()
	defer close(release)
	s, err := New(gitrepo.Options{URL: remote.URL + "/repo", Dir: t.TempDir()}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- s.Run(ctx, nil) }()
	if e := <-s.Events(); !e.Began {
		t.Errorf("%+v", e)
	}
	<-asked
	const unknown = settings.Commit("0123456789012345678901234567890123456789")
	if _, err := s.Reader(nil).Fetched(unknown); !isNotFound(err) {
		t.Errorf("a read during a fetch: %v", err)
	}
	if n := s.Request(Order); n != 1 {
		t.Errorf("the look has the number %d", n)
	}
	cancel()
	if err := errors.Join(<-over, s.Close()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
