package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestClocksOfPeelsAndTheOrderOfTheirMessagesHaveNoPartInAJob(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		for id, off := range map[target.PeelID]time.Duration{"behind": -time.Hour, "ahead": time.Hour} {
			s.peel(id, func(p *peel, r wire.Request) {
				time.Sleep(2 * time.Second)
				then := time.Now().Add(off)
				p.publish(wire.ReturnOf(r.JID, p.id.Wire()), wire.Return{JID: r.JID, Peel: p.id, Result: wire.Result{Success: true}, Epoch: r.Epoch, Finished: then, V: wire.Version})
				p.publish(wire.AckOf(r.JID, p.id.Wire()), wire.Ack{JID: r.JID, Peel: p.id, Epoch: r.Epoch, Time: then, V: wire.Version})
			})
		}
		spec := ask(nil, "ahead", "behind", "hangs")
		s.peel("hangs", func(p *peel, r wire.Request) { p.ack(r) })
		began := time.Now()
		s.dispatch(spec)
		time.Sleep(61 * time.Second)
		j := s.record(spec.JID)
		if took := j.Updated.Sub(began); j.Status != job.Partial || j.SuccessCount != 2 || took < time.Minute || took > 61*time.Second {
			t.Errorf("%s with %d successes after %v", j.Status, j.SuccessCount, took)
		}
		for id, row := range s.rows(spec.JID) {
			if id != "hangs" && (row.State != job.RowOK || row.Late) {
				t.Errorf("%+v", row)
			}
		}
	})
}

func TestAJobOutlivesACallThatIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		s.peel("a", pong)
		spec := ask(nil, "a")
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := d.Submit(gone, spec, "alice"); err == nil {
			t.Log("the answer was faster")
		}
		if j := s.record(spec.JID); j.Status != job.Complete || j.User != "alice" {
			t.Errorf("%+v", j)
		}
	})
}

func TestAFunctionThatSomePeelsLackFailsThereAlone(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("a", pong)
		s.peel("old", func(p *peel, r wire.Request) {
			p.ack(r)
			p.result(r, wire.Result{Error: `no such function "test.ping"`})
		})
		spec := ask(nil, "a", "old")
		s.dispatch(spec)
		j, rows := s.record(spec.JID), s.rows(spec.JID)
		if j.Status != job.Failed || j.SuccessCount != 1 || rows["a"].State != job.RowOK ||
			rows["old"].State != job.RowFailed || !strings.Contains(rows["old"].Return.Error, "no such function") {
			t.Errorf("%s: %+v", j.Status, rows)
		}
	})
}

func TestLargeReturnsOfManyPeelsAreAllThere(t *testing.T) {
	const peels, size = 200, 64 << 10 // together many times what one message of the bus carries
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		var targets []target.PeelID
		for i := range peels {
			id := target.PeelID(fmt.Sprintf("p%03d", i))
			targets = append(targets, id)
			s.peel(id, func(p *peel, r wire.Request) {
				p.ack(r)
				p.result(r, wire.Result{Success: true, Data: strings.Repeat(string(p.id), size/len(p.id))})
			})
		}
		spec := ask(nil, targets...)
		s.dispatch(spec)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != peels {
			t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
		}
		read := 0
		for after, more := target.PeelID(""), true; more; {
			page, err := s.store.Rows(t.Context(), spec.JID, after)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range page.Rows {
				if text, _ := row.Return.Data.(string); strings.Count(text, string(row.Peel)) != size/len(row.Peel) {
					t.Errorf("%s returned %d bytes", row.Peel, len(text))
				}
				after = row.Peel
			}
			read, more = read+len(page.Rows), page.Next != ""
		}
		if read != peels {
			t.Errorf("%d rows", read)
		}
	})
}

