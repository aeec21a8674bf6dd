package apiserver_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// answers has a peel answer direct requests with what its functions are named after.
func (s *system) answers(id target.PeelID) {
	s.t.Helper()
	nc := s.bus.Conn(s.t, grants.RolePeel, id.Wire())
	_, err := nc.Subscribe(wire.Direct(id.Wire(), "*"), func(msg *nats.Msg) {
		r, user, err := wire.DecodeDirect(msg)
		if err != nil {
			s.t.Error(err)
			return
		}
		a := wire.DirectAnswer{Peel: id, Result: wire.Result{Success: true, Data: user + " " + r.ID}, V: wire.Version}
		switch r.Function {
		case "be.silent":
			return
		case "be.another":
			a.Peel = "another"
		case "be.newer":
			a.V++
		}
		data, err := canon.Marshal(a)
		if err == nil {
			err = msg.Respond(data)
		}
		if err != nil {
			s.t.Error(err)
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func TestAPeelIsAskedDirectlyWithoutAMaster(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.answers("web.01")
		c := s.client(grants.RoleDirect, "dan")
		got, err := c.Direct(t.Context(), "web.01", wire.DirectRequest{Function: "test.echo", ID: "hello", TimeLeft: time.Minute})
		if err != nil || !got.Success || got.Data != "dan hello" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := c.Resolve(t.Context(), "*"); api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("there is a master: %v", err)
		}
	})
}

func TestWhyAPeelGaveNoDirectAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		s.answers("web.01")
		dan, ann := s.client(grants.RoleDirect, "dan"), s.client(grants.RoleOperator, "ann")
		for _, c := range []struct {
			client   *api.Client
			peel     target.PeelID
			function string
			code     api.Code
			is       error
		}{
			{dan, "web.02", "test.ping", api.CodeUnavailable, api.ErrNotConnected},
			{dan, "web.01", "be.silent", api.CodeUnavailable, api.ErrNoAnswer},
			{dan, "web.01", "be.another", api.CodeUnavailable, wire.ErrForged},
			{dan, "web.01", "be.newer", api.CodeUnavailable, nil},
			{ann, "web.01", "test.ping", api.CodeDenied, nil},
		} {
			began := time.Now()
			got, err := c.client.Direct(t.Context(), c.peel, wire.DirectRequest{Function: c.function, TimeLeft: time.Minute})
			if err == nil || api.CodeOf(err) != c.code || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%s on %s: %+v, %v", c.function, c.peel, got, err)
			}
			if waited := time.Since(began); waited > time.Second && c.function != "be.silent" {
				t.Errorf("%s on %s: an answer after %v", c.function, c.peel, waited)
			}
		}
		_, err := dan.Direct(t.Context(), "web.01", wire.DirectRequest{Function: "test.echo", ID: string(make([]byte, 1<<20)), TimeLeft: time.Minute})
		if api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("more than the bus carries: %v", err)
		}
	})
}
