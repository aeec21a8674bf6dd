package dispatch_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// bound is within how long a dead master's jobs are taken over.
const bound = 55 * time.Second

func TestJobsOfADeadMasterAreTakenOverInTime(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1, m2 := s.master("m1"), s.master("m2")
		fast, slow := s.peel("fast", time.Second), s.peel("slow", 100*time.Second)
		spec := askFor(5*time.Minute, "fast", "slow")
		began := s.submit(m1, spec)
		time.Sleep(2 * time.Second)
		m1.kill()
		died := time.Now()
		for !m2.Watches(spec.JID) {
			if time.Sleep(time.Second); time.Since(died) > bound {
				t.Fatal("not taken over")
			}
		}
		if took := time.Since(died); took < 25*time.Second {
			t.Errorf("taken over after %v, before the owner was missed twice", took)
		}
		time.Sleep(3 * time.Second)
		if j := s.record(spec.JID); j.Owner != "m2/1" || j.ReclaimCount != 1 || j.Epoch <= began.Epoch || j.RequestEpoch != began.Epoch {
			t.Errorf("taken over as %+v", j)
		}
		time.Sleep(time.Minute)
		if j := s.ended(spec.JID, job.Complete); j.ReturnCount != 2 {
			t.Errorf("%d returns", j.ReturnCount)
		}
		if fast.ran(spec.JID) != 1 || slow.ran(spec.JID) != 1 {
			t.Errorf("ran %d and %d times", fast.ran(spec.JID), slow.ran(spec.JID))
		}
	})
}

// TestALiveRecordThatCannotBeDecodedStopsNoTakeOver has a damaged record among those of a dead master.
func TestALiveRecordThatCannotBeDecodedStopsNoTakeOver(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		s.master("m2")
		s.peel("a", time.Second)
		spec := askFor(5*time.Minute, "a", "away")
		s.submit(m1, spec)
		damaged := wire.NewJID()
		if _, err := s.js.Publish(t.Context(), "$KV.active."+string(damaged), []byte("damaged")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		m1.kill()
		time.Sleep(bound)
		if j := s.record(spec.JID); j.Owner != "m2/1" {
			t.Errorf("the owner is %s", j.Owner)
		}
		if ids, err := s.store.LiveIDs(t.Context()); err != nil || !ids[damaged] {
			t.Errorf("the damaged record is gone: %v, %v", ids, err)
		}
	})
}

func TestReturnsWhileNobodyWatchesAreFound(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		s.peel("before", 0)
		s.peel("while", 10*time.Second)
		s.peel("after", 90*time.Second)
		spec := askFor(5*time.Minute, "after", "before", "while")
		s.submit(m1, spec)
		time.Sleep(time.Second)
		m1.kill()
		s.master("m2")
		time.Sleep(2 * time.Minute)
		if j := s.ended(spec.JID, job.Complete); j.ReturnCount != 3 || j.Owner != "m2/1" {
			t.Errorf("%+v", j)
		}
		if peels := s.returned(spec.JID); len(peels) != len(spec.Targets) {
			t.Errorf("returns of %v are stored", peels)
		}
	})
}

func TestAJobThatIsCompleteWhenItIsTakenOverEndsAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		s.peel("a", 5*time.Second)
		spec := askFor(time.Hour, "a")
		s.submit(m1, spec)
		m1.kill()
		s.master("m2")
		time.Sleep(bound + 5*time.Second)
		s.ended(spec.JID, job.Complete)
	})
}

func TestATakenOverJobHasOnlyTheTimeThatIsLeft(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		s.peel("a", 5*time.Minute)
		spec := askFor(90*time.Second, "a")
		j := s.submit(m1, spec)
		m1.kill()
		s.master("m2")
		time.Sleep(time.Until(j.Deadline) - time.Second)
		if j := s.record(spec.JID); j.Status != job.Running || j.Owner != "m2/1" {
			t.Errorf("before the deadline: %+v", j)
		}
		time.Sleep(3 * time.Second)
		s.ended(spec.JID, job.Timeout)
	})
}

func TestAJobWhoseDeadlineHasPassedEndsWithWhatIsThere(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		s.peel("a", time.Second)
		slow := s.peel("b", 10*time.Minute)
		spec := askFor(20*time.Second, "a", "b")
		s.submit(m1, spec)
		m1.kill()
		time.Sleep(time.Minute)
		s.master("m2")
		time.Sleep(bound)
		if j := s.ended(spec.JID, job.Partial); j.ReturnCount != 1 {
			t.Errorf("%+v", j)
		}
		if slow.ran(spec.JID) != 1 {
			t.Errorf("the slow peel ran it %d times", slow.ran(spec.JID))
		}
	})
}

