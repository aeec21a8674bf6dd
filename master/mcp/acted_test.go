package mcp

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestTheLimitIsOfPeelsInAnHour(t *testing.T) {
	noon, a := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), newActed()
	for _, c := range []struct {
		name, owner string
		after       time.Duration
		peels       []target.PeelID
		want        bool
	}{
		{"up to the limit", "ci", 0, []target.PeelID{"a", "b"}, true},
		{"a third peel", "ci", time.Minute, []target.PeelID{"c"}, false},
		{"the same peels", "ci", 10 * time.Minute, []target.PeelID{"b", "a"}, true},
		{"another owner", "robot", 20 * time.Minute, []target.PeelID{"c", "d"}, true},
		{"more than the limit at once", "ada", 20 * time.Minute, []target.PeelID{"a", "b", "c"}, false},
		{"an hour after the first action on two peels, which was repeated since", "ci", time.Hour, []target.PeelID{"c"}, false},
		{"an hour after the last action on them", "ci", 70 * time.Minute, []target.PeelID{"c"}, true},
		{"one more peel", "ci", 71 * time.Minute, []target.PeelID{"d"}, true},
		{"too many again", "ci", 72 * time.Minute, []target.PeelID{"a"}, false},
	} {
		if got := a.take(c.owner, c.peels, 2, noon.Add(c.after)); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
	if a.take("ada", nil, 2, noon.Add(100*time.Hour)); len(a.byOwner) > 1 || len(a.byOwner["ada"]) > 0 {
		t.Errorf("after days without an action %v is remembered", a.byOwner)
	}
}
