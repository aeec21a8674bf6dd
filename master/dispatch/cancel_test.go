package dispatch_test

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// stoppable works for so long unless its job is canceled, and then returns what it has.
func (s *system) stoppable(id target.PeelID, work time.Duration) *peel {
	var mu sync.Mutex
	stops := map[wire.JID]chan struct{}{}
	stop := func(jid wire.JID) chan struct{} {
		mu.Lock()
		defer mu.Unlock()
		if stops[jid] == nil {
			stops[jid] = make(chan struct{})
		}
		return stops[jid]
	}
	p := s.peel(id, func(p *peel, r wire.Request) {
		p.ack(r)
		select {
		case <-stop(r.JID):
			p.result(r, wire.Result{Outcome: wire.Canceled, Data: "half"})
		case <-time.After(work):
			p.result(r, wire.Result{Success: true})
		}
	})
	if _, err := p.nc.Subscribe(wire.CancelOf("*"), func(msg *nats.Msg) {
		if jid, _, err := wire.JobSubject(msg.Subject); err == nil {
			ch := stop(jid)
			select {
			case <-ch:
			default:
				close(ch)
			}
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return p
}

func (s *system) rows(jid wire.JID) map[target.PeelID]job.Row {
	s.t.Helper()
	page, err := s.store.Rows(s.t.Context(), jid, "")
	if err != nil {
		s.t.Fatal(err)
	}
	rows := map[target.PeelID]job.Row{}
	for _, r := range page.Rows {
		rows[r.Peel] = r
	}
	return rows
}

func TestCancelWhileAJobRuns(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		owner, _ := s.master("m1")
		other, _ := s.master("m2")
		s.stoppable("a", time.Hour)
		s.stoppable("b", time.Second)
		spec := ask(func(j *job.Spec) { j.Timeout = 2 * time.Hour }, "a", "b")
		if _, err := owner.Submit(t.Context(), spec, "alice"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		j, err := other.Cancel(t.Context(), spec.JID, "bob", "")
		if err != nil || j.Cancel == nil || j.Cancel.By != "bob" {
			t.Fatalf("%+v, %v", j, err)
		}
		time.Sleep(time.Second)
		got := s.record(spec.JID)
		if got.Status != job.Canceled || got.ReturnCount != 2 || got.SuccessCount != 1 || got.Cancel.By != "bob" || s.active(spec.JID) {
			t.Errorf("%+v", got)
		}
		if rows := s.rows(spec.JID); rows["a"].State != job.RowCanceled || rows["a"].Return.Data != "half" || rows["b"].State != job.RowOK {
			t.Errorf("%+v", rows)
		}
		if _, err := other.Cancel(t.Context(), spec.JID, "bob", ""); !errors.Is(err, dispatch.ErrEnded) {
			t.Errorf("canceled when it had ended: %v", err)
		}
	})
}

func TestACancelThatPeelsDoNotHearEndsTheJobAndNamesThem(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		s.stoppable("hears", time.Hour)
		deaf := s.peel("deaf", func(p *peel, r wire.Request) { p.ack(r) })
		silent := s.peel("silent", nil)
		away := target.PeelID("away") // before it could acknowledge
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "hears", "deaf", "silent", away)
		s.dispatch(spec)
		if _, err := d.Cancel(t.Context(), spec.JID, "alice", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Running {
			t.Errorf("before its targets had time to stop the job is %s", j.Status)
		}
		time.Sleep(2 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Canceled || j.ReturnCount != 1 {
			t.Errorf("%+v", j)
		}
		rows := s.rows(spec.JID)
		if rows["hears"].State != job.RowCanceled || rows["deaf"].State != job.RowMissing || rows[away].State != job.RowMissing {
			t.Errorf("%+v", rows)
		}
		for _, p := range []*peel{deaf, silent} { // the silent one gets no second request after the cancel
			if n := len(p.requests()); n != 1 {
				t.Errorf("%s has %d requests", p.id, n)
			}
		}
	})
}

// The peel stops at once, and its return is stored, but the master does not hear of it: before the canceled job ends, the bucket is read.
func TestReturnsThatWereMissedCountBeforeACanceledJobEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		s.stoppable("a", time.Hour)
		s.peel("never", func(p *peel, r wire.Request) { p.ack(r) })
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a", "never")
		s.dispatch(spec)
		time.Sleep(time.Second)
		d.Deafen(spec.JID)
		if _, err := d.Cancel(t.Context(), spec.JID, "alice", ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Canceled || j.ReturnCount != 1 {
			t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
		}
	})
}

// Work goes on when nobody waits for it any more; a command that hangs keeps all others of its peel waiting.
func TestACancelStopsWhatAJobThatTimedOutHasLeftRunning(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		owner, _ := s.master("m1")
		other, _ := s.master("m2")
		s.stoppable("quick", time.Second)
		s.stoppable("hangs", 1000*time.Hour)
		spec := ask(func(j *job.Spec) { j.Timeout = 10 * time.Second }, "quick", "hangs")
		if _, err := owner.Submit(t.Context(), spec, "alice"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		before := s.record(spec.JID)
		if j, err := other.Cancel(t.Context(), spec.JID, "bob", ""); err != nil || j.Status != job.Partial {
			t.Fatalf("%+v, %v", j, err)
		}
		time.Sleep(time.Second)
		if row := s.rows(spec.JID)["hangs"]; row.State != job.RowCanceled || !row.Late || row.Return.Data != "half" {
			t.Errorf("%+v", row)
		}
		if after := s.record(spec.JID); after.Revision != before.Revision || s.terminalEvents(spec.JID) != 1 {
			t.Errorf("the record of a job that has ended has changed: %+v", after)
		}
	})
}