func TestACleanStopHandsJobsOverAtOnce(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1, m2 := s.master("m1"), s.master("m2")
		p := s.peel("a", 10*time.Second)
		var jids []wire.JID
		for range 6 { // more than are taken from the dead
			spec := askFor(time.Minute, "a")
			s.submit(m1, spec)
			jids = append(jids, spec.JID)
		}
		m1.stop()
		time.Sleep(time.Second)
		for _, jid := range jids {
			if j := s.record(jid); j.Owner != "m2/1" || j.ReclaimCount != 0 || !m2.Watches(jid) {
				t.Errorf("%+v", j)
			}
		}
		time.Sleep(12 * time.Second)
		for _, jid := range jids {
			s.ended(jid, job.Complete)
			if p.ran(jid) != 1 {
				t.Errorf("ran %d times", p.ran(jid))
			}
		}
	})
}

func TestAllMastersRestart(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		for _, end := range []func(*masterRun){func(m *masterRun) { m.stop() }, (*masterRun).kill} {
			m1, m2 := s.master("m1"), s.master("m2")
			p := s.peel("a", 20*time.Second)
			one, two := askFor(time.Minute, "a"), askFor(time.Minute, "a")
			s.submit(m1, one)
			s.submit(m2, two)
			time.Sleep(time.Second)
			end(m1)
			end(m2)
			time.Sleep(5 * time.Second)
			m1, m2 = s.master("m1"), s.master("m2") // under the same names, so nobody misses the old ones
			time.Sleep(30 * time.Second)
			for _, spec := range []job.Spec{one, two} {
				s.ended(spec.JID, job.Complete)
				if p.ran(spec.JID) != 1 {
					t.Errorf("ran %d times", p.ran(spec.JID))
				}
			}
			m1.stop()
			m2.stop()
			p.nc.Close()
		}
	})
}

func TestTheFourthDeathFailsTheJob(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		s.peel("a", time.Second)
		p := s.peel("b", 10*time.Minute)
		spec := askFor(time.Hour, "a", "b")
		m := s.master("m0")
		s.submit(m, spec)
		time.Sleep(2 * time.Second)
		for _, name := range []string{"m1", "m2", "m3", "m4"} {
			next := s.master(name)
			m.kill()
			m = next
			time.Sleep(bound + 5*time.Second)
		}
		j := s.ended(spec.JID, job.Failed)
		if j.ReclaimCount != 3 || j.Metadata[job.MetaFailedReason] != "its masters died 4 times, the last was m3" || j.ReturnCount != 1 {
			t.Errorf("%+v", j)
		}
		if p.ran(spec.JID) != 1 {
			t.Errorf("ran %d times", p.ran(spec.JID))
		}
	})
}

func TestOneMissedLookProvesNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1") // beats at 0 s, 5 s, 10 s, …
		time.Sleep(2500 * time.Millisecond)
		m2 := s.master("m2") // looks at 22.5 s, 42.5 s, 62.5 s, …
		s.peel("a", 4*time.Minute)
		spec := askFor(5*time.Minute, "a")
		s.submit(m1, spec)
		beats, err := s.js.KeyValue(t.Context(), "masters")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(19 * time.Second)
		for range 5 { // every other look
			if err := beats.Delete(t.Context(), "m1"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(40 * time.Second)
		}
		if j := s.record(spec.JID); j.Owner != "m1/1" || m2.Watches(spec.JID) {
			t.Errorf("%+v", j)
		}
		time.Sleep(time.Minute)
		s.ended(spec.JID, job.Complete)
	})
}

func TestHeartbeatsThatCannotBeReadProveNothing(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1, m2 := s.master("m1"), s.master("m2")
		s.peel("a", 4*time.Minute)
		spec := askFor(10*time.Minute, "a")
		s.submit(m1, spec)
		stream, err := s.js.Stream(t.Context(), "KV_masters")
		if err != nil {
			t.Fatal(err)
		}
		config := stream.CachedInfo().Config
		for _, loss := range []func() error{
			func() error { return s.js.DeleteStream(t.Context(), "KV_masters") }, // every read is an error
			func() error { // and now nobody's heartbeat can be written
				config.MaxMsgSize = 1
				_, err := s.js.CreateStream(t.Context(), config)
				return err
			},
		} {
			if err := loss(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(90 * time.Second)
			if j := s.record(spec.JID); j.Owner != "m1/1" || m2.Watches(spec.JID) {
				t.Errorf("%+v", j)
			}
		}
		time.Sleep(2 * time.Minute)
		s.ended(spec.JID, job.Complete)
	})
}

