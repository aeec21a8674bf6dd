package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/segmentio/ksuid"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func idOf(t *testing.T, when time.Time) wire.JID {
	t.Helper()
	id, err := ksuid.NewRandomWithTime(when)
	if err != nil {
		t.Fatal(err)
	}
	return wire.JID(id.String())
}

// claimed stores a claim as a master leaves it that stopped before the job was running.
func (s *system) claimed(spec job.Spec, user, owner string) *job.Job {
	s.t.Helper()
	if err := spec.Normalize(time.Now()); err != nil {
		s.t.Fatal(err)
	}
	j := job.FromDispatch(spec, user, owner, time.Now())
	if err := s.store.Create(s.t.Context(), j); err != nil {
		s.t.Fatal(err)
	}
	return j
}

func TestAClaimWasNeverPublished(t *testing.T) {
	// The stream of the events and the bucket of the records stop taking writes at each step in turn. As long as
	// the record says claimed, or is not there, no peel may have heard of the job.
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		p := s.peel("a", pong)
		spec := ask(nil, "a")

		s.refuse("active", true)
		_, err := s.request(s.alice, "alice", spec)
		wantCode(t, err, "503")
		if _, err := s.store.Get(t.Context(), spec.JID); err == nil || len(p.requests()) != 0 {
			t.Errorf("no claim could be written: %v, the peel has %d requests", err, len(p.requests()))
		}
		s.refuse("active", false)

		if err := s.js.DeleteStream(t.Context(), "job-events"); err != nil {
			t.Fatal(err)
		}
		_, err = s.request(s.alice, "alice", spec)
		wantCode(t, err, "503")
		if _, err := s.store.Get(t.Context(), spec.JID); !errors.Is(err, job.ErrNotFound) || len(p.requests()) != 0 {
			t.Errorf("without the event the claim is not withdrawn: %v, the peel has %d requests", err, len(p.requests()))
		}
		if _, err := natsd.Provision(t.Context(), s.js, bucket.Kept{}); err != nil {
			t.Fatal(err)
		}
		s.dispatch(spec)
		if n := len(p.requests()); n != 1 || s.record(spec.JID).Status != job.Complete {
			t.Errorf("a retry sent %d requests, the job is %s", n, s.record(spec.JID).Status)
		}
	})
}

func TestAFailedChangeToRunningPublishesNothingAndARetryOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		p := s.peel("a", pong)
		spec := ask(nil, "a")
		// The event is recorded after the claim and before the change to running. Here the bucket is closed before it
		// is acknowledged.
		if err := s.js.DeleteStream(t.Context(), "job-events"); err != nil {
			t.Fatal(err)
		}
		sub, err := s.js.Conn().Subscribe(wire.DispatchOf("*"), func(msg *nats.Msg) {
			s.refuse("active", true)
			if err := msg.Respond([]byte(`{"stream":"job-events","seq":1}`)); err != nil {
				t.Error(err)
			}
		})
		if err == nil {
			err = s.js.Conn().Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.request(s.alice, "alice", spec)
		wantCode(t, err, "503")
		if j := s.record(spec.JID); j.Status != job.Claimed || len(p.requests()) != 0 {
			t.Fatalf("the job is %s and the peel has %d requests", j.Status, len(p.requests()))
		}
		if err := sub.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		if _, err := natsd.Provision(t.Context(), s.js, bucket.Kept{}); err != nil { // which opens the bucket, too
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		j := s.dispatch(spec)
		if n := len(p.requests()); n != 1 || s.record(spec.JID).Status != job.Complete {
			t.Errorf("%d requests, the job is %s", n, s.record(spec.JID).Status)
		}
		if left := time.Until(j.Deadline); left < 59*time.Second {
			t.Errorf("the retry leaves %v until the deadline", left)
		}
	})
}

func TestARepeatedRequestGetsTheJobAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.master("m2")
		p := s.peel("a", func(p *peel, r wire.Request) {
			p.ack(r)
			time.Sleep(5 * time.Second)
			p.result(r, wire.Result{Success: true})
		})
		spec := ask(nil, "a")
		var answers sync.WaitGroup
		for range 10 {
			answers.Go(func() {
				if _, err := s.request(s.alice, "alice", spec); err != nil {
					if e, ok := err.(*answerError); !ok || e.code != "503" {
						t.Error(err)
					}
				}
			})
		}
		answers.Wait()
		time.Sleep(time.Second)
		for range 5 {
			if j := s.dispatch(spec); j.Status != job.Running {
				t.Errorf("while it runs: %s", j.Status)
			}
		}
		time.Sleep(10 * time.Second)
		if j := s.dispatch(spec); j.Status != job.Complete || j.ReturnCount != 1 {
			t.Errorf("when it has ended: %+v", j)
		}
		if n := len(p.requests()); n != 1 {
			t.Errorf("the peel has %d requests", n)
		}
	})
}

func TestAnIDThatIsTakenIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		p := s.peel("a", pong)
		spec := ask(nil, "a")
		s.dispatch(spec)
		other := spec
		other.Function, other.Args = "cmd.run", map[string]any{"command": "id"}
		_, err := s.request(s.alice, "alice", other)
		wantCode(t, err, "409")
		claim := ask(nil, "a")
		s.claimed(claim, "bob", "m1")
		_, err = s.request(s.alice, "alice", claim)
		wantCode(t, err, "409")
		if n := len(p.requests()); n != 1 {
			t.Errorf("the peel has %d requests", n)
		}
	})
}

// Bob asks for exactly what alice asks for, under the ID of her job, at each step of its dispatch, while it runs, and when it
// has ended.
func TestAJobIsOfTheUserWhoAskedForItAtEveryStep(t *testing.T) {
	for _, step := range append(slices.Clone(dispatch.Steps), "it runs", "it has ended") {
		t.Run(step, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				bob := s.bus.Conn(t, grants.RoleOperator, "bob")
				spec := ask(func(j *job.Spec) { j.Timeout = time.Minute }, "a")
				asked := make(chan error, 10)
				begin := func() { _, err := s.request(bob, "bob", spec); asked <- err }
				reached := false
				s.hook = func(at string) {
					if at == step && !reached {
						reached = true
						go begin()
						time.Sleep(100 * time.Millisecond) // the request of bob comes first
					}
				}
				s.master("m1")
				s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
				if _, err := s.request(s.alice, "alice", spec); err != nil {
					t.Fatal(err)
				}
				if step == "it has ended" {
					time.Sleep(5 * time.Minute)
				}
				if !reached {
					begin()
				}
				time.Sleep(5 * time.Minute)
				wantCode(t, <-asked, "409")
				if j := s.record(spec.JID); j.User != "alice" {
					t.Errorf("the job is of %s", j.User)
				}
			})
		})
	}
}

func TestALiveClaimOfAnotherMasterIsItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		_, stop := s.master("m1")
		p := s.peel("a", pong)
		spec := ask(nil, "a")
		s.claimed(spec, "alice", "m2")
		_, err := s.request(s.alice, "alice", spec)
		wantCode(t, err, "503")
		if j := s.record(spec.JID); j.Owner != "m2" || j.Status != job.Claimed || len(p.requests()) != 0 {
			t.Errorf("%+v, the peel has %d requests", j, len(p.requests()))
		}
		stop()
		s.master("m2")
		if j := s.dispatch(spec); j.Owner != "m2" || len(p.requests()) != 1 {
			t.Errorf("asked again, its owner dispatched %+v with %d requests", j, len(p.requests()))
		}
	})
}

// A request is repeated at another master while the first one stores the targets of its claim: the claim stays.
func TestAClaimThatAnotherMasterIsStoringIsLeftToIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		targets := make([]target.PeelID, 501)
		for i := range targets {
			targets[i] = target.PeelID(fmt.Sprintf("peel-%04d", i))
		}
		spec := ask(nil, targets...)
		s.claimed(spec, "alice", "m2")
		stream, err := s.js.Stream(t.Context(), "KV_active")
		if err == nil {
			err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.active.targets.>"))
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.request(s.alice, "alice", spec)
		wantCode(t, err, "503")
		if j, err := s.store.GetRecord(t.Context(), spec.JID); err != nil || j.Owner != "m2" {
			t.Errorf("the claim is %+v, %v", j, err)
		}
	})
}

