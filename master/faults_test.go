package master_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// A moment is when a message on a subject passes for the n-th time.
type moment struct {
	subject string
	n       int
}

func (m moment) String() string { return fmt.Sprintf("%s %d", m.subject, m.n) }

// moments are those of the life of a job on three peels.
var moments = []moment{
	{"$KV.active.>", 1},
	{wire.DispatchOf("*"), 1},
	{"$KV.active.>", 2},
	{wire.Cmd("*"), 1},
	{wire.Cmd("*"), 3},
	{wire.AckOf("*", "*"), 2},
	{wire.ReturnOf("*", "*"), 1},
	{wire.StoredOf("*", "*"), 1},
	{wire.ReturnOf("*", "*"), 3},
	{"$KV.active.>", 3},
	{"$KV.jobs.>", 1},
	{wire.StatusOf("*"), 1},
	{"$JS.API.STREAM.PURGE.KV_active", 1},
}

// at has f called once, at a moment that comes before off is called.
func (s *site) at(m moment, f func()) (off func()) {
	s.t.Helper()
	heard := 0
	sub, err := s.js.Conn().Subscribe(m.subject, func(*nats.Msg) {
		if heard++; heard == m.n {
			f()
		}
	})
	if err == nil {
		err = s.js.Conn().Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func() { _ = sub.Unsubscribe() }
}

var (
	all  = flag.Bool("faults.all", false, "try every fault at every moment")
	long = flag.Bool("faults.long", false, "try every combination of faults and moments")
)

// some is every third moment, or all with -faults.long and -faults.all.
func some(first int) (some []moment) {
	for i, m := range moments {
		if *long || *all || i%3 == first%3 {
			some = append(some, m)
		}
	}
	return some
}

func TestTheBusRestartsAtEveryMoment(t *testing.T) {
	for _, m := range some(0) {
		t.Run(m.String(), func(t *testing.T) {
			atSite(t, func(t *testing.T, s *site) {
				s.master("m1")
				s.master("m2")
				s.peels("a", "b", "c")
				again := make(chan struct{})
				s.at(m, func() {
					go func() {
						defer close(again)
						s.bus.Stop(t)
						time.Sleep(3 * time.Second)
						s.bus.Start(t)
					}()
				})
				spec := nap(time.Second, "a", "b", "c")
				s.insist(spec)
				<-again
				time.Sleep(spec.Timeout + recovery)
				s.check(recovery, spec.JID)
			})
		})
	}
}

func TestTheBusRestartsWhileAJobIsTakenOver(t *testing.T) {
	step := 15 * time.Second
	if *long || *all {
		step = 5 * time.Second
	}
	for after := 30 * time.Second; after <= 55*time.Second; after += step {
		t.Run(after.String(), func(t *testing.T) {
			atSite(t, func(t *testing.T, s *site) {
				m1 := s.master("m1")
				s.peels("a", "b")
				spec := nap(70*time.Second, "a", "b")
				spec.Timeout = 3 * time.Minute
				s.insist(spec)
				s.master("m2")
				m1.kill()
				time.Sleep(after)
				s.bus.Stop(t)
				time.Sleep(3 * time.Second)
				s.bus.Start(t)
				time.Sleep(spec.Timeout)
				s.check(0, spec.JID)
				if j := s.record(spec.JID); j.Status != job.Complete || !strings.HasPrefix(j.Owner, "m2/") {
					t.Errorf("%+v", j)
				}
			})
		})
	}
}

func TestAPeelThatIsAwayAtDispatch(t *testing.T) {
	for away, want := range map[time.Duration]job.RowState{
		3 * time.Second: job.RowOK, 8 * time.Second: job.RowMissing, time.Hour: job.RowMissing,
	} {
		t.Run(away.String(), func(t *testing.T) {
			atSite(t, func(t *testing.T, s *site) {
				s.master("m1")
				peels := s.peels("a", "b")
				peels[0].setCut(true)
				spec := ping("a", "b")
				s.insist(spec)
				time.Sleep(away - 3*time.Second/2) // peels try again every second and a part
				peels[0].setCut(false)
				time.Sleep(spec.Timeout)
				s.check(time.Second, spec.JID)
				status := job.Partial
				if want == job.RowOK {
					status = job.Complete
				}
				if j, rows := s.record(spec.JID), s.rows(spec.JID); j.Status != status || rows[0].State != want || rows[1].State != job.RowOK {
					t.Errorf("%s: %+v", j.Status, rows)
				}
			})
		})
	}
}

func TestAPeelThatIsAwayWhenItReturns(t *testing.T) {
	for _, c := range []struct {
		away time.Duration
		late bool
	}{{10 * time.Second, false}, {time.Minute, true}} {
		atSite(t, func(t *testing.T, s *site) {
			s.master("m1")
			p := s.peels("a")[0]
			spec := nap(5*time.Second, "a")
			s.insist(spec)
			time.Sleep(time.Second)
			p.setCut(true)
			time.Sleep(c.away)
			p.setCut(false)
			time.Sleep(time.Minute)
			s.check(time.Second, spec.JID)
			if rows := s.rows(spec.JID); rows[0].State != job.RowOK || rows[0].Late != c.late {
				t.Errorf("away for %v: %+v", c.away, rows)
			}
		})
	}
}

func TestAMasterThatIsPausedAtEveryMoment(t *testing.T) {
	for _, m := range some(2) {
		t.Run(m.String(), func(t *testing.T) {
			atSite(t, func(t *testing.T, s *site) {
				m1 := s.master("m1")
				s.peels("a", "b", "c")
				paused := make(chan struct{})
				s.at(m, func() { m1.freeze(); close(paused) })
				spec := nap(time.Second, "a", "b", "c")
				spec.Timeout = 2 * time.Minute
				go func() { _, _ = s.ask(spec) }()
				<-paused
				m2 := s.master("m2")
				time.Sleep(70 * time.Second)
				m1.thaw() // and says all that it had to say
				s.insist(spec)
				time.Sleep(2 * time.Minute)
				s.check(0, spec.JID)
				if j := s.record(spec.JID); j.Status != job.Complete {
					t.Errorf("%+v", j)
				}
				m1.stop()
				m2.stop()
				s.check(0, spec.JID)
			})
		})
	}
}

func TestAMasterDiesAtEveryMoment(t *testing.T) {
	for _, m := range some(1) {
		t.Run(m.String(), func(t *testing.T) {
			atSite(t, func(t *testing.T, s *site) {
				m1 := s.master("m1")
				s.peels("a", "b", "c")
				died := make(chan struct{})
				s.at(m, func() {
					m1.setCut(true)
					go func() { m1.kill(); close(died) }()
				})
				spec := nap(time.Second, "a", "b", "c")
				spec.Timeout = 2 * time.Minute
				go func() { _, _ = s.ask(spec) }()
				<-died
				s.master("m2")
				s.insist(spec)
				time.Sleep(spec.Timeout)
				s.check(0, spec.JID)
				if j := s.record(spec.JID); j.Status != job.Complete {
					t.Errorf("%+v", j)
				}
			})
		})
	}
}

func TestAMasterThatIsCutOffEndsNothingTwice(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		m1 := s.master("m1")
		s.peels("a", "b")
		quick, slow := nap(10*time.Second, "a", "b"), nap(100*time.Second, "a", "b")
		quick.Timeout, slow.Timeout = 3*time.Minute, 3*time.Minute
		s.insist(quick)
		s.insist(slow)
		s.master("m2")
		m1.setCut(true)
		time.Sleep(70 * time.Second)
		m1.setCut(false)
		time.Sleep(2 * time.Minute)
		s.check(0, quick.JID, slow.JID)
		for _, jid := range []wire.JID{quick.JID, slow.JID} {
			if j := s.record(jid); j.Status != job.Complete || !strings.HasPrefix(j.Owner, "m2/") || j.ReclaimCount != 1 {
				t.Errorf("%+v", j)
			}
		}
	})
}

