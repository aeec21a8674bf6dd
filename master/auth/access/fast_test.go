//go:build !race

package access

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

// TestADecisionIsFast takes the fastest of a few rounds: others use the processor, too.
func TestADecisionIsFast(t *testing.T) {
	rules, people := largeTable()
	table := NewTable(rules)
	on := On{Function: "cmd.run", Selected: map[string][]target.PeelID{"web-*": {"web-1", "web-2"}}, Peels: []target.PeelID{"web-1"}}
	const round = 100
	fastest := time.Hour
	for i := 0; i < len(people); i += round {
		began := time.Now()
		for _, p := range people[i : i+round] {
			Decide(table.Of(p), p, Dispatch, on)
		}
		fastest = min(fastest, time.Since(began)/round)
	}
	if fastest >= 50*time.Microsecond {
		t.Errorf("a decision about one of %d people by %d rules takes %v, and 50 µs are promised", len(people), len(rules), fastest)
	}
}
