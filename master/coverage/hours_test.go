package coverage

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/seed-c01c3da5/zester/master/coverage/join"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

func TestVerdictsAreUnpackedAsTheyWerePacked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		entries := make([][]join.Hour, r.IntN(5))
		for i := range entries {
			hour := int64(490_000)
			for range r.IntN(30) {
				hour += 1 + r.Int64N(3)
				h := join.Hour{Hour: hour, Counts: verdict.Counts{Expected: r.Uint64N(3), Ran: r.Uint64N(2) * 300, Unexpected: r.Uint64N(2)}, Pending: r.Uint64N(2)}
				for range r.IntN(3) {
					h.Reasons = append(h.Reasons, join.Reason{Verdict: join.Verdict(r.IntN(6)), Why: reasons[r.IntN(len(reasons))], N: r.Uint64N(300)})
				}
				entries[i] = append(entries[i], h)
			}
		}
		if got := unpack(pack(entries), len(entries)); !reflect.DeepEqual(got, entries) {
			t.Fatalf("%v\nbecame\n%v", entries, got)
		}
	}
}