func TestOneOfManyMastersTakesAJobOver(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		others := []*masterRun{s.master("m2"), s.master("m3"), s.master("m4")}
		p := s.peel("a", 100*time.Second)
		var jids []wire.JID
		for range 20 {
			spec := askFor(5*time.Minute, "a")
			s.submit(m1, spec)
			jids = append(jids, spec.JID)
		}
		m1.kill()
		time.Sleep(bound + time.Second)
		for _, jid := range jids {
			watching := 0
			for _, m := range others {
				if m.Watches(jid) {
					watching++
				}
			}
			if j := s.record(jid); watching != 1 || j.ReclaimCount != 1 {
				t.Errorf("%d masters watch a job that was reclaimed %d times", watching, j.ReclaimCount)
			}
		}
		time.Sleep(2 * time.Minute)
		for _, jid := range jids {
			s.ended(jid, job.Complete)
			if p.ran(jid) != 1 {
				t.Errorf("ran %d times", p.ran(jid))
			}
		}
	})
}

// A job that another master has taken over since it was listed stays with that one.
func TestAJobThatWasTakenOverMeanwhileStaysThere(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		s.master("m1")
		m2 := s.master("m2")
		spec := askFor(time.Minute, "a")
		if err := spec.Normalize(time.Now()); err != nil {
			t.Fatal(err)
		}
		j := job.FromDispatch(spec, "alice", "m0/1", time.Now())
		if err := s.store.Create(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		listed := *j
		j.Owner, j.Status, j.Epoch = "m1/1", job.Running, j.Revision+1
		if err := s.store.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if err := m2.scanner.Reclaim(t.Context(), &listed); err != nil {
			t.Fatal(err)
		}
		if got := s.record(spec.JID); got.Owner != "m1/1" || got.Revision != j.Revision {
			t.Errorf("it is with %s, taken over %d times", got.Owner, got.ReclaimCount)
		}
	})
}

func TestACancelHoldsForWhoTakesTheJobOver(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		s.peel("a", 5*time.Minute)
		spec := askFor(time.Hour, "a")
		s.submit(m1, spec)
		m2 := s.master("m2")
		m1.kill()
		j, err := m2.Cancel(t.Context(), spec.JID, "bob", "")
		if err != nil || j.Cancel == nil || j.Cancel.By != "bob" {
			t.Fatalf("%+v, %v", j, err)
		}
		time.Sleep(bound + 15*time.Second)
		if j := s.ended(spec.JID, job.Canceled); j.Cancel.By != "bob" {
			t.Errorf("%+v", j)
		}
	})
}

// The targets of a canceled job have their ten seconds, although the clock of the master that canceled it is ahead.
func TestACancelByAnotherClockLeavesTheTargetsTime(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		s.peel("a", time.Hour)
		spec := askFor(10*time.Minute, "a")
		s.submit(m1, spec)
		m1.kill()
		j := s.record(spec.JID)
		j.Cancel = &job.Cancel{By: "bob", Time: time.Now().Add(20 * time.Minute)}
		j.Updated = j.Cancel.Time
		if err := s.store.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		s.master("m2")
		for range 60 {
			if j = s.record(spec.JID); j.Owner == "m2/1" {
				break
			}
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		if j = s.record(spec.JID); j.Status != job.Running || j.Owner != "m2/1" {
			t.Errorf("%s, with %s", j.Status, j.Owner)
		}
		time.Sleep(10 * time.Second)
		s.ended(spec.JID, job.Canceled)
	})
}

func TestTheNextTargetsOfATakenOverBatchHaveTheirWholeTime(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		m1 := s.master("m1")
		s.master("m2")
		for _, id := range []target.PeelID{"a", "b", "c"} {
			s.peel(id, 50*time.Second)
		}
		spec := askFor(time.Minute, "a", "b", "c")
		spec.Batch = &job.Batch{Size: 1}
		s.submit(m1, spec)
		time.Sleep(110 * time.Second) // c works, and the first target's time is over
		m1.stop()
		time.Sleep(time.Minute)
		if j := s.ended(spec.JID, job.Complete); j.Owner != "m2/1" {
			t.Errorf("it was not taken over: %+v", j)
		}
	})
}

func TestATakenOverJobHasTheTimeThatIsLeftWhateverItsOwnersClockSaid(t *testing.T) {
	for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		t.Run(ahead.String(), func(t *testing.T) {
			inCluster(t, func(t *testing.T, s *cluster) {
				m1 := s.master("m1")
				s.peel("quick", 2*time.Minute)
				s.peel("slow", time.Hour)
				spec := askFor(5*time.Minute, "quick", "slow")
				j := s.submit(m1, spec)
				until := j.Deadline
				m1.kill()
				// What is there now is what it would have written with a clock that is so far ahead.
				j = s.record(spec.JID)
				j.Created, j.Updated, j.Deadline, j.Sent = j.Created.Add(ahead), time.Now().Add(ahead), j.Deadline.Add(ahead), j.Sent.Add(ahead)
				if err := s.store.Update(t.Context(), j); err != nil {
					t.Fatal(err)
				}
				s.master("m2")
				time.Sleep(time.Until(until) - 2*time.Second)
				if j := s.record(spec.JID); j.Status != job.Running || j.Owner != "m2/1" {
					t.Errorf("before the deadline: %+v", j)
				}
				time.Sleep(5 * time.Second)
				s.ended(spec.JID, job.Partial)
			})
		})
	}
}

