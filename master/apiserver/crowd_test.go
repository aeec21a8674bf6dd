package apiserver_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/canon"
)

// TestTenThousandPeople, with 496 rules about them, asks who may do something, and revokes somebody who is out a second
// later, with all of the others.
func TestTenThousandPeople(t *testing.T) {
	const people = 10_000
	bubble(t, func(t *testing.T, s *system) {
		o := s.accessMaster()
		f, users := &fleetOfRoles{s, s.client(grants.RoleOperator, "boss")}, o.Authority.Users
		for r := range 8 {
			var text strings.Builder
			text.WriteString("groups: [everybody]\nallow:\n  - {verbs: [job.list]}\n")
			for i := range 61 {
				fmt.Fprintf(&text, "  - {verbs: [job.dispatch], target: 'web-%d', functions: [test.*]}\n", 61*r+i)
			}
			f.set(fmt.Sprintf("role-%d", r), text.String())
		}
		mia := s.addPerson(o, credential.UserRequest{Name: "mia", Role: grants.RoleMember, Roles: []string{"role-0"}, Groups: []string{"everybody"}})
		kv, err := f.bus.JetStream(t).KeyValue(t.Context(), wire.BucketUsers)
		if err != nil {
			t.Fatal(err)
		}
		for i := range people {
			u := credential.User{
				Name: fmt.Sprintf("p%05d-of-the-department-of-long-names", i), Role: grants.RoleMember, Groups: []string{"everybody"}, CreatedBy: "mia",
				Keys: []credential.Key{{Public: fmt.Sprintf("U%05d", i)}}, Created: time.Now(),
			}
			data, err := canon.Marshal(u)
			if err == nil {
				_, err = kv.Put(t.Context(), u.Name, data)
			}
			if err != nil {
				t.Fatal(err)
			}
		}

		who := map[string]bool{}
		pages := 0
		for q := (api.AccessRequest{Verb: "job.list"}); pages == 0 || q.After != ""; pages++ {
			page, err := api.AccessList.Ask(t.Context(), f.boss, q)
			if err != nil || len(page.People) == 0 {
				t.Fatalf("%d people in page %d: %v", len(page.People), pages, err)
			}
			for _, p := range page.People {
				if who[p.Name] {
					t.Fatalf("%s is listed twice", p.Name)
				}
				who[p.Name] = true
			}
			q.After = page.Next
		}
		if pages < 2 || !who["p00000-of-the-department-of-long-names"] || !who["p09999-of-the-department-of-long-names"] || !who["mia"] || len(who) < people {
			t.Errorf("%d people in %d pages", len(who), pages)
		}

		if _, err := api.JobList.Ask(t.Context(), mia, job.Query{}); err != nil {
			t.Error(err)
		}
		if _, err := users.RevokeAll(t.Context(), "mia", "boss"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, err = api.JobList.Ask(t.Context(), mia, job.Query{})
		wantAllowed(t, "mia, who was revoked", false, err)
		if err := users.Store.CheckNotRevoked(t.Context(), "p05000-of-the-department-of-long-names"); !errors.Is(err, grants.ErrNotAllowed) {
			t.Errorf("whom mia made: %v", err)
		}
	})
}
