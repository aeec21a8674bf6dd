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
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
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
	live, err := s.store.ListLive(s.t.Context())
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
						if err := store.Convert(t.Context()); err != nil {
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
				if _, err := m.Cancel(t.Context(), old.Large, "bob"); err != nil {
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

func TestAJobOfAnEarlierVersionThatLostItsTargetsEnds(t *testing.T) {
	inCluster(t, func(t *testing.T, s *cluster) {
		old := s.load()
		stream, err := s.js.Stream(t.Context(), "KV_jobs")
		if err == nil {
			err = stream.Purge(t.Context(), jetstream.WithPurgeSubject("$KV.jobs.targets.>"))
		}
		if err == nil {
			err = s.store.Convert(t.Context())
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
		if err := s.store.Convert(t.Context()); err != nil {
			t.Fatal(err)
		}
		stray := "$KV.active.targets." + string(wire.NewJID()) + ".0"
		if _, err := s.js.Publish(t.Context(), stray, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := s.store.Convert(t.Context()); err != nil {
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
	for _, subject := range []string{"$KV.active.>", "$JS.API.STREAM.PURGE.>"} {
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
	_ = s.store.Convert(ctx)
	nc.Close()
}
