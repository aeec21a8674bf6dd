package quota_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

const returns = "KV_job-returns"

func TestUnderSteadyLoadNothingIsRefused(t *testing.T) {
	for name, limits := range map[string][2]int64{"messages": {1000, 1 << 30}, "bytes": {1 << 30, 300_000}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				s.limit(returns, limits[0], limits[1])
				s.trimmer("m1")
				s.trimmer("m2")
				for i := range 160 { // four times what the stream holds
					for n := range 25 {
						if err := s.put(wire.NewJID(), fmt.Sprint("p", n), 100); err != nil {
							t.Fatalf("return %d was refused: %v", 25*i+n, err)
						}
					}
					time.Sleep(5 * time.Second)
					full := bucket.UsageOf(s.stream(returns).CachedInfo())
					if full.Full() > 0.85 || i > 80 && full.Full() < 0.65 {
						t.Fatalf("after %d returns the stream is %.0f %% full: %+v", 25*(i+1), full.Full()*100, full)
					}
				}
				if strings.Contains(s.said.String(), "WARN") {
					t.Errorf("logged %.2000s", &s.said)
				}
			})
		})
	}
}

func TestAStreamThatIsNotNearlyFullIsLeftAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.limit(returns, 1000, -1)
		s.trimmer("m1")
		for i := range 790 {
			if err := s.put(wire.NewJID(), fmt.Sprint("p", i), 10); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if n := s.state(returns).Msgs; n != 790 || s.said.String() != "" {
			t.Errorf("%d of 790 returns are left, logged %s", n, &s.said)
		}
	})
}

// TestReturnsOfALiveJobStay has live jobs' returns at the beginning, in the middle and at the end of a stream that is filled
// many times.
func TestReturnsOfALiveJobStay(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.limit(returns, 1000, -1)
		s.trimmer("m1")
		s.trimmer("m2")
		jobs := []wire.JID{wire.NewJID(), wire.NewJID()}
		s.lives(nil, jobs...)
		returned := map[string]wire.JID{}
		for i := range 5000 {
			if i%100 == 0 {
				peel := fmt.Sprint("live", i)
				returned[peel] = jobs[i%200/100]
				if err := s.put(returned[peel], peel, 10); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.put(wire.NewJID(), fmt.Sprint("p", i%40), 10); err != nil {
				t.Fatalf("return %d was refused: %v", i, err)
			}
			if i%50 == 49 {
				time.Sleep(6 * time.Second)
			}
		}
		for peel, jid := range returned {
			if !s.has(jid, peel) {
				t.Errorf("the return of %s for a live job is gone", peel)
			}
		}
		if n := s.state(returns).Msgs; n < 650 || n > 850 {
			t.Errorf("the stream holds %d messages", n)
		}
		s.lives(nil, jobs[1])
		for i := range 1000 {
			if err := s.put(wire.NewJID(), fmt.Sprint("p", i%40), 10); err != nil {
				t.Fatal(err)
			}
			if i%50 == 49 {
				time.Sleep(6 * time.Second)
			}
		}
		for peel, jid := range returned {
			if s.has(jid, peel) != (jid == jobs[1]) {
				t.Errorf("the return of %s: stored %v, the job lives %v", peel, s.has(jid, peel), jid == jobs[1])
			}
		}
	})
}

func TestWhereLiveJobsHoldAllTheStreamRefusesUntilOneEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.limit(returns, 200, -1)
		s.trimmer("m1")
		live := wire.NewJID()
		s.lives(nil, live)
		var err error
		n := 0
		for ; err == nil; n++ {
			if err = s.put(live, fmt.Sprint("p", n), 10); n%50 == 49 {
				time.Sleep(6 * time.Second)
			}
		}
		full := bucket.UsageOf(s.stream(returns).CachedInfo())
		if n != 201 || full.Full() != 1 || full.Err() == nil || !strings.Contains(full.Err().Error(), "KV_job-returns is 100 % full") {
			t.Errorf("return %d was refused with %v; %+v, %v", n, err, full, full.Err())
		}
		if said := s.said.String(); !strings.Contains(said, "live jobs hold the rest") || strings.Contains(said, "oldest messages purged") {
			t.Errorf("logged %s", said)
		}
		s.lives(nil)
		time.Sleep(6 * time.Second)
		if err := s.put(wire.NewJID(), "p", 10); err != nil || s.state(returns).Msgs != 141 {
			t.Errorf("after the job's end the stream holds %d messages, %v", s.state(returns).Msgs, err)
		}
	})
}

func TestNothingIsPurgedWhileTheLiveJobsAreNotKnown(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.limit(returns, 100, -1)
		s.lives(errors.New("the bucket does not answer"))
		s.trimmer("m1")
		for i := range 100 {
			if err := s.put(wire.NewJID(), fmt.Sprint("p", i), 10); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		if n := s.state(returns).Msgs; n != 100 || !strings.Contains(s.said.String(), "the bucket does not answer") {
			t.Errorf("%d of 100 returns are left, logged %s", n, &s.said)
		}
		s.lives(nil)
		time.Sleep(6 * time.Second)
		if n := s.state(returns).Msgs; n != 70 {
			t.Errorf("%d returns are left", n)
		}
	})
}

// TestReturnsOfALiveJobStayWhenItsRecordCannotBeDecoded has the trimmer read the live jobs as a master does.
func TestReturnsOfALiveJobStayWhenItsRecordCannotBeDecoded(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		store, err := job.NewStore(t.Context(), s.js)
		if err != nil {
			t.Fatal(err)
		}
		s.limit(returns, 1000, -1)
		s.startTrimmer("m1", store.LiveIDs)
		damaged := wire.NewJID()
		if _, err := s.js.Publish(t.Context(), "$KV.active."+string(damaged), []byte("damaged")); err != nil {
			t.Fatal(err)
		}
		if err := s.put(damaged, "early", 10); err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			if err := s.put(wire.NewJID(), fmt.Sprint("p", i%40), 10); err != nil {
				t.Fatalf("return %d was refused: %v", i, err)
			}
			if i%50 == 49 {
				time.Sleep(6 * time.Second)
			}
		}
		if !s.has(damaged, "early") {
			t.Error("the return for the job whose record is damaged is gone")
		}
	})
}

// TestMoreThanIsPurgedAtOnce has more returns between those of a live job than one step purges one by one.
func TestMoreThanIsPurgedAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		const n = 2200
		live := wire.NewJID()
		s.lives(nil, live)
		if err := s.put(live, "live", 10); err != nil {
			t.Fatal(err)
		}
		for i := range n {
			if _, err := s.js.PublishAsync(fmt.Sprintf("$KV.job-returns.%s.p%d", wire.NewJID(), i%40), nil); err != nil {
				t.Fatal(err)
			}
		}
		<-s.js.PublishAsyncComplete()
		s.limit(returns, 100, -1)
		s.trimmer("m1")
		time.Sleep(10 * time.Second)
		if n := s.state(returns).Msgs; n != 70 {
			t.Errorf("%d returns are left", n)
		}
		if !s.has(live, "live") {
			t.Error("the return of the live job is gone")
		}
	})
}
