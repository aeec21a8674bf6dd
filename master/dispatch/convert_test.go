package dispatch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// oneBucket is what a master wrote that kept live and ended jobs in the bucket jobs, with an index of the live ones. It
// was killed while two jobs waited for targets that were away, and another master after it made a claim.
type oneBucket struct {
	Ended, Online, Large, Claim, Run wire.JID
	Jobs                             []struct {
		Subject string
		Header  nats.Header
		Data    []byte
	}
}

// before is how many messages the bucket jobs had before, so that its sequences are above those of the bucket active.
const before = 100

func (s *cluster) load() *oneBucket {
	s.t.Helper()
	data, err := os.ReadFile("testdata/jobs-one-bucket.json")
	old := new(oneBucket)
	if err == nil {
		err = json.Unmarshal(data, old)
	}
	for range before {
		if err == nil {
			_, err = s.js.Publish(s.t.Context(), "$KV.jobs.before", nil)
		}
	}
	for _, m := range old.Jobs {
		if err == nil {
			_, err = s.js.PublishMsg(s.t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return old
}

// converted fails the test unless the live jobs are in their own bucket alone, and the ended ones where they were.
func (s *cluster) converted(old *oneBucket) {
	s.t.Helper()
	live, _, err := s.store.ListLive(s.t.Context())
	if err != nil || len(live) != 3 {
		s.t.Fatalf("%d live jobs, %v", len(live), err)
	}
	for jid, targets := range map[wire.JID]int{old.Online: 2, old.Large: 601, old.Claim: 1} {
		j, err := s.store.Get(s.t.Context(), jid)
		if err != nil || !j.Live || len(j.Targets) != targets || !slices.IsSorted(j.Targets) || j.Epoch <= before {
			s.t.Errorf("the live job with %d targets: %+v, %v", targets, j, err)
		}
	}
	for _, jid := range []wire.JID{old.Ended, old.Run} {
		if j, err := s.store.Get(s.t.Context(), jid); err != nil || j.Live || j.Status != job.Complete {
			s.t.Errorf("an ended job: %+v, %v", j, err)
		}
	}
	stream, err := s.js.Stream(s.t.Context(), "KV_jobs")
	if err != nil {
		s.t.Fatal(err)
	}
	info, err := stream.Info(s.t.Context(), jetstream.WithSubjectFilter("$KV.jobs.>"))
	if err != nil {
		s.t.Fatal(err)
	}
	for subject := range info.State.Subjects {
		if subject != "$KV.jobs.before" && !strings.HasSuffix(subject, string(old.Ended)) && !strings.HasSuffix(subject, string(old.Run)) {
			s.t.Errorf("the bucket jobs has %s", subject)
		}
	}
}

// TestJobsOfAnEarlierVersionGoOn cuts the conversion off at each of its writes, and has two masters repeat it at once.
func TestJobsOfAnEarlierVersionGoOn(t *testing.T) {
	for cut := range 14 {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			inCluster(t, func(t *testing.T, s *cluster) {
				old := s.load()
				s.cutConversion(cut)
				var both sync.WaitGroup
				for range 2 {
					store, err := job.NewStore(t.Context(), s.bus.JetStream(t))
					if err != nil {
						t.Fatal(err)
					}
					both.Go(func() {
						if _, err := store.Convert(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				s.converted(old)
				s.peel("a", time.Second)
				s.peel("away", time.Second)
				m := s.master("m9")
				time.Sleep(2 * bound)
				s.ended(old.Online, job.Complete)
				s.ended(old.Claim, job.Complete)
				if _, err := m.Cancel(t.Context(), old.Large, "bob", ""); err != nil {
					t.Fatal(err)
				}
				time.Sleep(bound)
				if j := s.ended(old.Large, job.Canceled); j.ReturnCount != 1 || len(j.Targets) != 601 {
					t.Errorf("%d returns of %d targets", j.ReturnCount, len(j.Targets))
				}
			})
		})
	}
}

// TestARecordOfAnEarlierVersionThatCannotBeDecodedIsSkipped has the record of one live job damaged. The others go on, and the
// damaged one stays where it is.
func TestARecordOfAnEarlierVersionThatCannotBeDecodedIsSkipped(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		old := s.load()
		damaged := wire.NewJID()
		record, index := "$KV.jobs."+string(damaged), "$KV.jobs.active."+string(damaged)
		for _, subject := range []string{record, index} {
			if _, err := s.js.Publish(t.Context(), subject, []byte("damaged")); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			skipped, err := s.store.Convert(t.Context())
			if err != nil || len(skipped) != 1 || !strings.Contains(skipped[0].Error(), string(damaged)) {
				t.Fatalf("skipped %v, %v", skipped, err)
			}
		}
		stream, err := s.js.Stream(t.Context(), "KV_jobs")
		if err != nil {
			t.Fatal(err)
		}
		for _, subject := range []string{record, index} {
			if _, err := stream.GetLastMsgForSubject(t.Context(), subject); err != nil {
				t.Errorf("%s: %v", subject, err)
			}
			if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(subject)); err != nil {
				t.Fatal(err)
			}
		}
		s.converted(old)
	})
}

// An earlierReturn is in the stream job-events or in the bucket job-returns.
type earlierReturn struct {
	peel    target.PeelID
	success bool
}

// earlierReturns stores returns of a job as an earlier version kept them: those that peels published in the stream job-events, and
// those that a master had copied in the bucket job-returns. Then it provisions the streams as this version does.
func (s *cluster) earlierReturns(jid wire.JID, published, copied []earlierReturn) {
	s.t.Helper()
	ctx := s.t.Context()
	config := func(name string) jetstream.StreamConfig {
		stream, err := s.js.Stream(ctx, name)
		if err != nil {
			s.t.Fatal(err)
		}
		return stream.CachedInfo().Config
	}
	returns, events := config("KV_job-returns"), config("job-events")
	returns.Subjects, returns.SubjectTransform = []string{"$KV.job-returns.>"}, nil
	events.Subjects = append(events.Subjects, wire.ReturnOf("*", "*"))
	for _, c := range []jetstream.StreamConfig{returns, events} {
		if _, err := s.js.UpdateStream(ctx, c); err != nil {
			s.t.Fatal(err)
		}
	}
	put := func(subject string, r earlierReturn) {
		data, err := canon.Marshal(wire.Return{
			JID: jid, Peel: r.peel, Result: wire.Result{Success: r.success}, Epoch: 2, Finished: time.Now(), V: wire.Version,
		})
		if err == nil {
			_, err = s.js.Publish(ctx, subject, data)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for _, r := range published {
		put(wire.ReturnOf(jid, r.peel.Wire()), r)
	}
	for _, r := range copied {
		put("$KV.job-returns."+string(jid)+"."+r.peel.Wire(), r)
	}
	if _, err := natsd.Provision(ctx, s.js, bucket.Kept{}); err != nil {
		s.t.Fatal(err)
	}
}

// returned says who has returned for a job by the bucket job-returns, in the order of storing.
func (s *cluster) returned(jid wire.JID) (peels []string) {
	s.t.Helper()
	if err := s.store.Stored(s.t.Context(), jid, func(r job.StoredReturn) { peels = append(peels, r.Sender) }); err != nil {
		s.t.Fatal(err)
	}
	return peels
}

// TestReturnsThatOnlyAnEarlierVersionHasCount has a target that was stopped for good after it had returned, and no master
// that had copied its return.
func TestReturnsThatOnlyAnEarlierVersionHasCount(t *testing.T) {
	for cut := range 16 {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			inCluster(t, func(t *testing.T, s *cluster) {
				old := s.load()
				s.earlierReturns(old.Online, []earlierReturn{{"a", false}, {"away", true}, {"away", false}, {"other", true}}, []earlierReturn{{"a", true}})
				s.cutConversion(cut)
				var both sync.WaitGroup
				for range 2 {
					store, err := job.NewStore(t.Context(), s.bus.JetStream(t))
					if err != nil {
						t.Fatal(err)
					}
					both.Go(func() {
						if _, err := store.Convert(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				both.Wait()
				s.converted(old)
				if peels := s.returned(old.Online); !slices.Equal(peels, []string{"a", "away"}) {
					t.Errorf("the bucket has returns of %v", peels)
				}
				s.master("m9")
				time.Sleep(2 * bound)
				if j := s.ended(old.Online, job.Complete); j.ReturnCount != 2 || j.SuccessCount != 2 {
					t.Errorf("%d returns, %d successes", j.ReturnCount, j.SuccessCount)
				}
			})
		})
	}
}

// A bucket that is full would keep all masters from starting, and no master would make room.
func TestAFullBucketOfReturnsDoesNotStopTheConversion(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		old := s.load()
		s.earlierReturns(old.Online, []earlierReturn{{"away", true}}, []earlierReturn{{"a", true}})
		stream, err := s.js.Stream(t.Context(), "KV_job-returns")
		if err != nil {
			t.Fatal(err)
		}
		full := stream.CachedInfo().Config
		full.MaxMsgs = 1
		if _, err := s.js.UpdateStream(t.Context(), full); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Convert(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.converted(old)
		if peels := s.returned(old.Online); !slices.Equal(peels, []string{"a"}) || s.count(wire.ReturnOf(old.Online, "away")) != 1 {
			t.Errorf("the bucket has returns of %v; the return that found no room is gone from job-events", peels)
		}
	})
}

func TestAJobOfAnEarlierVersionThatLostItsTargetsEnds(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		old := s.load()
		stream, err := s.js.Stream(t.Context(), "KV_jobs")
		if err == nil {
			err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.jobs.targets.>"))
		}
		if err == nil {
			_, err = s.store.Convert(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if j := s.ended(old.Large, job.Failed); !strings.Contains(j.Metadata[job.MetaFailedReason], "its list of 601 targets was lost") {
			t.Errorf("%+v", j)
		}
	})
}

// TestTargetsWithoutARecordAreRemoved has a master stop between the removal of a record and that of its targets.
func TestTargetsWithoutARecordAreRemoved(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		old := s.load()
		if _, err := s.store.Convert(t.Context()); err != nil {
			t.Fatal(err)
		}
		stray := "$KV.active.targets." + string(wire.NewJID()) + ".0"
		if _, err := s.js.Publish(t.Context(), stray, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.store.Convert(t.Context()); err != nil {
			t.Fatal(err)
		}
		stream, err := s.js.Stream(t.Context(), "KV_active")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.GetLastMsgForSubject(t.Context(), stray); !errors.Is(err, jetstream.ErrMsgNotFound) {
			t.Errorf("the stray targets: %v", err)
		}
		s.converted(old)
	})
}

// cutConversion ends a conversion when so many of its writes were sent.
func (s *cluster) cutConversion(writes int) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	nc := s.bus.Conn(s.t, grants.RoleMaster, "spy")
	var mu sync.Mutex
	heard := 0
	for _, subject := range []string{"$KV.active.>", "$KV.job-returns.>", "$JS.API.STREAM.PURGE.>"} {
		if _, err := nc.Subscribe(subject, func(*nats.Msg) {
			mu.Lock()
			defer mu.Unlock()
			if heard++; heard >= writes {
				cancel()
			}
		}); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		s.t.Fatal(err)
	}
	_, _ = s.store.Convert(ctx)
	nc.Close()
}
