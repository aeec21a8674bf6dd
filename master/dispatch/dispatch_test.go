package dispatch_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestAJobRunsAndIsRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		web := s.peel("web.01", pong)
		s.peel("db-01", func(p *peel, r wire.Request) {
			p.ack(r)
			time.Sleep(3 * time.Second)
			p.deliver(r, wire.Result{Error: "disk full"})
		})
		spec := ask(func(j *job.Spec) {
			j.Function, j.StateID, j.Args = "cmd.run", "uptime", map[string]any{"max_output": int64(3)}
		}, "web.01", "db-01")
		j := s.dispatch(spec)
		if j.Status != job.Running || j.User != "alice" || j.Owner != "m1" || j.Targets != nil || j.TargetCount != 2 {
			t.Errorf("answered with %+v", j)
		}
		r := web.requests()[0]
		if r.Function != "cmd.run" || r.ID != "uptime" || r.Args["max_output"] != int64(3) || r.Epoch != j.Epoch || r.V != wire.Version {
			t.Errorf("asked the peel for %+v", r)
		}
		if got := s.record(spec.JID); got.Status != job.Running || !s.active(spec.JID) {
			t.Errorf("while a peel works the job is %s, live %v", got.Status, s.active(spec.JID))
		}
		time.Sleep(4 * time.Second)
		got := s.record(spec.JID)
		if got.Status != job.Failed || got.ReturnCount != 2 || got.SuccessCount != 1 || got.Epoch != j.Epoch {
			t.Errorf("ended as %+v", got)
		}
		if s.active(spec.JID) {
			t.Error("a job that has ended is in the index")
		}
		events := s.events(spec.JID)
		if !slices.Equal(events, []string{wire.DispatchOf(spec.JID), wire.StatusOf(spec.JID)}) {
			t.Errorf("events: %v", events)
		}
		if st := d.Stats(); st.Dispatched != 1 || st.Stored != 2 || st.Ended[job.Failed] != 1 || st.Resent+st.Forged != 0 {
			t.Errorf("%+v", st)
		}
	})
}

func TestHowAJobEnds(t *testing.T) {
	fail := func(p *peel, r wire.Request) { p.result(r, wire.Result{Error: "no"}) }
	for want, on := range map[job.Status][]func(*peel, wire.Request){
		job.Complete: {pong, pong},
		job.Failed:   {pong, fail},
		job.Partial:  {fail, nil},
		job.Timeout:  {nil, nil},
	} {
		t.Run(string(want), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				s.master("m1")
				var targets []target.PeelID
				for i, f := range on {
					targets = append(targets, target.PeelID(fmt.Sprint("p", i)))
					s.peel(targets[i], f)
				}
				spec := ask(nil, targets...)
				s.dispatch(spec)
				time.Sleep(61 * time.Second)
				if j := s.record(spec.JID); j.Status != want {
					t.Errorf("%s: %+v", j.Status, j)
				}
			})
		})
	}
}

func TestUserIsTheOneOfTheCredential(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("a", pong)
		denied := make(chan error, 1)
		bob := s.bus.Conn(t, grants.RoleOperator, "bob", nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
		if j, err := s.request(bob, "bob", ask(nil, "a")); err != nil || j.User != "bob" {
			t.Errorf("%+v, %v", j, err)
		}
		if err := bob.Publish(wire.Dispatch("alice"), nil); err != nil {
			t.Fatal(err)
		}
		if err := <-denied; !strings.Contains(err.Error(), wire.Dispatch("alice")) {
			t.Errorf("speaking as alice: %v", err)
		}
	})
}

func TestBadRequestsAreRefusedByName(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		_, err := s.request(s.alice, "alice", ask(nil))
		wantCode(t, err, "400")
		if err == nil || !strings.Contains(err.Error(), "it has no targets") {
			t.Errorf("no targets: %v", err)
		}
		_, err = s.request(s.alice, "alice", ask(func(j *job.Spec) { j.Metadata = map[string]string{"source": "schedule"} }, "a"))
		wantCode(t, err, "400")
		msg, err := s.alice.Request(wire.Dispatch("alice"), []byte("{}"), time.Second)
		if err != nil || msg.Header.Get("Nats-Service-Error-Code") != "400" {
			t.Errorf("bytes that are no request: %v, %v", msg, err)
		}
	})
}

