package dispatch_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// team are peels that count how many of them work at a time.
type team struct {
	ids []target.PeelID
	mu  sync.Mutex
	now int
	max int
	ran []target.PeelID
}

// team starts n peels that work for a second and give what result says.
func (s *system) team(n int, result func(id target.PeelID) wire.Result) *team {
	tm := &team{}
	for i := range n {
		id := target.PeelID(fmt.Sprintf("p%02d", i))
		tm.ids = append(tm.ids, id)
		s.peel(id, func(p *peel, r wire.Request) {
			tm.mu.Lock()
			tm.now++
			tm.max = max(tm.max, tm.now)
			tm.ran = append(tm.ran, id)
			tm.mu.Unlock()
			p.ack(r)
			time.Sleep(time.Second)
			tm.mu.Lock()
			tm.now--
			tm.mu.Unlock()
			if res := result(id); res.Data != "hang" {
				p.result(r, res)
			}
		})
	}
	return tm
}

func ok(target.PeelID) wire.Result { return wire.Result{Success: true} }

func TestABatchLetsSoManyWorkAtATime(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		tm := s.team(10, ok)
		spec := ask(func(j *job.Spec) { j.Batch = &job.Batch{Size: 3} }, tm.ids...)
		j := s.dispatch(spec)
		if j.Published != 3 {
			t.Errorf("%d were sent the request at first", j.Published)
		}
		time.Sleep(5 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 10 || j.Published != 10 || tm.max != 3 {
			t.Errorf("%+v, at most %d worked at a time", j, tm.max)
		}
	})
}

func TestABatchGoesOnPastAPeelThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		tm := s.team(10, func(id target.PeelID) wire.Result {
			if id == "p00" {
				return wire.Result{Data: "hang"}
			}
			return wire.Result{Success: true}
		})
		silent := target.PeelID("gone")
		spec := ask(func(j *job.Spec) { j.Batch = &job.Batch{Size: 1} }, append(tm.ids, silent)...)
		began := time.Now()
		s.dispatch(spec)
		time.Sleep(90 * time.Second)
		j := s.record(spec.JID)
		if j.Status != job.Partial || j.ReturnCount != 9 || j.Published != 11 {
			t.Errorf("%s with %d returns, %d published", j.Status, j.ReturnCount, j.Published)
		}
		// 10 s until the silent one leaves its place, 60 s for the one that hangs, 1 s for each of the others; the
		// silent one is waited for as long as any target meanwhile.
		if took := j.Updated.Sub(began); took > 80*time.Second || took < 70*time.Second {
			t.Errorf("it took %v", took)
		}
		if rows := s.rows(spec.JID); rows["p00"].State != job.RowMissing || rows[silent].State != job.RowMissing || rows["p09"].State != job.RowOK {
			t.Errorf("%+v", rows)
		}
	})
}

func TestTooManyFailuresStopABatch(t *testing.T) {
	for name, bad := range map[string]wire.Result{
		"failed": {Error: "no"}, "rejected": {Outcome: wire.Rejected, Error: "busy"}, "hanging": {Data: "hang"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				s.master("m1")
				tm := s.team(10, func(id target.PeelID) wire.Result {
					if id == "p01" || id == "p03" {
						return bad
					}
					return wire.Result{Success: true}
				})
				spec := ask(func(j *job.Spec) { j.Timeout, j.Batch = 5*time.Second, &job.Batch{Size: 2, MaxFailures: 2} }, tm.ids...)
				s.dispatch(spec)
				time.Sleep(time.Minute)
				j := s.record(spec.JID)
				if j.Status != job.Partial || len(tm.ran) > 8 || len(tm.ran) < 4 {
					t.Errorf("%s, %v ran", j.Status, tm.ran)
				}
				skipped := 0
				for id, row := range s.rows(spec.JID) {
					switch {
					case row.State == job.RowSkipped:
						skipped++
					case id == "p01" && row.State == job.RowOK:
						t.Errorf("%s is %s", id, row.State)
					}
				}
				if skipped != 10-len(tm.ran) {
					t.Errorf("%d skipped, %d ran", skipped, len(tm.ran))
				}
			})
		})
	}
}

func TestACancelDuringABatchLetsNoLaterOneBegin(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		tm := s.team(10, ok)
		spec := ask(func(j *job.Spec) { j.Batch = &job.Batch{Size: 2} }, tm.ids...)
		s.dispatch(spec)
		time.Sleep(1500 * time.Millisecond)
		if _, err := d.Cancel(t.Context(), spec.JID, "alice", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if j := s.record(spec.JID); j.Status != job.Canceled || len(tm.ran) != 4 || j.ReturnCount != 4 {
			t.Errorf("%s, %v ran, %d returned", j.Status, tm.ran, j.ReturnCount)
		}
		if rows := s.rows(spec.JID); rows["p03"].State != job.RowOK || rows["p04"].State != job.RowSkipped {
			t.Errorf("%+v", rows)
		}
	})
}

func TestABatchSurvivesItsMaster(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		for _, end := range []func(*whole){func(m *whole) { m.stop() }, func(m *whole) { m.kill() }} {
			m1 := s.whole("m1", nil)
			var ids []target.PeelID
			for i := range 6 {
				ids = append(ids, target.PeelID(fmt.Sprint("q", i)))
			}
			peels := s.once(ids...)
			spec := ask(func(j *job.Spec) { j.Timeout, j.Batch = 5*time.Minute, &job.Batch{Size: 1} }, ids...)
			if _, err := m1.Submit(t.Context(), spec, "alice"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2500 * time.Millisecond)
			if j := s.record(spec.JID); j.Published != 3 {
				t.Errorf("%d published", j.Published)
			}
			end(m1)
			m2 := s.whole("m2", nil)
			time.Sleep(70 * time.Second)
			if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 6 || !strings.HasPrefix(j.Owner, "m2/") {
				t.Errorf("%+v", j)
			}
			m2.stop()
			for _, p := range peels {
				p.nc.Close()
			}
		}
	})
}