// A repeated request continues the claim of the first one, also for its targets: the caller must still be allowed those.
func TestAContinuedClaimNeedsThePermissionForItsTargets(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1", func(o *dispatch.Options) {
			o.Allow = func(_ context.Context, _ grants.Caller, spec *job.Spec) error {
				if slices.Contains(spec.Targets, "secret") {
					return grants.ErrNotAllowed
				}
				return nil
			}
		})
		p := s.peel("secret", pong)
		spec := ask(func(j *job.Spec) { j.TargetExpr = "*" }, "a", "secret")
		s.claimed(spec, "alice", "m1")
		spec.Targets = []target.PeelID{"a"} // what the expression selects now
		_, err := s.request(s.alice, "alice", spec)
		wantCode(t, err, "403")
		if n := len(p.requests()); n != 0 {
			t.Errorf("the peel has %d requests", n)
		}
	})
}

func TestReturnsAreStoredBeforeTheyCount(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		s.peel("a", pong)
		s.peel("b", pong)
		other := s.peel("c", pong)
		s.refuse("job-returns", true)
		spec := ask(nil, "a", "b")
		s.dispatch(spec)
		time.Sleep(45 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Running || d.Stats().Stored != 0 {
			t.Errorf("with returns that cannot be stored the job is %s", j.Status)
		}
		// Other jobs are dispatched meanwhile.
		s.dispatch(ask(nil, "c"))
		if time.Sleep(6 * time.Second); len(other.requests()) != 1 {
			t.Errorf("another target has %d requests", len(other.requests()))
		}
		s.refuse("job-returns", false)
		time.Sleep(6 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 2 {
			t.Errorf("%+v", j)
		}
		for _, id := range spec.Targets {
			if row := s.rows(spec.JID)[id]; row.Return == nil {
				t.Errorf("%s: %+v", id, row)
			}
		}
		if st := d.Stats(); st.Stored != 3 {
			t.Errorf("%+v", st)
		}
	})
}

func TestTheEndIsWrittenWhenTheBucketIsBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		spec := ask(nil, "a")
		s.peel("a", func(p *peel, r wire.Request) {
			s.refuse("active", true)
			pong(p, r)
		})
		s.dispatch(spec)
		time.Sleep(time.Minute)
		if j := s.record(spec.JID); j.Status != job.Running || !s.active(spec.JID) {
			t.Errorf("the job is %s, live %v", j.Status, s.active(spec.JID))
		}
		s.refuse("active", false)
		time.Sleep(6 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || s.active(spec.JID) || d.Stats().Retried == 0 {
			t.Errorf("the job is %s, live %v, %+v", j.Status, s.active(spec.JID), d.Stats())
		}
	})
}

func TestAStaleOwnerDoesNotWriteTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		p := s.peel("a", nil)
		spec := ask(nil, "a")
		s.dispatch(spec)
		taken := s.record(spec.JID)
		taken.Owner, taken.Epoch, taken.ReclaimCount = "m2", taken.Revision+1, 1
		if err := s.store.Update(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
		pong(p, p.requests()[0])
		time.Sleep(time.Second)
		if j := s.record(spec.JID); j.Status != job.Running || j.Owner != "m2" || !s.active(spec.JID) {
			t.Errorf("%+v, live %v", j, s.active(spec.JID))
		}
		if st := d.Stats(); st.Fenced != 1 || st.Ended[job.Complete] != 0 {
			t.Errorf("%+v", st)
		}
		if row := s.rows(spec.JID)["a"]; row.Return == nil {
			t.Errorf("the return that the stale owner received: %+v", row)
		}
	})
}

func TestWhoAsksAgainForATakenOverJobDoesNotStartItAnew(t *testing.T) {
	// m2 took the job over when m1 had released it, and got no answer to that write. So it owns a running job that it
	// does not watch, and must not take it for one of its own whose requests were never sent.
	bubble(t, func(t *testing.T, s *system) {
		_, stop := s.master("m1")
		p := s.peel("a", nil)
		spec := ask(nil, "a")
		s.dispatch(spec)
		s.master("m2")
		time.Sleep(time.Second)
		taken := s.record(spec.JID)
		taken.Owner, taken.Epoch, taken.Updated = "m2", taken.Revision+1, time.Now()
		if err := s.store.Update(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second) // in which m1 lets go of it
		stop()
		if j := s.dispatch(spec); j.Status != job.Running || j.Owner != "m2" {
			t.Errorf("%+v", j)
		}
		for _, r := range p.requests() {
			if r.Epoch != taken.RequestEpoch {
				t.Errorf("a request under epoch %d, the job was sent under %d", r.Epoch, taken.RequestEpoch)
			}
		}
	})
}

func TestAChangeOfTheRecordByOthersIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		p := s.peel("a", nil)
		spec := ask(nil, "a")
		s.dispatch(spec)
		noted := s.record(spec.JID)
		noted.Metadata = map[string]string{"note": "kept"}
		if err := s.store.Update(t.Context(), noted); err != nil {
			t.Fatal(err)
		}
		pong(p, p.requests()[0])
		time.Sleep(time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.Metadata["note"] != "kept" || s.active(spec.JID) {
			t.Errorf("%+v", j)
		}
	})
}

func TestAMasterThatStopsReleasesItsJobs(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		_, stop := s.master("m1")
		s.peel("a", pong)
		s.peel("b", nil)
		spec := ask(nil, "a", "b")
		s.dispatch(spec)
		stop()
		if j := s.record(spec.JID); j.Status != job.Running || j.Owner != "" || !s.active(spec.JID) {
			t.Errorf("%+v", j)
		}
		if row := s.rows(spec.JID)["a"]; row.Return == nil {
			t.Errorf("%+v", row)
		}
		if _, err := s.request(s.alice, "alice", ask(nil, "a")); err == nil {
			t.Error("a stopped master took a job")
		}
	})
}

func TestARestartOfTheBusLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("a", func(p *peel, r wire.Request) {
			p.ack(r)
			time.Sleep(30 * time.Second)
			p.result(r, wire.Result{Success: true})
		})
		spec := ask(nil, "a")
		s.dispatch(spec)
		time.Sleep(5 * time.Second)
		s.bus.Restart(t)
		time.Sleep(40 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || s.active(spec.JID) {
			t.Errorf("%+v", j)
		}
	})
}

func TestStatusEventTellsTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("a", pong)
		spec := ask(func(j *job.Spec) { j.Function, j.Args = "test.echo", map[string]any{"text": "secret"} }, "a")
		sub, err := s.alice.SubscribeSync(wire.StatusOf(spec.JID))
		if err == nil {
			err = s.alice.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
		s.dispatch(spec)
		msg, err := sub.NextMsg(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var e struct {
			Type string  `json:"type"`
			Data job.Job `json:"data"`
		}
		if err := canon.Unmarshal(msg.Data, &e); err != nil || e.Type != "status" || e.Data.Status != job.Complete ||
			e.Data.ReturnCount != 1 || e.Data.Args != nil || e.Data.Targets != nil {
			t.Errorf("%+v, %v", e, err)
		}
		synctest.Wait()
	})
}

func TestAReturnThatIsStoredAfterTheEndOfACanceledJobIsLate(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		s.peel("a", pong)
		s.peel("b", nil)
		spec := ask(nil, "a", "b")
		s.refuse("job-returns", true)
		s.dispatch(spec)
		time.Sleep(time.Second)
		if _, err := d.Cancel(t.Context(), spec.JID, "alice", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if j := s.record(spec.JID); j.Status != job.Canceled || j.ReturnCount != 0 {
			t.Errorf("%+v", j)
		}
		s.refuse("job-returns", false)
		time.Sleep(10 * time.Second)
		if j, row := s.record(spec.JID), s.rows(spec.JID)["a"]; j.ReturnCount != 0 || row.State != job.RowOK || !row.Late {
			t.Errorf("%+v, %+v", j, row)
		}
	})
}

