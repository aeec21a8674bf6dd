package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/quota"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
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

// Masters make room in the bucket, see package quota.
func TestReturnsThatFindNoRoomCountOnceThereIs(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		s.shrink("KV_job-returns", 1<<20)
		mad := s.peel("mad", nil)
		s.peel("a", pong)
		for range 10_000 {
			jid := wire.NewJID()
			mad.publish(wire.ReturnOf(jid, "mad"), wire.Return{JID: jid, Peel: "mad", Finished: time.Now().AddDate(100, 0, 0)})
		}
		spec := ask(nil, "a")
		s.dispatch(spec)
		time.Sleep(30 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Running {
			t.Fatalf("a job whose return is not stored is %s", j.Status)
		}
		st, err := s.js.Stream(t.Context(), "KV_job-returns")
		if err == nil {
			err = st.Purge(t.Context(), jetstream.WithPurgeKeep(100))
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if j := s.record(spec.JID); j.Status != job.Complete || j.ReturnCount != 1 {
			t.Errorf("%+v", j)
		}
		if st := d.Stats(); st.Stored != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestAFullBucketIsNoReasonToForgetAReturn(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		const jobs = 300
		s.peel("many", pong)
		s.refuse("job-returns", true)
		for range jobs {
			s.dispatch(ask(func(j *job.Spec) { j.Timeout = time.Hour }, "many"))
		}
		time.Sleep(time.Minute)
		if st := d.Stats(); st.Stored != 0 {
			t.Errorf("%+v", st)
		}
		s.refuse("job-returns", false)
		time.Sleep(10 * time.Second)
		if st := d.Stats(); st.Stored != jobs || st.Ended[job.Complete] != jobs {
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

func TestJobsBeyondTheBytesOfLiveOnesAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		d, _ := s.master("m1")
		d.LimitLiveBytes(20 << 10)
		large := func(j *job.Spec) {
			j.Function, j.Args = "cmd.run", map[string]any{"command": strings.Repeat("x", 8<<10)}
		}
		for range 2 {
			s.dispatch(ask(large, "away"))
		}
		refused := ask(large, "away")
		for range 3 { // a refused request leaves the count as it was
			_, err := s.request(s.alice, "alice", refused)
			wantCode(t, err, "503")
			if want := "their requests take 2"; err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "the limit is 20480")) {
				t.Errorf("%v", err)
			}
		}
		if _, err := s.store.Get(t.Context(), refused.JID); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("the refused job: %v", err)
		}
		s.dispatch(ask(nil, "away")) // a small one fits
		time.Sleep(2 * time.Minute)
		s.dispatch(refused) // the others have ended
	})
}

// A user who runs very many jobs shortens the history of that user alone.
func TestAUserBeyondTheShareOfTheHistoryPushesOutNoOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		history := s.shrink("KV_jobs", 4<<20)
		s.master("m1", func(o *dispatch.Options) { o.Records = quota.NewAccount(s.js, "KV_jobs") })
		s.peel("a", pong)
		carol := s.bus.Conn(t, grants.RoleOperator, "carol")
		quiet := s.runLarge(carol, "carol")
		var last wire.JID
		for range 200 { // 13 MiB of records
			last = s.runLarge(s.alice, "alice")
		}
		other := s.runLarge(carol, "carol")
		if j := s.record(last); j.Status != job.Complete {
			t.Errorf("the last job of the busy user is %s", j.Status)
		}
		time.Sleep(11 * time.Minute)
		s.runLarge(s.alice, "alice") // at a write the bus removes what has expired
		for _, jid := range []wire.JID{quiet, other} {
			if j, err := s.store.Get(t.Context(), jid); err != nil || j.Status != job.Complete {
				t.Errorf("a job of the other user: %v", err)
			}
		}
		info, err := history.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.FirstSeq != 1 || info.State.Msgs > 60 {
			t.Errorf("the bucket begins with message %d and has %d", info.State.FirstSeq, info.State.Msgs)
		}
	})
}

// runLarge runs a job whose record takes 64 KiB.
func (s *system) runLarge(nc *nats.Conn, user string) wire.JID {
	s.t.Helper()
	spec := ask(func(j *job.Spec) {
		j.Function, j.Args = "cmd.run", map[string]any{"command": strings.Repeat("x", 64<<10)}
	}, "a")
	if _, err := s.request(nc, user, spec); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(30 * time.Second)
	return spec.JID
}

// The bus refuses a record for ten minutes. Its tries count once for its user, so the record is kept for a week.
func TestARecordThatIsWrittenAgainTakesNoMoreOfTheHistory(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.shrink("KV_jobs", 4<<20)
		s.master("m1", func(o *dispatch.Options) { o.Records = quota.NewAccount(s.js, "KV_jobs") })
		s.peel("a", pong)
		carol := s.bus.Conn(t, grants.RoleOperator, "carol")
		for range 36 { // more than half of the bucket
			s.runLarge(carol, "carol")
		}
		s.refuse("jobs", true)
		jid := s.runLarge(s.alice, "alice")
		time.Sleep(10 * time.Minute)
		s.refuse("jobs", false)
		time.Sleep(time.Minute)
		if j := s.record(jid); j.Live || j.Status != job.Complete {
			t.Fatalf("%+v", j)
		}
		time.Sleep(11 * time.Minute)
		if _, err := s.store.Get(t.Context(), jid); err != nil {
			t.Error(err)
		}
	})
}

// A request that waited for longer than its caller, behind as many as are dispatched at a time, begins no job.
func TestARequestWhoseCallerHasLeftIsNotCarriedOut(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		allowed := make(chan struct{})
		s.master("m1", func(o *dispatch.Options) {
			o.Allow = func(context.Context, grants.Caller, *job.Spec) error { <-allowed; return nil }
		})
		send := func(waits time.Duration) wire.JID {
			t.Helper()
			spec := ask(nil, "a")
			data, err := canon.Marshal(spec)
			if err != nil {
				t.Fatal(err)
			}
			msg := &nats.Msg{Subject: wire.Dispatch("alice"), Reply: s.alice.NewInbox(), Data: data, Header: nats.Header{}}
			wire.SetCallerWaits(msg.Header, waits)
			if err := s.alice.PublishMsg(msg); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return spec.JID
		}
		for range 32 {
			send(time.Minute)
		}
		left, stays := send(time.Second), send(time.Minute)
		time.Sleep(5 * time.Second)
		close(allowed)
		synctest.Wait()
		if _, err := s.store.Get(t.Context(), left); !errors.Is(err, job.ErrNotFound) {
			t.Errorf("the job of the caller who left: %v", err)
		}
		if j := s.record(stays); j.Status != job.Running {
			t.Errorf("the job of the one who waits: %+v", j)
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