func TestAJobIsCanceledAtEveryMoment(t *testing.T) {
	for _, m := range some(0) {
		t.Run(m.String(), func(t *testing.T) {
			atSite(t, func(t *testing.T, s *site) {
				s.master("m1")
				s.master("m2")
				s.peels("a", "b", "c")
				spec := nap(20*time.Second, "a", "b", "c")
				var canceled error
				asked := make(chan struct{})
				people := s.people("bob")
				s.at(m, func() {
					go func() {
						defer close(asked)
						_, canceled = api.JobCancel.Ask(t.Context(), people, api.JobRequest{JID: spec.JID})
					}()
				})
				s.insist(spec)
				<-asked
				time.Sleep(spec.Timeout)
				s.check(0, spec.JID)
				want := job.Canceled
				if canceled != nil { // it came too early or too late
					want = job.Complete
				}
				if j := s.record(spec.JID); j.Status != want && (j.Cancel == nil || j.SuccessCount != 3) {
					t.Errorf("canceled: %v, the job is %s", canceled, j.Status)
				}
			})
		})
	}
}

func TestWritesThatFailForAMinute(t *testing.T) {
	if !*long {
		t.Skip("it is long; -faults.long runs it")
	}
	for i, stream := range []string{"KV_active", "KV_jobs", "KV_job-returns", "KV_masters", "job-events"} {
		for _, m := range some(i) {
			t.Run(stream+" "+m.String(), func(t *testing.T) {
				atSite(t, func(t *testing.T, s *site) {
					s.master("m1")
					s.master("m2")
					s.peels("a", "b", "c")
					over := make(chan struct{})
					s.at(m, func() {
						go func() {
							defer close(over)
							s.refuse(stream, true)
							time.Sleep(time.Minute)
							s.refuse(stream, false)
						}()
					})
					spec := nap(time.Second, "a", "b", "c")
					spec.Timeout = 20 * time.Second
					s.insist(spec)
					<-over
					time.Sleep(2 * time.Minute)
					s.check(time.Minute+recovery, spec.JID)
				})
			})
		}
	}
}

