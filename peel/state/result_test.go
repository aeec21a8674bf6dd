//go:build linux

package state

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/seed-c01c3da5/zester/peel/state/host"
)

func TestAResultIsMadeToFit(t *testing.T) {
	large := func() *Result {
		r := &Result{Counts: Counts{Changed: 300, Unchanged: 100}}
		for i := range 400 {
			o := Outcome{State: fmt.Sprint("state", i), Result: Unchanged}
			if i%4 != 0 {
				o.Result, o.Comment = Changed, strings.Repeat("c", 1000)
				o.Changes = []host.Change{{Do: "write", What: "/etc/x", Diff: strings.Repeat("d", 1000)}}
			}
			r.States = append(r.States, o)
		}
		return r
	}
	for _, c := range []struct {
		limit                  int
		diffs, comments, whole bool
		states                 int
	}{
		{1 << 20, true, true, true, 400},
		{500_000, false, true, true, 400},
		{200_000, false, false, true, 400},
		{125_000, false, false, false, 300},
		{100_000, false, false, false, 150},
		{0, false, false, false, 0},
	} {
		r := large()
		r.Fit(c.limit)
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if len(data) > c.limit && c.limit > 0 || len(r.States) != c.states {
			t.Errorf("limit %d: %d bytes with %d states, want %d", c.limit, len(data), len(r.States), c.states)
		}
		if strings.Contains(text, "dddd") != c.diffs || c.states > 0 && strings.Contains(text, strings.Repeat("c", 201)) != c.comments {
			t.Errorf("limit %d: diffs %v, comments %v are wrong", c.limit, c.diffs, c.comments)
		}
		if !c.diffs && c.states > 0 && !strings.Contains(text, "left out") {
			t.Errorf("limit %d: no mark", c.limit)
		}
		if wantLeftOut := 300 - c.states; c.states < 300 && r.LeftOut != wantLeftOut {
			t.Errorf("limit %d: %d states are said to be left out, want %d", c.limit, r.LeftOut, wantLeftOut)
		}
	}
}
