package api_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bus"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestMain(m *testing.M) { os.Exit(natstest.InMemory(m)) }

var errNoLeader = errors.New("cannot read the targets of job 1: the stream has no leader")

// serve makes a master that answers each request on a subject with what answer returns for it; n counts them from 1.
func serve(t *testing.T, b *natstest.Bus, subject string, answer func(n int) (any, error)) (asked *atomic.Int32) {
	t.Helper()
	nc := b.Conn(t, grants.RoleMaster, "m1", nats.ReconnectWait(2*time.Second), nats.ReconnectJitter(0, 0))
	s := bus.NewService(t.Context(), nc)
	t.Cleanup(s.Stop)
	asked = &atomic.Int32{}
	err := s.Handle(subject, func(r *bus.Request) {
		a, err := answer(int(asked.Add(1)))
		data, _ := canon.Marshal(a)
		if e := bus.SendReply(nc, r, data, string(api.CodeUnavailable), err); e != nil {
			t.Error(e)
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return asked
}

func person(t *testing.T, b *natstest.Bus) *api.Client {
	t.Helper()
	creds, err := b.Keys.Creds(grants.RoleOperator, "ann", 0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := api.Connect(api.ClientOptions{URL: b.URL(), Creds: creds, Connect: []nats.Option{nats.InProcessServer(b)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// The bus elects a leader for 9 s, in which masters can read nothing and say so at once.
func TestAReadThatMeetsNoLeaderIsRepeated(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		elected := time.Now().Add(9 * time.Second)
		answer := func(int) (any, error) {
			if time.Now().Before(elected) {
				return nil, errNoLeader
			}
			return job.JobsPage{}, nil
		}
		asked := serve(t, b, wire.API("job", "list", "*"), answer)
		changed := serve(t, b, wire.API("token", "create", "*"), answer)
		c := person(t, b)
		if err := c.Ask(t.Context(), "token", "create", nil, &struct{}{}); api.CodeOf(err) != api.CodeUnavailable || changed.Load() != 1 {
			t.Errorf("what must not be done twice was asked for %d times: %v", changed.Load(), err)
		}
		if _, err := api.JobList.Ask(t.Context(), c, job.Query{}); err != nil {
			t.Errorf("after %d requests: %v", asked.Load(), err)
		}
		if n := asked.Load(); n > 10 {
			t.Errorf("it asked %d times in 9 s", n)
		}
	})
}

// Masters that can read nothing for long are not asked for ever, and the error says what they said.
func TestAReadThatMeetsNoLeaderForLongFails(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		serve(t, b, wire.API("job", "list", "*"), func(int) (any, error) { return nil, errNoLeader })
		c, began := person(t, b), time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		_, err := api.JobList.Ask(ctx, c, job.Query{})
		if took := time.Since(began); took < 10*time.Second || took > 18*time.Second {
			t.Errorf("it gave up after %v", took)
		}
		if err == nil || err.Error() != errNoLeader.Error() || api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("%v", err)
		}
	})
}

// The client's server is away for a moment between two requests of one command. The client tries to connect each
// 250 ms, and the master each 2 s: the client is back at most 250 ms after the start, the master 900 ms after it.
func TestARequestWaitsForTheConnection(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		asked := serve(t, b, wire.API("token", "create", "*"), func(int) (any, error) { return struct{}{}, nil })
		c := person(t, b)
		b.Stop(t)
		time.AfterFunc(5100*time.Millisecond, func() { b.Start(t) })
		time.Sleep(time.Second) // the client knows it
		if err := c.Ask(t.Context(), "token", "create", nil, &struct{}{}); err != nil || asked.Load() != 1 {
			t.Errorf("asked %d times: %v", asked.Load(), err)
		}
	})
}

// A master reads the record of a job from a copy that does not have its end yet.
func TestTheReturnsOfAJobThatEndedAreReadAgainFromACopyThatLags(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		jid := wire.NewJID()
		serve(t, b, wire.API("job", "returns", "*"), func(n int) (any, error) {
			row := job.Row{Peel: "web-01", State: job.RowWaiting}
			record := job.Job{Spec: job.Spec{JID: jid}, Status: job.Running}
			if n%5 == 0 {
				record.Status = job.Complete
				row.State, row.Return = job.RowOK, &wire.Return{JID: jid, Peel: "web-01", Result: wire.Result{Success: true}, V: wire.Version}
			}
			return job.RowsPage{Job: record, Rows: []job.Row{row}}, nil
		})
		ended := job.Job{Spec: job.Spec{JID: jid}, TargetCount: 1, Status: job.Complete}
		ended.ReturnCount = 1
		serve(t, b, wire.API("job", "show", "*"), func(int) (any, error) { return ended, nil })
		c := person(t, b)
		for row, err := range c.EndedRows(t.Context(), jid) {
			if err != nil || row.Return == nil {
				t.Errorf("%+v, %v", row, err)
			}
		}
		f, err := c.Watch(jid)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		var events []api.Event
		for e, err := range f.Events(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		if len(events) != 2 || events[0].Peel != "web-01" || events[0].Return == nil || events[1].Ended == nil {
			t.Errorf("%+v", events)
		}
	})
}

// TestAFollowerEndsWithItsConnection follows a job that runs. A connection that is closed connects no more.
func TestAFollowerEndsWithItsConnection(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		serve(t, b, wire.API("job", "show", "*"), func(int) (any, error) { return job.Job{Status: job.Running}, nil })
		c := person(t, b)
		f, err := c.Follow(wire.NewJID(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		time.AfterFunc(time.Minute, c.Close)
		for _, err = range f.Events(t.Context()) {
		}
		if api.CodeOf(err) != api.CodeUnreachable {
			t.Errorf("it ends with %v", err)
		}
	})
}

// A connection that is closed while its events wait to be read loses none of them.
func TestWhatAFollowerHeardIsReadAfterItsConnectionIsClosed(t *testing.T) {
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		serve(t, b, wire.API("job", "show", "*"), func(int) (any, error) { return job.Job{Status: job.Running}, nil })
		jid, targets := wire.NewJID(), make([]target.PeelID, 20)
		for i := range targets {
			targets[i] = target.PeelID(fmt.Sprintf("web-%02d", i))
		}
		c, master := person(t, b), b.Conn(t, grants.RoleMaster, "m1")
		f, err := c.Follow(jid, targets)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, id := range targets {
			if err := master.Publish(wire.StoredOf(jid, id.Wire()), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := master.Flush(); err != nil {
			t.Fatal(err)
		}
		returns := 0
		for e, err := range f.Events(t.Context()) {
			if err != nil {
				break
			}
			if e.Return != nil {
				returns++
			}
			time.Sleep(time.Minute) // until all have come and the record is read
			c.Close()
		}
		if returns != len(targets) {
			t.Errorf("%d of %d returns were read", returns, len(targets))
		}
	})
}
