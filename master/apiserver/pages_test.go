package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/apiserver"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// A list of people that is larger than a message of the bus comes in pages, which together have each person once.
func TestPeopleBeyondOneMessageComeInPages(t *testing.T) {
	bubble(t, func(t *testing.T, s *system) {
		authority := s.authority(func(context.Context, string) error { return nil })
		s.master("m1", func(o *apiserver.Options) { o.Authority = authority })
		boss := s.client(grants.RoleOperator, "boss")
		const people = 2 * wire.MaxMessage / 2000
		for i := range people {
			_, _, err := authority.Users.Add(t.Context(), credential.UserRequest{
				Name: fmt.Sprintf("p%04d", i), Role: grants.RoleOperator, Public: publicKey(t), TTL: time.Hour,
				Limits: grants.Limits{Target: "L@" + strings.Repeat("host,", 400) + "host"},
			}, "boss")
			if err != nil {
				t.Fatal(err)
			}
		}

		first, err := api.UserList.Ask(t.Context(), boss, api.NamesRequest{})
		if err != nil || first.Next == "" || len(first.Users) == 0 || first.Next != first.Users[len(first.Users)-1].Name {
			t.Fatalf("the first page has %d people, next %q, %v", len(first.Users), first.Next, err)
		}
		all, err := api.All(t.Context(), boss, api.UserList, (*api.UsersAnswer).Page)
		if err != nil || len(all) != people {
			t.Fatalf("%d people, %v", len(all), err)
		}
		for i := range all {
			if want := fmt.Sprintf("p%04d", i); all[i].Name != want {
				t.Fatalf("person %d is %s", i, all[i].Name)
			}
		}
	})
}

func publicKey(t *testing.T) string {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}
