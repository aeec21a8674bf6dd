package service

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/api"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
)

// TestOnlyWhatWasApprovedIsBegun changes one thing at a time in an action that bob has approved.
func TestOnlyWhatWasApprovedIsBegun(t *testing.T) {
	now := time.Now()
	approved := func() (*api.HoldAction, *Call) {
		a := &api.HoldAction{By: "ann", State: api.HoldApproved, DecidedBy: "bob", DecidedAt: now, Expires: now.Add(time.Hour)}
		a.Kind, a.Verb, a.Data = api.HoldSecond, "sync.pin", []byte("{\"commit\":\"c0ffee\"}")
		return a, &Call{From: grants.Caller{User: "bob"}, Data: []byte("{\"commit\":\"c0ffee\"}")}
	}
	for what, change := range map[string]func(*api.HoldAction, *Call){
		"other data":            func(_ *api.HoldAction, c *Call) { c.Data = []byte("{\"commit\":\"c0ffed\"}") },
		"another verb":          func(a *api.HoldAction, _ *Call) { a.Verb = "sync.remove" },
		"another kind":          func(a *api.HoldAction, _ *Call) { a.Kind = "" },
		"who asked begins it":   func(_ *api.HoldAction, c *Call) { c.From.User = "ann" },
		"nobody has decided":    func(a *api.HoldAction, _ *Call) { a.State = api.HoldOpen },
		"it was begun":          func(a *api.HoldAction, _ *Call) { a.Begun = now },
		"it expired long ago":   func(a *api.HoldAction, _ *Call) { a.Expires, a.DecidedAt = now.Add(-time.Hour), now.Add(-2*time.Hour) },
		"approved and then old": func(a *api.HoldAction, _ *Call) { a.Expires, a.DecidedAt = now.Add(-1), now.Add(-2*BeginWithin) },
	} {
		a, c := approved()
		change(a, c)
		if err := checkApproved(a, c, "sync.pin"); err == nil {
			t.Errorf("%s: it may begin", what)
		}
	}
	a, c := approved()
	if err := checkApproved(a, c, "sync.pin"); err != nil {
		t.Error(err)
	}
	if a.Expires = now.Add(-1); checkApproved(a, c, "sync.pin") != nil {
		t.Error("what was approved just before its end may not begin")
	}
}
