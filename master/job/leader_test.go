package job_test

import (
	"bytes"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A lagging bus answers direct reads of the returns as a copy without any of them would: from an empty stream. So it
// answers a number of requests to the leader.
type lagging struct {
	nats.InProcessConnProvider
	leader *atomic.Int32
}

func (l lagging) InProcessConn() (net.Conn, error) {
	c, err := l.InProcessConnProvider.InProcessConn()
	return laggingConn{c, l.leader}, err
}

type laggingConn struct {
	net.Conn
	leader *atomic.Int32
}

func (c laggingConn) Write(p []byte) (int, error) {
	const returns, laggard = "KV_job-returns ", "KV_job-laggard "
	divert := func(request string) {
		p = bytes.ReplaceAll(p, []byte(request+returns), []byte(request+laggard)) // as long: n stays
	}
	divert("$JS.API.DIRECT.GET.")
	if info := "$JS.API.STREAM.INFO."; bytes.Contains(p, []byte(info+returns)) && c.leader.Add(-1) >= 0 {
		divert(info)
	}
	return c.Conn.Write(p)
}

// The record of a job says that it is complete before every copy of the returns, or a new leader of them, has them.
func TestAReturnThatACopyDoesNotHaveYetIsNotMissing(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_job-laggard", AllowDirect: true}); err != nil {
			t.Fatal(err)
		}
		var leader atomic.Int32
		late, err := jetstream.New(b.Conn(t, grants.RoleMaster, "m1", nats.InProcessServer(lagging{b, &leader})))
		if err != nil {
			t.Fatal(err)
		}
		s, err := job.NewStore(t.Context(), late)
		if err != nil {
			t.Fatal(err)
		}
		j := claim("web-01", "web-02", "away")
		j.Status, j.Published, j.Sent = job.Running, 3, time.Now()
		create(t, s, j)
		put(t, js, wire.Return{JID: j.JID, Peel: "web-01", Result: wire.Result{Success: true, Data: "pong"}, V: wire.Version})
		put(t, js, wire.Return{JID: j.JID, Peel: "web-02", Result: wire.Result{Error: "no"}, V: wire.Version})
		if got := rows(t, s, j.JID); got["web-01"].State != job.RowWaiting {
			t.Fatalf("the copy does not lag: %+v", got)
		}
		j.Status, j.ReturnCount, j.LastReturn = job.Partial, 2, 2
		if err := s.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		leader.Store(3)
		got := rows(t, s, j.JID)
		if leader.Load() >= 0 {
			t.Error("the leader did not lag")
		}
		if got["web-01"].Late || got["web-02"].Late { // the record counts both
			t.Errorf("late: %+v", got)
		}
		if got["web-01"].State != job.RowOK || got["web-01"].Return.Data != "pong" || got["web-02"].State != job.RowFailed || got["away"].State != job.RowMissing {
			t.Errorf("%+v", got)
		}
		leader.Store(1 << 20)
		page, err := s.Rows(t.Context(), j.JID, "")
		if err == nil || !strings.Contains(err.Error(), "does not have all of them yet") {
			t.Errorf("of a leader that goes on lagging: %+v, %v", page, err)
		}
	})
}

// A job that was removed under an ID that has been claimed again takes nothing of the new claim along.
func TestRemovingAJobLeavesALaterClaimOfItsID(t *testing.T) {
	bubble(t, func(t *testing.T, s *job.Store, _ jetstream.JetStream) {
		j := claim("web-01")
		create(t, s, j)
		former := *j
		j.Status = job.Running
		if err := s.Update(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(t.Context(), &former); err != nil {
			t.Fatal(err)
		}
		if got, err := s.GetRecord(t.Context(), j.JID); err != nil || got.Status != job.Running {
			t.Errorf("what was stored later: %+v, %v", got, err)
		}
		if err := s.Remove(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		if _, err := s.GetRecord(t.Context(), j.JID); err == nil {
			t.Error("the job itself was not removed")
		}
	})
}