// A master that has taken a job over does not know who has the request. The epoch of the request tells the peels.
func TestAMasterThatTakesOverSendsAgainToTargetsThatHaveNotReturned(t *testing.T) {
	for name, end := range map[string]func(*whole){"released": func(m *whole) { m.stop() }, "dead": func(m *whole) { m.kill() }} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				m1 := s.whole("m1", nil)
				var mu sync.Mutex
				ran := map[target.PeelID]int{} // guarded by mu
				work := func(p *peel, r wire.Request) {
					p.ack(r)
					mu.Lock()
					ran[p.id]++
					mu.Unlock()
					if p.id == "slow" {
						time.Sleep(3 * time.Minute)
					}
					p.deliver(r, wire.Result{Success: true})
				}
				quick, slow := s.peel("quick", work), s.peel("slow", work)
				spec := ask(func(j *job.Spec) { j.Timeout = 10 * time.Minute }, "away", "quick", "slow")
				if _, err := m1.Submit(t.Context(), spec, "alice"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				end(m1)
				s.whole("m2", nil)
				time.Sleep(time.Minute)
				s.peel("away", nil)
				if q, sl := len(quick.requests()), slow.requests(); q != 1 || len(sl) != 2 || sl[0].Epoch != sl[1].Epoch {
					t.Errorf("quick has %d requests, slow %+v", q, sl)
				}
				time.Sleep(4 * time.Minute)
				mu.Lock()
				if j := s.record(spec.JID); j.Owner != "m2/1" || j.Status != job.Running || ran["quick"] != 1 || ran["slow"] != 1 {
					t.Errorf("owner %s, %s, ran %v", j.Owner, j.Status, ran)
				}
				mu.Unlock()
				time.Sleep(6 * time.Minute)
				if j := s.record(spec.JID); j.Status != job.Partial || j.ReturnCount != 2 {
					t.Errorf("%+v", j)
				}
			})
		})
	}
}

func TestAReturnThatIsStoredAfterATakeOverCounts(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		m1, m2 := s.whole("m1", nil), s.whole("m2", nil)
		s.peel("a", nil)
		spec := ask(nil, "a")
		if _, err := m1.Submit(t.Context(), spec, "alice"); err != nil {
			t.Fatal(err)
		}
		m1.stop()
		time.Sleep(5 * time.Second) // after which the bucket has been read
		if !m2.Watches(spec.JID) {
			t.Fatal("not taken over")
		}
		data, err := canon.Marshal(wire.Return{JID: spec.JID, Peel: "a", Result: wire.Result{Success: true}, V: wire.Version})
		if err == nil {
			_, err = s.js.PublishMsg(t.Context(), job.ReturnMessage(spec.JID, "a", data))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 1 {
			t.Errorf("%+v", j)
		}
	})
}

func TestTheFirstReturnIsNotReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		spec := ask(nil, "a")
		s.peel("a", func(p *peel, r wire.Request) {
			p.ack(r)
			time.Sleep(5 * time.Second)
			p.result(r, wire.Result{Success: true})
		})
		s.dispatch(spec)
		data, err := canon.Marshal(wire.Return{JID: spec.JID, Peel: "a", Result: wire.Result{Success: true, Data: "first"}, V: wire.Version})
		if err == nil {
			_, err = s.js.PublishMsg(t.Context(), job.ReturnMessage(spec.JID, "a", data))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || d.Stats().Retried != 0 {
			t.Errorf("%+v, %+v", j, d.Stats())
		}
		if r := s.rows(spec.JID)["a"].Return; r == nil || r.Data != "first" {
			t.Errorf("stored is %+v", r)
		}
	})
}

// A watch follows a job under one epoch. That the owner is the same does not make the job its own: it may have been
// taken over, released and taken back meanwhile.
func TestAWatchLetsGoOfAJobThatItsOwnMasterTookBackUnderAHigherEpoch(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		p := s.peel("a", func(p *peel, r wire.Request) {
			p.ack(r)
			time.Sleep(5 * time.Second)
			p.result(r, wire.Result{Success: true})
		})
		spec := ask(nil, "a")
		s.dispatch(spec)
		taken := s.record(spec.JID)
		taken.Epoch, taken.Updated = taken.Revision+1, time.Now()
		if err := s.store.Update(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if len(p.requests()) != 1 || d.Watches(spec.JID) {
			t.Fatalf("%d requests, watched %v", len(p.requests()), d.Watches(spec.JID))
		}
		if j := s.record(spec.JID); j.Status != job.Running || j.Epoch != taken.Epoch || d.Stats().Fenced != 1 {
			t.Errorf("a watch of an earlier epoch ended the job as %s, fenced %d times", j.Status, d.Stats().Fenced)
		}
	})
}