// TestAClaimWithoutItsTargetsIsWithdrawn has a master die between the record of a claim and its targets.
func TestAClaimWithoutItsTargetsIsWithdrawn(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		targets := make([]target.PeelID, 501)
		for i := range targets {
			targets[i] = target.PeelID(fmt.Sprintf("peel-%04d", i))
		}
		spec := askFor(5*time.Minute, targets...)
		j := job.FromDispatch(spec, "alice", "m0/1", time.Now())
		if err := s.store.Create(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		stream, err := s.js.Stream(t.Context(), "KV_active")
		if err == nil {
			err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.active.targets.>"))
		}
		if err != nil {
			t.Fatal(err)
		}
		s.master("m1")
		time.Sleep(bound)
		if _, err := s.store.Get(t.Context(), spec.JID); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("the claim: %v", err)
		}
		if s.active(spec.JID) || s.count(wire.StatusOf(spec.JID)) != 0 {
			t.Error("the claim is live, or its end was told")
		}
	})
}

// TestAClaimOfADeadMasterIsDispatched has a master stop for good after it made a claim.
func TestAClaimOfADeadMasterIsDispatched(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		s.master("m1")
		s.peel("a", time.Second)
		spec := askFor(5*time.Minute, "a")
		if err := spec.Normalize(time.Now()); err != nil {
			t.Fatal(err)
		}
		claim := job.FromDispatch(spec, "alice", "m0/1", time.Now())
		if err := s.store.Create(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
		time.Sleep(bound + 5*time.Second)
		if j := s.ended(spec.JID, job.Complete); claim.Revision == 0 || j.RequestEpoch <= claim.Revision {
			t.Errorf("the request has the epoch %d, and m0 may have sent one of %d", j.RequestEpoch, claim.Revision)
		}
	})
}

// A claim whose targets had no time left after the timeout of the job is not dispatched because it would wait for others.
func TestAClaimThatWaitsForPeelsIsNotDispatchedAfterItsTimeout(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		s.master("m1")
		p := s.peel("a", time.Second)
		spec := askFor(10*time.Second, "a")
		spec.WhenOnline = time.Hour
		if err := spec.Normalize(time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := s.store.Create(t.Context(), job.FromDispatch(spec, "alice", "m0/1", time.Now())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(bound)
		if s.ended(spec.JID, job.Timeout); p.ran(spec.JID) != 0 {
			t.Error("it ran")
		}
	})
}

// TestAClaimOfAnEndedJobIsNotDispatched has a claim stored that was in flight while another master ran the job to its end.
func TestAClaimOfAnEndedJobIsNotDispatched(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		s.runAndClaim(time.Minute, 0)
	})
}

// TestAnOverdueClaimOfAnEndedJobDoesNotEndItAgain has such a claim taken over after its deadline.
func TestAnOverdueClaimOfAnEndedJobDoesNotEndItAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		s.runAndClaim(10*time.Second, 0)
	})
}

// TestAClaimOfAnEndedJobWhoseMastersDieDoesNotEndItAgain has such a claim found after too many of its masters died.
func TestAClaimOfAnEndedJobWhoseMastersDieDoesNotEndItAgain(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		s.runAndClaim(time.Minute, dispatch.MaxReclaims)
	})
}

// runAndClaim runs a job to its end, then stores a claim with its ID, as a master that dies before it looks for an ended
// job, and fails the test unless the claim goes and the end stays.
func (s *cluster) runAndClaim(timeout time.Duration, reclaims int) {
	s.t.Helper()
	m1 := s.master("m1")
	p := s.peel("a", time.Second)
	spec := askFor(timeout, "a")
	s.submit(m1, spec)
	time.Sleep(5 * time.Second)
	end := s.ended(spec.JID, job.Complete)
	claim := job.FromDispatch(spec, "alice", "m0/1", time.Now())
	if claim.ReclaimCount = reclaims; reclaims > 0 {
		claim.Epoch = end.Epoch + uint64(reclaims) // of who took it over last
	}
	data, err := canon.Marshal(claim)
	if err == nil {
		_, err = s.js.Publish(s.t.Context(), "$KV.active."+string(spec.JID), data, jetstream.WithExpectLastSequencePerSubject(0))
	}
	if err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(bound)
	if j := s.ended(spec.JID, job.Complete); j.Revision != end.Revision {
		s.t.Errorf("the record was written again: %+v", j)
	}
	if p.ran(spec.JID) != 1 {
		s.t.Errorf("ran %d times", p.ran(spec.JID))
	}
}
