package dispatch_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestAReturnThatItsMasterDidNotHearCounts(t *testing.T) {
	// The bus restarts; the peel is back before the master is, who tries again after 15 s.
	for name, timeout := range map[string]time.Duration{"before the deadline": time.Hour, "at the deadline": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				nc := s.bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1), nats.ReconnectWait(15*time.Second))
				s.masterOn(nc, "m1")
				p := s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
				spec := ask(func(j *job.Spec) { j.Timeout = timeout }, "a")
				s.dispatch(spec)
				synctest.Wait()
				s.bus.Restart(t)
				time.Sleep(5 * time.Second)
				p.result(p.requests()[0], wire.Result{Success: true})
				time.Sleep(45 * time.Second)
				if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 1 {
					t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
				}
			})
		})
	}
}

// The master reads records every 15 s and reads the bucket then if the bus was away. Here the canceled job ends before that.
func TestACanceledJobCountsTheReturnThatItsMasterDidNotHear(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		nc := s.bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1), nats.ReconnectWait(5*time.Second))
		d, _ := s.masterOn(nc, "m1")
		p := s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a")
		s.dispatch(spec)
		time.Sleep(16 * time.Second)
		if _, err := d.Cancel(t.Context(), spec.JID, "alice", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.bus.Restart(t)
		time.Sleep(3 * time.Second)
		if nc.IsConnected() {
			t.Fatal("the master is back too early")
		}
		p.result(p.requests()[0], wire.Result{Success: true})
		time.Sleep(9 * time.Second) // the job ends 10 s after the cancel, at 26 s
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 1 {
			t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
		}
	})
}

// In a cluster a return may be stored and not re-published, and nothing tells the master.
func TestAReturnThatWasNotRepublishedCountsBeforeTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.wide = true
		d, _ := s.masterOn(s.bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1)), "m1")
		p := s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a")
		s.dispatch(spec)
		synctest.Wait()
		d.Deafen(spec.JID)
		p.result(p.requests()[0], wire.Result{Success: true})
		time.Sleep(16 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 1 {
			t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
		}
	})
}

// A batch gives up one target and sends to the next. The given-up one returns while the master is away, and the job ends with
// the return of the next, before the master reads the records.
func TestAReturnOfATargetGivenUpThatItsMasterDidNotHearCounts(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		nc := s.bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1), nats.ReconnectWait(5*time.Second))
		s.masterOn(nc, "m1")
		ack := func(p *peel, r wire.Request) { p.ack(r) }
		a, b := s.peel("a", ack), s.peel("b", ack)
		spec := ask(func(j *job.Spec) { j.Timeout, j.Batch = 20*time.Second, &job.Batch{Size: 1} }, "a", "b")
		s.dispatch(spec)
		time.Sleep(31 * time.Second) // a is given up at 20 s, records are read at 30 s and 45 s
		s.bus.Restart(t)
		time.Sleep(3 * time.Second)
		if nc.IsConnected() {
			t.Fatal("the master is back too early")
		}
		a.result(a.requests()[0], wire.Result{Success: true})
		time.Sleep(4 * time.Second)
		b.result(b.requests()[0], wire.Result{Success: true})
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 2 {
			t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
		}
	})
}

// A peel that is no target can have a return stored, which never counts.
func TestAReturnOfAStrangerIsReadOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.wide = true
		s.masterOn(s.bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1)), "m1")
		s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
		stranger := s.bus.Conn(t, grants.RolePeel, "mad")
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a")
		s.dispatch(spec)
		synctest.Wait()
		if err := stranger.Publish(wire.ReturnOf(spec.JID, "mad"), []byte("x")); err != nil {
			t.Fatal(err)
		}
		reads := 0
		ear := s.bus.Conn(t, grants.RoleMaster, "ear")
		if _, err := ear.Subscribe("$JS.API.CONSUMER.CREATE.KV_job-returns.>", func(*nats.Msg) { reads++ }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if reads > 1 {
			t.Errorf("the returns were read %d times", reads)
		}
	})
}

// A single server re-publishes all that it stores to masters that are connected.
func TestASingleServerIsNotAskedHowManyReturnsItHas(t *testing.T) {
	for _, clustered := range []bool{false, true} {
		bubble(t, func(t *testing.T, s *system) {
			s.wide = clustered
			s.master("m1")
			s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
			s.dispatch(ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a"))
			synctest.Wait()
			counted := 0
			ear := s.bus.Conn(t, grants.RoleMaster, "ear")
			if _, err := ear.Subscribe("$JS.API.STREAM.INFO.KV_job-returns", func(*nats.Msg) { counted++ }); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			if (counted > 0) != clustered {
				t.Errorf("clustered %v: the returns were counted %d times", clustered, counted)
			}
		})
	}
}

// The master reads the bucket every 15 s if it has missed messages, and before it gives targets up.
func TestReturnsThatAMasterHadNoRoomForCount(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.lossy = true
		s.master("m1")
		var targets []target.PeelID
		for i := range 50 {
			targets = append(targets, target.PeelID(fmt.Sprint("p", i)))
			s.peel(targets[i], pong)
		}
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, targets...)
		s.dispatch(spec)
		time.Sleep(16 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 50 {
			t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
		}
	})
}

