package auth_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/master/auth/access"
	"github.com/seed-c01c3da5/zester/master/auth/grants"
	"github.com/seed-c01c3da5/zester/master/auth/token"
	"github.com/seed-c01c3da5/zester/master/natsd/natstest"
	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// before is what a fleet had stored of its people and tokens when roles were fixed, as the encoder of then wrote it, and
// what they could do.
type before struct {
	Users  map[string][]byte          `json:"users"`
	Tokens map[string][]byte          `json:"tokens"`
	Verbs  []string                   `json:"verbs"` // there were
	May    map[string][]string        `json:"may"`   // of them each person could send
	Jobs   map[string]map[string]bool `json:"jobs"`  // FUNCTION PEEL, by person or token; "all" are three peels
}

// TestPeopleAndTokensOfBeforeRulesKeepTheirPower reads stored people and tokens of before there were rules, and compares
// what they may do with what they could do then: each request, and jobs on peels inside and outside limits.
func TestPeopleAndTokensOfBeforeRulesKeepTheirPower(t *testing.T) {
	text, err := os.ReadFile("testdata/before_rules.json")
	if err != nil {
		t.Fatal(err)
	}
	var was before
	if err := json.Unmarshal(text, &was); err != nil {
		t.Fatal(err)
	}
	natstest.Bubble(t, func(t *testing.T, b *natstest.Bus) {
		js := b.JetStream(t)
		for name, records := range map[string]map[string][]byte{wire.BucketUsers: was.Users, wire.BucketTokens: was.Tokens} {
			for key, value := range records {
				if _, err := bucket(t, js, name).Create(t.Context(), key, value); err != nil {
					t.Fatal(err)
				}
			}
		}
		people := users(t, b)
		tokens, err := token.Open(t.Context(), js)
		if err != nil {
			t.Fatal(err)
		}
		all, err := people.List(t.Context())
		if err != nil || len(all) != len(was.Users) || len(all) < 6 {
			t.Fatalf("%d of %d people are read: %v", len(all), len(was.Users), err)
		}
		compared := 0
		for _, p := range all {
			caller := grants.Caller{User: p.Name, Role: p.Role}
			for _, verb := range was.Verbs {
				compared++
				err := people.Check(t.Context(), caller, access.Verb(verb))
				// Whoever was revoked has no connection; the status of a master is shown to who has one.
				if could := slices.Contains(was.May[p.Name], verb); (err == nil) != could && (p.Revoked.IsZero() || verb != "master.show") {
					t.Errorf("%s, a %s, could send %s: %v, and now: %v", p.Name, p.Role, verb, could, err)
				}
			}
			was.compareJobs(t, p.Name, func(on access.On) error { return people.Allow(t.Context(), caller, on, onWeb) })
		}
		for key := range was.Tokens {
			was.compareJobs(t, "token:"+key, func(on access.On) error { return tokens.Allow(t.Context(), key, on.Function, on.Peels, onWeb) })
		}
		if compared < 500 || len(was.Tokens) < 5 {
			t.Errorf("%d requests, %d tokens", compared, len(was.Tokens))
		}
	})
}

// threePeels are the peels of the jobs, of which web-* selects the last two.
var threePeels = []target.PeelID{"db-01", "web-01", "web-02"}

func onWeb(_ context.Context, expr string) ([]target.PeelID, error) {
	if expr == "web-*" {
		return threePeels[1:], nil
	}
	return threePeels, nil
}

func (w *before) compareJobs(t *testing.T, name string, allow func(access.On) error) {
	t.Helper()
	if len(w.Jobs[name]) == 0 {
		t.Errorf("%s is not in the file", name)
	}
	isToken := strings.HasPrefix(name, "token:")
	for _, call := range slices.Sorted(maps.Keys(w.Jobs[name])) {
		on := access.On{Peels: threePeels}
		for _, id := range append(slices.Clone(threePeels), "all") {
			if function, ok := strings.CutSuffix(call, " "+string(id)); ok {
				on.Function = function
				if id != "all" {
					on.Peels = []target.PeelID{id}
				}
			}
		}
		could := w.Jobs[name][call] && (isToken || slices.Contains(w.May[name], "job.dispatch"))
		if err := allow(on); (err == nil) != could {
			t.Errorf("%s could run %s: %v, and now: %v", name, call, could, err)
		}
	}
}
