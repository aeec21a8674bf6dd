package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings/target"
)

// wouldChange makes the return of a peel whose states would change, but for the first ones, which are unchanged.
func wouldChange(states, unchanged int, what string) *wire.Result {
	outcomes := make([]any, states)
	for i := range outcomes {
		one := map[string]any{"state": fmt.Sprintf("state-%d", i), "function": "file.managed", "result": "unchanged"}
		if i >= unchanged {
			one["result"], one["cause"] = "would_change", "drift"
			one["changes"] = []any{map[string]any{"do": "write", "what": what + fmt.Sprint("/etc/f", i)}}
		}
		outcomes[i] = one
	}
	counts := map[string]any{"unchanged": unchanged, "would_change": states - unchanged}
	return &wire.Result{Data: map[string]any{"counts": counts, "states": outcomes}}
}

// Equal differences of peels are one row, and a peel that differs by its own has one more.
func TestDifferencesAreGrouped(t *testing.T) {
	t.Parallel()
	peels := []target.PeelID{"a", "b", "c", "d", "silent"}
	f := newDifferences(peels)
	f.add("a", wouldChange(10, 8, ""))
	f.add("b", wouldChange(10, 8, ""))
	f.add("c", wouldChange(10, 9, "/own"))
	f.add("d", wouldChange(10, 10, ""))
	var rows []string
	for _, one := range f.All {
		rows = append(rows, fmt.Sprint(one.State, " ", one.Cause, " ", one.What, " ", one.Peels))
	}
	want := "state-8 drift write /etc/f8 [a b]\nstate-9 drift write /etc/f9 [a b]\nstate-9 drift write /own/etc/f9 [c]"
	if got := strings.Join(rows, "\n"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if fmt.Sprint(f.Same, f.Silent) != "[d] [silent]" || f.Counts["unchanged"] != 35 || f.Counts["would_change"] != 5 {
		t.Error(f.Same, f.Silent, f.Counts)
	}
}

// BenchmarkDifferences groups what 200 peels with 2,000 states each return: a tenth of the states would change on all of
// them, with the same changes.
func BenchmarkDifferences(b *testing.B) {
	const states, hosts = 2000, 200
	result := wouldChange(states, states-states/10, "")
	peels := make([]target.PeelID, hosts)
	for i := range peels {
		peels[i] = target.PeelID(fmt.Sprintf("web-%03d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		f := newDifferences(peels)
		for _, id := range peels {
			f.add(id, result)
		}
		if len(f.All) != states/10 || len(f.All[0].Peels) != hosts {
			b.Fatal(len(f.All))
		}
	}
}
