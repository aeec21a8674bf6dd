package master_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/credential"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/bucket"
	"github.com/seed-c01c3da5/zester/master/job"
	"github.com/seed-c01c3da5/zester/peel/wire"
)

// TestWhatAMasterBeganBeforeItDiedIsNotBegunAgain leaves the record of an action as a master does that dies after it
// noted the beginning of the request and before it carried that out.
func TestWhatAMasterBeganBeforeItDiedIsNotBegunAgain(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		ann, bob := p.madeBy("root", "ann", grants.Limits{}), p.madeBy("root", "bob", grants.Limits{})
		_, _, err := ann.TokenCreate(t.Context(), credential.TokenRequest{
			Name: "ci", Scopes: []credential.Scope{credential.ScopeRead},
		})
		id, waits := api.HeldAs(err)
		if !waits {
			t.Fatal(err)
		}
		actions, err := bucket.OpenRecords[api.HoldAction](t.Context(), p.js, wire.BucketHeld, "action.", "the held action")
		if err != nil {
			t.Fatal(err)
		}
		_, err = actions.Change(t.Context(), string(id), func(a *api.HoldAction) error {
			a.State, a.DecidedBy, a.DecidedAt = api.HoldApproved, "bob", time.Now().UTC()
			a.Begun = time.Now().UTC()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.approve(bob, id, nil)
		refusedFor(t, "bob approves again", err, api.CodeConflict, "was approved by bob")
		refusedFor(t, "a copy of the request", p.heldRequest(bob, id, "token.create"), api.CodeConflict, "not carried out twice")
		if a, err := api.HoldShow.Ask(t.Context(), bob, api.HoldRequest{ID: id}); err != nil || !a.Dispatched || a.Answer != nil {
			t.Errorf("the action is %+v, %v", a, err)
		}
		list, err := api.TokenList.Ask(t.Context(), ann, api.NamesRequest{})
		if err != nil || len(list.Tokens) != 0 {
			t.Errorf("the tokens are %+v, %v", list, err)
		}
	})
}

// TestAChangedRuleHoldsWithinASecond asks each of two masters until both have read a rule, and until both have lost it.
func TestAChangedRuleHoldsWithinASecond(t *testing.T) {
	atPair(t, func(t *testing.T, p *pair) {
		ann, local := p.madeBy("root", "ann", grants.Limits{}), p.people(credential.LocalUser)
		asks := func() (denied int) {
			for range 20 { // any master answers
				_, err := api.JobList.Ask(t.Context(), ann, job.Query{})
				if err != nil && !strings.Contains(err.Error(), "denies job.list") {
					t.Fatal(err)
				}
				if err != nil {
					denied++
				}
			}
			return denied
		}
		if n := asks(); n != 0 {
			t.Fatalf("%d of 20 are denied before there is a rule", n)
		}
		rule := credential.RoleRequest{Name: "no-list", Text: "people: [ann]\ndeny: [{verbs: [job.list]}]"}
		if _, err := api.RoleSet.Ask(t.Context(), local, rule); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := asks(); n != 20 {
			t.Errorf("%d of 20 are denied a second after the rule", n)
		}
		if _, err := api.RoleRemove.Ask(t.Context(), local, api.RoleName{Name: "no-list"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if n := asks(); n != 0 {
			t.Errorf("%d of 20 are denied a second after the rule has gone", n)
		}
	})
}
