//go:build ui

package console_test

import (
	"fmt"
	"testing"
)

// TestBrowserAtEachSize opens each page of fleets without peels, and of up to 10,000 with 20 entries each.
func TestBrowserAtEachSize(t *testing.T) {
	c := startChrome(t)
	for _, n := range []int{0, 3, 1000, 10_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			f := newFleetOf(t, crowdRepo())
			f.repo = f.work.Dir()
			f.start(t)
			f.crowd(t, n)
			pages := append([]sight{{"/", "now", "verdict part"}, {"/peels", "peels", "part"}, {"/timeline", "timeline", "part"}}, quietPages...)
			if n > 0 {
				pages = append(quietPages, crowdPages...)
			}
			for _, l := range []look{{width: 1440}, {width: 390, dark: true}} {
				b := c.tab(t, f, l, nil)
				b.login("ann", l)
				for _, s := range pages {
					b.look(sight{s.path, s.name, s.ids}, s.path, l)
				}
			}
			ann := f.login(t, "ann")
			for _, s := range pages {
				t.Logf("%s: %d bytes", s.path, ann.small(s.path))
			}
		})
	}
}