// refuse makes a stream refuse all writes, or take them again.
func (s *site) refuse(name string, refuse bool) {
	s.t.Helper()
	stream, err := s.js.Stream(s.t.Context(), name)
	if err != nil {
		s.t.Error(err)
		return
	}
	c := stream.CachedInfo().Config
	if c.MaxMsgSize = -1; refuse {
		c.MaxMsgSize = 1
	}
	if _, err := s.js.UpdateStream(s.t.Context(), c); err != nil {
		s.t.Error(err)
	}
}

func TestReturnsThatAreRepeatedReorderedAndForged(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("a", "b", "c")
		spec := nap(5*time.Second, "a", "b")
		liar := s.bus.Conn(t, grants.RolePeel, "c") // no target
		twin := s.bus.Conn(t, grants.RolePeel, "a") // sends again what a has sent, and more
		first := make(chan *nats.Msg, 1000)
		if _, err := s.js.Conn().ChanSubscribe(wire.ReturnOf(spec.JID, "a"), first); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the bus has the subscription
		j := s.insist(spec)
		say := func(nc *nats.Conn, as string, r wire.Return) {
			data, err := canon.Marshal(r)
			if err == nil {
				err = nc.Publish(wire.ReturnOf(spec.JID, as), data)
			}
			if err != nil {
				t.Error(err)
			}
		}
		say(liar, "c", wire.Return{JID: spec.JID, Peel: "c", Epoch: j.Epoch, Result: wire.Result{Success: true}, Finished: time.Now(), V: wire.Version})
		say(liar, "c", wire.Return{JID: spec.JID, Peel: "b", Epoch: j.Epoch, Finished: time.Now(), V: wire.Version})
		say(twin, "a", wire.Return{JID: spec.JID, Peel: "b", Epoch: j.Epoch, Finished: time.Now(), V: wire.Version})
		say(twin, "a", wire.Return{JID: spec.JID, Peel: "a", Epoch: j.Epoch, Finished: time.Now(), Result: wire.Result{Success: true}, V: wire.Version})
		// What a sends comes again and again in another order, at first what is forged, and once it has returned that, too. The
		// first of it, which is forged, is its return.
		for range 2 {
			for range 100 {
				msg := <-first
				if err := twin.Publish(msg.Subject, msg.Data); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(5 * time.Second)
		}
		time.Sleep(time.Minute)
		s.check(0, spec.JID)
		if j := s.record(spec.JID); j.Status != job.Failed || j.ReturnCount != 2 || j.SuccessCount != 1 {
			t.Errorf("%+v", j)
		}
	})
}

func TestTheClockOfWhoAsksIsADayOff(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		s.master("m1")
		s.peels("a")
		for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
			spec := nap(20*time.Second, "a")
			spec.JID = s.madeAt(time.Now().Add(off))
			j := s.insist(spec)
			if left := time.Until(j.Deadline); left < 29*time.Second || left > 31*time.Second {
				t.Errorf("clock off by %v: %v left", off, left)
			}
			time.Sleep(25 * time.Second)
			s.check(0, spec.JID)
			if j := s.record(spec.JID); j.Status != job.Complete {
				t.Errorf("clock off by %v: %s", off, j.Status)
			}
		}
	})
}

func TestWhatCouldNotBePublishedIsNeverSentLater(t *testing.T) {
	atSite(t, func(t *testing.T, s *site) {
		m := s.master("m1")
		heard := 0
		if _, err := s.js.Conn().Subscribe("zester.>", func(msg *nats.Msg) {
			if string(msg.Data) == "late" {
				heard++
			}
		}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // a service that has not begun when the bus goes away would end the master
		s.bus.Stop(t)
		synctest.Wait()
		for range 100 {
			if err := m.nc.Publish(wire.Cmd("a"), []byte("late")); err == nil {
				t.Fatal("published without a bus")
			}
			time.Sleep(10 * time.Millisecond)
		}
		s.bus.Start(t)
		time.Sleep(time.Minute)
		if err := m.nc.Publish(wire.Cmd("a"), []byte("in time")); err != nil || heard != 0 {
			t.Errorf("%d messages came late; then: %v", heard, err)
		}
	})
}
