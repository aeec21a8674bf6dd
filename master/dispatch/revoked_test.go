package dispatch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"

	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/enroll"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// register has a dispatcher ask the register of peels.
func (s *system) register(o *dispatch.Options) {
	s.t.Helper()
	r, err := enroll.OpenRegister(s.t.Context(), s.js, "")
	if err != nil {
		s.t.Fatal(err)
	}
	o.Revoked = r.RevokedSince
}

// rejoins stores that a peel was revoked now, and that another host has joined under its name since.
func (s *system) rejoins(id target.PeelID) {
	s.t.Helper()
	kv, err := s.js.KeyValue(s.t.Context(), wire.BucketEnroll)
	if err != nil {
		s.t.Fatal(err)
	}
	e := credential.Enrolled{ID: id, Public: "UOLD", Ended: map[string]credential.End{"UOLD": {At: time.Now()}}}
	e.Enter(credential.Revoked, "alice")
	e.Public = "UNEW"
	e.Enter(credential.Accepted, "alice")
	data, err := canon.Marshal(e)
	if err == nil {
		_, err = kv.Put(s.t.Context(), "peel."+id.Wire(), data)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestAHostThatJoinsUnderTheNameOfARevokedPeelGetsNoEarlierJob holds it of what waits for a peel, of the next targets
// of a batch, and of a job that another master takes over.
func TestAHostThatJoinsUnderTheNameOfARevokedPeelGetsNoEarlierJob(t *testing.T) {
	t.Run("waits", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *system) {
			s.master("m1", s.register)
			spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "gone", "stays")
			s.dispatch(spec)
			time.Sleep(5 * time.Minute)
			s.rejoins("gone")
			gone, stays := s.peel("gone", pong), s.peel("stays", pong)
			gone.appears()
			stays.appears()
			time.Sleep(10 * time.Second)
			if j := s.record(spec.JID); j.Status != job.Partial || len(gone.requests()) != 0 || len(stays.requests()) != 1 {
				t.Errorf("%s, the host that joined has %d requests, the other %d", j.Status, len(gone.requests()),
					len(stays.requests()))
			}
			time.Sleep(5 * time.Minute) // a job that is made for the host that joined is its own
			s.dispatch(ask(nil, "gone"))
			time.Sleep(time.Second)
			if n := len(gone.requests()); n != 1 {
				t.Errorf("%d requests of its own job", n)
			}
		})
	})
	t.Run("by a clock behind", func(t *testing.T) { // so the revocation seems older than the job
		bubble(t, func(t *testing.T, s *system) {
			s.master("m1", s.register)
			s.rejoins("gone")
			time.Sleep(30 * time.Second)
			spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "gone")
			s.dispatch(spec)
			time.Sleep(5 * time.Minute)
			gone := s.peel("gone", pong)
			gone.appears()
			time.Sleep(10 * time.Second)
			if j := s.record(spec.JID); j.Status != job.Timeout || len(gone.requests()) != 0 {
				t.Errorf("%s, %d requests", j.Status, len(gone.requests()))
			}
		})
	})
	t.Run("batch", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *system) {
			s.master("m1", s.register)
			s.peel("p1", func(p *peel, r wire.Request) {
				p.ack(r)
				time.Sleep(5 * time.Minute)
				p.result(r, wire.Result{Success: true})
			})
			p2, p3 := s.peel("p2", pong), s.peel("p3", pong)
			spec := ask(func(j *job.Spec) { j.Timeout, j.Batch = time.Hour, &job.Batch{Size: 1} }, "p1", "p2", "p3")
			s.dispatch(spec)
			time.Sleep(4 * time.Minute)
			s.rejoins("p2")
			time.Sleep(2 * time.Minute)
			if j := s.record(spec.JID); j.Status != job.Partial || len(p2.requests()) != 0 || len(p3.requests()) != 1 {
				t.Errorf("%s, %d and %d requests", j.Status, len(p2.requests()), len(p3.requests()))
			}
		})
	})
	t.Run("taken over", func(t *testing.T) {
		bubble(t, func(t *testing.T, s *system) {
			m1 := s.whole("m1", nil, s.register)
			spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "gone")
			if _, err := m1.Submit(t.Context(), spec, "alice"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(5 * time.Minute)
			s.rejoins("gone")
			gone := s.peel("gone", pong)
			m1.kill()
			s.whole("m2", nil, s.register)
			time.Sleep(5 * time.Minute)
			if j := s.record(spec.JID); j.Status != job.Timeout || j.Owner != "m2/1" || len(gone.requests()) != 0 {
				t.Errorf("%s of %s, %d requests", j.Status, j.Owner, len(gone.requests()))
			}
		})
	})
}

// While the register cannot be read, nothing is sent and nobody is given up.
func TestAPeelWaitsForTheRegisterThatSaysWhetherItWasRevoked(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		var isAway atomic.Bool
		isAway.Store(true)
		s.master("m1", func(o *dispatch.Options) {
			s.register(o)
			read := o.Revoked
			o.Revoked = func(ctx context.Context, since time.Time, peels []target.PeelID) ([]target.PeelID, error) {
				if isAway.Load() {
					return nil, errors.New("the bus does not answer")
				}
				return read(ctx, since, peels)
			}
		})
		spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "later")
		s.dispatch(spec)
		time.Sleep(time.Minute)
		later := s.peel("later", pong)
		later.appears()
		time.Sleep(time.Minute)
		if j := s.record(spec.JID); j.Status.Final() || len(later.requests()) != 0 {
			t.Errorf("%s after %d requests", j.Status, len(later.requests()))
		}
		isAway.Store(false)
		time.Sleep(10 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || len(later.requests()) != 1 {
			t.Errorf("%s after %d requests", j.Status, len(later.requests()))
		}
	})
}