// Of a job that stopped after too many failures no peel has a request that could be canceled.
func TestACancelOfABatchThatStoppedSaysThatItHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		m, _ := s.master("m1")
		s.peel("a", func(p *peel, r wire.Request) { p.deliver(r, wire.Result{Error: "exit 1"}) })
		spec := ask(func(j *job.Spec) { j.Batch = &job.Batch{Size: 1, MaxFailures: 1} }, "a", "b")
		if _, err := m.Submit(t.Context(), spec, "alice"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if j := s.record(spec.JID); j.Status != job.Partial || j.Published != 1 {
			t.Fatalf("%+v", j)
		}
		if _, err := m.Cancel(t.Context(), spec.JID, "bob", ""); !errors.Is(err, dispatch.ErrEnded) {
			t.Errorf("canceled: %v", err)
		}
	})
}

// Every peel receives the cancels of all jobs.
func TestACancelTellsPeelsTheJobIDAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
		other := s.peel("b", nil)
		cancels, err := other.nc.SubscribeSync(wire.CancelOf("*"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the bus has the subscription
		spec := ask(func(j *job.Spec) { j.TargetExpr = "L@a" }, "a")
		s.dispatch(spec)
		if _, err := d.Cancel(t.Context(), spec.JID, "alice", ""); err != nil {
			t.Fatal(err)
		}
		msg, err := cancels.NextMsg(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := canon.Unmarshal(msg.Data, &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "timestamp")
		if want := map[string]any{"jid": string(spec.JID), "type": "cancel", "v": int64(wire.Version)}; !reflect.DeepEqual(fields, want) {
			t.Errorf("%#v, want %#v", fields, want)
		}
		time.Sleep(time.Minute)
		if j := s.record(spec.JID); j.Status != job.Canceled || j.Cancel.By != "alice" {
			t.Errorf("%+v", j)
		}
	})
}

func TestASecondCancelChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		other, _ := s.master("m2")
		s.peel("a", func(p *peel, r wire.Request) { p.ack(r) })
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a")
		s.dispatch(spec)
		var asked sync.WaitGroup
		var mu sync.Mutex
		did := 0
		for user, m := range map[string]*dispatch.Dispatcher{"alice": d, "bob": other, "carol": d, "dave": other} {
			asked.Go(func() {
				_, err := m.Cancel(t.Context(), spec.JID, user, "")
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					did++
				} else if !errors.Is(err, dispatch.ErrCanceled) {
					t.Error(err)
				}
			})
		}
		asked.Wait()
		if did != 1 {
			t.Errorf("%d of 4 people canceled the job", did)
		}
		time.Sleep(time.Minute)
		if j := s.record(spec.JID); j.Status != job.Canceled {
			t.Errorf("%+v", j)
		}
		n := 0
		for _, subject := range s.events(spec.JID) {
			if subject == wire.CancelOf(spec.JID) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d cancel events", n)
		}
	})
}

func TestACancelOfNothingSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		for _, jid := range []wire.JID{wire.NewJID(), "nonsense", "", "active.x"} {
			if _, err := d.Cancel(t.Context(), jid, "alice", ""); !errors.Is(err, job.ErrNotFound) {
				t.Errorf("%q: %v", jid, err)
			}
		}
	})
}

func TestCancelAtEveryStep(t *testing.T) {
	for i, at := range dispatch.Steps[1:] {
		t.Run(at, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				other, _ := s.master("m2")
				spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a", "b")
				var canceled error
				owner, _ := s.paused("m1", func(step string) {
					if step == at {
						_, canceled = other.Cancel(t.Context(), spec.JID, "bob", "")
					}
				})
				work := time.Hour
				if i > 4 { // all have returned
					work = 0
				}
				a, b := s.stoppable("a", work), s.stoppable("b", work)
				if _, err := owner.Submit(t.Context(), spec, "alice"); err != nil {
					t.Fatal(err)
				}
				time.Sleep(11 * time.Second)
				j := s.record(spec.JID)
				want, asked := job.Canceled, 1
				switch {
				case i < 2: // nothing was published
					asked = 0
				case i > 4:
					want = job.Complete
				}
				if j.Status != want || s.active(spec.JID) || s.terminalEvents(spec.JID) != 1 {
					t.Errorf("ended %s, want %s", j.Status, want)
				}
				if len(a.requests()) != asked || len(b.requests()) != asked {
					t.Errorf("%d and %d requests, want %d", len(a.requests()), len(b.requests()), asked)
				}
				if done := i > 5; errors.Is(canceled, dispatch.ErrEnded) != done || (canceled == nil) == done {
					t.Errorf("canceled: %v", canceled)
				}
				for id, row := range s.rows(spec.JID) {
					if wantRow := map[bool]job.RowState{true: job.RowSkipped}[asked == 0]; wantRow != "" && row.State != wantRow {
						t.Errorf("%s is %s", id, row.State)
					}
				}
			})
		})
	}
}

func TestACancelThatTheOwnerDidNotHearIsFound(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.stoppable("a", time.Hour)
		spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "a")
		s.dispatch(spec)
		j := s.record(spec.JID) // as a master leaves it that dies before it could tell anybody
		j.Cancel = &job.Cancel{By: "bob", Time: time.Now()}
		if err := s.store.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		time.Sleep(16 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Canceled || j.ReturnCount != 1 {
			t.Errorf("%+v", j)
		}
	})
}