// Returns that wait to be counted take a bounded number of bytes. Those beyond are dropped, and read from the bucket.
func TestLargeReturnsThatWaitAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.room = 300
		s.master("m1")
		s.peel("a", func(p *peel, r wire.Request) {
			p.ack(r)
			p.result(r, wire.Result{Success: true, Data: strings.Repeat("x", 1000)})
		})
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a")
		s.dispatch(spec)
		time.Sleep(10 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Running {
			t.Errorf("a return that is larger than the limit is counted at once, the job is %s", j.Status)
		}
		time.Sleep(6 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 1 {
			t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
		}
	})
}

// What was counted makes room for what comes later.
func TestReturnsThatWereCountedLeaveRoomForOthers(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.room = 2000
		s.master("m1")
		s.peel("a", func(p *peel, r wire.Request) { p.result(r, wire.Result{Success: true}) })
		for i := range 10 {
			spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a")
			s.dispatch(spec)
			time.Sleep(time.Second)
			if j := s.record(spec.JID); j.Status != job.Complete {
				t.Fatalf("job %d is %s", i, j.Status)
			}
		}
	})
}

func TestTheBusMayRestartAtEveryMoment(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.whole("m1", nil)
		s.whole("m2", nil)
		p := s.outbox("a")
		q := s.outbox("b")
		random := rand.New(rand.NewPCG(1, 2))
		var jids []wire.JID
		for range 15 {
			spec := ask(func(j *job.Spec) { j.Timeout = 5 * time.Minute }, "a", "b")
			jids = append(jids, spec.JID)
			go func() { // as the client does: the same again while nobody could take it
				for range 20 {
					if _, err := s.request(s.alice, "alice", spec); err == nil {
						return
					}
					time.Sleep(2 * time.Second)
				}
			}()
			time.Sleep(time.Duration(random.IntN(4000)) * time.Microsecond)
			s.bus.Restart(t)
			time.Sleep(time.Duration(20+random.IntN(20)) * time.Second)
		}
		time.Sleep(10 * time.Minute)
		for _, jid := range jids {
			j := s.record(jid)
			if j.Status != job.Complete || j.ReturnCount != 2 || s.active(jid) || s.terminalEvents(jid) != 1 {
				t.Errorf("%s with %d returns, live %v, %d terminal events", j.Status, j.ReturnCount, s.active(jid), s.terminalEvents(jid))
			}
			if p.ran[jid] != 1 || q.ran[jid] != 1 {
				t.Errorf("ran %d and %d times", p.ran[jid], q.ran[jid])
			}
		}
	})
}

// outbox is a peel whose returns are sent until the stream has them.
type outbox struct{ ran map[wire.JID]int }

func (s *system) outbox(id target.PeelID) *outbox {
	o := &outbox{ran: map[wire.JID]int{}}
	s.peel(id, func(p *peel, r wire.Request) {
		p.mu.Lock()
		o.ran[r.JID]++
		p.mu.Unlock()
		data, err := canon.Marshal(wire.Ack{JID: r.JID, Peel: id, Epoch: r.Epoch, V: wire.Version})
		if err == nil {
			_ = p.nc.Publish(wire.AckOf(r.JID, id.Wire()), data)
		}
		p.deliver(r, wire.Result{Success: true})
	})
	return o
}

func TestRecordsThatCannotBeWrittenForAMinute(t *testing.T) {
	// Buckets refuse writes at random while jobs of all kinds run, some of which are canceled.
	bubble(t, func(t *testing.T, s *system) {
		m1, m2 := s.whole("m1", nil), s.whole("m2", nil)
		var targets []target.PeelID
		for i := range 5 {
			targets = append(targets, target.PeelID(fmt.Sprint("p", i)))
		}
		s.once(targets...)
		random := rand.New(rand.NewPCG(3, 4))
		type asked struct {
			spec     job.Spec
			canceled bool
		}
		var jobs []*asked
		for round := range 8 {
			for i := range 5 {
				a := &asked{spec: ask(func(j *job.Spec) {
					j.Timeout = 10 * time.Minute
					if i%2 == 0 {
						j.Batch = &job.Batch{Size: 1 + i/2}
					}
				}, targets[:1+i]...)}
				if _, err := m1.Submit(t.Context(), a.spec, "alice"); err == nil {
					jobs = append(jobs, a)
				}
			}
			time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
			bucket := []string{"active", "job-returns", "jobs"}[round%3]
			s.refuse(bucket, true)
			time.Sleep(time.Duration(1+random.IntN(60)) * time.Second)
			s.refuse(bucket, false)
			for _, a := range jobs[max(0, len(jobs)-2):] {
				if _, err := m2.Cancel(t.Context(), a.spec.JID, "bob", ""); err == nil {
					a.canceled = true
				}
			}
		}
		time.Sleep(15 * time.Minute)
		if len(jobs) < 30 {
			t.Errorf("only %d jobs were taken", len(jobs))
		}
		for _, a := range jobs {
			j := s.record(a.spec.JID)
			stored, err := s.store.CountStored(t.Context(), j.JID)
			if err != nil {
				t.Fatal(err)
			}
			if !j.Status.Final() || j.ReturnCount != stored || s.active(j.JID) || s.terminalEvents(j.JID) != 1 || (j.Cancel != nil) != a.canceled {
				t.Errorf("%s with %d returns, %d are stored; live %v, canceled %v", j.Status, j.ReturnCount, stored, s.active(j.JID), a.canceled)
			}
			if !a.canceled && j.Status != job.Complete {
				t.Errorf("%s ended %s", j.JID, j.Status)
			}
		}
	})
}
