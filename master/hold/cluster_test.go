package hold_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/audit"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/hold"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/master/reach"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// A trio is three servers with a master at each, which knows people by the copies of the bus.
type trio struct {
	t       *testing.T
	cluster *natstest.Cluster
	js      jetstream.JetStream
	people  map[string]*nats.Conn
}

func newTrio(t *testing.T) *trio {
	c := natstest.ListenCluster(t)
	tr := &trio{t: t, cluster: c, people: map[string]*nats.Conn{}}
	for servers := map[string]bool{}; len(servers) < 3; {
		nc := c.Conn(t, grants.RoleMaster, fmt.Sprintf("m%d", len(servers)))
		if servers[nc.ConnectedServerName()] {
			nc.Close()
			continue
		}
		servers[nc.ConnectedServerName()] = true
		tr.serve(nc)
	}
	users, err := bucket.OpenRecords[credential.User](t.Context(), tr.js, wire.BucketUsers, "", "the user")
	tr.must(err)
	for _, name := range []string{"ann", "bob"} {
		tr.must(users.Create(t.Context(), name, credential.User{Name: name, Role: grants.RoleOperator, CreatedBy: "root"}))
		tr.people[name] = c.Conn(t, grants.RoleOperator, name)
	}
	return tr
}

func (tr *trio) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

// serve runs a master's service until the test ends.
func (tr *trio) serve(nc *nats.Conn) {
	js, err := jetstream.New(nc)
	tr.must(err)
	jobs, err := job.NewStore(tr.t.Context(), js)
	tr.must(err)
	known, err := reach.Open(tr.t.Context(), js, nil)
	tr.must(err)
	s := hold.New(hold.Options{
		JetStream: js, Jobs: jobs, Audit: audit.OpenLog(js, nil), CheckNotRevoked: known.CheckCurrent,
		Allow: func(context.Context, grants.Caller, *job.Spec) error { return nil },
		Select: func(context.Context, grants.Caller, string) ([]target.PeelID, error) {
			return []target.PeelID{"web-01"}, nil
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
			tr.t.Error(err)
		}
	})
	tr.t.Cleanup(func() { cancel(); serving.Wait() })
	tr.cluster.Spread(nc)
	tr.js = js
}

// asks sends a request until a master has answered it: while the bucket elects a leader, none can.
func (tr *trio) asks(name, verb string, question any) (a api.HoldAction, err error) {
	data, err := canon.Marshal(question)
	if err != nil {
		return a, err
	}
	for {
		msg, err := tr.people[name].Request(wire.API("hold", verb, name), data, 20*time.Second)
		if err == nil {
			err = api.ReplyError(msg)
		}
		again := errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) || api.CodeOf(err) == api.CodeUnavailable
		if again && tr.t.Context().Err() == nil {
			continue
		}
		if err == nil {
			err = canon.Unmarshal(msg.Data, &a)
		}
		return a, err
	}
}

// during calls f six times at once while the bucket changes its leader.
func (tr *trio) during(f func() (string, error)) (all [6]string, err error) {
	var asking sync.WaitGroup
	errs := make([]error, len(all)+1)
	asking.Go(func() {
		_, errs[len(all)] = tr.js.Conn().Request("$JS.API.STREAM.LEADER.STEPDOWN."+wire.KV(wire.BucketHeld), nil, time.Minute)
	})
	for i := range all {
		asking.Go(func() { all[i], errs[i] = f() })
	}
	asking.Wait()
	return all, errors.Join(errs...)
}

// TestThreeServersMakeOneActionAndOneJobOfARequest: copies of the request reach masters at three servers while the bucket
// changes its leader, so that the copies of it that lists are read from are behind each other.
func TestThreeServersMakeOneActionAndOneJobOfARequest(t *testing.T) {
	tr := newTrio(t)
	q := api.HoldAddRequest{
		Kind: api.HoldDispatch, Target: "web-*", Hash: audit.PeelsHash([]target.PeelID{"web-01"}), Module: "test.ping", Agent: "helper",
	}
	add := func() (string, error) { a, err := tr.asks("ann", "add", q); return string(a.ID), err }
	seen := map[string]bool{}
	for round := range 5 {
		q.Reason = fmt.Sprint("round ", round/2) // the request of before, or another one
		ids, err := tr.during(add)
		tr.must(err)
		for _, id := range ids {
			if id != ids[0] || seen[id] {
				t.Fatalf("round %d: one request is the actions %v, and before there were %v", round, ids, seen)
			}
		}
		seen[ids[0]] = true
		jobs, err := tr.during(func() (string, error) {
			for {
				a, err := tr.asks("bob", "approve", api.HoldRequest{ID: api.HoldID(ids[0])})
				if api.CodeOf(err) != api.CodeConflict { // bob's other approval came first, and this one may be repeated
					return string(a.JID), err
				}
			}
		})
		tr.must(err)
		for _, jid := range jobs {
			if jid != jobs[0] || jid == "" {
				t.Fatalf("round %d: the action %s has the jobs %v", round, ids[0], jobs)
			}
		}
	}

	// Who asked is revoked at one server. No master approves it any more, at whatever server.
	id, err := add()
	tr.must(err)
	users, err := bucket.OpenRecords[credential.User](t.Context(), tr.js, wire.BucketUsers, "", "the user")
	tr.must(err)
	_, err = users.Change(t.Context(), "ann", func(u *credential.User) error { u.Revoked = time.Now().UTC(); return nil })
	tr.must(err)
	for range 12 {
		if _, err := tr.asks("bob", "approve", api.HoldRequest{ID: api.HoldID(id)}); err == nil || !strings.Contains(err.Error(), "ann was revoked") {
			t.Errorf("bob approves what ann asked for: %v", err)
		}
	}
}
