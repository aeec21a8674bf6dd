package alert

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/master/coverage/cause"
	"github.com/seed-c01c3da5/zester/master/coverage/verdict"
)

// There are 100 lasting problems, more than causes can be computed in a minute, and two new ones in each step. Still the cause of each
// lasting problem is computed, and computed again.
func TestEveryCauseIsFoundInItsTurn(t *testing.T) {
	found := map[string]int{}
	c := causes{of: func(_ verdict.Kind, entry string) cause.Finding {
		found[entry]++
		return cause.Finding{Commit: "9b1c8f0e", Text: "likely commit 9b1c8f0e"}
	}}
	now := time.Date(2026, 6, 1, 9, 0, 0, 0, time.UTC)
	const lasting = 100
	for step := range 720 { // an hour
		var all []verdict.Problem
		for i := range 2 { // by name before the others
			all = append(all, verdict.Problem{Kind: verdict.Failed, Entry: fmt.Sprintf("a-fresh-%03d-%d", step, i), Peel: "liar"})
		}
		for i := range lasting {
			all = append(all, verdict.Problem{Kind: verdict.Failed, Entry: fmt.Sprintf("lasts-%03d", i), Peel: "db-1", Text: "exit code 3"})
		}
		before := len(found)
		c.tell(all, now)
		if n := len(found) - before; n > causesEach {
			t.Fatalf("%d causes in one step", n)
		}
		if last := all[len(all)-1]; step > lasting && last.Text != "exit code 3; likely commit 9b1c8f0e" {
			t.Fatalf("step %d: the last problem says %q", step, last.Text)
		}
		if len(c.known) != len(all) {
			t.Fatalf("%d causes are kept of %d problems", len(c.known), len(all))
		}
		now = now.Add(stepEvery)
	}
	for i := range lasting {
		if n := found[fmt.Sprintf("lasts-%03d", i)]; n < 20 || n > 40 {
			t.Errorf("the cause of problem %d was found %d times in an hour", i, n)
		}
	}
}
