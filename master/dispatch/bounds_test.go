package dispatch_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// shrink gives a stream a limit that a test can reach.
func (s *system) shrink(stream string, bytes int64) jetstream.Stream {
	s.t.Helper()
	st, err := s.js.Stream(s.t.Context(), stream)
	if err != nil {
		s.t.Fatal(err)
	}
	c := st.CachedInfo().Config
	c.MaxBytes = bytes
	if _, err := s.js.UpdateStream(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
	return st
}

func TestAPeelThatFloodsTheStreamStopsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		events, returns := s.shrink("job-events", 1<<20), s.shrink("KV_job-returns", 1<<20)
		mad := s.peel("mad", nil)
		p := s.peel("a", func(p *peel, r wire.Request) { p.result(r, wire.Result{Success: true}) }) // an ack could be heard after the end
		for i := range 30 {
			jid := wire.NewJID()
			mad.publish(wire.ReturnOf(jid, "mad"), wire.Return{JID: jid, Peel: "mad", Result: wire.Result{Data: make([]byte, 100<<10)}})
			big := ask(nil, "big")
			if i == 0 {
				s.peel("big", func(p *peel, r wire.Request) { p.result(r, wire.Result{Success: true, Data: make([]byte, 100<<10)}) })
			}
			s.dispatch(big)
			time.Sleep(time.Second)
			if j := s.record(big.JID); j.Status != job.Complete {
				t.Fatalf("job %d is %s", i, j.Status)
			}
		}
		for range 10_000 {
			jid := wire.NewJID()
			mad.publish(wire.ReturnOf(jid, "mad"), wire.Return{JID: jid, Peel: "mad", Finished: time.Now().AddDate(100, 0, 0)})
		}
		spec := ask(nil, "a")
		s.dispatch(spec)
		if j := s.record(spec.JID); j.Status != job.Complete || len(p.requests()) != 1 || j.Updated.Sub(j.Created) > time.Second {
			t.Errorf("%+v", j)
		}
		if st := d.Stats(); st.Unwatched != 10_030 || st.Stored != 31 {
			t.Errorf("%+v", st)
		}
		for _, stream := range []jetstream.Stream{events, returns} {
			info, err := stream.Info(t.Context())
			if err != nil || info.State.Bytes > 1<<20 {
				t.Errorf("%s holds %d bytes, %v", info.Config.Name, info.State.Bytes, err)
			}
		}
	})
}

func TestAFullBucketIsNoReasonToForgetAReturn(t *testing.T) {
	// More returns than are in flight at a time, refused for a minute.
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		p := s.peel("many", nil)
		var jids []wire.JID
		s.refuse("job-returns", true)
		for range 1100 {
			spec := ask(func(j *job.Spec) { j.Timeout = time.Hour }, "many")
			s.dispatch(spec)
			jids = append(jids, spec.JID)
		}
		for _, r := range p.requests() {
			p.result(r, wire.Result{Success: true})
		}
		time.Sleep(time.Minute)
		if st := d.Stats(); st.Stored != 0 || st.Retried == 0 {
			t.Errorf("%+v", st)
		}
		s.refuse("job-returns", false)
		time.Sleep(10 * time.Second)
		if st := d.Stats(); st.Stored != uint64(len(jids)) || st.Ended[job.Complete] != uint64(len(jids)) {
			t.Errorf("%+v", st)
		}
	})
}

func TestTenThousandTargets(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.master("m1")
		targets := make([]target.PeelID, 10_000)
		for i := range targets {
			targets[i] = target.PeelID(fmt.Sprintf("%s-%05d", "a-name-of-common-length", i))
		}
		s.peel(targets[0], pong)
		last := s.peel(targets[9999], pong)
		spec := ask(nil, targets...)
		s.dispatch(spec)
		time.Sleep(61 * time.Second)
		j := s.record(spec.JID)
		if j.Status != job.Partial || j.ReturnCount != 2 || len(j.Targets) != 10_000 || len(last.requests()) != 1 {
			t.Errorf("%s with %d returns of %d targets", j.Status, j.ReturnCount, len(j.Targets))
		}
		entry, err := s.js.KeyValue(t.Context(), "jobs")
		if err != nil {
			t.Fatal(err)
		}
		if e, err := entry.Get(t.Context(), string(spec.JID)); err != nil || len(e.Value()) > 2<<10 {
			t.Errorf("the record takes %d bytes, %v", len(e.Value()), err)
		}
	})
}

func TestJobsBeyondTheLimitOfLiveOnesAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		d.LimitLive(2)
		s.peel("b", pong)
		for range 2 {
			s.dispatch(ask(nil, "away"))
		}
		refused := ask(nil, "b")
		_, err := s.request(s.alice, "alice", refused)
		wantCode(t, err, "503")
		if want := "too many jobs have not ended: wait for some to end, or cancel some that `zester job active` lists (this master has 2, the limit)"; err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
		if _, err := s.store.Get(t.Context(), refused.JID); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("the refused job: %v", err)
		}
		time.Sleep(2 * time.Minute)
		s.dispatch(refused) // the others have ended, and its ID is free
		if j := s.record(refused.JID); j.Status != job.Complete {
			t.Errorf("then it is %s", j.Status)
		}
	})
}

func TestNoJobBeginsWhileTheBusHasNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		full := errors.New("the disk is full")
		d, _ := s.master("m1", func(o *dispatch.Options) { o.Room = func() error { return full } })
		p := s.peel("a", pong)
		spec := ask(nil, "a")
		if _, err := d.Submit(t.Context(), spec, "alice"); !errors.Is(err, full) || !strings.Contains(err.Error(), "cannot run job "+string(spec.JID)) {
			t.Errorf("without room: %v", err)
		}
		if _, err := s.store.Get(t.Context(), spec.JID); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("without room there is a record: %v", err)
		}
		full = nil
		if _, err := d.Submit(t.Context(), spec, "alice"); err != nil {
			t.Errorf("with room: %v", err)
		}
		time.Sleep(time.Second)
		if n := len(p.requests()); n != 1 {
			t.Errorf("the peel has %d requests", n)
		}
	})
}

func TestTheBytesOfReturnsInFlightAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		const size, peels = 480 << 10, 200
		ids := make([]target.PeelID, peels)
		for i := range ids {
			ids[i] = target.PeelID(fmt.Sprint("p", i))
		}
		jid := wire.NewJID()
		nc := s.bus.Conn(t, grants.RoleMaster, "m1", nats.ReconnectBufSize(-1))
		left := dispatch.LeftWaiting(t, nc, jid, ids, make([]byte, size))
		if sent := peels - left; sent*size < dispatch.BytesAtOnce || (sent-1)*size >= dispatch.BytesAtOnce {
			t.Errorf("%d returns of %d bytes were sent at once, %d bytes may be in flight", sent, size, dispatch.BytesAtOnce)
		}
		if returns := s.stored(jid); returns != peels {
			t.Errorf("%d of %d returns are stored", returns, peels)
		}
	})
}

// stored is how many returns of a job the bucket has.
func (s *system) stored(jid wire.JID) (returns int) {
	s.t.Helper()
	if err := s.store.Stored(s.t.Context(), jid, func(*nats.Msg) { returns++ }); err != nil {
		s.t.Fatal(err)
	}
	return returns
}