func TestAHundredJobsAtOnceShareTheirPeels(t *testing.T) {
	const jobs, peels = 100, 30
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		var targets []target.PeelID
		for i := range peels {
			id := target.PeelID(fmt.Sprintf("p%02d", i))
			targets = append(targets, id)
			s.peel(id, func(p *peel, r wire.Request) {
				p.ack(r)
				if r.Function == "test.sleep" {
					time.Sleep(30 * time.Second)
				}
				p.result(r, wire.Result{Success: true})
			})
		}
		before := runtime.NumGoroutine()
		specs := make([]job.Spec, jobs)
		var asked sync.WaitGroup
		for i := range specs {
			specs[i] = ask(func(j *job.Spec) { j.Function, j.StateID = "test.sleep", "30s" }, targets...)
			asked.Go(func() {
				if _, err := d.Submit(t.Context(), specs[i], "alice"); err != nil {
					t.Error(err)
				}
			})
		}
		asked.Wait()
		synctest.Wait()
		if grown := runtime.NumGoroutine() - before - jobs*peels; grown > 2*jobs {
			t.Errorf("%d jobs that wait take %d goroutines", jobs, grown)
		}
		// One who comes behind them is served all the same.
		small := ask(nil, targets[:1]...)
		if _, err := d.Submit(t.Context(), small, "bob"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if j := s.record(small.JID); j.Status != job.Complete {
			t.Errorf("a job behind the others is %s", j.Status)
		}
		time.Sleep(30 * time.Second)
		for _, spec := range specs {
			if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != peels {
				t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
			}
		}
	})
}

func TestWhoAsksAgainLearnsOfAnEndThatNobodyTold(t *testing.T) {
	// m1 dies between the final record and the event. Who asks again, before the job is found in the index, must not be the
	// reason that nobody else ever hears of its end.
	bubble(t, func(t *testing.T, s *system) {
		var once sync.Once
		m1 := s.whole("m1", func(step string, kill func()) {
			if step == dispatch.StepEnded {
				once.Do(kill)
			}
		})
		s.once("a")
		spec := ask(nil, "a")
		if _, err := m1.Submit(t.Context(), spec, "alice"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || s.terminalEvents(spec.JID) != 0 {
			t.Fatalf("%s, %d terminal events", j.Status, s.terminalEvents(spec.JID))
		}
		m1.stop()
		m2 := s.whole("m2", nil)
		for range 2 {
			if j, err := m2.Submit(t.Context(), spec, "alice"); err != nil || j.Status != job.Complete {
				t.Errorf("%+v, %v", j, err)
			}
		}
		if n := s.terminalEvents(spec.JID); n != 1 || s.active(spec.JID) {
			t.Errorf("%d terminal events, live %v", n, s.active(spec.JID))
		}
	})
}

func TestACallThatNoPeelCouldRunIsNoJob(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		web := s.peel("web-01", pong)
		for want, change := range map[string]func(*job.Spec){
			`no such function "test.pnig"; did you mean "test.ping"?`: func(j *job.Spec) { j.Function = "test.pnig" },
			`argument comand: unknown; did you mean "command"?`: func(j *job.Spec) {
				j.Function, j.Args = "cmd.run", map[string]any{"comand": "true"}
			},
			"argument command is given twice": func(j *job.Spec) {
				j.Function, j.StateID, j.Args = "cmd.run", "true", map[string]any{"command": "true"}
			},
			"argument text is missing": func(j *job.Spec) { j.Function = "test.echo" },
		} {
			spec := ask(change, "web-01")
			if _, err := d.Submit(t.Context(), spec, "alice"); !errors.Is(err, dispatch.ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			if _, err := s.store.Get(t.Context(), spec.JID); !errors.Is(err, job.ErrNotFound) {
				t.Errorf("%s: there is a record: %v", want, err)
			}
		}
		if n := len(web.requests()); n > 0 {
			t.Errorf("the peel was asked %d times", n)
		}
	})
}

// TestASubmitAfterTheEndIsAnswered submits while the dispatcher stops and after it has stopped.
func TestASubmitAfterTheEndIsAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, stop := s.master("m1")
		var submitting sync.WaitGroup
		for i := range 200 {
			submitting.Go(func() {
				time.Sleep(time.Duration(i) * 20 * time.Millisecond) // the stop takes up to 2 s of them
				j, err := d.Submit(t.Context(), ask(nil, "a"), "alice")
				if (j == nil) == (err == nil) {
					t.Errorf("%v, %v", j, err)
				}
			})
		}
		time.Sleep(time.Second)
		stop()
		submitting.Wait()
		if _, err := d.Submit(t.Context(), ask(nil, "a"), "alice"); err == nil || !strings.Contains(err.Error(), "is stopping, repeat the request") {
			t.Errorf("after the end: %v", err)
		}
	})
}
