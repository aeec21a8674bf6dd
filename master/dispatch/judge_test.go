package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A decision is what Allow of all masters of a test answers.
type decision struct{ err atomic.Pointer[error] }

func (d *decision) set(err error) { d.err.Store(&err) }

// allows makes a master ask the decision.
func (d *decision) allows(o *dispatch.Options) {
	o.Allow = func(_ context.Context, from grants.Caller, _ *job.Spec) error {
		if from.User != "alice" {
			return fmt.Errorf("asked about %q", from.User)
		}
		if err := d.err.Load(); err != nil {
			return *err
		}
		return nil
	}
}

// checksRevocation makes a master read revocations from the decision.
func (d *decision) checksRevocation(o *dispatch.Options) {
	o.CheckNotRevoked = func(_ context.Context, user string) error {
		if user != "alice" {
			return fmt.Errorf("asked about %q", user)
		}
		if err := d.err.Load(); err != nil {
			return *err
		}
		return nil
	}
}

var errRevoked = fmt.Errorf("%w: alice was revoked", grants.ErrNotAllowed)

// lateSends are the ways in which a request is sent after the first ones. Each begins a job of alice for the peel "late"
// and returns what has the request sent to it, and how many requests it may have had before.
var lateSends = map[string]func(t *testing.T, s *system, d *decision) (spec job.Spec, send func(), before int){
	"to a target that is back": func(_ *testing.T, s *system, d *decision) (job.Spec, func(), int) {
		s.master("m1", d.allows)
		spec := ask(func(j *job.Spec) { j.WhenOnline = time.Hour }, "late")
		s.dispatch(spec)
		time.Sleep(time.Minute)
		return spec, func() { s.peel("late", pong).appears() }, 0
	},
	"to the next of a batch": func(_ *testing.T, s *system, d *decision) (job.Spec, func(), int) {
		s.master("m1", d.allows)
		var first atomic.Pointer[func()]
		s.peel("first", func(p *peel, r wire.Request) {
			p.ack(r)
			done := func() { p.result(r, wire.Result{Success: true}) }
			first.Store(&done)
		})
		s.peel("late", pong)
		spec := ask(func(j *job.Spec) { j.Batch = &job.Batch{Size: 1} }, "first", "late")
		s.dispatch(spec)
		time.Sleep(10 * time.Second)
		return spec, func() { (*first.Load())() }, 0
	},
	"again to a silent target": func(_ *testing.T, s *system, d *decision) (job.Spec, func(), int) {
		s.master("m1", d.allows)
		s.peel("late", nil)
		spec := ask(nil, "late")
		s.dispatch(spec)
		synctest.Wait()
		return spec, func() {}, 1
	},
	"by another master, of a claim":          takenOver(dispatch.Steps[1]),
	"by another master, of a job that runs":  takenOver(dispatch.Steps[3]),
	"by the same master, after it restarted": restarted,
}

// takenOver has a master die at a step before it sends anything, and another master start.
func takenOver(step string) func(t *testing.T, s *system, d *decision) (job.Spec, func(), int) {
	return func(t *testing.T, s *system, d *decision) (job.Spec, func(), int) {
		s.peel("late", pong)
		died := make(chan struct{})
		m1 := s.whole("m1", func(at string, kill func()) {
			if at == step {
				kill()
				close(died)
			}
		}, d.allows)
		spec := ask(func(j *job.Spec) { j.Timeout = 10 * time.Minute }, "late")
		go func() { _, _ = m1.Submit(t.Context(), spec, "alice") }()
		<-died
		m1.stop()
		return spec, func() { s.whole("m2", nil, d.allows) }, 0
	}
}

func restarted(_ *testing.T, s *system, d *decision) (job.Spec, func(), int) {
	m1 := s.whole("m1", nil, d.allows)
	spec := ask(func(j *job.Spec) { j.WhenOnline = time.Hour }, "late")
	s.dispatch(spec)
	time.Sleep(time.Minute)
	m1.stop()
	return spec, func() {
		s.whole("m1", nil, d.allows)
		s.peel("late", pong).appears()
	}, 0
}

// TestWhoWasRevokedHasNothingSentLate revokes the user of a job before each late send.
func TestWhoWasRevokedHasNothingSentLate(t *testing.T) {
	for name, begin := range lateSends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				var d decision
				spec, send, before := begin(t, s, &d)
				d.set(errRevoked)
				send()
				time.Sleep(5 * time.Minute)
				if n := s.sent("late"); n != before {
					t.Errorf("it has %d requests, %d before the revocation", n, before)
				}
				j := s.record(spec.JID)
				if j.Status != job.Canceled || j.Cancel == nil || !strings.HasPrefix(j.Cancel.By, "master m") || !strings.Contains(j.Cancel.Reason, "alice was revoked") {
					t.Errorf("%s, %+v", j.Status, j.Cancel)
				}
			})
		})
	}
}

// TestWhileNobodyCanJudgeNothingIsSentLate has the judgement fail for a while and then allow the job.
func TestWhileNobodyCanJudgeNothingIsSentLate(t *testing.T) {
	for name, begin := range lateSends {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				var d decision
				spec, send, before := begin(t, s, &d)
				d.set(errors.New("the bucket does not answer"))
				send()
				time.Sleep(25 * time.Second)
				if n := s.sent("late"); n != before {
					t.Errorf("it has %d requests, %d before", n, before)
				}
				d.set(nil)
				time.Sleep(5 * time.Minute)
				if n := s.sent("late"); n == before {
					t.Error("it has no request, although its user may run the job")
				}
				if j := s.record(spec.JID); j.Cancel != nil {
					t.Errorf("%+v", j.Cancel)
				}
			})
		})
	}
}

