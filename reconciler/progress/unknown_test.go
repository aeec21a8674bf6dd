package progress

import (
	"testing"
	"time"

	"github.com/seed-c01c3da5/zester/peel/wire"
	"github.com/seed-c01c3da5/zester/settings"
	"github.com/seed-c01c3da5/zester/settings/target"
)

func TestUnknownSettingsCountOnlyOfPeelsWithADocument(t *testing.T) {
	p := New(nil, make(chan struct{}, 1), nil)
	first := p.FindUnknown(10, 100, settings.Heads{"a": {Peel: "a"}, "b": {Peel: "b"}, "gone": {}})
	said := func() bool {
		select {
		case <-first:
			return true
		default:
			return false
		}
	}
	for _, c := range []struct {
		what       string
		peel       target.PeelID
		generation uint64
		want       Unknown
		first      bool
	}{
		{"a host from another fleet", "c", 50, Unknown{}, false},
		{"a host without a document", "gone", 50, Unknown{}, false},
		{"what the bus has", "a", 10, Unknown{}, false},
		{"what no master can have written", "a", 100, Unknown{}, false},
		{"what the bus does not know", "a", 20, Unknown{1, "a", 20}, true},
		{"a peel twice", "a", 30, Unknown{1, "a", 30}, false},
		{"another peel", "b", 25, Unknown{2, "a", 30}, false},
	} {
		p.record(wire.Applied{Peel: c.peel, Generation: c.generation}, 1, time.Now())
		if got, first := p.Unknown(), said(); got != c.want || first != c.first {
			t.Errorf("%s: %+v, the first: %v", c.what, got, first)
		}
	}
}