func TestDeadlineIsTheMastersWhateverTheClientsClockSays(t *testing.T) {
	for _, off := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		bubble(t, func(t *testing.T, s *system) {
			s.master("m1")
			p := s.peel("a", nil)
			began := time.Now()
			spec := ask(func(j *job.Spec) { j.JID = idOf(t, began.Add(off)); j.Timeout = 90 * time.Second }, "a")
			j := s.dispatch(spec)
			if !j.Deadline.Equal(j.Updated.Add(90*time.Second)) || j.Updated.Before(began) {
				t.Errorf("client off by %v: deadline %v, now %v", off, j.Deadline, began)
			}
			time.Sleep(10 * time.Second)
			first, again := p.requests()[0], p.requests()[1]
			if first.TimeLeft > 90*time.Second || first.TimeLeft < 89*time.Second || !first.Deadline.Equal(j.Deadline) {
				t.Errorf("the request says %v are left, until %v", first.TimeLeft, first.Deadline)
			}
			if again.TimeLeft > 85*time.Second {
				t.Errorf("the second request says %v are left", again.TimeLeft)
			}
			time.Sleep(81 * time.Second)
			if j := s.record(spec.JID); j.Status != job.Timeout {
				t.Errorf("after the deadline: %s", j.Status)
			}
		})
	}
}

func TestAJobOutlivesWhoAskedForIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		s.peel("a", func(p *peel, r wire.Request) { time.Sleep(20 * time.Second); pong(p, r) })
		carol := s.bus.Conn(t, grants.RoleOperator, "carol")
		spec := ask(nil, "a")
		if _, err := s.request(carol, "carol", spec); err != nil {
			t.Fatal(err)
		}
		carol.Close()
		time.Sleep(21 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.User != "carol" {
			t.Errorf("%+v", j)
		}
	})
}

func TestSilentTargetGetsTheRequestOnceMore(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		slow := s.peel("slow", func(p *peel, r wire.Request) { p.ack(r) })
		quiet := s.peel("quiet", nil)
		fast := s.peel("fast", pong)
		spec := ask(nil, "slow", "quiet", "fast")
		s.dispatch(spec)
		time.Sleep(4900 * time.Millisecond)
		if n := len(quiet.requests()); n != 1 {
			t.Errorf("before the window ended the silent target has %d requests", n)
		}
		time.Sleep(time.Minute)
		q := quiet.requests()
		if len(q) != 2 || q[0].Epoch != q[1].Epoch || q[0].JID != q[1].JID {
			t.Errorf("the silent target was sent %+v", q)
		}
		if len(slow.requests()) != 1 || len(fast.requests()) != 1 {
			t.Errorf("one that acknowledged has %d requests, one that returned %d", len(slow.requests()), len(fast.requests()))
		}
		if st := d.Stats(); st.Resent != 1 || st.Unreachable != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// An acknowledgement of another request of the job says nothing about this one.
func TestAnAcknowledgementOfAnotherEpochDoesNotCount(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		ackOf := func(shift int) func(*peel, wire.Request) {
			return func(p *peel, r wire.Request) {
				r.Epoch += uint64(shift)
				p.ack(r)
			}
		}
		older := s.peel("older", ackOf(-1))
		newer := s.peel("newer", ackOf(1))
		same := s.peel("same", ackOf(0))
		s.dispatch(ask(nil, "older", "newer", "same"))
		time.Sleep(30 * time.Second)

		for _, p := range []*peel{older, newer, same} {
			want := 2 // as a silent target
			if p == same {
				want = 1
			}
			if n := len(p.requests()); n != want {
				t.Errorf("the peel that acknowledges the %s epoch has %d requests, want %d", p.id, n, want)
			}
		}
	})
}

func TestATargetThatComesBackInTheWindowIsReached(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		spec := ask(nil, "away")
		s.dispatch(spec)
		time.Sleep(3 * time.Second)
		s.peel("away", pong)
		time.Sleep(3 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete {
			t.Errorf("%s", j.Status)
		}
	})
}

func TestANegativeWindowSendsNothingAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1", func(o *dispatch.Options) { o.AckWindow = -1 })
		p := s.peel("quiet", nil)
		s.dispatch(ask(nil, "quiet"))
		time.Sleep(time.Minute + time.Second)
		if n := len(p.requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// The bus stores whatever a peel publishes first.
func TestADamagedReturnCountsAsAFailedOne(t *testing.T) {
	for name, damage := range map[string]func(r *wire.Return, data []byte) []byte{
		"speaks for another":            changed(t, func(r *wire.Return) { r.Peel = "b" }),
		"speaks for a peel of its name": changed(t, func(r *wire.Return) { r.Peel = "a_x" }), // of the same name on the bus, but no target
		"is of another job":             changed(t, func(r *wire.Return) { r.JID = wire.NewJID() }),
		"is too large":                  changed(t, func(r *wire.Return) { r.Data = make([]byte, job.MaxReturn) }),
		"is of a later version":         changed(t, func(r *wire.Return) { r.V = wire.Version + 1 }),
		"is a success that is canceled": changed(t, func(r *wire.Return) { r.Outcome = wire.Canceled }),
		"is cut":                        func(_ *wire.Return, data []byte) []byte { return data[:20] },
		"is empty":                      func(*wire.Return, []byte) []byte { return nil },
		"is an answer of the bus":       func(*wire.Return, []byte) []byte { return []byte(`{"stream":"facts","seq":1}`) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				d, _ := s.master("m1")
				a := s.peel("a.x", nil)
				spec := ask(nil, "a.x")
				s.dispatch(spec)
				whole := wire.Return{JID: spec.JID, Peel: "a.x", Result: wire.Result{Success: true, Data: "real"}, V: wire.Version}
				data, err := canon.Marshal(whole)
				if err == nil {
					err = a.nc.Publish(wire.ReturnOf(spec.JID, "a_x"), damage(&whole, data))
				}
				if err != nil {
					t.Fatal(err)
				}
				if err := a.nc.Publish(wire.ReturnOf(spec.JID, "a_x"), data); err != nil {
					t.Fatal(err)
				}
				j := s.record(spec.JID)
				if j.Status != job.Failed || j.ReturnCount != 1 || j.SuccessCount != 0 {
					t.Errorf("%s with %d returns, %d successes", j.Status, j.ReturnCount, j.SuccessCount)
				}
				row := s.rows(spec.JID)["a.x"]
				if row.State != job.RowFailed || row.Return == nil || row.Return.Success || !strings.Contains(row.Return.Error, "the return is damaged") {
					t.Errorf("the row is %+v", row)
				}
				if st := d.Stats(); st.Forged != 1 || st.Stored != 1 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

func changed(t *testing.T, change func(*wire.Return)) func(*wire.Return, []byte) []byte {
	return func(r *wire.Return, _ []byte) []byte {
		change(r)
		data, err := canon.Marshal(r)
		if err != nil {
			t.Error(err)
		}
		return data
	}
}

func TestOnlyTheFirstReturnsOfTargetsCount(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		a, stranger := s.peel("a.x", nil), s.peel("stranger", nil)
		s.peel("b", nil)
		spec := ask(nil, "a.x", "b")
		j := s.dispatch(spec)
		r := wire.Request{JID: spec.JID, Epoch: j.Epoch}
		stranger.result(r, wire.Result{Success: true})
		a.publish(wire.ScheduledOf(spec.JID, "a_x"), wire.ScheduledResult{JID: spec.JID, Peel: "a.x", Entry: "e", Function: "f"})
		a.publish(wire.ReturnOf(spec.JID, "a_x"), wire.Return{JID: spec.JID, Peel: "a.x", Result: wire.Result{Data: make([]byte, wire.MaxMessage-8<<10)}})
		if st := d.Stats(); st.Stored != 0 {
			t.Errorf("before the return: %+v", st)
		}
		a.result(r, wire.Result{Success: true, Data: "first"})
		a.result(r, wire.Result{Data: "second"})
		time.Sleep(61 * time.Second)
		a.result(r, wire.Result{Data: "third"})
		if j := s.record(spec.JID); j.Status != job.Partial || j.ReturnCount != 1 || j.SuccessCount != 1 {
			t.Errorf("%+v", j)
		}
		if r := s.rows(spec.JID)["a.x"].Return; r == nil || r.Data != "first" {
			t.Errorf("stored %+v", r)
		}
		if st := d.Stats(); st.Strangers != 1 || st.Stored != 1 || st.Forged != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// A peel may put any header into its return.
func TestHeadersOfAReturnMeanNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		a, b := s.peel("a", pong), s.peel("b", nil)
		spec := ask(nil, "a", "b")
		j := s.dispatch(spec)
		synctest.Wait()
		for _, header := range []nats.Header{
			{"Nats-Rollup": {"all"}}, {"Nats-Rollup": {"sub"}}, {"Nats-TTL": {"1s"}}, {"Nats-Marker-Reason": {"MaxAge"}, "KV-Operation": {"DEL"}, "Nats-Sequence": {"1"}},
		} {
			data, err := canon.Marshal(wire.Return{JID: spec.JID, Peel: "b", Result: wire.Result{Data: "b"}, Epoch: j.Epoch, V: wire.Version})
			if err == nil {
				err = b.nc.PublishMsg(&nats.Msg{Subject: wire.ReturnOf(spec.JID, "b"), Header: header, Data: data})
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
		}
		a.result(wire.Request{JID: spec.JID, Epoch: j.Epoch}, wire.Result{Data: "again"})
		if j := s.record(spec.JID); j.Status != job.Failed || j.ReturnCount != 2 || j.SuccessCount != 1 {
			t.Errorf("%s with %d returns", j.Status, j.ReturnCount)
		}
		for id, want := range map[target.PeelID]any{"a": true, "b": "b"} {
			if r := s.rows(spec.JID)[id].Return; r == nil || r.Data != want {
				t.Errorf("of %s is stored %+v", id, r)
			}
		}
		if n, err := s.store.CountStored(t.Context(), spec.JID); err != nil || n != 2 || d.Stats().Stored != 2 {
			t.Errorf("%d, %v, %+v", n, err, d.Stats())
		}
	})
}

func TestAsManyPeelsAsThereAre(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		var targets []target.PeelID
		for i := range 700 {
			targets = append(targets, target.PeelID(fmt.Sprintf("p%03d", i)))
		}
		for _, id := range targets[:40] {
			s.peel(id, pong)
		}
		spec := ask(nil, targets...)
		s.dispatch(spec)
		time.Sleep(61 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Partial || j.ReturnCount != 40 || len(j.Targets) != 700 {
			t.Errorf("%s with %d returns of %d", j.Status, j.ReturnCount, len(j.Targets))
		}
		if st := d.Stats(); st.Resent != 660 {
			t.Errorf("%+v", st)
		}
	})
}

func TestOneOfTwoMastersTakesAJob(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d1, _ := s.master("m1")
		d2, _ := s.master("m2")
		p := s.peel("a", pong)
		var owners []string
		for range 20 {
			owners = append(owners, s.dispatch(ask(nil, "a")).Owner)
		}
		time.Sleep(time.Second)
		if n := len(p.requests()); n != 20 || !slices.Contains(owners, "m1") || !slices.Contains(owners, "m2") {
			t.Errorf("%d requests for 20 jobs of %v", n, owners)
		}
		if done := d1.Stats().Ended[job.Complete] + d2.Stats().Ended[job.Complete]; done != 20 {
			t.Errorf("%d jobs complete", done)
		}
	})
}

// Another master that answers requests does not make this one a master that does.
func TestADispatcherAnswersFromItsOwnSubscriptionOn(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		first, _ := s.master("m1")
		idle, err := dispatch.New(dispatch.Options{Conn: s.bus.Conn(t, grants.RoleMaster, "m2"), Store: s.store, Owner: "m2"})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-idle.Answering():
			t.Error("it has not begun")
		default:
		}
		select {
		case <-first.Answering():
		default:
			t.Error("it runs")
		}
	})
}
