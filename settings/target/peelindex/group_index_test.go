package peelindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestNodeGroupsSelectAsAFullScanAfterEveryChange asks the same parsed
// expressions again after each change, so that nothing an answer leaves behind
// in the index may outlive the facts it came from.
func TestNodeGroupsSelectAsAFullScanAfterEveryChange(t *testing.T) {
	const rounds = 40
	nonEmpty := 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 3))
		exprs := randomGroupExprs(t, r)
		w := world{New(), map[target.PeelID]target.Peel{}, map[target.PeelID]map[string]any{}}
		for step := range 60 {
			w.change(r)
			for _, e := range exprs {
				want := scan(w.peels, e)
				nonEmpty += min(len(want), 1)
				if got := w.ix.Select(e); !slices.Equal(got, want) {
					t.Fatalf("seed %d, step %d: %s selects %v, a scan finds %v", seed, step, e, got, want)
				}
			}
		}
	}
	if nonEmpty < rounds*60 {
		t.Errorf("only %d answers name a peel", nonEmpty)
	}
}

// randomGroupExprs are expressions over node groups, one of which uses another.
func randomGroupExprs(t *testing.T, r *rand.Rand) []*target.Expr {
	t.Helper()
	groups, errs := target.ParseGroups(map[string][]string{
		"one": {randomExpr(r, 2)},
		"two": {"( N@one ) or " + randomExpr(r, 1)},
		"ids": {"p-1", "p-1", "p-30", "nobody"},
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var exprs []*target.Expr
	for _, text := range []string{"N@one", "not N@two", "N@ids", "N@two and not N@ids", "N@ids or " + randomExpr(r, 2)} {
		e, err := target.Parse(text, target.Options{Groups: groups})
		if err != nil {
			t.Fatal(err)
		}
		exprs = append(exprs, e)
	}
	return exprs
}

// change adds, updates or removes one peel, or what it was given.
func (w *world) change(r *rand.Rand) {
	id := target.PeelID(fmt.Sprint("p-", r.IntN(40)))
	p, member := w.peels[id]
	switch r.IntN(6) {
	case 0:
		w.ix.Remove(id)
		delete(w.peels, id)
	case 1:
		w.settings[id] = randomMap(r, 4)
		w.ix.PutSettings(id, w.settings[id])
		if p.Settings = w.settings[id]; member {
			w.peels[id] = p
		}
	default:
		facts := randomFacts(r)
		w.ix.Put(id, facts)
		w.peels[id] = target.Peel{ID: id, Facts: facts, Settings: w.settings[id]}
	}
}