// appears is what a peel does when it has connected.
func (p *peel) appears() {
	data, err := canon.Marshal(wire.Facts{Peel: p.id, Facts: map[string]any{"id": string(p.id)}, V: wire.Version})
	if err == nil {
		_, err = p.nc.Request(wire.Fact(p.id.Wire()), data, time.Second)
	}
	if err != nil {
		p.t.Error(err)
	}
}

func TestAPeelThatComesBackIsSentTheRequest(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		here := s.peel("here", pong)
		here.appears()
		time.Sleep(time.Second) // until the master has heard it, or it were one that is back
		spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "here", "later", "never")
		j := s.dispatch(spec)
		if until := time.Until(j.Deadline); until < time.Hour {
			t.Errorf("the deadline is in %v", until)
		}
		time.Sleep(50 * time.Minute)
		if rows := s.rows(spec.JID); rows["here"].State != job.RowOK || rows["later"].State != job.RowWaiting {
			t.Errorf("%+v", rows)
		}
		later := s.peel("later", func(p *peel, r wire.Request) {
			p.ack(r)
			if r.TimeLeft < 19*time.Second {
				t.Errorf("it has %v", r.TimeLeft)
			}
			time.Sleep(15 * time.Second)
			p.result(r, wire.Result{Success: true})
		})
		later.appears()
		here.appears()
		time.Sleep(11 * time.Minute)
		if j := s.record(spec.JID); j.Status != job.Partial || j.ReturnCount != 2 || len(here.requests()) != 1 {
			t.Errorf("%+v, %d requests", j, len(here.requests()))
		}
		if r := later.requests(); len(r) != 1 || r[0].Epoch != j.RequestEpoch {
			t.Errorf("%+v", r)
		}
	})
}

// The deadline of a job that waits for peels is not that of the batch which was sent last.
func TestABatchThatGoesOnLeavesTheTimeToComeBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		tm := s.team(3, ok)
		spec := ask(func(j *job.Spec) {
			j.Timeout, j.WhenOnline, j.Batch = 20*time.Second, time.Hour, &job.Batch{Size: 1}
		}, append(tm.ids, "later")...)
		deadline := s.dispatch(spec).Deadline
		time.Sleep(time.Minute)
		j := s.record(spec.JID)
		if j.Published < 4 || j.Deadline.Before(deadline) || j.Status.Final() {
			t.Errorf("%s, %d sent, the deadline was %s and is %s", j.Status, j.Published, deadline, j.Deadline)
		}
	})
}

// TestAPeelThatComesBackSoonHasTheWholeTimeout is about one that is back before those that were there have had theirs.
func TestAPeelThatComesBackSoonHasTheWholeTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "soon")
		s.dispatch(spec)
		time.Sleep(15 * time.Second)
		soon := s.peel("soon", func(p *peel, r wire.Request) {
			p.ack(r)
			time.Sleep(15 * time.Second)
			p.result(r, wire.Result{Success: true})
		})
		soon.appears()
		time.Sleep(20 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || len(soon.requests()) != 1 {
			t.Errorf("%s after %d requests", j.Status, len(soon.requests()))
		}
	})
}

// TestAPeelThatComesAndGoesIsSentTheRequestAgainOnceAfterItsLastTime holds that what is waited for grows with the targets
// alone.
func TestAPeelThatComesAndGoesIsSentTheRequestAgainOnceAfterItsLastTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		silent := s.peel("silent", nil)
		s.dispatch(ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "silent"))
		const times = 30
		for range times {
			silent.appears()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if n := len(silent.requests()); n != 1+times+1 {
			t.Errorf("%d requests, want one at first, one each time and one again", n)
		}
	})
}

// The window for acknowledgements ends with the timeout: a request that is sent again would be late.
func TestASilentTargetGetsNoRequestAfterItsTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("silent", nil)
		spec := ask(func(j *job.Spec) { j.Timeout = dispatch.DefaultAckWindow }, "silent")
		s.dispatch(spec)
		time.Sleep(time.Minute)
		if j := s.record(spec.JID); j.Status != job.Timeout || s.sent("silent") != 1 {
			t.Errorf("%s after %d requests", j.Status, s.sent("silent"))
		}
	})
}

// The timeout is over before it is known that the target is unreachable.
func TestAPatientJobOfAShortTimeoutEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 2*time.Second, time.Minute }, "never")
		s.dispatch(spec)
		time.Sleep(50 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Running {
			t.Errorf("it waits no longer: %s", j.Status)
		}
		time.Sleep(20 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Timeout {
			t.Errorf("it waits for ever: %s", j.Status)
		}
	})
}

func TestAPatientJobEndsAsSoonAsAllHaveReturned(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		m1 := s.whole("m1", nil)
		spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "later")
		if _, err := m1.Submit(t.Context(), spec, "alice"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		m1.kill()
		s.whole("m2", nil)
		time.Sleep(5 * time.Minute) // and it waits under the next master, too
		p := s.peel("later", pong)
		p.appears()
		time.Sleep(time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.Owner != "m2/1" || len(p.requests()) != 1 {
			t.Errorf("%+v", j)
		}
	})
}

func TestAPatientJobGivesUpAPeelThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("hangs", func(p *peel, r wire.Request) { p.ack(r) })
		spec := ask(func(j *job.Spec) { j.Timeout, j.WhenOnline = 20*time.Second, time.Hour }, "hangs")
		s.dispatch(spec)
		time.Sleep(21 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Timeout {
			t.Errorf("%+v", j)
		}
	})
}
