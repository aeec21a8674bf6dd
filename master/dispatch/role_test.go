package dispatch_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/user"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/dispatch"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// people has masters decide by the people of the bus. Each target of limits selects the peels first and late.
func (s *system) people() (*user.Store, func(*dispatch.Options)) {
	s.t.Helper()
	all, err := user.Open(s.t.Context(), s.js)
	if err != nil {
		s.t.Fatal(err)
	}
	selects := func(context.Context, string) ([]target.PeelID, error) { return []target.PeelID{"first", "late"}, nil }
	return all, func(o *dispatch.Options) {
		o.Allow = func(ctx context.Context, from grants.Caller, spec *job.Spec) error {
			return all.Allow(ctx, from, access.On{Function: spec.Function, Peels: spec.Targets}, selects)
		}
	}
}

// halfBatch has a person dispatch a job to the peels first and late, one after the other. finish lets the first end.
func (s *system) halfBatch(role grants.Role, name string) (spec job.Spec, finish func()) {
	s.t.Helper()
	var done atomic.Pointer[func()]
	s.peel("first", func(p *peel, r wire.Request) {
		p.ack(r)
		end := func() { p.result(r, wire.Result{Success: true}) }
		done.Store(&end)
	})
	s.peel("late", pong)
	spec = ask(func(j *job.Spec) { j.Batch = &job.Batch{Size: 1} }, "first", "late")
	if _, err := s.request(s.bus.Conn(s.t, role, name), name, spec); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(10 * time.Second)
	return spec, func() { (*done.Load())() }
}

// TestAJobGoesOnInTheRoleOfItsDispatch has somebody log in with a new role while a job of an earlier login runs.
func TestAJobGoesOnInTheRoleOfItsDispatch(t *testing.T) {
	for _, role := range []grants.Role{grants.RoleAuditor, grants.RoleMember} {
		t.Run(string(role), func(t *testing.T) {
			bubble(t, func(t *testing.T, s *system) {
				users, allows := s.people()
				s.master("m1", allows)
				ada := user.Known{Name: "ada", Role: grants.RoleOperator, At: credential.Login{Issuer: "https://id.example.com", Subject: "1"}}
				if err := users.Bind(t.Context(), ada); err != nil {
					t.Fatal(err)
				}
				spec, finish := s.halfBatch(grants.RoleOperator, "ada")
				ada.Role = role
				if err := users.Bind(t.Context(), ada); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				finish()
				time.Sleep(time.Minute)
				if j := s.record(spec.JID); j.Status != job.Complete || j.Role != grants.RoleOperator {
					t.Errorf("%s in the role %s, %+v", j.Status, j.Role, j.Cancel)
				}
			})
		})
	}
}

// TestAJobStopsIfTheLimitsOfItsUserAreLost has the bucket lose the record of somebody with limits while a job runs.
func TestAJobStopsIfTheLimitsOfItsUserAreLost(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		_, allows := s.people()
		records, err := bucket.OpenRecords[credential.User](t.Context(), s.js, wire.BucketUsers, "", "the user")
		if err != nil {
			t.Fatal(err)
		}
		err = records.Create(t.Context(), "lee", credential.User{Name: "lee", Role: grants.RoleLimited, Limits: grants.Limits{Target: "*"}})
		if err != nil {
			t.Fatal(err)
		}
		s.master("m1", allows)
		spec, finish := s.halfBatch(grants.RoleLimited, "lee")
		kv, err := s.js.KeyValue(t.Context(), wire.BucketUsers)
		if err != nil {
			t.Fatal(err)
		}
		if err := kv.Purge(t.Context(), "lee"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		finish()
		time.Sleep(time.Minute)
		j := s.record(spec.JID)
		if j.Status != job.Canceled || j.Cancel == nil || !strings.Contains(j.Cancel.Reason, "the limits of lee are not known here") || s.sent("late") != 0 {
			t.Errorf("%s, %+v, and late has %d requests", j.Status, j.Cancel, s.sent("late"))
		}
	})
}

// TestAJobThatAMasterAskedForGoesOnWhateverTheRoleOfItsUser has a master ask for an auditor, as for `zester why`.
func TestAJobThatAMasterAskedForGoesOnWhateverTheRoleOfItsUser(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		users, allows := s.people()
		ada := user.Known{Name: "ada", Role: grants.RoleAuditor, At: credential.Login{Issuer: "https://id.example.com", Subject: "1"}}
		if err := users.Bind(t.Context(), ada); err != nil {
			t.Fatal(err)
		}
		m1, _ := s.master("m1", allows)
		s.peel("late", nil)
		spec := ask(nil, "late")
		if _, err := m1.Submit(t.Context(), spec, "ada"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if j := s.record(spec.JID); j.Cancel != nil || s.sent("late") != 2 {
			t.Errorf("%+v, and late has %d requests", j.Cancel, s.sent("late"))
		}
	})
}
