package spelling

import (
	"strings"
	"testing"
)

func TestDistanceCountsEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		most int
		want int // -1: more than most
	}{
		{"", "", 0, 0},
		{"cron", "cron", 0, 0},
		{"crom", "cron", 2, 1},
		{"cro", "cron", 2, 1},
		{"crron", "cron", 2, 1},
		{"cnro", "cron", 2, 2},
		{"corn", "cron", 1, 1}, // two neighbours swapped
		{"intervall", "interval", 3, 1},
		{"crom", "cron", 0, -1},
		{"abcd", "wxyz", 3, -1},
		{"a", "abcd", 2, -1},
		{strings.Repeat("x", 129), strings.Repeat("x", 129), 2, -1},
	} {
		for _, pair := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			got, ok := Distance(pair[0], pair[1], c.most)
			if !ok {
				got = -1
			}
			if got != c.want {
				t.Errorf("Distance(%.20q, %.20q, %d) = %d, want %d", pair[0], pair[1], c.most, got, c.want)
			}
		}
	}
}