// TestATakeOverThatFailsIsRepeated has a master take over a claim that was made while it ran, and be unable to judge it for
// longer than four of its scans.
func TestATakeOverThatFailsIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var d decision
		s.whole("m2", nil, d.allows)
		time.Sleep(time.Minute)
		spec, _, _ := takenOver(dispatch.Steps[1])(t, s, &d)
		d.set(errors.New("the bucket does not answer"))
		time.Sleep(4 * time.Minute)
		if n := s.sent("late"); n != 0 {
			t.Errorf("it has %d requests before its user could be judged", n)
		}
		d.set(nil)
		time.Sleep(time.Minute)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReclaimCount != 1 || s.sent("late") != 1 {
			t.Errorf("%s %+v, taken over %d times, %d requests", j.Status, j.Metadata, j.ReclaimCount, s.sent("late"))
		}
	})
}

// TestATargetThatLeftTheLimitsIsGivenUpAlone narrows what the user may select while a batch runs.
func TestATargetThatLeftTheLimitsIsGivenUpAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		limits := grants.Limits{Target: "p*"}
		var within atomic.Pointer[[]target.PeelID]
		within.Store(&[]target.PeelID{"p00", "p01", "p02", "p03", "p04"})
		s.master("m1", func(o *dispatch.Options) {
			o.Allow = func(_ context.Context, _ grants.Caller, spec *job.Spec) error {
				selects := func(context.Context, string) ([]target.PeelID, error) { return *within.Load(), nil }
				return limits.Evaluate(t.Context(), "lee", spec.Function, spec.Targets, selects)
			}
		})
		tm := s.team(5, ok)
		spec := ask(func(j *job.Spec) { j.Batch = &job.Batch{Size: 2} }, tm.ids...)
		s.dispatch(spec)
		left := []target.PeelID{"p00", "p01", "p02", "p04"}
		within.Store(&left)
		time.Sleep(time.Minute)
		tm.mu.Lock()
		defer tm.mu.Unlock()
		slices.Sort(tm.ran)
		if !slices.Equal(tm.ran, left) {
			t.Errorf("%v ran", tm.ran)
		}
		if j := s.record(spec.JID); j.Status != job.Partial || j.ReturnCount != 4 {
			t.Errorf("%s with %d returns, %+v", j.Status, j.ReturnCount, j.Cancel)
		}
	})
}

// A job waits for no peel that has left the limits of its user while it was away.
func TestAPeelThatComesBackOutsideTheLimitsIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		limits := grants.Limits{Target: "p*"}
		var within atomic.Pointer[[]target.PeelID]
		within.Store(&[]target.PeelID{"later"})
		s.master("m1", func(o *dispatch.Options) {
			o.Allow = func(_ context.Context, _ grants.Caller, spec *job.Spec) error {
				selects := func(context.Context, string) ([]target.PeelID, error) { return *within.Load(), nil }
				return limits.Evaluate(t.Context(), "lee", spec.Function, spec.Targets, selects)
			}
		})
		spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "later")
		s.dispatch(spec)
		time.Sleep(time.Minute)
		within.Store(new([]target.PeelID))
		later := s.peel("later", pong)
		later.appears()
		time.Sleep(10 * time.Second)
		if j := s.record(spec.JID); !j.Status.Final() || len(later.requests()) != 0 {
			t.Errorf("%s after %d requests", j.Status, len(later.requests()))
		}
	})
}

// TestAJobWhoseUserIsRevokedBeforeItIsPublishedIsNotSent revokes the user after the request was allowed, once
// before its claim is recorded and once after: the revocation cancels what it finds, so the dispatch has to notice the rest.
func TestAJobWhoseUserIsRevokedBeforeItIsPublishedIsNotSent(t *testing.T) {
	for _, step := range dispatch.Steps[:2] {
		t.Run(step, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				var d decision
				s.hook = func(at string) {
					if at == step {
						d.set(errRevoked)
					}
				}
				s.master("m1", d.checksRevocation)
				s.peel("p1", pong)
				spec := ask(nil, "p1")
				_, err := s.request(s.alice, "alice", spec)
				wantCode(t, err, "403")
				time.Sleep(time.Minute)
				if n := s.sent("p1"); n != 0 {
					t.Errorf("it has %d requests", n)
				}
				if _, err := s.store.Get(t.Context(), spec.JID); !errors.Is(err, job.ErrNotFound) {
					t.Errorf("its record: %v", err)
				}
			})
		})
	}
}

// TestWhileRevocationsCannotBeReadNothingIsPublished has the check fail for another reason than a revocation.
func TestWhileRevocationsCannotBeReadNothingIsPublished(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var d decision
		d.set(errors.New("the bucket does not answer"))
		s.master("m1", d.checksRevocation)
		s.peel("p1", pong)
		_, err := s.request(s.alice, "alice", ask(nil, "p1"))
		wantCode(t, err, "503")
		if n := s.sent("p1"); n != 0 {
			t.Errorf("it has %d requests", n)
		}
	})
}

// TestAClaimOfARevokedUserIsNotPublishedByAnotherMaster has the master that recorded the claim die, and the other one know
// nothing but the revocation.
func TestAClaimOfARevokedUserIsNotPublishedByAnotherMaster(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var d decision
		spec, _, _ := takenOver(dispatch.Steps[1])(t, s, &d)
		d.set(errRevoked)
		s.whole("m2", nil, d.checksRevocation)
		time.Sleep(5 * time.Minute)
		if n := s.sent("late"); n != 0 {
			t.Errorf("it has %d requests", n)
		}
		if j := s.record(spec.JID); j.Status != job.Canceled || j.Cancel == nil || !strings.Contains(j.Cancel.Reason, "alice was revoked") {
			t.Errorf("%s, %+v", j.Status, j.Cancel)
		}
	})
}
